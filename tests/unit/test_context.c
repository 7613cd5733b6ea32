/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Switching between bare contexts. Built twice: against the C names of Boost's functions, and
 * against the C++ ones of 1.87 and later, with a library that has no others (boost_1_87/).
 */
#include <runner.h>

#include <fenv.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/context.h>

#define STACK_BYTES 65536
#define RING 100

static struct um_context outside; /* the test's own */
static struct um_context inside;
static struct um_context ring[RING];
static char *stacks[RING + 1]; /* of ring, and last of `inside` */
static char trace[64];

static void note(const char *what)
{
    strncat(trace, what, sizeof(trace) - strlen(trace) - 1);
}

static char **stack_of(const struct um_context *context)
{
    return &stacks[context == &inside ? RING : context - ring];
}

static void make(struct um_context *context, um_context_entry *entry)
{
    char *stack = *stack_of(context) = aligned_alloc(4096, STACK_BYTES);

    um_context_make(context, stack, stack + STACK_BYTES, entry);
}

static void discard(struct um_context *context)
{
    char *stack = *stack_of(context);

    um_context_destroy(context, stack + STACK_BYTES);
    free(stack);
}

static void says_what_it_does(struct um_context *self)
{
    for (;;) {
        note("b");
        um_context_switch(self, &outside);
    }
}

Test(context, begins_when_it_is_first_switched_to)
{
    um_context_adopt(&outside);
    make(&inside, says_what_it_does);
    note("a");
    um_context_switch(&outside, &inside);
    note("c");
    um_context_switch(&outside, &inside);
    note("d");
    cr_assert_str_eq(trace, "abcbd");
    discard(&inside);
}

static void looks_around(struct um_context *self)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

    cr_expect_eq(self, &inside);
    cr_expect(frame - (uintptr_t)*stack_of(self) < STACK_BYTES);
    cr_expect_eq(frame % 16, 0, "as the calling convention has it");
    um_context_switch(self, &outside);
}

Test(context, runs_on_its_own_stack)
{
    um_context_adopt(&outside);
    make(&inside, looks_around);
    um_context_switch(&outside, &inside);
    discard(&inside);
}

/* ---- what a switch keeps ---- */

static uint64_t mix(uint64_t x)
{
    return (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
}

/* More values than there are registers, alive over every switch. */
static uint64_t many_values(uint64_t seed, struct um_context *self, struct um_context *other)
{
    uint64_t a = mix(seed), b = mix(a), c = mix(b), d = mix(c), e = mix(d), f = mix(e), g = mix(f);
    double p = (double)(a >> 40), q = (double)(b >> 40), r = (double)(c >> 40);

    for (int i = 0; i < 1000; i++) {
        um_context_switch(self, other);
        a += mix(b), b += mix(c), c += mix(d), d += mix(e), e += mix(f), f += mix(g), g += mix(a);
        p = q * 0.5 + 1, q = r * 0.25 + 2, r = p * 0.125 + 3;
    }
    return a ^ b ^ c ^ d ^ e ^ f ^ g ^ (uint64_t)(p * 1024) ^ (uint64_t)(q * 4096) ^
           (uint64_t)(r * 16384);
}

/* The same with nobody to switch to. */
static uint64_t many_values_alone(uint64_t seed)
{
    uint64_t a = mix(seed), b = mix(a), c = mix(b), d = mix(c), e = mix(d), f = mix(e), g = mix(f);
    double p = (double)(a >> 40), q = (double)(b >> 40), r = (double)(c >> 40);

    for (int i = 0; i < 1000; i++) {
        a += mix(b), b += mix(c), c += mix(d), d += mix(e), e += mix(f), f += mix(g), g += mix(a);
        p = q * 0.5 + 1, q = r * 0.25 + 2, r = p * 0.125 + 3;
    }
    return a ^ b ^ c ^ d ^ e ^ f ^ g ^ (uint64_t)(p * 1024) ^ (uint64_t)(q * 4096) ^
           (uint64_t)(r * 16384);
}

static uint64_t values_inside;

static void has_many_values(struct um_context *self)
{
    values_inside = many_values(2, self, &outside);
    um_context_switch(self, &outside);
}

Test(context, a_switch_keeps_all_values)
{
    um_context_adopt(&outside);
    make(&inside, has_many_values);
    cr_assert_eq(many_values(1, &outside, &inside), many_values_alone(1));
    um_context_switch(&outside, &inside);
    cr_assert_eq(values_inside, many_values_alone(2));
    discard(&inside);
}

static void rounds_upward(struct um_context *self)
{
    fesetround(FE_UPWARD);
    um_context_switch(self, &outside);
    cr_expect_eq(fegetround(), FE_UPWARD);
    um_context_switch(self, &outside);
}

/* In line it stays as it is, for fibers to exchange that want to; Boost's jump exchanges it. */
Test(context, the_rounding_mode_stays_or_is_exchanged)
{
#ifdef UM_CONTEXT_IN_LINE
    int outside_mode = FE_UPWARD;
#else
    int outside_mode = FE_TONEAREST;
#endif

    um_context_adopt(&outside);
    make(&inside, rounds_upward);
    um_context_switch(&outside, &inside);
    cr_assert_eq(fegetround(), outside_mode);
    um_context_switch(&outside, &inside);
    cr_assert_eq(fegetround(), outside_mode);
    discard(&inside);
}

/* ---- many ---- */

static unsigned visits[RING];

static void passes_on(struct um_context *self)
{
    unsigned place = (unsigned)(self - ring);

    for (;;) {
        visits[place]++;
        um_context_switch(self, place + 1 < RING ? self + 1 : &outside);
    }
}

/* Each is switched to from one context and switches to another. */
Test(context, a_ring_of_many_comes_around)
{
    um_context_adopt(&outside);
    for (unsigned i = 0; i < RING; i++)
        make(&ring[i], passes_on);
    for (unsigned round = 0; round < 10; round++)
        um_context_switch(&outside, &ring[0]);
    for (unsigned i = 0; i < RING; i++) {
        cr_assert_eq(visits[i], 10);
        discard(&ring[i]);
    }
}

Test(context, a_stack_serves_one_after_another)
{
    char *stack = aligned_alloc(4096, STACK_BYTES);

    um_context_adopt(&outside);
    for (int i = 0; i < 1000; i++) {
        trace[0] = '\0';
        um_context_make(&inside, stack, stack + STACK_BYTES, says_what_it_does);
        um_context_switch(&outside, &inside);
        cr_assert_str_eq(trace, "b");
        um_context_destroy(&inside, stack + STACK_BYTES);
    }
    free(stack);
}

Test(context, tells_where_one_goes_on)
{
    uintptr_t at, function = (uintptr_t)says_what_it_does;

    um_context_adopt(&outside);
    make(&inside, says_what_it_does);
    um_context_switch(&outside, &inside);
    at = (uintptr_t)um_context_pc(&inside);
    discard(&inside);
    if (at == 0)
        cr_skip_test("this processor's frames are not known");
    cr_assert(at > function && at < function + 4096);
}
