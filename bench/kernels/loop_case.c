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

void loop_part(struct loop_case *loop, size_t part)
{
    struct loop_side *side = &loop->side[part];
    uint64_t value = side->value;

    for (uint32_t i = loop->steps; i > 0; i--) {
        value *= FACTOR;
        __asm__ volatile("" : "+r"(value)); /* one by one */
    }
    side->value = value;
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
