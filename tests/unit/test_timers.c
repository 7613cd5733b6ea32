/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include <runner.h>

#include <stdlib.h>
#include <string.h>

#include <umbra/fiber/timers.h>

#define TIMERS 500

static struct um_timer timer[TIMERS];
static bool in_heap[TIMERS];
static struct um_timers timers;

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13; /* xorshift64, Marsaglia 2003 */
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The earliest of those that are in, the slow way. */
static uint64_t earliest(void)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < TIMERS; i++)
        if (in_heap[i] && timer[i].deadline < least)
            least = timer[i].deadline;
    return least;
}

Test(timers, the_earliest_is_always_on_top)
{
    uint64_t random = 88172645463325252u;

    for (int step = 0; step < 20000; step++) {
        size_t i = random_next(&random) % TIMERS;

        if (in_heap[i]) {
            um_timers_remove(&timers, &timer[i]);
        } else {
            timer[i].deadline = random_next(&random) % 1000;
            um_timers_add(&timers, &timer[i]);
        }
        in_heap[i] = !in_heap[i];
        cr_assert_eq(um_timers_has(&timers, &timer[i]), in_heap[i]);
        cr_assert_eq(timers.top ? timers.top->deadline : UINT64_MAX, earliest());
    }
}

Test(timers, come_out_in_order)
{
    uint64_t random = 3, last = 0;

    for (int i = 0; i < TIMERS; i++) {
        timer[i].deadline = random_next(&random);
        um_timers_add(&timers, &timer[i]);
    }
    for (int i = 0; i < TIMERS; i++) {
        struct um_timer *top = timers.top;

        cr_assert_geq(top->deadline, last);
        last = top->deadline;
        um_timers_remove(&timers, top);
    }
    cr_assert_null(timers.top);
}
