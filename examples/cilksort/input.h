/* SPDX-License-Identifier: BSL-1.0 */
/* Numbers to sort, and whether they have been sorted. C and C++. */
#ifndef CILKSORT_INPUT_H
#define CILKSORT_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum input { RANDOM, SORTED, REVERSED, INPUTS };

static inline const char *input_name(enum input input)
{
    return input == RANDOM ? "random" : input == SORTED ? "sorted" : "reversed";
}

/* True if it is the name of one. */
static inline bool input_read(const char *text, enum input *input)
{
    for (int i = RANDOM; i < INPUTS; i++)
        if (strcmp(text, input_name((enum input)i)) == 0) {
            *input = (enum input)i;
            return true;
        }
    return false;
}

/* Random numbers are the same each time, for the same seed. */
static inline void input_fill(int *numbers, size_t count, enum input input, uint64_t seed)
{
    uint64_t state = seed;

    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        numbers[i] = input == RANDOM   ? (int)(state >> 33)
                     : input == SORTED ? (int)i
                                       : (int)(count - i);
    }
}

static inline bool input_in_order(const int *numbers, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (numbers[i - 1] > numbers[i])
            return false;
    return true;
}

/* The same for the same numbers in any order; else different, most likely. */
static inline uint64_t input_sum(const int *numbers, size_t count)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t mixed = (uint64_t)(uint32_t)numbers[i] * 0x9e3779b97f4a7c15u;

        sum += mixed ^ mixed >> 29;
    }
    return sum;
}

#endif
