/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the child processes of the kernel fine-grained have in common: the pairs they are asked for
 * by child_channel.h, each made when it is asked for first. C and C++.
 */
#ifndef UMBRA_BENCH_FINE_CHILD_H
#define UMBRA_BENCH_FINE_CHILD_H

#include "child_channel.h"
#include "fine_case.h"

/* The pair of a batch that begins. Without memory the process ends, and the kernel sees it. */
static inline struct fine_pair *fine_child_begin(const struct child_channel *channel)
{
    static struct fine_pair pairs[FINE_KINDS * FINE_SIZES];
    struct fine_pair *pair = &pairs[channel->problem];

    if (pair->run == NULL && fine_pair_create(pair, channel->problem) != 0)
        exit(2);
    fine_pair_begin(pair);
    return pair;
}

static inline void fine_child_end(struct child_channel *channel, const struct fine_pair *pair)
{
    channel->verified = fine_pair_verified(pair);
    channel->elsewhere = fine_pair_elsewhere(pair);
}

#endif
