/* SPDX-License-Identifier: BSL-1.0 */
/* What the kernel crowd and its child have in common: which threads want the two processors. C. */
#ifndef UMBRA_BENCH_CROWD_CASE_H
#define UMBRA_BENCH_CROWD_CASE_H

#define CROWD_BARRIERS 250 /* of a graph: one after each node */
#define CROWD_MOST 8       /* members */

struct crowd_case {
    const char *name;
    unsigned members; /* of a team */
    unsigned threads; /* each with a team of its own, at the same time */
    unsigned loops;   /* threads on the first processor that only compute */
};

static const struct crowd_case crowd_cases[] = {
    {"2 members beside a busy loop", 2, 1, 1},
    {"4 members", 4, 1, 0},
    {"8 members", 8, 1, 0},
    {"two threads, each with 2 members", 2, 2, 0},
};

#define CROWD_CASES (sizeof(crowd_cases) / sizeof(crowd_cases[0]))

#endif
