/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The hot paths, each a number of times, for Callgrind: instructions.py counts. It is compiled as C
 * and as C++. Prints a line a row: its name and how many operations it has counted.
 */
#include <sched.h>
#include <stdio.h>

#include <umbra.h>

#include <valgrind/callgrind.h>

enum { TIMES = 1000, FORKS = 100 };

/* Counts are those of the calling thread between these two; the result has the name of the row. */
#define BEGIN()                                                                                    \
    do {                                                                                           \
        CALLGRIND_ZERO_STATS;                                                                      \
        CALLGRIND_TOGGLE_COLLECT;                                                                  \
    } while (0)
#define END(name, operations)                                                                      \
    do {                                                                                           \
        CALLGRIND_TOGGLE_COLLECT;                                                                  \
        CALLGRIND_DUMP_STATS_AT(name);                                                             \
        printf("%s %d\n", name, operations);                                                       \
    } while (0)

static struct umbra_fiber first, second;
static struct umbra_event here = UMBRA_EVENT_INIT, there = UMBRA_EVENT_INIT;

/* ---- what the other fiber does ---- */

static void *nothing(void *arg)
{
    return arg;
}

static void *yields(void *arg)
{
    for (int i = 0; i < TIMES; i++)
        umbra_yield();
    return arg;
}

static void *transfers(void *arg)
{
    for (int i = 0; i < TIMES; i++)
        umbra_transfer(first);
    return arg;
}

static void *answers(void *arg)
{
    for (int i = 0; i < TIMES; i++) {
        umbra_event_wait(&there, UMBRA_NEVER);
        umbra_event_signal(&here);
    }
    return arg;
}

/* ---- rows ---- */

static void yield_row(void)
{
    umbra_spawn(yields, NULL, &second);
    umbra_yield();
    BEGIN();
    for (int i = 1; i < TIMES; i++)
        umbra_yield();
    END("yield", 2 * (TIMES - 1));
    umbra_join(second, UMBRA_NEVER, NULL);
}

static void transfer_row(void)
{
    first = umbra_self();
    umbra_spawn(transfers, NULL, &second);
    umbra_transfer(second);
    BEGIN();
    for (int i = 1; i < TIMES; i++)
        umbra_transfer(second);
    END("transfer", 2 * (TIMES - 1));
    umbra_continue(second);
    umbra_join(second, UMBRA_NEVER, NULL);
}

static void spawn_row(void)
{
    for (int i = 0; i < 2; i++) { /* the first time makes stacks */
        umbra_spawn(nothing, NULL, &second);
        umbra_join(second, UMBRA_NEVER, NULL);
    }
    BEGIN();
    for (int i = 0; i < TIMES; i++) {
        umbra_spawn(nothing, NULL, &second);
        umbra_join(second, UMBRA_NEVER, NULL);
    }
    END("spawn+join", TIMES);
}

static void event_row(void)
{
    umbra_spawn(answers, NULL, &second);
    umbra_yield();
    BEGIN();
    for (int i = 0; i < TIMES; i++) {
        umbra_event_signal(&there);
        umbra_event_wait(&here, UMBRA_NEVER);
    }
    END("signal+wait", 2 * TIMES);
    umbra_join(second, UMBRA_NEVER, NULL);
}

static void count(void *calls)
{
    ++*(int *)calls;
}

static void task_row(void)
{
    int calls = 0;

    BEGIN();
    for (int i = 0; i < TIMES; i++) {
        struct umbra_task task;

        umbra_task_fork(&task, count, &calls);
        umbra_task_join_with(&task, count, &calls);
    }
    END("task fork+join", TIMES);
}

static void *fiber_rows(void *arg)
{
    yield_row();
    transfer_row();
    spawn_row();
    event_row();
    task_row();
    return arg;
}

/*
 * The shadow spins, so that a fork never has to wake it. The function has returned before the join
 * begins, so how long the owner waits is not counted.
 */
static void shadow_row(void)
{
    static struct umbra_shadow_options options;
    struct umbra_shadow shadow;
    int calls = 0;

    options.wait.mode = UMBRA_WAIT_SPIN;
    if (shadow_create(&shadow, &options) != 0)
        return;
    CALLGRIND_ZERO_STATS;
    for (int i = 0; i < FORKS; i++) {
        CALLGRIND_TOGGLE_COLLECT;
        shadow_fork(&shadow, count, &calls);
        CALLGRIND_TOGGLE_COLLECT;
        while (!um_shadow_done(&shadow))
            sched_yield();
        CALLGRIND_TOGGLE_COLLECT;
        shadow_join(&shadow);
        CALLGRIND_TOGGLE_COLLECT;
    }
    CALLGRIND_DUMP_STATS_AT("shadow fork+join");
    printf("shadow fork+join %d\n", FORKS);
    shadow_destroy(&shadow);
}

int main(void)
{
    static struct umbra_options options;
    int error;

    options.cores = 1;
    error = umbra_run(&options, fiber_rows, NULL);
    shadow_row();
    return error != 0;
}
