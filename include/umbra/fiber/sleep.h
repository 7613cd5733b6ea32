/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Sleeps of fibers and threads, and waits with a claim, which a deadline may end. Private; included
 * by fiber.h. While a fiber waits its core executes other fibers; a thread that is no core blocks.
 * A sleep of a canceled fiber, or on an alternate signal stack, is an error.
 */
#ifndef UMBRA_FIBER_SLEEP_H
#define UMBRA_FIBER_SLEEP_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/fiber/control_block.h>
#include <umbra/fiber/runtime.h>
#include <umbra/fiber/sleeper.h>
#include <umbra/fiber/switch.h>
#include <umbra/fiber/timers.h>
#include <umbra/fiber/wake.h>
#include <umbra/wait.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

UM_LINKONCE UM_COLD int um_thread_sleep(uint64_t deadline)
{
    struct um_sleeper *sleeper;
    int error = um_sleeper_get(&sleeper);

    if (error == 0)
        um_sleeper_wait(sleeper, deadline); /* no thread wakes it */
    return error;
}

/* Ends a wait with a claim, as its deadline would. */
UM_LINKONCE enum um_give_up um_withdraw_claim(struct umbra_core *core, struct um_fiber *self)
{
    (void)core;
    return um_claim_give_up(self->claimed, self->ticket);
}

/* For a shorter wait a core stays awake: in the kernel it would take twice as long, since Linux ends
 * those up to 50 us late. */
#define UM_BRIEF_NS 50000

UM_INLINE void um_fiber_set_timer(struct umbra_core *core, struct um_fiber *self, uint64_t deadline)
{
    self->timer.deadline = deadline;
    self->timer.brief = deadline < um_cycles_after(UM_BRIEF_NS);
    um_timers_add(&core->timers, &self->timer);
}

/*
 * The calling fiber, `self` on `core`, waits until the claim of `wait` is taken or dead, or the
 * deadline has passed. Returns 0: the claim was taken, and the waiter woken; -ETIMEDOUT,
 * -ECANCELED: the waiter has given up. The caller has set what the fiber waits for, for reports
 * (um_fiber_block()).
 */
UM_LINKONCE int um_claimed_wait_fiber(struct umbra_core *core, struct um_fiber *self,
                                      struct um_wait *wait, uint64_t deadline)
{
    struct um_claimed *claimed = &wait->claimed;
    int error;

    self->withdraw = um_withdraw_claim;
    self->claimed = claimed;
    self->ticket = claimed->ticket;
    if (deadline != UMBRA_NEVER)
        um_fiber_set_timer(core, self, deadline);
    um_fiber_leave(core, self);
    error = um_fiber_woken(self);
    if (self->timer.number != 0)
        um_timers_remove(&core->timers, &self->timer);
    self->timer.deadline = 0;
    self->claimed = NULL;
    /* acquire: pairs with um_claimed_offer() */
    if ((um_atomic_load(&claimed->claim, acquire) & UM_CLAIM_STATE) == UM_CLAIM_TAKEN)
        return 0;
    return error != 0 ? error : -ETIMEDOUT;
}

/* The same for a thread, with the sleeper in `wait`. -EDEADLK: um_joins_end() ended the wait. */
UM_LINKONCE int um_claimed_wait_thread(struct um_wait *wait, uint64_t deadline)
{
    struct um_claimed *claimed = &wait->claimed;
    unsigned looks = 0;
    enum um_give_up outcome;

    if (um_sleeper_wait(wait->sleeper, deadline) < 0) {
        while ((outcome = um_claim_give_up(claimed, claimed->ticket)) == UM_GIVE_UP_LATER)
            um_thread_look_again(looks++, UMBRA_NEVER);
        if (outcome == UM_GAVE_UP)
            return -ETIMEDOUT;
        um_sleeper_wait(wait->sleeper, UMBRA_NEVER);
    }
    /* acquire: as above */
    return (um_atomic_load(&claimed->claim, acquire) & UM_CLAIM_STATE) == UM_CLAIM_TAKEN ? 0
                                                                                         : -EDEADLK;
}

UM_SHARED(const struct um_kind um_kind_sleep, {"sleep", NULL});

/* Ends a sleep. The deadline goes, too: the next life of the fiber is not delayed. */
UM_LINKONCE enum um_give_up um_withdraw_sleep(struct umbra_core *core, struct um_fiber *self)
{
    um_timers_remove(&core->timers, &self->timer);
    self->timer.deadline = 0;
    return UM_GAVE_UP;
}

/* Sleeps until the deadline. kind, on, at: for reports: what the fiber waits for, and where. */
UM_LINKONCE int um_sleep_at(uint64_t deadline, const struct um_kind *kind, const void *on,
                            const void *at)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *self = core ? um_core_current(core) : NULL;

    if (!self)
        return um_thread_sleep(deadline);
    if (!um_fiber_on_stack(self))
        return um_why_off_stack();
    if (um_fiber_barred(self))
        return -ECANCELED;
    um_fiber_block(self, kind, on, at);
    self->withdraw = um_withdraw_sleep;
    um_fiber_set_timer(core, self, deadline);
    um_fiber_leave(core, self);
    return um_fiber_woken(self);
}

UM_LINKONCE UM_NOINLINE int umbra_sleep_ns(uint64_t ns)
{
    return um_sleep_at(um_cycles_after(ns), &um_kind_sleep, NULL, __builtin_return_address(0));
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
