/* SPDX-License-Identifier: BSL-1.0 */
/*
 * umbra/prefetch.h one call at a time, leader and helper being one thread, and then as two. That the
 * helper's looks fit the leader's stores among threads: tests/model/ahead.
 */
#define _GNU_SOURCE
#include <runner.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/prefetch.h>

#define WINDOW 32u
#define STEP 8u

_Static_assert(UMBRA_PREFETCH_EVERY == 16, "numbers below are for this");

static _Alignas(UMBRA_CACHE_LINE) struct umbra_prefetch ahead;

static void begin_window(const struct umbra_prefetch_options *options)
{
    cr_assert_eq(umbra_prefetch_init(&ahead, options), 0);
    umbra_prefetch_begin(&ahead, NULL);
}

/* How many items the helper may fetch, from `item` on, before it would have to wait. */
static uint64_t free_items(uint64_t item)
{
    uint64_t first = item;
    uint64_t at = atomic_load(&ahead.leader.at);

    while (item - at < ahead.helper.window) {
        cr_assert(umbra_prefetch_next(&ahead, &item, NULL));
        item++;
    }
    return item - first;
}

Test(prefetch, options_out_of_range_are_refused)
{
    struct umbra_prefetch_options narrow = {.window = 2 * UMBRA_PREFETCH_EVERY - 1};
    struct umbra_prefetch_options wide = {.window = UINT64_MAX};
    struct umbra_prefetch_options beyond = {.window = WINDOW, .lead = WINDOW};

    cr_assert_eq(umbra_prefetch_init(&ahead, &narrow), -EINVAL);
    cr_assert_eq(umbra_prefetch_init(&ahead, &wide), -EINVAL);
    cr_assert_eq(umbra_prefetch_init(&ahead, &beyond), -EINVAL);
}

Test(prefetch, defaults_are_as_documented)
{
    struct umbra_prefetch_options none = {0};

    cr_assert_eq(umbra_prefetch_init(&ahead, &none), 0);
    cr_assert_eq(ahead.helper.window, UMBRA_PREFETCH_WINDOW);
    cr_assert_eq(ahead.helper.lead, UMBRA_PREFETCH_WINDOW / 4);
    begin_window(NULL);
    cr_assert_eq(free_items(0), UMBRA_PREFETCH_WINDOW);
}

Test(prefetch, leader_and_helper_write_different_lines)
{
    uintptr_t leader = (uintptr_t)&ahead.leader;

    cr_assert_eq(leader % UMBRA_CACHE_LINE, 0);
    cr_assert_geq((uintptr_t)&ahead.helper, leader + UMBRA_CACHE_LINE);
    cr_assert_leq(sizeof(ahead.leader), UMBRA_CACHE_LINE);
}

Test(prefetch, window_is_all_that_the_helper_gets)
{
    begin_window(&(struct umbra_prefetch_options){.window = WINDOW});
    cr_assert_eq(free_items(0), WINDOW);
    umbra_prefetch_at(&ahead, 16, NULL);
    cr_assert_eq(free_items(WINDOW), 16);
    umbra_prefetch_at(&ahead, 17, NULL); /* not published */
    cr_assert_eq(atomic_load(&ahead.leader.at), 16);
}

Test(prefetch, looks_are_a_step_apart)
{
    uint64_t item = 0;

    begin_window(&(struct umbra_prefetch_options){.window = WINDOW});
    for (; item < WINDOW; item++)
        cr_assert(umbra_prefetch_next(&ahead, &item, NULL));
    cr_assert_eq(ahead.stats.looks, WINDOW / STEP);
    cr_assert_eq(ahead.stats.waits, 0);
    cr_assert_eq(ahead.stats.skips, 0);
}

Test(prefetch, late_helper_goes_on_in_front_of_the_leader)
{
    uint64_t item = 3;

    begin_window(&(struct umbra_prefetch_options){.window = WINDOW, .lead = 5});
    umbra_prefetch_at(&ahead, 48, NULL);
    cr_assert(umbra_prefetch_next(&ahead, &item, NULL));
    cr_assert_eq(item, 53);
    cr_assert_eq(ahead.stats.skips, 1);
    cr_assert_eq(ahead.stats.skipped, 50);
    cr_assert_eq(free_items(item), WINDOW - 5);
}

Test(prefetch, helper_at_the_leaders_item_is_not_late)
{
    uint64_t item = 16;

    begin_window(NULL);
    umbra_prefetch_at(&ahead, 16, NULL);
    cr_assert(umbra_prefetch_next(&ahead, &item, NULL));
    cr_assert_eq(item, 16);
}

Test(prefetch, late_helper_in_a_chain_goes_on_from_the_leaders_place)
{
    static char chain[128];
    const void *place;
    uint64_t item = 0;

    begin_window(NULL);
    umbra_prefetch_begin(&ahead, chain);
    place = ahead.first;
    cr_assert_eq(place, chain);
    cr_assert(umbra_prefetch_next(&ahead, &item, &place));
    cr_assert(item == 0 && place == chain, "nothing to skip");
    umbra_prefetch_at(&ahead, 64, chain + 64);
    umbra_prefetch_at(&ahead, 65, chain + 65); /* not published */
    item = 20;
    place = chain + 20;
    cr_assert(umbra_prefetch_next(&ahead, &item, &place));
    cr_assert_eq(item, 64);
    cr_assert_eq(place, chain + 64);
}

Test(prefetch, end_ends_the_helper_wherever_it_is)
{
    const void *place = NULL;
    uint64_t item = 0;

    begin_window(NULL);
    umbra_prefetch_end(&ahead);
    cr_assert_not(umbra_prefetch_next(&ahead, &item, NULL));
    item = 1000;
    cr_assert_not(umbra_prefetch_next(&ahead, &item, &place));
    cr_assert(item == 1000 && place == NULL, "as they were");
}

Test(prefetch, may_begin_again)
{
    uint64_t item = 0;

    begin_window(&(struct umbra_prefetch_options){.window = WINDOW});
    for (int run = 0; run < 3; run++) {
        umbra_prefetch_begin(&ahead, NULL);
        cr_assert_eq(free_items(0), WINDOW);
        umbra_prefetch_at(&ahead, 512, NULL);
        cr_assert_eq(free_items(512), WINDOW);
        umbra_prefetch_end(&ahead);
        item = 1000;
        cr_assert_not(umbra_prefetch_next(&ahead, &item, NULL));
    }
}

/* ---- lines ---- */

Test(prefetch, lines_are_passed_on_when_others_have_followed)
{
    static char lines[100][UMBRA_CACHE_LINE];

    begin_window(&(struct umbra_prefetch_options){.demote = true});
    for (unsigned i = 0; i < 100; i++) {
        umbra_prefetch_line(&ahead, lines[i]);
        for (unsigned back = 0; back < UM_PREFETCH_LAG && back <= i; back++)
            cr_assert_eq(ahead.line[(i - back) % UM_PREFETCH_LAG], lines[i - back]);
        cr_assert_eq(ahead.lines >= UM_PREFETCH_LAG, i + 1 >= UM_PREFETCH_LAG);
    }
    umbra_prefetch_line(&ahead, NULL); /* any address */
    umbra_prefetch_begin(&ahead, NULL);
    cr_assert_eq(ahead.lines, 0, "what the last run fetched is nobody's business any more");
}

Test(prefetch, lines_are_not_kept_where_nothing_is_passed_on)
{
    begin_window(NULL);
    umbra_prefetch_line(&ahead, &ahead);
    cr_assert_eq(ahead.lines, 0);
}

/* ---- two threads ---- */

enum { ITEMS = 200000, RUNS = 5 };

struct link {
    const struct link *next;
    uint64_t number;
};

static struct link *chain;

static void *follow(void *unused)
{
    const void *place = ahead.first;
    uint64_t item = 0;

    (void)unused;
    while (place && umbra_prefetch_next(&ahead, &item, &place)) {
        const struct link *link = place;

        cr_assert_eq(link->number, item, "place and number belong together");
        umbra_prefetch_line(&ahead, link);
        place = link->next;
        item++;
    }
    return NULL;
}

/* Stalls now and then, so that the helper must wait, and else hurries, so that it is late. */
static void lead(uint64_t items)
{
    for (uint64_t i = 0; i < items; i++) {
        umbra_prefetch_at(&ahead, i, &chain[i]);
        if (i % 10000 == 0)
            sched_yield();
    }
}

Test(prefetch, helper_and_leader_agree_on_what_is_where)
{
    chain = calloc(ITEMS, sizeof *chain);
    cr_assert_not_null(chain);
    for (uint64_t i = 0; i < ITEMS; i++)
        chain[i] = (struct link){i + 1 < ITEMS ? &chain[i + 1] : NULL, i};
    begin_window(&(struct umbra_prefetch_options){.window = WINDOW, .demote = true});
    for (int run = 0; run < RUNS; run++) {
        pthread_t helper;

        umbra_prefetch_begin(&ahead, chain);
        cr_assert_eq(pthread_create(&helper, NULL, follow, NULL), 0);
        lead(run % 2 ? ITEMS : ITEMS / 3); /* to its end, or not */
        umbra_prefetch_end(&ahead);
        pthread_join(helper, NULL);
    }
    free(chain);
}
