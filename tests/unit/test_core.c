/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include "described.h"
#include "fibers.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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
    unsetenv("UMBRA_WAIT"); /* it comes before the option */
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
    cr_assert_eq(core_cpu(runtime, 1), 2);
    cr_assert_eq(core_cpu(runtime, 4), -EINVAL);
    cr_assert_eq(core_state(runtime, 4), -EINVAL);
    umbra_runtime_destroy(runtime);
    options.hardware_threads = true;
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_runtime_cores(runtime), 8);
    cr_assert_eq(core_cpu(runtime, 1), 1);
    umbra_runtime_destroy(runtime);
    options.hardware_threads = false;
    options.cpus = "1,3,5";
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_runtime_cores(runtime), 3);
    cr_assert_eq(umbra_runtime_cores(NULL), 0, "of the caller, which has none");
    cr_assert_eq(umbra_core_info(NULL, 0, NULL), -EINVAL);
    cr_assert_eq(core_cpu(runtime, 2), 5);
    umbra_runtime_destroy(runtime);
    umbra_topology_destroy(options.topology);
}

/* How many cores there are of so many wanted, with a list of processors; or the error. */
static int cores_of_list(struct umbra_topology *topology, unsigned wanted, const char *list)
{
    struct umbra_options options = {
        .topology = topology, .cores = wanted, .cpus = list, .quiet = true};
    struct umbra_runtime *runtime;
    int result = umbra_runtime_create(&options, &runtime);

    if (result == 0) {
        result = (int)umbra_runtime_cores(runtime);
        umbra_runtime_destroy(runtime);
    }
    return result;
}

Test(core, a_list_names_as_many_processors_as_cores_are_wanted)
{
    struct umbra_topology_options machine = {.synthetic = "core:4 pu:1"};
    struct umbra_topology *topology;

    cr_assert_eq(umbra_topology_create(&machine, &topology), 0);
    for (unsigned wanted = 1; wanted <= 5; wanted++) {
        cr_expect_eq(cores_of_list(topology, wanted, "3"), wanted == 1 ? 1 : -EINVAL);
        cr_expect_eq(cores_of_list(topology, wanted, "3,1"), wanted == 2 ? 2 : -EINVAL);
        cr_expect_eq(cores_of_list(topology, wanted, "0-3"), wanted == 4 ? 4 : -EINVAL);
    }
    cr_expect_eq(cores_of_list(topology, 0, "3"), 1);
    cr_expect_eq(cores_of_list(topology, 0, "3,1"), 2);
    cr_expect_eq(cores_of_list(topology, 0, "0-3"), 4);
    umbra_topology_destroy(topology);
}

static void *inside(void *arg)
{
    struct umbra_runtime *self = umbra_runtime_self();

    cr_expect_not_null(self);
    cr_expect_eq(umbra_runtime_wait(self), -EPERM);
    cr_expect_eq(umbra_runtime_run(self, nothing, NULL), -EPERM);
    cr_expect_eq(umbra_runtime_destroy(self), -EPERM);
    cr_expect_eq(umbra_run(NULL, nothing, NULL), -EPERM);
    cr_expect_eq(core_state(self, (unsigned)umbra_core_index()), UMBRA_CORE_TASK);
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
    struct umbra_spawn_options there = on_core(0);
    struct umbra_runtime *runtime;
    uint64_t end = umbra_now_ns() + 20 * SECOND, waits = 0;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    while (waits == 0 && umbra_now_ns() < end) { /* an idle core looks around before it waits */
        struct umbra_core_info core;

        while (core_state(runtime, 0) != UMBRA_CORE_IDLE ||
               core_state(runtime, 1) != UMBRA_CORE_IDLE)
            umbra_yield();
        umbra_sleep_ns(MS);
        cr_assert_eq(umbra_spawn_with(runtime, &there, nothing, NULL, NULL), 0);
        cr_assert_eq(umbra_runtime_wait(runtime), 0);
        umbra_core_info(runtime, 0, &core);
        waits =
            core.waits.ended[0] + core.waits.ended[1] + core.waits.ended[2] + core.waits.timeouts;
    }
    cr_assert_gt(waits, 0);
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
        cr_assert_eq(umbra_spawn_with(other, NULL, nothing, NULL, NULL), 0);
        cr_assert_eq(umbra_runtime_run(runtime, spawns_and_leaves, NULL), 0);
        cr_assert_eq(umbra_runtime_wait(other), 0);
        cr_assert_eq(ended, 10 * (i + 1));
    }
    umbra_runtime_destroy(other);
    umbra_runtime_destroy(runtime);
}

static void *blocks(void *arg)
{
    umbra_event_wait(arg, UMBRA_NEVER);
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
    cr_assert_eq(umbra_runtime_run(runtime, nothing, NULL), -EDEADLK);
    umbra_event_signal(&event); /* the creator holds again */
    cr_assert_eq(umbra_runtime_wait(runtime), 0);
    umbra_runtime_destroy(runtime);
}

static _Atomic bool waiters_end;
static _Atomic int waiters_begun;

static bool never_holds(void *arg)
{
    (void)arg;
    return false;
}

/* Waits again and again, on an event that fibers use: their signals may be left with it. */
static void *waits_outside(void *arg)
{
    while (!waiters_end)
        umbra_event_wait_until(arg, never_holds, NULL, umbra_deadline(6000));
    return NULL;
}

static void *signals_after_yields(void *arg)
{
    static int turn;

    for (int i = turn++ % 7; i > 0; i--)
        umbra_yield();
    umbra_event_signal(arg);
    return NULL;
}

Test(core, who_only_waits_need_not_hold)
{
    struct umbra_options options = {.cores = 1, .quiet = true};
    struct umbra_event event = UMBRA_EVENT_INIT;
    struct umbra_runtime *runtime;
    pthread_t thread[7]; /* more than there are processors: some are preempted at the wrong time */
    uint64_t end = umbra_now_ns() + 20 * SECOND;
    int rounds = 0;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    for (int i = 0; i < 7; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, waits_outside, &event), 0);
    /* 1 to 2 s; a busy machine and a sanitizer make minutes of them: some have to do then */
    for (; rounds < 5000 && (rounds < 100 || umbra_now_ns() < end); rounds++) {
        cr_assert_eq(umbra_spawn_with(runtime, NULL, blocks, &event, NULL), 0);
        cr_assert_eq(umbra_spawn_with(runtime, NULL, signals_after_yields, &event, NULL), 0);
        cr_assert_eq(umbra_runtime_wait(runtime), 0, "round %d", rounds);
    }
    waiters_end = true;
    for (int i = 0; i < 7; i++)
        pthread_join(thread[i], NULL);
    umbra_runtime_destroy(runtime);
}

/* The same; says how many have been through one wait. */
static void *waits_outside_and_says(void *arg)
{
    umbra_event_wait_until(arg, never_holds, NULL, umbra_deadline(1));
    waiters_begun++;
    return waits_outside(arg);
}

static int run_in_child(void)
{
    alarm(20);
    return run_cores(1, nothing, NULL);
}

/* The threads that were in the midst of a call do not exist in the child. */
Test(core, child_process_may_start_a_runtime_of_its_own)
{
    static struct umbra_event event = UMBRA_EVENT_INIT; /* the threads have it even if this fails */
    pthread_t thread[4];

#ifdef UMBRA_UNDER_TSAN
    cr_skip_test("ThreadSanitizer starts no threads after a fork of several");
#endif
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, waits_outside_and_says, &event), 0);
#ifdef UMBRA_UNDER_ASAN /* whose allocator is of no use after a fork in the midst of an allocation */
    while (waiters_begun < 4)
        sched_yield();
#endif
    for (int i = 0; i < 60; i++) {
        pid_t child = fork();
        int status = -1;

        if (child == 0)
            _exit(-run_in_child());
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFEXITED(status), "round %d: status %#x", i, (unsigned)status);
        cr_assert_eq(WEXITSTATUS(status), 0, "round %d: %s", i, strerror(WEXITSTATUS(status)));
    }
    waiters_end = true;
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

/* The release is the last thing a thread does to a runtime, which may be gone right after. */
static void *spawns_and_releases(void *arg)
{
    umbra_spawn_with(arg, NULL, nothing, NULL, NULL);
    umbra_release(arg);
    return NULL;
}

Test(core, may_be_destroyed_when_the_last_holder_has_let_go)
{
    struct umbra_options options = {.cores = 1};

    for (int i = 0; i < 200; i++) {
        struct umbra_runtime *runtime;
        pthread_t thread;

        cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
        umbra_hold(runtime);
        cr_assert_eq(pthread_create(&thread, NULL, spawns_and_releases, runtime), 0);
        cr_assert_eq(umbra_runtime_wait(runtime), 0);
        umbra_runtime_destroy(runtime);
        pthread_join(thread, NULL);
    }
}

/* ---- a core's shadow ---- */

struct errand {
    struct umbra_event asked, answered, done;
};

static void asks_a_fiber(void *arg)
{
    struct errand *errand = arg;

    umbra_sleep_ns(3 * MS); /* long enough for the core to have nothing to do */
    umbra_event_signal(&errand->asked);
    umbra_event_wait(&errand->answered, UMBRA_NEVER);
    umbra_event_signal(&errand->done);
}

static void *answers_the_shadow(void *arg)
{
    struct errand *errand = arg;

    umbra_event_wait(&errand->asked, UMBRA_NEVER);
    umbra_event_signal(&errand->answered);
    return NULL;
}

static void *joins_its_shadow(void *arg)
{
    struct errand errand = {.asked = UMBRA_EVENT_INIT};
    struct umbra_fiber fiber;

    umbra_spawn(answers_the_shadow, &errand, &fiber);
    umbra_yield();
    cr_expect_eq(shadow_fork(own_shadow(), asks_a_fiber, &errand), 0);
    cr_expect_eq(umbra_event_wait(&errand.done, UMBRA_NEVER), 0);
    cr_expect_eq(shadow_join(own_shadow()), 0);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(core, runs_fibers_while_its_shadow_works)
{
    struct umbra_options options = {.cores = 1, .shadows = true, .quiet = true};
    int error = umbra_run(&options, joins_its_shadow, NULL);

    if (error == -ENODEV)
        cr_skip_test("a single hardware thread");
    cr_assert_eq(error, 0);
}

static void works_for_a_moment(void *arg)
{
    uint64_t end = umbra_deadline(5000);

    while (umbra_now_ns() < end)
        umbra_pause();
    *(int *)arg += 1;
}

/* Leaves a shadow at work that is awake. */
static void *leaves_its_shadow_at_work(void *arg)
{
    cr_expect_eq(shadow_fork(own_shadow(), works_for_a_moment, arg), 0);
    cr_expect_eq(shadow_join(own_shadow()), 0);
    cr_expect_eq(shadow_fork(own_shadow(), works_for_a_moment, arg), 0);
    return NULL;
}

static void *joins_its_shadow_only(void *arg)
{
    cr_expect_eq(shadow_join(own_shadow()), 0);
    return arg;
}

/* The core, which sleeps in naps of ten milliseconds while its shadow works, waits for it awake first. */
Test(core, a_run_ends_soon_after_its_shadow)
{
    struct umbra_options options = {.cores = 1, .shadows = true, .quiet = true};
    struct umbra_runtime *runtime;
    int works = 0, rounds = 0, soon = 0;
    uint64_t end;
    int error;

    if (under_valgrind)
        cr_skip_test("Valgrind executes one thread at a time");
    error = umbra_runtime_create(&options, &runtime);
    if (error == -ENODEV)
        cr_skip_test("a single hardware thread");
    cr_assert_eq(error, 0);
    end =
        umbra_now_ns() + 20 * SECOND; /* others may have the shadow's processor for some of them */
    for (; soon < 20 && umbra_now_ns() < end; rounds++) {
        uint64_t begun = umbra_now_ns();

        cr_assert_eq(umbra_runtime_run(runtime, leaves_its_shadow_at_work, &works), 0);
        soon += umbra_now_ns() - begun < SECOND / 200;
        cr_assert_eq(umbra_runtime_run(runtime, joins_its_shadow_only, NULL), 0);
    }
    cr_expect_eq(works, 2 * rounds);
    cr_expect_eq(soon, 20, "of %d rounds: %d", rounds, soon);
    umbra_runtime_destroy(runtime);
}

static void *shadow_is_elsewhere(void *arg)
{
    struct umbra_shadow_info info = own_shadow()->info;

    cr_expect_geq(info.shadow_cpu, 2, "beside %d", info.owner_cpu);
    return arg;
}

static void *finds_both_shadows_elsewhere(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber fiber;

    shadow_is_elsewhere(NULL);
    cr_expect_eq(umbra_spawn_with(NULL, &there, shadow_is_elsewhere, NULL, &fiber), 0);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(core, no_shadow_sits_where_another_core_runs)
{
    struct umbra_topology_options four = {.synthetic = "core:4 pu:1"};
    struct umbra_options options = {.cores = 2, .shadows = true, .quiet = true};

    cr_assert_eq(umbra_topology_create(&four, &options.topology), 0);
    for (int round = 0; round < 20; round++)
        cr_assert_eq(umbra_run(&options, finds_both_shadows_elsewhere, NULL), 0);
    options.cores = 3;
    cr_assert_eq(umbra_run(&options, nothing, NULL), -ENOSPC, "no place for a third");
    umbra_topology_destroy(options.topology);
}

static void *counts_the_cores(void *arg)
{
    *(unsigned *)arg = umbra_runtime_cores(NULL);
    cr_expect_not_null(own_shadow());
    return NULL;
}

/* Unless a number is named: so many that each has a place for its shadow. */
Test(core, there_is_room_for_the_shadows_of_all_cores)
{
    static const struct {
        const char *machine;
        unsigned cores;
    } known[] = {{"core:4 pu:1", 2}, {"core:5 pu:1", 2}, {"core:3 pu:2", 3}, {"core:2 pu:1", 1}};

    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct umbra_topology_options machine = {.synthetic = known[i].machine};
        struct umbra_options options = {.shadows = true, .quiet = true};
        unsigned cores = 0;

        cr_assert_eq(umbra_topology_create(&machine, &options.topology), 0);
        cr_assert_eq(umbra_run(&options, counts_the_cores, &cores), 0, "%s", known[i].machine);
        cr_expect_eq(cores, known[i].cores, "%s: %u", known[i].machine, cores);
        umbra_topology_destroy(options.topology);
    }
}

/* As under taskset with one hardware thread of each core. */
Test(core, each_core_with_one_hardware_thread_allowed_has_a_scheduler)
{
    struct umbra_options options = {.quiet = true};
    struct umbra_runtime *runtime;

    options.topology = described_with("pack:2 l3:1 core:2 pu:2", "0,2,5,7", NULL);
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_runtime_cores(runtime), 4);
    cr_expect_eq(core_cpu(runtime, 0), 0);
    cr_expect_eq(core_cpu(runtime, 1), 2);
    cr_expect_eq(core_cpu(runtime, 2), 5);
    cr_expect_eq(core_cpu(runtime, 3), 7);
    umbra_runtime_destroy(runtime);
    umbra_topology_destroy(options.topology);
}

/* Where the shadow of each core of a runtime is. */
struct shadows_at {
    int cpu[8];
};

static void *tells_shadow(void *arg)
{
    *(int *)arg = own_shadow()->info.shadow_cpu;
    return NULL;
}

static void *tells_shadows(void *arg)
{
    struct shadows_at *at = arg;

    for (unsigned i = 0; i < umbra_runtime_cores(umbra_runtime_self()); i++) {
        struct umbra_spawn_options there = on_core(i);
        struct umbra_fiber fiber;

        cr_expect_eq(umbra_spawn_with(NULL, &there, tells_shadow, &at->cpu[i], &fiber), 0);
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    }
    return NULL;
}

Test(core, shadows_keep_out_of_siblings_that_are_not_allowed)
{
    struct umbra_options options = {.shadows = true, .quiet = true};
    struct shadows_at at;

    options.topology = described_with("pack:2 l3:1 core:2 pu:2", "0,2,5,7", NULL);
    options.cpus = "0,5";
    cr_assert_eq(umbra_run(&options, tells_shadows, &at), 0);
    cr_expect_eq(at.cpu[0], 2, "%d, not the nearest", at.cpu[0]);
    cr_expect_eq(at.cpu[1], 7, "%d, not the nearest", at.cpu[1]);
    umbra_topology_destroy(options.topology);
    options.cpus = NULL;
    options.topology = described_with("pack:2 l3:1 core:2 pu:2", "5", NULL);
    cr_assert_eq(umbra_run(&options, nothing, NULL), -ENODEV, "none is left");
    umbra_topology_destroy(options.topology);
}

/* Four little cores without siblings, then two big ones of two hardware threads. */
Test(core, big_cores_have_their_shadows_on_siblings_and_little_ones_on_little_ones)
{
    struct umbra_options options = {.shadows = true, .quiet = true};
    struct umbra_runtime *runtime;
    struct shadows_at at = {{-1, -1, -1, -1}};

    options.topology = described_with("l3:1 core:6 pu:2", "0,2,4,6,8-11", "0-7");
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_runtime_cores(runtime), 4);
    cr_expect_eq(core_cpu(runtime, 0), 8);
    cr_expect_eq(core_cpu(runtime, 1), 10);
    cr_expect_eq(core_cpu(runtime, 2), 0);
    cr_expect_eq(core_cpu(runtime, 3), 2);
    cr_assert_eq(umbra_runtime_run(runtime, tells_shadows, &at), 0);
    cr_expect_eq(at.cpu[0], 9);
    cr_expect_eq(at.cpu[1], 11);
    cr_expect_eq(at.cpu[2] + at.cpu[3], 4 + 6, "%d and %d", at.cpu[2], at.cpu[3]);
    umbra_runtime_destroy(runtime);
    umbra_topology_destroy(options.topology);
}

/* ---- unbound ---- */

static cpu_set_t allowed; /* to the thread that starts the runtime */

/* True if the calling thread may use these processors and no others. */
static bool may_use(const cpu_set_t *set)
{
    cpu_set_t own;

    return sched_getaffinity(0, sizeof(own), &own) == 0 && CPU_EQUAL(&own, set);
}

/* True if the calling fiber's core is bound to its processor. */
static bool core_is_bound(void)
{
    int cpu = core_cpu(umbra_runtime_self(), (unsigned)umbra_core_index());
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return may_use(&one);
}

static void *inherits_all(void *arg)
{
    *(int *)arg += may_use(&allowed);
    return NULL;
}

static void makes_a_thread(void *arg)
{
    pthread_t thread;

    *(int *)arg += may_use(&allowed);
    cr_expect_eq(pthread_create(&thread, NULL, inherits_all, arg), 0);
    cr_expect_eq(pthread_join(thread, NULL), 0);
}

static void calls_again(void *arg)
{
    cr_expect_eq(umbra_core_unbound(makes_a_thread, arg), 0);
    *(int *)arg += may_use(&allowed);
}

static void *calls_unbound(void *arg)
{
    cr_expect(core_is_bound());
    cr_expect_eq(umbra_core_unbound(calls_again, arg), 0);
    cr_expect(core_is_bound());
    return NULL;
}

Test(core, unbound_functions_and_their_threads_may_use_all_processors)
{
    int all = 0;

    cr_assert_eq(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    cr_assert_eq(run_cores(2, calls_unbound, &all), 0);
    cr_assert_eq(all, 3);
}

static void yields_unbound(void *arg)
{
    for (int i = 0; i < *(int *)arg; i++) {
        umbra_yield();
        cr_expect(may_use(&allowed));
    }
}

static void *yields_unbound_once(void *arg)
{
    cr_expect_eq(umbra_core_unbound(yields_unbound, arg), 0);
    return NULL;
}

static void *interleaves_unbound(void *arg)
{
    int turns[] = {3, 9, 6};
    struct umbra_fiber fiber[3];

    for (int i = 0; i < 3; i++)
        cr_expect_eq(umbra_spawn(yields_unbound_once, &turns[i], &fiber[i]), 0);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    cr_expect(core_is_bound());
    return arg;
}

Test(core, is_bound_again_when_the_last_of_several_unbound_functions_returns)
{
    cr_assert_eq(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    cr_assert_eq(run_cores(1, interleaves_unbound, NULL), 0);
}

Test(core, unbound_functions_are_for_fibers_and_change_nothing_on_a_described_machine)
{
    struct umbra_topology_options machine = {.synthetic = "core:4 pu:1"};
    struct umbra_options options = {.quiet = true};
    int all = 0;

    cr_assert_eq(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    cr_assert_eq(umbra_core_unbound(makes_a_thread, &all), -EPERM);
    cr_assert_eq(all, 0, "not called");
    cr_assert_eq(umbra_topology_create(&machine, &options.topology), 0);
    cr_assert_eq(umbra_run(&options, yields_unbound_once, &(int){1}), 0);
    umbra_topology_destroy(options.topology);
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

static void *blocks_deep_down(void *arg)
{
    volatile char between[3][200]; /* AddressSanitizer marks what is beside them */

    for (int i = 0; i < 3; i++)
        memset((char *)between[i], i, sizeof(between[i]));
    umbra_event_wait(arg, UMBRA_NEVER);
    return between[1][0] ? arg : NULL;
}

static void *uses_its_stack(void *arg)
{
    volatile char whole[20000];

    memset((char *)whole, 1, sizeof(whole));
    return whole[100] ? arg : NULL;
}

/* What fibers that never returned leave in their memory is nobody's business in the next runtime. */
Test(core, may_have_fibers_where_those_of_another_stood)
{
    struct umbra_event never = UMBRA_EVENT_INIT;
    struct umbra_options options = {.cores = 1, .quiet = true};

    for (int i = 0; i < 10; i++) {
        struct umbra_runtime *runtime;
        umbra_fiber_fn *fn = i % 2 ? uses_its_stack : blocks_deep_down;

        never = (struct umbra_event)UMBRA_EVENT_INIT;
        cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
        for (int f = 0; f < 40; f++)
            cr_assert_eq(umbra_spawn_with(runtime, NULL, fn, &never, NULL), 0);
        cr_assert_eq(umbra_runtime_wait(runtime), i % 2 ? 0 : -EDEADLK);
        umbra_runtime_destroy(runtime);
    }
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
        cr_expect_eq(umbra_join(fibers[i], UMBRA_NEVER, NULL), 0);
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
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
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

/* ---- memory is used again ---- */

/* The different fibers that have run, up to a limit that none of the tests below should reach. */
#define BLOCKS 24

static _Atomic(struct um_fiber *) lives[BLOCKS];
static _Atomic int used_blocks;
static _Atomic int times;

/* Whether the caller is a fiber not seen before; counted once the table is full. */
static void note_block(struct um_fiber *block)
{
    for (int i = 0; i < BLOCKS; i++) {
        struct um_fiber *seen = lives[i];

        if (!seen && atomic_compare_exchange_strong(&lives[i], &seen, block))
            used_blocks++;
        if (!seen || seen == block)
            return;
    }
    used_blocks++;
}

static void *notes_its_block(void *arg)
{
    note_block(umbra_self().block);
    times++;
    return arg;
}

static void wait_for_times(int count)
{
    while (times < count)
        umbra_yield();
}

static void *joins_it(void *arg)
{
    return (void *)(intptr_t)umbra_join(*(struct umbra_fiber *)arg, UMBRA_NEVER, NULL);
}

enum how { DETACHED, JOINED_LATE, JOINED_EARLY, JOINED_BY_ANOTHER };

/* Spawns and ends one fiber; from a fiber (runtime NULL) or from outside. */
static void spawn_and_end(struct umbra_runtime *runtime, const struct umbra_spawn_options *where,
                          enum how how, int round)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber fiber, joiner;
    void *result = (void *)1;

    cr_expect_eq(
        umbra_spawn_with(runtime, where, notes_its_block, NULL, how == DETACHED ? NULL : &fiber),
        0);
    if (how == DETACHED) {
        wait_for_times(round + 1);
        return;
    }
    while (how == JOINED_LATE && umbra_fiber_info(fiber, NULL) != UMBRA_FIBER_TERMINATED)
        umbra_yield();
    if (how == JOINED_BY_ANOTHER) {
        cr_expect_eq(umbra_spawn_with(runtime, &there, joins_it, &fiber, &joiner), 0);
        cr_expect_eq(umbra_join(joiner, UMBRA_NEVER, &result), 0);
        cr_expect_eq((intptr_t)result, 0);
    } else {
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    }
}

static const enum umbra_where everywhere[] = {UMBRA_HERE, UMBRA_ANYWHERE, UMBRA_ON_CORE};

static void use_again(struct umbra_runtime *runtime)
{
    for (unsigned w = 0; w < 3; w++)
        for (enum how how = DETACHED; how <= JOINED_BY_ANOTHER; how++) {
            struct umbra_spawn_options where = {.where = everywhere[w], .core = 1};

            times = used_blocks = 0;
            memset((void *)lives, 0, sizeof(lives));
            for (int i = 0; i < 200; i++)
                spawn_and_end(runtime, &where, how, i);
            cr_expect_lt(used_blocks, BLOCKS, "where %u, how %d", w, (int)how);
        }
}

static void *uses_again(void *arg)
{
    use_again(NULL);
    return arg;
}

Test(core, fibers_spawned_by_fibers_use_the_same_memory)
{
    cr_assert_eq(run_cores(2, uses_again, NULL), 0);
}

Test(core, fibers_spawned_from_outside_use_the_same_memory)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct umbra_runtime *runtime;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    use_again(runtime);
    cr_assert_eq(umbra_runtime_wait(runtime), 0);
    umbra_runtime_destroy(runtime);
}

static _Atomic int at_work;
static _Atomic int let_go;

static void *keeps_its_core(void *arg)
{
    at_work = 1;
    while (!let_go)
        sched_yield();
    return arg;
}

/* What one core always makes, and another always ends. */
Test(core, memory_goes_back_to_where_it_came_from)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct umbra_spawn_options there = on_core(1);
    struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};
    struct umbra_runtime *runtime;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_spawn_with(runtime, &there, keeps_its_core, NULL, NULL), 0);
    while (!at_work)
        umbra_yield();
    for (int i = 0; i < 200; i++)
        spawn_and_end(runtime, &anywhere, DETACHED, i);
    cr_expect_lt(used_blocks, BLOCKS);
    let_go = 1;
    cr_assert_eq(umbra_runtime_wait(runtime), 0);
    umbra_runtime_destroy(runtime);
}

static void *spawns_but_keeps_its_core(void *arg)
{
    struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};

    for (int i = 0; i < 200; i++) {
        cr_expect_eq(umbra_spawn_with(NULL, &anywhere, notes_its_block, NULL, NULL), 0);
        while (times <= i)
            sched_yield();
    }
    cr_expect_lt(used_blocks, BLOCKS);
    return arg;
}

Test(core, memory_of_fibers_that_others_take_comes_back)
{
    cr_assert_eq(run_cores(2, spawns_but_keeps_its_core, NULL), 0);
}

/*
 * A fiber ends while a thread waits to join it, and its core is held up before it has left the
 * fiber's stack: the first of many messages was the thread's, then a signal handler that sleeps.
 * The thread spawns at once; no other core may run that on a stack that is still in use.
 */
#define MESSAGES 1000

struct hold_up {
    struct umbra_runtime *runtime;
    struct umbra_fiber fiber;
    pthread_t core;
    _Atomic int started;
    _Atomic int go;
    void *block;
};

static const struct umbra_spawn_options larger = {.where = UMBRA_ANYWHERE,
                                                  .stack_bytes = (size_t)2 * UMBRA_STACK_BYTES};

static void sleeps_in_handler(int number)
{
    struct timespec time = {.tv_nsec = 20 * (long)MS};

    (void)number;
    nanosleep(&time, NULL);
}

static void *ends_when_told(void *arg)
{
    struct hold_up *hold_up = arg;

    hold_up->core = pthread_self();
    hold_up->block = umbra_self().block;
    hold_up->started = 1;
    while (!hold_up->go)
        sched_yield();
    return arg;
}

static void *joins_and_spawns(void *arg)
{
    struct hold_up *hold_up = arg;
    struct umbra_fiber next;
    void *result = NULL;

    cr_expect_eq(umbra_join(hold_up->fiber, UMBRA_NEVER, &result), 0);
    cr_expect_eq(result, hold_up);
    pthread_kill(hold_up->core, SIGUSR1);
    cr_expect_eq(umbra_spawn_with(hold_up->runtime, &larger, nothing, arg, &next), 0);
    cr_expect_eq(umbra_join(next, UMBRA_NEVER, &result), 0);
    cr_expect_eq(result, arg);
    return NULL;
}

static void send_messages(const struct hold_up *hold_up, const struct umbra_fiber *delayed)
{
    const struct umbra_core *core = hold_up->runtime->core[0];

    while (!um_atomic_load(&core->inbox, relaxed)) /* the thread's request comes first */
        umbra_yield();
    for (int i = 0; i < MESSAGES; i++)
        cr_expect_eq(umbra_continue(delayed[i]), 0);
}

Test(core, a_stack_is_not_used_again_before_it_was_left)
{
    static struct umbra_fiber delayed[MESSAGES];
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .delay_ns = 3600 * SECOND};
    struct umbra_spawn_options first = {.where = UMBRA_ON_CORE, .stack_bytes = larger.stack_bytes};
    struct hold_up hold_up = {.go = 0};
    pthread_t thread;

    signal(SIGUSR1, sleeps_in_handler);
    cr_assert_eq(umbra_runtime_create(&options, &hold_up.runtime), 0);
    for (int i = 0; i < MESSAGES; i++)
        cr_assert_eq(umbra_spawn_with(hold_up.runtime, &there, nothing, NULL, &delayed[i]), 0);
    cr_assert_eq(
        umbra_spawn_with(hold_up.runtime, &first, ends_when_told, &hold_up, &hold_up.fiber), 0);
    while (!hold_up.started)
        umbra_yield();
    cr_assert_eq(pthread_create(&thread, NULL, joins_and_spawns, &hold_up), 0);
    send_messages(&hold_up, delayed);
    hold_up.go = 1;
    pthread_join(thread, NULL);
    umbra_runtime_destroy(hold_up.runtime);
}

/* ---- several threads wait for one runtime ---- */

static struct umbra_runtime *waited_for;
static _Atomic int stop_waiting;

static void *keeps_waiting(void *arg)
{
    while (!stop_waiting)
        cr_expect_eq(umbra_runtime_wait(waited_for), 0);
    return arg;
}

static void *works_a_little(void *arg)
{
    umbra_sleep_ns(MS / 10);
    *(_Atomic int *)arg = 1;
    return NULL;
}

Test(core, each_wait_sees_what_was_spawned_before_it)
{
    struct umbra_options options = {.cores = 1, .quiet = true};
    pthread_t thread;

    cr_assert_eq(umbra_runtime_create(&options, &waited_for), 0);
    cr_assert_eq(pthread_create(&thread, NULL, keeps_waiting, NULL), 0);
    for (int i = 0; i < 300; i++) {
        _Atomic int worked = 0;

        umbra_hold(waited_for);
        cr_assert_eq(umbra_spawn_with(waited_for, NULL, works_a_little, (void *)&worked, NULL), 0);
        umbra_release(waited_for);
        cr_assert_eq(umbra_runtime_wait(waited_for), 0);
        cr_assert_eq(worked, 1, "round %d", i);
    }
    stop_waiting = 1;
    pthread_join(thread, NULL);
    umbra_runtime_destroy(waited_for);
}

/* ---- guards that must be made otherwise ---- */

Test(core, guards_by_protection_serve_as_well)
{
#ifdef UMBRA_POSIX_ONLY
    cr_skip_test("no guards in the POSIX form");
#endif
    setenv("UMBRA_GUARD", "protection", 1);
    cr_assert_eq(run_cores(2, thousands, NULL), 0);
    cr_assert_eq(um_guard_kind(), UM_GUARD_PROTECTION);
}

Test(core, without_guards_fibers_run)
{
    setenv("UMBRA_GUARD", "none", 1);
    cr_assert_eq(run_cores(1, thousands, NULL), 0);
}

static void *yields_a_while(void *unused)
{
    uint64_t end = umbra_deadline(30000000);

    while (umbra_now_ns() < end)
        umbra_yield();
    return unused;
}

/* The fiber attends to the message that tells its core to stop; then it ends, and is watched. */
Test(core, a_destroy_ends_although_a_fiber_took_its_message, .timeout = 30)
{
    struct umbra_options options = {.cores = 1};
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE};
    struct umbra_runtime *runtime;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_spawn_with(runtime, &there, yields_a_while, NULL, NULL), 0);
    umbra_sleep_ns(10000000);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

/* ---- one release too many ---- */

/* A place where a caller releases once too often, while a fiber works. */
struct surplus {
    struct umbra_runtime *runtime;
    _Atomic int works, released;
};

static void release_twice(struct surplus *surplus)
{
    for (int i = 0; i < 2; i++)
        umbra_release(surplus->runtime);
    surplus->released = 1;
}

static void *releases_when_it_works(void *arg)
{
    struct surplus *surplus = arg;

    while (!surplus->works)
        sched_yield();
    release_twice(surplus);
    return NULL;
}

static void works_until_released(void *arg)
{
    struct surplus *surplus = arg;

    surplus->works = 1;
    while (!surplus->released)
        sched_yield();
    usleep(20000); /* not to synchronise: so long a wrong verdict has time to be given */
}

static void *works(void *arg)
{
    works_until_released(arg);
    return NULL;
}

static void *calls(void *arg)
{
    cr_expect_eq(umbra_blocking(works_until_released, arg), 0);
    return NULL;
}

static void *releases_itself(void *arg)
{
    release_twice(arg);
    umbra_sleep_ns(MS);
    return works(arg);
}

static const struct surplus_row {
    const char *name;
    umbra_fiber_fn *fiber;
    bool before, outside; /* where the releases are: before the wait, in a thread meanwhile, or in
                             the fiber */
    int holds;            /* that are left when they begin */
} surplus_rows[] = {
    {"before the wait", works, true, false, 0},    {"before it, a hold", works, true, false, 1},
    {"while a fiber runs", works, false, true, 0}, {"then, a hold", works, false, true, 1},
    {"during a call", calls, false, true, 0},      {"in a fiber", releases_itself, false, false, 0},
};

static int run_surplus(const struct surplus_row *row)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct surplus surplus = {.works = 0};
    pthread_t thread;
    int error;

    cr_assert_eq(umbra_runtime_create(&options, &surplus.runtime), 0);
    for (int i = 0; i < row->holds; i++)
        umbra_hold(surplus.runtime);
    if (row->before)
        release_twice(&surplus);
    cr_assert_eq(umbra_spawn_with(surplus.runtime, NULL, row->fiber, &surplus, NULL), 0);
    if (row->outside)
        cr_assert_eq(pthread_create(&thread, NULL, releases_when_it_works, &surplus), 0);
    error = umbra_runtime_wait(surplus.runtime);
    if (row->outside)
        pthread_join(thread, NULL);
    if (error == 0)
        error = umbra_runtime_run(surplus.runtime, nothing, NULL); /* and is of use afterwards */
    cr_assert_eq(umbra_runtime_destroy(surplus.runtime), 0);
    return error;
}

Test(core, a_release_without_a_hold_does_nothing, .timeout = 30)
{
    for (size_t i = 0; i < sizeof(surplus_rows) / sizeof(surplus_rows[0]); i++) {
        int error = run_surplus(&surplus_rows[i]);

        cr_expect_eq(error, 0, "%s: %d", surplus_rows[i].name, error);
    }
}
