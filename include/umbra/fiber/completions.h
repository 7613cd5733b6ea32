/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a core waits for besides its inbox: what the ring or the epoll instance of umbra/io.h
 * brings, below "the ring". Private; included by fiber.h. A core has no ring, or one for good,
 * which an epoll instance takes the place of if it breaks. Only the core's own thread calls this.
 *
 * A ring has a word that is not 0 when it has something for the core. A core looks at this word
 * between two fibers, as at its inbox, before one looks in place, and while it polls idly; it costs
 * one load as long as there is nothing. UM_ASKS_AT_TIMES in the word: only a call of attend() says whether there is
 * something, which sees to it itself that a busy core makes not too many. A core with a ring never
 * sleeps but in the ring's way, which a message to the core ends as well (io/protocol.h).
 */
#ifndef UMBRA_FIBER_COMPLETIONS_H
#define UMBRA_FIBER_COMPLETIONS_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/fiber/control_block.h>
#include <umbra/fiber/look.h>
#include <umbra/fiber/runtime.h>
#include <umbra/os/os.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

struct um_completions {
    /* takes what there is; never switches or blocks. idle: the core has nothing else to do */
    void (*attend)(struct um_completions *completions, bool idle);
    /* sleeps unless um_completions_ready(core), at most until deadline_ns; may return early */
    void (*sleep)(struct um_completions *completions, uint64_t deadline_ns);
    /* frees it: the core has ended; may block; NULL: it ends with the runtime */
    void (*end)(struct um_completions *completions);
    uint64_t under_way;            /* what fibers wait for, and the ring will bring */
    struct um_completions *broken; /* the ring that the core had before, or NULL */
};

#ifdef UMBRA_IMPLEMENTATION

/* The core has this ring from now on. asks: its word. */
UM_LINKONCE UM_COLD void um_completions_add(struct umbra_core *core,
                                            struct um_completions *completions,
                                            const um_atomic_u32 *asks)
{
    completions->broken = core->more->completions;
    core->more->completions = completions;
    core->asks = asks;
}

/* The core ends: so does its ring. */
UM_LINKONCE UM_COLD void um_completions_end(struct umbra_core *core)
{
    struct um_completions *completions = core->more->completions;

    core->more->completions = NULL;
    core->asks = &core->no_completions;
    while (completions) {
        struct um_completions *broken = completions->broken;

        if (completions->end)
            completions->end(completions);
        completions = broken;
    }
}

/* True if the running fiber may look in place at what it waits for: the core has no other to run,
 * nor has the ring one. So what only a call can say is not left waiting while each wait ends in
 * place. On an alternate signal stack the fiber may be in that call. */
UM_INLINE bool um_core_may_look(struct umbra_core *core)
{
    /* relaxed: a hint, as in um_core_attend() */
    if (um_ready_empty(core) && um_atomic_load(core->asks, relaxed) &&
        um_fiber_on_stack(um_core_current(core)))
        core->more->completions->attend(core->more->completions, false);
    return um_ready_empty(core);
}

/* For a core with nothing to do: asks its ring. True if fibers are ready. */
UM_INLINE bool um_completions_look(struct umbra_core *core)
{
    if (um_atomic_load(core->asks, relaxed)) /* a hint, as in um_core_attend() */
        core->more->completions->attend(core->more->completions, true);
    return !um_ready_empty(core);
}

/* How a core with nothing to do polls: a look that enters the kernel takes as long as a batch. */
UM_INLINE struct um_polls um_completions_polls(const struct umbra_core *core, struct um_polls polls)
{
    if (um_atomic_load(core->asks, relaxed)) /* the core's own word */
        polls.batch = 1;
    return polls;
}

/* True if a core that is about to sleep has something to do. */
UM_INLINE bool um_completions_ready(void *context)
{
    struct umbra_core *core = context;

    return um_atomic_load(&core->inbox, seq_cst) != 0 || /* U2 of io/protocol.h */
           um_core_has_completions(core) ||              /* the sleep would end at once */
           !um_ready_empty(core);
}

UM_INLINE enum um_look um_completions_seen(struct umbra_core *core, void *arg)
{
    (void)arg;
    return um_completions_look(core) || um_completions_ready(core) ? UM_LOOK_OVER : UM_LOOK_AGAIN;
}

/* As um_core_wait(), for a core with a ring. True if nothing came until the deadline. */
UM_LINKONCE bool um_completions_wait(struct umbra_core *core, uint64_t deadline)
{
    struct umbra_waiter *waiter = &core->waiter;
    const struct umbra_wait_policy *policy = waiter->policy;
    uint64_t start = um_cycles();
    uint64_t now = start;
    int end = UMBRA_ENDED_MONITOR;
    struct um_polls polls = {policy->gap, policy->batch};
    bool over = um_look_in_place(core, um_completions_polls(core, polls), &core->inbox,
                                 core->parks ? 0 : policy->block_cycles, deadline,
                                 um_completions_seen, NULL);

    while (!over && (now = um_cycles()) < deadline) {
        uint64_t until = deadline == UMBRA_NEVER
                             ? UMBRA_NEVER
                             : um_add_saturating(um_os_now_ns(), um_cycles_to_ns(deadline - now));

        end = UMBRA_ENDED_PARK;
        core->more->completions->sleep(core->more->completions, until);
        over = um_completions_ready(core);
    }
    um_count(&waiter->count.cycles, um_cycles() - start);
    um_count(over ? &waiter->count.ended[end] : &waiter->count.timeouts, 1);
    return !over;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
