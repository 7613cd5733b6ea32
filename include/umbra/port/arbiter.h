/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What an arbiter's fiber does. Private; included by port.h.
 *
 * One fiber waits for all branches and decides. It spawns a fiber for each concurrent handler;
 * every other handler it calls itself, when all those have ended. So an exclusive handler overlaps
 * with no other, since the fiber does one thing at a time; and a teardown handler is the last,
 * since then the fiber ends.
 *
 * `running` counts the handlers that have not ended, and the arbiter's fiber itself. When the fiber
 * waits for them it takes itself off the count. The caller that takes off the last one, if it is a
 * handler, signals `idle`; after that signal the handler does not touch the arbiter.
 */
#ifndef UMBRA_PORT_ARBITER_H
#define UMBRA_PORT_ARBITER_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/core.h>
#include <umbra/event.h>
#include <umbra/fiber.h>
#include <umbra/port/post_receive.h>
#include <umbra/port/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* Takes one off `running`: true if that was the last. acq_rel: what the handlers did comes before
 * what the arbiter does when they have ended; pairs with itself */
UM_INLINE bool um_arbiter_leave(struct umbra_arbiter *arbiter)
{
    return um_atomic_fetch_add(&arbiter->running, UINT64_MAX, acq_rel) == 1;
}

UM_SHARED(const struct um_kind um_kind_handlers, {"handlers of arbiter", NULL});

/* The place that reports give for a waiting arbiter: its first handler, since the program's code
 * has no other. */
UM_INLINE const void *um_arbiter_at(const struct umbra_arbiter *arbiter)
{
    return (const void *)(uintptr_t)arbiter->choice.branch->handler;
}

/* The arbiter's fiber waits until no handler runs. */
UM_LINKONCE void um_arbiter_drain(struct umbra_arbiter *arbiter)
{
    if (!um_arbiter_leave(arbiter))
        um_event_wait_firm(&arbiter->idle, NULL, NULL, &um_kind_handlers, arbiter,
                           um_arbiter_at(arbiter));
    um_atomic_store(&arbiter->running, 1, relaxed); /* relaxed: no handler is left to count */
}

/* ---- concurrent handlers ---- */

/* The fiber of a concurrent handler. */
UM_LINKONCE void *um_arbiter_handle(void *arg)
{
    struct umbra_message *messages = arg;
    struct umbra_branch *branch = messages->branch;
    struct umbra_arbiter *arbiter = branch->arbiter;

    branch->handler(messages, branch->arg);
    if (arbiter->limited) {
        um_atomic_fetch_add(&arbiter->places, 1, relaxed); /* relaxed: the signal orders it */
        umbra_event_signal(&arbiter->place);
    }
    if (um_arbiter_leave(arbiter))
        umbra_event_signal(&arbiter->idle);
    return NULL;
}

UM_LINKONCE bool um_arbiter_has_place(void *arg)
{
    struct umbra_arbiter *arbiter = arg;

    return um_atomic_load(&arbiter->places, relaxed) > 0; /* relaxed: only a number */
}

/* Starts a concurrent handler. Without memory for another fiber it is called here: later ones wait,
 * none is lost. */
UM_LINKONCE void um_arbiter_spawn(struct umbra_arbiter *arbiter, struct umbra_branch *branch,
                                  struct umbra_message *messages)
{
    messages->branch = branch;
    if (arbiter->limited) {
        um_event_wait_firm(&arbiter->place, um_arbiter_has_place, arbiter, &um_kind_handlers,
                           arbiter, um_arbiter_at(arbiter));
        um_atomic_fetch_add(&arbiter->places, UINT64_MAX, relaxed); /* relaxed: only a number */
    }
    um_atomic_fetch_add(&arbiter->running, 1, relaxed); /* relaxed: before the handler can end */
    if (umbra_spawn_with(NULL, &arbiter->handlers, um_arbiter_handle, messages, NULL) != 0)
        um_arbiter_handle(messages);
}

/* ---- the arbiter's fiber ---- */

/* Handles the messages of a branch: true if the arbiter goes on. */
UM_LINKONCE bool um_arbiter_step(struct umbra_arbiter *arbiter, struct umbra_branch *branch,
                                 struct umbra_message *messages)
{
    if (!arbiter->once && branch->group == UMBRA_CONCURRENT) {
        um_arbiter_spawn(arbiter, branch, messages);
        return true;
    }
    um_arbiter_drain(arbiter);
    branch->handler(messages, branch->arg);
    return !arbiter->once && branch->group != UMBRA_TEARDOWN;
}

/* True if no branch is left: all were for once, and have been served. */
UM_LINKONCE bool um_arbiter_is_over(const struct um_choice *choice)
{
    for (unsigned i = 0; i < choice->count; i++)
        if (!choice->branch[i].over)
            return false;
    return true;
}

UM_LINKONCE void *um_arbiter_main(void *arg)
{
    struct umbra_arbiter *arbiter = arg;
    struct um_choice *choice = &arbiter->choice;
    struct umbra_branch *branch;
    unsigned first = 0;
    int result;

    for (;;) {
        result = um_choose(choice, first, UMBRA_NEVER, um_arbiter_at(arbiter));
        if (result < 0)
            break;
        first = (unsigned)result + 1;
        branch = &choice->branch[result];
        branch->over = branch->once;
        if (!um_arbiter_step(arbiter, branch, choice->messages) || um_arbiter_is_over(choice)) {
            result = 0;
            break;
        }
        umbra_yield(); /* other fibers run although messages keep coming */
    }
    um_arbiter_drain(arbiter);
    um_choice_end_use(choice);
    return (void *)(intptr_t)result;
}

/* ---- calls of the program ---- */

/* Records where the handlers begin. 0; -EINVAL: they would begin stopped; or an error of
 * umbra_spawn_with. */
UM_LINKONCE int um_arbiter_place(struct umbra_arbiter *arbiter, struct umbra_runtime *runtime,
                                 const struct umbra_spawn_options *handlers)
{
    struct um_spawn_plan plan;

    arbiter->handlers =
        handlers ? *handlers : (struct umbra_spawn_options){.where = UMBRA_ANYWHERE};
    if (arbiter->handlers.name) {
        um_copy_text(arbiter->name, sizeof(arbiter->name), arbiter->handlers.name);
        arbiter->handlers.name = arbiter->name;
    }
    if (arbiter->handlers.stopped)
        return um_why(-EINVAL, "handlers.stopped: handlers would never begin");
    return um_spawn_plan(runtime, &arbiter->handlers, &plan);
}

/* The arbiter's branches are its own. 0, or -EINVAL: one has no handler, or no such group. */
UM_LINKONCE int um_arbiter_take(struct umbra_arbiter *arbiter)
{
    struct um_choice *choice = &arbiter->choice;

    for (unsigned i = 0; i < choice->count; i++) {
        choice->branch[i].arbiter = arbiter;
        if (!choice->branch[i].handler || choice->branch[i].group > UMBRA_TEARDOWN)
            return um_why(-EINVAL, "branch %u has no handler, or no such group", i);
    }
    return 0;
}

UM_LINKONCE int umbra_arbiter_start(struct umbra_arbiter *arbiter, struct umbra_branch *branches,
                                    unsigned count, const struct umbra_arbiter_options *options)
{
    static const struct umbra_arbiter_options defaults = {.once = false};
    struct umbra_spawn_options home = {.where = UMBRA_HERE};
    int error;

    options = options ? options : &defaults;
    *arbiter = (struct umbra_arbiter){.once = options->once,
                                      .limited = options->most > 0,
                                      .bell = UMBRA_EVENT_INIT,
                                      .idle = UMBRA_EVENT_INIT,
                                      .place = UMBRA_EVENT_INIT,
                                      .running = 1,
                                      .places = options->most};
    error = um_choice_init(&arbiter->choice, branches, count, &arbiter->bell,
                           __builtin_return_address(0));
    if (error != 0)
        return error;
    error = um_arbiter_place(arbiter, options->runtime, options->handlers);
    if (error == 0)
        error = um_arbiter_take(arbiter);
    home = options->home ? *options->home : home;
    home.name = home.name ? home.name : "arbiter";
    if (error == 0)
        error =
            umbra_spawn_with(options->runtime, &home, um_arbiter_main, arbiter, &arbiter->fiber);
    if (error != 0)
        um_choice_end_use(&arbiter->choice);
    return error;
}

UM_LINKONCE void umbra_arbiter_cancel(struct umbra_arbiter *arbiter)
{
    struct um_waiters out = {NULL, NULL, 0};

    um_choice_cancel(&arbiter->choice, &out);
    um_port_ring(&out);
}

UM_LINKONCE UM_NOINLINE int umbra_arbiter_join(struct umbra_arbiter *arbiter, uint64_t deadline)
{
    struct um_join join = {.fiber = arbiter->fiber,
                           .deadline = um_deadline_cycles(deadline),
                           .at = __builtin_return_address(0)};
    int error = um_join_slow(&join);

    return error == 0 ? um_why_none((int)(intptr_t)join.result) : error;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
