/* SPDX-License-Identifier: BSL-1.0 */
/* The Lace side of fib and dispatch, in a process of its own; see omp_child.c. */
#define _GNU_SOURCE
#include "child_channel.h"
#include "tasks_case.h"

#include <lace.h>
#include <sched.h>
#include <string.h>

#define DEQUE 100000 /* tasks */

static struct tasks_case work;

/* What each worker has run, on lines of their own. */
static struct {
    uint64_t count __attribute__((aligned(CHILD_CHANNEL_LINE)));
} workers[2];

TASK_1(long, fib, int, n)
{
    long one, two;

    if (n < 2)
        return n;
    SPAWN(fib, n - 2);
    one = CALL(fib, n - 1);
    two = SYNC(fib);
    return one + two;
}

VOID_TASK_0(null_function)
{
    workers[LACE_WORKER_ID].count++;
}

VOID_TASK_1(null_functions, unsigned, all)
{
    for (unsigned i = 0; i < all; i++)
        SPAWN(null_function);
    for (unsigned i = 0; i < all; i++)
        SYNC(null_function);
}

VOID_TASK_1(batch_task, struct child_channel *, channel)
{
    for (uint64_t i = 0; i < channel->iterations; i++) {
        if (strcmp(work.kind, "fib") != 0)
            CALL(null_functions, work.size);
        else if ((uint64_t)CALL(fib, (int)work.size) == tasks_fib(work.size))
            channel->verified += tasks_calls(work.size);
    }
}

/* Workers look for work all the time while there is a batch, and sleep between batches. */
static void batch(struct child_channel *channel)
{
    uint64_t before = workers[0].count + workers[1].count, begin;

    channel->verified = 0;
    lace_resume();
    begin = child_channel_now_ns();
    RUN(batch_task, channel);
    channel->own_ns = child_channel_now_ns() - begin;
    lace_suspend();
    channel->verified += workers[0].count + workers[1].count - before;
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc == 3 ? child_channel_map(atoi(argv[1])) : NULL;
    cpu_set_t set;

    if (!channel || !tasks_case_read(argv[2], &work) || work.cores > 2)
        return 2;
    CPU_ZERO(&set);
    for (unsigned i = 0; i < work.cores; i++)
        CPU_SET((size_t)channel->cpus[i], &set);
    sched_setaffinity(0, sizeof set, &set);
    lace_start(work.cores, DEQUE);
    lace_suspend();
    child_channel_serve(channel, batch);
}
