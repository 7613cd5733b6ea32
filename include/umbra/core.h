/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Cores: one cooperative scheduler for each physical core (Karasik and Prihozhy, 2020: cooperative
 * scheduler thread, CST), and the runtime that they make up together.
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
 *         umbra_join(fiber, NULL);
 *         return NULL;
 *     }
 *
 *     int main(void) { return umbra_run(NULL, main_fiber, NULL) == 0 ? 0 : 1; }
 *
 * Each core has a thread of its own, bound to it; the thread that starts the runtime is none of
 * them. A core runs the fibers of its ready queue (umbra/fiber.h) one after the other, and what
 * comes through its inbox: fibers from other cores, and its own that others woke. One with nothing
 * to do takes a fiber that was spawned without a place, the oldest first, or a task (umbra/task.h);
 * else it waits, first spinning, then with the processor's monitor, then in the kernel
 * (umbra/wait.h).
 *
 * Core states, after the paper's:
 *
 *   created, initializing, initialized   until its thread is bound and ready
 *   executing                            the scheduler itself runs
 *   task                                 a fiber runs (WaitingTaskExecuting)
 *   idle                                 nothing to do (WaitingWrIdle)
 *   terminated                           its thread has ended
 *
 * Deadlock. When every core is idle, and no timer, shadow or outside holder is left that could wake
 * a fiber, nothing ever will. If fibers are still blocked or stopped then, the wait for the runtime
 * prints them and returns -EDEADLK. Their stacks stay as they are until the runtime is destroyed,
 * and then go without their functions returning; events that they waited for are to be initialised
 * anew. A thread that is no core and means to spawn, or to do what may wake a fiber (signal,
 * continue, unlock, post, notify, be the last at a barrier or latch, give up waiting for a write
 * lock) while the runtime is waited for must hold it (umbra_hold); so must whoever relies on signal
 * handlers that signal, on whatever thread, or on a shadow that a fiber has created itself, and
 * fibers of another runtime that share events with this one, or that fibers of this one join.
 * Threads that only wait need not.
 *
 * fork(2). The child has none of its parent's cores. It may exec, or start runtimes of its own; its
 * parent's runtimes and their fibers are refused to it (-EPERM), and their memory stays with it. A child
 * that a fiber has forked goes on in the fiber's function, as a thread that is no core, on the
 * processors that the runtime's creator had; it must not wait for what fibers or tasks of its parent
 * would do. When the function returns the process exits with status 0. In the function of a task, a
 * range or a dispatcher it must exec or exit before that returns.
 */
#ifndef UMBRA_CORE_H
#define UMBRA_CORE_H

#include <umbra/base/base.h>
#include <umbra/fiber.h>
#include <umbra/impl/cpu_table.h>
#include <umbra/shadow.h>
#include <umbra/stack.h>
#include <umbra/topology.h>
#include <umbra/wait.h>

/* Default size of a fiber's stack, guard not included: address space, of which the pages that were
 * used become memory. A guard of 64 KiB or a page more is below it. */
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

/* How to run. All zero, or NULL for the whole, is a good default. */
struct umbra_options {
    unsigned cores;                  /* how many schedulers, fastest cores first; 0: one for each
                                        core there is, big or little; with shadows no more than
                                        half of the hardware threads */
    enum umbra_placement placement;  /* where; see umbra/topology.h */
    const char *cpus;                /* where, by a list ("0,2-5"): overrules placement, and cores
                                        if that is 0; one scheduler for each processor named */
    bool hardware_threads;           /* one scheduler for each hardware thread, not each core */
    bool oversubscribe;              /* more schedulers than there are places: they share them */
    bool shadows;                    /* give each core a shadow, on no core's processor:
                                        umbra_core_shadow() */
    size_t stack_bytes;              /* of a fiber's stack; 0: UMBRA_STACK_BYTES */
    struct umbra_wait_options wait;  /* of idle cores, waiting threads and shadows */
    struct umbra_topology *topology; /* must outlive the runtime; NULL: look at this machine */
    int dump_signal;                 /* print all fibers to standard error on it, if it is none that
                                        a fault raises (SIGSEGV), nor SIGABRT, SIGKILL, SIGSTOP;
                                        0: none */
    bool quiet;                      /* do not print a deadlock, only return it */
};

/* Where a fiber begins. */
enum umbra_where {
    UMBRA_HERE,     /* this core; from a thread that is none: as anywhere */
    UMBRA_ANYWHERE, /* whichever core is idle first */
    UMBRA_ON_CORE   /* core `core` */
};

/* How to spawn. All zero, or NULL for the whole, is a good default. */
struct umbra_spawn_options {
    enum umbra_where where;
    unsigned core;
    const char *name;   /* copied; NULL: none */
    size_t stack_bytes; /* 0: the runtime's */
    uint64_t delay_ns;  /* becomes ready this much later at the earliest; not with UMBRA_ANYWHERE */
    bool stopped;       /* begins when it is transferred to, or continued; not with a delay */
};

/*
 * Starts a runtime, runs fn(arg) in a fiber on core 0, waits until it and all other fibers have
 * ended, and destroys the runtime. Any thread but a core; blocks it. Returns 0, -EDEADLK, or an
 * error of umbra_runtime_create.
 */
UM_LINKONCE int umbra_run(const struct umbra_options *options, umbra_fiber_fn *fn, void *arg);

/*
 * Starts the cores. For programs that keep their own main loop: the caller goes on, and holds the
 * runtime (umbra_hold) until it calls umbra_runtime_wait. Any thread but a core; blocks until all
 * cores are there (some ms). Returns 0, or with nothing left behind an error, of which
 * umbra_last_error_text() names the option, processor or limit:
 *   -EINVAL      a stack that is too small (umbra_stack_least_bytes()) or absurd, a list that
 *                cannot be read, both a list and another number of cores, unknown wait mode, back end
 *                or kind of guard (UMBRA_GUARD), a signal that cannot be had
 *   -ENOSPC      more cores than there are, without oversubscribe, or than 1024; with shadows,
 *                fewer hardware threads than the cores and a shadow for each, or a core that has
 *                siblings and none of them free
 *   -ENODEV      a processor that may not be used; shadows where there is no second one
 *   -EOPNOTSUPP  forced wait back end cannot execute here; some file of the program is compiled with
 *                -fsplit-stack
 *   -EPERM       called by a core
 *   -ENOMEM, -EAGAIN and other negative errno from memory, threads, their keys and binding
 */
UM_LINKONCE int umbra_runtime_create(const struct umbra_options *options,
                                     struct umbra_runtime **runtime);

/*
 * Waits until all fibers have ended and nothing can start any. Gives up the creator's hold while it
 * waits, and takes it back. Any thread but a core. Returns 0; -EDEADLK: the rest can never end, was
 * printed (unless options->quiet), and stays as it is; -EPERM: called by a core, or in a child of the
 * process that made the runtime (fork(2)).
 */
UM_LINKONCE int umbra_runtime_wait(struct umbra_runtime *runtime);

/*
 * umbra_run in a runtime that is there and stays: fn(arg) in a fiber on core 0, then as
 * umbra_runtime_wait. Any thread but a core; blocks it. Returns what that does, or -ENOMEM, nothing
 * run.
 */
UM_LINKONCE int umbra_runtime_run(struct umbra_runtime *runtime, umbra_fiber_fn *fn, void *arg);

/*
 * Ends the cores, each when no fiber of it is ready, and frees everything. Fibers that are blocked,
 * stopped or delayed go as they are, without their functions returning: an event, mutex or other object
 * that one of them waited for must be initialised again before its next use. What has woken one of its
 * fibers (a signal, an unlock and so on, see umbra_hold) must have returned, not only done so. Any
 * thread but a core; blocks, also until no signal is being answered by a dump. NULL is allowed. Returns
 * 0; -EPERM: as umbra_runtime_wait.
 *
 * A shared object whose runtimes and shadows are all destroyed may be unloaded (dlclose). No call into it
 * may be under way then, and what has ended a wait of its threads must have returned, too. Threads that
 * have waited in it may end later. One that ends before must have been joined: if it ends just as the
 * object goes, it may still be in a destructor of its thread-specific data there.
 */
UM_LINKONCE int umbra_runtime_destroy(struct umbra_runtime *runtime);

/* The runtime that the caller is a core of, or NULL. */
UM_INLINE struct umbra_runtime *umbra_runtime_self(void);

/* How many cores it has. Anybody; never blocks. */
UM_INLINE unsigned umbra_runtime_cores(const struct umbra_runtime *runtime);

/* The processor of a core, and what the core is doing (enum umbra_core_state). -EINVAL: no such
 * core. Any thread. */
UM_LINKONCE int umbra_core_cpu(const struct umbra_runtime *runtime, unsigned core);
UM_LINKONCE int umbra_core_state(const struct umbra_runtime *runtime, unsigned core);

/* How a core waited when it was idle. Any thread; no such core: all zero. */
UM_LINKONCE struct umbra_wait_stats umbra_core_stats(const struct umbra_runtime *runtime,
                                                     unsigned core);

/*
 * Holds a deadlock's judgement back: the caller, no core, may still spawn, signal or continue. Any
 * thread, any number of times; umbra_release undoes one, of those that there are. Neither switches
 * fibers; the last release may wait for the report of a deadlock to be written.
 */
UM_LINKONCE void umbra_hold(struct umbra_runtime *runtime);
UM_LINKONCE void umbra_release(struct umbra_runtime *runtime);

/*
 * Starts fn(arg) in a fiber on this core; it runs when those that are ready now have had their
 * turn. fiber: its handle, which must be joined or detached; NULL: detached from the start. A
 * fiber; does not switch. Returns 0, -ENOMEM, -EPERM (the caller is no fiber).
 */
UM_ALWAYS_INLINE int umbra_spawn(umbra_fiber_fn *fn, void *arg, struct umbra_fiber *fiber);

/*
 * The same with a place, a name, a stack size, a delay. Anybody; runtime NULL: the caller's. Never
 * blocks for another fiber. -EINVAL: no such core, too small a stack, a delay or `stopped` without
 * a place, or both; -ENOMEM; -EPERM: runtime NULL and the caller is no fiber, or the parent process's
 * runtime.
 */
UM_LINKONCE int umbra_spawn_with(struct umbra_runtime *runtime,
                                 const struct umbra_spawn_options *options, umbra_fiber_fn *fn,
                                 void *arg, struct umbra_fiber *fiber);

/*
 * count fibers, the i-th with the argument (char *)args + i * stride. fibers: count handles, or
 * NULL: detached. *started says how many there are: count, or with an error fewer, or 0 (NULL: do not
 * tell). As above otherwise.
 */
UM_LINKONCE int umbra_spawn_many(struct umbra_runtime *runtime,
                                 const struct umbra_spawn_options *options, umbra_fiber_fn *fn,
                                 void *args, size_t stride, size_t count,
                                 struct umbra_fiber *fibers, size_t *started);

/*
 * Waits until the fiber has ended, and gives what it returned (result may be NULL). Anybody: a
 * fiber may switch, a thread blocks, as umbra/wait.h says. Each fiber is joined once. Returns 0, or
 * with nothing changed:
 *   -ESRCH    it was joined before, or ended detached
 *   -EINVAL   it is detached, or another one is joining it
 *   -EDEADLK  it is the caller; or the caller is a thread that is no core, and the fiber can never end
 *             (as umbra_runtime_wait has it; found out while a thread is in there, or where the thread
 *             that created the runtime is the one that joins, which then prints the report)
 *   -ECANCELED the caller is a fiber that was canceled (umbra_cancel); or the fiber's runtime is being
 *             destroyed
 *   -EPERM    on an alternate signal stack; or the fiber is the parent process's
 *   -ENOMEM   a join that needs an answer of another core
 * or an error of a thread's first wait (umbra_event_wait).
 */
UM_ALWAYS_INLINE int umbra_join(struct umbra_fiber fiber, void **result);

/*
 * The same until a time stamp made by umbra_deadline(ns): -ETIMEDOUT, and the fiber is still to be
 * joined, or detached. A caller that is not a fiber of the core which spawned the fiber needs an answer
 * of that core, for which the deadline counts, too.
 */
UM_LINKONCE int umbra_join_deadline(struct umbra_fiber fiber, void **result, uint64_t deadline);

/* Nobody will join it: its memory is used again when it ends. Anybody, also the fiber itself; waits
 * for an answer of the core that it was spawned on, if that is not the caller's, and so may switch, or
 * block. Errors as umbra_join. */
UM_LINKONCE int umbra_detach(struct umbra_fiber fiber);

/* The shadow of the caller's core, for shadow_fork; NULL: none, or not called by a fiber. Never
 * blocks. */
UM_INLINE struct umbra_shadow *umbra_core_shadow(void);

/*
 * shadow_join that lets the core run other fibers while the shadow works. Notices the end at once
 * while it takes as long as a spin phase, afterwards at most an eighth of that time later. The fiber
 * must be on the core that owns the shadow. May switch. Errors as shadow_join; -EPERM also on an
 * alternate signal stack.
 */
UM_LINKONCE int umbra_core_shadow_join(struct umbra_shadow *shadow);

/*
 * Calls fn(arg) on the caller's stack while the core's thread may use all processors of the process,
 * then binds it to the core's processor again. For functions of other libraries that create threads,
 * since threads inherit what their creator may use, or that bind their caller (OpenMP regions, BLAS;
 * see docs/beside.md). fn may switch, and may call this again: the core is bound again when all such
 * calls have returned. A fiber; blocks its core as long as fn does, and for two changes of the
 * binding (microseconds each). Returns 0, or a negative errno, of which umbra_last_error_text() says
 * more, with fn not called: -EPERM: the caller is no fiber; -ENOMEM; what the system said. An error
 * of binding again (-EINVAL: the core's processor has gone) comes after fn was called.
 */
UM_LINKONCE int umbra_core_unbound(void (*fn)(void *), void *arg);

/*
 * Prints each live fiber of the runtime to a file descriptor: name, core, state, what it waits for
 * and where. Anybody, signal handlers too (with UMBRA_POSIX_ONLY neither handlers nor any descriptor
 * but 2); blocks as write(2) does; while the cores run, what it prints may be out of date.
 */
UM_LINKONCE void umbra_dump(const struct umbra_runtime *runtime, int fd);

/*
 * How much of the fiber's stack has ever been used, bytes, by this fiber or those that had it before;
 * with a system call a page, and without what has been swapped out. Anybody who may still join it;
 * does not block. -ESRCH: it was joined, or has ended detached.
 */
UM_LINKONCE long umbra_stack_used(struct umbra_fiber fiber);

#include <umbra/core/cancel.h>
#include <umbra/core/fiber.h>
#include <umbra/core/join.h>
#include <umbra/core/loop.h>
#include <umbra/core/pool.h>
#include <umbra/core/report.h>
#include <umbra/core/runtime.h>
#include <umbra/core/spawn.h>
#include <umbra/core/tasks.h>
#include <umbra/impl/core.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_INLINE struct umbra_runtime *umbra_runtime_self(void)
{
    return um_runtime_self();
}

UM_INLINE unsigned umbra_runtime_cores(const struct umbra_runtime *runtime)
{
    return runtime->cores;
}

UM_INLINE struct umbra_shadow *umbra_core_shadow(void)
{
    return um_core_self && um_core_self->more->has_shadow ? &um_core_self->more->shadow : NULL;
}

UM_ALWAYS_INLINE int umbra_spawn(umbra_fiber_fn *fn, void *arg, struct umbra_fiber *handle)
{
    struct umbra_core *core = um_core_self;
    struct um_fiber *fiber = core ? core->idle_fibers : NULL;

    if (UM_UNLIKELY(!fiber || !um_core_current(core)))
        return core ? umbra_spawn_with(NULL, NULL, fn, arg, handle) : -EPERM;
    core->idle_fibers = fiber->in_pool;
    um_fiber_fetch_ahead(fiber, 0, 2);
    um_fiber_prepare(fiber, core, fn, arg, handle);
    um_core_count(core, 1);
    um_fiber_make_ready(core, fiber);
    return 0;
}

#endif
