/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The OpenMP side of fib and dispatch, in a process of its own; see omp_child.c. Threads are started
 * by the first region and stay.
 */
#define _GNU_SOURCE
#include "child_channel.h"
#include "tasks_case.h"

#include <omp.h>
#include <string.h>

static struct tasks_case work;

/* What each thread has run, on lines of their own. */
static struct {
    uint64_t count __attribute__((aligned(CHILD_CHANNEL_LINE)));
} threads[2];

static long fib(int n)
{
    long one;
    long two;

    if (n < 2)
        return n;
#pragma omp task shared(two)
    two = fib(n - 2);
    one = fib(n - 1);
#pragma omp taskwait
    return one + two;
}

static void null_function(void)
{
    threads[omp_get_thread_num()].count++;
}

static void fib_region(struct child_channel *channel)
{
    long result = 0;

#pragma omp parallel num_threads(work.cores)
#pragma omp single
    result = fib((int)work.size);
    if ((uint64_t)result == tasks_fib(work.size))
        channel->verified += tasks_calls(work.size);
}

static void for_region(void)
{
#pragma omp parallel for schedule(dynamic, 1) num_threads(work.cores)
    for (unsigned i = 0; i < work.size; i++)
        null_function();
}

static void task_region(void)
{
#pragma omp parallel num_threads(work.cores)
#pragma omp single
    for (unsigned i = 0; i < work.size; i++) {
#pragma omp task
        null_function();
    }
}

static void batch(struct child_channel *channel)
{
    uint64_t before = threads[0].count + threads[1].count;

    channel->verified = 0;
    for (uint64_t i = 0; i < channel->iterations; i++) {
        if (strcmp(work.kind, "fib") == 0)
            fib_region(channel);
        else if (strcmp(work.kind, "for") == 0)
            for_region();
        else
            task_region();
    }
    channel->verified += threads[0].count + threads[1].count - before;
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 2 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL || !tasks_case_read(argv[2], &work) || work.cores > 2)
        return 2;
    child_channel_serve(channel, batch);
}
