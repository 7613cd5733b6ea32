/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include "fibers.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static uint64_t in_ms(uint64_t ms)
{
    return umbra_deadline(ms * MS);
}

static enum umbra_event_state state_of(const struct umbra_event *event)
{
    return (enum umbra_event_state)um_event_state_of(um_atomic_load(&event->event.word, relaxed));
}

/* ---- one thread: what the calls do ---- */

Test(event, auto_reset_gives_a_signal_to_one)
{
    struct umbra_event event = UMBRA_EVENT_INIT;

    cr_assert(umbra_event_wait(&event, 0) != 0);
    umbra_event_signal(&event);
    umbra_event_signal(&event);
    cr_assert_eq(state_of(&event), UMBRA_EVENT_SIGNALED);
    cr_assert(umbra_event_wait(&event, 0) == 0);
    cr_assert(umbra_event_wait(&event, 0) != 0, "two that nobody waited for are one");
    umbra_event_signal(&event);
    umbra_event_reset(&event);
    cr_assert(umbra_event_wait(&event, 0) != 0);
    umbra_event_reset(&event);
    umbra_event_signal(&event);
    cr_assert_eq(umbra_event_wait(&event, UMBRA_NEVER), 0);
    cr_assert_eq(state_of(&event), UMBRA_EVENT_RESET);
}

Test(event, manual_reset_stays)
{
    struct umbra_event event = UMBRA_EVENT_INIT_MANUAL;

    cr_assert(umbra_event_wait(&event, 0) != 0);
    umbra_event_signal(&event);
    for (int i = 0; i < 3; i++) {
        cr_assert(umbra_event_wait(&event, 0) == 0);
        cr_assert_eq(umbra_event_wait(&event, UMBRA_NEVER), 0);
        cr_assert_eq(umbra_event_wait(&event, 0), 0);
    }
    umbra_event_reset(&event);
    cr_assert(umbra_event_wait(&event, 0) != 0);
}

Test(event, deadlines_end_waits)
{
    struct umbra_event event = UMBRA_EVENT_INIT;
    uint64_t start = umbra_now_ns();

    cr_assert_eq(umbra_event_wait(&event, 0), -ETIMEDOUT);
    cr_assert_eq(umbra_event_wait(&event, in_ms(3)), -ETIMEDOUT);
    cr_assert_eq(umbra_event_wait(&event, umbra_now_ns() + MS), -ETIMEDOUT);
    cr_assert_geq(umbra_now_ns() - start, 3 * MS - 1000);
    umbra_event_signal(&event);
    cr_assert_eq(umbra_event_wait(&event, 0), 0, "a signal beats the deadline");
    cr_assert_eq(state_of(&event), UMBRA_EVENT_RESET);
}

/* ---- fibers that wait ---- */

static struct umbra_event shared;
static int order[16];
static int woken;

static void *waits(void *arg)
{
    cr_expect_eq(umbra_event_wait(&shared, UMBRA_NEVER), 0);
    order[woken++] = (int)(intptr_t)arg;
    return arg;
}

static void spawn_waiters(struct umbra_fiber *fiber, int count)
{
    woken = 0;
    for (int i = 0; i < count; i++)
        umbra_spawn(waits, (void *)(intptr_t)i, &fiber[i]);
    umbra_yield();
}

static void *first_in_first_out(void *arg)
{
    struct umbra_fiber fiber[5];

    shared = (struct umbra_event)UMBRA_EVENT_INIT;
    spawn_waiters(fiber, 5);
    for (int i = 0; i < 5; i++) {
        cr_expect_eq(umbra_fiber_info(fiber[i], NULL), UMBRA_FIBER_BLOCKED);
        umbra_event_signal(&shared);
        umbra_yield();
        cr_expect_eq(woken, i + 1);
        cr_expect_eq(order[i], i);
    }
    for (int i = 0; i < 5; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    cr_expect(umbra_event_wait(&shared, 0) != 0);
    return arg;
}

Test(event, releases_who_has_waited_longest)
{
    cr_assert_eq(run_cores(1, first_in_first_out, NULL), 0);
}

static void *all_at_once(void *arg)
{
    struct umbra_fiber fiber[5];

    shared = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
    spawn_waiters(fiber, 5);
    umbra_event_signal(&shared);
    umbra_yield();
    cr_expect_eq(woken, 5);
    for (int i = 0; i < 5; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    cr_expect(umbra_event_wait(&shared, 0) == 0);
    return arg;
}

Test(event, manual_reset_releases_all)
{
    cr_assert_eq(run_cores(1, all_at_once, NULL), 0);
}

struct duel {
    struct umbra_event ping, pong;
    int rounds;
};

static void *answers(void *arg)
{
    struct duel *duel = arg;

    for (int i = 0; i < duel->rounds; i++) {
        cr_expect_eq(umbra_event_wait(&duel->ping, UMBRA_NEVER), 0);
        umbra_event_signal(&duel->pong);
    }
    return NULL;
}

static void *duels(void *arg)
{
    struct duel *duel = arg;
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber other;

    umbra_spawn_with(NULL, &there, answers, duel, &other);
    for (int i = 0; i < duel->rounds; i++) {
        umbra_event_signal(&duel->ping);
        cr_expect_eq(umbra_event_wait(&duel->pong, UMBRA_NEVER), 0);
    }
    cr_expect_eq(umbra_join(other, UMBRA_NEVER, NULL), 0);
    return NULL;
}

Test(event, goes_between_cores)
{
    struct duel duel = {UMBRA_EVENT_INIT, UMBRA_EVENT_INIT, 5000};

    cr_assert_eq(run_cores(2, duels, &duel), 0);
}

static void *thread_answers(void *arg)
{
    return answers(arg);
}

Test(event, goes_between_a_fiber_and_a_thread)
{
    struct umbra_options options = {.cores = 1};
    struct duel duel = {UMBRA_EVENT_INIT, UMBRA_EVENT_INIT, 500};
    struct umbra_runtime *runtime;
    struct umbra_fiber fiber;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_spawn_with(runtime, NULL, answers, &duel, &fiber), 0);
    for (int i = 0; i < duel.rounds; i++) {
        umbra_event_signal(&duel.ping);
        cr_assert_eq(umbra_event_wait(&duel.pong, UMBRA_NEVER), 0);
    }
    cr_assert_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

Test(event, goes_between_threads)
{
    struct duel duel = {UMBRA_EVENT_INIT, UMBRA_EVENT_INIT, 500};
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, thread_answers, &duel), 0);
    for (int i = 0; i < duel.rounds; i++) {
        umbra_event_signal(&duel.ping);
        cr_assert_eq(umbra_event_wait(&duel.pong, in_ms(60000)), 0);
    }
    pthread_join(thread, NULL);
}

/* ---- deadlines of fibers ---- */

static void *times_out(void *arg)
{
    uint64_t start = umbra_now_ns();

    cr_expect_eq(umbra_event_wait(&shared, in_ms(2)), -ETIMEDOUT);
    cr_expect_geq(umbra_now_ns() - start, 2 * MS - 1000);
    return arg;
}

static void *signals_later(void *arg)
{
    umbra_sleep_ns(2 * MS);
    umbra_event_signal(arg);
    return NULL;
}

static void *deadlines(void *arg)
{
    struct umbra_fiber fiber[4], other;

    shared = (struct umbra_event)UMBRA_EVENT_INIT;
    for (int i = 0; i < 4; i++)
        umbra_spawn(times_out, NULL, &fiber[i]);
    for (int i = 0; i < 4; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    cr_expect_eq(state_of(&shared), UMBRA_EVENT_RESET);
    umbra_event_signal(&shared); /* none of the four is left in the queue */
    cr_expect(umbra_event_wait(&shared, 0) == 0);
    umbra_spawn(signals_later, &shared, &other);
    cr_expect_eq(umbra_event_wait(&shared, in_ms(60000)), 0);
    umbra_join(other, UMBRA_NEVER, NULL);
    return arg;
}

Test(event, a_fiber_that_gives_up_leaves_nothing_behind)
{
    cr_assert_eq(run_cores(1, deadlines, NULL), 0);
}

/* Whether it is asked for the second time. */
static bool is_second_look(void *arg)
{
    int *looks = arg;

    return ++*looks == 2;
}

static void *is_there(void *arg)
{
    return arg;
}

static void *looks_late(void *arg)
{
    struct umbra_event event = UMBRA_EVENT_INIT;
    int looks = 0;
    struct um_await await = {.event = &event.event, .accept = is_second_look, .arg = &looks};
    struct umbra_fiber other;

    cr_assert_eq(umbra_spawn(is_there, NULL, &other), 0); /* so that it does not look in place */
    cr_expect_eq(um_await_begin(&await), 0,
                 "a deadline that has passed must not hide what was there");
    cr_expect_eq(looks, 2);
    umbra_join(other, UMBRA_NEVER, NULL);
    return arg;
}

Test(event, a_wait_looks_once_more_when_its_deadline_has_passed)
{
    cr_assert_eq(run_cores(1, looks_late, NULL), 0);
}

/* How many joins have been left with whoever holds the event. */
static unsigned left_joins(struct umbra_event *event)
{
    unsigned count = 0;

    for (const struct um_node *node = um_event_node_of(atomic_load(&event->event.word)); node;
         node = node->next)
        count++;
    return count;
}

static void *gives_up_and_comes_again(void *event)
{
    for (int i = 0; i < 100; i++) {
        struct umbra_event *events[] = {event};
        unsigned which;

        cr_expect_eq(umbra_event_wait(event, umbra_deadline(1000)), -ETIMEDOUT);
        cr_expect_eq(umbra_event_wait_any(events, 1, umbra_deadline(1000), &which), -ETIMEDOUT);
    }
    return event;
}

/* A call on `shared` that is under way, for as long as the test likes. */
static struct um_hold call;
static struct um_released released_by_call;

static void begin_call(void)
{
    uint64_t word = UMBRA_EVENT_RESET;

    shared = (struct umbra_event)UMBRA_EVENT_INIT;
    released_by_call = (struct um_released){NULL, NULL};
    cr_assert(um_event_cas(&shared.event, &word, UMBRA_EVENT_JOINING));
    um_event_hold(&shared.event, &call, word, UMBRA_EVENT_JOINING, &released_by_call);
}

/* Takes what others have left with the holder, as um_event_let_go() does, and carries it out. */
static void carry_out(void)
{
    uint64_t log = atomic_load(&shared.event.word);

    call.held = um_event_taken_word(log);
    cr_assert(atomic_compare_exchange_strong(&shared.event.word, &(uint64_t){log}, call.held));
    um_event_replay(&shared.event, &call, log);
}

static void end_call(void)
{
    um_event_let_go(&shared.event, &call);
    cr_assert_null(released_by_call.first);
}

static void *waits_for_any(void *event)
{
    struct umbra_event *events[] = {event};
    unsigned which;

    cr_expect_eq(umbra_event_wait_any(events, 1, UMBRA_NEVER, &which), 0);
    return NULL;
}

/* A holder that has lost its processor finds few requests when it is back, and then comes to an end
 * whatever the others do: only after that it wakes those whom it has released. */
Test(event, who_gives_up_and_comes_again_does_not_keep_a_holder)
{
    struct umbra_event other = UMBRA_EVENT_INIT_MANUAL;
    struct umbra_event *events[] = {&shared, &other};
    unsigned which = 99;
    pthread_t thread;

    begin_call();
    gives_up_and_comes_again(&shared);
    cr_assert_eq(run_cores(1, gives_up_and_comes_again, &shared), 0);
    cr_assert_eq(left_joins(&shared), 1, "and the others wait until that is done");
    carry_out();
    cr_assert_eq(left_joins(&shared), 0);
    gives_up_and_comes_again(&shared);
    cr_assert_eq(run_cores(1, gives_up_and_comes_again, &shared), 0);
    cr_assert_eq(left_joins(&shared), 0, "nobody but the holder makes an end of it");
    umbra_event_signal(&other);
    cr_assert_eq(umbra_event_wait_any(events, 2, 0, &which), 0);
    cr_assert_eq(which, 1, "a signal is found beside an event that takes nobody");
    cr_assert_eq(pthread_create(&thread, NULL, waits_for_any, &shared), 0);
    umbra_sleep_ns(2 * MS);
    end_call();
    umbra_event_signal(&shared);
    pthread_join(thread, NULL);
    cr_assert_eq(atomic_load(&shared.event.word), UMBRA_EVENT_RESET);
}

/* A call that somebody who gave up has closed the event to others like him for. */
static void begin_closed_call(void)
{
    begin_call();
    do { /* a deadline may also pass before the wait has begun */
        cr_assert_eq(umbra_event_wait(&shared, in_ms(1)), -ETIMEDOUT);
    } while (!um_event_is_closed(&shared.event));
}

static struct umbra_event beside = UMBRA_EVENT_INIT;

static void *takes_the_signal_beside(void *arg)
{
    struct umbra_event *events[] = {&shared, &beside};
    uint64_t deadline = in_ms(10000);
    unsigned which = 99;

    cr_expect_eq(umbra_event_wait_any(events, 2, deadline, &which), 0);
    cr_expect_eq(which, 1);
    cr_expect_lt(umbra_now_ns(), deadline, "and that at once");
    cr_expect_eq(state_of(&beside), UMBRA_EVENT_RESET);
    return arg;
}

static void *has_the_signal_beside_made(void *arg)
{
    struct umbra_fiber fiber;

    umbra_spawn(signals_later, &beside, &fiber);
    takes_the_signal_beside(NULL);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    return arg;
}

Test(event, a_signal_is_taken_beside_an_event_that_admits_nobody)
{
    pthread_t thread;

    begin_closed_call();
    umbra_event_signal(&beside);
    takes_the_signal_beside(NULL);
    umbra_event_signal(&beside);
    cr_assert_eq(run_cores(1, takes_the_signal_beside, NULL), 0);
    cr_assert_eq(pthread_create(&thread, NULL, signals_later, &beside), 0);
    takes_the_signal_beside(NULL);
    pthread_join(thread, NULL);
    cr_assert_eq(run_cores(1, has_the_signal_beside_made, NULL), 0);
    end_call();
}

static void *waits_in_vain(void *deadline)
{
    cr_expect_eq(umbra_event_wait(&shared, *(uint64_t *)deadline), -ETIMEDOUT);
    return NULL;
}

/* How often the processor was given up while some fibers waited to be admitted; 0 if they were not
 * looked at in time. */
static void *counts_sleeps(void *sleeps)
{
    uint64_t deadline = in_ms(100);
    struct umbra_fiber fiber[8];
    struct rusage before, after;
    const void *waits_on;
    const struct um_kind *waits_for;
    bool in_time;

    getrusage(RUSAGE_THREAD, &before);
    for (int i = 0; i < 8; i++)
        umbra_spawn(waits_in_vain, &deadline, &fiber[i]);
    umbra_sleep_ns(10 * MS);
    waits_for = um_atomic_load(&fiber[0].block->waits_for, relaxed); /* both: on the same core */
    waits_on = um_atomic_load(&fiber[0].block->waits_on, relaxed);
    in_time = waits_for && umbra_now_ns() < deadline;
    if (in_time) {
        cr_expect_str_eq(waits_for->name, "event");
        cr_expect_eq(waits_on, &shared);
    }
    for (int i = 0; i < 8; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    getrusage(RUSAGE_THREAD, &after);
    *(long *)sleeps = in_time ? after.ru_nvcsw - before.ru_nvcsw : 0;
    return NULL;
}

/* However long a core stays awake where wake-ups are dear: the holder may have lost its processor to
 * this very core. */
Test(event, fibers_that_are_not_admitted_let_their_core_sleep)
{
    uint64_t cost = um_wake_ns();
    long sleeps = 0;

    begin_closed_call();
    um_machine.wake_ns = UM_BLOCK_MOST_NS;
    for (int i = 0; i < 20 && sleeps < 5; i++) /* it may lose its processor instead */
        cr_assert_eq(run_cores(1, counts_sleeps, &sleeps), 0);
    um_machine.wake_ns = cost;
    cr_assert_geq(sleeps, 5);
    end_call();
}

static _Atomic bool offered, given_up;

/* A condition that its waiter finds false, and who signals finds true after a long time. */
static bool is_true_later(void *arg)
{
    (void)arg;
    if (umbra_core_index() >= 0)
        return false;
    offered = true;
    umbra_sleep_ns(300 * MS);
    return true;
}

/* Signals once the fiber waits, or no more. */
static void *signals_who_waits(void *fiber)
{
    while (umbra_fiber_info(*(struct umbra_fiber *)fiber, NULL) != UMBRA_FIBER_BLOCKED && !given_up)
        sched_yield();
    umbra_event_signal(&shared);
    return NULL;
}

/* How often the processor was given up while a wait that was late was being offered a signal; 0 if
 * that came too late. */
static void *counts_sleeps_when_offered(void *sleeps)
{
    struct umbra_fiber self = umbra_self();
    struct rusage before, after;
    pthread_t thread;

    shared = (struct umbra_event)UMBRA_EVENT_INIT;
    offered = given_up = false;
    cr_expect_eq(pthread_create(&thread, NULL, signals_who_waits, &self), 0);
    getrusage(RUSAGE_THREAD, &before);
    given_up = umbra_event_wait_until(&shared, is_true_later, NULL, in_ms(200)) != 0;
    getrusage(RUSAGE_THREAD, &after);
    cr_expect(offered || given_up);
    pthread_join(thread, NULL);
    *(long *)sleeps = given_up ? 0 : after.ru_nvcsw - before.ru_nvcsw;
    return NULL;
}

/* Who offers it may have lost its processor to this very core. */
Test(event, a_late_wait_that_is_offered_a_signal_lets_its_core_sleep)
{
    uint64_t cost = um_wake_ns();
    long sleeps = 0;

    um_machine.wake_ns = UM_BLOCK_MOST_NS;
    for (int i = 0; i < 20 && sleeps < 8; i++) /* it may lose its processor instead */
        cr_assert_eq(run_cores(1, counts_sleeps_when_offered, &sleeps), 0);
    um_machine.wake_ns = cost;
    cr_assert_geq(sleeps, 8);
}

static void *deadlines_that_never_pass(void *arg)
{
    struct umbra_fiber fiber;
    unsigned which = 99;

    shared = (struct umbra_event)UMBRA_EVENT_INIT;
    umbra_spawn(signals_later, &shared, &fiber);
    cr_expect_eq(umbra_event_wait(&shared, UMBRA_NEVER), 0);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    umbra_spawn(signals_later, &shared, &fiber);
    cr_expect_eq(umbra_event_wait_any(&(struct umbra_event *){&shared}, 1, UMBRA_NEVER, &which), 0);
    cr_expect_eq(which, 0);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    return arg;
}

Test(event, a_deadline_may_be_never)
{
    cr_assert_eq(run_cores(1, deadlines_that_never_pass, NULL), 0);
}

/* ---- conditions ---- */

static _Atomic int level;
static _Atomic int asked;

static bool above(void *arg)
{
    asked++;
    return level > *(int *)arg;
}

static void *waits_above(void *arg)
{
    cr_expect_eq(umbra_event_wait_until(&shared, above, arg, UMBRA_NEVER), 0);
    order[woken++] = *(int *)arg;
    return NULL;
}

static void *conditions(void *arg)
{
    static int floor[3] = {5, 1, 3};
    struct umbra_fiber fiber[3];

    shared = (struct umbra_event)UMBRA_EVENT_INIT;
    woken = 0;
    level = 0;
    for (int i = 0; i < 3; i++)
        umbra_spawn(waits_above, &floor[i], &fiber[i]);
    umbra_yield();
    asked = 0;
    umbra_event_signal(&shared);
    cr_expect_eq(asked, 3, "each is asked once");
    cr_expect_eq(state_of(&shared), UMBRA_EVENT_SIGNALED, "nobody took it");
    cr_expect(umbra_event_wait(&shared, 0) == 0, "so it is there for another");
    level = 4;
    umbra_event_signal(&shared); /* the first refuses, the second takes it */
    umbra_yield();
    cr_expect_eq(woken, 1);
    cr_expect_eq(order[0], 1);
    umbra_event_signal(&shared);
    umbra_yield();
    cr_expect_eq(order[1], 3);
    level = 9;
    umbra_event_signal(&shared);
    for (int i = 0; i < 3; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    cr_expect_eq(order[2], 5);
    cr_expect_eq(umbra_event_wait_until(&shared, above, &floor[0], 0), 0, "holds at once");
    level = 0;
    cr_expect_eq(umbra_event_wait_until(&shared, above, &floor[0], in_ms(2)), -ETIMEDOUT);
    return arg;
}

Test(event, a_signal_goes_on_to_who_wants_it)
{
    cr_assert_eq(run_cores(1, conditions, NULL), 0);
}

/* ---- any of several ---- */

#define EVENTS 20

static struct umbra_event several[EVENTS];
static struct umbra_event *each[EVENTS];

static void several_init(void)
{
    for (int i = 0; i < EVENTS; i++) {
        several[i] = (struct umbra_event)UMBRA_EVENT_INIT;
        each[i] = &several[i];
    }
}

static void check_any(void)
{
    unsigned which = 99;

    umbra_event_signal(&several[7]);
    umbra_event_signal(&several[3]);
    cr_expect_eq(umbra_event_wait_any(each, EVENTS, UMBRA_NEVER, &which), 0);
    cr_expect_eq(which, 3, "the first of the array");
    cr_expect(umbra_event_wait(&several[7], 0) == 0, "the other's signal is left alone");
    cr_expect_eq(umbra_event_wait_any(each, 2, in_ms(1), &which), -ETIMEDOUT);
    cr_expect_eq(which, 3, "untouched");
    cr_expect_eq(umbra_event_wait_any(each, 0, UMBRA_NEVER, NULL), -EINVAL);
    for (int i = 0; i < EVENTS; i++)
        cr_expect_eq(state_of(&several[i]), UMBRA_EVENT_RESET);
}

static void *any_in_a_fiber(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber fiber;
    unsigned which = 99;

    check_any();
    for (unsigned i = 0; i < 10; i++) {
        umbra_spawn_with(NULL, &there, signals_later, &several[i], &fiber);
        cr_expect_eq(umbra_event_wait_any(each, 10, in_ms(60000), &which), 0);
        cr_expect_eq(which, i);
        umbra_join(fiber, UMBRA_NEVER, NULL);
    }
    for (int i = 0; i < EVENTS; i++) {
        umbra_event_signal(&several[i]);
        cr_expect(umbra_event_wait(&several[i], 0) == 0, "no dead waiter takes it");
    }
    return arg;
}

Test(event, the_first_of_several_ends_the_wait)
{
    several_init();
    check_any(); /* a thread */
    cr_assert_eq(run_cores(2, any_in_a_fiber, NULL), 0);
}

static _Atomic int enough;

static void *signals_all_the_time(void *arg)
{
    while (!enough) {
        umbra_event_signal(arg);
        let_others_execute();
    }
    return NULL;
}

static void *one_event_twice(void *arg)
{
    struct umbra_event *twice[2] = {&shared, &shared};
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber fiber;
    unsigned which;

    shared = (struct umbra_event)UMBRA_EVENT_INIT;
    umbra_spawn_with(NULL, &there, signals_all_the_time, &shared, &fiber);
    for (int i = 0; i < 20000; i++) {
        which = 99;
        cr_expect_eq(umbra_event_wait_any(twice, 2, UMBRA_NEVER, &which), 0);
        cr_expect_lt(which, 2);
    }
    enough = 1;
    cr_expect_eq(umbra_fiber_info(umbra_self(), NULL), UMBRA_FIBER_EXECUTING);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    return arg;
}

Test(event, one_event_may_be_named_twice)
{
    cr_assert_eq(run_cores(2, one_event_twice, NULL), 0);
}

/* ---- who may signal ---- */

static void on_signal(int number)
{
    (void)number;
    umbra_event_signal_async(&shared);
}

static void *signaled_by_a_handler(void *arg)
{
    shared = (struct umbra_event)UMBRA_EVENT_INIT;
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 100; i++) {
        struct umbra_fiber fiber;

        umbra_spawn(waits, NULL, &fiber);
        woken = 0;
        if (i % 2)
            umbra_yield();
        pthread_kill(pthread_self(), SIGUSR1);
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    }
    return arg;
}

Test(event, a_signal_handler_may_signal)
{
    cr_assert_eq(run_cores(1, signaled_by_a_handler, NULL), 0);
}

static void shadow_signals(void *arg)
{
    umbra_event_signal(arg);
}

static void *signaled_by_a_shadow(void *arg)
{
    struct umbra_shadow *shadow = own_shadow();

    shared = (struct umbra_event)UMBRA_EVENT_INIT;
    for (int i = 0; i < 100; i++) {
        cr_expect_eq(shadow_fork(shadow, shadow_signals, &shared), 0);
        cr_expect_eq(umbra_event_wait(&shared, UMBRA_NEVER), 0);
        cr_expect_eq(shadow_join(shadow), 0);
    }
    return arg;
}

Test(event, a_shadow_may_signal)
{
    struct umbra_options options = {.cores = 1, .shadows = true};
    int error = umbra_run(&options, signaled_by_a_shadow, NULL);

    if (error == -ENODEV || error == -ENOSPC)
        cr_skip_test("needs a second processor");
    cr_assert_eq(error, 0);
}

/* ---- an event that is gone as soon as it was signaled ---- */

static void *signals_once(void *arg)
{
    umbra_event_signal(arg);
    return NULL;
}

static void *short_lived(void *arg)
{
    struct umbra_spawn_options there = on_core(1);

    for (int i = 0; i < 2000; i++) {
        struct umbra_event *event = aligned_alloc(UMBRA_CACHE_LINE, sizeof(*event));
        struct umbra_fiber fiber;

        *event = (struct umbra_event)UMBRA_EVENT_INIT;
        umbra_spawn_with(NULL, &there, signals_once, event, &fiber);
        if (i % 2)
            umbra_event_wait(event, UMBRA_NEVER);
        else
            umbra_event_wait(event, in_ms(60000));
        memset(event, 0xff, sizeof(*event));
        free(event);
        umbra_join(fiber, UMBRA_NEVER, NULL);
    }
    return arg;
}

Test(event, may_be_destroyed_by_who_was_released)
{
    cr_assert_eq(run_cores(2, short_lived, NULL), 0);
}
