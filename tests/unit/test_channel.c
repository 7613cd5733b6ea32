/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include "fibers.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct sample {
    uint64_t number;
    uint64_t twice;
    char name[7];
};

typedef UMBRA_CHANNEL(struct sample) sample_channel;
typedef UMBRA_CHANNEL(uint64_t) number_channel;

static number_channel numbers;
static struct umbra_runtime *runtime;

static const enum umbra_channel_sides kinds[] = {UMBRA_CHANNEL_MANY, UMBRA_CHANNEL_ONE};

/* The next number, or the error. */
static int64_t next(number_channel *channel, uint64_t deadline)
{
    uint64_t number = 0;
    int error = UMBRA_CHANNEL_POP(channel, &number, deadline);

    return error == 0 ? (int64_t)number : error;
}

static int push(number_channel *channel, uint64_t number, uint64_t deadline)
{
    return UMBRA_CHANNEL_PUSH(channel, &number, deadline);
}

/* Yields until a fiber is blocked. */
static void until_blocked(struct umbra_fiber fiber)
{
    while (umbra_fiber_info(fiber, NULL) != UMBRA_FIBER_BLOCKED)
        umbra_yield();
}

static struct umbra_fiber started(umbra_fiber_fn *fn, void *arg)
{
    struct umbra_fiber fiber = {NULL, 0};

    cr_expect_eq(umbra_spawn(fn, arg, &fiber), 0);
    return fiber;
}

/* ---- one thread, no waits ---- */

Test(channel, is_first_in_first_out_up_to_its_capacity)
{
    for (int kind = 0; kind < 2; kind++) {
        cr_assert_eq(UMBRA_CHANNEL_OPEN(&numbers, 3, kinds[kind]), 0);
        for (uint64_t i = 0; i < 20; i++) { /* the ring has four places */
            for (uint64_t j = 0; j < 3; j++)
                cr_expect_eq(push(&numbers, 3 * i + j, 0), 0);
            cr_expect_eq(push(&numbers, 99, 0), -ETIMEDOUT);
            for (uint64_t j = 0; j < 3; j++)
                cr_expect_eq(next(&numbers, 0), (int64_t)(3 * i + j));
            cr_expect_eq(next(&numbers, 0), -ETIMEDOUT);
        }
        UMBRA_CHANNEL_FINI(&numbers);
    }
}

/* What a peek says: the number, or the error. */
static int64_t peek(number_channel *channel)
{
    uint64_t number = 77;
    int error = UMBRA_CHANNEL_PEEK(channel, &number);

    cr_expect_eq(umbra_channel_peek(&channel->channel, NULL), error);
    cr_expect(error == 0 || number == 77, "the item is untouched");
    return error == 0 ? (int64_t)number : error;
}

Test(channel, a_peek_leaves_the_oldest_item)
{
    for (int kind = 0; kind < 2; kind++) {
        cr_assert_eq(UMBRA_CHANNEL_OPEN(&numbers, 3, kinds[kind]), 0);
        cr_expect_eq(peek(&numbers), -EAGAIN);
        for (uint64_t i = 0; i < 20; i++) {
            cr_expect_eq(push(&numbers, i, 0), 0);
            cr_expect_eq(push(&numbers, 99, 0), 0);
            cr_expect_eq(peek(&numbers), (int64_t)i);
            cr_expect_eq(peek(&numbers), (int64_t)i);
            cr_expect_eq(next(&numbers, 0), (int64_t)i);
            cr_expect_eq(next(&numbers, 0), 99);
            cr_expect_eq(peek(&numbers), -EAGAIN);
        }
        cr_expect_eq(push(&numbers, 5, 0), 0);
        cr_expect_eq(UMBRA_CHANNEL_CLOSE(&numbers), 0);
        cr_expect_eq(peek(&numbers), 5);
        cr_expect_eq(next(&numbers, 0), 5);
        cr_expect_eq(peek(&numbers), -EPIPE);
        UMBRA_CHANNEL_FINI(&numbers);
    }
}

Test(channel, of_one_place)
{
    cr_assert_eq(UMBRA_CHANNEL_OPEN(&numbers, 1, UMBRA_CHANNEL_ONE), 0);
    for (uint64_t i = 0; i < 5; i++) {
        cr_expect_eq(push(&numbers, i, 0), 0);
        cr_expect_eq(push(&numbers, i, 0), -ETIMEDOUT);
        cr_expect_eq(next(&numbers, 0), (int64_t)i);
    }
    UMBRA_CHANNEL_FINI(&numbers);
}

Test(channel, copies_structs_whose_size_is_no_power_of_two)
{
    sample_channel samples;
    struct sample sample = {.name = "sample"}, popped;

    cr_assert_eq(UMBRA_CHANNEL_OPEN(&samples, 5, UMBRA_CHANNEL_MANY), 0);
    for (uint64_t i = 0; i < 13; i++) {
        sample.number = i;
        sample.twice = 2 * i;
        cr_expect_eq(UMBRA_CHANNEL_PUSH(&samples, &sample, 0), 0);
        memset(&popped, 0, sizeof(popped));
        cr_expect_eq(umbra_channel_pop(&samples.channel, &popped, 0), 0);
        cr_expect_eq(popped.number, i);
        cr_expect_eq(popped.twice, 2 * i);
        cr_expect_str_eq(popped.name, "sample");
    }
    UMBRA_CHANNEL_FINI(&samples);
}

Test(channel, in_memory_of_malloc)
{
    number_channel *channel = malloc(sizeof(*channel));
    uint64_t number = 7;

    cr_assert_eq(UMBRA_CHANNEL_OPEN(channel, 8, UMBRA_CHANNEL_MANY), 0);
    cr_expect_eq(umbra_channel_push(&channel->channel, &number, 0), 0);
    cr_expect_eq(umbra_channel_close(&channel->channel), 0);
    cr_expect_eq(next(channel, 0), 7);
    umbra_channel_fini(&channel->channel);
    free(channel);
}

Test(channel, refuses_what_is_no_size)
{
    struct umbra_channel channel;

    cr_expect_eq(umbra_channel_init(&channel, 0, 8, UMBRA_CHANNEL_MANY), -EINVAL);
    cr_expect_eq(umbra_channel_init(&channel, 8, 0, UMBRA_CHANNEL_MANY), -EINVAL);
    cr_expect_eq(umbra_channel_init(&channel, SIZE_MAX, 1, UMBRA_CHANNEL_MANY), -EINVAL);
    cr_expect_eq(umbra_channel_init(&channel, SIZE_MAX / 8, 64, UMBRA_CHANNEL_MANY), -EINVAL);
    cr_expect_eq(umbra_channel_init(&channel, 8, 8, (enum umbra_channel_sides)2), -EINVAL);
}

Test(channel, closed_gives_what_is_in_it_and_takes_no_more)
{
    for (int kind = 0; kind < 2; kind++) {
        cr_assert_eq(UMBRA_CHANNEL_OPEN(&numbers, 4, kinds[kind]), 0);
        cr_expect_eq(push(&numbers, 1, 0), 0);
        cr_expect_eq(push(&numbers, 2, 0), 0);
        cr_expect_eq(UMBRA_CHANNEL_CLOSE(&numbers), 0);
        cr_expect_eq(UMBRA_CHANNEL_CLOSE(&numbers), -EALREADY);
        cr_expect_eq(push(&numbers, 3, UMBRA_NEVER), -EPIPE);
        cr_expect_eq(next(&numbers, UMBRA_NEVER), 1);
        cr_expect_eq(next(&numbers, 0), 2);
        cr_expect_eq(next(&numbers, 0), -EPIPE);
        cr_expect_eq(next(&numbers, UMBRA_NEVER), -EPIPE);
        UMBRA_CHANNEL_FINI(&numbers);
    }
}

/* ---- fibers that wait ---- */

static void *pops(void *arg)
{
    *(int64_t *)arg = next(&numbers, UMBRA_NEVER);
    return NULL;
}

static void *pushes_seven(void *arg)
{
    *(int64_t *)arg = push(&numbers, 7, UMBRA_NEVER);
    return NULL;
}

static void *pop_waits(void *kind)
{
    int64_t result = 0;
    struct umbra_fiber popper;

    cr_expect_eq(UMBRA_CHANNEL_OPEN(&numbers, 2, *(enum umbra_channel_sides *)kind), 0);
    popper = started(pops, &result);
    until_blocked(popper);
    cr_expect_eq(push(&numbers, 5, UMBRA_NEVER), 0);
    umbra_join(popper, UMBRA_NEVER, NULL);
    cr_expect_eq(result, 5);
    UMBRA_CHANNEL_FINI(&numbers);
    return NULL;
}

static void *push_waits(void *kind)
{
    int64_t result = -1;
    struct umbra_fiber pusher;

    cr_expect_eq(UMBRA_CHANNEL_OPEN(&numbers, 1, *(enum umbra_channel_sides *)kind), 0);
    cr_expect_eq(push(&numbers, 1, 0), 0);
    pusher = started(pushes_seven, &result);
    until_blocked(pusher);
    cr_expect_eq(next(&numbers, 0), 1);
    umbra_join(pusher, UMBRA_NEVER, NULL);
    cr_expect_eq(result, 0);
    cr_expect_eq(next(&numbers, 0), 7);
    UMBRA_CHANNEL_FINI(&numbers);
    return NULL;
}

Test(channel, a_pop_waits_for_an_item)
{
    for (int kind = 0; kind < 2; kind++)
        cr_assert_eq(run_cores(1, pop_waits, (void *)&kinds[kind]), 0);
}

Test(channel, a_push_waits_for_a_place)
{
    for (int kind = 0; kind < 2; kind++)
        cr_assert_eq(run_cores(1, push_waits, (void *)&kinds[kind]), 0);
}

/* Of two that wait, the first is woken first, and each item wakes one. */
static void *in_order(void *arg)
{
    int64_t result[2] = {0, 0};
    struct umbra_fiber popper[2];

    cr_expect_eq(UMBRA_CHANNEL_OPEN(&numbers, 4, UMBRA_CHANNEL_MANY), 0);
    for (int i = 0; i < 2; i++) {
        popper[i] = started(pops, &result[i]);
        until_blocked(popper[i]);
    }
    push(&numbers, 1, 0);
    umbra_join(popper[0], UMBRA_NEVER, NULL);
    cr_expect_eq(result[0], 1);
    cr_expect_eq(umbra_fiber_info(popper[1], NULL), UMBRA_FIBER_BLOCKED);
    push(&numbers, 2, 0);
    umbra_join(popper[1], UMBRA_NEVER, NULL);
    cr_expect_eq(result[1], 2);
    UMBRA_CHANNEL_FINI(&numbers);
    return arg;
}

Test(channel, the_first_to_wait_is_woken_first)
{
    cr_assert_eq(run_cores(1, in_order, NULL), 0);
}

/* Two items for two waiters that have not run between. */
static void *both_woken(void *arg)
{
    int64_t result[2] = {0, 0};
    struct umbra_fiber popper[2];

    cr_expect_eq(UMBRA_CHANNEL_OPEN(&numbers, 4, UMBRA_CHANNEL_MANY), 0);
    for (int i = 0; i < 2; i++) {
        popper[i] = started(pops, &result[i]);
        until_blocked(popper[i]);
    }
    push(&numbers, 1, 0);
    push(&numbers, 2, 0);
    for (int i = 0; i < 2; i++)
        umbra_join(popper[i], UMBRA_NEVER, NULL);
    cr_expect_eq(result[0] + result[1], 3);
    UMBRA_CHANNEL_FINI(&numbers);
    return arg;
}

Test(channel, each_item_wakes_a_waiter)
{
    cr_assert_eq(run_cores(1, both_woken, NULL), 0);
}

/* A woken waiter that comes too late waits again. */
static void *too_late(void *arg)
{
    int64_t result = 0;
    struct umbra_fiber popper;

    cr_expect_eq(UMBRA_CHANNEL_OPEN(&numbers, 4, UMBRA_CHANNEL_MANY), 0);
    popper = started(pops, &result);
    until_blocked(popper);
    push(&numbers, 1, 0);
    cr_expect_eq(next(&numbers, 0), 1);
    until_blocked(popper);
    push(&numbers, 2, 0);
    umbra_join(popper, UMBRA_NEVER, NULL);
    cr_expect_eq(result, 2);
    UMBRA_CHANNEL_FINI(&numbers);
    return arg;
}

Test(channel, a_waiter_that_was_overtaken_waits_again)
{
    cr_assert_eq(run_cores(1, too_late, NULL), 0);
}

static void *closing(void *arg)
{
    int64_t popped[3] = {0, 0, 0}, pushed[2] = {0, 0};
    struct umbra_fiber fiber[3];

    cr_expect_eq(UMBRA_CHANNEL_OPEN(&numbers, 1, UMBRA_CHANNEL_MANY), 0);
    for (int i = 0; i < 3; i++) {
        fiber[i] = started(pops, &popped[i]);
        until_blocked(fiber[i]);
    }
    cr_expect_eq(UMBRA_CHANNEL_CLOSE(&numbers), 0);
    for (int i = 0; i < 3; i++) {
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
        cr_expect_eq(popped[i], -EPIPE);
    }
    UMBRA_CHANNEL_FINI(&numbers);
    cr_expect_eq(UMBRA_CHANNEL_OPEN(&numbers, 1, UMBRA_CHANNEL_MANY), 0);
    push(&numbers, 1, 0);
    for (int i = 0; i < 2; i++) {
        fiber[i] = started(pushes_seven, &pushed[i]);
        until_blocked(fiber[i]);
    }
    cr_expect_eq(UMBRA_CHANNEL_CLOSE(&numbers), 0);
    for (int i = 0; i < 2; i++) {
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
        cr_expect_eq(pushed[i], -EPIPE);
    }
    cr_expect_eq(next(&numbers, 0), 1);
    UMBRA_CHANNEL_FINI(&numbers);
    return arg;
}

Test(channel, closing_wakes_all_that_wait)
{
    cr_assert_eq(run_cores(1, closing, NULL), 0);
}

/* ---- each call on a closed channel, whatever was in it and waited for it ---- */

struct closed {
    enum umbra_channel_sides sides;
    size_t capacity;
    uint64_t items; /* in it when it is closed */
    bool waited;    /* by a push if it is full, by a pop if it is empty */
};

static void *waits_until_closed(void *arg)
{
    struct closed *closed = arg;

    if (closed->items > 0)
        cr_expect_eq(push(&numbers, 99, UMBRA_NEVER), -EPIPE);
    else
        cr_expect_eq(next(&numbers, UMBRA_NEVER), -EPIPE);
    return NULL;
}

static void close_one(struct closed *closed)
{
    struct umbra_fiber waiter;

    cr_expect_eq(UMBRA_CHANNEL_OPEN(&numbers, closed->capacity, closed->sides), 0);
    for (uint64_t i = 0; i < closed->items; i++)
        cr_expect_eq(push(&numbers, i, 0), 0);
    if (closed->waited) {
        waiter = started(waits_until_closed, closed);
        until_blocked(waiter);
    }
    cr_expect_eq(UMBRA_CHANNEL_CLOSE(&numbers), 0);
    if (closed->waited)
        cr_expect_eq(umbra_join(waiter, UMBRA_NEVER, NULL), 0);
    for (uint64_t i = 0; i <= closed->items; i++) {
        cr_expect_eq(UMBRA_CHANNEL_CLOSE(&numbers), -EALREADY);
        cr_expect_eq(push(&numbers, 99, 0), -EPIPE);
        cr_expect_eq(push(&numbers, 99, umbra_deadline(MS)), -EPIPE);
        cr_expect_eq(push(&numbers, 99, UMBRA_NEVER), -EPIPE);
        if (i < closed->items)
            cr_expect_eq(next(&numbers, 0), (int64_t)i);
    }
    cr_expect_eq(next(&numbers, 0), -EPIPE);
    cr_expect_eq(next(&numbers, umbra_deadline(MS)), -EPIPE);
    cr_expect_eq(next(&numbers, UMBRA_NEVER), -EPIPE);
    UMBRA_CHANNEL_FINI(&numbers);
}

/* waited: NULL for a thread, which has no fibers that wait meanwhile. */
static void *close_each(void *waited)
{
    for (int kind = 0; kind < 2; kind++) {
        for (size_t capacity = 1; capacity <= 3; capacity++) {
            for (uint64_t items = 0; items <= capacity; items++) {
                struct closed closed = {kinds[kind], capacity, items, false};

                close_one(&closed);
                closed.waited = waited && (items == capacity || items == 0);
                close_one(&closed);
            }
        }
    }
    return waited;
}

Test(channel, when_closed_refuses_pushes_and_gives_what_is_in_it)
{
    cr_assert_eq(run_cores(1, close_each, &numbers), 0, "a fiber waits for ever");
    close_each(NULL);
}

/* ---- deadlines and cancellation ---- */

static void *deadlines(void *arg)
{
    uint64_t begin = umbra_now_ns();

    cr_expect_eq(UMBRA_CHANNEL_OPEN(&numbers, 1, UMBRA_CHANNEL_MANY), 0);
    cr_expect_eq(next(&numbers, umbra_deadline(2 * MS)), -ETIMEDOUT);
    cr_expect_eq(push(&numbers, 1, umbra_deadline(2 * MS)), 0);
    cr_expect_eq(push(&numbers, 2, umbra_deadline(2 * MS)), -ETIMEDOUT);
    cr_expect_geq(umbra_now_ns() - begin, 4 * MS);
    cr_expect_eq(numbers.channel.both.waiting[0] + numbers.channel.both.waiting[1], 0);
    cr_expect_eq(next(&numbers, umbra_deadline(2 * MS)), 1);
    UMBRA_CHANNEL_FINI(&numbers);
    return arg;
}

Test(channel, waits_end_at_their_deadline)
{
    cr_assert_eq(run_cores(1, deadlines, NULL), 0);
}

Test(channel, a_thread_s_waits_end_at_their_deadline)
{
    deadlines(NULL);
}

static void *canceled(void *arg)
{
    int64_t result = 0;
    struct umbra_fiber popper;

    cr_expect_eq(UMBRA_CHANNEL_OPEN(&numbers, 1, UMBRA_CHANNEL_MANY), 0);
    popper = started(pops, &result);
    until_blocked(popper);
    umbra_cancel(popper);
    umbra_join(popper, UMBRA_NEVER, NULL);
    cr_expect_eq(result, -ECANCELED);
    cr_expect_eq(numbers.channel.both.waiting[UM_CHANNEL_POP], 0);
    cr_expect_eq(push(&numbers, 1, 0), 0);
    cr_expect_eq(next(&numbers, 0), 1);
    UMBRA_CHANNEL_FINI(&numbers);
    return arg;
}

Test(channel, a_canceled_fiber_does_not_wait)
{
    cr_assert_eq(run_cores(1, canceled, NULL), 0);
}

/* ---- streams ---- */

#define STREAM UINT64_C(20000)

static void *streams(void *arg)
{
    for (uint64_t i = 0; i < STREAM; i++)
        cr_expect_eq(push(&numbers, i, UMBRA_NEVER), 0);
    UMBRA_CHANNEL_CLOSE(&numbers);
    return arg;
}

static void drain(void)
{
    uint64_t count = 0;
    int64_t number;

    while ((number = next(&numbers, UMBRA_NEVER)) >= 0)
        cr_expect_eq((uint64_t)number, count++);
    cr_expect_eq(number, -EPIPE);
    cr_expect_eq(count, STREAM);
}

static void *streams_between_cores(void *kind)
{
    for (unsigned core = 0; core < 2; core++) {
        for (size_t capacity = 1; capacity <= 4096; capacity *= 16) {
            struct umbra_spawn_options there = on_core(core);
            struct umbra_fiber pusher;

            cr_expect_eq(UMBRA_CHANNEL_OPEN(&numbers, capacity, *(enum umbra_channel_sides *)kind),
                         0);
            cr_expect_eq(umbra_spawn_with(NULL, &there, streams, NULL, &pusher), 0);
            drain();
            umbra_join(pusher, UMBRA_NEVER, NULL);
            UMBRA_CHANNEL_FINI(&numbers);
        }
    }
    return NULL;
}

Test(channel, streams_arrive_whole_and_in_order)
{
    for (int kind = 0; kind < 2; kind++)
        cr_assert_eq(run_cores(2, streams_between_cores, (void *)&kinds[kind]), 0);
}

/* A side that no waiter has met for long becomes quick, and careful again. */
Test(channel, a_side_is_quick_while_the_other_does_not_wait)
{
    struct um_channel_side *side;
    pthread_t thread;

    cr_assert_eq(UMBRA_CHANNEL_OPEN(&numbers, 64, UMBRA_CHANNEL_ONE), 0);
    side = &numbers.channel.half[UM_CHANNEL_PUSH].side;
    for (uint64_t i = 0; i < UM_CHANNEL_CALM; i++) {
        cr_expect_eq(side->quick, 0);
        push(&numbers, i, 0);
        cr_expect_eq(next(&numbers, 0), (int64_t)i);
    }
    if (!numbers.channel.both.may_be_quick)
        cr_skip_test("no system call makes all threads execute a fence");
    cr_assert_eq(side->quick, 1);
    pthread_create(&thread, NULL, (void *(*)(void *))pops, &(int64_t){0});
    while (numbers.channel.both.waiting[UM_CHANNEL_POP] == 0)
        umbra_pause();
    push(&numbers, 1, 0);
    pthread_join(thread, NULL);
    cr_expect_eq(side->quick, 0);
    UMBRA_CHANNEL_FINI(&numbers);
}

/* ---- threads that are no cores ---- */

static void *thread_streams(void *arg)
{
    streams(arg);
    umbra_release(runtime);
    return arg;
}

static void *drains(void *arg)
{
    drain();
    return arg;
}

Test(channel, from_a_thread_to_a_fiber)
{
    struct umbra_options options = {.cores = 1, .quiet = true};
    struct umbra_spawn_options here = on_core(0);
    struct umbra_fiber fiber;
    pthread_t thread;

    for (int kind = 0; kind < 2; kind++) {
        cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
        cr_assert_eq(UMBRA_CHANNEL_OPEN(&numbers, 64, kinds[kind]), 0);
        umbra_hold(runtime);
        cr_assert_eq(umbra_spawn_with(runtime, &here, drains, NULL, &fiber), 0);
        pthread_create(&thread, NULL, thread_streams, NULL);
        cr_assert_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
        pthread_join(thread, NULL);
        umbra_runtime_destroy(runtime);
        UMBRA_CHANNEL_FINI(&numbers);
    }
}

Test(channel, from_a_thread_to_a_thread)
{
    pthread_t thread;

    for (int kind = 0; kind < 2; kind++) {
        cr_assert_eq(UMBRA_CHANNEL_OPEN(&numbers, 16, kinds[kind]), 0);
        pthread_create(&thread, NULL, streams, NULL);
        drain();
        pthread_join(thread, NULL);
        UMBRA_CHANNEL_FINI(&numbers);
    }
}

/* A popper that looks before it takes, as the thread of a server does. */
Test(channel, a_peek_sees_what_the_next_pop_gets)
{
    pthread_t thread;
    uint64_t seen = 0, count = 0;
    int error;

    for (int kind = 0; kind < 2; kind++, count = 0) {
        cr_assert_eq(UMBRA_CHANNEL_OPEN(&numbers, 16, kinds[kind]), 0);
        pthread_create(&thread, NULL, streams, NULL);
        while ((error = UMBRA_CHANNEL_PEEK(&numbers, &seen)) != -EPIPE) {
            if (error == 0) {
                cr_expect_eq(seen, count++);
                cr_expect_eq(next(&numbers, 0), (int64_t)seen);
            } else {
                cr_expect_eq(error, -EAGAIN);
                sched_yield();
            }
        }
        cr_expect_eq(count, STREAM);
        pthread_join(thread, NULL);
        UMBRA_CHANNEL_FINI(&numbers);
    }
}
