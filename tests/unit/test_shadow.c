/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Linked with --wrap for pthread_create, hwloc_set_cpubind and the allocator, so that each can be
 * made to fail.
 */
#define _GNU_SOURCE
#include "described.h"

#include <hwloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <umbra/shadow.h>

/* ---- failures on order: the call with this number fails, counted down; 0: none ---- */

static int fail_thread, fail_bind, fail_memory;

static bool fails(int *countdown)
{
    return *countdown > 0 && --*countdown == 0;
}

/* Threads that run: counted by the threads themselves, so a joined one is out of the count. */
static _Atomic int threads_alive;

struct start {
    void *(*fn)(void *);
    void *arg;
};

void *__real_malloc(size_t);

static void *counted(void *arg)
{
    struct start start = *(struct start *)arg;
    void *result;

    free(arg);
    result = start.fn(start.arg);
    atomic_fetch_sub(&threads_alive, 1);
    return result;
}

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
    struct start *start;

    if (fails(&fail_thread))
        return EAGAIN;
    start = __real_malloc(sizeof(*start));
    *start = (struct start){fn, arg};
    atomic_fetch_add(&threads_alive, 1);
    return __real_pthread_create(t, a, counted, start);
}

int __real_hwloc_set_cpubind(hwloc_topology_t, hwloc_const_cpuset_t, int);
int __wrap_hwloc_set_cpubind(hwloc_topology_t topology, hwloc_const_cpuset_t set, int flags)
{
    if (fails(&fail_bind)) {
        errno = EINVAL; /* as Linux says that a processor is offline */
        return -1;
    }
    return __real_hwloc_set_cpubind(topology, set, flags);
}

void *__wrap_malloc(size_t size)
{
    return fails(&fail_memory) ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t, size_t);
void *__wrap_calloc(size_t count, size_t size)
{
    return fails(&fail_memory) ? NULL : __real_calloc(count, size);
}

/* ---- what the tests share ---- */

/* Two hardware threads that nothing is bound to: runs on any machine. */
static void create(struct umbra_shadow *shadow, struct umbra_topology *topology)
{
    struct umbra_shadow_options options = {.topology = topology};

    cr_assert_eq(shadow_create(shadow, &options), 0);
}

static void increment(void *arg)
{
    ++*(uint64_t *)arg;
}

static _Atomic int gate;

static void until_gate_opens(void *arg)
{
    while (!atomic_load(&gate))
        sched_yield();
    increment(arg);
}

/* ---- fork and join ---- */

Test(shadow, runs_what_is_forked_and_join_sees_its_effects)
{
    struct umbra_topology *topology = described("core:1 pu:2");
    struct umbra_shadow shadow;
    uint64_t count = 0;

    create(&shadow, topology);
    for (uint64_t i = 1; i <= 20000; i++) {
        cr_assert_eq(shadow_fork(&shadow, increment, &count), 0);
        cr_assert_eq(shadow_join(&shadow), 0);
        cr_assert_eq(count, i);
    }
    cr_assert_eq(shadow_destroy(&shadow), 0);
    umbra_topology_destroy(topology);
}

Test(shadow, works_in_every_wait_mode)
{
    static const enum umbra_wait_mode modes[] = {UMBRA_WAIT_TWO_PHASE, UMBRA_WAIT_SPIN,
                                                 UMBRA_WAIT_MONITOR, UMBRA_WAIT_PARK};
    struct umbra_topology *topology = described("core:1 pu:2");

    for (size_t m = 0; m < 4; m++) {
        struct umbra_shadow_options options = {.topology = topology, .wait.mode = modes[m]};
        struct umbra_shadow shadow;
        uint64_t count = 0;

        cr_assert_eq(shadow_create(&shadow, &options), 0);
        for (int i = 0; i < 500; i++) {
            shadow_fork(&shadow, increment, &count);
            shadow_join(&shadow);
        }
        cr_assert_eq(count, 500);
        cr_assert_eq(shadow_destroy(&shadow), 0);
    }
    umbra_topology_destroy(topology);
}

Test(shadow, done_tells_whether_a_join_would_wait)
{
    struct umbra_topology *topology = described("core:1 pu:2");
    struct umbra_shadow shadow;
    uint64_t count = 0;

    create(&shadow, topology);
    cr_assert(um_shadow_done(&shadow));
    atomic_store(&gate, 0);
    shadow_fork(&shadow, until_gate_opens, &count);
    cr_assert_not(um_shadow_done(&shadow));
    atomic_store(&gate, 1);
    while (!um_shadow_done(&shadow))
        sched_yield();
    cr_assert_eq(count, 1);
    cr_assert_eq(shadow_join(&shadow), 0);
    shadow_destroy(&shadow);
    umbra_topology_destroy(topology);
}

Test(shadow, join_that_timed_out_can_be_repeated)
{
    struct umbra_topology *topology = described("core:1 pu:2");
    struct umbra_shadow shadow;
    uint64_t count = 0;

    create(&shadow, topology);
    atomic_store(&gate, 0);
    shadow_fork(&shadow, until_gate_opens, &count);
    cr_assert_eq(umbra_shadow_join_deadline(&shadow, umbra_deadline(2000000)), -ETIMEDOUT);
    cr_assert_eq(shadow_fork(&shadow, increment, &count), -EBUSY);
    atomic_store(&gate, 1);
    cr_assert_eq(umbra_shadow_join_deadline(&shadow, UMBRA_NEVER), 0);
    cr_assert_eq(count, 1);
    shadow_destroy(&shadow);
    umbra_topology_destroy(topology);
}

/* Waits that did not time out. */
static uint64_t ended(struct umbra_wait_stats stats)
{
    return stats.ended[UMBRA_ENDED_SPIN] + stats.ended[UMBRA_ENDED_MONITOR] +
           stats.ended[UMBRA_ENDED_PARK];
}

Test(shadow, counters_account_for_every_fork)
{
    struct umbra_topology *topology = described("core:1 pu:2");
    struct umbra_shadow shadow;
    uint64_t count = 0, taken, joined;

    create(&shadow, topology);
    taken = ended(umbra_waiter_stats(&shadow.helper_waiter));
    joined = ended(umbra_waiter_stats(&shadow.owner_waiter));
    for (int i = 0; i < 1000; i++) {
        shadow_fork(&shadow, increment, &count);
        shadow_join(&shadow);
    }
    cr_assert_eq(ended(umbra_waiter_stats(&shadow.owner_waiter)) - joined, 1000);
    cr_assert_eq(ended(umbra_waiter_stats(&shadow.helper_waiter)) - taken, 1000);
    shadow_destroy(&shadow);
    umbra_topology_destroy(topology);
}

/* ---- wrong use ---- */

Test(shadow, wrong_order_is_an_error)
{
    struct umbra_topology *topology = described("core:1 pu:2");
    struct umbra_shadow shadow;
    uint64_t count = 0;

    create(&shadow, topology);
    cr_assert_eq(shadow_join(&shadow), -EINVAL, "nothing forked");
    cr_assert_eq(shadow_fork(&shadow, increment, &count), 0);
    cr_assert_eq(shadow_fork(&shadow, increment, &count), -EBUSY);
    cr_assert_eq(shadow_join(&shadow), 0);
    cr_assert_eq(shadow_join(&shadow), -EINVAL, "joined already");
    cr_assert_eq(count, 1);
    cr_assert_eq(shadow_destroy(&shadow), 0);
    umbra_topology_destroy(topology);
}

Test(shadow, use_after_destroy_is_an_error)
{
    struct umbra_topology *topology = described("core:1 pu:2");
    struct umbra_shadow shadow;
    uint64_t count = 0;

    create(&shadow, topology);
    shadow_destroy(&shadow);
    cr_assert_eq(shadow_fork(&shadow, increment, &count), -ESRCH);
    cr_assert_eq(shadow_join(&shadow), -ESRCH);
    cr_assert_eq(umbra_shadow_join_deadline(&shadow, 0), -ESRCH);
    cr_assert_eq(shadow_destroy(&shadow), -ESRCH);
    cr_assert_eq(count, 0);
    umbra_topology_destroy(topology);
}

static void *stranger(void *arg)
{
    struct umbra_shadow *shadow = arg;
    uint64_t count = 0;

    cr_assert_eq(shadow_fork(shadow, increment, &count), -EPERM);
    cr_assert_eq(shadow_join(shadow), -EPERM);
    cr_assert_eq(shadow_destroy(shadow), -EPERM);
    return NULL;
}

static void as_stranger(void *arg)
{
    stranger(arg);
}

Test(shadow, only_the_owner_may_use_it)
{
    struct umbra_topology *topology = described("core:1 pu:2");
    struct umbra_shadow shadow;
    pthread_t other;

    create(&shadow, topology);
    pthread_create(&other, NULL, stranger, &shadow);
    pthread_join(other, NULL);
    shadow_fork(&shadow, as_stranger, &shadow); /* nor may the shadow itself */
    cr_assert_eq(shadow_join(&shadow), 0);
    cr_assert_eq(shadow_destroy(&shadow), 0);
    umbra_topology_destroy(topology);
}

static void *open_gate_soon(void *arg)
{
    (void)arg;
    for (uint64_t end = umbra_now_ns() + 20000000; umbra_now_ns() < end;)
        sched_yield();
    atomic_store(&gate, 1);
    return NULL;
}

Test(shadow, destroy_waits_for_what_runs)
{
    struct umbra_topology *topology = described("core:1 pu:2");
    struct umbra_shadow shadow;
    uint64_t count = 0;
    pthread_t opener;

    create(&shadow, topology);
    atomic_store(&gate, 0);
    shadow_fork(&shadow, until_gate_opens, &count);
    pthread_create(&opener, NULL, open_gate_soon, NULL);
    cr_assert_eq(shadow_destroy(&shadow), 0);
    cr_assert_eq(count, 1);
    pthread_join(opener, NULL);
    cr_assert_eq(threads_alive, 0);
    umbra_topology_destroy(topology);
}

/* ---- places ---- */

Test(shadow, sits_on_the_sibling_and_spins_politely_there)
{
    struct umbra_topology *topology = described("pack:2 core:2 pu:2");
    struct umbra_shadow_options options = {
        .topology = topology, .place_owner = true, .owner_cpu = 4};
    struct umbra_shadow shadow;

    cr_assert_eq(shadow_create(&shadow, &options), 0);
    cr_assert_eq(shadow.info.owner_cpu, 4);
    cr_assert_eq(shadow.info.shadow_cpu, 5);
    cr_assert_eq(shadow.info.shared, UMBRA_SHARED_CORE);
    cr_assert_not(shadow.info.bound);
    cr_assert(shadow.policy.polite);
    if (!getenv("UMBRA_WAIT")) { /* which may force a gap */
        cr_expect_eq(shadow.policy.gap, UMBRA_GAP_PAUSE);
    }
    shadow_destroy(&shadow);
    umbra_topology_destroy(topology);
}

Test(shadow, without_a_sibling_the_nearest_thread_is_taken_and_named)
{
    struct umbra_topology *topology = described("l3:2 core:2 pu:1");
    struct umbra_shadow_options options = {
        .topology = topology, .place_owner = true, .owner_cpu = 2};
    struct umbra_shadow shadow;

    cr_assert_eq(shadow_create(&shadow, &options), 0);
    cr_assert_eq(shadow.info.shadow_cpu, 3);
    cr_assert_eq(shadow.info.shared, UMBRA_SHARED_L3);
    cr_assert_not(shadow.policy.polite);
    shadow_destroy(&shadow);
    umbra_topology_destroy(topology);
}

Test(shadow, core_of_four_ways_has_three_shadows)
{
    struct umbra_topology *topology = described("core:2 pu:4");
    struct umbra_shadow_options options = {.topology = topology, .place_owner = true};
    struct umbra_shadow shadow[4];
    uint64_t count[3] = {0};

    for (int i = 0; i < 3; i++) {
        cr_assert_eq(shadow_create(&shadow[i], &options), 0);
        cr_assert_eq(shadow[i].info.shadow_cpu, i + 1);
    }
    cr_assert_eq(shadow_create(&shadow[3], &options), -ENOSPC);
    cr_assert_eq(shadow_fork(&shadow[3], increment, count), -ESRCH);
    for (int i = 0; i < 3; i++)
        shadow_fork(&shadow[i], increment, &count[i]);
    for (int i = 0; i < 3; i++)
        shadow_join(&shadow[i]);
    cr_assert(count[0] == 1 && count[1] == 1 && count[2] == 1);
    cr_assert_eq(shadow_destroy(&shadow[1]), 0, "in any order");
    cr_assert_eq(shadow_create(&shadow[1], &options), 0, "its place is free again");
    cr_assert_eq(shadow[1].info.shadow_cpu, 2);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(shadow_destroy(&shadow[i]), 0);
    cr_assert_eq(threads_alive, 0);
    umbra_topology_destroy(topology);
}

Test(shadow, places_to_avoid_are_not_chosen)
{
    struct umbra_topology *topology = described("core:2 pu:3");
    struct umbra_topology *flat = described("core:3 pu:1");
    int avoid[] = {1, 2};
    struct umbra_shadow_options options = {
        .topology = topology, .place_owner = true, .avoid = avoid, .avoid_count = 1};
    struct umbra_shadow shadow;

    cr_assert_eq(shadow_create(&shadow, &options), 0);
    cr_assert_eq(shadow.info.shadow_cpu, 2);
    shadow_destroy(&shadow);
    options.avoid_count = 2;
    cr_assert_eq(shadow_create(&shadow, &options), -ENOSPC, "no sibling is left");
    options.place_shadow = true;
    options.shadow_cpu = 1;
    cr_assert_eq(shadow_create(&shadow, &options), 0, "a place that is named is taken");
    shadow_destroy(&shadow);
    options.place_shadow = false;
    options.topology = flat;
    cr_assert_eq(shadow_create(&shadow, &options), -ENOSPC, "none is left");
    options.avoid_count = 1;
    cr_assert_eq(shadow_create(&shadow, &options), 0);
    cr_assert_eq(shadow.info.shadow_cpu, 2);
    shadow_destroy(&shadow);
    umbra_topology_destroy(topology);
    umbra_topology_destroy(flat);
}

Test(shadow, impossible_places_are_errors)
{
    struct umbra_topology *topology = described("core:4 pu:1");
    struct umbra_topology *lonely = described("core:1 pu:1");
    struct umbra_shadow_options at = {.topology = topology, .place_owner = true};
    struct umbra_shadow first, second;

    at.place_shadow = true;
    cr_assert_eq(shadow_create(&first, &at), -EINVAL, "on its owner");
    at.shadow_cpu = 17;
    cr_assert_eq(shadow_create(&first, &at), -ENODEV);
    at.shadow_cpu = -1;
    cr_assert_eq(shadow_create(&first, &at), -ENODEV);
    at.shadow_cpu = 2;
    cr_assert_eq(shadow_create(&first, &at), 0);
    cr_assert_eq(shadow_create(&second, &at), -EBUSY, "taken");
    at.owner_cpu = 1;
    at.shadow_cpu = 3;
    cr_assert_eq(shadow_create(&second, &at), -EBUSY, "the owner is elsewhere");
    at.owner_cpu = 99;
    cr_assert_eq(shadow_create(&second, &at), -ENODEV);
    at = (struct umbra_shadow_options){.topology = lonely};
    shadow_destroy(&first);
    cr_assert_eq(shadow_create(&first, &at), -ENODEV, "no second hardware thread");
    cr_assert_eq(threads_alive, 0);
    umbra_topology_destroy(topology);
    umbra_topology_destroy(lonely);
}

Test(shadow, bad_wait_options_are_errors_and_leave_nothing)
{
    struct umbra_topology *topology = described("core:1 pu:2");
    struct umbra_shadow_options options = {.topology = topology, .wait.backend = "hlt"};
    struct umbra_shadow shadow;

    unsetenv("UMBRA_WAIT");
    cr_assert_eq(shadow_create(&shadow, &options), -EINVAL);
    setenv("UMBRA_WAIT", "nonsense", 1);
    options.wait.backend = NULL;
    cr_assert_eq(shadow_create(&shadow, &options), -EINVAL);
    unsetenv("UMBRA_WAIT");
    create(&shadow, topology); /* the place was not kept */
    shadow_destroy(&shadow);
    cr_assert_eq(threads_alive, 0);
    umbra_topology_destroy(topology);
}

Test(shadow, real_machine_binds_both_and_gives_the_owner_its_binding_back)
{
    struct umbra_shadow shadow;
    cpu_set_t before, during, after;
    int error;

    sched_getaffinity(0, sizeof(before), &before);
    error = shadow_create(&shadow, NULL);
    if (error == -ENODEV)
        cr_skip_test("one hardware thread only");
    cr_assert_eq(error, 0);
    if (!shadow.info.bound)
        cr_skip_test("the topology is a description");
    sched_getaffinity(0, sizeof(during), &during);
    cr_assert_eq(CPU_COUNT(&during), 1);
    cr_assert(CPU_ISSET(shadow.info.owner_cpu, &during));
    pthread_getaffinity_np(shadow.thread, sizeof(during), &during);
    cr_assert_eq(CPU_COUNT(&during), 1);
    cr_assert(CPU_ISSET(shadow.info.shadow_cpu, &during));
    cr_assert_neq(shadow.info.owner_cpu, shadow.info.shadow_cpu);
    shadow_destroy(&shadow);
    sched_getaffinity(0, sizeof(after), &after);
    cr_assert(CPU_EQUAL(&before, &after));
}

/* ---- failures of the system ---- */

Test(shadow, thread_that_cannot_be_created_is_an_error)
{
    struct umbra_topology *topology = described("core:1 pu:2");
    struct umbra_shadow_options options = {.topology = topology};
    struct umbra_shadow shadow;

    create(&shadow, topology); /* what is measured once is measured now */
    shadow_destroy(&shadow);
    fail_thread = 1;
    cr_assert_eq(shadow_create(&shadow, &options), -EAGAIN);
    create(&shadow, topology);
    shadow_destroy(&shadow);
    cr_assert_eq(threads_alive, 0);
    umbra_topology_destroy(topology);
}

static void expect_default_wake_cost(void)
{
    struct umbra_wait_policy policy;

    cr_assert_eq(umbra_wait_policy_init(&policy, NULL), 0);
    cr_assert_eq(policy.block_cycles, um_ns_to_cycles(2 * UM_BLOCK_UNMEASURED_NS));
    cr_assert_eq(threads_alive, 0);
}

Test(shadow, wake_up_has_a_default_cost_without_a_thread_to_measure_it)
{
    fail_thread = 1;
    expect_default_wake_cost();
}

Test(shadow, wake_up_has_a_default_cost_without_a_second_thread_to_measure_it)
{
    fail_thread = 2;
    expect_default_wake_cost();
}

#ifndef UMBRA_POSIX_ONLY
static void keep_to_one_processor(void)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one);
}

Test(shadow, wake_up_has_a_default_cost_on_a_single_processor)
{
    keep_to_one_processor();
    expect_default_wake_cost();
}

/* Each round trip of two that never park there takes two turns of the scheduler. */
Test(shadow, is_made_in_one_round_trip)
{
    struct umbra_topology *topology = described("core:2 pu:1");
    struct umbra_shadow_options options = {.topology = topology, .wait.mode = UMBRA_WAIT_SPIN};
    struct umbra_shadow shadow;

    keep_to_one_processor();
    cr_assert_eq(shadow_create(&shadow, &options), 0);
    cr_assert_eq(ended(umbra_waiter_stats(&shadow.owner_waiter)), 1);
    shadow_destroy(&shadow);
    umbra_topology_destroy(topology);
}
#endif

Test(shadow, processor_that_went_offline_is_an_error_and_nothing_stays_bound)
{
    struct umbra_topology *topology = NULL;
    struct umbra_shadow_options options = {0};
    cpu_set_t before, after;
    struct umbra_shadow shadow;

    cr_assert_eq(umbra_topology_create(NULL, &topology), 0);
    options.topology = topology;
    if (umbra_topology_info(topology)->cpus < 2 || !umbra_topology_info(topology)->binds)
        cr_skip_test("needs two hardware threads to bind to");
    sched_getaffinity(0, sizeof(before), &before);
    for (int call = 1; call <= 2; call++) { /* the owner's, then the helper's */
        fail_bind = call;
        cr_assert_eq(shadow_create(&shadow, &options), -ENODEV, "call %d", call);
        cr_assert_eq(fail_bind, 0);
        sched_getaffinity(0, sizeof(after), &after);
        cr_assert(CPU_EQUAL(&before, &after));
        cr_assert_eq(threads_alive, 0);
    }
    create(&shadow, topology);
    shadow_destroy(&shadow);
    umbra_topology_destroy(topology);
}

Test(shadow, memory_that_is_not_there_is_an_error_whichever_piece_it_is)
{
    struct umbra_shadow shadow;
    int error = -ENOMEM;
    int piece = 0;

    if (shadow_create(&shadow, NULL) != 0)
        cr_skip_test("needs two hardware threads");
    shadow_destroy(&shadow);
    while (error == -ENOMEM) {
        fail_memory = ++piece;
        error = shadow_create(&shadow, NULL);
        if (error != 0)
            cr_assert_eq(fail_memory, 0, "piece %d: %d", piece, error);
    }
    cr_assert_eq(error, 0);
    cr_assert_gt(piece, 1, "something is allocated");
    fail_memory = 0;
    shadow_destroy(&shadow);
    cr_assert_eq(threads_alive, 0);
}

static int use_in_child(struct umbra_shadow *inherited, struct umbra_topology *topology)
{
    struct umbra_shadow_options options = {.topology = topology};
    struct umbra_shadow own;
    uint64_t count = 0;

    if (shadow_fork(inherited, increment, &count) != -ESRCH || shadow_join(inherited) != -ESRCH)
        return 1;
    if (shadow_destroy(inherited) != -ESRCH || shadow_create(&own, &options) != 0)
        return 2;
    if (shadow_fork(&own, increment, &count) != 0 || shadow_join(&own) != 0 || count != 1)
        return 3;
    return shadow_destroy(&own) == 0 ? 0 : 4;
}

Test(shadow, child_process_has_none_of_its_parents_and_may_make_its_own)
{
    struct umbra_topology *topology = described("core:1 pu:2");
    struct umbra_shadow shadow;
    uint64_t count = 0;
    int status = -1;
    pid_t child;

#ifdef UMBRA_UNDER_TSAN
    cr_skip_test("ThreadSanitizer starts no threads after a fork of several");
#endif
    create(&shadow, topology);
    child = fork();
    if (child == 0)
        _exit(use_in_child(&shadow, topology));
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    shadow_fork(&shadow, increment, &count);
    shadow_join(&shadow);
    cr_assert_eq(count, 1, "the parent's is as before");
    shadow_destroy(&shadow);
    umbra_topology_destroy(topology);
}

#ifndef UMBRA_POSIX_ONLY
static void look_at_mask(void *arg)
{
    pthread_sigmask(SIG_BLOCK, NULL, arg);
}

Test(shadow, takes_no_signals_of_the_program_but_its_own_faults)
{
    struct umbra_topology *topology = described("core:1 pu:2");
    struct umbra_shadow shadow;
    sigset_t inside, outside;

    create(&shadow, topology);
    shadow_fork(&shadow, look_at_mask, &inside);
    shadow_join(&shadow);
    cr_assert(sigismember(&inside, SIGINT) && sigismember(&inside, SIGUSR1));
    cr_assert(sigismember(&inside, SIGCHLD) && sigismember(&inside, SIGALRM));
    cr_assert_not(sigismember(&inside, SIGSEGV) || sigismember(&inside, SIGILL));
    cr_assert_not(sigismember(&inside, SIGPROF));
    pthread_sigmask(SIG_BLOCK, NULL, &outside);
    cr_assert_not(sigismember(&outside, SIGUSR1));
    shadow_destroy(&shadow);
    umbra_topology_destroy(topology);
}
#endif
