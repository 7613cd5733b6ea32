/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include <runner.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <umbra/stack.h>

#define BYTES ((size_t)64 << 10)
#define SLOTS 8u

static struct umbra_topology *machine(void)
{
    static struct umbra_topology *topology;

    if (!topology)
        cr_assert_eq(umbra_topology_create(NULL, &topology), 0);
    return topology;
}

static struct um_slab *make(size_t bytes, unsigned slots)
{
    struct um_slab *slab;

    cr_assert_eq(um_slab_create(machine(), -1, bytes, slots, &slab), 0);
    return slab;
}

/* Whether writing there kills. In a child, since handlers of this process may be in the way. */
static bool kills(char *at)
{
    int status;
    pid_t pid = fork();

    cr_assert_geq(pid, 0);
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)at = 1;
        _exit(0);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
}

static void each_guard_is_where_it_should_be(enum um_guard kind)
{
    struct um_slab *slab = make(BYTES, SLOTS);

    cr_assert_eq(um_guard_kind(), kind);
    for (unsigned i = 0; i < SLOTS; i++)
        cr_assert_eq(um_slab_open(slab, i), 0);
    for (unsigned i = 0; i < SLOTS; i++) {
        char *low = um_slab_low(slab, i), *high = um_slab_high(slab, i);

        cr_assert_eq((size_t)(high - low), um_stack_round(BYTES));
        memset(low, 1, (size_t)(high - low)); /* all of it is there */
        cr_assert(kills(low - 1));
        cr_assert(kills(low - UM_GUARD_LEAST_BYTES / 2));
        cr_assert(kills(low - slab->guard_bytes));
    }
    um_slab_destroy(slab);
}

Test(stack, guards_found_by_itself)
{
    if (um_guard_kind() == UM_GUARD_NONE)
        cr_skip_test("no guards in the POSIX form");
    each_guard_is_where_it_should_be(um_guard_kind());
}

Test(stack, guards_by_protection)
{
#ifdef UMBRA_POSIX_ONLY
    cr_skip_test("no guards in the POSIX form");
#endif
    setenv("UMBRA_GUARD", "protection", 1);
    each_guard_is_where_it_should_be(UM_GUARD_PROTECTION);
}

Test(stack, guards_by_advice_where_the_kernel_heeds_it)
{
    setenv("UMBRA_GUARD", "advice", 1);
    if (um_guard_kind() != UM_GUARD_ADVICE)
        cr_skip_test("this kernel has no MADV_GUARD_INSTALL");
    each_guard_is_where_it_should_be(UM_GUARD_ADVICE);
}

Test(stack, no_guards_if_told_so)
{
    struct um_slab *slab;

    setenv("UMBRA_GUARD", "none", 1);
    slab = make(BYTES, SLOTS);
    cr_assert_eq(um_guard_kind(), UM_GUARD_NONE);
    for (unsigned i = 0; i < SLOTS; i++)
        cr_assert_eq(um_slab_open(slab, i), 0);
    memset(slab->base, 1, SLOTS * slab->slot_bytes);
    um_slab_destroy(slab);
}

/* ---- whose guard an address is in ---- */

static void name_it(const struct um_slab *slab, unsigned slot, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s %u", (const char *)slab->owner, slot);
}

Test(stack, an_address_in_a_guard_is_found)
{
    struct um_slab *slabs[3];
    size_t stack_bytes;
    char text[32];

    for (unsigned s = 0; s < 3; s++) {
        static char *const owners[] = {"first", "second", "third"};

        slabs[s] = make(BYTES << s, SLOTS);
        slabs[s]->owner = owners[s];
        slabs[s]->describe = name_it;
    }
    for (unsigned s = 0; s < 3; s++)
        for (unsigned i = 0; i < SLOTS; i++) {
            char *low = um_slab_low(slabs[s], i);
            char expected[32];

            snprintf(expected, sizeof(expected), "%s %u", (char *)slabs[s]->owner, i);
            cr_assert(um_slab_find(low - 1, text, sizeof(text), &stack_bytes));
            cr_assert_str_eq(text, expected);
            cr_assert_eq(stack_bytes, BYTES << s);
            cr_assert(um_slab_find(low - slabs[s]->guard_bytes, text, sizeof(text), &stack_bytes));
            cr_assert_str_eq(text, expected);
            cr_assert(!um_slab_find(low, text, sizeof(text), &stack_bytes));
            cr_assert(
                !um_slab_find(um_slab_high(slabs[s], i) - 1, text, sizeof(text), &stack_bytes));
        }
    cr_assert(!um_slab_find(text, text, sizeof(text), &stack_bytes), "on the thread's stack");
    cr_assert(!um_slab_find(NULL, text, sizeof(text), &stack_bytes));
    um_slab_destroy(slabs[1]); /* from the middle of the list */
    for (unsigned s = 0; s < 3; s += 2) {
        cr_assert(um_slab_find(slabs[s]->base, text, sizeof(text), &stack_bytes));
        um_slab_destroy(slabs[s]);
    }
}

/* ---- sizes ---- */

Test(stack, sizes_are_whole_pages)
{
    size_t page = um_os_page_bytes();

    cr_assert_eq(um_stack_round(1), page);
    cr_assert_eq(um_stack_round(page), page);
    cr_assert_eq(um_stack_round(page + 1), 2 * page);
    cr_assert_eq(um_stack_least_bytes() % page, 0);
    cr_assert_geq(um_stack_least_bytes(), (size_t)UM_STACK_LEAST_BYTES);
}

Test(stack, guards_are_64_KiB_and_slots_odd_numbers_of_pages)
{
    size_t page = um_os_page_bytes();

    for (size_t pages = 1; pages < 200; pages++) {
        struct um_slab *slab = make(pages * page, 1);

        cr_assert_eq(slab->slot_bytes - slab->guard_bytes, pages * page);
        cr_assert_geq(slab->guard_bytes, (size_t)65536);
        cr_assert_leq(slab->guard_bytes, um_stack_round(65536) + page);
        cr_assert_eq(slab->slot_bytes / page % 2, 1u);
        um_slab_destroy(slab);
    }
}

Test(stack, tops_are_spread_over_the_sets_of_a_cache)
{
    for (unsigned i = 0; i < UM_STACK_COLOURS; i++)
        for (unsigned j = 0; j < UM_STACK_COLOURS; j++) {
            cr_assert_eq(um_stack_colour(i) % 64, 0);
            cr_assert_eq(um_stack_colour(i) == um_stack_colour(j), i == j);
            cr_assert_lt(um_stack_colour(i), 1024u);
        }
}

Test(stack, what_cannot_be_had_is_refused)
{
    struct um_slab *slab;

    cr_assert_eq(um_slab_create(machine(), -1, (size_t)1 << 46, 4, &slab), -ENOMEM);
    cr_assert_eq(um_slab_create(machine(), -1, SIZE_MAX / 4, 1000, &slab), -ENOMEM);
    slab = make(BYTES, SLOTS); /* and all is well after */
    um_slab_destroy(slab);
}

Test(stack, any_number_comes_and_goes)
{
    struct um_slab *slabs[50];

    for (int round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 50; i++) {
            slabs[i] = make(BYTES, i + 1);
            cr_assert_eq(um_slab_open(slabs[i], i), 0);
            *um_slab_low(slabs[i], i) = 1;
        }
        for (unsigned i = 0; i < 50; i++)
            um_slab_destroy(slabs[(i * 7) % 50]);
    }
    cr_assert_null(um_atomic_load(&um_slabs.first, relaxed));
}

/* ---- how much of it was used ---- */

Test(stack, what_was_used_is_measured_from_the_top)
{
    struct um_slab *slab = make(BYTES, 2);
    char *low = um_slab_low(slab, 1), *high = um_slab_high(slab, 1);

    cr_assert_eq(um_slab_open(slab, 1), 0);
    cr_assert_eq(um_stack_used_bytes(low, high), 0);
    high[-1] = 1;
    cr_assert_eq(um_stack_used_bytes(low, high), 1);
    memset(high - 10000, 1, 10000);
    cr_assert_eq(um_stack_used_bytes(low, high), 10000);
    memset(high - 9999, 0, 5000);
    cr_assert_eq(um_stack_used_bytes(low, high), 10000, "the lowest byte counts");
    high -= 64; /* a stack that begins lower, as those with a control block at the top */
    cr_assert_eq(um_stack_used_bytes(low, high), 10000 - 64);
    memset(low, 1, (size_t)(high - low));
    cr_assert_eq(um_stack_used_bytes(low, high), high - low);
    um_slab_destroy(slab);
}
