/* SPDX-License-Identifier: BSL-1.0 */
/* What the files of the harness share with each other and not with kernels. */
#ifndef UMBRA_BENCH_HARNESS_PRIVATE_H
#define UMBRA_BENCH_HARNESS_PRIVATE_H

#include "harness.h"

#include <umbra/topology.h>

#define BENCH_LINES_PLACES 256u

struct bench_options {
    bool quick;            /* fewer rounds */
    bool tiny;             /* sizes for tests */
    bool json;             /* lines on standard output instead of the table */
    const char *json_file; /* lines go there, besides the table; or NULL */
    bool list;             /* only print names */
    unsigned rounds;       /* 0: the kernel's default */
    unsigned seconds;      /* no more rounds after so long; 0: all of them */
    const char *only;      /* list of contenders, or NULL */
    const char *cpu_list;  /* list of processors, or NULL */
};

struct bench {
    const struct bench_kernel *kernel;
    struct bench_options options;
    struct umbra_topology *topology;
    const char *backend; /* of a wait with default options, UMBRA_WAIT included */
    int cpus[BENCH_MAX_CPUS];
    unsigned n_cpus;
    struct bench_row **rows; /* in the order of declaration */
    unsigned n_rows;
    unsigned rounds;        /* that will be run; at the end, that were */
    unsigned round;         /* the present one */
    char *lines;            /* BENCH_LINES_PLACES * BENCH_LINES_ALIGN + BENCH_LINES_BYTES */
    uint64_t begin_ns;      /* of the rounds */
    uint64_t run_ns;        /* length of the rounds */
    bool terminal;          /* is standard error */
    uint64_t told_ns;       /* when it was last told how far it is */
    uint64_t stolen_before; /* processor time the hypervisor took, in ms */
    uint64_t stolen_ms;     /* during the rounds */
};

/* harness_options.c: each returns BENCH_OK to go on, anything else is the exit status. */
int bench_parse(struct bench *bench, int argc, char **argv, bool *done);
int bench_choose_backend(struct bench *bench);
int bench_choose_cpus(struct bench *bench);
int bench_choose_rows(struct bench *bench);

/* harness_machine.c */
json_t *bench_machine(const struct bench *bench);
uint64_t bench_stolen_ms(void);

/* harness_report.c */
void bench_print_json(const struct bench *bench, FILE *out);
void bench_print_table(const struct bench *bench);

#endif
