/* SPDX-License-Identifier: BSL-1.0 */
/* Detached tasks (libgomp 12 hangs in some of this): their events are fulfilled before their end and after it, by tasks and by other
 * threads, and what waits for the tasks waits for the events. */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { ROUNDS = 100 };

struct late {
    omp_event_handle_t event;
    int *value, delay;
};

static void *fulfil_late(void *arg)
{
    struct late *late = arg;

    usleep((useconds_t)late->delay);
#pragma omp atomic write
    *late->value = 7;
    omp_fulfill_event(late->event);
    return NULL;
}

static void begin(pthread_t *thread, struct late *late, omp_event_handle_t event)
{
    late->event = event;
    pthread_create(thread, NULL, fulfil_late, late);
}

/* In the task itself, and by a sibling. */
static void by_tasks(void)
{
    int sum = 0, order = 0;

    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel num_threads(3)
#pragma omp single
        {
            omp_event_handle_t own, other;

#pragma omp task detach(own) shared(sum)
            {
#pragma omp atomic
                sum++;
                omp_fulfill_event(own);
            }
#pragma omp task detach(other) depend(out : order) shared(sum)
            {
#pragma omp atomic
                sum++;
            }
#pragma omp task shared(order) firstprivate(other)
            {
                if (round % 3 == 0)
                    usleep(500);
#pragma omp atomic write
                order = round;
                omp_fulfill_event(other);
            }
#pragma omp task depend(in : order) shared(order, sum)
            {
#pragma omp atomic
                sum += order == round;
            }
#pragma omp taskwait
        }
    }
    printf("detach: %d", sum);
}

/* By a thread that knows nothing of OpenMP. wait: 0: taskwait; 1: taskgroup; 2: the region's end; 3:
 * taskwait depend; 4: none, as the task is undeferred. */
static int by_thread(int wait, int delay)
{
    int value = 0, seen = 0;
    pthread_t thread;
    struct late late = {.value = &value, .delay = delay};
    omp_event_handle_t event;

#pragma omp parallel num_threads(2)
#pragma omp single
    {
        if (wait == 1) {
#pragma omp taskgroup
            {
#pragma omp task detach(event) shared(late, thread)
                begin(&thread, &late, event);
            }
        } else {
#pragma omp task detach(event) shared(late, thread) depend(out : seen) if (wait != 4)
            begin(&thread, &late, event);
        }
        if (wait == 0) {
#pragma omp taskwait
        } else if (wait == 3) {
#pragma omp taskwait depend(in : seen)
        }
        if (wait != 2) {
#pragma omp atomic read
            seen = value;
        }
    }
    pthread_join(thread, NULL);
    return wait == 2 ? value : seen;
}

/* By the thread that has made them all, and one that waits for the last. */
static void by_maker(int threads, int count)
{
    static omp_event_handle_t events[3000];
    int sum = 0, first = 0;

#pragma omp parallel num_threads(threads)
#pragma omp single
    {
        for (int i = 0; i < count; i++) {
            omp_event_handle_t event;

#pragma omp task detach(event) depend(inout : sum) shared(sum)
            sum++;
            events[i] = event;
            if (i == 0) {
#pragma omp task depend(in : sum) shared(sum, first)
                first = sum;
            }
        }
        for (int i = 0; i < count; i++)
            omp_fulfill_event(events[i]);
    }
    printf(" %d %d", first, sum);
}

/* The same, where so many tasks are ready that others are executed at once. */
static void beside_many(int threads, int count)
{
    omp_event_handle_t event;
    int first = 0, sum = 0;

#pragma omp parallel num_threads(threads)
#pragma omp single
    {
#pragma omp task detach(event) depend(out : first) shared(first)
        first = 7;
        for (int i = 0; i < count; i++) {
#pragma omp task depend(in : count) shared(sum)
            {
#pragma omp atomic
                sum++;
            }
        }
#pragma omp task depend(in : first) shared(first, sum)
        {
#pragma omp atomic
            sum += first;
        }
        omp_fulfill_event(event);
    }
    printf(" %d", sum);
}

/* The tasks around a detached one end before it, and it has the memory of the outermost. */
static void parents_end(void)
{
    int over = 0, value = 0;
    pthread_t thread;
    struct late late = {.value = &value, .delay = 2000};
    omp_event_handle_t event;

#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 0) {
#pragma omp taskgroup
        {
#pragma omp task shared(late, thread)
#pragma omp task shared(late, thread)
#pragma omp task shared(late, thread) private(event)
#pragma omp task detach(event) shared(late, thread)
            begin(&thread, &late, event);
        }
#pragma omp atomic write
        over = value;
    } else {
        for (int is = 0; is == 0;) {
            usleep(100);
#pragma omp atomic read
            is = over;
        }
    }
    pthread_join(thread, NULL);
    printf(" %d", over);
}

int main(void)
{
    by_tasks();
    by_maker(1, 10);
    by_maker(2, 3000);
    beside_many(1, 3000);
    beside_many(2, 3000);
    parents_end();
    for (int wait = 0; wait < 5; wait++) {
        int right = 0;

        for (int round = 0; round < ROUNDS; round++)
            right += by_thread(wait, round % 4 == 0 ? 2000 : 0) == 7;
        printf(" %d", right);
    }
    printf("\n");
    return 0;
}
