/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Cores: one cooperative scheduler for each physical core (Karasik and Prihozhy, 2020: cooperative
 * scheduler thread, CST), and the runtime, which is all cores that were started together.
 *
 *     static void *hello(void *name)
 *     {
 *         printf("hello, %s, from core %d\n", (char *)name, umbra_core_index());
 *         return NULL;
 *     }
 *
 *     static void *main_fiber(void *arg)
 *     {
 *         struct umbra_fiber fiber;
 *
 *         umbra_spawn(hello, "world", &fiber);
 *         umbra_join(fiber, UMBRA_NEVER, NULL);
 *         return NULL;
 *     }
 *
 *     int main(void) { return umbra_run(NULL, main_fiber, NULL) == 0 ? 0 : 1; }
 *
 * Each core has its own thread, bound to it; the thread that starts the runtime is none of them. A
 * core runs the fibers of its ready queue (umbra/fiber.h) one after the other, and takes what comes
 * through its inbox: fibers from other cores, and its own that other threads woke. A core also takes
 * fibers that were spawned without a place: of its own the newest first, or, if it has none, the
 * oldest of another core. With nothing to do it takes a task (umbra/task.h); else it waits, first
 * spinning, then with the processor's monitor, then in the kernel (umbra/wait.h).
 *
 * Core states, after the paper's:
 *
 *   created, initializing, initialized   until its thread is bound and ready
 *   executing                            the scheduler itself runs
 *   task                                 a fiber runs (WaitingTaskExecuting)
 *   idle                                 nothing to do (WaitingWrIdle)
 *   terminated                           its thread has ended
 *
 * Callers. Runtimes are created, waited for and destroyed by threads that are no core; umbra_spawn
 * is a fiber's; most other calls are any thread's or fiber's. Each comment says it.
 *
 * Deadlock. When every core is idle, and no timer, shadow or outside holder is left that could wake
 * a fiber, no fiber can run again. If fibers are still blocked or stopped then, the wait for the
 * runtime prints them and returns -EDEADLK. Their stacks stay as they are until the runtime is
 * destroyed, and are then freed without their functions returning; what they waited for, an event, a
 * mutex or another object, must be initialised anew.
 *
 * So a thread that is no core must hold the runtime (umbra_hold) if it may spawn, or wake a fiber
 * (signal, continue, unlock, post, notify, be the last at a barrier or latch, give up waiting for a
 * write lock), while the runtime is waited for. A hold is also needed for signal handlers that
 * signal, on any thread; for a shadow that a fiber has created itself; and for fibers of another
 * runtime that share events with this one, or that fibers of this one join. Threads that only wait
 * need none.
 *
 * fork(2). The child has none of its parent's cores. It may exec, or start runtimes of its own;
 * calls on its parent's runtimes and fibers return -EPERM, and their memory stays allocated in the
 * child. A child that a fiber has forked continues in the fiber's function, as a thread that is no
 * core, on the processors that the runtime's creator had. It must not wait for what fibers or tasks
 * of its parent would do. When the function returns the process exits with status 0. In the
 * function of a task, a range or a dispatcher the child must exec or exit before that function
 * returns.
 */
#ifndef UMBRA_CORE_H
#define UMBRA_CORE_H

#include <umbra/base/base.h>
#include <umbra/fiber.h>
#include <umbra/shadow.h>
#include <umbra/stack.h>
#include <umbra/topology.h>
#include <umbra/wait.h>

/* Default size of a fiber's stack, without its guard: address space, of which used pages become
 * memory. A core that waits gives those of idle stacks back to the system, once a second at most, but
 * for the top page of each stack and 16 whole stacks. Below a stack is a guard of 64 KiB, or of a
 * page if that is more. */
#ifndef UMBRA_STACK_BYTES
#define UMBRA_STACK_BYTES 196608
#endif

enum umbra_core_state {
    UMBRA_CORE_CREATED,
    UMBRA_CORE_INITIALIZING,
    UMBRA_CORE_INITIALIZED,
    UMBRA_CORE_EXECUTING,
    UMBRA_CORE_TASK,
    UMBRA_CORE_IDLE,
    UMBRA_CORE_TERMINATED
};

/* Options of a runtime. All zero, or NULL for the whole, is a good default. */
struct umbra_options {
    unsigned cores;                  /* how many schedulers, fastest cores first; 0: as UMBRA_CORES
                                        says, else one for each place, on big and little cores, but
                                        no more than the CPU quota of the container allows; with
                                        shadows no more than half of the hardware threads or of the
                                        quota */
    enum umbra_placement placement;  /* where; see umbra/topology.h */
    const char *cpus;                /* where, by a list ("0,2-5"), "performance" or "efficiency":
                                        replaces placement, and cores if that is 0; one scheduler
                                        for each processor named, or core of the kind */
    bool hardware_threads;           /* one scheduler for each hardware thread, not each core */
    bool oversubscribe;              /* more schedulers than there are places: they share them */
    bool shadows;                    /* give each core a shadow, on no core's processor:
                                        umbra_core_info() */
    size_t stack_bytes;              /* of a fiber's stack; 0: UMBRA_STACK_BYTES */
    struct umbra_wait_options wait;  /* of idle cores, waiting threads and shadows */
    struct umbra_topology *topology; /* must outlive the runtime; NULL: look at this machine */
    unsigned blocking_threads;       /* most helper threads for umbra_blocking; 0:
                                        UMBRA_BLOCKING_THREADS (umbra/blocking.h) */
    int dump_signal;                 /* this signal prints all fibers to standard error; not one
                                        that a fault raises (SIGSEGV), nor SIGABRT, SIGKILL,
                                        SIGSTOP; 0: none */
    bool quiet;                      /* do not print a deadlock, only return it */
    uint64_t share_ns;               /* a fiber that polls (umbra_poll) yields when others have
                                        waited for so long; 0: never */
    unsigned watchdog_ms;            /* print a fiber that has held its core for so long while
                                        others were ready; 0: as UMBRA_WATCHDOG says, else never.
                                        With a limit the program must not unload (dlclose) shared
                                        objects with functions of fibers before the runtime ends */
};

/* Where a fiber begins. */
enum umbra_where {
    UMBRA_HERE,     /* this core; from a thread that is no core: as anywhere */
    UMBRA_ANYWHERE, /* the core that is idle first, and stays there: fibers that mostly wait may
                       all begin on one. Place those by UMBRA_ON_CORE. On the core of its spawner
                       the newest begins first, with one exception in 1,024; elsewhere the oldest */
    UMBRA_ON_CORE   /* core `core` */
};

/* Options of a spawn. All zero, or NULL for the whole, is a good default. */
struct umbra_spawn_options {
    enum umbra_where where;
    unsigned core;
    const char *name;   /* copied; NULL: none */
    size_t stack_bytes; /* 0: the runtime's */
    uint64_t delay_ns;  /* becomes ready this much later at the earliest; not with UMBRA_ANYWHERE */
    bool stopped;       /* begins when it is transferred to, or continued; not with a delay */
    bool own_float_control; /* has the floating-point control words (rounding mode, masks of
                               exceptions, flush to zero) of its own, at first its spawner's; else
                               its core's, which what it sets changes for the core's fibers */
};

/*
 * Starts a runtime, runs fn(arg) in a fiber on core 0, waits until it and all other fibers have
 * ended, and destroys the runtime. Any thread that is no core; blocks it. Returns 0, -EDEADLK,
 * -EINVAL (no function), or an error of umbra_runtime_create.
 */
UM_LINKONCE int umbra_run(const struct umbra_options *options, umbra_fiber_fn *fn, void *arg);

/*
 * Starts the cores. For programs that keep their own main loop: the caller goes on, and holds the
 * runtime, as by umbra_hold, until it calls umbra_runtime_wait. Any thread that is no core; blocks
 * until all cores run (some ms where it is the first of the process to look at the machine; the
 * first runtime with two cores of a kind of pair also measures how they best poll, for up to 1 ms).
 * Returns 0, or with nothing left behind an error; umbra_last_error_text() then names the option,
 * processor or limit:
 *   -EINVAL      a stack that is too small or absurd, a list that cannot be read, both a list and
 *                another number of cores, unknown wait mode, back end, gap or kind of
 *                guard (UMBRA_GUARD), a signal that cannot be used, a variable of the environment
 *                that is none of its values
 *   -ENOSPC      more cores than there are, without oversubscribe, or than 1024; with shadows,
 *                fewer hardware threads than the cores and a shadow for each, or a core that has
 *                siblings and none of them free
 *   -ENODEV      a processor that may not be used; shadows where there is no second one
 *   -EOPNOTSUPP  the forced wait back end cannot execute here; some file of the program is
 *                compiled with -fsplit-stack; the thread has a shadow stack (docs/limits.md)
 *   -EPERM       called by a core
 *   -ENOMEM, -EAGAIN and other negative errno from memory, threads, their keys and binding, and
 *                from the file of UMBRA_TRACE. hwloc may end the process where memory ends
 *                (umbra_topology_create); a topology that the options give is read already
 */
UM_LINKONCE int umbra_runtime_create(const struct umbra_options *options,
                                     struct umbra_runtime **runtime);

/*
 * Waits until all fibers have ended and no hold is left. Gives up the creator's hold while it
 * waits, and takes it back. Any thread that is no core; blocks it. Returns 0; -EDEADLK: the fibers
 * that are left can never end, were printed (unless options->quiet), and stay as they are; -EPERM:
 * called by a core, or in a child of the process that made the runtime (fork(2)).
 */
UM_LINKONCE int umbra_runtime_wait(struct umbra_runtime *runtime);

/*
 * As umbra_run, in a runtime that exists and stays: runs fn(arg) in a fiber on core 0, then does
 * umbra_runtime_wait. Any thread that is no core; blocks it. Returns the result of that wait, or
 * -ENOMEM or -EINVAL (no function), with nothing run.
 */
UM_LINKONCE int umbra_runtime_run(struct umbra_runtime *runtime, umbra_fiber_fn *fn, void *arg);

/*
 * Ends the cores, each when none of its fibers is ready, and frees everything. Blocked, stopped and
 * delayed fibers are freed without their functions returning: an event, mutex or other object that
 * one of them waited for must be initialised again before its next use. A call that has woken a
 * fiber of the runtime (a signal, an unlock and so on, see umbra_hold) must have returned before.
 * Any thread that is no core; blocks, also while a dump that a signal asked for is written. NULL is
 * allowed. Returns 0; -EPERM: as umbra_runtime_wait.
 *
 * A program that exits without this call, or without umbra_runtime_wait, leaves undone what its
 * fibers have not done yet; nothing reports that.
 *
 * A shared object with an implementation of its own is never unloaded once it has had a runtime:
 * dlclose returns 0, and the object stays (docs/limits.md).
 */
UM_LINKONCE int umbra_runtime_destroy(struct umbra_runtime *runtime);

/* The runtime that the caller is a core of, or NULL. Any thread or fiber; never switches or
 * blocks. */
UM_INLINE struct umbra_runtime *umbra_runtime_self(void);

/* The number of cores of a runtime; NULL: of the caller's, 0 if it has none. Any thread or fiber;
 * never switches or blocks. */
UM_INLINE unsigned umbra_runtime_cores(const struct umbra_runtime *runtime);

/* What is known of a core. */
struct umbra_core_info {
    int cpu;                       /* its processor, a hardware thread */
    enum umbra_core_state state;   /* may be out of date */
    struct umbra_wait_stats waits; /* how it waited when it was idle */
    struct umbra_shadow *shadow;   /* its shadow, for shadow_fork by its fibers; NULL: none */
};

/* Fills *info for a core, of 0 to umbra_runtime_cores() - 1; runtime NULL: the caller's. Returns 0,
 * or -EINVAL: no such core. Any thread or fiber; never switches or blocks. */
UM_LINKONCE int umbra_core_info(struct umbra_runtime *runtime, unsigned core,
                                struct umbra_core_info *info);

/*
 * Hold: while a hold is left, the runtime has not ended and reports no deadlock, since the caller
 * may still spawn, signal or continue. Holds add up; each release ends one. Without one it does
 * nothing, but with UMBRA_ASSERT aborts; it never ends what the library holds itself: for the
 * creator, for calls of umbra_blocking and the like. Any thread or fiber, but no signal handler;
 * neither switches fibers. The last release may block while the report of a deadlock is written.
 */
UM_LINKONCE void umbra_hold(struct umbra_runtime *runtime);
UM_LINKONCE void umbra_release(struct umbra_runtime *runtime);

/*
 * Starts fn(arg) in a fiber on this core; it runs after the fibers that are ready now. fiber: its
 * handle, which must be joined or detached; NULL: detached from the start. A fiber; neither
 * switches nor blocks. Returns 0, -ENOMEM, -EINVAL (no function), -EPERM (the caller is no fiber).
 */
UM_ALWAYS_INLINE int umbra_spawn(umbra_fiber_fn *fn, void *arg, struct umbra_fiber *fiber);

/*
 * The same with a place, a name, a stack size, a delay. runtime NULL: the caller's. Any thread or
 * fiber, but no signal handler; never blocks for another fiber. Returns 0; -EINVAL: no function, no
 * such core, too small a stack, a delay or `stopped` without a place, or both; -ENOMEM; -EPERM:
 * runtime NULL and the caller is no fiber, or the parent process's runtime.
 */
UM_LINKONCE int umbra_spawn_with(struct umbra_runtime *runtime,
                                 const struct umbra_spawn_options *options, umbra_fiber_fn *fn,
                                 void *arg, struct umbra_fiber *fiber);

/*
 * Waits until the fiber has ended, until a time of umbra_now_ns() at the latest (UMBRA_NEVER: for
 * as long as it takes), and gives its result (result may be NULL). Any thread or fiber, but no
 * signal handler: a fiber may switch, a thread blocks, as umbra/wait.h says. Each fiber is joined
 * once. A caller that is no fiber of the core that spawned the fiber waits for an answer of that
 * core; the deadline counts for that, too. Returns 0, or with nothing changed:
 *   -ETIMEDOUT the deadline passed first: the fiber must still be joined or detached
 *   -ESRCH    it was joined before, or ended detached
 *   -EINVAL   it is detached, or another caller is joining it
 *   -EDEADLK  it is the caller; or the caller is a thread that is no core, and the fiber can never
 *             end (as in umbra_runtime_wait; found while a thread is in that call, or if the thread
 *             that created the runtime is the one that joins, which then prints the report)
 *   -ECANCELED the calling fiber was canceled (umbra_cancel); or the fiber's runtime is being
 *             destroyed
 *   -EPERM    on an alternate signal stack; or the fiber is the parent process's
 *   -ENOMEM   a join that needs an answer of another core
 * or an error of a thread's first wait (umbra_event_wait).
 */
UM_ALWAYS_INLINE int umbra_join(struct umbra_fiber fiber, uint64_t deadline, void **result);

/* Detaches: the fiber cannot be joined, and its memory is used again when it ends. Any thread or
 * fiber, the fiber itself too, but no signal handler. If the fiber was spawned on another core the
 * call waits for that core's answer, and so may switch, or block. Errors as umbra_join. */
UM_LINKONCE int umbra_detach(struct umbra_fiber fiber);

/*
 * Calls fn(arg) on the caller's stack while the core's thread may use all processors of the
 * process, then binds the thread to the core's processor again. For functions of other libraries
 * that bind their caller, or create threads, which inherit the processors of their creator (OpenMP
 * regions, BLAS; see docs/beside.md). Processes inherit them, too, where posix_spawn, popen or exec
 * starts them and not fork (docs/limits.md). fn may switch, and may call this again: the core is bound
 * again when all such calls have returned. A fiber; blocks its core as long as fn does, and for two
 * changes of the binding (microseconds each). Returns 0, or a negative errno, which
 * umbra_last_error_text() explains, with fn not called: -EPERM: the caller is no fiber; -EINVAL:
 * there is no fn; -ENOMEM; the error of the system. An error of binding again (-EINVAL: the core's
 * processor has gone) is returned after fn was called.
 */
UM_LINKONCE int umbra_core_unbound(void (*fn)(void *), void *arg);

/*
 * Prints each live fiber of the runtime to a file descriptor: name, core, state, what it waits for
 * and where. Out of date where cores run meanwhile. Any thread or fiber, signal handlers too (with
 * UMBRA_POSIX_ONLY no handlers, and no descriptor but 2); blocks as write(2) does.
 */
UM_LINKONCE void umbra_dump(const struct umbra_runtime *runtime, int fd);

#include <umbra/core/cancel.h>
#include <umbra/core/dump_signal.h>
#include <umbra/core/find_work.h>
#include <umbra/core/fork_child.h>
#include <umbra/core/join.h>
#include <umbra/core/loop.h>
#include <umbra/core/report.h>
#include <umbra/core/spawn.h>
#include <umbra/core/start_stop.h>
#include <umbra/core/trace_run.h>
#include <umbra/core/watchdog.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_INLINE struct umbra_runtime *umbra_runtime_self(void)
{
    return um_runtime_self();
}

UM_INLINE unsigned umbra_runtime_cores(const struct umbra_runtime *runtime)
{
    if (!runtime)
        runtime = um_runtime_self();
    return runtime ? runtime->cores : 0;
}

UM_ALWAYS_INLINE int umbra_spawn(umbra_fiber_fn *fn, void *arg, struct umbra_fiber *handle)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *fiber = core ? core->idle_fibers : NULL;

    if (UM_UNLIKELY(!fiber || !fn || !um_core_current(core)))
        return umbra_spawn_with(NULL, NULL, fn, arg, handle);
    core->idle_fibers = fiber->in_pool;
    um_fiber_fetch_ahead(fiber, 0, 2);
    um_fiber_prepare(fiber, core, fn, arg, handle);
    um_core_count(core, 1);
    if (um_tracing())
        um_trace_spawn(core, fiber);
    um_fiber_make_ready(core, fiber);
    return 0;
}

#endif
