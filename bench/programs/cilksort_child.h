/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the child processes of the kernel cilksort have in common: the numbers, and the check that
 * they are the same ones in order. Each runs the ways of examples/cilksort. C and C++.
 */
#ifndef UMBRA_BENCH_CILKSORT_CHILD_H
#define UMBRA_BENCH_CILKSORT_CHILD_H

#include <stdlib.h>

#include "child_channel.h"
#include "cilksort_case.h"

#ifdef __cplusplus
extern "C" {
#endif
#include <input.h>
#include <variants.h>
#ifdef __cplusplus
}
#endif

struct cilksort_child {
    struct setting setting;
    int *sorted; /* what random numbers must become */
};

static inline int cilksort_compare(const void *a, const void *b)
{
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

/* The argument is how many numbers. True if there is memory. */
static inline int cilksort_child_create(struct cilksort_child *child,
                                        const struct child_channel *channel, const char *argument)
{
    struct part *part = &child->setting.part;

    part->count = strtoul(argument, NULL, 10);
    part->cutoff = CUTOFF;
    part->numbers = (int *)malloc(part->count * sizeof(int));
    part->room = (int *)malloc(part->count * sizeof(int));
    child->sorted = (int *)malloc(part->count * sizeof(int));
    child->setting.processors = channel->n_cpus;
    if (part->numbers == NULL || part->room == NULL || child->sorted == NULL)
        return 0;
    input_fill(child->sorted, part->count, RANDOM, 1);
    qsort(child->sorted, part->count, sizeof(int), cilksort_compare);
    return 1;
}

/* True if each number is where it must be. */
static inline int cilksort_child_right(const struct cilksort_child *child, unsigned input)
{
    const struct part *part = &child->setting.part;
    size_t right = 0;

    for (size_t i = 0; i < part->count; i++)
        right += part->numbers[i] == (input == RANDOM   ? child->sorted[i]
                                      : input == SORTED ? (int)i
                                                        : (int)i + 1);
    return right == part->count;
}

/* A batch: channel->iterations sorts; only sorting is timed. */
static inline void cilksort_child_batch(struct child_channel *channel, struct cilksort_child *child,
                                        sort_fn *sort)
{
    struct cilksort_case what = cilksort_case_unpack(channel->problem);
    uint64_t ns = 0, right = 0;

    for (uint64_t i = 0; i < channel->iterations; i++) {
        uint64_t begin;
        int error;

        input_fill(child->setting.part.numbers, child->setting.part.count, (enum input)what.input,
                   1);
        begin = child_channel_now_ns();
        error = sort(&child->setting);
        ns += child_channel_now_ns() - begin;
        right += error == 0 && cilksort_child_right(child, what.input);
    }
    channel->own_ns = ns;
    channel->verified = right;
    channel->elsewhere = 0;
}

#endif
