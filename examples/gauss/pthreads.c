/* SPDX-License-Identifier: BSL-1.0 */
/* mu1 and mu2 with threads of the operating system, which it schedules, and its events. */
#include "rows.h"
#include "variants.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A manual-reset event. */
struct os_event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool set;
};

static void os_event_set(struct os_event *event)
{
    pthread_mutex_lock(&event->lock);
    event->set = true;
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->lock);
}

static bool os_event_is_set(struct os_event *event)
{
    bool set;

    pthread_mutex_lock(&event->lock);
    set = event->set;
    pthread_mutex_unlock(&event->lock);
    return set;
}

static void os_event_wait(struct os_event *event)
{
    pthread_mutex_lock(&event->lock);
    while (!event->set)
        pthread_cond_wait(&event->changed, &event->lock);
    pthread_mutex_unlock(&event->lock);
}

struct job {
    const struct system *system;
    const struct setting *setting;
    struct os_event *pivot; /* mu1: row k is finished. mu2: all may begin with pivot k */
    struct share *share;
    pthread_t *thread;
    _Atomic size_t arrived; /* mu2: sides that are through, over all pivots */
};

struct side {
    struct job *job;
    struct share *share;
};

/* ---- mu1 ---- */

static void tell(size_t row, void *job)
{
    os_event_set(&((struct job *)job)->pivot[row]);
}

static void *mu1_side(void *arg)
{
    struct side *side = arg;
    struct job *job = side->job;
    size_t known = 0, step = 0;

    while (!share_finished(side->share)) {
        while (known < job->system->n && os_event_is_set(&job->pivot[known]))
            known++;
        if (share_front_ready(side->share, step, known))
            share_finish_front(side->share, job->system, tell, job);
        else if (share_advance(side->share, job->system, share_goal(step, known)) == SHARE_ADVANCED)
            continue;
        else if (known >= step + SHARE_STEP)
            step += SHARE_STEP;
        else
            os_event_wait(&job->pivot[known]);
    }
    return NULL;
}

/* ---- mu2 ---- */

static void *mu2_side(void *arg)
{
    struct side *side = arg;
    struct job *job = side->job;
    size_t sides = job->setting->sides;

    for (size_t k = 0; k + 1 < job->system->n; k++) {
        share_apply(side->share, job->system, k, true);
        if (atomic_fetch_add(&job->arrived, 1) + 1 == sides * (k + 1))
            os_event_set(&job->pivot[k + 1]);
        else
            os_event_wait(&job->pivot[k + 1]);
    }
    return NULL;
}

/* ---- both ---- */

static int run_threads(struct job *job, struct side *sides, void *(*body)(void *))
{
    size_t started = 0;
    int error = 0;

    for (; started < job->setting->sides; started++) {
        sides[started] = (struct side){job, &job->share[started]};
        error = pthread_create(&job->thread[started], NULL, body, &sides[started]);
        if (error)
            break;
    }
    if (error) { /* let those that are there through, to no good end */
        for (size_t k = 0; k < job->system->n; k++)
            os_event_set(&job->pivot[k]);
    }
    while (started > 0)
        pthread_join(job->thread[--started], NULL);
    return -error;
}

static int eliminate(const struct system *system, const struct setting *setting,
                     void *(*body)(void *))
{
    struct job job = {.system = system, .setting = setting};
    struct side *sides = calloc(setting->sides, sizeof(*sides));
    int error = shares_create(&job.share, setting->sides, system->n, setting->group_rows);

    job.pivot = calloc(system->n, sizeof(*job.pivot));
    job.thread = calloc(setting->sides, sizeof(*job.thread));
    if (!error && sides && job.pivot && job.thread) {
        for (size_t k = 0; k < system->n; k++) {
            pthread_mutex_init(&job.pivot[k].lock, NULL);
            pthread_cond_init(&job.pivot[k].changed, NULL);
        }
        error = run_threads(&job, sides, body);
        for (size_t k = 0; k < system->n; k++) {
            pthread_cond_destroy(&job.pivot[k].changed);
            pthread_mutex_destroy(&job.pivot[k].lock);
        }
    } else {
        error = -ENOMEM;
    }
    shares_destroy(job.share);
    free(job.pivot);
    free(job.thread);
    free(sides);
    return error;
}

int eliminate_mu1(const struct system *system, const struct setting *setting)
{
    return eliminate(system, setting, mu1_side);
}

int eliminate_mu2(const struct system *system, const struct setting *setting)
{
    return eliminate(system, setting, mu2_side);
}
