/* SPDX-License-Identifier: BSL-1.0 */
/* How long a wake-up takes: of a fiber by umbra_event_signal, and of a thread by
 * pthread_cond_signal, one after the other, by the same thread. */
#define _GNU_SOURCE
#include "soak.h"

#include <pthread.h>
#include <time.h>

#define WAKES 20 /* of each kind a round */
#define PARTS 16 /* of each power of two */

/* Times by their upper bits: a part is a sixteenth of a power of two. */
struct times {
    uint64_t count[64 * PARTS];
    uint64_t all, most;
};

static struct times of_event, of_condition; /* one writer: the load's thread */

static void times_add(struct times *times, uint64_t ns)
{
    unsigned power = ns < PARTS ? 0 : 63 - (unsigned)__builtin_clzll(ns) - 3;
    unsigned part = (unsigned)(ns >> (power ? power - 1 : 0)) % PARTS;

    times->count[power * PARTS + part]++;
    times->all++;
    times->most = ns > times->most ? ns : times->most;
}

/* The smallest time of the part that this share of all times reaches. */
static uint64_t times_at(const struct times *times, double share)
{
    uint64_t left = (uint64_t)((double)times->all * share);

    for (unsigned i = 0; i < 64 * PARTS; i++) {
        unsigned power = i / PARTS;

        if (times->count[i] > left)
            return power ? (uint64_t)(PARTS + i % PARTS) << (power - 1) : i;
        left -= times->count[i];
    }
    return times->most;
}

/* ---- the two kinds of waiters ---- */

struct wakes {
    struct load *load;
    pthread_mutex_t mutex; /* of `told` and `woken_ns` */
    pthread_cond_t call, answer;
    struct umbra_event event, answered;
    uint64_t woken_ns; /* when the waiter ran again */
    bool called, told;
};

static void *wait_for_events(void *arg)
{
    struct wakes *w = arg;

    for (int i = 0; i < WAKES; i++) {
        soak_check(w->load, "wait", umbra_event_wait(&w->event, UMBRA_NEVER));
        w->woken_ns = umbra_now_ns();
        umbra_event_signal(&w->answered);
    }
    return NULL;
}

static void *wait_for_conditions(void *arg)
{
    struct wakes *w = arg;

    pthread_mutex_lock(&w->mutex);
    for (int i = 0; i < WAKES; i++) {
        while (!w->called)
            pthread_cond_wait(&w->call, &w->mutex);
        w->woken_ns = umbra_now_ns();
        w->called = false;
        w->told = true;
        pthread_cond_signal(&w->answer);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

/* So that the waiter has gone to sleep when it is woken. */
static void let_sleep(struct load *load)
{
    struct timespec pause = {.tv_nsec = (long)(soak_random(&load->random) % 2000000)};

    nanosleep(&pause, NULL);
}

static void wake_by_events(struct wakes *w)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = CORES - 1};
    struct umbra_fiber fiber;

    if (!soak_check(w->load, "spawn",
                    umbra_spawn_with(soak_runtime, &there, wait_for_events, w, &fiber)))
        return;
    for (int i = 0; i < WAKES; i++) {
        uint64_t start;

        let_sleep(w->load);
        start = umbra_now_ns();
        umbra_event_signal(&w->event);
        soak_check(w->load, "wait", umbra_event_wait(&w->answered, UMBRA_NEVER));
        times_add(&of_event, w->woken_ns - start);
    }
    soak_check(w->load, "join", umbra_join(fiber, UMBRA_NEVER, NULL));
}

static void wake_by_condition(struct wakes *w)
{
    pthread_mutex_lock(&w->mutex);
    w->called = true;
    pthread_cond_signal(&w->call);
    while (!w->told)
        pthread_cond_wait(&w->answer, &w->mutex);
    w->told = false;
    pthread_mutex_unlock(&w->mutex);
}

static void wake_by_conditions(struct wakes *w)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, wait_for_conditions, w);

    if (!soak_check(w->load, "pthread_create", error))
        return;
    for (int i = 0; i < WAKES; i++) {
        uint64_t start;

        let_sleep(w->load);
        start = umbra_now_ns();
        wake_by_condition(w);
        times_add(&of_condition, w->woken_ns - start);
    }
    pthread_join(thread, NULL);
}

void wakes_round(struct load *load)
{
    struct wakes w = {.load = load,
                      .mutex = PTHREAD_MUTEX_INITIALIZER,
                      .call = PTHREAD_COND_INITIALIZER,
                      .answer = PTHREAD_COND_INITIALIZER};

    w.event = (struct umbra_event)UMBRA_EVENT_INIT;
    w.answered = (struct umbra_event)UMBRA_EVENT_INIT;
    wake_by_events(&w);
    wake_by_conditions(&w);
    load->done += 2 * WAKES;
}

static void times_print(const char *name, const struct times *times)
{
    printf("wake %s %llu %llu %llu %llu %llu\n", name, (unsigned long long)times->all,
           (unsigned long long)times_at(times, 0.5), (unsigned long long)times_at(times, 0.99),
           (unsigned long long)times_at(times, 0.999), (unsigned long long)times->most);
}

void wakes_print(void)
{
    times_print("umbra_event", &of_event);
    times_print("pthread_cond", &of_condition);
}
