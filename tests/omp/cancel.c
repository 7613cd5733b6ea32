/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Cancellation: each construct, cancelled by its first or last member, by all of them, or by none,
 * which has a cancellation point only. Members that do not cancel wait at a cancellation point, so
 * that what is executed is determined. Prints the same with and without the library.
 */
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>

enum { MEMBERS = 4, ITERATIONS = 64, TASKS = 20 };
#ifdef __clang__ /* code of a task with a false `if`, also of a cancelled one */
enum { executes_itself = 1 };
#else
enum { executes_itself = 0 };
#endif
enum way { FIRST, LAST, EVERY, NONE, WAYS };

static bool on; /* OMP_CANCELLATION */

static bool cancels(enum way way)
{
    int number = omp_get_thread_num();

    return way == EVERY || (way == FIRST && number == 0) || (way == LAST && number == MEMBERS - 1);
}

/* True if the member is to wait at a cancellation point. */
static bool waits(enum way way)
{
    return on && way != NONE;
}

static int add(int *to, int number)
{
    int is;

#pragma omp atomic capture
    is = *to += number;
    return is;
}

/* What the team of a cancelled region does next: it is whole. */
static int next_region(void)
{
    int sum = 0;

#pragma omp parallel num_threads(MEMBERS)
    {
        for (int loop = 0; loop < 12; loop++) {
#pragma omp for schedule(dynamic) nowait
            for (int i = 0; i < 10; i++)
                add(&sum, 1);
        }
#pragma omp single
        {
            for (int i = 0; i < TASKS; i++)
#pragma omp task shared(sum)
                add(&sum, 1000);
        }
#pragma omp barrier
#pragma omp single nowait
        add(&sum, 1000000);
    }
    return sum;
}

static void tell(const char *what, enum way way, int runs, int past)
{
    printf("%s %d: %d %d, then %d\n", what, way, runs, past, next_region());
}

#define LOOP(name, clauses)                                                                        \
    static void name(enum way way)                                                                 \
    {                                                                                              \
        int runs = 0, past = 0;                                                                    \
                                                                                                   \
        _Pragma("omp parallel num_threads(MEMBERS)")                                               \
        {                                                                                          \
            _Pragma(clauses) for (int i = 0; i < ITERATIONS; i++)                                  \
            {                                                                                      \
                add(&runs, 1);                                                                     \
                _Pragma("omp cancel for if (cancels(way))") while (waits(way))                     \
                {                                                                                  \
                    _Pragma("omp cancellation point for")                                          \
                }                                                                                  \
            }                                                                                      \
            add(&past, 1);                                                                         \
        }                                                                                          \
        tell(#name, way, runs, past);                                                              \
    }

LOOP(loop, "omp for")
LOOP(loop_static, "omp for schedule(static, 3)")
LOOP(loop_dynamic, "omp for schedule(dynamic)")
LOOP(loop_dynamic_3, "omp for schedule(monotonic:dynamic, 3)")
LOOP(loop_guided, "omp for schedule(guided)")
LOOP(loop_runtime, "omp for schedule(runtime)")
LOOP(loop_collapse, "omp for schedule(dynamic) collapse(1)")

/* Again and again, in one region. */
static void loops(enum way way)
{
    int runs = 0, past = 0;

#pragma omp parallel num_threads(MEMBERS)
    for (int loop = 0; loop < 20; loop++) {
#pragma omp for schedule(dynamic)
        for (int i = 0; i < ITERATIONS; i++) {
            add(&runs, 1);
#pragma omp cancel for if (cancels(way))
            while (waits(way)) {
#pragma omp cancellation point for
            }
        }
#pragma omp for
        for (int i = 0; i < ITERATIONS; i++) {
            add(&past, 1);
#pragma omp cancellation point for
        }
    }
    tell("loops", way, runs, past);
}

static void sections(enum way way)
{
    int runs = 0, past = 0;

#pragma omp parallel num_threads(MEMBERS)
    {
#define SECTION                                                                                    \
    add(&runs, 1);                                                                                 \
    _Pragma("omp cancel sections if (cancels(way))") while (waits(way)){                           \
        _Pragma("omp cancellation point sections")}
#pragma omp sections
        {
#pragma omp section
            {SECTION}
#pragma omp section
            {SECTION}
#pragma omp section
            {SECTION}
#pragma omp section
            {SECTION}
#pragma omp section
            {SECTION}
#pragma omp section
            {
                SECTION
            }
        }
        add(&past, 1);
    }
    tell("sections", way, runs, past);
}

/* ---- regions ---- */

static void region(enum way way)
{
    int runs = 0, past = 0;

#pragma omp parallel num_threads(MEMBERS)
    {
        add(&runs, 1);
#pragma omp cancel parallel if (cancels(way))
        while (waits(way)) {
#pragma omp cancellation point parallel
        }
        add(&past, 1);
    }
    tell("region", way, runs, past);
}

/* The others wait at barriers, and at ends of loops. */
static void region_barrier(enum way way)
{
    int runs = 0, past = 0;

#pragma omp parallel num_threads(MEMBERS)
    {
        add(&runs, 1);
#pragma omp barrier
#pragma omp cancel parallel if (cancels(way))
        if (omp_get_thread_num() % 2 == 0) {
#pragma omp barrier
        } else {
#pragma omp barrier
        }
        add(&past, 1);
#pragma omp for schedule(dynamic)
        for (int i = 0; i < ITERATIONS; i++)
            add(&past, 1);
    }
    tell("barrier", way, runs, past);
}

static void region_loop_end(enum way way)
{
    int runs = 0, past = 0;

#pragma omp parallel num_threads(MEMBERS)
    {
#pragma omp single nowait
        add(&runs, 1);
#pragma omp cancel parallel if (cancels(way))
#pragma omp for schedule(dynamic)
        for (int i = 0; i < MEMBERS; i++)
            ;
        add(&past, 1);
#pragma omp single
        add(&past, 1);
    }
    tell("loop end", way, runs, past);
}

/* Tasks of the region that have not begun are discarded; one has. */
static void region_tasks(enum way way)
{
    int runs = 0, past = 0, begun = 0;

#pragma omp parallel num_threads(MEMBERS)
    {
        if (omp_get_thread_num() == 1) {
#pragma omp taskgroup
            {
#pragma omp task depend(inout : past) shared(begun)
                {
                    add(&begun, 1);
                    while (waits(way)) {
#pragma omp cancellation point taskgroup
                    }
                }
                for (int i = 0; i < TASKS; i++)
#pragma omp task depend(inout : past)
                    add(&past, 1);
            }
        }
        while (waits(way) && add(&begun, 0) == 0)
            ;
        add(&runs, 1);
#pragma omp cancel parallel if (cancels(way))
#pragma omp barrier
    }
    tell("tasks", way, runs, begun + past);
}

static void nested(enum way way)
{
    int runs = 0, past = 0;

    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
    {
#pragma omp parallel num_threads(MEMBERS)
        {
            add(&runs, 1);
#pragma omp cancel parallel if (cancels(way))
            while (waits(way)) {
#pragma omp cancellation point parallel
            }
            add(&past, 1);
        }
#pragma omp cancellation point parallel
#pragma omp barrier
        add(&past, 100);
    }
    omp_set_max_active_levels(1);
    tell("nested", way, runs, past);
}

static void alone(enum way way)
{
    int runs = 0, past = 0;

#pragma omp parallel num_threads(1)
    {
#pragma omp task shared(runs)
        add(&runs, 1);
#pragma omp taskwait
#pragma omp cancel parallel if (way != NONE)
        add(&past, 1);
    }
    tell("alone", way, runs, past);
}

/* ---- taskgroups ---- */

/* Each task after the other; one of them cancels, or all do. */
static void taskgroup(enum way way)
{
    int runs = 0, past = 0;

#pragma omp parallel num_threads(MEMBERS)
#pragma omp single
    {
#pragma omp taskgroup
        {
            for (int i = 0; i < TASKS; i++)
#pragma omp task depend(inout : runs) shared(past)
            {
                add(&runs, 1);
#pragma omp cancel taskgroup if (way == EVERY || (way == FIRST && i == 0) ||                       \
                                 (way == LAST && i == 10))
                add(&past, 1);
            }
        }
#pragma omp task shared(past)
        add(&past, 1000);
    }
    tell("taskgroup", way, runs, past);
}

/* All tasks come after the cancel; in a second group inside, or not. */
static void taskgroup_late(enum way way)
{
    int runs = 0, past = 0;

#pragma omp parallel num_threads(MEMBERS)
#pragma omp single
    {
#pragma omp taskgroup
        {
#pragma omp task if (0)
            {
#pragma omp cancel taskgroup if (way != NONE)
                add(&past, 1);
            }
            for (int i = 0; i < TASKS; i++)
#pragma omp task if (i % 2 == 0 || executes_itself) shared(runs)
                add(&runs, 1);
#pragma omp taskloop nogroup shared(runs)
            for (int i = 0; i < ITERATIONS; i++)
                add(&runs, 1);
        }
#pragma omp taskgroup
        {
#pragma omp task shared(past)
            {
                add(&past, 1000);
#pragma omp cancellation point taskgroup
                add(&past, 1000);
            }
        }
    }
    tell("late", way, runs, past);
}

/* A task that has begun sees it at a cancellation point. */
static void taskgroup_begun(enum way way)
{
    int runs = 0, past = 0;

#pragma omp parallel num_threads(MEMBERS)
#pragma omp single
#pragma omp taskgroup
    {
#pragma omp task shared(runs, past)
        {
            add(&runs, 1);
            while (waits(way)) {
#pragma omp cancellation point taskgroup
            }
            add(&past, 1);
        }
#pragma omp task shared(runs, past)
        {
            int is = 0;

            while (is == 0) {
#pragma omp atomic read
                is = runs;
            }
            add(&runs, 1);
#pragma omp cancel taskgroup if (way != NONE)
            add(&past, 1);
        }
    }
    tell("begun", way, runs, past);
}

static void taskloop(enum way way)
{
    int runs = 0, all = 0;

#pragma omp parallel num_threads(MEMBERS)
#pragma omp single
#pragma omp taskloop grainsize(1) shared(all)
    for (int i = 0; i < ITERATIONS; i++) {
        add(&all, 1);
#pragma omp cancel taskgroup if (way != NONE)
    }
#pragma omp parallel num_threads(1)
#pragma omp taskloop grainsize(1) shared(runs)
    for (int i = 0; i < ITERATIONS; i++) {
        add(&runs, 1);
#pragma omp cancel taskgroup if (way != NONE)
    }
    tell("taskloop", way, runs, all > 0 && (all <= MEMBERS || !waits(way)));
}

int main(void)
{
    static void (*const all[])(enum way) = {
        loop,           loop_static,     loop_dynamic,    loop_dynamic_3, loop_guided,
        loop_runtime,   loop_collapse,   loops,           sections,       region,
        region_barrier, region_loop_end, region_tasks,    nested,         alone,
        taskgroup,      taskgroup_late,  taskgroup_begun, taskloop};

    on = omp_get_cancellation();
    printf("%d\n", on);
    for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++)
        for (int way = 0; way < WAYS; way++)
            all[i]((enum way)way);
    return 0;
}
