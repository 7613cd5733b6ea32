/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Loops of a thread that is no core, main, in a process of its own: umbra_parallel_for makes a team of
 * the process there. The loop of two parts, or of many indices; with an argument the latter otherwise:
 * "serial", or "pthreads", one on each processor, which divide it by hand and never sleep.
 */
#define _GNU_SOURCE
#include "loop_child.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include <umbra/task.h>

#define FIRST_LOOPS 10 /* after them there is a team */

static uint64_t value[LOOP_INDICES];

static void bind_to(const int32_t *cpus, unsigned n)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (unsigned i = 0; i < n; i++)
        CPU_SET((size_t)cpus[i], &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* ---- many indices ---- */

static void once_serial(void)
{
    loop_indices(value, 0, LOOP_INDICES);
}

static void range(size_t begin, size_t end, void *of)
{
    loop_indices(of, begin, end);
}

static void once_range(void)
{
    umbra_parallel_for(0, LOOP_INDICES, 0, range, value);
}

static struct {
    uint32_t called __attribute__((aligned(LOOP_LINE))); /* main writes: so many loops began */
    uint32_t done __attribute__((aligned(LOOP_LINE)));   /* the second thread: so many it ended */
} halves;

static void await(const uint32_t *word, uint32_t old)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == old) /* pairs with the releases below */
        um_arch_relax();
}

static void *second_half(void *cpu)
{
    bind_to(cpu, 1);
    for (uint32_t loop = 0;; loop++) {
        await(&halves.called, loop);
        loop_indices(value, LOOP_INDICES / 2, LOOP_INDICES);
        __atomic_store_n(&halves.done, loop + 1, __ATOMIC_RELEASE); /* pairs with await() */
    }
    return NULL;
}

static void once_halves(void)
{
    uint32_t loop = halves.called;

    __atomic_store_n(&halves.called, loop + 1, __ATOMIC_RELEASE); /* pairs with await() */
    loop_indices(value, 0, LOOP_INDICES / 2);
    await(&halves.done, loop);
}

static void (*once)(void) = once_range;

static void indices(struct child_channel *channel)
{
    uint64_t begin;

    loop_indices_begin(value);
    begin = child_channel_now_ns();
    for (uint64_t i = 0; i < channel->iterations; i++)
        once();
    channel->own_ns = child_channel_now_ns() - begin;
    channel->verified = loop_indices_verified(value, channel->iterations) ? channel->iterations : 0;
}

/* ---- two parts ---- */

static void part(size_t begin, size_t end, void *loop)
{
    for (size_t i = begin; i < end; i++)
        loop_part(loop, i);
}

static void parts(struct child_channel *channel)
{
    uint64_t begin = loop_child_begin(channel);

    for (uint64_t i = 0; i < channel->iterations; i++)
        umbra_parallel_for(0, LOOP_PARTS, 0, part, &loop_child_case);
    loop_child_end(channel, begin);
}

static void batch(struct child_channel *channel)
{
    if (channel->problem < LOOP_SIZES)
        parts(channel);
    else
        indices(channel);
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 1 ? child_channel_map(atoi(argv[1])) : NULL;
    pthread_t second;

    if (channel == NULL)
        return 2;
    bind_to(channel->cpus, LOOP_PARTS);
    if (argc > 2) {
        bool serial = strcmp(argv[2], "serial") == 0;

        once = serial ? once_serial : once_halves;
        bind_to(channel->cpus, 1);
        if (!serial && pthread_create(&second, NULL, second_half, &channel->cpus[1]) != 0)
            return 2;
    }
    for (int i = 0; i < FIRST_LOOPS; i++)
        once();
    child_channel_serve(channel, batch);
}
