/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a fiber does not share with the others of its core, although the thread has only one of it:
 * the C++ exceptions that it handles (fiber/exceptions.h), and, if it was spawned with
 * own_float_control, the processor's floating-point control words. Private; included by fiber.h.
 *
 * A fiber that has one of these takes it off the thread before it leaves, and puts it back when it
 * runs again. So nothing is exchanged when other fibers switch. To find out whether there is
 * anything to take, the fast paths by which a fiber leaves look at the two words to which
 * core->exceptions points. While a fiber with control words of its own runs, it points to two that
 * are never 0. So one look finds both, and control words cost a fiber without them nothing.
 *
 *                                        the thread's control words    fiber->float_control
 *   another fiber, or the scheduler runs the core's                    the fiber's
 *   the fiber runs                       the fiber's                   the core's
 *
 * A fiber without control words of its own uses those that it finds, and what it sets stays for the
 * others of its core. (But a jump of Boost's exchanges them on x86-64.)
 *
 * While a core is traced (fiber/trace_record.h), core->exceptions points to two more words that are
 * never 0, so that all fibers leave by the slow paths, which record it.
 *
 * All functions here are called by the fiber, or by its core's thread when that has left the fiber.
 */
#ifndef UMBRA_FIBER_OWN_STATE_H
#define UMBRA_FIBER_OWN_STATE_H

#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/fiber/control_block.h>
#include <umbra/fiber/exceptions.h>
#include <umbra/fiber/runtime.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

/* What core->exceptions points to while a fiber with control words of its own runs. Only read. */
UM_SHARED(struct um_exceptions um_exceptions_look, {&um_exceptions_look, 1});

/* What core->exceptions points to while a core is traced, and no fiber with control words of its own
 * runs. Only read. */
UM_SHARED(struct um_exceptions um_exceptions_traced, {&um_exceptions_traced, 1});

/* What a fiber has taken off its thread. */
struct um_own_state {
    struct um_exceptions exceptions;
    bool floats; /* has control words of its own */
};

/* Control words: the fiber's for the core's, or the other way round. */
UM_LINKONCE UM_COLD void um_own_state_exchange(struct um_fiber *fiber)
{
    uint64_t other = fiber->float_control;

    fiber->float_control = um_arch_float_control();
    um_arch_set_float_control(other);
}

/* Where core->exceptions points while no fiber with control words of its own runs. */
UM_INLINE struct um_exceptions *um_own_state_usual(const struct umbra_core *core)
{
    return core->trace ? &um_exceptions_traced : core->more->exceptions;
}

/* True if the fiber that runs has anything apart; false if its core is only traced. */
UM_INLINE bool um_own_state_some(const struct umbra_core *core)
{
    return core->exceptions != &um_exceptions_traced ||
           um_exceptions_some(core->more->exceptions) != 0;
}

/* Before the fiber leaves its core. */
UM_LINKONCE UM_COLD struct um_own_state um_own_state_take(struct umbra_core *core,
                                                          struct um_fiber *fiber)
{
    struct um_own_state taken = {.floats = core->exceptions == &um_exceptions_look};

    if (taken.floats) {
        um_own_state_exchange(fiber);
        core->exceptions = um_own_state_usual(core);
    }
    taken.exceptions = *core->more->exceptions;
    *core->more->exceptions = (struct um_exceptions){NULL, 0};
    return taken;
}

/* When the fiber runs again. */
UM_LINKONCE UM_COLD void um_own_state_put(struct umbra_core *core, struct um_fiber *fiber,
                                          struct um_own_state taken)
{
    *core->more->exceptions = taken.exceptions;
    if (taken.floats) {
        um_own_state_exchange(fiber);
        core->exceptions = &um_exceptions_look;
    }
}

/* The function of a fiber that has control words of its own. */
UM_LINKONCE UM_COLD void *um_own_state_run(void *arg)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *fiber = um_core_current(core);
    void *result;

    um_own_state_exchange(fiber);
    core->exceptions = &um_exceptions_look;
    result = fiber->float_fn(arg);
    core->exceptions = um_own_state_usual(core);
    um_own_state_exchange(fiber);
    return result;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
