/* SPDX-License-Identifier: BSL-1.0 */
/* What the child processes of the kernel loop have in common: their batch. C and C++. */
#ifndef UMBRA_BENCH_LOOP_CHILD_H
#define UMBRA_BENCH_LOOP_CHILD_H

#include "child_channel.h"
#include "loop_case.h"

static struct loop_case loop_child_case;

/* Begins a batch, and its time. */
static inline uint64_t loop_child_begin(const struct child_channel *channel)
{
    loop_begin(&loop_child_case, (unsigned)channel->problem);
    return child_channel_now_ns();
}

static inline void loop_child_end(struct child_channel *channel, uint64_t begin)
{
    channel->own_ns = child_channel_now_ns() - begin;
    channel->verified = loop_verified(&loop_child_case);
}

#endif
