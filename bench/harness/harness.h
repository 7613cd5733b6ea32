/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The harness every kernel in bench/ is built on: options, rounds, verification, output.
 *
 * A kernel declares rows. A row is one contender with one set of parameters. In every round each
 * row has one turn, in an order that turns from round to round:
 *
 *   start        threads are created, child processes continued      not timed
 *   run          a batch whose time is thrown away                   warm-up
 *   run          a batch of 0.1 to 1 ms                              the sample of this round
 *   stop         threads joined, child processes stopped             not timed
 *
 * So at most one row has anything running at any time, and a row's sample and its limit's sample
 * come from the same round; a ratio is the median over rounds of those quotients. Rows whose batch
 * takes seconds may do without a warm-up and skip rounds, but not the first. Each batch says how many
 * iterations its own counters prove; any other number than was asked for ends the run.
 *
 * How far it is, round and row, stands on standard error: on a terminal all the time, elsewhere as a
 * line after every ten seconds.
 *
 * After every row was opened, the caller is bound to the first processor of the row whose turn it
 * is: of --cpus, or its own. Rows that start another runtime do it in `open`, so that its threads do
 * not inherit that mask.
 */
#ifndef UMBRA_BENCH_HARNESS_H
#define UMBRA_BENCH_HARNESS_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define BENCH_MAX_CPUS 256
#define BENCH_COUNTS 10       /* powers of two up to that, and one more */
#define BENCH_LINES_ALIGN 128 /* two lines: some processors fetch them in pairs */
#define BENCH_LINES_BYTES 4096
#define BENCH_PATH_BYTES 4096

#ifdef __cplusplus
extern "C" {
#endif

/* Exit statuses of every kernel. */
enum bench_exit {
    BENCH_OK = 0,
    BENCH_FAILED = 1,  /* a result was wrong, or something that should work did not */
    BENCH_USAGE = 2,   /* an unknown option, contender or processor */
    BENCH_SKIPPED = 77 /* this machine cannot run the kernel */
};

struct bench;
struct bench_row;
struct umbra_topology;

struct bench_batch {
    uint64_t iterations; /* in: how many to run, at least 1 */
    uint64_t ns;         /* out: time they took, on bench_now_ns(); or an amount in row->unit */
    uint64_t verified;   /* out: parts the work itself counted; must equal iterations * parts */
};

/* What a row does. All but run may be NULL. Those that return int: 0 or a negative errno. */
struct bench_ops {
    int (*open)(struct bench_row *row); /* once, caller not bound yet; failing leaves the row out */
    int (*start)(struct bench_row *row);
    int (*run)(struct bench_row *row, struct bench_batch *batch);
    void (*stop)(struct bench_row *row);
    void (*close)(struct bench_row *row); /* after an open that succeeded */
};

struct bench_row {
    /* Set by the kernel in `declare`; params and reason also in `open`. */
    const char *name;            /* contender, as in shared naming: lower case and dashes */
    const struct bench_ops *ops; /* NULL: the row is the best of those that are part_of it */
    const void *arg;             /* for ops: what tells rows with the same ops apart */
    struct bench_row *limit;     /* what the ratio refers to, or NULL */
    struct bench_row *part_of;   /* row without ops of which this is one variant, or NULL */
    const char *unit;            /* "ns" unless set */
    uint64_t parts;   /* equal things an iteration does, a sample is of one; 1 unless set */
    uint64_t batch;   /* iterations of every batch; 0: as many as take 0.1 to 1 ms; the kernel's
                         unless set */
    unsigned every;   /* has a turn in the first of so many rounds alone; 1 unless set: in all */
    bool cold;        /* no batch to warm up: one takes seconds, in which start-up is lost */
    bool hidden;      /* has its turns, but no line in the output */
    json_t *params;   /* object; "cpus" is there already */
    char reason[160]; /* why the row cannot run here; set by an open that fails */

    void *state; /* for ops */
    int cpus[2]; /* between which it is; the first of --cpus unless bench_place was called */

    /* Set by the harness. */
    struct bench *bench;
    bool runs;           /* takes part in the rounds */
    bool shown;          /* has a line in the output */
    uint64_t iterations; /* of the next batch */
    double *samples;     /* one a round: unit a part; NaN where it had no turn */
};

struct bench_kernel {
    const char *name;  /* as in the executable's name */
    const char *about; /* one line for --help and the table */
    unsigned cpus;     /* how many processors it uses */
    bool all_cpus;     /* at least so many: all that --cpus names, or that it may use */
    unsigned rounds;   /* by default */
    unsigned rounds_quick;
    uint64_t batch;     /* iterations of every batch; 0: as many as take 0.1 to 1 ms */
    bool distributions; /* the JSON has every sample */
    int (*declare)(struct bench *bench);                  /* adds the rows; 0 or a negative errno */
    void (*table)(const struct bench *bench, FILE *out);  /* own form of the table, or NULL */
    void (*remark)(const struct bench *bench, FILE *out); /* lines below the table, or NULL */
};

/* A sorted view of one row's samples, or of quotients of two rows. */
struct bench_summary {
    double min, p5, median, p90, p95, p99; /* in the row's unit; plain numbers for a quotient */
    double low, high; /* the median lies between them, with 95 % confidence from 6 rounds on */
};

/* main() of a kernel. Returns an exit status. */
int bench_main(const struct bench_kernel *kernel, int argc, char **argv);

/* For declare: add a row. Never fails: ends the program when there is no memory. */
struct bench_row *bench_add(struct bench *bench, const char *name, const struct bench_ops *ops,
                            const void *arg);

/* For declare: run between these two, and say so as parameters "from" and "to". */
void bench_place(struct bench_row *row, int from, int to);

/* The i-th processor of --cpus, i below bench_cpus: kernel->cpus, or more with all_cpus. */
int bench_cpu(const struct bench *bench, unsigned i);
unsigned bench_cpus(const struct bench *bench);

/*
 * For declare: on how many processors a contender that is to be seen against their number is measured:
 * 1, 2, 4 ... and all. Returns how many numbers these are, at most BENCH_COUNTS.
 */
unsigned bench_cpu_counts(const struct bench *bench, unsigned counts[BENCH_COUNTS]);

/* For declare: whether it should be over soon (--quick). */
bool bench_quick(const struct bench *bench);

/* For declare: whether this is a test (--tiny), where sizes are small and figures mean nothing. */
bool bench_tiny(const struct bench *bench);

/* For declare: whether only names are printed (--list): there is no topology and no processor. */
bool bench_lists(const struct bench *bench);

/* For declare: take no more rounds than so many, at least 3, unless --rounds says otherwise. */
void bench_limit_rounds(struct bench *bench, unsigned most);

/*
 * For declare: add a row of a library that may not have been there when this was built. Its ops or
 * arg is then NULL (a weak symbol without a definition), and the row says so when it is opened.
 */
struct bench_row *bench_add_peer(struct bench *bench, const char *name, const struct bench_ops *ops,
                                 const void *arg);

/* For rows whose name does not say it: what one sample is, as parameter "timed". */
void bench_state_timed(struct bench_row *row, const char *what);

/* For run and close: the median of n samples, at least one, as a parameter; sorts them. */
void bench_state_median(struct bench_row *row, const char *name, double *samples, unsigned n);

/* The machine's topology. */
struct umbra_topology *bench_topology(const struct bench *bench);

/*
 * For start: BENCH_LINES_BYTES of memory for the lines that change hands. The same for every row in
 * a round, and other lines in the next: how long a line travels depends on its address (by 7 % from
 * one slice of a shared cache to another), so rows with lines of their own could not be compared.
 */
void *bench_lines(const struct bench *bench);

/* The row of that name that has samples, or NULL. */
const struct bench_row *bench_find(const struct bench *bench, const char *name);

/* Summaries over the rounds in which the row, or both, had a turn. Both must have samples. */
struct bench_summary bench_summary_of(const struct bench_row *row);
struct bench_summary bench_quotient(const struct bench_row *above, const struct bench_row *below);

/* The row with the least median (NULL: not there), or NULL if none has samples. */
const struct bench_row *bench_best(struct bench_row *const *rows, size_t count);

/*
 * The same of a row and the best of others (NULL: not there), of which at least one must have samples.
 * Which is best in odd rounds is seen from the even ones, and the other way round: else, of several
 * equals, the one that chance favoured would be compared in the very rounds that favoured it.
 */
struct bench_summary bench_quotient_of_best(const struct bench_row *above,
                                            struct bench_row *const *others, size_t count);

/* For close: what was measured in row is what was measured in other. Both must have samples. */
void bench_take_samples(struct bench_row *row, const struct bench_row *other);

/* Any clock, and the monotonic one; ns. */
uint64_t bench_clock_ns(clockid_t clock);
uint64_t bench_now_ns(void);

/* By that clock; signals do not end it. */
void bench_sleep_ns(uint64_t ns);

/* Start a thread bound to cpu by its attributes. 0 or a negative errno. */
int bench_thread(pthread_t *out, int cpu, void *(*body)(void *), void *arg);

/* The path of a file, given as seen from the folder of the kernel's executable: what is built beside it
 * is found wherever both have been copied to. 0 or a negative errno. */
int bench_beside(const char *file, char path[BENCH_PATH_BYTES]);

/* For open: writes row->reason and returns error. */
int bench_refuse(struct bench_row *row, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif
