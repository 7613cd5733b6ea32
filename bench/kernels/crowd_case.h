/* SPDX-License-Identifier: BSL-1.0 */
/* What the kernel crowd and its child have in common: which threads want the two processors. C. */
#ifndef UMBRA_BENCH_CROWD_CASE_H
#define UMBRA_BENCH_CROWD_CASE_H

#define CROWD_BARRIERS 250 /* of a graph: one after each node */
#define CROWD_MOST 8       /* members */

enum crowd_work {
    CROWD_GRAPH,
    CROWD_RUN,     /* a run of a function that only counts */
    CROWD_IN_TURN, /* likewise, but all threads have one team, and run it in turn */
    CROWD_NESTED   /* likewise, but each part runs a team of its own, of as many members */
};

struct crowd_case {
    const char *name;
    unsigned members; /* of a team */
    unsigned threads; /* each with a team of its own, at the same time */
    unsigned loops;   /* threads on the first processor that only compute */
    enum crowd_work work;
};

static const struct crowd_case crowd_cases[] = {
    {"2 members beside a busy loop", 2, 1, 1, CROWD_GRAPH},
    {"4 members", 4, 1, 0, CROWD_GRAPH},
    {"8 members", 8, 1, 0, CROWD_GRAPH},
    {"two threads, each with 2 members", 2, 2, 0, CROWD_GRAPH},
    {"runs of two threads at once", 2, 2, 0, CROWD_RUN},
    {"runs of three threads in turn", 2, 3, 0, CROWD_IN_TURN},
    {"nested runs, 2 x 2 members", 2, 1, 0, CROWD_NESTED},
};

#define CROWD_CASES (sizeof(crowd_cases) / sizeof(crowd_cases[0]))

#endif
