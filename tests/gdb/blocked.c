/* SPDX-License-Identifier: BSL-1.0 */
/* For gdb: a fiber blocked three calls deep, one stopped by a transfer, one joining, one running. With
 * an argument the last ends the program with a fault, in a function that is inlined twice over. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/resource.h>

#include <umbra.h>

static struct umbra_event never = UMBRA_EVENT_INIT;

__attribute__((noinline)) static int innermost(int depth)
{
    volatile int twice = depth * 2;

    umbra_event_wait(&never, UMBRA_NEVER);
    return twice + depth;
}

__attribute__((noinline)) static int middle(int depth)
{
    return innermost(depth + 1) + 1;
}

__attribute__((noinline)) static int outermost(int depth)
{
    return middle(depth + 1) + 1;
}

static void *goes_deep(void *arg)
{
    return (void *)(intptr_t)outermost((int)(intptr_t)arg);
}

static void *stops(void *arg)
{
    umbra_transfer(*(struct umbra_fiber *)arg);
    return NULL;
}

static void *joins(void *arg)
{
    umbra_join(*(struct umbra_fiber *)arg, UMBRA_NEVER, NULL);
    return NULL;
}

__attribute__((noinline)) void all_are_there(void);
__attribute__((noinline)) void all_are_there(void)
{
    __asm__ volatile("");
}

static int *volatile nowhere;

__attribute__((always_inline)) static inline void faults(void)
{
    *nowhere = 1;
}

__attribute__((always_inline)) static inline void calls_what_faults(void)
{
    faults();
}

static bool is_idle(unsigned core)
{
    struct umbra_core_info info;

    return umbra_core_info(umbra_runtime_self(), core, &info) == 0 && info.state == UMBRA_CORE_IDLE;
}

static void *body(void *dies)
{
    struct umbra_spawn_options options = {.where = UMBRA_ON_CORE, .core = 1, .name = "deep one"};
    struct umbra_fiber self = umbra_self(), deep;

    umbra_spawn_with(NULL, &options, goes_deep, (void *)40, &deep);
    while (umbra_fiber_info(deep, NULL) != UMBRA_FIBER_BLOCKED ||
           !is_idle(1)) /* it has left its stack */
        umbra_yield();
    options = (struct umbra_spawn_options){.name = "stopped one"};
    umbra_spawn_with(NULL, &options, stops, &self, NULL);
    options.name = "joiner";
    umbra_spawn_with(NULL, &options, joins, &deep, NULL);
    for (int i = 0; i < 3; i++)
        umbra_yield();
    all_are_there();
    if (dies)
        calls_what_faults();
    exit(0);
}

int main(int argc, char **argv)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};

    if (argc > 1)
        setrlimit(RLIMIT_CORE, &all);
    return umbra_run(&options, body, argc > 1 ? argv : NULL);
}
