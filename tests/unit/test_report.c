/* SPDX-License-Identifier: BSL-1.0 */
/* What the library prints: each test reads it from a child process. */
#define _GNU_SOURCE
#include "child.h"
#include "fibers.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- deadlock ---- */

static struct umbra_event never = UMBRA_EVENT_INIT;
static struct umbra_fiber waiter;

static void *waits_for_ever(void *arg)
{
    umbra_event_wait(&never, UMBRA_NEVER);
    return arg;
}

static void *nothing(void *arg)
{
    return arg;
}

static void *joins_for_ever(void *arg)
{
    umbra_join(waiter, UMBRA_NEVER, NULL);
    return arg;
}

static void *stops_for_ever(void *arg)
{
    umbra_transfer(*(struct umbra_fiber *)arg);
    return NULL;
}

static void *locks_up(void *arg)
{
    struct umbra_spawn_options options = on_core(1);
    struct umbra_fiber self = umbra_self();

    options.name = "waiter";
    umbra_spawn_with(NULL, &options, waits_for_ever, NULL, &waiter);
    options = on_core(0);
    options.name = "joiner";
    umbra_spawn_with(NULL, &options, joins_for_ever, NULL, NULL);
    options.name = "stopped";
    umbra_spawn_with(NULL, &options, stops_for_ever, &self, NULL);
    umbra_yield();
    umbra_yield();
    return arg;
}

static int deadlock(void)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};

    return umbra_run(&options, locks_up, NULL) == -EDEADLK ? 3 : 1;
}

#ifndef UMBRA_POSIX_ONLY
/* NULL in a program that is linked statically: it has no dynamic linker that knows names. */
extern const char dynamic_section[] __asm__("_DYNAMIC") __attribute__((weak));
#endif

Test(report, a_deadlock_names_every_fiber_in_it)
{
    struct child child = in_child(deadlock);

    cr_assert(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 3);
    cr_assert(says(&child, "umbra: deadlock"));
    cr_assert(says(&child, "nothing can end these waits (or a thread outside forgot umbra_hold):"));
    cr_assert(says(&child, "fiber \"waiter\""));
    cr_assert(says(&child, "core 1, blocked, waits for event 0x"));
    cr_assert(says(&child, "fiber \"joiner\""));
    cr_assert(says(&child, "core 0, blocked, waits for join of fiber \"waiter\""));
    cr_assert(says(&child, "fiber \"stopped\""));
    cr_assert(says(&child, "core 0, stopped"));
    cr_assert(says(&child, " at "), "where");
#ifndef UMBRA_POSIX_ONLY
    cr_assert(!dynamic_section || says(&child, "+0x"), "by name of what is loaded there");
#endif
    cr_assert(!strstr(child.said, "\"main\""), "it has ended");
}

/* Waits for all that a report can tell something of. */
static struct umbra_semaphore semaphore = UMBRA_SEMAPHORE_INIT(0);
static struct umbra_rwlock read_by_two = UMBRA_RWLOCK_INIT, read_by_one = UMBRA_RWLOCK_INIT,
                           written = UMBRA_RWLOCK_INIT;
static struct umbra_latch latch = UMBRA_LATCH_INIT(3);
static struct umbra_barrier barrier = UMBRA_BARRIER_INIT(4);
static struct umbra_event many[10];

static void handles(struct umbra_message *messages, void *arg)
{
    (void)messages;
    (void)arg;
}

/* Names the fiber of an arbiter, and waits for it. */
static void *waits_for_arbiter(void *arg)
{
    static struct umbra_port nothing_comes = UMBRA_PORT_INIT;
    struct umbra_branch branch = {UMBRA_RECEIVE(&nothing_comes), .handler = handles};
    struct umbra_spawn_options home = {.name = "office"};
    struct umbra_arbiter_options options = {.home = &home};
    struct umbra_arbiter arbiter;

    cr_expect_eq(umbra_arbiter_start(&arbiter, &branch, 1, &options), 0);
    umbra_arbiter_join(&arbiter, UMBRA_NEVER);
    return arg;
}

static void *waits_for_semaphore(void *arg)
{
    if (umbra_semaphore_wait(&semaphore, UMBRA_NEVER) != 0)
        return NULL;
    return arg;
}

static void *writes(void *lock)
{
    umbra_rwlock_write(lock);
    return NULL;
}

static void *reads(void *lock)
{
    umbra_rwlock_read(lock);
    return NULL;
}

static void *waits_for_latch(void *arg)
{
    if (umbra_latch_wait(&latch, UMBRA_NEVER) != 0)
        return NULL;
    return arg;
}

static void *waits_for_barrier(void *arg)
{
    umbra_barrier_wait(&barrier, UMBRA_NEVER);
    return arg;
}

static void *waits_for_any(void *count)
{
    struct umbra_event *events[10];

    for (int i = 0; i < 10; i++)
        events[i] = &many[i];
    umbra_event_wait_any(events, (unsigned)(uintptr_t)count, UMBRA_NEVER, NULL);
    return NULL;
}

static void *waits_for_all_kinds(void *arg)
{
    umbra_rwlock_read(&read_by_two);
    umbra_rwlock_read(&read_by_two);
    umbra_rwlock_read(&read_by_one);
    umbra_rwlock_write(&written);
    umbra_spawn(waits_for_arbiter, NULL, NULL);
    umbra_spawn(waits_for_semaphore, NULL, NULL);
    umbra_spawn(writes, &read_by_two, NULL);
    umbra_spawn(writes, &read_by_one, NULL);
    umbra_spawn(reads, &written, NULL);
    umbra_spawn(waits_for_latch, NULL, NULL);
    umbra_spawn(waits_for_barrier, NULL, NULL);
    umbra_spawn(waits_for_any, (void *)2, NULL);
    umbra_spawn(waits_for_any, (void *)10, NULL);
    return arg;
}

static int deadlock_of_all_kinds(void)
{
    struct umbra_options options = {.cores = 1};

    return umbra_run(&options, waits_for_all_kinds, NULL) == -EDEADLK ? 3 : 1;
}

/* Whether it says "waits for WHAT 0x..., KNOWN,", WHAT being of that address. */
static bool says_of(const struct child *child, const char *what, const void *of, const char *known)
{
    char text[200];

    snprintf(text, sizeof(text), "waits for %s %#" PRIxPTR "%s", what, (uintptr_t)of, known);
    return says(child, text);
}

Test(report, a_deadlock_tells_what_is_known_of_what_is_waited_for)
{
    struct child child = in_child(deadlock_of_all_kinds);
    char two[100];

    cr_assert(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 3);
    cr_assert(says_of(&child, "semaphore", &semaphore, " with count 0, at "));
    cr_assert(says_of(&child, "write lock", &read_by_two, " held by 2 readers, at "));
    cr_assert(says_of(&child, "write lock", &read_by_one, " held by 1 reader, at "));
    cr_assert(says_of(&child, "read lock", &written, " held by a writer, at "));
    cr_assert(says_of(&child, "latch", &latch, " with count 3, at "));
    cr_assert(says_of(&child, "barrier", &barrier, " where 1 of 4 have come, at "));
    cr_assert(says(&child, "waits for any of some events 0x"));
    cr_assert(says(&child, "office"));
    snprintf(two, sizeof(two), " (%#" PRIxPTR " %#" PRIxPTR ") at ", (uintptr_t)&many[0],
             (uintptr_t)&many[1]);
    cr_assert(says(&child, two));
    cr_assert(says(&child, " and 2 more) at "));
}

/* What holds a mutex. */
static struct umbra_mutex of_fiber = UMBRA_MUTEX_INIT, of_ended = UMBRA_MUTEX_INIT,
                          of_unjoined = UMBRA_MUTEX_INIT, of_thread = UMBRA_MUTEX_INIT;

static void *locks(void *mutex)
{
    umbra_mutex_lock(mutex);
    return NULL;
}

static void *holds_for_ever(void *mutex)
{
    umbra_mutex_lock(mutex);
    umbra_event_wait(&never, UMBRA_NEVER);
    return NULL;
}

static void *waits_for_mutexes(void *arg)
{
    struct umbra_spawn_options options = {.name = "holder"};
    struct umbra_fiber fiber;

    umbra_spawn_with(NULL, &options, holds_for_ever, &of_fiber, NULL);
    umbra_spawn(locks, &of_ended, &fiber);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    umbra_spawn(nothing, NULL, NULL); /* the same memory */
    options.name = "not joined";
    umbra_spawn_with(NULL, &options, locks, &of_unjoined, &fiber);
    umbra_yield();
    umbra_spawn(locks, &of_fiber, NULL);
    umbra_spawn(locks, &of_ended, NULL);
    umbra_spawn(locks, &of_unjoined, NULL);
    umbra_spawn(locks, &of_thread, NULL);
    return arg;
}

static int deadlock_of_mutexes(void)
{
    struct umbra_options options = {.cores = 1};

    umbra_mutex_lock(&of_thread);
    return umbra_run(&options, waits_for_mutexes, NULL) == -EDEADLK ? 3 : 1;
}

Test(report, a_deadlock_names_what_holds_a_mutex)
{
    struct child child = in_child(deadlock_of_mutexes);

    cr_assert(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 3);
    cr_assert(says_of(&child, "mutex", &of_fiber, " held by fiber \"holder\" 0x"));
    cr_assert(says(&child, ", core 0, at "));
    cr_assert(says_of(&child, "mutex", &of_ended, " held by a fiber that has ended, at "));
    cr_assert(says_of(&child, "mutex", &of_unjoined, " held by fiber \"not joined\" 0x"));
    cr_assert(says(&child, ", core 0, which has ended, at "));
    cr_assert(says_of(&child, "mutex", &of_thread, " held by thread 0x"));
}

/* So many that they are in more than one block of stacks. */
enum { CROWD = 40 };

static void *is_one_of_many(void *arg)
{
    umbra_mutex_lock(&of_fiber);
    return arg;
}

static void *crowd_waits(void *arg)
{
    struct umbra_spawn_options first = {.name = "holder"}, last = {.name = "the last"};

    umbra_spawn_with(NULL, &first, holds_for_ever, &of_fiber, NULL);
    umbra_yield();
    for (int i = 1; i < CROWD; i++)
        umbra_spawn(is_one_of_many, NULL, NULL);
    umbra_spawn_with(NULL, &last, is_one_of_many, NULL, NULL);
    return arg;
}

static int deadlock_of_many(void)
{
    struct umbra_options options = {.cores = 1};

    return umbra_run(&options, crowd_waits, NULL) == -EDEADLK ? 3 : 1;
}

Test(report, a_deadlock_names_all_fibers_where_there_are_many)
{
    struct child child = in_child(deadlock_of_many);
    unsigned told = 0;

    cr_assert(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 3);
    for (const char *at = child.said; (at = strstr(at, " held by fiber \"holder\" ")); at++)
        told++;
    cr_expect_eq(told, CROWD);
    cr_expect(says(&child, "\"the last\""));
}

static int join_for_ever(void)
{
    struct umbra_options options = {.cores = 1};
    struct umbra_runtime *runtime;
    struct umbra_fiber fiber;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_spawn_with(runtime, NULL, holds_for_ever, &of_fiber, &fiber), 0);
    return umbra_join(fiber, UMBRA_NEVER, NULL) == -EDEADLK ? 3 : 1;
}

Test(report, a_join_of_the_creator_tells_of_a_deadlock)
{
    struct child child = in_child(join_for_ever);

    cr_assert(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 3);
    cr_expect(says(&child, "deadlock"));
    cr_expect(says(&child, "waits for event"));
}

static struct umbra_task of_zeros;

static void *joins_zeros(void *arg)
{
    umbra_task_join(&of_zeros, UMBRA_NEVER);
    return arg;
}

static int deadlock_of_a_task(void)
{
    struct umbra_options options = {.cores = 1};

    return umbra_run(&options, joins_zeros, NULL) == -EDEADLK ? 3 : 1;
}

Test(report, a_deadlock_names_a_task_that_was_never_started)
{
    struct child child = in_child(deadlock_of_a_task);

    cr_assert(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 3);
    cr_assert(says_of(&child, "task", &of_zeros, " (never started) at "));
}

static int quiet_deadlock(void)
{
    return run_cores(2, locks_up, NULL) == -EDEADLK ? 3 : 1;
}

Test(report, a_quiet_runtime_only_returns_it)
{
    struct child child = in_child(quiet_deadlock);

    cr_assert(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 3);
    cr_assert_str_eq(child.said, "");
}

/* ---- on demand, and on a signal ---- */

static void *dumps(void *arg)
{
    struct umbra_spawn_options options = on_core(1);
    struct umbra_spawn_options late = {.name = "late", .delay_ns = 3600 * SECOND};

    options.name = "waiter";
    umbra_spawn_with(NULL, &options, waits_for_ever, NULL, &waiter);
    umbra_spawn_with(NULL, &late, waits_for_ever, NULL, NULL);
    while (umbra_fiber_info(waiter, NULL) != UMBRA_FIBER_BLOCKED)
        umbra_yield();
    umbra_hold(umbra_runtime_self());
    if (arg)
        raise(SIGUSR2);
    else
        umbra_dump(umbra_runtime_self(), 2);
    umbra_event_signal(&never);
    umbra_join(waiter, UMBRA_NEVER, NULL);
    _exit(0);
}

static int dump(void)
{
    return run_cores(2, dumps, NULL);
}

static void check_dump(const struct child *child)
{
    cr_assert(WIFEXITED(child->status) && WEXITSTATUS(child->status) == 0);
    cr_assert(says(child, "cores: 2, holds: 1"));
    cr_assert(says(child, "fiber \"main\""));
    cr_assert(says(child, "core 0, executing"));
    cr_assert(says(child, "fiber \"waiter\""));
    cr_assert(says(child, "core 1, blocked, waits for event"));
    cr_assert(says(child, "fiber \"late\""));
    cr_assert(says(child, "core 0, created"));
}

Test(report, all_fibers_are_listed_on_demand)
{
    struct child child = in_child(dump);

    check_dump(&child);
}

static void *dumps_who_waits_for_a_mutex(void *arg)
{
    struct umbra_fiber fiber;

    umbra_mutex_lock(&of_fiber);
    umbra_spawn(locks, &of_fiber, &fiber);
    umbra_yield();
    umbra_dump(umbra_runtime_self(), 2);
    umbra_mutex_unlock(&of_fiber);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    return arg;
}

static int dump_of_a_mutex(void)
{
    return run_cores(1, dumps_who_waits_for_a_mutex, NULL);
}

/* It may be gone by then. */
Test(report, a_dump_does_not_read_what_is_waited_for)
{
    struct child child = in_child(dump_of_a_mutex);

    cr_assert_eq(child.status, 0);
    cr_assert(says_of(&child, "mutex", &of_fiber, " at "));
    cr_assert(!strstr(child.said, "held by"));
}

static int dump_on_signal(void)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .dump_signal = SIGUSR2};

    return umbra_run(&options, dumps, &never);
}

Test(report, all_fibers_are_listed_on_a_signal)
{
    struct child child = in_child(dump_on_signal);

    check_dump(&child);
}

static void own_handler(int number)
{
    (void)number;
}

Test(report, the_signal_is_given_back)
{
    struct umbra_options options = {.cores = 1, .dump_signal = SIGUSR2};
    struct umbra_runtime *first, *second;

    signal(SIGUSR2, own_handler);
    cr_assert_eq(umbra_runtime_create(&options, &first), 0);
    cr_assert_eq(umbra_runtime_create(&options, &second), 0);
    umbra_runtime_destroy(first);
    umbra_runtime_destroy(second);
    cr_assert_eq(signal(SIGUSR2, SIG_DFL), own_handler);
}

#ifndef UMBRA_POSIX_ONLY
static struct sigaction below;
static int passed_on;

static void above(int number, siginfo_t *info, void *context)
{
    passed_on++;
    below.sa_sigaction(number, info, context);
}

Test(report, the_signals_handler_stays_below_one_that_calls_it)
{
    struct sigaction action = {.sa_sigaction = above, .sa_flags = SA_SIGINFO}, now;
    struct umbra_options options = {.cores = 1, .dump_signal = SIGUSR2};
    struct umbra_runtime *runtime;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(sigaction(SIGUSR2, &action, &below), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
    raise(SIGUSR2);
    cr_assert_eq(sigaction(SIGUSR2, NULL, &now), 0);
    cr_assert_eq(now.sa_sigaction, above);
    cr_assert_eq(passed_on, 1);
}
#endif

Test(report, a_signal_that_ends_the_program_is_refused_for_dumps)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL,  SIGFPE, SIGTRAP,
                                SIGABRT, SIGSYS, SIGKILL, SIGSTOP};
    static const int others[] = {SIGHUP, SIGQUIT, SIGUSR1, SIGPIPE, SIGTERM, SIGXCPU};
    struct umbra_options options = {.cores = 1};
    struct umbra_runtime *runtime;

    for (unsigned i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
        options.dump_signal = fatal[i];
        cr_assert_eq(umbra_runtime_create(&options, &runtime), -EINVAL, "%d", fatal[i]);
    }
    options.dump_signal = SIGRTMIN - 1; /* the C library's own, where it has any */
    if (sigaction(SIGRTMIN - 1, NULL, NULL) != 0)
        cr_assert_eq(umbra_runtime_create(&options, &runtime), -EINVAL);
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        options.dump_signal = others[i];
        cr_assert_eq(umbra_runtime_create(&options, &runtime), 0, "%d", others[i]);
        cr_assert_eq(umbra_runtime_destroy(runtime), 0);
    }
}

/* ---- while all goes on ---- */

#define DUMPS 30
#define ROUNDS 30

static um_atomic_u32 dumped, rounds;

static void *transfers_back(void *to)
{
    umbra_transfer(*(struct umbra_fiber *)to);
    return NULL;
}

/* Spawns, stops, continues and joins named fibers until all dumps have been written. */
static void *spawns_and_switches(void *arg)
{
    struct umbra_spawn_options options = {.name = "a name of two words, or 3"};
    struct umbra_spawn_options late = {.name = "a name more", .delay_ns = 1};
    struct umbra_fiber self = umbra_self(), other;

    while (um_atomic_load(&dumped, acquire) < DUMPS || um_atomic_load(&rounds, relaxed) < ROUNDS) {
        umbra_spawn_with(NULL, &options, transfers_back, &self, &other);
        umbra_transfer(other);
        umbra_continue(other);
        umbra_join(other, UMBRA_NEVER, NULL);
        umbra_spawn_with(NULL, &late, nothing, NULL, &other);
        umbra_join(other, UMBRA_NEVER, NULL);
        um_atomic_fetch_add(&rounds, 1, relaxed);
    }
    return arg;
}

static void *dumps_meanwhile(void *file)
{
    struct umbra_spawn_options options = on_core(1);
    struct umbra_fiber busy;

    umbra_spawn_with(NULL, &options, spawns_and_switches, NULL, &busy);
    while (um_atomic_load(&dumped, relaxed) < DUMPS || um_atomic_load(&rounds, relaxed) < ROUNDS) {
        umbra_dump(umbra_runtime_self(), fileno(file));
        um_atomic_fetch_add(&dumped, 1, release);
        sched_yield(); /* where both cores share a processor */
    }
    umbra_join(busy, UMBRA_NEVER, NULL);
    return NULL;
}

/* What ThreadSanitizer says of it counts. */
Test(report, a_dump_may_be_written_while_fibers_are_spawned_and_switch)
{
    static char line[1024];
    FILE *file = tmpfile();
    bool named = true;

    cr_assert(file);
    cr_assert_eq(run_cores(2, dumps_meanwhile, file), 0);
    rewind(file);
    while (fgets(line, sizeof(line), file)) /* a name in the making has at most its end missing */
        named =
            named && (!strchr(line, '"') || strstr(line, "\"main\"") || strstr(line, "\"a name "));
    fclose(file);
    cr_assert(named);
}

/* ---- what ThreadSanitizer says ---- */

#ifdef UM_CONTEXT_TSAN
static int raced_for;
static um_atomic_u64 arrived, has_written;

/* The fibers write one after the other, since ThreadSanitizer may miss accesses of the same moment.
 * relaxed, and neither ends before both have written: nothing orders the writes for it. */
static void *races(void *arg)
{
    uint64_t turn = um_atomic_fetch_add(&arrived, 1, relaxed);

    while (um_atomic_load(&has_written, relaxed) < turn)
        sched_yield();
    raced_for++;
    um_atomic_fetch_add(&has_written, 1, relaxed);
    while (um_atomic_load(&has_written, relaxed) < 2)
        sched_yield();
    return arg;
}

/* Runs fn in a fiber of either core, and joins both. */
static void run_on_both(umbra_fiber_fn *fn, const char *const names[2])
{
    struct umbra_spawn_options options[2] = {on_core(0), on_core(1)};
    struct umbra_fiber fiber[2];

    for (int i = 0; i < 2; i++) {
        options[i].name = names[i];
        umbra_spawn_with(NULL, &options[i], fn, NULL, &fiber[i]);
    }
    umbra_join(fiber[0], UMBRA_NEVER, NULL);
    umbra_join(fiber[1], UMBRA_NEVER, NULL);
}

/* arg: the names. The fibers have the stacks of others, which had names, too. */
static void *runs_racers(void *arg)
{
    static const char *const earlier[] = {"earlier", "earlier"};

    run_on_both(nothing, earlier);
    run_on_both(races, arg);
    return NULL;
}

static int race_of_named(void)
{
    const char *names[] = {"deposits", "withdraws"};

    return run_cores(2, runs_racers, names);
}

static int race_of_nameless(void)
{
    const char *names[] = {NULL, NULL};

    return run_cores(2, runs_racers, names);
}

Test(report, a_race_is_one_of_fibers_with_names)
{
    struct child child = in_child(race_of_named);

    cr_assert(WIFEXITED(child.status));
    cr_assert(says(&child, "data race"));
    cr_assert(says(&child, "'fiber \"deposits\" 0x"));
    cr_assert(says(&child, "'fiber \"withdraws\" 0x"));
    cr_assert(!strstr(child.said, "earlier"));
}

Test(report, a_race_is_one_of_fibers_with_addresses)
{
    struct child child = in_child(race_of_nameless);

    cr_assert(WIFEXITED(child.status));
    cr_assert(says(&child, "data race"));
    cr_assert(says(&child, "'fiber 0x"));
    cr_assert(!strstr(child.said, "earlier"));
}
#endif

/* ---- stack overflow ---- */

static int deeper(int depth)
{
    volatile char room[512];

    room[0] = (char)depth;
    return depth > 0 ? deeper(depth - 1) + room[0] : 0;
}

static void *overflows(void *arg)
{
    return (void *)(intptr_t)deeper(arg ? 1000000 : 1000001);
}

static void *spawns_overflow(void *arg)
{
    struct umbra_spawn_options options = on_core(1);
    struct umbra_fiber fiber;

    options.name = "too deep";
    umbra_spawn_with(NULL, &options, overflows, arg, &fiber);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    return NULL;
}

static int overflow(void)
{
    return run_cores(2, spawns_overflow, NULL);
}

static bool sanitized(void)
{
#if defined(UM_CONTEXT_ASAN) || defined(UM_CONTEXT_TSAN)
    return true; /* it has its own handler, and its own words for it */
#else
    return false;
#endif
}

Test(report, an_overflow_names_the_fiber_and_dies_of_the_fault)
{
    struct child child;

    if (sanitized())
        cr_skip_test("the sanitizer reports faults itself");
    if (um_guard_kind() == UM_GUARD_NONE)
        cr_skip_test("no guards in the POSIX form");
    child = in_child(overflow);
    cr_assert(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGSEGV);
    cr_assert(says(&child, "umbra: stack overflow: fiber \"too deep\""));
    cr_assert(says(&child, "on core 1 has used up its stack of 196608 bytes"));
}

/* The compiler may not touch the pages between, as -fstack-clash-protection has it. */
static __attribute__((noinline)) int leaps(void)
{
    char room[76 << 10];

    room[0] = 1;
    __asm__ volatile("" : : "r"(room) : "memory"); /* else a compiler keeps what is used of it */
    return room[0];
}

static void *overflows_at_once(void *arg)
{
    return leaps() ? arg : NULL;
}

/* The first fiber's stack is the neighbour of the second's. */
static void *spawns_neighbour(void *arg)
{
    struct umbra_fiber fiber;

    if (umbra_spawn(overflows_at_once, arg, &fiber) == 0)
        umbra_join(fiber, UMBRA_NEVER, NULL);
    return arg;
}

static int overflow_by_a_large_frame(void)
{
    struct umbra_options options = {.cores = 1, .stack_bytes = 64 << 10};

    return umbra_run(&options, spawns_neighbour, NULL);
}

Test(report, a_frame_larger_than_the_stack_does_not_reach_a_neighbour)
{
    struct child child;

    if (sanitized())
        cr_skip_test("the sanitizer reports faults itself");
    if (um_guard_kind() == UM_GUARD_NONE)
        cr_skip_test("no guards in the POSIX form");
    child = in_child(overflow_by_a_large_frame);
    cr_assert(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGSEGV);
    cr_assert(says(&child, "has used up its stack of 65536 bytes"));
}

static void last_words(int number)
{
    (void)number;
    _exit(42);
}

static void *faults(void *arg)
{
    *(volatile int *)arg = 1;
    return NULL;
}

static int fault_elsewhere(void)
{
    signal(SIGSEGV, last_words);
    return run_cores(1, faults, (void *)(uintptr_t)8);
}

Test(report, other_faults_go_to_the_programs_own_handler)
{
    struct child child;

    if (sanitized())
        cr_skip_test("the sanitizer reports faults itself");
    child = in_child(fault_elsewhere);
    cr_assert(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 42);
    cr_assert_str_eq(child.said, "");
}

Test(report, the_fault_handler_is_given_back)
{
    signal(SIGSEGV, own_handler);
    cr_assert_eq(run_cores(2, nothing, NULL), 0);
    cr_assert_eq(signal(SIGSEGV, SIG_DFL), own_handler);
}

/* Of other threads: the child has not those. */
static int runs_without_handlers(void)
{
    alarm(20);
    return run_cores(1, nothing, NULL);
}

Test(report, a_child_process_has_none_of_its_parents_handlers)
{
    struct umbra_options options = {.cores = 1, .quiet = true};
    struct umbra_runtime *runtime;
    struct child child;

#ifdef UMBRA_UNDER_TSAN
    cr_skip_test("ThreadSanitizer starts no threads after a fork of several");
#endif
    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    while (core_state(runtime, 0) != UMBRA_CORE_IDLE) /* it allocates nothing from now on */
        umbra_yield();
    um_report_begin();
    um_atomic_fetch_add(&um_slabs.looking, 1, seq_cst);
    child = in_child(runs_without_handlers);
    um_atomic_fetch_add(&um_slabs.looking, UINT32_MAX, seq_cst);
    um_report_end();
    cr_assert_eq(child.status, 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

/* A fiber of another runtime, which goes. */
static int dumps_who_joins_what_is_gone(void)
{
    struct umbra_options options = {.cores = 1, .oversubscribe = true, .quiet = true};
    struct umbra_runtime *here, *gone;

    alarm(20);
    if (umbra_runtime_create(&options, &here) || umbra_runtime_create(&options, &gone) ||
        umbra_spawn_with(gone, NULL, waits_for_ever, NULL, &waiter) ||
        umbra_spawn_with(here, NULL, joins_for_ever, NULL, NULL))
        return 1;
    if (umbra_runtime_wait(here) != -EDEADLK)
        return 2;
    umbra_dump(here, 2);
    if (umbra_runtime_destroy(gone) != 0) /* which ends the join */
        return 3;
    umbra_dump(here, 2);
    return umbra_runtime_wait(here) == 0 && umbra_runtime_destroy(here) == 0 ? 0 : 4;
}

Test(report, what_is_joined_in_another_runtime_may_be_gone)
{
    struct child child = in_child(dumps_who_joins_what_is_gone);

    cr_assert_eq(child.status, 0);
    cr_assert(says(&child, "waits for join 0x"));
}
