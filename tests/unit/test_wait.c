/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include <runner.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <umbra/wait.h>

#define MS 1000000u
#define SECOND 1000000000u
/* A yield stores 1 here, as the thread that gets the processor might; NULL: not in this test. */
static _Atomic uint32_t *set_by_yield;
static uint64_t yield_ns; /* so long another thread keeps the processor; 0: as it comes */
static atomic_uint yields;

int __real_sched_yield(void);
int __wrap_sched_yield(void)
{
    uint64_t begun = umbra_now_ns();

    yields++;
    if (set_by_yield)
        atomic_store(set_by_yield, 1);
    while (umbra_now_ns() - begun < yield_ns)
        ;
    return __real_sched_yield();
}

#define ROUNDS 50 /* until one is not disturbed: a thread may lose its processor anywhere */

/* One waiter, a word on its own line, and what the partner thread shall do. */
struct scene {
    struct umbra_wait_policy policy;
    struct umbra_waiter waiter;
    UM_ALIGNED(UMBRA_CACHE_LINE) _Atomic uint32_t word;
    UM_ALIGNED(UMBRA_CACHE_LINE) _Atomic uint64_t wide;
    UM_ALIGNED(UMBRA_CACHE_LINE) uint64_t payload; /* written before the signal, read after */
    _Atomic uint64_t robbed;                       /* of the policy, if it yields */
    _Atomic uint32_t wakes;                        /* signals that made a system call */
    pthread_t main_thread;
};

static void scene_init(struct scene *s, struct umbra_wait_options options)
{
    memset(s, 0, sizeof(*s));
    s->main_thread = pthread_self();
    cr_assert_eq(umbra_wait_policy_init(&s->policy, &options), 0);
    s->waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(&s->policy);
}

static pthread_t start(void *(*fn)(void *), void *arg)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, fn, arg), 0);
    return thread;
}

static bool is_parked(struct scene *s)
{
    return atomic_load(&s->waiter.park.parked) == 1;
}

static void until_parked(struct scene *s)
{
    while (!is_parked(s))
        sched_yield();
}

static uint64_t ns_of(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static uint64_t thread_cpu_ns(void)
{
    return ns_of(CLOCK_THREAD_CPUTIME_ID);
}

static uint64_t process_cpu_ns(void)
{
    return ns_of(CLOCK_PROCESS_CPUTIME_ID);
}

/* ---- partners ---- */

static void *signal_now(void *arg)
{
    struct scene *s = arg;

    s->payload = 42;
    umbra_signal(&s->word, 1, &s->waiter);
    return NULL;
}

static void *signal_when_parked(void *arg)
{
    struct scene *s = arg;

    until_parked(s);
    return signal_now(arg);
}

static void *signal_wide_when_parked(void *arg)
{
    struct scene *s = arg;

    until_parked(s);
    umbra_signal(&s->wide, UINT64_C(1) << 40, &s->waiter); /* the low half stays as it was */
    return NULL;
}

static void *wake_in_vain_then_signal(void *arg)
{
    struct scene *s = arg;

    for (int i = 0; i < 100; i++) {
        until_parked(s);
        if (umbra_wake(&s->waiter)) /* a signaller late for an earlier wait */
            atomic_fetch_add(&s->wakes, 1);
        um_os_futex_wake(&s->waiter.park.parked); /* what the kernel may do on its own */
    }
    return signal_when_parked(arg);
}

static void *interrupt_then_signal(void *arg)
{
    struct scene *s = arg;

    for (int i = 0; i < 50; i++) {
        until_parked(s);
        pthread_kill(s->main_thread, SIGUSR1);
    }
    return signal_when_parked(arg);
}

static void *signal_after_10_ms(void *arg)
{
    struct timespec ten = {0, 10 * MS};

    nanosleep(&ten, NULL);
    return signal_now(arg);
}

static int wait_for_one(struct scene *s, uint64_t deadline)
{
    return umbra_wait_while_equal(&s->waiter, &s->word, 0, UINT32_MAX, deadline);
}

/* ---- policies ---- */

Test(wait_policy, default_spins_then_monitors_then_parks)
{
    struct umbra_wait_policy policy;

    unsetenv("UMBRA_WAIT");
    cr_assert_eq(umbra_wait_policy_init(&policy, NULL), 0);
    cr_assert_eq(policy.spin_cycles, um_ns_to_cycles(UMBRA_SPIN_NS));
    cr_assert_geq(policy.block_cycles, um_ns_to_cycles(5000));
    cr_assert_leq(policy.block_cycles, um_ns_to_cycles(200000));
    cr_assert_eq(policy.backend, um_wait_report()->chosen);
    cr_assert_gt(policy.slice_cycles, 0);
}

Test(wait_policy, unknown_environment_is_an_error_and_changes_nothing)
{
    struct umbra_wait_policy policy, before;

    memset(&policy, 0x5a, sizeof(policy));
    before = policy;
    setenv("UMBRA_WAIT", "mwaitz", 1);
    cr_assert_eq(umbra_wait_policy_init(&policy, NULL), -EINVAL);
    cr_assert_arr_eq(&policy, &before, sizeof(policy));
}

Test(wait_policy, environment_overrules_options)
{
    struct umbra_wait_options options = {.backend = "no-such"};
    struct umbra_wait_policy policy;

    setenv("UMBRA_WAIT", "pause", 1);
    cr_assert_eq(umbra_wait_policy_init(&policy, &options), 0);
    cr_assert_eq(policy.backend, UMBRA_BACKEND_PAUSE);
}

Test(wait_policy, backend_that_cannot_execute_is_refused)
{
    const struct um_wait_report *report = um_wait_report();

    unsetenv("UMBRA_WAIT");
    for (int i = 0; i < UMBRA_BACKEND_COUNT; i++) {
        struct umbra_wait_options options = {.backend = report->backend[i].name};
        struct umbra_wait_policy policy;
        int expected = report->backend[i].executes ? 0 : -EOPNOTSUPP;

        cr_assert_eq(umbra_wait_policy_init(&policy, &options), expected, "%s", options.backend);
    }
}

Test(wait_policy, unknown_backend_and_mode_are_errors)
{
    struct umbra_wait_options backend = {.backend = "hlt"};
    struct umbra_wait_options mode = {.mode = (enum umbra_wait_mode)99};
    struct umbra_wait_policy policy;

    unsetenv("UMBRA_WAIT");
    cr_assert_eq(umbra_wait_policy_init(&policy, &backend), -EINVAL);
    cr_assert_eq(umbra_wait_policy_init(&policy, &mode), -EINVAL);
}

Test(wait_policy, given_thresholds_are_taken_as_cycles)
{
    struct umbra_wait_options options = {.spin_cycles = 123456, .block_cycles = 7890123};
    struct umbra_wait_policy policy;

    cr_assert_eq(umbra_wait_policy_init(&policy, &options), 0);
    cr_assert_eq(policy.spin_cycles, 123456);
    cr_assert_eq(policy.block_cycles, 7890123);
}

Test(wait_policy, no_batch_of_polls_is_longer_than_the_spin_phase)
{
    for (uint64_t cycles = 1; cycles <= 1000000; cycles *= 10) {
        struct umbra_wait_options options = {.spin_cycles = cycles, .block_cycles = 7890123};
        struct umbra_wait_policy policy;

        cr_assert_eq(umbra_wait_policy_init(&policy, &options), 0);
        cr_assert_geq(policy.batch, 1);
        if (policy.spin_cycles == 0)
            cr_assert_lt(cycles, 2 * (uint64_t)policy.poll_cycles);
        else
            cr_assert_leq((uint64_t)policy.batch * policy.poll_cycles, cycles);
    }
}

/* ---- a trial in a child process ---- */

static _Atomic uint32_t *ran_there; /* shared with child processes */

/* As one that jumps, or unwinds: the program would run on where it is not expected to. */
static void never_returns(int number)
{
    (void)number;
    atomic_fetch_add(ran_there, 1);
    _exit(0);
}

static void raises(void *number)
{
    kill(getpid(), *(int *)number);
}

static void handle_all(void (*handler)(int))
{
    for (int number = 1; number <= 64; number++)
        if (number != SIGKILL && number != SIGSTOP && number != 32 && number != 33)
            signal(number, handler);
}

Test(trial, no_handler_of_the_program_runs_in_it)
{
    static const int ends[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE,  SIGSEGV, SIGSYS,
                               SIGINT, SIGTERM, SIGALRM, SIGHUP, SIGUSR1, SIGPIPE, SIGPROF};
    static const int does_nothing[] = {SIGCHLD, SIGURG, SIGWINCH};
    static const char *const backend[] = {"waitpkg", "monitorx", "mwait",     "wfe",
                                          "wfet",    "zawrs",    "power-wait"};
    sigset_t before, after;

#ifdef UMBRA_POSIX_ONLY
    cr_skip_test("nothing is tried there");
#endif
    if (getenv("LD_PRELOAD") && strstr(getenv("LD_PRELOAD"), "waitpkg_preload"))
        cr_skip_test("SIGILL is the emulator's (tests/instructions)");
    ran_there = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq((void *)ran_there, MAP_FAILED);
    unsetenv("UMBRA_WAIT");
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    handle_all(never_returns);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        cr_expect_eq(um_os_try(raises, (void *)&ends[i]), -EOPNOTSUPP, "signal %d", ends[i]);
    for (size_t i = 0; i < sizeof(does_nothing) / sizeof(does_nothing[0]); i++)
        cr_expect_eq(um_os_try(raises, (void *)&does_nothing[i]), 0, "signal %d", does_nothing[i]);
    for (size_t i = 0; i < sizeof(backend) / sizeof(backend[0]); i++) {
        struct umbra_wait_options options = {.backend = backend[i]};
        struct umbra_wait_policy policy;
        int error = umbra_wait_policy_init(&policy, &options);

        cr_expect(error == 0 || error == -EOPNOTSUPP, "%s: %d", backend[i], error);
    }
    cr_expect_eq(*ran_there, 0);
    cr_expect(signal(SIGTERM, SIG_DFL) == never_returns, "the program's handlers stay");
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    cr_expect_eq(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM), "and its mask");
    handle_all(SIG_DFL);
    munmap((void *)ran_there, 4096);
}

Test(wait_report, chosen_one_is_announced_and_measured_usable)
{
    const struct um_wait_report *report = um_wait_report();
    const struct umbra_backend_report *chosen = &report->backend[report->chosen];

    cr_assert_eq(chosen->verdict, UMBRA_BACKEND_USABLE);
    cr_assert(chosen->announced && chosen->executes && chosen->compiled);
    cr_assert_eq(um_wait_report(), report);
}

Test(wait_report, every_rejection_has_its_reason)
{
    const struct um_wait_report *report = um_wait_report();

    for (int i = 0; i < UMBRA_BACKEND_COUNT; i++) {
        const struct umbra_backend_report *b = &report->backend[i];
        uint64_t expired_ns = um_cycles_to_ns(b->expired_cycles);

        cr_assert_gt(strlen(b->reason), 0, "%s", b->name);
        cr_assert_lt(strlen(b->reason), sizeof(b->reason) - 1, "%s", b->name);
        if (b->verdict == UMBRA_BACKEND_TRAPS) {
            char cost[32];

            cr_assert_gt(expired_ns, UM_PROBE_TRAP_NS, "%s", b->name);
            snprintf(cost, sizeof(cost), "%llu", (unsigned long long)b->expired_cycles);
            cr_assert_not_null(strstr(b->reason, cost), "%s", b->reason);
        }
        if (b->verdict == UMBRA_BACKEND_NOT_COMPILED)
            cr_assert_not(b->compiled, "%s", b->name);
        if (!b->executes)
            cr_assert_eq(b->expired_cycles, 0, "%s", b->name);
    }
}

/* A judge sees figures, not processors, so all verdicts can be shown anywhere. */
Test(wait_report, judged_by_measured_cost)
{
    uint64_t us = um_ns_to_cycles(1000);
    struct umbra_backend_report good = {
        .announced = true, .expired_cycles = us / 5, .idle_cycles = 8 * us};
    struct umbra_backend_report traps = good, nop = good, sleepy = good, hidden = good;

    traps.expired_cycles = 8 * us;
    nop.idle_cycles = us / 5;
    sleepy.idle_cycles = 1000 * us;
    hidden.announced = false;
    cr_assert_eq(um_backend_accept(UMBRA_BACKEND_WAITPKG, &good), UMBRA_BACKEND_USABLE);
    cr_assert_eq(um_backend_accept(UMBRA_BACKEND_WAITPKG, &traps), UMBRA_BACKEND_TRAPS);
    cr_assert_eq(um_backend_accept(UMBRA_BACKEND_WAITPKG, &nop), UMBRA_BACKEND_NO_WAIT);
    cr_assert_eq(um_backend_accept(UMBRA_BACKEND_ZAWRS, &nop), UMBRA_BACKEND_NO_WAIT);
    nop.idle_cycles = us;
    cr_assert_eq(um_backend_accept(UMBRA_BACKEND_ZAWRS, &nop), UMBRA_BACKEND_USABLE);
    cr_assert_eq(um_backend_accept(UMBRA_BACKEND_WAITPKG, &sleepy), UMBRA_BACKEND_OVERSLEEPS);
    cr_assert_eq(um_backend_accept(UMBRA_BACKEND_WAITPKG, &hidden), UMBRA_BACKEND_NOT_ANNOUNCED);
}

/* ---- conditions ---- */

Test(wait, condition_that_holds_returns_at_once_even_past_the_deadline)
{
    struct scene s;

    scene_init(&s, (struct umbra_wait_options){0});
    s.word = 5;
    s.wide = UINT64_C(5) << 32;
    cr_assert_eq(umbra_wait_while_equal(&s.waiter, &s.word, 0, UINT32_MAX, 0), UMBRA_ENDED_SPIN);
    cr_assert_eq(umbra_wait_until_equal(&s.waiter, &s.word, 5, UINT32_MAX, 0), UMBRA_ENDED_SPIN);
    cr_assert_eq(umbra_wait_while_equal(&s.waiter, &s.wide, 0, UINT64_MAX, 0), UMBRA_ENDED_SPIN);
    cr_assert_eq(umbra_wait_until_equal(&s.waiter, &s.wide, UINT64_C(5) << 32, UINT64_MAX, 0),
                 UMBRA_ENDED_SPIN);
    cr_assert_eq(umbra_waiter_stats(&s.waiter).ended[UMBRA_ENDED_SPIN], 4);
}

Test(wait, mask_selects_the_bits_that_count)
{
    struct scene s;

    scene_init(&s, (struct umbra_wait_options){0});
    s.word = 0xf0;
    cr_assert_eq(umbra_wait_while_equal(&s.waiter, &s.word, 0, 0x10, 0), UMBRA_ENDED_SPIN);
    cr_assert_eq(umbra_wait_while_equal(&s.waiter, &s.word, 0, 0x0f, 0), -ETIMEDOUT);
    cr_assert_eq(umbra_wait_until_equal(&s.waiter, &s.word, 0x30, 0x3f, 0), UMBRA_ENDED_SPIN);
    cr_assert_eq(umbra_wait_until_equal(&s.waiter, &s.word, 0x31, 0x3f, 0), -ETIMEDOUT);
}

static const enum umbra_wait_mode all_modes[] = {UMBRA_WAIT_TWO_PHASE, UMBRA_WAIT_SPIN,
                                                 UMBRA_WAIT_MONITOR, UMBRA_WAIT_PARK};

/* Whether it counts the time up to the deadline: not if the waiter comes late. */
static bool wait_of_3_ms_counts_2(enum umbra_wait_mode mode)
{
    struct scene s;
    uint64_t before;

    scene_init(&s, (struct umbra_wait_options){.mode = mode});
    before = umbra_now_ns();
    cr_assert_eq(wait_for_one(&s, umbra_deadline(3 * MS)), -ETIMEDOUT);
    cr_assert_geq(umbra_now_ns() - before, 3 * MS - MS / 10);
    cr_assert_lt(umbra_now_ns() - before, SECOND);
    cr_assert_eq(umbra_waiter_stats(&s.waiter).timeouts, 1);
    return umbra_waiter_stats(&s.waiter).cycles >= um_ns_to_cycles(2 * MS);
}

Test(wait, deadline_ends_a_wait_in_every_mode_and_not_early)
{
    for (size_t i = 0; i < 4; i++) {
        bool counts = false;

        for (int round = 0; round < ROUNDS && !counts; round++)
            counts = wait_of_3_ms_counts_2(all_modes[i]);
        cr_assert(counts);
    }
}

Test(wait, store_ends_a_wait_in_every_mode_with_the_data_before_it)
{
    for (size_t i = 0; i < 4; i++) {
        struct scene s;
        pthread_t partner;

        scene_init(&s, (struct umbra_wait_options){.mode = all_modes[i]});
        partner = start(signal_now, &s);
        cr_assert_geq(wait_for_one(&s, UMBRA_NEVER), 0);
        cr_assert_eq(s.payload, 42);
        pthread_join(partner, NULL);
    }
}

/* ---- how waits end ---- */

Test(wait, parked_waiter_is_woken_and_says_so)
{
    struct scene s;
    pthread_t partner;

    scene_init(&s, (struct umbra_wait_options){0});
    partner = start(signal_when_parked, &s);
    cr_assert_eq(wait_for_one(&s, UMBRA_NEVER), UMBRA_ENDED_PARK);
    pthread_join(partner, NULL);
    cr_assert_not(is_parked(&s));
    cr_assert_eq(umbra_waiter_stats(&s.waiter).ended[UMBRA_ENDED_PARK], 1);
}

static uint64_t long_awake(void)
{
    return um_ns_to_cycles(60 * (uint64_t)SECOND);
}

Test(wait, stays_awake_for_a_time)
{
    struct scene s;
    pthread_t partner;
    uint64_t begun;

    scene_init(&s, (struct umbra_wait_options){.spin_cycles = 1, .block_cycles = 1});
    um_waiter_stay_awake(&s.waiter, um_cycles(), long_awake());
    um_waiter_stay_awake(&s.waiter, um_cycles(), 0); /* less does not change it */
    partner = start(signal_after_10_ms, &s);
    cr_assert(wait_for_one(&s, UMBRA_NEVER) != UMBRA_ENDED_PARK || s.waiter.robbed > 0);
    pthread_join(partner, NULL);

    scene_init(&s, (struct umbra_wait_options){.spin_cycles = 1, .block_cycles = 1});
    begun = um_cycles();
    um_waiter_stay_awake(&s.waiter, begun, um_ns_to_cycles(MS));
    partner = start(signal_when_parked, &s);
    cr_assert_eq(wait_for_one(&s, UMBRA_NEVER), UMBRA_ENDED_PARK);
    cr_assert(um_cycles() - begun >= um_ns_to_cycles(MS) || s.waiter.robbed > 0);
    pthread_join(partner, NULL);
}

/* As after a clock was set back. */
Test(wait, stays_awake_for_a_length_whatever_the_clock_says)
{
    struct scene s;
    pthread_t partner;
    uint64_t begun = um_cycles();

    scene_init(&s, (struct umbra_wait_options){.spin_cycles = 1, .block_cycles = 1});
    um_waiter_stay_awake(&s.waiter, um_cycles() + long_awake(), um_ns_to_cycles(MS));
    partner = start(signal_when_parked, &s);
    cr_assert_eq(wait_for_one(&s, UMBRA_NEVER), UMBRA_ENDED_PARK);
    pthread_join(partner, NULL);
    cr_assert_lt(um_cycles() - begun, long_awake() / 2);
    um_waiter_stay_awake(&s.waiter, um_cycles(), um_ns_to_cycles(MS));
    cr_assert_leq(um_cycles() - s.waiter.awake_since, um_ns_to_cycles(SECOND), "as if anew");
}

/* From now on the calling thread and those that it starts share a processor. */
static void share_a_processor(void)
{
    cpu_set_t here;

    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    cr_assert_eq(sched_setaffinity(0, sizeof(here), &here), 0);
}

static void *uses_the_processor(void *arg)
{
    _Atomic bool *enough = arg;

    while (!*enough)
        umbra_pause();
    return NULL;
}

Test(wait, who_is_robbed_of_the_processor_does_not_stay_awake)
{
    struct scene s;
    _Atomic bool enough = false;
    pthread_t robber;

    scene_init(&s, (struct umbra_wait_options){.spin_cycles = 1, .block_cycles = 1});
    share_a_processor();
    robber = start(uses_the_processor, &enough);
    um_waiter_stay_awake(&s.waiter, um_cycles(), long_awake());
    for (int round = 0; round < ROUNDS && s.waiter.robbed == 0; round++)
        cr_assert_eq(wait_for_one(&s, umbra_deadline(200 * MS)), -ETIMEDOUT);
    enough = true;
    pthread_join(robber, NULL);
    cr_assert_eq(s.waiter.awake_cycles, 0, "it did so to the end");
    um_waiter_stay_awake(&s.waiter, s.waiter.robbed, long_awake());
    cr_assert_eq(s.waiter.awake_cycles, 0, "it does so again");
    s.waiter.robbed -= um_ns_to_cycles(UM_ROBBED_NS);
    um_waiter_stay_awake(&s.waiter, um_cycles(), long_awake());
    cr_assert_eq(s.waiter.awake_cycles, long_awake(), "it never does so again");
}

/* Two that pass a number to each other, awake, on one processor. */
struct pair {
    struct scene side[2];
    _Atomic bool enough;
};

/* Waits awake until a side's word is 1. Whether it did not sleep meanwhile. */
static bool await_awake(struct scene *s)
{
    s->waiter.robbed = 0;
    um_waiter_stay_awake(&s->waiter, um_cycles(), long_awake());
    return wait_for_one(s, UMBRA_NEVER) != UMBRA_ENDED_PARK;
}

static void *passes_it_back(void *arg)
{
    struct pair *pair = arg;

    while (!pair->enough) {
        bool awake = await_awake(&pair->side[1]);

        atomic_store(&pair->side[1].word, 0);
        pair->side[0].payload = awake;
        umbra_signal(&pair->side[0].word, 1, &pair->side[0].waiter);
    }
    return NULL;
}

/* A number there and back. Whether that was quick, and nobody slept. */
static bool passes_quickly(struct pair *pair)
{
    uint64_t begun = umbra_now_ns();
    bool awake;

    umbra_signal(&pair->side[1].word, 1, &pair->side[1].waiter);
    awake = await_awake(&pair->side[0]);
    atomic_store(&pair->side[0].word, 0);
    return awake && pair->side[0].payload && umbra_now_ns() - begun < 300000;
}

/* Else each would have it until the kernel takes it away: for milliseconds, but by chance. */
Test(wait, who_stays_awake_lends_the_processor)
{
    static struct pair pair;
    uint64_t begun = umbra_now_ns(), used = process_cpu_ns();
    int quick = 0;
    pthread_t other;

    for (int i = 0; i < 2; i++)
        scene_init(&pair.side[i], (struct umbra_wait_options){.spin_cycles = 1, .block_cycles = 1});
    share_a_processor();
    other = start(passes_it_back, &pair);
    while (quick < 10 && umbra_now_ns() - begun < 20 * (uint64_t)SECOND) {
        quick = 0;
        for (int i = 0; i < 20; i++)
            quick += passes_quickly(&pair);
    }
    pair.enough = true;
    umbra_signal(&pair.side[1].word, 1, &pair.side[1].waiter);
    pthread_join(other, NULL);
    if (quick < 10 && process_cpu_ns() - used < (umbra_now_ns() - begun) / 10 * 9)
        cr_skip_test("others use the processor all the time");
    cr_assert_geq(quick, 10);
}

Test(wait, stays_awake_no_longer_than_a_deadline)
{
    struct scene s;
    uint64_t begun = um_cycles();

    scene_init(&s, (struct umbra_wait_options){.spin_cycles = 1, .block_cycles = 1});
    um_waiter_stay_awake(&s.waiter, begun, long_awake());
    cr_assert_eq(wait_for_one(&s, umbra_deadline(MS)), -ETIMEDOUT);
    cr_assert_lt(um_cycles() - begun, long_awake() / 2);
}

/* A policy as of a team's members that share a processor. */
static void let_yield(struct scene *s)
{
    s->robbed = 0;
    s->policy.robbed = &s->robbed;
    s->policy.yield_cycles = um_ns_to_cycles(MS);
}

Test(wait, yields_before_it_sleeps_where_its_policy_says_so)
{
    struct scene s;

    scene_init(&s, (struct umbra_wait_options){.spin_cycles = 1, .block_cycles = long_awake()});
    let_yield(&s);
    set_by_yield = &s.word;
    cr_expect_eq(wait_for_one(&s, umbra_deadline(10 * (uint64_t)SECOND)), UMBRA_ENDED_MONITOR);
    set_by_yield = NULL;
}

Test(wait, yields_no_longer_than_until_it_sleeps)
{
    struct scene s;
    pthread_t partner;

    scene_init(&s, (struct umbra_wait_options){.spin_cycles = 1, .block_cycles = 1000});
    let_yield(&s);
    partner = start(signal_when_parked, &s);
    cr_assert_eq(wait_for_one(&s, UMBRA_NEVER), UMBRA_ENDED_PARK);
    pthread_join(partner, NULL);
}

/* Waits until the deadline, 20 ms from now. Returns how often it yielded. */
static unsigned yields_in_20_ms(struct scene *s)
{
    unsigned before = yields;

    cr_assert_eq(wait_for_one(s, umbra_deadline(20 * MS)), -ETIMEDOUT);
    return yields - before;
}

Test(wait, parks_at_once_after_a_yield_that_lasted_a_turn)
{
    struct scene s;

    scene_init(&s, (struct umbra_wait_options){.spin_cycles = 1, .block_cycles = long_awake()});
    let_yield(&s);
    yield_ns = 2 * MS;
    cr_expect_eq(yields_in_20_ms(&s), 1);
    cr_expect_neq(s.robbed, 0);
    s.robbed = um_cycles();
    cr_expect_eq(yields_in_20_ms(&s), 0);
    s.robbed = um_cycles() - um_ns_to_cycles(UM_ROBBED_NS);
    cr_expect_eq(yields_in_20_ms(&s), 1);
}

Test(wait, park_mode_does_not_stay_awake)
{
    struct scene s;
    pthread_t partner;

    scene_init(&s, (struct umbra_wait_options){.mode = UMBRA_WAIT_PARK});
    um_waiter_stay_awake(&s.waiter, um_cycles(), long_awake());
    cr_assert_eq(s.waiter.awake_cycles, 0);
    partner = start(signal_when_parked, &s);
    cr_assert_eq(wait_for_one(&s, UMBRA_NEVER), UMBRA_ENDED_PARK);
    pthread_join(partner, NULL);
}

Test(wait, monitor_mode_never_parks)
{
    int end = UMBRA_ENDED_SPIN;
    struct scene s;

    /* who comes ten milliseconds late finds the signal there */
    for (int round = 0; round < ROUNDS && end == UMBRA_ENDED_SPIN; round++) {
        pthread_t partner;

        scene_init(&s, (struct umbra_wait_options){.mode = UMBRA_WAIT_MONITOR});
        partner = start(signal_after_10_ms, &s);
        end = wait_for_one(&s, UMBRA_NEVER);
        pthread_join(partner, NULL);
    }
    cr_assert_eq(end, UMBRA_ENDED_MONITOR);
    cr_assert_eq(umbra_waiter_stats(&s.waiter).ended[UMBRA_ENDED_MONITOR], 1);
}

/* A wait of one look, whose deadline has passed: what it polled was the first batch. */
static uint64_t polls_of_first_batch(struct scene *s)
{
    cr_assert_eq(wait_for_one(s, 0), -ETIMEDOUT);
    return atomic_load(&s->waiter.count.polls);
}

Test(wait, spin_phase_shorter_than_a_batch_ends_in_time)
{
    struct um_wait_clock clock = {.deadline = UMBRA_NEVER};
    struct scene s;
    struct um_wait_cond over = {&s.word, 1, UINT32_MAX, false, false};

    scene_init(&s, (struct umbra_wait_options){.block_cycles = UMBRA_NEVER});
    s.policy.batch = 3;
    s.policy.spin_cycles = 3 * (uint64_t)s.policy.poll_cycles;
    cr_assert_eq(polls_of_first_batch(&s), 3);
    clock.start = clock.now = um_cycles();
    cr_assert_not(um_wait_spin(&s.waiter, &over, &clock), "looked again after phase 1 was over");
    s.policy.spin_cycles = UMBRA_NEVER;
    cr_assert(um_wait_spin(&s.waiter, &over, &clock), "and looks again while it is not");
}

Test(wait, spin_phase_of_one_cycle_does_not_poll)
{
    struct scene s;

    scene_init(&s, (struct umbra_wait_options){.spin_cycles = 1, .block_cycles = UMBRA_NEVER});
    cr_assert_eq(polls_of_first_batch(&s), 0);
}

/* Whether a wait counts at least half of what it burned: not if the machine stops its last batch,
 * which nobody clocks, or if the signal is there before. */
static bool spin_counts_what_it_burns(void)
{
    struct scene s;
    pthread_t partner;
    uint64_t before_ns, burned_ns;

    scene_init(&s, (struct umbra_wait_options){.mode = UMBRA_WAIT_SPIN});
    partner = start(signal_after_10_ms, &s);
    before_ns = thread_cpu_ns();
    cr_assert_eq(wait_for_one(&s, UMBRA_NEVER), UMBRA_ENDED_SPIN);
    burned_ns = thread_cpu_ns() - before_ns;
    pthread_join(partner, NULL);
    return umbra_waiter_stats(&s.waiter).cycles >= um_ns_to_cycles(burned_ns) / 2;
}

Test(wait, spin_mode_stays_in_its_phase)
{
    bool counts = false;

    for (int round = 0; round < ROUNDS && !counts; round++)
        counts = spin_counts_what_it_burns();
    cr_assert(counts);
}

Test(wait, change_in_the_upper_half_wakes_a_parked_64_bit_waiter)
{
    struct scene s;
    pthread_t partner;

    scene_init(&s, (struct umbra_wait_options){.mode = UMBRA_WAIT_PARK});
    partner = start(signal_wide_when_parked, &s);
    cr_assert_eq(umbra_wait_while_equal(&s.waiter, &s.wide, 0, UINT64_MAX, UMBRA_NEVER),
                 UMBRA_ENDED_PARK);
    pthread_join(partner, NULL);
}

Test(wait, signal_with_nobody_parked_makes_no_system_call)
{
    struct scene s;

    scene_init(&s, (struct umbra_wait_options){0});
    cr_assert_not(umbra_wake(&s.waiter));
    cr_assert_eq(wait_for_one(&s, umbra_deadline(MS)), -ETIMEDOUT);
    cr_assert_not(umbra_wake(&s.waiter));
}

Test(wait, wake_up_without_a_change_is_slept_through)
{
    struct scene s;
    pthread_t partner;

    scene_init(&s, (struct umbra_wait_options){.mode = UMBRA_WAIT_PARK});
    partner = start(wake_in_vain_then_signal, &s);
    cr_assert_eq(wait_for_one(&s, UMBRA_NEVER), UMBRA_ENDED_PARK);
    cr_assert_eq(s.word, 1);
    pthread_join(partner, NULL);
    cr_assert_gt(s.wakes, 0);
}

static _Atomic int handled;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&handled, 1);
}

Test(wait, signal_handler_does_not_end_a_wait)
{
    struct sigaction action = {.sa_handler = count_signal};
    struct scene s;
    pthread_t partner;

    sigaction(SIGUSR1, &action, NULL);
    scene_init(&s, (struct umbra_wait_options){.mode = UMBRA_WAIT_PARK});
    errno = 7;
    partner = start(interrupt_then_signal, &s);
    cr_assert_eq(wait_for_one(&s, UMBRA_NEVER), UMBRA_ENDED_PARK);
    cr_assert_eq(errno, 7, "errno is the caller's");
    pthread_join(partner, NULL);
    cr_assert_gt(handled, 0);
}

Test(wait, waiter_is_reusable_after_a_timeout)
{
    struct scene s;

    scene_init(&s, (struct umbra_wait_options){.mode = UMBRA_WAIT_PARK});
    for (uint32_t round = 0; round < 200; round++) {
        pthread_t partner;

        s.word = 0;
        wait_for_one(&s, umbra_deadline(1000));
        partner = start(signal_when_parked, &s);
        cr_assert_eq(wait_for_one(&s, UMBRA_NEVER), UMBRA_ENDED_PARK);
        pthread_join(partner, NULL);
    }
}

static bool ten_milliseconds_burn_little(void)
{
    uint64_t waited = 0, burned = 0;
    int parked = 0;
    struct scene s;

    scene_init(&s, (struct umbra_wait_options){0});
    for (int round = 0; round < 25; round++) {
        pthread_t partner = start(signal_after_10_ms, &s);
        uint64_t cpu = thread_cpu_ns(), wall = umbra_now_ns();

        parked += wait_for_one(&s, UMBRA_NEVER) == UMBRA_ENDED_PARK;
        burned += thread_cpu_ns() - cpu;
        waited += umbra_now_ns() - wall;
        pthread_join(partner, NULL);
        s.word = 0;
    }
    fprintf(stderr, "burned %.3f %% of the time waited\n", 100.0 * (double)burned / (double)waited);
    /* not all: the machine may stop the waiter for 10 ms */
    return burned * 100 < waited * 2 && parked >= 20;
}

/* Two threads that answer each other at once may both stay awake, which costs 0.1 to 0.2 us: that is
 * not what a wake-up costs, and waits would sleep too soon. */
Test(wait, measured_wake_up_is_one_of_a_sleeping_thread)
{
    uint64_t until = umbra_now_ns() + SECOND / 2, cost = um_wake_ns(), least = cost;

    while (umbra_now_ns() < until) {
        um_wake_measure();
        least = um_machine.wake_ns < least ? um_machine.wake_ns : least;
    }
    um_machine.wake_ns = cost;
    cr_assert_geq(least, 400u);
}

/* What blocking costs is measured again for each attempt: a busy machine makes that long, too. */
Test(wait, ten_milliseconds_burn_less_than_two_percent)
{
    bool little = ten_milliseconds_burn_little();

    for (int attempt = 0; attempt < 10 && !little; attempt++) {
        um_wake_measure();
        little = ten_milliseconds_burn_little();
    }
    cr_assert(little);
}

Test(wait, deadline_saturates)
{
    cr_assert_eq(umbra_deadline(UMBRA_NEVER), UMBRA_NEVER);
    cr_assert_gt(umbra_deadline(SECOND), umbra_now_ns());
    cr_assert_eq(um_deadline_cycles(UMBRA_NEVER), UMBRA_NEVER);
    cr_assert_gt(um_deadline_cycles(UMBRA_NEVER - 1), um_cycles() + um_cycles_hz());
    cr_assert_eq(um_deadline_cycles(0), 0u, "only looks");
    cr_assert_leq(um_deadline_cycles(1), um_cycles(), "has passed");
    cr_assert_gt(um_deadline_cycles(1), 0u);
}
