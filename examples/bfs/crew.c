/* SPDX-License-Identifier: BSL-1.0 */
/* See crew.h. */
#include "crew.h"

#include <errno.h>
#include <stdlib.h>

int crew_init(struct crew *crew, struct umbra_runtime *runtime)
{
    crew->runtime = runtime;
    crew->members = umbra_runtime_cores(runtime);
    crew->member = calloc(crew->members, sizeof(*crew->member));
    if (!crew->member)
        return -ENOMEM;
    crew->barrier = (struct umbra_barrier)UMBRA_BARRIER_INIT(crew->members);
    return 0;
}

void crew_fini(struct crew *crew)
{
    free(crew->member);
    crew->member = NULL;
}

/* The counters of the step after the next are not in use: no member is behind this barrier's step
 * less one, and none can be ahead of it by more than one. */
void member_barrier(struct member *member)
{
    struct crew *crew = member->crew;

    if (member->index == 0)
        for (unsigned range = 0; range < CREW_PARTS_MOST; range++)
            /* relaxed: the barrier orders it before the step that uses it */
            atomic_store_explicit(&crew->counter[(member->step + 1) % CREW_COUNTERS][range].next, 0,
                                  memory_order_relaxed);
    (void)umbra_barrier_wait(&crew->barrier,
                             UMBRA_NEVER); /* no error: no deadline, and no cancel */
    member->step++;
}

static void *work(void *arg)
{
    struct member *member = arg;

    (void)umbra_event_wait(&member->crew->go, UMBRA_NEVER);
    if (member->crew->error)
        return NULL;
    member_barrier(member);
    member->crew->fn(member, member->crew->arg);
    member_barrier(member);
    return NULL;
}

/* Member 0 takes the time, and joins the others. */
static void *lead(void *arg)
{
    struct crew *crew = arg;
    unsigned begun = 1;
    uint64_t begin;

    for (; begun < crew->members && crew->error == 0; begun++) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = begun};

        crew->error =
            umbra_spawn_with(NULL, &there, work, &crew->member[begun], &crew->member[begun].fiber);
    }
    if (crew->error)
        begun--; /* the last one has not */
    umbra_event_signal(&crew->go);
    if (crew->error == 0) {
        member_barrier(&crew->member[0]);
        begin = umbra_now_ns();
        crew->fn(&crew->member[0], crew->arg);
        member_barrier(&crew->member[0]);
        crew->ns = umbra_now_ns() - begin;
    }
    for (unsigned i = 1; i < begun; i++)
        (void)umbra_join(crew->member[i].fiber, UMBRA_NEVER, NULL);
    return NULL;
}

int crew_run(struct crew *crew, crew_fn *fn, void *arg, uint64_t *ns)
{
    int error;

    crew->fn = fn;
    crew->arg = arg;
    crew->error = 0;
    crew->ns = 0;
    crew->go = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
    for (unsigned i = 0; i < crew->members; i++)
        crew->member[i] = (struct member){.crew = crew, .index = i};
    for (unsigned c = 0; c < CREW_COUNTERS; c++)
        for (unsigned range = 0; range < CREW_PARTS_MOST; range++)
            atomic_store_explicit(&crew->counter[c][range].next, 0, memory_order_relaxed);
    error = umbra_runtime_run(crew->runtime, lead, crew);
    if (error == 0)
        error = crew->error;
    if (ns)
        *ns = crew->ns;
    return error;
}
