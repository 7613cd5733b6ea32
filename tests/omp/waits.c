/* SPDX-License-Identifier: BSL-1.0 */
/* Waits that only tasks end, where another member is a phase behind or asleep. A wait that never
 * ends is a test that runs out of time. */
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define ADD(number)                                                                                \
    {                                                                                              \
        _Pragma("omp atomic") number += 1;                                                         \
    }

/* The first task of a region is made just behind a barrier that others have yet to leave. */
static void late_at_barrier(int members)
{
    long sum = 0;

    for (int round = 0; round < 1000; round++) {
#pragma omp parallel num_threads(members)
        {
#pragma omp for schedule(static)
            for (int i = 0; i < members; i++)
                ;
#pragma omp single
            {
                for (int i = 0; i < 3; i++) {
#pragma omp task shared(sum)
                    ADD(sum);
                }
#pragma omp taskwait
            }
        }
    }
    printf("late at a barrier of %d: %ld\n", members, sum);
}

/* The same, where the other member sleeps in that barrier. */
static void asleep_at_barrier(void)
{
    int sum = 0;

    for (int round = 0; round < 60; round++) {
#pragma omp parallel num_threads(2)
        {
            if (omp_get_thread_num() == 0)
                usleep(1000);
#pragma omp barrier
            if (omp_get_thread_num() == 0) {
#pragma omp task shared(sum)
                {
                    usleep(500);
                    sum++;
                }
#pragma omp taskwait
            }
        }
    }
    printf("asleep at a barrier: %d\n", sum);
}

/* A task that a member takes in a barrier makes another, which the maker of the first waits for,
 * while the member waits for its turn in a loop behind the barrier. */
static void leaves_tasks(int members)
{
    long sum = 0;

#pragma omp parallel num_threads(members)
    {
#pragma omp task
        ;
#pragma omp barrier
        for (int round = 0; round < 1000; round++) {
#pragma omp for ordered schedule(static, 1)
            for (int i = 0; i < members; i++) {
                if (i == 0) {
#pragma omp taskgroup
                    {
#pragma omp task shared(sum)
                        {
#pragma omp task shared(sum)
                            ADD(sum);
                        }
                    }
                }
#pragma omp ordered
                ;
            }
        }
    }
    printf("leaves tasks of %d: %ld\n", members, sum);
}

/* Waits for its children: they are shared, behind a task that is not below it, and the one member
 * that sleeps takes no tasks, as it waits for its turn. */
static void shared_children(int *sum)
{
#pragma omp task
    ADD(*sum);
#pragma omp task if (0)
    {
        for (int i = 0; i < 2; i++) {
#pragma omp task
            ADD(*sum);
        }
        usleep(5000);
#pragma omp task
        ADD(*sum);
#pragma omp taskwait
    }
}

static void shares_children(void)
{
    int sum = 0;

    for (int round = 0; round < 30; round++) {
#pragma omp parallel num_threads(3)
        {
            if (omp_get_thread_num() == 2)
                usleep(2000);
#pragma omp for ordered schedule(static, 1) nowait
            for (int i = 0; i < 2; i++) {
                if (i == 0)
                    shared_children(&sum);
#pragma omp ordered
                ;
            }
        }
    }
    printf("shares children: %d\n", sum);
}

/* A scope's copies are used by its tasks while many loops inside it begin and end. */
static long scope_of_loops(void)
{
    static char *kept; /* a list, through the last bytes */
    long sum = 0;

#ifdef __clang__ /* 14 has no scope */
#pragma omp parallel num_threads(4) reduction(task, + : sum)
#else
#pragma omp parallel num_threads(4)
#pragma omp scope reduction(task, + : sum)
#endif
    {
        for (int i = 0; i < 10; i++) {
#pragma omp task in_reduction(+ : sum)
            sum += 1;
        }
#pragma omp taskwait
        for (int k = 0; k < 16; k++) {
#pragma omp for schedule(dynamic, 1)
            for (int i = 0; i < 8; i++)
                ;
        }
#pragma omp critical
        for (int i = 0; i < 4; i++) {
            char *memory = malloc(256); /* what has been freed is written; never freed itself */

            memset(memory, 1, 256);
            memcpy(memory + 256 - sizeof(kept), &kept, sizeof(kept));
            kept = memory;
        }
#pragma omp barrier
        for (int i = 0; i < 10; i++) {
#pragma omp task in_reduction(+ : sum)
            sum += 1;
        }
    }
    return sum;
}

/* What the compiler calls for a task; here with a copy constructor, which C has none of. */
void GOMP_task(void (*fn)(void *), void *data, void (*copy)(void *, void *), long bytes, long align,
               bool condition, unsigned flags, void **depend, int priority, void *detach);

struct copied {
    int value, *sum;
};

/* Makes tasks, waits for one, and leaves another. */
static void copied_make(void *to, void *from)
{
    struct copied *copy = to, *of = *(struct copied **)from;
    int made = 0, *sum = of->sum;

    *copy = *of;
#pragma omp task shared(made)
    made = 1;
#pragma omp taskwait
    copy->value += made;
#pragma omp task firstprivate(sum)
    {
        usleep(100);
        ADD(*sum);
    }
}

static void copied_use(void *data)
{
    struct copied *copy = data;

#pragma omp taskwait
#pragma omp atomic
    *copy->sum += copy->value;
}

static void constructors(void)
{
    int sum = 0;

#pragma omp parallel num_threads(3)
#pragma omp single
    {
        struct copied first = {7, &sum}, *data = &first;

        for (int i = 0; i < 50; i++)
            GOMP_task(copied_use, &data, copied_make, sizeof(first), _Alignof(struct copied),
                      i % 5 != 0, 0, NULL, 0, NULL);
    }
    printf("constructors: %d\n", sum);
}

/* A chunk so large that a sum of some wraps around. */
static void huge_chunks(void)
{
    volatile unsigned long long large = 1ull << 62;
    unsigned long long n = large, chunk = large, sum = 0;
    long count = (long)large, step = (long)large, total = 0;

#pragma omp parallel for num_threads(4) schedule(dynamic, chunk) reduction(+ : sum)
    for (unsigned long long i = 0; i < n; i++)
        sum += 1;
#pragma omp parallel for num_threads(4) schedule(dynamic, step) reduction(+ : total)
    for (long i = 0; i < count; i++)
        total += 1;
    printf("huge chunks: %llx %lx\n", sum, total);
}

static void successor(long left)
{
    if (left > 0) {
#pragma omp task firstprivate(left)
        successor(left - 1);
    }
}

/* Each task makes the next one and ends: their memory does not add up. */
static void successors(void)
{
    struct rusage before, after;

    getrusage(RUSAGE_SELF, &before);
#pragma omp parallel num_threads(2)
#pragma omp single
    successor(200000);
    getrusage(RUSAGE_SELF, &after);
    printf("successors: %s\n", after.ru_maxrss - before.ru_maxrss < 20000 ? "bounded" : "grow");
}

int main(void)
{
    int wrong = 0;

    for (int members = 2; members <= 4; members++) {
        late_at_barrier(members);
        leaves_tasks(members);
    }
    asleep_at_barrier();
    shares_children();
    for (int round = 0; round < 50; round++)
        wrong += scope_of_loops() != 80;
    printf("scope of loops: %d wrong\n", wrong);
    constructors();
    huge_chunks();
    successors();
    return 0;
}
