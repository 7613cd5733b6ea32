/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Tasks with priorities: of those that may begin the highest one does, if there are priorities. With an
 * argument: of taskloops, too, which have none under libgomp, and many, at which that one crashes.
 */
#include <omp.h>
#include <stdio.h>

enum { TASKS = 10 };

static int order[4 * TASKS], count;

static void note(int priority)
{
    int at;

#pragma omp atomic capture
    at = count++;
    order[at] = priority;
}

/* Which ones there were; and their order, if it counts. */
static void tell(const char *what)
{
    int sum = 0;

    printf("%s:", what);
    for (int i = 0; i < count; i++) {
        sum += order[i];
        if (omp_get_max_task_priority() > 0)
            printf(" %d", order[i]);
    }
    printf(", %d\n", sum);
    count = 0;
}

static void make(int from, int to)
{
    for (int i = from; i <= to; i++) {
#pragma omp task priority(i)
        note(i);
    }
}

/* One member: in a taskwait, at the end of a taskgroup, and at a barrier. */
static void alone(void)
{
#pragma omp parallel num_threads(1)
    {
        make(1, TASKS);
#pragma omp taskwait
#pragma omp taskgroup
        make(1, TASKS);
        make(1, TASKS);
    }
    tell("alone");
}

/* Tasks of the one that is made first, and of the one that comes last. */
static void nested(void)
{
#pragma omp parallel num_threads(1)
    {
#pragma omp task priority(20)
        {
            make(1, 3);
#pragma omp taskwait
            note(20);
        }
#pragma omp task priority(1)
        make(11, 13);
    }
    tell("nested");
}

/* One of two members makes them, the other executes all. */
static void two(void)
{
    int made = 0, done = 0;

#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 0) {
        for (int i = 1; i <= TASKS; i++) {
#pragma omp task priority(i) shared(done)
            {
                note(i);
#pragma omp atomic
                done++;
            }
        }
#pragma omp atomic write seq_cst
        made = 1;
        for (int is = 0; is < TASKS && omp_get_max_task_priority() > 0;) {
#pragma omp atomic read seq_cst
            is = done;
        }
    } else {
        for (int is = 0; is == 0;) {
#pragma omp atomic read seq_cst
            is = made;
        }
    }
    tell("two");
}

/* Their turns come together, when another one has ended. */
static void dependent(void)
{
#pragma omp parallel num_threads(1)
    {
#pragma omp task priority(1) depend(out : count)
        note(0);
        for (int i = 1; i <= TASKS; i++) {
#pragma omp task priority(i) depend(in : count)
            note(i);
        }
    }
    tell("dependent");
}

static void taskloop(void)
{
#pragma omp parallel num_threads(1)
    {
        make(1, 2);
#pragma omp taskloop priority(5) grainsize(1) nogroup
        for (int i = 0; i < 3; i++)
            note(5);
        make(9, 9);
    }
    tell("taskloop");
}

/* Some have none. */
static void many(void)
{
    int sum = 0;

#pragma omp parallel num_threads(4)
    for (int i = 0; i < 1000; i++) {
#pragma omp task priority(i % 7) shared(sum)
        {
#pragma omp atomic
            sum++;
        }
        if (i % 100 == 0) {
#pragma omp taskwait
        }
    }
    printf("many: %d\n", sum);
}

/* One of two members makes them while the other does nothing: it executes most of them itself. */
static void flood(void)
{
    int is_made = 0, done = 0, early = 0;

#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 0) {
        for (int i = 0; i < 20000; i++) {
#pragma omp task priority(1 + i % 7) shared(done)
            {
#pragma omp atomic
                done++;
            }
        }
#pragma omp atomic read
        early = done;
#pragma omp taskloop priority(9) grainsize(1) nogroup shared(done)
        for (int i = 0; i < 20000; i++) {
#pragma omp atomic
            done++;
        }
#pragma omp atomic write seq_cst
        is_made = 1;
    } else {
        for (int is = 0; is == 0;) {
#pragma omp atomic read seq_cst
            is = is_made;
        }
    }
    printf("flood: %s, %d\n", early > 19000 ? "bounded" : "grows", done);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        taskloop();
        many();
        flood();
        return 0;
    }
    printf("%d\n", omp_get_max_task_priority());
    alone();
    nested();
    two();
    dependent();
    return 0;
}
