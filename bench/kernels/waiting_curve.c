/* SPDX-License-Identifier: BSL-1.0 */
/* See waiting_curve.h. */
#define _GNU_SOURCE
#include "waiting_curve.h"

#include "energy.h"
#include "shadow_fork.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>

#include <umbra/topology.h>

/* All that wait: an owner, its shadows, and the word for which the forked function waits. */
struct crowd {
    UM_ALIGNED(BENCH_LINES_ALIGN) struct umbra_waiter waiter;
    UM_ALIGNED(BENCH_LINES_ALIGN) _Atomic uint32_t word; /* 1: the function may end */
    struct umbra_wait_policy policy;
    const struct bench *bench;
    struct umbra_wait_options wait;
    struct umbra_shadow *shadow;
    unsigned shadows;
    pthread_t owner;
    sem_t made; /* posted by the owner: all wait, or there was an error */
    int error;
};

static void waits(void *arg)
{
    struct crowd *crowd = arg;

    umbra_wait_while_equal(&crowd->waiter, &crowd->word, 0, UINT32_MAX, UMBRA_NEVER);
}

/* A shadow on each hardware thread that this process may use, but for the owner's. */
static int make_shadows(struct crowd *crowd, unsigned *made)
{
    const struct umbra_topology_info *info = umbra_topology_info(bench_topology(crowd->bench));
    int error = 0;

    for (*made = 0; *made < crowd->shadows && error == 0; *made += error == 0)
        error = shadow_fork_create_at(crowd->bench, info->cpu[0].cpu, info->cpu[*made + 1].cpu,
                                      &crowd->wait, &crowd->shadow[*made]);
    return error;
}

static void *owns(void *arg)
{
    struct crowd *crowd = arg;
    unsigned made;

    crowd->error = make_shadows(crowd, &made);
    if (crowd->error == 0)
        crowd->error = shadow_fork(&crowd->shadow[0], waits, crowd);
    sem_post(&crowd->made);
    if (crowd->error == 0)
        shadow_join(&crowd->shadow[0]);
    while (made > 0)
        shadow_destroy(&crowd->shadow[--made]);
    return NULL;
}

static void dismiss(struct crowd *crowd)
{
    umbra_signal(&crowd->word, 1, &crowd->waiter);
    pthread_join(crowd->owner, NULL);
    sem_destroy(&crowd->made);
    free(crowd->shadow);
}

/* Returns when all wait. A kernel with shadows has two processors at least. */
static int gather(struct crowd *crowd, const struct bench *bench,
                  const struct umbra_wait_options *wait)
{
    const struct umbra_topology_info *info = umbra_topology_info(bench_topology(bench));
    int error;

    *crowd = (struct crowd){.bench = bench, .wait = *wait, .shadows = info->cpus - 1};
    error = umbra_wait_policy_init(&crowd->policy, wait);
    crowd->waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(&crowd->policy);
    crowd->shadow = aligned_alloc(
        BENCH_LINES_ALIGN, (crowd->shadows * sizeof(struct umbra_shadow) + BENCH_LINES_ALIGN - 1) /
                               BENCH_LINES_ALIGN * BENCH_LINES_ALIGN);
    if (error == 0 && crowd->shadow == NULL)
        error = -ENOMEM;
    sem_init(&crowd->made, 0, 0);
    if (error == 0)
        error = bench_thread(&crowd->owner, info->cpu[0].cpu, owns, crowd);
    if (error != 0) {
        sem_destroy(&crowd->made);
        free(crowd->shadow);
        return error;
    }
    while (sem_wait(&crowd->made) != 0)
        continue;
    if (crowd->error != 0)
        dismiss(crowd);
    return crowd->error;
}

static int sample(struct energy *energy, const struct waiting_curve *curve, json_t *watts,
                  json_t *celsius)
{
    struct energy_reading before, now;
    uint64_t began = bench_now_ns();
    int error = energy_read(energy, &before);

    for (unsigned i = 0; i < curve->samples && error == 0; i++) {
        uint64_t took;

        bench_sleep_ns(curve->every_ns);
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
