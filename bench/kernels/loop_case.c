/* SPDX-License-Identifier: BSL-1.0 */
/* See loop_case.h. */
#include "loop_case.h"

#define FACTOR UINT64_C(6364136223846793005) /* odd: no value is lost */

const uint32_t loop_sizes[LOOP_SIZES] = {0, 30, 100, 300, 1000, 3000};

void loop_begin(struct loop_case *loop, unsigned size)
{
    loop->steps = loop_sizes[size];
    for (unsigned part = 0; part < LOOP_PARTS; part++) {
        loop->side[part].value = part + 1;
        loop->side[part].runs = 0;
    }
}

static inline uint64_t multiplied(uint64_t value, uint32_t steps)
{
    for (uint32_t i = steps; i > 0; i--) {
        value *= FACTOR;
        __asm__ volatile("" : "+r"(value)); /* one by one */
    }
    return value;
}

void loop_part(struct loop_case *loop, size_t part)
{
    struct loop_side *side = &loop->side[part];

    side->value = multiplied(side->value, loop->steps);
    side->runs++;
}

/* The factor to a power, by squares. */
static uint64_t power(uint64_t exponent)
{
    uint64_t result = 1;

    for (uint64_t square = FACTOR; exponent > 0; exponent /= 2, square *= square)
        result *= exponent % 2 ? square : 1;
    return result;
}

uint64_t loop_verified(const struct loop_case *loop)
{
    uint64_t runs = loop->side[0].runs;

    for (unsigned part = 0; part < LOOP_PARTS; part++)
        if (loop->side[part].runs != runs ||
            loop->side[part].value != (part + 1) * power(runs * loop->steps))
            return 0;
    return runs;
}

void loop_indices_begin(uint64_t value[LOOP_INDICES])
{
    for (size_t i = 0; i < LOOP_INDICES; i++)
        value[i] = i + 1;
}

void loop_indices(uint64_t value[LOOP_INDICES], size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        value[i] = multiplied(value[i], LOOP_INDEX_STEPS);
}

bool loop_indices_verified(const uint64_t value[LOOP_INDICES], uint64_t loops)
{
    uint64_t all = power(loops * LOOP_INDEX_STEPS);

    for (size_t i = 0; i < LOOP_INDICES; i++)
        if (value[i] != (i + 1) * all)
            return false;
    return true;
}
