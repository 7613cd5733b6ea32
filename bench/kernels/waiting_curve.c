/* SPDX-License-Identifier: BSL-1.0 */
/* See waiting_curve.h. */
#define _GNU_SOURCE
#include "waiting_curve.h"

#include "energy.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include <umbra/topology.h>

/* One thread that waits. */
struct waiting {
    struct umbra_waiter waiter;
    UM_ALIGNED(BENCH_LINES_ALIGN) _Atomic uint32_t word; /* 1: it may end */
    pthread_t thread;
};

struct crowd {
    struct umbra_wait_policy policy;
    struct waiting *waiting;
    unsigned count;
};

static void *waits(void *arg)
{
    struct waiting *waiting = arg;

    umbra_wait_while_equal(&waiting->waiter, &waiting->word, 0, UINT32_MAX, UMBRA_NEVER);
    return NULL;
}

static void dismiss(struct crowd *crowd)
{
    for (unsigned i = 0; i < crowd->count; i++)
        umbra_signal(&crowd->waiting[i].word, 1, &crowd->waiting[i].waiter);
    for (unsigned i = 0; i < crowd->count; i++)
        pthread_join(crowd->waiting[i].thread, NULL);
    free(crowd->waiting);
}

/* One on each hardware thread that this process may use. */
static int gather(struct crowd *crowd, const struct bench *bench,
                  const struct umbra_wait_options *wait)
{
    struct umbra_topology *topology = bench_topology(bench);
    unsigned cpus = umbra_topology_info(topology)->cpus;
    int error = umbra_wait_policy_init(&crowd->policy, wait);

    if (error != 0)
        return error;
    crowd->count = 0;
    crowd->waiting = aligned_alloc(BENCH_LINES_ALIGN, cpus * sizeof(struct waiting));
    if (crowd->waiting == NULL)
        return -ENOMEM;
    for (unsigned i = 0; i < cpus && error == 0; i++) {
        struct waiting *waiting = &crowd->waiting[i];

        *waiting = (struct waiting){.word = 0};
        waiting->waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(&crowd->policy);
        error = bench_thread(&waiting->thread, umbra_topology_info(topology)->cpu[i].cpu, waits,
                             waiting);
        crowd->count += error == 0;
    }
    if (error != 0)
        dismiss(crowd);
    return error;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000u),
                            .tv_nsec = (long)(ns % 1000000000u)};

    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        continue;
}

static int sample(struct energy *energy, const struct waiting_curve *curve, json_t *watts,
                  json_t *celsius)
{
    struct energy_reading before, now;
    uint64_t began = bench_now_ns();
    int error = energy_read(energy, &before);

    for (unsigned i = 0; i < curve->samples && error == 0; i++) {
        uint64_t took;

        sleep_ns(curve->every_ns);
        error = energy_read(energy, &now);
        took = bench_now_ns() - began;
        began += took;
        if (error == 0) {
            json_array_append_new(watts,
                                  json_real((now.joules - before.joules) * 1e9 / (double)took));
            json_array_append_new(celsius, json_real(now.celsius));
        }
        before = now;
    }
    return error;
}

/* The readings as an object, or NULL and the error. */
static json_t *measure(const struct bench *bench, struct energy *energy,
                       const struct waiting_curve *curve, int *error)
{
    json_t *object = json_pack("{s:f, s:[], s:[]}", "every_s", (double)curve->every_ns / 1e9,
                               "watts", "celsius");
    struct crowd crowd;

    *error = gather(&crowd, bench, &curve->wait);
    if (*error == 0) {
        *error = sample(energy, curve, json_object_get(object, "watts"),
                        json_object_get(object, "celsius"));
        dismiss(&crowd);
    }
    if (*error != 0) {
        json_decref(object);
        return NULL;
    }
    if (!energy_has_joules(energy))
        json_object_del(object, "watts");
    if (!energy_has_celsius(energy))
        json_object_del(object, "celsius");
    return object;
}

int waiting_curve_add(struct bench_row *row, const struct waiting_curve *curve)
{
    const char *sysfs = getenv("UMBRA_SYSFS");
    struct energy *energy = energy_open(sysfs != NULL ? sysfs : "/sys");
    json_t *found;
    int error = 0;

    if (energy == NULL)
        return -ENOMEM;
    if (energy_has_joules(energy) || energy_has_celsius(energy))
        found = measure(row->bench, energy, curve, &error);
    else
        found = json_string("not available");
    energy_close(energy);
    if (error == 0)
        json_object_set_new(row->params, "energy", found);
    return error;
}
