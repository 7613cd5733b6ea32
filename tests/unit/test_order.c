/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Which fiber runs next (umbra/fiber.h): what was woken, or sent here, before what only yielded, up
 * to a bound. Most tests have one core, so that the order of the turns is exact; each fiber notes
 * its letter when it runs.
 */
#include "fibers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static char notes[4096];
static size_t noted;

static void note(char letter)
{
    if (noted + 1 < sizeof notes)
        notes[noted++] = letter;
}

/* One that waits for an event, again and again, and notes each turn. */
struct waiter {
    struct umbra_event event;
    struct umbra_fiber fiber;
    char letter;
    bool quit;
    int turns;
};

static void *waits(void *arg)
{
    struct waiter *waiter = arg;

    for (;;) {
        umbra_event_wait(&waiter->event, UMBRA_NEVER);
        if (waiter->quit)
            return NULL;
        note(waiter->letter);
        waiter->turns++;
    }
}

static void begin_waiters(struct waiter *waiter, int count)
{
    for (int i = 0; i < count; i++) {
        waiter[i] = (struct waiter){.letter = (char)('1' + i)};
        waiter[i].event = (struct umbra_event)UMBRA_EVENT_INIT;
        umbra_spawn(waits, &waiter[i], &waiter[i].fiber);
    }
    umbra_yield(); /* each waits now */
}

static void end_waiters(struct waiter *waiter, int count)
{
    for (int i = 0; i < count; i++) {
        waiter[i].quit = true;
        umbra_event_signal(&waiter[i].event);
        cr_expect_eq(umbra_join(waiter[i].fiber, UMBRA_NEVER, NULL), 0);
    }
}

/* One that only yields, so many times. */
struct yielder {
    struct umbra_fiber fiber;
    char letter;
    int turns;
};

static void *yields(void *arg)
{
    struct yielder *yielder = arg;

    for (int i = 0; i < yielder->turns; i++) {
        note(yielder->letter);
        umbra_yield();
    }
    return NULL;
}

static void begin_yielders(struct yielder *yielder, int count, int turns)
{
    for (int i = 0; i < count; i++) {
        yielder[i] = (struct yielder){.letter = (char)('a' + i), .turns = turns};
        umbra_spawn(yields, &yielder[i], &yielder[i].fiber);
    }
}

static void end_yielders(struct yielder *yielder, int count)
{
    for (int i = 0; i < count; i++)
        cr_expect_eq(umbra_join(yielder[i].fiber, UMBRA_NEVER, NULL), 0);
}

static void notes_are(const char *expected)
{
    cr_expect_str_eq(notes, expected, "turns: %s", notes);
    memset(notes, 0, sizeof notes);
    noted = 0;
}

/* ---- woken fibers go first ---- */

static void *woken_first(void *arg)
{
    struct waiter waiter[3];
    struct yielder yielder[3];

    begin_waiters(waiter, 3);
    begin_yielders(yielder, 3, 2);
    umbra_yield();
    notes_are("abc");
    for (int i = 2; i >= 0; i--)
        umbra_event_signal(&waiter[i].event);
    umbra_yield();
    notes_are("321abc");
    umbra_event_signal(&waiter[1].event);
    umbra_yield();
    notes_are("2");
    end_yielders(yielder, 3);
    end_waiters(waiter, 3);
    return arg;
}

Test(order, woken_fibers_go_before_those_that_yielded_in_the_order_of_their_signals)
{
    cr_assert_eq(run_cores(1, woken_first, NULL), 0);
}

static void *woken_again(void *arg)
{
    struct waiter waiter[2];
    struct yielder yielder[1];

    begin_waiters(waiter, 2);
    begin_yielders(yielder, 1, 5);
    for (int i = 0; i < 5; i++) {
        umbra_event_signal(&waiter[i % 2].event);
        umbra_yield();
    }
    notes_are("1a2a1a2a1a");
    end_yielders(yielder, 1);
    end_waiters(waiter, 2);
    return arg;
}

Test(order, one_that_has_run_since_gives_way_again)
{
    cr_assert_eq(run_cores(1, woken_again, NULL), 0);
}

static void *stands_aside(void *arg)
{
    note(*(char *)arg);
    return NULL;
}

static void *continued_first(void *arg)
{
    struct umbra_spawn_options aside = on_core(0);
    struct yielder yielder[2];
    struct umbra_fiber stopped;
    char letter = 's';

    aside.stopped = true;
    cr_expect_eq(umbra_spawn_with(NULL, &aside, stands_aside, &letter, &stopped), 0);
    begin_yielders(yielder, 2, 1);
    cr_expect_eq(umbra_continue(stopped), 0);
    umbra_yield();
    notes_are("sab");
    umbra_join(stopped, UMBRA_NEVER, NULL);
    end_yielders(yielder, 2);
    return arg;
}

Test(order, a_continued_fiber_goes_first)
{
    cr_assert_eq(run_cores(1, continued_first, NULL), 0);
}

static void *canceled_first(void *arg)
{
    struct waiter waiter[1];
    struct yielder yielder[2];

    begin_waiters(waiter, 1);
    begin_yielders(yielder, 2, 1);
    waiter->quit = true;
    cr_expect_eq(umbra_cancel(waiter->fiber), 0);
    umbra_yield();
    notes_are("ab");
    cr_expect_eq(umbra_fiber_info(waiter->fiber, NULL), UMBRA_FIBER_TERMINATED);
    umbra_join(waiter->fiber, UMBRA_NEVER, NULL);
    end_yielders(yielder, 2);
    return arg;
}

Test(order, a_canceled_wait_ends_before_those_that_yielded_have_had_two_turns)
{
    cr_assert_eq(run_cores(1, canceled_first, NULL), 0);
}

/* ---- transfers out of the middle ---- */

static void *transferred(void *arg)
{
    struct waiter waiter[4];
    struct yielder yielder[2];

    begin_waiters(waiter, 4);
    begin_yielders(yielder, 2, 2);
    for (int i = 0; i < 3; i++)
        umbra_event_signal(&waiter[i].event);
    umbra_continue(umbra_self()); /* stays ready */
    cr_expect_eq(umbra_transfer(waiter[2].fiber), 0);
    notes_are("312ab");
    umbra_event_signal(&waiter[0].event);
    umbra_event_signal(&waiter[1].event);
    umbra_continue(umbra_self());
    cr_expect_eq(umbra_transfer(waiter[0].fiber), 0);
    notes_are("12ab");
    end_yielders(yielder, 2);
    end_waiters(waiter, 4);
    return arg;
}

Test(order, a_transfer_takes_a_woken_fiber_out_of_any_place)
{
    cr_assert_eq(run_cores(1, transferred, NULL), 0);
}

static void *woken_after_transfer(void *arg)
{
    struct waiter waiter[4];
    struct yielder yielder[1];
    struct umbra_fiber self = umbra_self();

    begin_waiters(waiter, 4);
    begin_yielders(yielder, 1, 1);
    for (int i = 0; i < 3; i++)
        umbra_event_signal(&waiter[i].event);
    umbra_continue(self);
    cr_expect_eq(umbra_transfer(yielder->fiber), 0); /* out of the place behind the woken ones */
    notes_are("a123");
    end_yielders(yielder, 1);
    end_waiters(waiter, 4);
    return arg;
}

Test(order, a_transfer_takes_the_first_that_was_not_woken)
{
    cr_assert_eq(run_cores(1, woken_after_transfer, NULL), 0);
}

/* ---- the bound ---- */

#define TURNS 100
#define BOUND 16 /* UM_WOKEN_IN_A_ROW; umbra/fiber.h names it */

struct pair {
    struct umbra_event ping, pong;
    int turns; /* of both */
    bool quit;
};

static void *pings(void *arg)
{
    struct pair *pair = arg;

    while (!pair->quit) {
        umbra_event_signal(&pair->ping);
        umbra_event_wait(&pair->pong, UMBRA_NEVER);
        pair->turns++;
    }
    umbra_event_signal(&pair->ping);
    return NULL;
}

static void *pongs(void *arg)
{
    struct pair *pair = arg;

    while (!pair->quit) {
        umbra_event_wait(&pair->ping, UMBRA_NEVER);
        pair->turns++;
        umbra_event_signal(&pair->pong);
    }
    return NULL;
}

static void *beside_a_pair(void *arg)
{
    struct pair pair = {.ping = UMBRA_EVENT_INIT, .pong = UMBRA_EVENT_INIT};
    struct umbra_fiber fiber[2];
    int last = 0;

    umbra_spawn(pings, &pair, &fiber[0]);
    umbra_spawn(pongs, &pair, &fiber[1]);
    umbra_yield();
    last = pair.turns;
    for (int i = 0; i < TURNS; i++) {
        umbra_yield();
        /* one of the two was ready before this fiber yielded */
        cr_expect_leq(pair.turns - last, 1 + BOUND, "%d turns in a row", pair.turns - last);
        cr_expect_gt(pair.turns - last, 1, "the pair goes first");
        last = pair.turns;
    }
    pair.quit = true;
    umbra_join(fiber[0], UMBRA_NEVER, NULL);
    umbra_join(fiber[1], UMBRA_NEVER, NULL);
    return arg;
}

Test(order, a_pair_that_wakes_each_other_does_not_own_the_core)
{
    cr_assert_eq(run_cores(1, beside_a_pair, NULL), 0);
}

#define STORM 40
#define BESIDE 3

struct storm {
    struct waiter waiter[STORM];
    int slices[BESIDE];
    int in_a_row; /* woken fibers since the last slice */
    int most;
    int next; /* the waiter that has waited longest */
};

static void *stormy_waits(void *arg)
{
    struct storm *storm = arg;
    struct waiter *waiter = &storm->waiter[storm->next++];

    for (;;) {
        while (umbra_event_wait(&waiter->event, 0) == 0)
            continue; /* each turn waits; else it would be part of the one before */
        if (!waiter->quit)
            umbra_event_wait(&waiter->event, UMBRA_NEVER);
        if (waiter->quit)
            return NULL;
        waiter->turns++;
        if (++storm->in_a_row > storm->most)
            storm->most = storm->in_a_row;
        umbra_event_signal(&storm->waiter[rand() % STORM].event);
        umbra_event_signal(&storm->waiter[rand() % STORM].event);
    }
}

struct beside {
    struct storm *storm;
    int index;
};

static void *works_beside(void *arg)
{
    struct beside *beside = arg;

    for (int i = 0; i < TURNS; i++) {
        beside->storm->in_a_row = 0;
        beside->storm->slices[beside->index]++;
        for (int k = 0; k < BESIDE; k++) /* all have the same share, to a slice */
            cr_expect_leq(abs(beside->storm->slices[k] - beside->storm->slices[beside->index]), 1);
        umbra_yield();
    }
    beside->storm->in_a_row = 0;
    return NULL;
}

static void *in_a_storm(void *arg)
{
    static struct storm storm;
    struct umbra_fiber fiber[BESIDE];
    struct beside beside[BESIDE];

    srand(1);
    for (int i = 0; i < STORM; i++)
        umbra_spawn(stormy_waits, &storm, &storm.waiter[i].fiber);
    umbra_yield();
    for (int i = 0; i < STORM; i++)
        umbra_event_signal(&storm.waiter[i].event);
    for (int i = 0; i < BESIDE; i++) {
        beside[i] = (struct beside){&storm, i};
        umbra_spawn(works_beside, &beside[i], &fiber[i]);
    }
    for (int i = 0; i < BESIDE; i++) {
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
        storm.in_a_row = 0; /* a turn of this fiber */
    }
    /* all may have been ready when this fiber began to wait, and when another one yielded */
    cr_expect_leq(storm.most, STORM + BOUND, "%d turns in a row", storm.most);
    for (int i = 0; i < STORM; i++) {
        cr_expect_gt(storm.waiter[i].turns, 0, "waiter %d never ran", i);
        storm.waiter[i].quit = true;
    }
    for (int i = 0; i < STORM; i++)
        umbra_event_signal(&storm.waiter[i].event);
    for (int i = 0; i < STORM; i++)
        umbra_join(storm.waiter[i].fiber, UMBRA_NEVER, NULL);
    return arg;
}

Test(order, a_storm_of_wake_ups_leaves_the_others_their_turns)
{
    cr_assert_eq(run_cores(1, in_a_storm, NULL), 0);
}

/* ---- what is sent here, and what is not ---- */

struct sender {
    struct umbra_runtime *runtime;
    struct waiter *waiter;
    _Atomic int sent;
};

static void *sends(void *arg)
{
    struct sender *sender = arg;
    struct umbra_spawn_options here = on_core(0);
    static char letter = 's';

    cr_expect_eq(umbra_spawn_with(sender->runtime, &here, stands_aside, &letter, NULL), 0);
    umbra_event_signal(&sender->waiter->event);
    atomic_store(&sender->sent, 1);
    return NULL;
}

static void *sent_first(void *arg)
{
    struct waiter waiter[1];
    struct yielder yielder[2];
    struct sender sender = {.runtime = umbra_runtime_self(), .waiter = waiter};
    pthread_t thread;

    begin_waiters(waiter, 1);
    begin_yielders(yielder, 2, 1);
    cr_expect_eq(pthread_create(&thread, NULL, sends, &sender), 0);
    while (!atomic_load(&sender.sent)) /* this core attends to nothing meanwhile */
        sched_yield();
    umbra_yield();
    notes_are("s1ab");
    pthread_join(thread, NULL);
    end_yielders(yielder, 2);
    end_waiters(waiter, 1);
    return arg;
}

Test(order, what_another_thread_sends_or_wakes_goes_first)
{
    cr_assert_eq(run_cores(1, sent_first, NULL), 0);
}

static void *spawned_last(void *arg)
{
    struct yielder yielder[2];
    struct umbra_spawn_options named = {.name = "named"};
    struct umbra_fiber fiber[2];
    char letter[2] = {'x', 'y'};

    begin_yielders(yielder, 2, 2);
    umbra_spawn(stands_aside, &letter[0], &fiber[0]);
    umbra_spawn_with(NULL, &named, stands_aside, &letter[1], &fiber[1]);
    umbra_yield();
    notes_are("abxy");
    umbra_join(fiber[0], UMBRA_NEVER, NULL);
    umbra_join(fiber[1], UMBRA_NEVER, NULL);
    end_yielders(yielder, 2);
    return arg;
}

Test(order, what_the_core_spawns_itself_goes_last)
{
    cr_assert_eq(run_cores(1, spawned_last, NULL), 0);
}

#define ROW 20

static void *spawned_in_a_row(void *arg)
{
    struct umbra_fiber fiber[ROW];
    char letter[ROW];

    for (int i = 0; i < ROW; i++) {
        letter[i] = (char)('a' + i);
        umbra_spawn(stands_aside, &letter[i], &fiber[i]);
    }
    umbra_join(fiber[0], UMBRA_NEVER, NULL);
    notes_are("abcdefghijklmnopqrst");
    for (int i = 1; i < ROW; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    return arg;
}

Test(order, a_row_that_is_joined_in_its_order_has_ended_at_the_first_join)
{
    cr_assert_eq(run_cores(1, spawned_in_a_row, NULL), 0);
}

/* ---- a fiber's next life, on another core ---- */

#define LIVES 2000

static void *lives_once(void *arg)
{
    struct umbra_event *event = arg;

    umbra_event_wait(event, umbra_deadline(1000));
    umbra_yield();
    return NULL;
}

static void *lives_of_many(void *arg)
{
    static struct umbra_event event = UMBRA_EVENT_INIT;
    struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};
    struct umbra_fiber fiber[8];

    for (int i = 0; i < LIVES; i++) {
        for (int k = 0; k < 8; k++)
            cr_expect_eq(
                umbra_spawn_with(NULL, k % 2 ? &anywhere : NULL, lives_once, &event, &fiber[k]), 0);
        umbra_event_signal(&event);
        for (int k = 0; k < 8; k++)
            cr_expect_eq(umbra_join(fiber[k], UMBRA_NEVER, NULL), 0);
    }
    return arg;
}

Test(order, fibers_that_were_woken_here_live_on_other_cores_next)
{
    cr_assert_eq(run_cores(3, lives_of_many, NULL), 0);
}

/* ---- timers ---- */

#define SLICE_NS (100 * UINT64_C(1000))
#define SLEEPS 10

struct sliced {
    uint64_t due; /* on umbra_now_ns(); 0: none */
    int late;     /* slices that began after that, of all sleeps */
    bool quit;
};

static void *slices(void *arg)
{
    struct sliced *sliced = arg;

    while (!sliced->quit) {
        uint64_t begin = umbra_now_ns();

        if (sliced->due != 0 && begin > sliced->due)
            sliced->late++;
        while (umbra_now_ns() - begin < SLICE_NS)
            umbra_pause();
        umbra_yield();
    }
    return NULL;
}

static void *notes_fiber(void *unused)
{
    note('f');
    return unused;
}

static void notes_task(void *unused)
{
    (void)unused;
    note('t');
}

static void *yields_to_what_has_no_place(void *unused)
{
    struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};
    struct umbra_fiber fiber;
    struct umbra_task task;

    (void)unused;
    cr_expect_eq(umbra_spawn_with(NULL, &anywhere, notes_fiber, NULL, &fiber), 0);
    cr_expect_eq(umbra_task_start(NULL, &task, notes_task, NULL), 0);
    umbra_yield();
    note('y');
    cr_expect_str_eq(notes, "fty");
    umbra_join(fiber, UMBRA_NEVER, NULL);
    umbra_task_join(&task, UMBRA_NEVER);
    return NULL;
}

Test(order, what_has_no_place_runs_within_one_yield)
{
    cr_assert_eq(run_cores(1, yields_to_what_has_no_place, NULL), 0);
}

static void *sleeps_beside_slices(void *arg)
{
    struct umbra_event never = UMBRA_EVENT_INIT;
    struct sliced sliced = {.due = 0};
    struct umbra_fiber fiber[4];

    for (int i = 0; i < 4; i++)
        umbra_spawn(slices, &sliced, &fiber[i]);
    umbra_sleep_ns(1 * MS); /* from here on the core knows how long the slices are */
    for (int i = 0; i < SLEEPS; i++) {
        uint64_t deadline = umbra_deadline(1 * MS);

        sliced.due = umbra_now_ns() + 1 * MS + SLICE_NS / 10; /* after the deadline */
        cr_expect_eq(umbra_event_wait(&never, deadline), -ETIMEDOUT);
        sliced.due = 0;
    }
    /* one each, and some more where the thread was interrupted between two short turns */
    cr_expect_leq(sliced.late, 2 * SLEEPS, "%d slices began after their sleep's end", sliced.late);
    sliced.quit = true;
    for (int i = 0; i < 4; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    return arg;
}

Test(order, a_sleep_ends_with_the_slice_in_which_its_time_comes)
{
    if (under_valgrind)
        cr_skip_test("the two clocks are not those of one machine");
    cr_assert_eq(run_cores(1, sleeps_beside_slices, NULL), 0);
}
