/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the tests of fibers share. Inside a fiber they only cr_expect: an assertion that fails ends
 * the test by a long jump, which must not leave the fiber's stack.
 */
#ifndef UMBRA_TESTS_FIBERS_H
#define UMBRA_TESTS_FIBERS_H

#include <errno.h>
#include <sched.h>

#include <runner.h>

#include <umbra.h>

#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

/* Runs fn in a fiber of a runtime with so many cores, which share processors if they must. */
static inline int run_cores(unsigned cores, umbra_fiber_fn *fn, void *arg)
{
    struct umbra_options options = {.cores = cores, .oversubscribe = true, .quiet = true};

    return umbra_run(&options, fn, arg);
}

static inline struct umbra_spawn_options on_core(unsigned core)
{
    return (struct umbra_spawn_options){.where = UMBRA_ON_CORE, .core = core};
}

/* The processor of a core, or its state; -EINVAL: no such core. */
static inline int core_cpu(struct umbra_runtime *runtime, unsigned core)
{
    struct umbra_core_info info;
    int error = umbra_core_info(runtime, core, &info);

    return error == 0 ? info.cpu : error;
}

static inline int core_state(struct umbra_runtime *runtime, unsigned core)
{
    struct umbra_core_info info;
    int error = umbra_core_info(runtime, core, &info);

    return error == 0 ? (int)info.state : error;
}

/* The shadow of the calling fiber's core, or NULL. */
static inline struct umbra_shadow *own_shadow(void)
{
    struct umbra_core_info info = {.shadow = NULL};

    if (umbra_runtime_self())
        umbra_core_info(umbra_runtime_self(), (unsigned)umbra_core_index(), &info);
    return info.shadow;
}

/* Fibers to which a fiber of core 0 cannot transfer, each for a reason of its own. */
struct unreachable {
    struct umbra_event end; /* of the fibers that wait for it */
    struct umbra_fiber blocked, far, ended;
};

static inline void *waits_for_end(void *event)
{
    umbra_event_wait((struct umbra_event *)event, UMBRA_NEVER);
    return NULL;
}

static inline void *ends_at_once(void *arg)
{
    return arg;
}

/* In a fiber of core 0, of two. */
static inline void make_unreachable(struct unreachable *made)
{
    struct umbra_spawn_options there = on_core(1);

    made->end = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
    cr_expect_eq(umbra_spawn(waits_for_end, &made->end, &made->blocked), 0);
    cr_expect_eq(umbra_spawn_with(NULL, &there, waits_for_end, &made->end, &made->far), 0);
    cr_expect_eq(umbra_spawn(ends_at_once, NULL, &made->ended), 0);
    while (umbra_fiber_info(made->blocked, NULL) != UMBRA_FIBER_BLOCKED)
        umbra_yield();
    cr_expect_eq(umbra_join(made->ended, UMBRA_NEVER, NULL), 0);
}

/* Each transfer is refused. */
static inline void transfer_in_vain(const struct unreachable *to)
{
    cr_expect_eq(umbra_transfer(to->blocked), -EBUSY);
    cr_expect_eq(umbra_transfer(to->far), -EXDEV);
    cr_expect_eq(umbra_transfer(to->ended), -ESRCH);
    cr_expect_eq(umbra_transfer(umbra_self()), -EINVAL);
}

static inline void end_unreachable(struct unreachable *made)
{
    umbra_event_signal(&made->end);
    cr_expect_eq(umbra_join(made->blocked, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(umbra_join(made->far, UMBRA_NEVER, NULL), 0);
}

/* Yields until *flag is not 0; from any fiber. */
static inline void until(const _Atomic int *flag)
{
    while (!*flag)
        umbra_yield();
}

/* ---- short waits ---- */

#define SHORT_WAITS 50
#define LATE_NS (MS * 7 / 10) /* a wait that counts in milliseconds ends later */

/* How late several waits were, each of MS / 10. The one that ends soonest counts, since the others
 * lose their processors. On a busy machine all may: then they are compared with a thread that gives
 * its processor away until such a deadline. */
struct short_waits {
    uint64_t least, yields; /* the latter's sum, of `count` times */
    unsigned count;
};

#define SHORT_WAITS_INIT {UMBRA_NEVER, 0, 0}

/* After a wait until that deadline: true if another try is needed. */
static inline bool was_late(struct short_waits *waits, uint64_t deadline)
{
    uint64_t late = umbra_now_ns() - deadline;

    waits->least = late < waits->least ? late : waits->least;
    if (waits->least < LATE_NS)
        return false;
    deadline = umbra_deadline(MS / 10);
    while (umbra_now_ns() < deadline)
        sched_yield();
    waits->yields += umbra_now_ns() - deadline;
    return ++waits->count < SHORT_WAITS;
}

static inline void expect_in_time(const struct short_waits *waits, const char *name)
{
    uint64_t yield = waits->count == 0 ? 0 : waits->yields / waits->count;

    cr_expect_lt(waits->least, LATE_NS + yield, "%s: late by %llu ns, yields by %llu ns", name,
                 (unsigned long long)waits->least, (unsigned long long)yield);
}

#endif
