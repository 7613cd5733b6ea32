/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Fibers that hold their core: safe points (umbra_poll) and the watchdog. Private; included by
 * core.h.
 *
 * A runtime with a share or a watchdog has one thread more, the timekeeper. At each tick it looks at
 * each core that runs a fiber:
 *
 *   share      asks that fiber to yield: writes its address into the word that umbra_poll() reads. So
 *              a fiber that polls yields once a tick; that it may just have begun does no harm
 *   watchdog   if the fiber is another one than before, or the core has attended since, a slice
 *              begins: the timekeeper pokes the core's inbox, so that the core attends at its next
 *              switch, and counts that (attended). If not, the slice goes on; when it has lasted for
 *              the watchdog's limit, and others are ready, the fiber is reported
 *
 * So neither a switch nor a running fiber pays for this, but for one message a slice with a watchdog.
 * A transfer does not attend: fibers that only transfer to each other hold their core together.
 *
 * All words are hints: no data is passed, so relaxed is enough. A fiber that is asked may have left
 * meanwhile; the word names the fiber, and another one that polls only clears it.
 *
 * While no core runs a fiber the ticks become rarer, up to UM_TICK_MOST_NS: the first slice after
 * that may last longer, by no more than the cores had been idle.
 */
#ifndef UMBRA_CORE_SLICE_H
#define UMBRA_CORE_SLICE_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/context.h>
#include <umbra/core/fiber.h>
#include <umbra/core/report.h>
#include <umbra/core/runtime.h>
#include <umbra/core/switch.h>
#include <umbra/os/os.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifndef UMBRA_DECLARE

#define UM_TICK_LEAST_NS 10000   /* a thread that sleeps less does nothing else */
#define UM_TICK_MOST_NS 16000000 /* while all cores are idle */
#define UM_TICKS_OF_WATCH 4      /* ticks in the watchdog's limit, if there is no share */

/* True if a fiber of the core is ready, or there is a message for it besides a poke. */
UM_INLINE bool um_core_others_ready(const struct umbra_core *core)
{
    return um_link_next(&core->ready) != &core->ready ||
           (um_atomic_load(&core->inbox, relaxed) & UM_INBOX_NODE) != 0; /* a hint */
}

UM_LINKONCE UM_COLD void um_slice_report(const struct umbra_core *core,
                                         const struct um_fiber *fiber, uint64_t held_ns)
{
    const void *since = um_context_pc(&fiber->context);
    struct um_text text = {.length = 0};

    um_text_add(&text, "umbra: fiber ");
    um_report_name(&text, fiber);
    um_text_add(&text, " has held core ");
    um_text_add_number(&text, core->index, 10);
    um_text_add(&text, " for ");
    um_text_add_number(&text, held_ns / 1000000, 10);
    um_text_add(&text, " ms while others were ready");
    if (since) {
        um_text_add(&text, "; it has run since it waited or yielded");
        um_report_place(&text, since, true);
    }
    um_text_add(&text, "\n");
    um_text_write(&text, 2);
}

/* The watchdog's look at a core that runs this fiber. */
UM_LINKONCE void um_slice_watch(const struct umbra_runtime *runtime, struct umbra_core *core,
                                struct um_fiber *fiber, uint64_t now)
{
    struct um_slice *slice = &core->more->slice;
    uint64_t attended = um_atomic_load(&core->attended, relaxed); /* a hint */

    if (fiber != slice->fiber || attended != slice->attended) {
        slice->fiber = fiber;
        slice->attended = attended;
        slice->since = now;
        slice->told = false;
        um_core_poke(core);
    } else if (now - slice->since >= runtime->watchdog_ns && !slice->told &&
               um_core_others_ready(core)) {
        slice->told = true;
        um_slice_report(core, fiber, now - slice->since);
    }
}

/* Asks a core's fiber to yield. The lock: the word belongs to the core's thread, which may end. */
UM_LINKONCE void um_slice_ask(struct umbra_core *core, const struct um_fiber *fiber)
{
    pthread_mutex_lock(&core->runtime->lock);
    if (core->more->slice.asked)
        um_atomic_store(core->more->slice.asked, (uintptr_t)fiber, relaxed); /* a hint */
    pthread_mutex_unlock(&core->runtime->lock);
}

/* The core's loop is over, and its thread about to end: no longer asks it. The core. */
UM_LINKONCE UM_COLD void um_slice_end(struct umbra_core *core)
{
    pthread_mutex_lock(&core->runtime->lock);
    core->more->slice.asked = NULL;
    pthread_mutex_unlock(&core->runtime->lock);
}

/* One look at a core. True if it runs a fiber. */
UM_LINKONCE bool um_slice_look(const struct umbra_runtime *runtime, struct umbra_core *core)
{
    struct um_fiber *fiber = um_core_current(core);

    if (!fiber) {
        core->more->slice.fiber = NULL;
        return false;
    }
    if (runtime->share_ns != 0)
        um_slice_ask(core, fiber);
    if (runtime->watchdog_ns != 0)
        um_slice_watch(runtime, core, fiber, um_os_now_ns());
    return true;
}

/* Time between two ticks while fibers run. */
UM_INLINE uint64_t um_tick_ns(const struct umbra_runtime *runtime)
{
    uint64_t watch = runtime->watchdog_ns / UM_TICKS_OF_WATCH;
    uint64_t tick = runtime->share_ns;

    if (tick == 0 || (watch != 0 && watch < tick))
        tick = watch;
    return tick < UM_TICK_LEAST_NS ? UM_TICK_LEAST_NS : tick;
}

UM_LINKONCE UM_COLD void *um_timekeeper(void *arg)
{
    struct umbra_runtime *runtime = arg;
    uint64_t tick = um_tick_ns(runtime);
    uint64_t wait = tick;

    um_os_sleep_exactly();
    while (!um_atomic_load(&runtime->tick_stop, relaxed)) { /* no data is passed */
        bool runs = false;

        um_os_futex_wait(&runtime->tick_stop, 0, um_add_saturating(um_os_now_ns(), wait));
        for (unsigned i = 0; i < runtime->cores; i++)
            runs = um_slice_look(runtime, runtime->core[i]) || runs;
        wait = runs ? tick
                    : um_min_u64(um_add_saturating(wait, wait),
                                 tick > UM_TICK_MOST_NS ? tick : UM_TICK_MOST_NS);
    }
    return NULL;
}

/* ---- start and stop ---- */

/* The watchdog's limit: the option's, or else the environment's. 0, or -EINVAL: it is no number. */
UM_LINKONCE UM_COLD int um_watchdog_choose(struct umbra_runtime *runtime, unsigned option_ms)
{
    const char *text = getenv("UMBRA_WATCHDOG");
    unsigned long ms = option_ms;
    char *end;

    if (option_ms == 0 && text && *text) {
        ms = strtoul(text, &end, 10);
        if (text[strspn(text, "0123456789")] != '\0' || ms > UINT32_MAX)
            return um_why(-EINVAL, "UMBRA_WATCHDOG=%.60s: no number of milliseconds", text);
    }
    runtime->watchdog_ns = (uint64_t)ms * 1000000;
    return 0;
}

/* Starts the timekeeper, if the runtime needs one; its cores run. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_slices_start(struct umbra_runtime *runtime)
{
    int error = 0;

    if (runtime->share_ns != 0 || runtime->watchdog_ns != 0)
        error = -pthread_create(&runtime->timekeeper, NULL, um_timekeeper, runtime);
    runtime->has_timekeeper = error == 0 && (runtime->share_ns != 0 || runtime->watchdog_ns != 0);
    return error == 0 ? 0 : um_why(error, "no thread for shares: %s", strerror(-error));
}

/* Stops it, after the cores' threads have ended: until then fibers may need to be asked. */
UM_LINKONCE UM_COLD void um_slices_stop(struct umbra_runtime *runtime)
{
    if (!runtime->has_timekeeper)
        return;
    um_atomic_store(&runtime->tick_stop, 1, relaxed); /* no data is passed */
    um_os_futex_wake(&runtime->tick_stop);
    pthread_join(runtime->timekeeper, NULL);
    runtime->has_timekeeper = false;
}

#endif /* UMBRA_DECLARE */

#endif
