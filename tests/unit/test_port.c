/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include "fibers.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <port_count.h>

struct note {
    int number;
    struct umbra_message message; /* not the first member */
};

typedef UMBRA_PORT(struct note) note_port;

#define NOTES 32
static struct note notes[NOTES];
static note_port a = {UMBRA_PORT_INIT}, b = {UMBRA_PORT_INIT}, c = {UMBRA_PORT_INIT};

static uint64_t in_ms(uint64_t ms)
{
    return umbra_deadline(ms * MS);
}

static int number_of(struct umbra_message *message)
{
    return message ? UMBRA_MESSAGE_AS(struct note, message)->number : -1;
}

/* Posts notes from..to-1. */
static void post(note_port *port, int from, int to)
{
    for (int i = from; i < to; i++) {
        notes[i].number = i;
        cr_expect_eq(UMBRA_PORT_POST(port, &notes[i], UMBRA_NEVER), 0);
    }
}

/* The next message's number, or the error. */
static int next(note_port *port)
{
    struct note *note = NULL;
    int error = UMBRA_PORT_RECEIVE(port, &note, 0);

    return error == 0 ? note->number : error;
}

/* Yields until a fiber is blocked. */
static void until_blocked(struct umbra_fiber fiber)
{
    while (umbra_fiber_info(fiber, NULL) != UMBRA_FIBER_BLOCKED)
        umbra_yield();
}

/* ---- ports: one thread ---- */

/* Up to so many messages: how many, with the first number; or the error. */
static int some(note_port *port, uint64_t most, int *first)
{
    struct umbra_message *messages = NULL;
    int error = umbra_port_receive_some(&port->port, most, 0, &messages);
    int count = 0;

    *first = number_of(messages);
    for (; messages; messages = messages->next)
        count++;
    return error == 0 ? count : error;
}

Test(port, gives_some_messages_at_once)
{
    note_port bounded = {UMBRA_PORT_INIT_BOUNDED(3)};
    int first;

    cr_expect_eq(some(&a, 0, &first), -EINVAL);
    cr_expect_eq(some(&a, 4, &first), -ETIMEDOUT);
    post(&a, 0, 7);
    cr_expect_eq(some(&a, 4, &first), 4);
    cr_expect_eq(first, 0);
    cr_expect_eq(next(&a), 4);
    cr_expect_eq(some(&a, 4, &first), 2);
    cr_expect_eq(first, 5);
    post(&bounded, 0, 3);
    cr_expect_eq(some(&bounded, 9, &first), 3);
    UMBRA_PORT_CLOSE(&bounded);
    cr_expect_eq(some(&bounded, 9, &first), -EPIPE);
}

/* With and without the lock in turns: a receiver that waits has the posts take it. */
static void *in_turns(void *arg)
{
    for (int i = 0; i < 4; i++) {
        struct umbra_branch both = {UMBRA_ITEMS(2, UMBRA_FROM(&a), UMBRA_FROM(&b))};
        struct umbra_message *messages = NULL;

        cr_expect_eq(umbra_choose(&both, 1, 0, NULL, &messages), -ETIMEDOUT); /* was listed */
        post(&a, 2 * i, 2 * i + 1);
        cr_expect_eq(next(&b), -ETIMEDOUT);
        post(&a, 2 * i + 1, 2 * i + 2);
        cr_expect_eq(next(&a), 2 * i);
        cr_expect_eq(next(&a), 2 * i + 1);
    }
    return arg;
}

Test(port, keeps_the_order_of_posts_with_and_without_a_lock)
{
    in_turns(NULL);
    cr_assert_eq(run_cores(1, in_turns, NULL), 0);
}

Test(port, is_first_in_first_out)
{
    struct note *note = NULL;

    cr_assert_eq(next(&a), -ETIMEDOUT);
    post(&a, 0, 3);
    cr_assert_eq(count_of(&a.port), 3);
    cr_assert_eq(next(&a), 0);
    post(&a, 3, 4);
    cr_assert_eq(next(&a), 1);
    cr_assert_eq(UMBRA_PORT_RECEIVE(&a, &note, UMBRA_NEVER), 0);
    cr_assert_eq(note, &notes[2]);
    cr_assert_eq(note->message.port, &a.port);
    cr_assert_eq(next(&a), 3);
    cr_assert_eq(next(&a), -ETIMEDOUT);
    post(&a, 0, 1);
    cr_assert_eq(next(&a), 0, "a message can be posted again");
}

Test(port, knows_the_type_of_its_messages)
{
    note_port *made = malloc(sizeof(*made));

    memset(made, 0xa5, sizeof(*made));
    UMBRA_PORT_OPEN(made, 1);
    cr_assert_eq(sizeof(*made), sizeof(struct umbra_port));
    cr_assert_eq(UMBRA_MESSAGE_OF(made, &notes[4].message), &notes[4]);
    cr_assert_null(UMBRA_MESSAGE_OF(made, (struct umbra_message *)NULL));
    cr_assert_eq(count_of(&(made)->port), 0);
    cr_assert_eq(UMBRA_PORT_POST(made, &notes[0], 0), 0);
    cr_assert_eq(UMBRA_PORT_POST(made, &notes[1], 0), -ETIMEDOUT);
    free(made);
}

/* Both kinds of port as sources at file scope, where only constants may stand. */
static struct umbra_port untyped = UMBRA_PORT_INIT;
static struct umbra_branch either[] = {{UMBRA_RECEIVE(&untyped)},
                                       {UMBRA_JOIN(UMBRA_FROM(&a), UMBRA_FROM(&untyped))},
                                       {UMBRA_RECEIVE(&a.port)}};

Test(port, with_and_without_a_type_are_sources_alike)
{
    struct umbra_message *got = NULL;
    unsigned which = 7;

    cr_assert_eq(count_of(&a.port), 0);
    post(&a, 3, 4);
    cr_assert_eq(count_of(&a.port), 1);
    cr_assert_eq(umbra_choose(either, 3, 0, &which, &got), 0);
    cr_assert_eq(which, 2);
    cr_assert_eq(number_of(got), 3);
    cr_assert_eq(UMBRA_PORT_CLOSE(&a), 0);
    cr_assert_eq(umbra_port_close(&a.port), -EALREADY, "the same port");
    cr_assert_eq(umbra_port_post(&untyped, got, UMBRA_NEVER), 0);
    cr_assert_eq(umbra_choose(either, 3, 0, &which, &got), 0);
    cr_assert_eq(which, 0);
    cr_assert(UMBRA_MESSAGE_FROM(&untyped, got));
}

Test(port, deadlines_end_waits)
{
    uint64_t start = umbra_now_ns();
    struct note *note = &notes[7];

    cr_assert_eq(UMBRA_PORT_RECEIVE(&a, &note, 0), -ETIMEDOUT);
    cr_assert_eq(UMBRA_PORT_RECEIVE(&a, &note, in_ms(3)), -ETIMEDOUT);
    cr_assert_geq(umbra_now_ns() - start, 3 * MS - 1000);
    cr_assert_eq(note, &notes[7], "untouched on failure");
    post(&a, 0, 1);
    cr_assert_eq(UMBRA_PORT_RECEIVE(&a, &note, 0), 0, "a message beats the deadline");
    post(&a, 1, 2);
    cr_assert_eq(next(&a), 1, "who gave up takes nothing");
}

Test(port, a_closed_one_can_be_drained)
{
    struct note *note;

    post(&a, 0, 2);
    cr_assert_eq(UMBRA_PORT_CLOSE(&a), 0);
    cr_assert_eq(UMBRA_PORT_CLOSE(&a), -EALREADY);
    cr_assert_eq(UMBRA_PORT_POST(&a, &notes[5], UMBRA_NEVER), -EPIPE);
    cr_assert_eq(UMBRA_PORT_POST(&a, &notes[5], 0), -EPIPE);
    cr_assert_eq(UMBRA_PORT_RECEIVE(&a, &note, UMBRA_NEVER), 0);
    cr_assert_eq(next(&a), 1);
    cr_assert_eq(next(&a), -EPIPE);
    cr_assert_eq(UMBRA_PORT_RECEIVE(&a, &note, UMBRA_NEVER), -EPIPE);
}

/* ---- ports: who waits ---- */

static int order[NOTES];
static int received;

static void *receives(void *arg)
{
    struct note *note;
    int error = UMBRA_PORT_RECEIVE(&a, &note, UMBRA_NEVER);

    order[(intptr_t)arg] = error == 0 ? note->number : error;
    received++;
    return arg;
}

static void spawn_receivers(struct umbra_fiber *fiber, int count)
{
    for (int i = 0; i < count; i++)
        umbra_spawn(receives, (void *)(intptr_t)i, &fiber[i]);
    for (int i = 0; i < count; i++)
        until_blocked(fiber[i]);
}

static void *many_receive(void *arg)
{
    struct umbra_fiber fiber[4];

    spawn_receivers(fiber, 4);
    post(&a, 0, 3);
    cr_expect_eq(next(&a), -ETIMEDOUT, "they belong to those that wait");
    UMBRA_PORT_CLOSE(&a);
    for (int i = 0; i < 4; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(order[i], i < 3 ? i : -EPIPE, "%d got %d", i, order[i]);
    return arg;
}

Test(port, who_has_waited_longest_is_served_first)
{
    cr_assert_eq(run_cores(1, many_receive, NULL), 0);
}

static void *thread_answers(void *arg)
{
    struct umbra_runtime *runtime = arg;
    struct note *note;

    umbra_hold(runtime);
    while (UMBRA_PORT_RECEIVE(&a, &note, UMBRA_NEVER) == 0) {
        note->number *= 2;
        cr_expect_eq(UMBRA_PORT_POST(&b, note, UMBRA_NEVER), 0);
    }
    umbra_release(runtime);
    return NULL;
}

static void *asks_a_thread(void *arg)
{
    pthread_t thread;
    struct note *note;

    pthread_create(&thread, NULL, thread_answers, umbra_runtime_self());
    for (int i = 0; i < 100; i++) {
        struct note question = {.number = i};

        cr_expect_eq(UMBRA_PORT_POST(&a, &question, UMBRA_NEVER), 0);
        cr_expect_eq(UMBRA_PORT_RECEIVE(&b, &note, in_ms(60000)), 0);
        cr_expect_eq(note, &question);
        cr_expect_eq(note->number, 2 * i);
    }
    UMBRA_PORT_CLOSE(&a);
    pthread_join(thread, NULL);
    return arg;
}

Test(port, fibers_and_threads_talk)
{
    cr_assert_eq(run_cores(1, asks_a_thread, NULL), 0);
}

static int said[4];

static void on_alternate_stack(int number)
{
    static note_port full = {UMBRA_PORT_INIT_BOUNDED(1)}, empty = {UMBRA_PORT_INIT};
    struct umbra_branch branch[] = {{UMBRA_RECEIVE(&empty)}};
    struct note *note;

    (void)number;
    UMBRA_PORT_POST(&full, &notes[0], UMBRA_NEVER);
    said[0] = UMBRA_PORT_RECEIVE(&empty, &note, UMBRA_NEVER);
    said[1] = UMBRA_PORT_POST(&full, &notes[1], UMBRA_NEVER);
    said[2] = UMBRA_PORT_POST(&full, &notes[1], in_ms(1));
    said[3] = umbra_choose(branch, 1, UMBRA_NEVER, NULL, NULL);
}

static void *raises(void *arg)
{
    struct sigaction action = {.sa_handler = on_alternate_stack, .sa_flags = SA_ONSTACK};
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536}, before;

    sigaltstack(&stack, &before);
    sigaction(SIGUSR1, &action, NULL);
    pthread_kill(pthread_self(), SIGUSR1);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(said[i], -EPERM, "call %d said %d", i, said[i]);
    sigaltstack(&before, NULL);
    free(stack.ss_sp);
    return arg;
}

Test(port, nothing_waits_on_an_alternate_signal_stack)
{
    cr_assert_eq(run_cores(1, raises, NULL), 0);
}

/* ---- bounded ports ---- */

static note_port two = {UMBRA_PORT_INIT_BOUNDED(2)};

static void *posts(void *arg)
{
    struct note *note = arg;
    int error = UMBRA_PORT_POST(&two, note, UMBRA_NEVER);

    order[received++] = error == 0 ? note->number : error;
    return arg;
}

static void *waits_for_room(void *arg)
{
    struct umbra_fiber fiber[3];

    post(&two, 0, 2);
    cr_expect_eq(UMBRA_PORT_POST(&two, &notes[9], 0), -ETIMEDOUT);
    cr_expect_eq(UMBRA_PORT_POST(&two, &notes[9], in_ms(1)), -ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        notes[2 + i].number = 2 + i;
        umbra_spawn(posts, &notes[2 + i], &fiber[i]);
        until_blocked(fiber[i]);
    }
    cr_expect_eq(count_of(&two.port), 2, "those that wait are not counted");
    for (int i = 0; i < 2; i++)
        cr_expect_eq(next(&two), i);
    cr_expect_eq(count_of(&two.port), 2, "they have moved up");
    cr_expect_eq(UMBRA_PORT_POST(&two, &notes[9], 0), -ETIMEDOUT, "and nobody is before them");
    UMBRA_PORT_CLOSE(&two);
    for (int i = 0; i < 3; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    cr_expect_eq(order[0], 2);
    cr_expect_eq(order[1], 3);
    cr_expect_eq(order[2], -EPIPE, "closed while it waited for room");
    cr_expect_eq(next(&two), 2);
    cr_expect_eq(next(&two), 3);
    cr_expect_eq(next(&two), -EPIPE);
    return arg;
}

Test(port, a_full_one_makes_posters_wait)
{
    cr_assert_eq(run_cores(1, waits_for_room, NULL), 0);
}

static void *thread_posts(void *arg)
{
    umbra_hold(arg);
    post(&two, 0, NOTES);
    cr_expect_eq(UMBRA_PORT_POST(&two, &notes[0], in_ms(60000)), 0);
    umbra_release(arg);
    return NULL;
}

static void *receives_from_thread(void *arg)
{
    pthread_t thread;
    struct note *note;

    pthread_create(&thread, NULL, thread_posts, umbra_runtime_self());
    while (count_of(&two.port) < 2)
        umbra_yield();
    umbra_sleep_ns(MS); /* it may have gone to sleep */
    for (int i = 0; i <= NOTES; i++) {
        cr_expect_eq(UMBRA_PORT_RECEIVE(&two, &note, in_ms(60000)), 0);
        cr_expect_eq(note->number, i % NOTES);
    }
    pthread_join(thread, NULL);
    return arg;
}

Test(port, a_full_one_makes_threads_wait)
{
    cr_assert_eq(run_cores(1, receives_from_thread, NULL), 0);
}

/* ---- branches ---- */

/* A post with a deadline that has passed, but too late: the message was taken, and its port is gone. */
struct gone {
    struct umbra_port *port;
    struct umbra_message message[2];
    uint64_t deadline;
    int posted;
};

static void *posts_late(void *arg)
{
    struct gone *gone = arg;

    umbra_port_post(gone->port, &gone->message[0], UMBRA_NEVER);
    gone->deadline = umbra_deadline(20000000);
    gone->posted = umbra_port_post(gone->port, &gone->message[1], gone->deadline);
    return NULL;
}

static void *keeps_the_core_busy(void *arg)
{
    const struct gone *gone = arg;

    while (umbra_now_ns() < gone->deadline + 1000000)
        ;
    return NULL;
}

static void *takes_all_and_frees(void *arg)
{
    struct gone gone = {.port = malloc(sizeof(struct umbra_port))};
    struct umbra_event quiet = UMBRA_EVENT_INIT; /* never signaled */
    struct umbra_message *message;
    struct umbra_fiber poster, busy;
    int taken = 0;

    (void)arg;
    cr_assert_not_null(gone.port);
    UMBRA_PORT_OPEN(gone.port, 1);
    cr_expect_eq(umbra_spawn(posts_late, &gone, &poster), 0);
    while (gone.deadline == 0)
        umbra_yield();
    cr_expect_eq(umbra_spawn(keeps_the_core_busy, &gone, &busy), 0);
    umbra_event_wait(&quiet, gone.deadline - 100000);
    while (umbra_port_receive(gone.port, &message, 0) == 0)
        taken++;
    cr_expect_geq(taken, 1);
    if (taken == 2) {
        memset(gone.port, 1, sizeof(*gone.port));
        free(gone.port);
    }
    umbra_join(poster, UMBRA_NEVER, NULL);
    umbra_join(busy, UMBRA_NEVER, NULL);
    cr_expect_eq(gone.posted, taken == 2 ? 0 : -ETIMEDOUT);
    if (taken != 2)
        free(gone.port);
    return NULL;
}

Test(port, a_post_that_gives_up_too_late_leaves_the_port_alone)
{
    cr_assert_eq(run_cores(1, takes_all_and_frees, NULL), 0);
}

Test(port, wrong_branches_are_told)
{
    struct umbra_branch none = {.items = 1}, twice = {UMBRA_JOIN(UMBRA_FROM(&a), UMBRA_FROM(&a))};
    struct umbra_branch many = {UMBRA_ITEMS(3, UMBRA_FROM(&a), UMBRA_FROM(&two))};
    struct umbra_branch nothing = {UMBRA_ITEMS(0, UMBRA_FROM(&a))};
    struct umbra_branch nowhere = {UMBRA_RECEIVE((note_port *)NULL)};
    struct umbra_branch good = {UMBRA_RECEIVE(&a)};

    cr_assert_eq(umbra_choose(&good, 0, 0, NULL, NULL), -EINVAL);
    cr_assert_eq(umbra_choose(&none, 1, 0, NULL, NULL), -EINVAL);
    cr_assert_eq(umbra_choose(&twice, 1, 0, NULL, NULL), -EINVAL);
    cr_assert_eq(umbra_choose(&many, 1, 0, NULL, NULL), -EINVAL, "would wait for ever");
    cr_assert_eq(umbra_choose(&nothing, 1, 0, NULL, NULL), -EINVAL);
    cr_assert_eq(umbra_choose(&nowhere, 1, 0, NULL, NULL), -EINVAL);
    cr_assert_eq(umbra_choose(&good, 1, 0, NULL, NULL), -ETIMEDOUT);
}

Test(port, a_choice_takes_one_branch)
{
    struct umbra_branch branch[] = {{UMBRA_RECEIVE(&a)},
                                    {UMBRA_JOIN(UMBRA_FROM(&b), UMBRA_FROM(&c))}};
    struct umbra_message *got = NULL;
    unsigned which = 7;

    cr_assert_eq(umbra_choose(branch, 2, in_ms(1), &which, &got), -ETIMEDOUT);
    cr_assert_eq(which, 7, "untouched on failure");
    post(&b, 0, 1);
    post(&c, 1, 2);
    post(&a, 2, 3);
    cr_assert_eq(umbra_choose(branch, 2, 0, &which, &got), 0);
    cr_assert_eq(which, 0, "the first of the array");
    cr_assert_eq(number_of(got), 2);
    cr_assert_null(got->next);
    cr_assert_eq(umbra_choose(branch, 2, 0, &which, &got), 0);
    cr_assert_eq(which, 1);
    cr_assert_eq(number_of(got), 0, "in the order of the sources");
    cr_assert_eq(number_of(got->next), 1);
    cr_assert_null(got->next->next);
}

Test(port, a_join_takes_all_or_none)
{
    struct umbra_branch join = {UMBRA_JOIN(UMBRA_FROM(&a), UMBRA_FROM(&b), UMBRA_FROM(&c))};
    struct umbra_message *got;

    post(&a, 0, 2);
    post(&b, 2, 4);
    cr_assert_eq(umbra_choose(&join, 1, in_ms(1), NULL, &got), -ETIMEDOUT);
    cr_assert_eq(count_of(&a.port), 2);
    cr_assert_eq(next(&a), 0, "what was not taken is in front");
    post(&c, 4, 5);
    cr_assert_eq(umbra_choose(&join, 1, UMBRA_NEVER, NULL, &got), 0);
    cr_assert_eq(number_of(got), 1);
    cr_assert_eq(number_of(got->next), 2);
    cr_assert_eq(number_of(got->next->next), 4);
    cr_assert_eq(next(&b), 3);
}

Test(port, items_come_together)
{
    struct umbra_branch three = {UMBRA_ITEMS(3, UMBRA_FROM(&a))};
    struct umbra_branch four = {UMBRA_ITEMS(4, UMBRA_FROM(&a), UMBRA_FROM(&b))};
    struct umbra_message *got;

    post(&a, 0, 2);
    cr_assert_eq(umbra_choose(&three, 1, 0, NULL, &got), -ETIMEDOUT);
    post(&a, 2, 5);
    cr_assert_eq(umbra_choose(&three, 1, 0, NULL, &got), 0);
    for (int i = 0; i < 3; i++, got = got->next)
        cr_assert_eq(number_of(got), i);
    cr_assert_null(got);
    post(&b, 5, 6);
    cr_assert_eq(umbra_choose(&four, 1, 0, NULL, &got), -ETIMEDOUT);
    post(&b, 6, 8);
    cr_assert_eq(umbra_choose(&four, 1, 0, NULL, &got), 0);
    for (int i = 3; i < 7; i++, got = got->next) {
        cr_assert_eq(number_of(got), i);
        cr_assert_eq(got->port, i < 5 ? &a.port : &b.port, "successes and failures");
        cr_assert_eq(UMBRA_MESSAGE_FROM(&a, got), i < 5);
        cr_assert_eq(UMBRA_MESSAGE_FROM(&b.port, got), i >= 5, "without its type");
    }
    cr_assert_eq(next(&b), 7, "what is too much stays");
}

Test(port, who_can_never_go_is_told)
{
    struct umbra_branch join = {UMBRA_JOIN(UMBRA_FROM(&a), UMBRA_FROM(&b))};
    struct umbra_branch items = {UMBRA_ITEMS(2, UMBRA_FROM(&a), UMBRA_FROM(&b))};
    struct umbra_branch any[] = {{UMBRA_RECEIVE(&a)}, {UMBRA_RECEIVE(&b)}};

    post(&b, 0, 1);
    UMBRA_PORT_CLOSE(&a);
    cr_assert_eq(umbra_choose(&join, 1, UMBRA_NEVER, NULL, NULL), -EPIPE);
    cr_assert_eq(umbra_choose(&items, 1, in_ms(1), NULL, NULL), -ETIMEDOUT, "b may go on");
    cr_assert_eq(umbra_choose(any, 2, UMBRA_NEVER, NULL, NULL), 0);
    cr_assert_eq(umbra_choose(any, 2, in_ms(1), NULL, NULL), -ETIMEDOUT);
    UMBRA_PORT_CLOSE(&b);
    cr_assert_eq(umbra_choose(&items, 1, UMBRA_NEVER, NULL, NULL), -EPIPE);
    cr_assert_eq(umbra_choose(any, 2, UMBRA_NEVER, NULL, NULL), -EPIPE);
}

/* Waits in a fiber while the main fiber does something to the ports. */
struct waiting {
    struct umbra_branch *branch;
    unsigned count;
    unsigned which;
    struct umbra_message *got;
    int error;
};

static void *chooses(void *arg)
{
    struct waiting *w = arg;

    w->error = umbra_choose(w->branch, w->count, UMBRA_NEVER, &w->which, &w->got);
    return NULL;
}

static struct umbra_fiber wait_for(struct waiting *w)
{
    struct umbra_fiber fiber;

    umbra_spawn(chooses, w, &fiber);
    until_blocked(fiber);
    return fiber;
}

static void *is_served_while_it_waits(void *arg)
{
    struct umbra_branch branch[] = {{UMBRA_JOIN(UMBRA_FROM(&a), UMBRA_FROM(&b))},
                                    {UMBRA_ITEMS(2, UMBRA_FROM(&c))}};
    struct waiting w = {.branch = branch, .count = 2};
    struct umbra_fiber fiber = wait_for(&w);

    post(&c, 0, 1);
    post(&a, 1, 3);
    cr_expect_eq(umbra_fiber_info(fiber, NULL), UMBRA_FIBER_BLOCKED);
    post(&b, 3, 4);
    post(&c, 4, 5); /* too late */
    umbra_join(fiber, UMBRA_NEVER, NULL);
    cr_expect_eq(w.error, 0);
    cr_expect_eq(w.which, 0);
    cr_expect_eq(number_of(w.got), 1);
    cr_expect_eq(number_of(w.got->next), 3);
    return arg;
}

Test(port, who_waits_is_served_by_the_post)
{
    cr_assert_eq(run_cores(1, is_served_while_it_waits, NULL), 0);
}

static void *is_closed_while_it_waits(void *arg)
{
    struct umbra_branch join[] = {{UMBRA_JOIN(UMBRA_FROM(&a), UMBRA_FROM(&b))}};
    struct umbra_branch any[] = {{UMBRA_RECEIVE(&b)}, {UMBRA_RECEIVE(&c)}};
    struct waiting w = {.branch = join, .count = 1}, v = {.branch = any, .count = 2};
    struct umbra_fiber joins = wait_for(&w), chooses_one = wait_for(&v);

    UMBRA_PORT_CLOSE(&c);
    post(&a, 0, 1);
    UMBRA_PORT_CLOSE(&a);
    umbra_yield();
    until_blocked(joins);
    cr_expect_eq(next(&a), 0, "another takes the last");
    umbra_join(joins, UMBRA_NEVER, NULL);
    cr_expect_eq(w.error, -EPIPE);
    until_blocked(chooses_one);
    post(&b, 1, 2);
    umbra_join(chooses_one, UMBRA_NEVER, NULL);
    cr_expect_eq(v.error, 0, "one branch was left");
    cr_expect_eq(v.which, 0);
    return arg;
}

Test(port, who_waits_learns_of_closing)
{
    cr_assert_eq(run_cores(1, is_closed_while_it_waits, NULL), 0);
}

/* ---- each call on a closed port, whatever was in it and waited for it ---- */

struct closed {
    uint64_t capacity;
    int messages; /* in it when it is closed */
    bool waited;  /* by a poster if it is full, by a receiver if it is empty */
};

static void *waits_until_closed(void *arg)
{
    struct closed *closed = arg;
    struct umbra_message *message;

    if (closed->messages > 0)
        cr_expect_eq(UMBRA_PORT_POST(&a, &notes[NOTES - 2], UMBRA_NEVER), -EPIPE);
    else
        cr_expect_eq(umbra_port_receive(&a.port, &message, UMBRA_NEVER), -EPIPE);
    return NULL;
}

static void post_to_closed(uint64_t deadline)
{
    cr_expect_eq(UMBRA_PORT_POST(&a, &notes[NOTES - 1], deadline), -EPIPE);
}

static void take_from_closed(uint64_t deadline)
{
    struct umbra_branch branch = {UMBRA_RECEIVE(&a)};
    struct umbra_message *message;

    cr_expect_eq(umbra_port_receive(&a.port, &message, deadline), -EPIPE);
    cr_expect_eq(umbra_port_receive_some(&a.port, 2, deadline, &message), -EPIPE);
    cr_expect_eq(umbra_choose(&branch, 1, deadline, NULL, NULL), -EPIPE);
}

static void close_one(struct closed *closed)
{
    struct umbra_fiber waiter;

    UMBRA_PORT_OPEN(&a, closed->capacity);
    post(&a, 0, closed->messages);
    if (closed->waited) {
        cr_expect_eq(umbra_spawn(waits_until_closed, closed, &waiter), 0);
        until_blocked(waiter);
    }
    cr_expect_eq(UMBRA_PORT_CLOSE(&a), 0);
    if (closed->waited)
        cr_expect_eq(umbra_join(waiter, UMBRA_NEVER, NULL), 0);
    for (int i = 0; i <= closed->messages; i++) {
        cr_expect_eq(UMBRA_PORT_CLOSE(&a), -EALREADY);
        post_to_closed(0);
        post_to_closed(in_ms(1));
        post_to_closed(UMBRA_NEVER);
        if (i < closed->messages)
            cr_expect_eq(next(&a), i);
    }
    take_from_closed(0);
    take_from_closed(in_ms(1));
    take_from_closed(UMBRA_NEVER);
}

/* waited: NULL for a thread, which has no fibers that wait meanwhile. */
static void *close_each(void *waited)
{
    for (uint64_t capacity = 0; capacity <= 3; capacity++) {
        for (int messages = 0; messages <= 3; messages++) {
            bool full = capacity > 0 && messages == (int)capacity;
            struct closed closed = {capacity, messages, false};

            if (capacity > 0 && messages > (int)capacity)
                continue;
            close_one(&closed);
            closed.waited = waited && (full || messages == 0);
            close_one(&closed);
        }
    }
    return waited;
}

Test(port, when_closed_refuses_posts_and_gives_what_is_in_it)
{
    cr_assert_eq(run_cores(1, close_each, &a), 0, "a fiber waits for ever");
    close_each(NULL);
}

/* ---- arbiters ---- */

static struct umbra_arbiter arbiter;
static struct umbra_event go = UMBRA_EVENT_INIT_MANUAL;
static _Atomic int running, most_running, handled, sum;

/* Notes how many run together, and, if arg is not NULL, waits for `go`. */
static void handles(struct umbra_message *messages, void *arg)
{
    int now = ++running;

    if (now > most_running)
        most_running = now;
    if (arg)
        umbra_event_wait(&go, UMBRA_NEVER);
    for (; messages; messages = messages->next)
        sum += number_of(messages);
    running--;
    handled++;
}

static void *joins_in_time(void *arg)
{
    struct umbra_branch branch[] = {{UMBRA_RECEIVE(&a), .handler = handles}};
    struct umbra_arbiter_options options = {.once = true};

    cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 1, &options), 0);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(umbra_arbiter_join(&arbiter, umbra_deadline(MS)), -ETIMEDOUT);
    post(&a, 0, 1);
    cr_expect_eq(umbra_arbiter_join(&arbiter, umbra_deadline(SECOND)), 0);
    cr_expect_eq(handled, 1);
    return arg;
}

Test(port, an_arbiter_that_was_not_joined_in_time_goes_on)
{
    cr_assert_eq(run_cores(1, joins_in_time, NULL), 0);
}

static void *once(void *arg)
{
    struct umbra_branch branch[] = {{UMBRA_RECEIVE(&a), .handler = handles},
                                    {UMBRA_ITEMS(2, UMBRA_FROM(&b)), .handler = handles}};
    struct umbra_arbiter_options options = {.once = true};

    cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 2, &options), 0);
    umbra_yield();
    post(&b, 10, 12);
    post(&a, 0, 1);
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), 0);
    cr_expect_eq(handled, 1);
    cr_expect_eq(sum, 21);
    cr_expect_eq(next(&a), 0, "the other branch takes nothing");
    return arg;
}

Test(port, an_arbiter_for_once_runs_one_handler)
{
    cr_assert_eq(run_cores(1, once, NULL), 0);
}

/* A branch for once beside a persistent one; its port ends with its handler. */
static void frees_the_port(struct umbra_message *messages, void *arg)
{
    handles(messages, NULL);
    free(arg);
}

static void *once_of_each(void *arg)
{
    note_port *passing = malloc(sizeof(*passing));
    struct umbra_branch branch[] = {
        {UMBRA_RECEIVE(passing), .handler = frees_the_port, .arg = passing, .once = true},
        {UMBRA_ITEMS(2, UMBRA_FROM(&b)), .handler = handles, .once = true},
        {UMBRA_RECEIVE(&a), .handler = handles}};

    UMBRA_PORT_OPEN(passing, 0);
    cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 3, NULL), 0);
    post(&b, 10, 13);
    post(passing, 5, 6);
    while (handled < 2)
        umbra_yield();
    post(&a, 0, 4);
    post(&b, 13, 14);
    UMBRA_PORT_CLOSE(&a);
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), -EPIPE);
    cr_expect_eq(handled, 6);
    cr_expect_eq(sum, 5 + 21 + 6);
    cr_expect_eq(next(&b), 12, "a branch that is over takes nothing");
    cr_expect_eq(next(&b), 13);
    return arg;
}

Test(port, a_branch_for_once_leaves_the_others_to_go_on)
{
    cr_assert_eq(run_cores(1, once_of_each, NULL), 0);
}

static void *all_for_once(void *arg)
{
    struct umbra_branch branch[] = {
        {UMBRA_RECEIVE(&a), .handler = handles, .once = true},
        {UMBRA_RECEIVE(&b), .handler = handles, .once = true, .group = UMBRA_EXCLUSIVE}};

    for (int i = 1; i <= 2; i++) { /* the branches can be used again */
        cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 2, NULL), 0);
        post(&b, 10, 12);
        umbra_yield();
        cr_expect_eq(umbra_arbiter_join(&arbiter, umbra_deadline(MS)), -ETIMEDOUT);
        post(&a, 0, 1);
        cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), 0);
        cr_expect_eq(handled, 2 * i);
        cr_expect_eq(next(&b), 11);
    }
    cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 2, NULL), 0);
    post(&a, 0, 1);
    UMBRA_PORT_CLOSE(&b);
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), -EPIPE,
                 "the second never has its turn");
    cr_expect_eq(handled, 5);
    return arg;
}

Test(port, an_arbiter_ends_when_each_branch_has_had_its_turn)
{
    cr_assert_eq(run_cores(1, all_for_once, NULL), 0);
}

/* Messages of two types, which go to the port of their type. */
struct letter {
    struct umbra_message message;
    char text;
};

static UMBRA_PORT(struct letter) letters = {UMBRA_PORT_INIT};

#define POST_BY_TYPE(m)                                                                            \
    UMBRA_PORT_POST(_Generic((m), struct note * : &a, struct letter * : &letters), m, UMBRA_NEVER)

static void reads_letter(struct umbra_message *message, void *arg)
{
    *(char *)arg = UMBRA_MESSAGE_AS(struct letter, message)->text;
}

static void *by_type(void *arg)
{
    struct letter letter = {.text = 'x'};
    char text = 0;
    struct umbra_branch branch[] = {
        {UMBRA_RECEIVE(&a), .handler = handles},
        {UMBRA_RECEIVE(&letters), .handler = reads_letter, .arg = &text}};
    struct umbra_arbiter_options options = {.once = true};

    cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 2, &options), 0);
    cr_expect_eq(POST_BY_TYPE(&letter), 0);
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), 0);
    cr_expect_eq(text, 'x');
    cr_expect_eq(handled, 0);

    cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 2, &options), 0);
    notes[7].number = 7;
    cr_expect_eq(POST_BY_TYPE(&notes[7]), 0);
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), 0);
    cr_expect_eq(sum, 7);
    return arg;
}

Test(port, a_choice_knows_messages_by_their_type)
{
    cr_assert_eq(run_cores(1, by_type, NULL), 0);
}

static void *persistent(void *arg)
{
    struct umbra_branch branch[] = {{UMBRA_RECEIVE(&a), .handler = handles, .arg = arg}};

    cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 1, NULL), 0);
    post(&a, 0, 5);
    while (running < 5)
        umbra_yield();
    umbra_event_signal(&go);
    while (handled < 5)
        umbra_yield();
    post(&a, 5, 6);
    UMBRA_PORT_CLOSE(&a);
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), -EPIPE);
    cr_expect_eq(handled, 6);
    cr_expect_eq(sum, 15);
    return arg;
}

Test(port, persistent_handlers_run_together)
{
    cr_assert_eq(run_cores(1, persistent, handles), 0);
}

static void *limited(void *arg)
{
    struct umbra_branch branch[] = {{UMBRA_RECEIVE(&two), .handler = handles, .arg = arg}};
    struct umbra_arbiter_options options = {.most = 2};
    struct umbra_fiber fiber;

    cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 1, &options), 0);
    post(&two, 0, 2);
    while (running < 2)
        umbra_yield();
    post(&two, 2, 5);
    notes[5].number = 5;
    umbra_spawn(posts, &notes[5], &fiber);
    until_blocked(fiber); /* two run, one is on its way, two are in the port */
    cr_expect_eq(most_running, 2);
    umbra_event_signal(&go);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    UMBRA_PORT_CLOSE(&two);
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), -EPIPE);
    cr_expect_eq(handled, 6);
    cr_expect_eq(most_running, 2);
    return arg;
}

Test(port, a_limit_on_handlers_reaches_the_posters)
{
    cr_assert_eq(run_cores(1, limited, handles), 0);
}

/* ---- interleave ---- */

static int log_of[NOTES];
static int logged;

static void notes_down(struct umbra_message *messages, void *arg)
{
    (void)arg;
    cr_expect_eq(running, 0, "an exclusive handler overlaps");
    log_of[logged++] = number_of(messages);
}

static void *interleaves(void *arg)
{
    struct umbra_branch branch[] = {
        {UMBRA_RECEIVE(&a), .handler = handles, .arg = arg},
        {UMBRA_RECEIVE(&b), .handler = notes_down, .group = UMBRA_EXCLUSIVE},
        {UMBRA_RECEIVE(&c), .handler = notes_down, .group = UMBRA_TEARDOWN}};

    cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 3, NULL), 0);
    post(&a, 0, 3);
    while (running < 3)
        umbra_yield();
    post(&b, 3, 4);
    umbra_yield();
    post(&a, 4, 5);
    for (int i = 0; i < 5; i++)
        umbra_yield();
    cr_expect_eq(running, 3, "the exclusive one has its turn first");
    cr_expect_eq(logged, 0);
    umbra_event_signal(&go);
    while (handled < 4)
        umbra_yield();
    cr_expect_eq(log_of[0], 3);
    umbra_event_reset(&go);
    post(&a, 5, 6);
    while (running < 1)
        umbra_yield();
    post(&c, 6, 8);
    umbra_yield();
    cr_expect_eq(logged, 1, "the last one waits for the others");
    post(&b, 8, 9);
    umbra_event_signal(&go);
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), 0);
    cr_expect_eq(logged, 2);
    cr_expect_eq(log_of[1], 6);
    cr_expect_eq(next(&c), 7, "teardown runs once");
    cr_expect_eq(next(&b), 8, "and last");
    return arg;
}

Test(port, an_interleave_keeps_its_groups_apart)
{
    cr_assert_eq(run_cores(1, interleaves, handles), 0);
}

/* Two persistent joins of the same ports, in a hurry. */
static int turns[2];

static void counts(struct umbra_message *messages, void *arg)
{
    (void)messages;
    (*(int *)arg)++;
}

static void *joins_take_turns(void *arg)
{
    struct umbra_branch branch[2][1] = {
        {{UMBRA_JOIN(UMBRA_FROM(&a), UMBRA_FROM(&b)), .handler = counts, .arg = &turns[0],
          .group = UMBRA_EXCLUSIVE}},
        {{UMBRA_JOIN(UMBRA_FROM(&b), UMBRA_FROM(&a)), .handler = counts, .arg = &turns[1],
          .group = UMBRA_EXCLUSIVE}}};
    struct umbra_arbiter join[2];

    for (int i = 0; i < 2; i++)
        cr_expect_eq(umbra_arbiter_start(&join[i], branch[i], 1, NULL), 0);
    for (int i = 0; i < 2; i++)
        until_blocked(join[i].fiber);
    for (int i = 0; i < NOTES / 2; i++) {
        post(&a, i, i + 1);
        post(&b, NOTES / 2 + i, NOTES / 2 + i + 1);
        while (turns[0] + turns[1] <= i)
            umbra_yield();
        until_blocked(join[i % 2].fiber);
    }
    cr_expect_eq(turns[0], NOTES / 4);
    cr_expect_eq(turns[1], NOTES / 4);
    for (int i = 0; i < 2; i++) {
        umbra_arbiter_cancel(&join[i]);
        cr_expect_eq(umbra_arbiter_join(&join[i], UMBRA_NEVER), -ECANCELED);
    }
    return arg;
}

Test(port, joins_of_the_same_ports_take_turns)
{
    cr_assert_eq(run_cores(1, joins_take_turns, NULL), 0);
}

/* ---- arbiters: ends and errors ---- */

static void cancels(struct umbra_message *messages, void *arg)
{
    (void)messages;
    umbra_arbiter_cancel(arg);
    handled++;
}

static void *is_cancelled(void *arg)
{
    struct umbra_branch branch[] = {
        {UMBRA_RECEIVE(&a), .handler = handles},
        {UMBRA_RECEIVE(&b), .handler = cancels, .arg = &arbiter, .group = UMBRA_EXCLUSIVE}};

    cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 2, NULL), 0);
    umbra_arbiter_cancel(&arbiter); /* before it has begun */
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), -ECANCELED);
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), -ESRCH);

    cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 2, NULL), 0);
    until_blocked(arbiter.fiber);
    umbra_arbiter_cancel(&arbiter);
    umbra_arbiter_cancel(&arbiter);
    post(&a, 0, 1);
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), -ECANCELED);
    cr_expect_eq(next(&a), 0);

    cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 2, NULL), 0);
    post(&b, 1, 3);
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), -ECANCELED, "by its own handler");
    cr_expect_eq(next(&b), 2);
    cr_expect_eq(handled, 1);
    return arg;
}

Test(port, an_arbiter_can_be_cancelled)
{
    cr_assert_eq(run_cores(1, is_cancelled, NULL), 0);
}

static void *wrong_arbiters(void *arg)
{
    struct umbra_branch none = {.handler = handles}, mute = {UMBRA_RECEIVE(&a)};
    struct umbra_branch good = {UMBRA_RECEIVE(&a), .handler = handles};
    struct umbra_branch odd = {UMBRA_RECEIVE(&a), .handler = handles, .group = (enum umbra_group)3};
    struct umbra_spawn_options nowhere = on_core(7), stopped = {.stopped = true};
    struct umbra_spawn_options huge = {.stack_bytes = (size_t)1 << 47};

    cr_expect_eq(umbra_arbiter_start(&arbiter, &good, 0, NULL), -EINVAL);
    cr_expect_eq(umbra_arbiter_start(&arbiter, &none, 1, NULL), -EINVAL);
    cr_expect_eq(umbra_arbiter_start(&arbiter, &mute, 1, NULL), -EINVAL);
    cr_expect_eq(umbra_arbiter_start(&arbiter, &odd, 1, NULL), -EINVAL);
    cr_expect_eq(
        umbra_arbiter_start(&arbiter, &good, 1, &(struct umbra_arbiter_options){.home = &nowhere}),
        -EINVAL);
    cr_expect_eq(umbra_arbiter_start(&arbiter, &good, 1,
                                     &(struct umbra_arbiter_options){.handlers = &nowhere}),
                 -EINVAL);
    cr_expect_eq(umbra_arbiter_start(&arbiter, &good, 1,
                                     &(struct umbra_arbiter_options){.handlers = &stopped}),
                 -EINVAL);
    cr_expect_eq(
        umbra_arbiter_start(&arbiter, &good, 1, &(struct umbra_arbiter_options){.home = &huge}),
        -ENOMEM);
    return arg;
}

Test(port, wrong_arbiters_are_told)
{
    struct umbra_branch good = {UMBRA_RECEIVE(&a), .handler = handles};

    cr_assert_eq(umbra_arbiter_start(&arbiter, &good, 1, NULL), -EPERM, "no runtime");
    cr_assert_eq(run_cores(1, wrong_arbiters, NULL), 0);
}

static void *without_memory(void *arg)
{
    struct umbra_branch branch[] = {{UMBRA_RECEIVE(&a), .handler = handles}};
    struct umbra_spawn_options huge = {.stack_bytes = (size_t)1 << 47};
    struct umbra_arbiter_options options = {.handlers = &huge, .most = 2};

    cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 1, &options), 0);
    post(&a, 0, 5);
    UMBRA_PORT_CLOSE(&a);
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), -EPIPE);
    cr_expect_eq(handled, 5);
    cr_expect_eq(sum, 10);
    return arg;
}

Test(port, no_message_is_lost_without_memory)
{
    cr_assert_eq(run_cores(1, without_memory, NULL), 0);
}

/* An arbiter of another thread's making; an end that comes from outside. */
Test(port, threads_start_and_end_arbiters)
{
    struct umbra_branch branch[] = {{UMBRA_RECEIVE(&a), .handler = handles}};
    struct umbra_options two_cores = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct umbra_arbiter_options options = {0};

    cr_assert_eq(umbra_runtime_create(&two_cores, &options.runtime), 0);
    cr_assert_eq(umbra_arbiter_start(&arbiter, branch, 1, &options), 0);
    for (int i = 0; i < 20; i++) {
        notes[i].number = i;
        cr_assert_eq(UMBRA_PORT_POST(&a, &notes[i], UMBRA_NEVER), 0);
    }
    UMBRA_PORT_CLOSE(&a);
    cr_assert_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), -EPIPE);
    cr_assert_eq(handled, 20);
    cr_assert_eq(umbra_runtime_wait(options.runtime), 0);
    cr_assert_eq(umbra_runtime_destroy(options.runtime), 0);
}

static void *leaves_an_arbiter(void *arg)
{
    static struct umbra_source source;
    static struct umbra_branch branch;

    source.port = &a.port;
    branch = (struct umbra_branch){.source = &source, .sources = 1, .items = 1, .handler = handles};
    cr_expect_eq(umbra_arbiter_start(&arbiter, &branch, 1, NULL), 0);
    return arg;
}

Test(port, an_arbiter_that_nobody_ends_is_a_deadlock)
{
    cr_assert_eq(run_cores(1, leaves_an_arbiter, NULL), -EDEADLK);
}

/* ---- names ---- */

static struct umbra_port named_port = UMBRA_PORT_INIT;

static void tells_its_name(struct umbra_message *message, void *arg)
{
    (void)message;
    umbra_fiber_info(umbra_self(), arg);
    umbra_port_close(&named_port);
}

static void *starts_and_forgets_the_name(void *arg)
{
    char passing[] = "handler seven";
    struct umbra_fiber_info info = {.name = ""};
    struct umbra_spawn_options handlers = {.where = UMBRA_HERE, .name = passing};
    struct umbra_arbiter_options options = {.handlers = &handlers};
    struct umbra_branch branch = {UMBRA_RECEIVE(&named_port), .handler = tells_its_name,
                                  .arg = &info};
    struct umbra_message message;
    struct umbra_arbiter arbiter;

    (void)arg;
    cr_expect_eq(umbra_arbiter_start(&arbiter, &branch, 1, &options), 0);
    memset(passing, 'x', sizeof(passing) - 1);
    cr_expect_eq(umbra_port_post(&named_port, &message, UMBRA_NEVER), 0);
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), -EPIPE);
    cr_expect_str_eq(info.name, "handler seven");
    return NULL;
}

Test(port, an_arbiter_keeps_the_name_of_its_handlers)
{
    cr_assert_eq(run_cores(1, starts_and_forgets_the_name, NULL), 0);
}
