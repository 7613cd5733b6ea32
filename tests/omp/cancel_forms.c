/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Cancellation in forms in which libgomp waits for ever, or uses memory that it has freed: loops with
 * `ordered`, and events that are fulfilled when their tasks have been discarded.
 */
#include <omp.h>
#include <stdio.h>

enum { MEMBERS = 4, ITERATIONS = 64, ROUNDS = 50 };

/* Iterations end in order up to the one that cancels; returns how many times not. */
static int ordered(void)
{
    int wrong = 0, last = -1;

#pragma omp parallel num_threads(MEMBERS)
    {
#pragma omp for ordered schedule(dynamic, 2)
        for (int i = 0; i < ITERATIONS; i++) {
#pragma omp ordered
            {
                wrong += i <= last;
                last = i;
            }
#pragma omp cancel for if (i == 20)
        }
#pragma omp for ordered schedule(static, 1) reduction(+ : wrong)
        for (int i = 0; i < ITERATIONS; i++) {
#pragma omp cancel for if (i == 5)
#pragma omp ordered
            wrong += i < 0;
        }
    }
#pragma omp parallel for ordered num_threads(MEMBERS)
    for (int i = 0; i < ITERATIONS; i++) {
#pragma omp cancel for if (i == 0)
#pragma omp ordered
        last = i;
    }
    return wrong + (last < 0);
}

/* Members that leave a region, and one that goes through loops that they never come to. */
static int ahead(void)
{
    int runs = 0;

#pragma omp parallel num_threads(MEMBERS)
    {
#pragma omp cancel parallel if (omp_get_thread_num() > 0)
        for (int loop = 0; loop < 20; loop++) {
#pragma omp for schedule(dynamic) nowait
            for (int i = 0; i < ITERATIONS; i++)
#pragma omp atomic
                runs++;
        }
    }
    return runs <= 20 * ITERATIONS;
}

/* A function: nothing in it can be left. */
__attribute__((__noipa__)) static int whole_function(void)
{
    int value = 0;

#pragma omp single copyprivate(value)
    value = 7;
#pragma omp barrier
#pragma omp barrier
    return value != 7;
}

/* A member leaves a region, and the others go through barriers, and copy. */
static int behind(void)
{
    int wrong = 0;

#pragma omp parallel num_threads(MEMBERS)
    {
        int value = 0, other;

#pragma omp cancel parallel if (omp_get_thread_num() == 0)
        other = whole_function();
#pragma omp single copyprivate(value)
        value = 7;
        other += value != 7;
#pragma omp atomic
        wrong += other;
#pragma omp barrier
#pragma omp atomic
        wrong += 1000;
    }
    return wrong;
}

/* Returns how many tasks were executed. */
static int detached(void)
{
    omp_event_handle_t events[10];
    int runs = 0;

#pragma omp parallel num_threads(MEMBERS)
#pragma omp single
    {
#pragma omp taskgroup
        {
#pragma omp task if (0)
            {
#pragma omp cancel taskgroup
            }
            for (int i = 0; i < 10; i++) {
                omp_event_handle_t event;

#pragma omp task detach(event) depend(inout : runs)
                {
#pragma omp atomic
                    runs++;
                }
                events[i] = event;
            }
        }
        for (int i = 0; i < 10; i++)
            omp_fulfill_event(events[i]);
        for (int i = 0; i < 100; i++) {
#pragma omp task shared(runs)
            {
#pragma omp atomic
                runs += 100;
            }
        }
    }
    return runs;
}

int main(void)
{
    int wrong = 0, whole = 0, runs = 0;

    for (int i = 0; i < ROUNDS; i++) {
        wrong += ordered() + behind();
        whole += ahead();
        runs += detached();
    }
    printf("cancel: %d, %d, %d\n", wrong, whole, runs);
    return 0;
}
