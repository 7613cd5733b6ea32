/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Copying memory with the help of a shadow (Hori et al., "Shadow Thread", section 4, Figure 13)
 * against glibc's memcpy, from 1 KiB to 64 MiB. Every copy is from and to fresh memory: touched
 * before, and since then more than the last-level cache holds was. Fork and join are in the time.
 *
 *   memcpy                 the limit: the owner alone
 *   shadow-memcpy          umbra/memcpy.h, with limits it measured on this pair before the rounds,
 *                          and a choice, which sees all rounds
 *   shadow-memcpy-asleep   the same of a shadow that sleeps whenever it has nothing to do
 *   prefetch               the owner copies; the shadow prefetches what it reads, as fast as it can,
 *                          and on a sibling, whose cache is the owner's, what it writes
 *   prefetch-window        the same, but no further ahead than a window
 *   block                  alternate blocks: the owner copies the first, the shadow the second, ...
 *   split                  halves
 *
 * prefetch, block and split wait as the paper's do: they spin for 1,000 polls, then by the monitor
 * (shadow_fork_paper_wait). The other shadows but that one spin, so that no copy begins with waking a
 * thread up. The limit has one, too,
 * which sleeps throughout: so a process of two threads is compared with another such.
 */
#include "harness.h"
#include "shadow_fork.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <umbra/memcpy.h>

#define ROUNDS 61
#define ROUNDS_QUICK 11
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define POOL_CACHES 4 /* bytes of a pool: at least so many last-level caches ... */
#define POOL_COPIES 2 /* ... and copies of the largest size, if there is memory */
#define PAGE ((size_t)4096)
#define UNKNOWN_CACHE (32 * MIB)
#define PAPER_POLLS 1000 /* the threshold of the paper's shadows */
#define WINDOW_BYTES (32 * KIB)
#define WINDOW_STEP (4 * KIB) /* the owner says how far it is after so many bytes */
#define SMALL_COPY (32 * KIB) /* up to this size a sample is the median of ... */
#define SMALL_BATCHES 7       /* ... so many batches, each with memory of its own */
#define SCATTER 7919u         /* odd: steps between copies of a batch */

/*
 * Copies of a batch: so many that they have a megabyte together, in all rows alike. How long one
 * takes depends on how many pages the batch walks through: memcpy of 1 KiB took 0.27 us in batches
 * of 300 or 1,000 copies and 0.37 in those of 3,000.
 */
#define BATCH_BYTES MIB

static const size_t sizes_full[] = {KIB,      2 * KIB,   4 * KIB,   8 * KIB,   16 * KIB, 32 * KIB,
                                    64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, 1 * MIB,  2 * MIB,
                                    4 * MIB,  8 * MIB,   16 * MIB,  32 * MIB,  64 * MIB};
static const size_t sizes_quick[] = {KIB,       4 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB,
                                     256 * KIB, MIB,     4 * MIB,  16 * MIB, 64 * MIB};
static const size_t sizes_tiny[] = {KIB, 32 * KIB, 128 * KIB};
static const size_t block_sizes[] = {256, 1024, 4096, 16384, 65536};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MOST_ROWS (COUNT(sizes_full) * 16)

struct way;

/* A way to copy and a size. */
static struct contender {
    struct umbra_wait_options wait; /* of the shadow */
    const struct way *way;
    size_t bytes, block;
    const struct bench_row *row;
} contenders[MOST_ROWS];
static size_t n_contenders;

/* ---- memory ---- */

/* Two pools, to copy from and to copy to. The word at p of the first is word_at(p), for good. */
static struct {
    uint64_t *from, *to;
    size_t bytes; /* of each */
    size_t at;    /* where the last batch ended, in both */
    unsigned users;
} pool;

static size_t largest_copy;

/* No two words are equal, and none is the complement of one near it. */
static uint64_t word_at(size_t p)
{
    return (p + 1) * 0x9e3779b97f4a7c15u;
}

static size_t pool_size(const struct bench *bench)
{
    const struct umbra_topology_cpu *cpu =
        umbra_topology_cpu_of(bench_topology(bench), bench_cpu(bench, 0));
    size_t cache = cpu->l3_bytes ? cpu->l3_bytes : cpu->l2_bytes;
    size_t bytes = POOL_CACHES * (cache ? cache : UNKNOWN_CACHE);
    size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);

    if (bytes < POOL_COPIES * largest_copy || bench_tiny(bench))
        bytes = POOL_COPIES * largest_copy;
    if (bytes > memory / 8)
        bytes = memory / 8;
    return bytes / MIB * MIB + MIB;
}

/* Made when the first row is opened, which is after --list. */
static bool pool_make(const struct bench *bench)
{
    pool.bytes = pool_size(bench);
    pool.from = aligned_alloc(PAGE, pool.bytes);
    pool.to = aligned_alloc(PAGE, pool.bytes);
    if (pool.from == NULL || pool.to == NULL) {
        free(pool.from);
        free(pool.to);
        return false;
    }
    for (size_t p = 0; p < pool.bytes / 8; p++)
        pool.from[p] = word_at(p);
    memset(pool.to, 0, pool.bytes);
    return true;
}

static int pool_open(struct bench_row *row)
{
    const struct contender *contender = row->arg;

    if (pool.users == 0 && !pool_make(row->bench))
        return bench_refuse(row, -ENOMEM, "no memory for two pools of %zu bytes", pool.bytes);
    if (contender->bytes > pool.bytes)
        return bench_refuse(row, -ENOMEM, "too little memory for pools that hold %zu bytes",
                            contender->bytes);
    pool.users++;
    return 0;
}

static void pool_close(struct bench_row *row)
{
    (void)row;
    if (--pool.users == 0) {
        free(pool.from);
        free(pool.to);
    }
}

/* ---- ways to copy ---- */

/* What a shadow is handed. */
struct job {
    char *to;
    const char *from;
    size_t bytes;
    size_t block;
    bool sibling; /* the owner's caches are the shadow's */
    /* prefetch-window: how far the owner is; relaxed, for it guards nothing */
    UM_ALIGNED(BENCH_LINES_ALIGN) _Atomic size_t done;
};

struct copier {
    struct umbra_shadow shadow; /* first, so that its slot is on the line of every other row */
    UM_ALIGNED(BENCH_LINES_ALIGN) struct job job;
};

_Static_assert(sizeof(struct copier) <= BENCH_LINES_BYTES, "fits the harness's lines");
_Static_assert(_Alignof(struct copier) <= BENCH_LINES_ALIGN, "and is aligned there");

/* Copies c->job. */
typedef void copy_fn(struct copier *c);

static void copy_alone(struct copier *c)
{
    memcpy(c->job.to, c->job.from, c->job.bytes);
}

/* Measured once for shadows that spin, and once for those that sleep; chosen in all rounds. */
static struct umbra_memcpy_limits awake_limits, asleep_limits;
static struct umbra_memcpy_choice awake_judge, asleep_judge;

static void copy_awake(struct copier *c)
{
    shadow_memcpy(&c->shadow, c->job.to, c->job.from, c->job.bytes, &awake_limits);
}

static void copy_asleep(struct copier *c)
{
    shadow_memcpy(&c->shadow, c->job.to, c->job.from, c->job.bytes, &asleep_limits);
}

/* A line that another core fetched for writing would have to be taken away from it. */
static void prefetch_line(const struct job *job, size_t at)
{
    __builtin_prefetch(job->from + at);
    if (job->sibling)
        umbra_prefetch_write(job->to + at);
}

static void prefetch_all(void *arg)
{
    const struct job *job = arg;

    for (size_t at = 0; at < job->bytes; at += UMBRA_CACHE_LINE)
        prefetch_line(job, at);
}

static void copy_prefetched(struct copier *c)
{
    shadow_fork(&c->shadow, prefetch_all, &c->job);
    memcpy(c->job.to, c->job.from, c->job.bytes);
    shadow_join(&c->shadow);
}

static void prefetch_in_window(void *arg)
{
    struct job *job = arg;

    for (size_t at = 0; at < job->bytes; at += WINDOW_STEP) {
        size_t done = atomic_load_explicit(&job->done, memory_order_relaxed);

        while (at >= done + WINDOW_BYTES) {
            umbra_pause();
            done = atomic_load_explicit(&job->done, memory_order_relaxed);
        }
        for (size_t line = at; line < at + WINDOW_STEP && at >= done; line += UMBRA_CACHE_LINE)
            prefetch_line(job, line);
    }
}

static void copy_in_window(struct copier *c)
{
    struct job *job = &c->job;

    atomic_store_explicit(&job->done, 0, memory_order_relaxed);
    shadow_fork(&c->shadow, prefetch_in_window, job);
    for (size_t at = 0; at < job->bytes; at += WINDOW_STEP) {
        size_t left = job->bytes - at;

        memcpy(job->to + at, job->from + at, left < WINDOW_STEP ? left : WINDOW_STEP);
        atomic_store_explicit(&job->done, at + WINDOW_STEP, memory_order_relaxed);
    }
    shadow_join(&c->shadow);
}

/* Every other block, from that at `at` on. */
static void copy_blocks(const struct job *job, size_t at)
{
    for (; at < job->bytes; at += 2 * job->block) {
        size_t left = job->bytes - at;

        memcpy(job->to + at, job->from + at, left < job->block ? left : job->block);
    }
}

static void copy_odd_blocks(void *arg)
{
    const struct job *job = arg;

    copy_blocks(job, job->block);
}

static void copy_by_blocks(struct copier *c)
{
    shadow_fork(&c->shadow, copy_odd_blocks, &c->job);
    copy_blocks(&c->job, 0);
    shadow_join(&c->shadow);
}

/* A half is a block, rounded to lines. */
static void copy_halves(struct copier *c)
{
    c->job.block = c->job.bytes / 2 / UMBRA_CACHE_LINE * UMBRA_CACHE_LINE;
    copy_by_blocks(c);
}

/* ---- rows ---- */

static const struct way {
    const char *name, *head; /* the contender, and its column below the table */
    copy_fn *copy;
    enum umbra_wait_mode mode;          /* two-phase: with the paper's threshold */
    struct umbra_memcpy_limits *limits; /* to be measured once, and then ... */
    struct umbra_memcpy_choice *choice; /* ... to be chosen by */
    bool in_blocks;                     /* a row for each of block_sizes */
} ways[] = {
    {"memcpy", "memcpy", copy_alone, UMBRA_WAIT_PARK, NULL, NULL, false},
    {"shadow-memcpy", "shadow", copy_awake, UMBRA_WAIT_SPIN, &awake_limits, &awake_judge, false},
    {"shadow-memcpy-asleep", "asleep", copy_asleep, UMBRA_WAIT_PARK, &asleep_limits, &asleep_judge,
     false},
    {"prefetch", "prefetch", copy_prefetched, UMBRA_WAIT_TWO_PHASE, NULL, NULL, false},
    {"prefetch-window", "window", copy_in_window, UMBRA_WAIT_SPIN, NULL, NULL, false},
    {"block", "block", copy_by_blocks, UMBRA_WAIT_TWO_PHASE, NULL, NULL, true},
    {"split", "split", copy_halves, UMBRA_WAIT_TWO_PHASE, NULL, NULL, false},
};

/* Whether a copy is right, word by word; and makes its words wrong for the next one. */
static bool verify(size_t at, size_t bytes)
{
    size_t wrong = 0;

    for (size_t p = at / 8; p < (at + bytes) / 8; p++) {
        wrong += pool.to[p] != word_at(p);
        pool.to[p] = ~word_at(p);
    }
    return wrong == 0;
}

/*
 * Where a batch of so many bytes begins: behind the batch before, or where the pool begins if there
 * is too little left. Nothing of it was touched since the pool was gone through once.
 */
static size_t pool_take(size_t bytes)
{
    size_t begin = (pool.at + PAGE - 1) / PAGE * PAGE;

    if (begin + bytes > pool.bytes)
        begin = 0;
    pool.at = begin + bytes;
    return begin;
}

/*
 * Where copy i of a batch is: scattered, or the processor would fetch it while it copies the last.
 * There is an odd number of steps to the next, and of copies a power of two.
 */
static size_t place_of(size_t begin, uint64_t i, uint64_t copies, size_t bytes)
{
    return begin + i * SCATTER % copies * bytes;
}

/* Copies, timed, and then verified. */
static void run_copies(struct bench_row *row, struct bench_batch *batch)
{
    const struct contender *contender = row->arg;
    struct copier *c = row->state;
    uint64_t copies = batch->iterations;
    size_t bytes = contender->bytes;
    size_t begin = pool_take(copies * bytes);
    uint64_t start = bench_now_ns();

    for (uint64_t i = 0; i < copies; i++) {
        size_t at = place_of(begin, i, copies, bytes);

        c->job.to = (char *)pool.to + at;
        c->job.from = (const char *)pool.from + at;
        contender->way->copy(c);
    }
    batch->ns = bench_now_ns() - start;
    for (uint64_t i = 0; i < copies; i++)
        batch->verified += verify(place_of(begin, i, copies, bytes), bytes);
}

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* A batch of small copies is several: times of one alone scatter by a third. */
static int run(struct bench_row *row, struct bench_batch *batch)
{
    size_t bytes = ((const struct contender *)row->arg)->bytes;
    unsigned batches = bytes <= SMALL_COPY ? SMALL_BATCHES : 1;
    uint64_t took[SMALL_BATCHES];

    for (unsigned b = 0; b < batches; b++) {
        run_copies(row, batch);
        took[b] = batch->ns;
    }
    qsort(took, batches, sizeof(took[0]), compare_ns);
    batch->ns = took[batches / 2];
    batch->verified /= batches;
    return 0;
}

static int start(struct bench_row *row)
{
    const struct contender *contender = row->arg;
    struct umbra_memcpy_limits *limits = contender->way->limits;
    struct copier *c = bench_lines(row->bench);
    struct umbra_wait_options wait = contender->wait;
    int error =
        wait.mode == UMBRA_WAIT_TWO_PHASE ? shadow_fork_paper_wait(row, PAPER_POLLS, &wait) : 0;

    if (error == 0)
        error = shadow_fork_create(row, &wait, &c->shadow);
    row->state = c;
    if (error == 0 && limits != NULL && limits->block_bytes == 0) {
        error = umbra_memcpy_calibrate(&c->shadow, limits);
        limits->choice = contender->way->choice;
    }
    c->job.bytes = contender->bytes;
    c->job.block = contender->block;
    c->job.sibling = umbra_topology_shared(bench_topology(row->bench), bench_cpu(row->bench, 0),
                                           bench_cpu(row->bench, 1)) == UMBRA_SHARED_CORE;
    return error;
}

static void stop(struct bench_row *row)
{
    shadow_destroy(&((struct copier *)row->state)->shadow);
}

static const struct bench_ops ops = {
    .open = pool_open, .start = start, .run = run, .stop = stop, .close = pool_close};

static struct bench_row *add(struct bench *bench, const struct way *way, size_t bytes, size_t block)
{
    struct contender *contender = &contenders[n_contenders++];
    struct bench_row *row = bench_add(bench, way->name, &ops, contender);

    *contender = (struct contender){
        .wait = {.mode = way->mode}, .way = way, .bytes = bytes, .block = block, .row = row};
    row->batch = bytes < BATCH_BYTES ? BATCH_BYTES / bytes : 1;
    json_object_set_new(row->params, "bytes", json_integer((json_int_t)bytes));
    if (block != 0)
        json_object_set_new(row->params, "block", json_integer((json_int_t)block));
    return row;
}

/* All ways for one size; those in blocks where there is one for each of the two. */
static void add_size(struct bench *bench, size_t bytes)
{
    struct bench_row *limit = add(bench, &ways[0], bytes, 0);

    for (size_t w = 1; w < COUNT(ways); w++) {
        for (size_t b = 0; ways[w].in_blocks && b < COUNT(block_sizes); b++)
            if (bytes >= 2 * block_sizes[b])
                add(bench, &ways[w], bytes, block_sizes[b])->limit = limit;
        if (!ways[w].in_blocks)
            add(bench, &ways[w], bytes, 0)->limit = limit;
    }
}

static int declare(struct bench *bench)
{
    const size_t *sizes = bench_tiny(bench)    ? sizes_tiny
                          : bench_quick(bench) ? sizes_quick
                                               : sizes_full;
    size_t n = bench_tiny(bench)    ? COUNT(sizes_tiny)
               : bench_quick(bench) ? COUNT(sizes_quick)
                                    : COUNT(sizes_full);

    for (size_t s = 0; s < n; s++)
        add_size(bench, sizes[s]);
    largest_copy = sizes[n - 1];
    return 0;
}

/* ---- below the table: the curve ---- */

static void print_bytes(FILE *out, size_t bytes)
{
    if (bytes == SIZE_MAX)
        fprintf(out, "%8s", "never");
    else if (bytes >= MIB)
        fprintf(out, "%4zu MiB", bytes / MIB);
    else
        fprintf(out, "%4zu KiB", bytes / KIB);
}

/* Calls print for every way, and every size of a block where it has several. */
static void for_columns(FILE *out, size_t bytes,
                        void print(FILE *out, const struct way *way, size_t bytes, size_t block))
{
    for (size_t w = 0; w < COUNT(ways); w++) {
        for (size_t b = 0; ways[w].in_blocks && b < COUNT(block_sizes); b++)
            print(out, &ways[w], bytes, block_sizes[b]);
        if (!ways[w].in_blocks)
            print(out, &ways[w], bytes, 0);
    }
}

/* How many times as fast as memcpy, by the median over rounds; 0 if it did not run. */
static double speed(const struct contender *contender)
{
    const struct bench_row *row = contender->row;

    if (!row->runs || row->limit == NULL || !row->limit->runs)
        return 0;
    return 1 / bench_quotient(row, row->limit).median;
}

static void print_head(FILE *out, const struct way *way, size_t bytes, size_t block)
{
    (void)bytes;
    if (way == ways)
        fprintf(out, "%14s", way->head);
    else if (block != 0)
        fprintf(out, " %9zu", block);
    else
        fprintf(out, " %9s", way->head);
}

static void print_cell(FILE *out, const struct way *way, size_t bytes, size_t block)
{
    const struct contender *contender = NULL;

    for (size_t i = 0; i < n_contenders && contender == NULL; i++)
        if (contenders[i].way == way && contenders[i].bytes == bytes &&
            contenders[i].block == block && contenders[i].row->runs)
            contender = &contenders[i];
    if (way == ways)
        fprintf(out, "%9.2f GB/s",
                contender ? (double)bytes / bench_summary_of(contender->row).median : 0);
    else if (contender == NULL)
        fprintf(out, " %9s", "");
    else
        fprintf(out, " %9.2f", speed(contender));
}

/* Where a way, in blocks of that size, is best. */
static void print_best(FILE *out, const struct way *way, size_t bytes, size_t block)
{
    const struct contender *best = NULL;

    (void)bytes;
    for (size_t i = 0; i < n_contenders; i++)
        if (contenders[i].way == way && contenders[i].block == block &&
            (best == NULL || speed(&contenders[i]) > speed(best)))
            best = &contenders[i];
    if (best == NULL || speed(best) == 0)
        return;
    fprintf(out, "%-20s ", way->name);
    fprintf(out, block != 0 ? "%5zu" : "%5.0zu", block);
    fputs(" is best at ", out);
    print_bytes(out, best->bytes);
    fprintf(out, ": %.2f\n", speed(best));
}

static void print_limits(FILE *out, const char *name, const struct umbra_memcpy_limits *limits)
{
    if (limits->block_bytes == 0)
        return;
    fprintf(out, "%s is both from ", name);
    print_bytes(out, limits->awake_bytes);
    fprintf(out, ", or asleep ");
    print_bytes(out, limits->asleep_bytes);
    fputc('\n', out);
}

static void remark(const struct bench *bench, FILE *out)
{
    size_t last = 0;

    (void)bench;
    fprintf(out, "Times as fast as memcpy; the two pools have %zu MiB each.\n%8s", pool.bytes / MIB,
            "");
    for_columns(out, 0, print_head);
    fputc('\n', out);
    for (size_t i = 0; i < n_contenders; i++) {
        if (contenders[i].bytes == last)
            continue;
        last = contenders[i].bytes;
        print_bytes(out, last);
        for_columns(out, last, print_cell);
        fputc('\n', out);
    }
    for_columns(out, 0, print_best);
    print_limits(out, "shadow-memcpy", &awake_limits);
    print_limits(out, "shadow-memcpy-asleep", &asleep_limits);
}

static const struct bench_kernel kernel = {
    .name = "memcpy",
    .about = "copying fresh memory with the help of another hardware thread",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
