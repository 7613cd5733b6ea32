/* SPDX-License-Identifier: BSL-1.0 */
/* A copy of the library with a runtime: included by the program, and by the object that it loads. */
#ifndef UMBRA_TESTS_TWO_COPIES_PART_H
#define UMBRA_TESTS_TWO_COPIES_PART_H

#include <umbra.h>

static struct umbra_runtime *part_runtime;
static struct umbra_event part_event = UMBRA_EVENT_INIT;

static void *part_waits(void *arg)
{
    umbra_event_wait(&part_event, UMBRA_NEVER);
    return arg;
}

static inline int part_start(int dump_signal, const char *name)
{
    struct umbra_options options = {.cores = 1, .dump_signal = dump_signal, .quiet = true};
    struct umbra_spawn_options spawn = {.where = UMBRA_ON_CORE, .name = name};
    struct umbra_fiber fiber;
    int error = umbra_runtime_create(&options, &part_runtime);

    if (error == 0)
        error = umbra_spawn_with(part_runtime, &spawn, part_waits, NULL, &fiber);
    while (error == 0 && umbra_fiber_info(fiber, NULL) != UMBRA_FIBER_BLOCKED)
        umbra_yield(); /* a dump does not show it earlier */
    return error;
}

static inline int part_stop(void)
{
    return umbra_runtime_destroy(part_runtime);
}

static int part_deeper(int depth)
{
    volatile char room[512];

    room[0] = (char)depth;
    return depth > 0 ? part_deeper(depth - 1) + room[0] : 0;
}

static void *part_overflows(void *arg)
{
    return (void *)(intptr_t)part_deeper(arg ? 1000000 : 1000001);
}

static inline int part_overflow(void)
{
    struct umbra_spawn_options spawn = {.where = UMBRA_ON_CORE, .name = "too deep"};

    umbra_spawn_with(part_runtime, &spawn, part_overflows, NULL, NULL);
    return umbra_runtime_wait(part_runtime);
}

#endif
