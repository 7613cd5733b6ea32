/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include <runner.h>

#define UMBRA_IMPLEMENTATION
#include <umbra/fiber/timers.h>

#define TIMERS 500

static struct um_timer timer[TIMERS];
static bool set[TIMERS];
static uint32_t brief;
static struct um_timers timers;
static bool no_memory;

void *__real_realloc(void *, size_t);
void *__wrap_realloc(void *at, size_t bytes)
{
    return no_memory ? NULL : __real_realloc(at, bytes);
}

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13; /* xorshift64, Marsaglia 2003 */
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The earliest of those that are set, the slow way. */
static uint64_t earliest(void)
{
    uint64_t least = UMBRA_NEVER;

    for (int i = 0; i < TIMERS; i++)
        if (set[i] && timer[i].deadline < least)
            least = timer[i].deadline;
    return least;
}

static void set_timer(size_t i, uint64_t deadline)
{
    timer[i].deadline = deadline;
    timer[i].brief = deadline % 2 != 0;
    brief += timer[i].brief;
    um_timers_add(&timers, &timer[i]);
    set[i] = true;
}

static void take_out(size_t i)
{
    brief -= timer[i].brief;
    um_timers_remove(&timers, &timer[i]);
    set[i] = false;
}

/* Sets timers and takes them out; times are equal where there are as many timers as times. */
static void set_and_take_out(uint64_t random, uint64_t times)
{
    for (int step = 0; step < 20000; step++) {
        size_t i = random_next(&random) % TIMERS;

        if (set[i])
            take_out(i);
        else
            set_timer(i, random_next(&random) % times);
        cr_assert_eq(timer[i].number != 0, set[i]);
        cr_assert_eq(um_timers_next(&timers), earliest());
        cr_assert_eq(timers.brief, brief);
    }
}

/* Takes out all that are set, in the order of their deadlines. */
static void come_out(bool in_order)
{
    uint64_t last = 0;
    struct um_timer *next;

    cr_assert(earliest() == 0 || um_timers_take(&timers, earliest() - 1) == NULL);
    while ((next = um_timers_take(&timers, UMBRA_NEVER)) != NULL) {
        cr_assert(set[next - timer]);
        cr_assert_eq(next->number, 0u);
        set[next - timer] = false;
        cr_assert(!in_order || next->deadline >= last);
        last = next->deadline;
    }
    cr_assert_eq(earliest(), UMBRA_NEVER);
    cr_assert_eq(um_timers_next(&timers), UMBRA_NEVER);
    cr_assert_eq(timers.set + timers.brief, 0u);
}

Test(timers, the_earliest_is_always_next)
{
    set_and_take_out(88172645463325252u, 1000000);
    come_out(true);
}

Test(timers, may_have_equal_times)
{
    set_and_take_out(3, 4);
    come_out(true);
    for (size_t i = 0; i < TIMERS; i++)
        set_timer(i, 7);
    cr_assert_null(um_timers_take(&timers, 6));
    for (int i = 0; i < TIMERS; i++)
        cr_assert_not_null(um_timers_take(&timers, 7));
    cr_assert_null(um_timers_take(&timers, UMBRA_NEVER));
}

Test(timers, are_set_and_taken_out_by_turns_in_the_same_memory)
{
    for (int i = 0; i < 100000; i++) {
        set_timer(0, (uint64_t)i);
        take_out(0);
    }
    cr_assert_leq(timers.room, 64u);
}

/* More than there is room for; some get a place later, while others wait in the list. */
Test(timers, are_kept_without_memory_for_them)
{
    uint64_t random = 5;

    no_memory = true;
    set_and_take_out(7, 1000);
    cr_assert_eq(timers.room, 0u);
    no_memory = false;
    for (size_t i = 0; i < TIMERS; i++)
        if (!set[i])
            set_timer(i, random_next(&random) % 1000);
    cr_assert_gt(timers.count, 0u);
    cr_assert_lt(timers.count, timers.set);
    no_memory = true;
    set_and_take_out(9, 1000);
    come_out(false);
}
