/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The pairs of the kernel fine-grained: what kinds of tasks there are, in which sizes, with inputs,
 * and with results found by other code than the tasks'. C and C++.
 */
#ifndef UMBRA_BENCH_FINE_CASE_H
#define UMBRA_BENCH_FINE_CASE_H

#include "fine_tasks.h"

#define FINE_KINDS 6
#define FINE_SIZES 10 /* tasks of about 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30 and 100 us */

#ifdef __cplusplus
extern "C" {
#endif

struct fine_kind {
    const char *name;
    const char *counted; /* what count counts */
    fine_fn *run;
    uint32_t counts[FINE_SIZES]; /* items, not time: the same work everywhere */
    int (*prepare)(struct fine_input *input, uint64_t *expected); /* 0 or a negative errno */
};

extern const struct fine_kind fine_kinds[FINE_KINDS];

/* Two equal tasks. */
struct fine_pair {
    fine_fn *run;
    struct fine_side *sides[2]; /* the forking thread runs the first itself */
    struct fine_input input;
    uint64_t expected; /* of one run */
};

/* Of a kind in a size; problem is kind * FINE_SIZES + size. Returns 0 or a negative errno. */
int fine_pair_create(struct fine_pair *pair, uint64_t problem);
void fine_pair_destroy(struct fine_pair *pair);

/* The calling thread is going to fork. */
void fine_pair_begin(struct fine_pair *pair);

/* How many pairs were run since then, each task of them with the right result; 0 if one was not. */
uint64_t fine_pair_verified(const struct fine_pair *pair);
/* How many tasks were run by another thread than the one that forked. */
uint64_t fine_pair_elsewhere(const struct fine_pair *pair);

#ifdef __cplusplus
}
#endif

#endif
