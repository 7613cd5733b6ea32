/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Starting and ending the cores of a runtime, holding it and waiting for it. Private; included by
 * core.h. A runtime is created, waited for and destroyed by threads that are no core. Each core
 * opens and closes what belongs to its thread (binding, signal stack, shadow) in that thread; the
 * errors of its start are passed to the creator. If a start fails, all cores that have started are
 * stopped.
 */
#ifndef UMBRA_CORE_START_STOP_H
#define UMBRA_CORE_START_STOP_H

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/context.h>
#include <umbra/core/dump_signal.h>
#include <umbra/core/fork_child.h>
#include <umbra/core/join.h>
#include <umbra/core/judge_quiet.h>
#include <umbra/core/loop.h>
#include <umbra/core/quiet.h>
#include <umbra/core/report.h>
#include <umbra/core/spawn.h>
#include <umbra/core/trace_run.h>
#include <umbra/core/watchdog.h>
#include <umbra/cpu.h>
#include <umbra/fiber.h>
#include <umbra/os/run_once.h>
#include <umbra/shadow.h>
#include <umbra/stack.h>
#include <umbra/task/protocol.h>
#include <umbra/topology.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/*
 * A function of libgcc. It is in a program only if some file was compiled with -fsplit-stack, for
 * which compilers have no macro. Functions of such a file compare the stack pointer with the end of
 * the thread's stack, even in a fiber.
 */
extern void um_morestack(void) __asm__("__morestack") __attribute__((__weak__));

#ifdef UMBRA_IMPLEMENTATION

/* How long a dozing core waits before it counts as asleep: only when reports of deadlocks begin. */
#define UM_LINGER_NS 10000

/* ---- a core's thread ---- */

/*
 * Lists the hardware threads where the core's shadow must not be: those of the runtime's
 * schedulers, and those kept for the shadows of other cores. Writes at most 2 * UM_CORES_MOST;
 * returns how many.
 */
UM_LINKONCE UM_COLD unsigned um_core_avoid(const struct umbra_core *core, int *cpus)
{
    const struct umbra_runtime *runtime = core->runtime;
    unsigned count = 0;

    for (unsigned i = 0; i < runtime->cores; i++) {
        cpus[count++] = runtime->core[i]->cpu;
        if (i != core->index && runtime->core[i]->more->sibling >= 0)
            cpus[count++] = runtime->core[i]->more->sibling;
    }
    return count;
}

UM_LINKONCE UM_COLD int um_core_open_shadow(struct umbra_core *core)
{
    int avoid[2 * UM_CORES_MOST];
    struct umbra_shadow_options options = {.topology = core->runtime->topology,
                                           .wait = core->runtime->wait,
                                           .place_owner = true,
                                           .owner_cpu = core->cpu,
                                           .avoid = avoid,
                                           .avoid_count = um_core_avoid(core, avoid)};
    int error = shadow_create(&core->more->shadow, &options);

    core->more->has_shadow = error == 0;
    return error;
}

UM_LINKONCE UM_COLD int um_core_open(struct umbra_core *core)
{
    const struct umbra_topology *topology = core->runtime->topology;
    int error =
        um_topology_bind_own(topology, core->cpu, core->runtime->processors, &core->more->before);

    if (error != 0)
        return error;
    error = um_overflow_thread_start();
    if (error == 0 && core->runtime->shadows) {
        error = um_core_open_shadow(core);
        if (error != 0)
            um_overflow_thread_stop();
    }
    if (error != 0)
        umbra_topology_unbind(topology, core->more->before);
    return error;
}

UM_LINKONCE UM_COLD int umbra_core_unbound(void (*fn)(void *), void *arg)
{
    const struct umbra_core *core = um_core_self;
    struct umbra_affinity *saved;
    int error;

    um_why_begin();
    if (!core || !um_core_current(core))
        return um_why(-EPERM, "umbra_core_unbound: the caller is no fiber");
    if (!fn)
        return um_why(-EINVAL, "umbra_core_unbound: there is no function");
    error = umbra_topology_bind(core->runtime->topology, UMBRA_ANY_CPU, &saved);
    if (error != 0)
        return error;
    fn(arg);
    error = umbra_topology_unbind(core->runtime->topology, saved);
    return error == 0 ? 0 : um_why(error, "binding to the core's processor: %s", strerror(-error));
}

/* Runs the scheduler to its end, then closes what the thread has opened. */
UM_LINKONCE UM_COLD void um_core_run(struct umbra_core *core)
{
    um_trace_start(core);
    um_core_set_state(core, UMBRA_CORE_EXECUTING);
    um_core_loop(core);
    um_completions_end(core);
    pthread_setspecific(um_runtimes.key, NULL);
    um_core_self = NULL;
    um_tasks_self = &um_tasks_of_none;
    um_context_destroy(&core->scheduler, NULL);
    if (core->more->has_shadow)
        shadow_destroy(&core->more->shadow);
    um_overflow_thread_stop();
    umbra_topology_unbind(core->runtime->topology, core->more->before);
    um_core_set_state(core, UMBRA_CORE_TERMINATED);
}

/* The destructor of um_runtimes.key: the core's thread ends in a fiber. glibc has unwound the fiber's
 * stack and the scheduler's by then, so the core cannot go on. */
UM_LINKONCE UM_COLD void um_core_thread_exits(void *core)
{
    static const char sentence[] = "umbra: a fiber has ended the thread of its core, by "
                                   "pthread_exit() or pthread_cancel()\n";

    if (um_core_self != core) /* in a child process of a fiber */
        return;
    um_os_write(2, sentence, sizeof(sentence) - 1);
    abort();
}

UM_LINKONCE UM_COLD void *um_core_thread(void *arg)
{
    struct umbra_core *core = arg;
    struct umbra_runtime *runtime = core->runtime;
    int error;

    um_os_unmask_signals(runtime->signals);
    um_core_set_state(core, UMBRA_CORE_INITIALIZING);
    core->exceptions = core->more->exceptions =
        um_exceptions_of_thread ? um_exceptions_of_thread() : &um_exceptions_none;
    error = -pthread_setspecific(um_runtimes.key, core);
    if (error == 0)
        error = um_core_open(core);
    core->more->start_error = um_why_returned(error);
    memcpy(core->more->why, um_why_text, sizeof(core->more->why));
    um_core_set_state(core, error == 0 ? UMBRA_CORE_INITIALIZED : UMBRA_CORE_TERMINATED);
    pthread_mutex_lock(&runtime->lock);
    runtime->started++;
    pthread_cond_broadcast(&runtime->changed);
    pthread_mutex_unlock(&runtime->lock);
    if (error != 0)
        return NULL;
    sched_yield(); /* the creator may wait for this processor, which an idle core polls on */
    um_context_adopt(&core->scheduler);
    um_core_self = core;
    um_tasks_self = &core->tasks;
    um_core_run(core);
    return NULL;
}

/* ---- one core ---- */

/* What belongs to a core: the core, the part that is seldom used, and its lists of other cores' idle
 * fibers, in this order, in one block on the core's node. */
UM_LINKONCE UM_COLD size_t um_core_bytes(const struct umbra_runtime *runtime)
{
    return sizeof(struct umbra_core) + sizeof(struct um_core_more) +
           runtime->cores * sizeof(struct um_fiber *);
}

UM_STATIC_ASSERT(sizeof(struct umbra_core) % __alignof__(struct um_core_more) == 0,
                 "see um_core_bytes");
UM_STATIC_ASSERT(__alignof__(struct umbra_core) <= UMBRA_CACHE_LINE,
                 "what um_place_alloc() aligns to");

UM_LINKONCE UM_COLD int um_core_create(struct umbra_runtime *runtime, unsigned index, int cpu)
{
    struct umbra_core *core = um_place_alloc(
        runtime->topology, um_place_node(runtime->topology, cpu), um_core_bytes(runtime));
    struct um_core_more *more;

    if (!core)
        return -ENOMEM;
    memset(core, 0, um_core_bytes(runtime));
    more = (struct um_core_more *)(void *)(core + 1);
    core->more = more;
    core->elsewhere = (struct um_fiber **)(void *)(more + 1);
    core->runtime = runtime;
    core->index = index;
    core->cpu = cpu;
    um_link_join(&core->ready, &core->ready);
    /* the first fork wakes a core, and sees the limits of tasks */
    um_tasks_init(&core->tasks, runtime->cores > 1 || runtime->old_limits);
    core->unplaced = &runtime->unplaced;
    core->asks = &core->no_completions;
    core->share_cycles = runtime->share_cycles;
    core->in_place_cycles = um_min_u64(runtime->policy.spin_cycles, um_ns_to_cycles(UMBRA_SPIN_NS));
    core->look_cycles = core->in_place_cycles;
    um_waiter_init(&core->waiter, &runtime->policy);
    pthread_mutex_init(&more->depot.lock, NULL);
    runtime->core[index] = core;
    return um_trace_make(core);
}

/* ---- places ---- */

/* How many of the places leave a hardware thread, and of the quota time, for each core's shadow; at
 * least 1. */
UM_LINKONCE UM_COLD unsigned um_places_beside_shadows(const struct umbra_runtime *runtime,
                                                      unsigned places)
{
    const struct umbra_topology_info *info = umbra_topology_info(runtime->topology);
    unsigned half = (info->quota != 0 && info->quota < info->cpus ? info->quota : info->cpus) / 2;

    if (half == 0)
        half = 1; /* where there is one hardware thread, creating the shadow fails */
    return places < half ? places : half;
}

/* How many schedulers the topology has places for. */
UM_LINKONCE UM_COLD unsigned um_core_places(const struct umbra_runtime *runtime,
                                            const struct umbra_options *options)
{
    return options->hardware_threads ? umbra_topology_info(runtime->topology)->cpus
                                     : umbra_topology_info(runtime->topology)->cores;
}

/* How many schedulers there are if the options do not say it. 0 or -EINVAL. */
UM_LINKONCE UM_COLD int um_places_usual(const struct umbra_runtime *runtime,
                                        const struct umbra_options *options, unsigned *wanted)
{
    unsigned places = um_core_places(runtime, options);

    if (!options->hardware_threads)
        places = um_cpu_table_places(&runtime->topology->table, options->placement);
    if (options->shadows)
        places = um_places_beside_shadows(runtime, places);
    return um_topology_usual(runtime->topology, places, UM_CORES_MOST, wanted);
}

/* Chooses the schedulers' processors by the options. Returns how many, or a negative errno. */
UM_LINKONCE UM_COLD int um_places_choose(struct umbra_runtime *runtime,
                                         const struct umbra_options *options, int *cpus)
{
    unsigned wanted = options->cores;
    unsigned places = um_core_places(runtime, options), usual;
    int count = um_places_usual(runtime, options, &usual);

    if (count != 0)
        return count;
    if (options->cpus) {
        count = um_topology_place_list(runtime->topology, options->cpus, cpus, UM_CORES_MOST);
        if (count >= 0 && wanted != 0 && wanted != (unsigned)count)
            return um_why(-EINVAL, "cores = %u, but cpus = \"%.100s\" names %d", wanted,
                          options->cpus, count);
        return count;
    }
    if (wanted == 0)
        wanted = usual;
    if (wanted > UM_CORES_MOST)
        return um_why(-ENOSPC, "cores = %u: the most is %d", wanted, UM_CORES_MOST);
    if (wanted > places && !options->oversubscribe)
        return um_why(-ENOSPC, "%s%u, but this process may use %u",
                      options->cores != 0 ? "cores = " : "UMBRA_CORES=", wanted, places);
    if (places > wanted)
        places = wanted;
    count = options->hardware_threads
                ? 0
                : um_topology_place(runtime->topology, options->placement, places, cpus);
    for (unsigned i = 0; i < places && options->hardware_threads; i++)
        cpus[i] = umbra_topology_info(runtime->topology)->cpu[i].cpu;
    for (unsigned i = places; i < wanted; i++)
        cpus[i] = cpus[i % places];
    return count < 0 ? count : (int)wanted;
}

/* Keeps, for each scheduler that has siblings, one of them for its shadow, so that the shadow of a
 * scheduler without siblings is not put there first. Before the cores start. */
UM_LINKONCE UM_COLD void um_siblings_keep(struct umbra_runtime *runtime)
{
    int taken[2 * UM_CORES_MOST];
    unsigned count = 0;

    for (unsigned i = 0; i < runtime->cores; i++)
        taken[count++] = runtime->core[i]->cpu;
    for (unsigned i = 0; i < runtime->cores; i++) {
        struct umbra_core *core = runtime->core[i];
        int nearest = umbra_topology_nearest(runtime->topology, core->cpu, taken, count);

        core->more->sibling = -1;
        if (umbra_topology_shared(runtime->topology, core->cpu, nearest) == UMBRA_SHARED_CORE)
            core->more->sibling = taken[count++] = nearest;
    }
}

/* ---- the runtime ---- */

/* What needs no cores: stack size, wait policy, locks. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_runtime_set_up(struct umbra_runtime *runtime,
                                          const struct umbra_options *options)
{
    size_t bytes = options->stack_bytes ? options->stack_bytes : UMBRA_STACK_BYTES;
    int error;

    if (bytes < um_stack_least_bytes() || bytes > UM_STACK_MOST_BYTES)
        return um_why(-EINVAL, "stack_bytes = %zu: the least is %zu, the most %zu", bytes,
                      um_stack_least_bytes(), UM_STACK_MOST_BYTES);
    runtime->stack_bytes = um_stack_round(bytes);
    runtime->report = !options->quiet;
    runtime->shadows = options->shadows;
    runtime->wait = options->wait;
    runtime->blocking_threads = options->blocking_threads;
    runtime->share_cycles = um_ns_to_cycles(options->share_ns);
    if (runtime->share_cycles == 0 && options->share_ns != 0)
        runtime->share_cycles = 1; /* below a cycle: 0 means none */
    error = um_watchdog_choose(runtime, options->watchdog_ms);
    if (error == 0)
        error = um_guard_check();
    if (error == 0)
        error = umbra_wait_policy_init(&runtime->policy, &options->wait);
    if (error != 0)
        return error;
    runtime->linger_cycles = um_ns_to_cycles(UM_LINGER_NS);
    pthread_mutex_init(&runtime->lock, NULL);
    error = um_trace_from_environment();
    if (error == 0)
        error = um_task_limits_from_environment(runtime);
    if (error != 0)
        return error;
    pthread_cond_init(&runtime->changed, NULL);
    return 0;
}

/* attached: the first of a list. */
UM_LINKONCE UM_COLD void um_attached_end(struct um_attached *attached)
{
    while (attached) {
        struct um_attached *next = attached->next;

        attached->end(attached);
        attached = next;
    }
}

UM_LINKONCE UM_COLD void um_runtime_free(struct umbra_runtime *runtime)
{
    um_pool_destroy(runtime);
    um_attached_end(runtime->ends_last);
    for (unsigned i = 0; i < runtime->cores && runtime->core[i]; i++) {
        pthread_mutex_destroy(&runtime->core[i]->more->depot.lock);
        um_trace_free(runtime->core[i]);
        free(runtime->core[i]->timers.heap);
        um_place_free(runtime->topology, runtime->core[i], um_core_bytes(runtime));
    }
    free(runtime->core);
    um_task_limits_free(runtime);
    pthread_cond_destroy(&runtime->changed);
    pthread_mutex_destroy(&runtime->lock);
    um_affinity_free(runtime->processors);
    if (runtime->own_topology)
        umbra_topology_destroy(runtime->topology);
    free(runtime);
}

/* Tells `threads` cores to stop and waits for their threads. */
UM_LINKONCE UM_COLD void um_runtime_stop(struct umbra_runtime *runtime, unsigned threads)
{
    pthread_mutex_lock(&runtime->lock);              /* for um_join_thread_begin() */
    um_atomic_store(&runtime->stopping, 1, release); /* pairs with um_core_loop() */
    pthread_mutex_unlock(&runtime->lock);
    for (unsigned i = 0; i < threads; i++)
        um_core_poke(runtime->core[i]);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(runtime->core[i]->more->thread, NULL);
    um_watchdog_stop(runtime);
}

/* Starts the threads and waits until all are ready. On failure all have ended. */
UM_LINKONCE UM_COLD int um_runtime_start(struct umbra_runtime *runtime)
{
    unsigned threads = 0;
    int error = 0;

    while (threads < runtime->cores && error == 0) {
        struct umbra_core *core = runtime->core[threads];

        error = -pthread_create(&core->more->thread, NULL, um_core_thread, core);
        if (error == 0)
            threads++;
        else
            um_why(error, "the thread of core %u cannot be started: %s", threads, strerror(-error));
    }
    pthread_mutex_lock(&runtime->lock);
    while (runtime->started < threads)
        pthread_cond_wait(&runtime->changed, &runtime->lock);
    pthread_mutex_unlock(&runtime->lock);
    for (unsigned i = 0; i < threads && error == 0; i++) {
        error = runtime->core[i]->more->start_error;
        if (error != 0)
            um_why(error, "core %u: %s", i, runtime->core[i]->more->why);
    }
    if (error != 0)
        um_runtime_stop(runtime, threads);
    return error;
}

UM_LINKONCE UM_COLD int um_runtime_make_cores(struct umbra_runtime *runtime,
                                              const struct umbra_options *options)
{
    int cpus[UM_CORES_MOST];
    int count = um_places_choose(runtime, options, cpus);
    int error = 0;

    if (count < 0)
        return count;
    runtime->core = calloc((size_t)count, sizeof(struct umbra_core *));
    if (!runtime->core)
        return -ENOMEM;
    runtime->cores = (unsigned)count;
    /* all cores, and the creator; relaxed: no other thread knows the runtime yet */
    um_atomic_store(&runtime->activity, (uint64_t)count + 1, relaxed);
    for (unsigned i = 0; i < runtime->cores && error == 0; i++)
        error = um_core_create(runtime, i, cpus[i]);
    if (error == 0 && runtime->shadows)
        um_siblings_keep(runtime);
    return error;
}

/* Chooses how cores poll: as the two that are farthest apart, of core 0 and another. If any two
 * neighbours in the order of cores are siblings, or the same processor, all pause. Before the cores
 * start; may measure. */
UM_LINKONCE UM_COLD void um_runtime_settle_polls(struct umbra_runtime *runtime)
{
    const struct umbra_topology *topology = runtime->topology;
    int first = runtime->core[0]->cpu, farthest = first;
    bool siblings = runtime->policy.polite;
    uint32_t gap = um_poll_gap(um_pair_of_threads(), UMBRA_POLL_OTHER);

    for (unsigned i = 1; i < runtime->cores; i++) {
        int cpu = runtime->core[i]->cpu;

        siblings = siblings || umbra_topology_shared(topology, runtime->core[i - 1]->cpu, cpu) ==
                                   UMBRA_SHARED_CORE;
        if (umbra_topology_shared(topology, first, cpu) >
            umbra_topology_shared(topology, first, farthest))
            farthest = cpu;
    }
    if (siblings)
        gap = um_poll_gap(UMBRA_PAIR_CORE, UMBRA_POLL_OTHER);
    else if (runtime->cores > 1)
        gap = um_gap_between(topology, &runtime->policy, UMBRA_POLL_OTHER, first, farthest);
    runtime->polls = um_polls_with(gap);
    um_wait_set_gap(&runtime->policy, gap);
}

/* Topology, cores with their threads, what watches them. An error: part of it may be there. */
UM_LINKONCE UM_COLD int um_runtime_fill(struct umbra_runtime *runtime,
                                        const struct umbra_options *options)
{
    int error = 0;

    runtime->topology = options->topology;
    runtime->own_topology = !options->topology;
    if (!options->topology)
        error = um_topology_share(&runtime->topology);
    runtime->signals = um_origin_here().signals;
    if (error == 0)
        error = um_affinity_keep(runtime->topology, &runtime->processors);
    if (error == 0)
        error = um_runtime_make_cores(runtime, options);
    if (error == 0) {
        um_runtime_settle_polls(runtime);
        error = um_runtime_start(runtime);
    }
    if (error == 0)
        error = um_watchdog_start(runtime);
    return error == 0 ? um_runtime_watch(runtime, options->dump_signal) : error;
}

/* As umbra_runtime_create(), with options; an error may be without a text (um_why_returned()). */
UM_LINKONCE UM_COLD int um_runtime_create(const struct umbra_options *options,
                                          struct umbra_runtime **result)
{
    struct umbra_runtime *runtime;
    int error;

    if (um_core_self)
        return um_why(-EPERM, "a fiber cannot start a runtime");
    if (um_morestack)
        return um_why(-EOPNOTSUPP, "compiled with -fsplit-stack, which fibers cannot execute");
    if (!um_context_possible())
        return um_why(-EOPNOTSUPP, "shadow stacks are on: compile with -DUMBRA_SWITCH_BOOST");
    error = um_runtimes_begin();
    if (error != 0)
        return error;
    runtime = aligned_alloc(UMBRA_CACHE_LINE, sizeof(*runtime));
    if (!runtime)
        return -ENOMEM;
    memset(runtime, 0, sizeof(*runtime));
    runtime->creator = um_thread_self();
    error = um_runtime_set_up(runtime, options);
    if (error != 0) {
        free(runtime);
        return error;
    }
    error = um_runtime_fill(runtime, options);
    if (error != 0) {
        if (runtime->started > 0 && !um_atomic_load(&runtime->stopping, relaxed))
            um_runtime_stop(runtime, runtime->cores);
        um_runtime_free(runtime);
        return error;
    }
    um_overflow_start();
    um_trace_runtime(runtime);
    *result = runtime;
    return 0;
}

UM_LINKONCE int umbra_runtime_create(const struct umbra_options *options,
                                     struct umbra_runtime **runtime)
{
    static const struct umbra_options defaults = {.cores = 0};

    um_why_begin();
    return um_why_returned(um_runtime_create(options ? options : &defaults, runtime));
}

/* Shows in the live view that there is a hold more, or one less. The caller holds the runtime. */
UM_INLINE void um_runtime_show_hold(struct umbra_runtime *runtime, uint64_t change)
{
    struct um_trace *trace = runtime->core[0]->more->trace;

    if (trace && trace->shown && !runtime->inherited) /* a child of fork(2) has no such memory */
        um_atomic_fetch_add(&trace->shown->holds, change, relaxed); /* a number */
}

UM_LINKONCE void umbra_hold(struct umbra_runtime *runtime)
{
    um_quiet_hold(&runtime->activity, &runtime->holds);
    um_runtime_show_hold(runtime, 1);
}

UM_LINKONCE void umbra_release(struct umbra_runtime *runtime)
{
    if (um_quiet_let_go(&runtime->holds)) {
        um_runtime_show_hold(runtime, UINT64_MAX);
        um_runtime_leave(runtime);
    } else if (UMBRA_ASSERT) {
        um_misused("runtime", runtime, " is not held, and is released",
                   __builtin_return_address(0));
    }
}

UM_LINKONCE int umbra_runtime_wait(struct umbra_runtime *runtime)
{
    enum um_verdict verdict;
    bool first;

    if (um_core_self || runtime->inherited)
        return um_why(-EPERM, um_core_self ? "a fiber cannot wait for a runtime"
                                           : "the runtime belongs to the parent process");
    pthread_mutex_lock(&runtime->lock);
    while (runtime->waiting > 0 && runtime->verdict != UM_VERDICT_NONE)
        pthread_cond_wait(&runtime->changed, &runtime->lock); /* an earlier wait's verdict */
    first = runtime->waiting++ == 0;
    if (first) {
        runtime->verdict = UM_VERDICT_NONE;
        if (um_quiet_leave(&runtime->activity))
            um_runtime_judge_locked(runtime); /* no other thread waits yet */
    }
    while (runtime->verdict == UM_VERDICT_NONE)
        pthread_cond_wait(&runtime->changed, &runtime->lock);
    verdict = runtime->verdict;
    if (--runtime->waiting == 0) {
        um_runtime_enter(runtime); /* for its creator */
        pthread_cond_broadcast(&runtime->changed);
    }
    if (verdict == UM_VERDICT_DEADLOCK && first && runtime->report)
        um_report_deadlock(runtime);
    pthread_mutex_unlock(&runtime->lock);
    return verdict == UM_VERDICT_DEADLOCK
               ? um_why(-EDEADLK, "deadlock: fibers are left that nothing can wake")
               : 0;
}

UM_LINKONCE int umbra_runtime_destroy(struct umbra_runtime *runtime)
{
    if (um_core_self)
        return um_why(-EPERM, "a fiber cannot destroy a runtime");
    if (!runtime)
        return 0;
    if (runtime->inherited)
        return um_why(-EPERM, "the runtime belongs to a process that this one was forked from");
    um_runtime_stop(runtime, runtime->cores);
    /* fibers may be in calls that helpers execute; they stay as they are. relaxed: the cores, which
     * make the pool, have ended, and their threads were joined */
    um_attached_end(um_atomic_load(&runtime->helpers, relaxed));
    /* ends the joins that threads, and fibers of other runtimes, have begun here, and waits until the
     * threads have left the list */
    for (unsigned i = 0; i < runtime->cores; i++)
        um_joins_cancel_inbox(runtime->core[i]);
    um_pool_each(runtime, um_joins_cancel_fiber);
    pthread_mutex_lock(&runtime->lock);
    while (runtime->joins)
        pthread_cond_wait(&runtime->changed, &runtime->lock);
    pthread_mutex_unlock(&runtime->lock);
    um_runtime_unwatch(runtime);
    um_overflow_stop();
    um_trace_end(runtime, true);
    um_runtime_free(runtime);
    return 0;
}

UM_LINKONCE int umbra_runtime_run(struct umbra_runtime *runtime, umbra_fiber_fn *fn, void *arg)
{
    struct umbra_spawn_options first = {.where = UMBRA_ON_CORE, .core = 0, .name = "main"};
    int error;

    um_why_begin();
    if (um_core_self)
        return um_why(-EPERM, "a fiber cannot wait for a runtime");
    if (runtime->inherited)
        return um_why(-EPERM, "the runtime belongs to a process that this one was forked from");
    if (!fn)
        return um_why(-EINVAL, "there is no function to run");
    error = umbra_spawn_with(runtime, &first, fn, arg, NULL);
    if (error == 0)
        error = umbra_runtime_wait(runtime);
    return um_why_returned(error);
}

UM_LINKONCE int umbra_run(const struct umbra_options *options, umbra_fiber_fn *fn, void *arg)
{
    struct umbra_runtime *runtime;
    int error = umbra_runtime_create(options, &runtime);

    if (error != 0)
        return error;
    error = umbra_runtime_run(runtime, fn, arg);
    umbra_runtime_destroy(runtime);
    return error;
}

/* ---- queries ---- */

UM_LINKONCE int umbra_core_info(struct umbra_runtime *runtime, unsigned number,
                                struct umbra_core_info *info)
{
    struct umbra_core *core;

    if (!runtime)
        runtime = um_runtime_self();
    if (!runtime)
        return um_why(-EINVAL, "the caller is no fiber, and names no runtime");
    if (number >= runtime->cores)
        return um_why(-EINVAL, "core = %u: the runtime has %u", number, runtime->cores);
    core = runtime->core[number];
    info->cpu = core->cpu;
    info->state = um_core_current(core)
                      ? UMBRA_CORE_TASK
                      : (enum umbra_core_state)um_atomic_load(&core->state, relaxed); /* a query */
    info->waits = umbra_waiter_stats(&core->waiter);
    info->shadow = core->more->has_shadow ? &core->more->shadow : NULL;
    return 0;
}

UM_LINKONCE UM_COLD void um_runtimes_init(void)
{
    um_runtimes.error = um_runtimes_watch_forks();
    if (um_runtimes.error != 0)
        return;
    um_runtimes.error = -pthread_key_create(&um_runtimes.key, um_core_thread_exits);
    if (um_runtimes.error == 0)
        um_runtimes.error = -pthread_key_create(&um_sleepers.key, um_sleeper_forget);
    um_os_keep_loaded();
    if (um_runtimes.error != 0)
        um_why(um_runtimes.error, "no key is left for thread-specific data");
}

UM_LINKONCE UM_COLD int um_runtimes_begin(void)
{
    um_once_in_process(&um_runtimes.once, um_runtimes_init);
    return um_runtimes.error;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
