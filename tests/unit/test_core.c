/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include "fibers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static void *nothing(void *arg)
{
    return arg;
}

static int create(struct umbra_options options)
{
    struct umbra_runtime *runtime = NULL;
    int error = umbra_runtime_create(&options, &runtime);

    if (error == 0)
        umbra_runtime_destroy(runtime);
    else
        cr_assert_null(runtime, "untouched on failure");
    return error;
}

Test(core, wrong_options_are_told)
{
    cr_assert_eq(create((struct umbra_options){.cores = 100000}), -ENOSPC);
    cr_assert_eq(create((struct umbra_options){.cores = 100000, .oversubscribe = true}), -ENOSPC);
    cr_assert_eq(create((struct umbra_options){.cpus = "0-"}), -EINVAL);
    cr_assert_eq(create((struct umbra_options){.cpus = "0", .cores = 2}), -EINVAL);
    cr_assert_eq(create((struct umbra_options){.cpus = "1023"}), -ENODEV);
    cr_assert_eq(create((struct umbra_options){.stack_bytes = 1}), -EINVAL);
    cr_assert_eq(create((struct umbra_options){.dump_signal = 1000}), -EINVAL);
    cr_assert_eq(create((struct umbra_options){.wait.backend = "none"}), -EINVAL);
    cr_assert_eq(create((struct umbra_options){.cores = 1}), 0, "and all is well after");
}

Test(core, a_described_machine_gets_the_cores_it_describes)
{
    struct umbra_topology_options machine = {.synthetic = "pack:2 core:2 pu:2"};
    struct umbra_options options = {.quiet = true};
    struct umbra_runtime *runtime;

    cr_assert_eq(umbra_topology_create(&machine, &options.topology), 0);
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_runtime_cores(runtime), 4);
    cr_assert_eq(umbra_core_cpu(runtime, 1), 2);
    cr_assert_eq(umbra_core_cpu(runtime, 4), -EINVAL);
    cr_assert_eq(umbra_core_state(runtime, 4), -EINVAL);
    umbra_runtime_destroy(runtime);
    options.hardware_threads = true;
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_runtime_cores(runtime), 8);
    cr_assert_eq(umbra_core_cpu(runtime, 1), 1);
    umbra_runtime_destroy(runtime);
    options.hardware_threads = false;
    options.cpus = "1,3,5";
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_runtime_cores(runtime), 3);
    cr_assert_eq(umbra_core_cpu(runtime, 2), 5);
    umbra_runtime_destroy(runtime);
    umbra_topology_destroy(options.topology);
}

static void *inside(void *arg)
{
    struct umbra_runtime *self = umbra_runtime_self();

    cr_expect_not_null(self);
    cr_expect_eq(umbra_runtime_wait(self), -EPERM);
    cr_expect_eq(umbra_runtime_destroy(self), -EPERM);
    cr_expect_eq(umbra_run(NULL, nothing, NULL), -EPERM);
    cr_expect_eq(umbra_core_state(self, (unsigned)umbra_core_index()), UMBRA_CORE_TASK);
    return arg;
}

Test(core, a_fiber_cannot_wait_for_its_own_runtime)
{
    cr_assert_eq(run_cores(1, inside, NULL), 0);
    cr_assert_null(umbra_runtime_self());
    cr_assert_eq(umbra_runtime_destroy(NULL), 0);
}

Test(core, idle_cores_say_so_and_count_their_waits)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};
    struct umbra_runtime *runtime;
    struct umbra_wait_stats stats;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    while (umbra_core_state(runtime, 0) != UMBRA_CORE_IDLE ||
           umbra_core_state(runtime, 1) != UMBRA_CORE_IDLE)
        umbra_yield();
    cr_assert_eq(umbra_spawn_with(runtime, NULL, nothing, NULL, NULL), 0);
    cr_assert_eq(umbra_runtime_wait(runtime), 0);
    stats = umbra_core_stats(runtime, 0);
    cr_assert_gt(stats.ended[0] + stats.ended[1] + stats.ended[2] + stats.timeouts, 0);
    umbra_runtime_destroy(runtime);
}

static _Atomic int ended;

static void *ends_later(void *arg)
{
    umbra_sleep_ns(2 * MS);
    ended++;
    return arg;
}

static void *spawns_and_leaves(void *arg)
{
    for (int i = 0; i < 10; i++) {
        struct umbra_spawn_options there = on_core((unsigned)i % 2);

        umbra_spawn_with(NULL, &there, ends_later, NULL, NULL);
    }
    return arg;
}

Test(core, run_returns_when_all_fibers_have_ended)
{
    cr_assert_eq(run_cores(2, spawns_and_leaves, NULL), 0);
    cr_assert_eq(ended, 10);
}

Test(core, a_runtime_can_be_waited_for_again)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct umbra_runtime *runtime, *other;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_runtime_create(&options, &other), 0, "two at once");
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(umbra_spawn_with(runtime, NULL, spawns_and_leaves, NULL, NULL), 0);
        cr_assert_eq(umbra_spawn_with(other, NULL, nothing, NULL, NULL), 0);
        cr_assert_eq(umbra_runtime_wait(runtime), 0);
        cr_assert_eq(umbra_runtime_wait(other), 0);
        cr_assert_eq(ended, 10 * (i + 1));
    }
    umbra_runtime_destroy(other);
    umbra_runtime_destroy(runtime);
}

static void *blocks(void *arg)
{
    umbra_event_wait(arg);
    return NULL;
}

struct outside {
    struct umbra_runtime *runtime;
    struct umbra_event *event;
};

/* A thread that holds the runtime until it has signaled. */
static void *outsider(void *arg)
{
    struct outside *outside = arg;

    umbra_sleep_ns(5 * MS);
    umbra_event_signal(outside->event);
    umbra_release(outside->runtime);
    return NULL;
}

Test(core, who_holds_the_runtime_may_still_signal)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct umbra_event event = UMBRA_EVENT_INIT;
    struct umbra_runtime *runtime;
    struct outside outside;
    pthread_t thread;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    outside = (struct outside){runtime, &event};
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(umbra_spawn_with(runtime, NULL, blocks, &event, NULL), 0);
        umbra_hold(runtime);
        cr_assert_eq(pthread_create(&thread, NULL, outsider, &outside), 0);
        cr_assert_eq(umbra_runtime_wait(runtime), 0);
        pthread_join(thread, NULL);
    }
    cr_assert_eq(umbra_spawn_with(runtime, NULL, blocks, &event, NULL), 0);
    cr_assert_eq(umbra_runtime_wait(runtime), -EDEADLK);
    umbra_event_signal(&event); /* the creator holds again */
    cr_assert_eq(umbra_runtime_wait(runtime), 0);
    umbra_runtime_destroy(runtime);
}

static void *leaves_blocked(void *arg)
{
    struct umbra_spawn_options late = {.delay_ns = 3600 * SECOND};

    umbra_spawn(blocks, arg, NULL);
    umbra_spawn_with(NULL, &late, nothing, NULL, NULL);
    umbra_yield();
    ended++;
    return NULL;
}

Test(core, destroy_takes_blocked_and_delayed_fibers_along)
{
    struct umbra_options options = {.cores = 1, .quiet = true};
    struct umbra_event never = UMBRA_EVENT_INIT;
    struct umbra_runtime *runtime;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_spawn_with(runtime, NULL, leaves_blocked, &never, NULL), 0);
    while (!ended)
        umbra_yield();
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

/* ---- many fibers, little memory ---- */

static void *thousands(void *arg)
{
    static struct umbra_fiber fibers[5000];
    struct umbra_event go = UMBRA_EVENT_INIT_MANUAL;

    for (int i = 0; i < 5000; i++)
        cr_expect_eq(umbra_spawn(blocks, &go, &fibers[i]), 0);
    umbra_yield();
    umbra_event_signal(&go);
    for (int i = 0; i < 5000; i++)
        cr_expect_eq(umbra_join(fibers[i], NULL), 0);
    return arg;
}

Test(core, thousands_of_fibers_wait_at_once)
{
    cr_assert_eq(run_cores(1, thousands, NULL), 0);
}

static void *runs_out(void *arg)
{
    struct umbra_event go = UMBRA_EVENT_INIT_MANUAL;
    struct umbra_spawn_options big = {.stack_bytes = (size_t)16 << 20};
    struct rlimit before, tight;
    struct umbra_fiber fiber;
    int spawned = 0, error = 0;

    getrlimit(RLIMIT_AS, &before);
    tight = before;
    tight.rlim_cur = (rlim_t)2 << 30;
    setrlimit(RLIMIT_AS, &tight);
    while (spawned < 1000 && (error = umbra_spawn_with(NULL, &big, blocks, &go, NULL)) == 0)
        spawned++;
    cr_expect_eq(error, -ENOMEM);
    cr_expect_gt(spawned, 0);
    setrlimit(RLIMIT_AS, &before);
    cr_expect_eq(umbra_spawn(nothing, NULL, &fiber), 0, "everything else works");
    cr_expect_eq(umbra_join(fiber, NULL), 0);
    umbra_yield();
    umbra_event_signal(&go);
    return arg;
}

Test(core, no_memory_for_a_stack_is_an_error)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    cr_skip_test("the sanitizer needs address space of its own");
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    cr_skip_test("the sanitizer needs address space of its own");
#endif
#endif
    cr_assert_eq(run_cores(1, runs_out, NULL), 0);
}

/* ---- guards that must be made otherwise ---- */

Test(core, guards_by_protection_serve_as_well)
{
    setenv("UMBRA_GUARD", "protection", 1);
    cr_assert_eq(run_cores(2, thousands, NULL), 0);
    cr_assert_eq(um_guard_kind(), UM_GUARD_PROTECTION);
}

Test(core, without_guards_fibers_run)
{
    setenv("UMBRA_GUARD", "none", 1);
    cr_assert_eq(run_cores(1, thousands, NULL), 0);
}
