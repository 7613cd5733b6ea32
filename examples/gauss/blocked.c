/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Elimination by blocks on all cores, without a barrier. Each core has one fiber, which takes what
 * is next: panel by panel, and for each the strips from left to right, first those that it had for
 * the panel before. Who finds that a panel is up to date factors it while the others are still busy
 * with the strips farther right.
 *
 *   event            signaled when                       waits for it
 *   factored[k]      panel k is factored and packed      who applies it
 *   updated(k, s)    panel k is applied to strip s       who applies panel k + 1 to it
 *   applied[k]       panel k is applied to all strips    who packs panel k + BUFFERS
 *
 * updated(k, s) is auto-reset, and is updated(k + BUFFERS, s), too: nobody waits for that before
 * panel k + 1 + BUFFERS is packed, so when panel k + 1 is applied, and has been waited for. One
 * event a strip would not do: who is to apply a panel to it may be so late that who is to apply the
 * next one takes his signal.
 */
#include "blocks.h"
#include "variants.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <umbra.h>

#define BUFFERS 3 /* for packed panels: that being made, that in use, and that of stragglers */

/* How far a panel has come. On a line of its own: all cores write it. */
struct progress {
    _Alignas(UMBRA_CACHE_LINE) _Atomic size_t outdated; /* its strips that lack the panel before */
    _Atomic size_t unapplied; /* strips that it is still to be applied to */
};

struct job {
    struct blocks blocks;
    struct progress *progress; /* by panel */
    _Atomic size_t *taken;     /* by strip: panels that were, or are being, applied to it */
    struct umbra_event *factored;
    struct umbra_event *applied;
    struct umbra_event *updated; /* BUFFERS a strip */
    size_t cores;
};

static struct umbra_event *updated(const struct job *job, size_t k, size_t strip)
{
    return &job->updated[strip * BUFFERS + k % BUFFERS];
}

static void factor(struct job *job, size_t k)
{
    const struct blocks *blocks = &job->blocks;

    if (k >= BUFFERS)
        umbra_event_wait(&job->applied[k - BUFFERS], UMBRA_NEVER);
    blocks_kernel->factor(blocks->system, &blocks->panel[k],
                          blocks_scratch(blocks, (size_t)umbra_core_index()));
    umbra_event_signal(&job->factored[k]);
}

static void apply(struct job *job, size_t k, size_t strip)
{
    const struct blocks *blocks = &job->blocks;

    if (k > 0)
        umbra_event_wait(updated(job, k - 1, strip), UMBRA_NEVER);
    blocks_kernel->apply(blocks->system, &blocks->panel[k], blocks_strip(blocks, strip),
                         blocks_scratch(blocks, (size_t)umbra_core_index()));
    umbra_event_signal(updated(job, k, strip));
    if (atomic_fetch_sub(&job->progress[k].unapplied, 1) == 1)
        umbra_event_signal(&job->applied[k]);
    if (strip < blocks_first_strip(blocks, k + 2) && k + 1 < blocks->panels &&
        atomic_fetch_sub(&job->progress[k + 1].outdated, 1) == 1)
        factor(job, k + 1);
}

/* Whether strip s is the caller's to apply panel k to. */
static bool take(struct job *job, size_t k, size_t strip)
{
    size_t before = k;

    return atomic_compare_exchange_strong(&job->taken[strip], &before, k + 1);
}

/* The core's own strips, the same for each panel, are in its caches; then those of late cores. */
static void *work(void *arg)
{
    struct job *job = arg;
    size_t core = (size_t)umbra_core_index(), strips = job->blocks.strips;

    for (size_t k = 0; k < job->blocks.panels; k++) {
        size_t first = blocks_first_strip(&job->blocks, k + 1);

        umbra_event_wait(&job->factored[k], UMBRA_NEVER);
        for (size_t s = first; s < strips; s++)
            if (s % job->cores == core && take(job, k, s))
                apply(job, k, s);
        for (size_t s = first; s < strips; s++)
            if (take(job, k, s))
                apply(job, k, s);
    }
    return NULL;
}

static void *start(void *arg)
{
    struct job *job = arg;

    for (size_t core = 1; core < job->cores; core++) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = (unsigned)core};
        struct umbra_fiber fiber;

        if (umbra_spawn_with(NULL, &there, work, job, &fiber) != 0)
            break; /* the others do its share */
        umbra_detach(fiber);
    }
    factor(job, 0);
    return work(job);
}

static void *array(size_t count, size_t bytes)
{
    return aligned_alloc(UMBRA_CACHE_LINE, count * bytes);
}

static int set_up(struct job *job)
{
    size_t panels = job->blocks.panels, strips = job->blocks.strips;

    job->progress = array(panels, sizeof(*job->progress));
    job->taken = calloc(strips, sizeof(*job->taken));
    job->factored = array(panels, sizeof(*job->factored));
    job->applied = array(panels, sizeof(*job->applied));
    job->updated = array(strips * BUFFERS, sizeof(*job->updated));
    if (!job->progress || !job->taken || !job->factored || !job->applied || !job->updated)
        return -ENOMEM;
    for (size_t k = 0; k < panels; k++) {
        size_t first = blocks_first_strip(&job->blocks, k + 1);

        job->factored[k] = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
        job->applied[k] = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
        atomic_init(&job->progress[k].unapplied, strips - first);
        atomic_init(&job->progress[k].outdated, first - blocks_first_strip(&job->blocks, k));
    }
    for (size_t s = 0; s < strips; s++)
        atomic_init(&job->taken[s], 0);
    for (size_t s = 0; s < strips * BUFFERS; s++)
        job->updated[s] = (struct umbra_event)UMBRA_EVENT_INIT;
    return 0;
}

int eliminate_blocked(const struct system *system, const struct setting *setting)
{
    struct umbra_options options = {.cores = (unsigned)setting->processors, .oversubscribe = true};
    struct job job = {.cores = setting->processors};
    int error = blocks_create(&job.blocks, system, setting, BUFFERS);

    if (!error)
        error = set_up(&job);
    if (!error)
        error = setting->runtime ? umbra_runtime_run(setting->runtime, start, &job)
                                 : umbra_run(&options, start, &job);
    free(job.progress);
    free(job.taken);
    free(job.factored);
    free(job.applied);
    free(job.updated);
    blocks_destroy(&job.blocks);
    return error;
}
