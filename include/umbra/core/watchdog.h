/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The watchdog: a thread of the runtime that reports fibers which hold their core while others are
 * ready. Private; included by core.h. A runtime without a limit has no such thread.
 *
 * At each tick it looks at each core that runs a fiber. If the fiber is another one than before, or
 * the core has attended since, a slice begins: the watchdog pokes the core's inbox, so that the
 * core attends at its next switch, and counts that (attended). If not, the slice goes on; when it
 * has lasted for the limit, and others are ready, the fiber is reported. So neither a switch nor a
 * running fiber pays for this, but for one message a slice. A transfer does not attend: fibers that
 * only transfer to each other hold their core together.
 *
 * All words are hints: no data is passed, so relaxed is enough.
 *
 * A report names the place where the fiber last waited or yielded, with what the dynamic linker
 * knows of it (um_os_symbol()). The fiber runs on meanwhile, and so may a thread that unloads the
 * object: therefore umbra/core.h forbids that with a watchdog. The fiber itself and its stack are
 * memory until the runtime ends, so an old value read there is harmless.
 */
#ifndef UMBRA_CORE_WATCHDOG_H
#define UMBRA_CORE_WATCHDOG_H

#include <pthread.h>
#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/environment.h>
#include <umbra/base/why.h>
#include <umbra/context.h>
#include <umbra/core/report.h>
#include <umbra/fiber.h>
#include <umbra/os/os.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

#define UM_TICKS_OF_WATCH 4 /* ticks in the limit */

UM_LINKONCE UM_COLD void um_watchdog_report(const struct umbra_core *core,
                                            const struct um_fiber *fiber, uint64_t held_ns)
{
    const void *since = um_context_pc(&fiber->context);
    struct um_text text = {.length = 0};

    um_text_say(&text, "umbra: fiber %f has held core %u for %n ms while others were ready", fiber,
                core->index, held_ns / 1000000);
    if (since) {
        um_text_add(&text, "; it has run since it waited or yielded");
        um_report_place(&text, since, true);
    }
    um_text_add(&text, "\n");
    um_text_write(&text, 2);
}

/* One look at a core. */
UM_LINKONCE void um_watchdog_look(const struct umbra_runtime *runtime, struct umbra_core *core)
{
    struct um_slice *slice = &core->more->slice;
    struct um_fiber *fiber = um_core_current(core);
    uint64_t attended = um_atomic_load(&core->attended, relaxed); /* a hint */
    uint64_t now = um_os_now_ns();
    /* others are ready, or there is a message besides a poke; a hint, too */
    bool others = um_link_next(&core->ready) != &core->ready ||
                  (um_atomic_load(&core->inbox, relaxed) & UM_INBOX_NODE) != 0;

    if (!fiber) {
        slice->fiber = NULL;
    } else if (fiber != slice->fiber || attended != slice->attended) {
        slice->fiber = fiber;
        slice->attended = attended;
        slice->since = now;
        slice->told = false;
        um_core_poke(core);
    } else if (now - slice->since >= runtime->watchdog_ns && !slice->told && others) {
        slice->told = true;
        um_watchdog_report(core, fiber, now - slice->since);
    }
}

UM_LINKONCE UM_COLD void *um_watchdog_main(void *arg)
{
    struct umbra_runtime *runtime = arg;
    uint64_t tick = runtime->watchdog_ns / UM_TICKS_OF_WATCH;

    while (!um_atomic_load(&runtime->watchdog_stop, relaxed)) { /* no data is passed */
        um_os_futex_wait(&runtime->watchdog_stop, 0, um_add_saturating(um_os_now_ns(), tick));
        for (unsigned i = 0; i < runtime->cores; i++)
            um_watchdog_look(runtime, runtime->core[i]);
    }
    return NULL;
}

/* ---- start and stop ---- */

/* The watchdog's limit: the option's, or else the environment's. 0, or -EINVAL: it is no number. */
UM_LINKONCE UM_COLD int um_watchdog_choose(struct umbra_runtime *runtime, unsigned option_ms)
{
    uint64_t ms = 0;
    int error = um_environment_number("UMBRA_WATCHDOG", 0, UINT32_MAX, 0, &ms);

    runtime->watchdog_ns = (option_ms ? option_ms : ms) * 1000000;
    return error;
}

/* Starts the watchdog, if there is a limit; the runtime's cores run. Its thread handles none of the
 * program's signals. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_watchdog_start(struct umbra_runtime *runtime)
{
    uint64_t signals;
    int error;

    if (runtime->watchdog_ns == 0)
        return 0;
    signals = um_os_mask_signals();
    error = -pthread_create(&runtime->watchdog, NULL, um_watchdog_main, runtime);
    um_os_unmask_signals(signals);
    runtime->has_watchdog = error == 0;
    return error == 0 ? 0 : um_why(error, "no thread for the watchdog: %s", strerror(-error));
}

/* Stops it, after the cores' threads have ended. */
UM_LINKONCE UM_COLD void um_watchdog_stop(struct umbra_runtime *runtime)
{
    if (!runtime->has_watchdog)
        return;
    um_atomic_store(&runtime->watchdog_stop, 1, relaxed); /* no data is passed */
    um_os_futex_wake(&runtime->watchdog_stop);
    pthread_join(runtime->watchdog, NULL);
    runtime->has_watchdog = false;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
