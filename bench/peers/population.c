/* SPDX-License-Identifier: BSL-1.0 */
/* See population.h. */
#include "population.h"

static void print(uint64_t number)
{
    char text[64];

    snprintf(text, sizeof text, "fiber %llu of %s, %.3f", (unsigned long long)number, "many",
             (double)number / 3);
    __asm__ volatile("" : : "r"(text) : "memory"); /* the text is used */
}

void population_enter(struct population *population)
{
    uint64_t before = __atomic_load_n(&population->blocked, __ATOMIC_RELAXED); /* any number */

    if (population->prints)
        print(before);
    /* release: what the fiber has touched; pairs with the acquire in ways that poll it */
    __atomic_fetch_add(&population->blocked, 1, __ATOMIC_RELEASE);
}

void population_leave(struct population *population, uint64_t i)
{
    __atomic_fetch_add(&population->sum, i, __ATOMIC_RELAXED); /* read after release() joined */
}
