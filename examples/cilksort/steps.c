/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What is done of a part or a merge that is not divided: quicksort, and a merge from both ends at
 * once. Which number is next is computed, not branched on: a processor cannot foresee it.
 */
#include "steps.h"

#include <string.h>

#define INSERTED 16 /* so many numbers or fewer are sorted by insertion */
#define FIRST 32    /* if these numbers are in an order, all may be in the same */
#define BLOCK 256   /* numbers of which all are compared, whatever the first ones show */

/* ---- sorting ---- */

static void insertion_sort(int *numbers, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        int number = numbers[i];
        size_t at = i;

        for (; at > 0 && numbers[at - 1] > number; at--)
            numbers[at] = numbers[at - 1];
        numbers[at] = number;
    }
}

static int median_of(int a, int b, int c)
{
    return a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
}

/* Puts the numbers below the limit first. How many there are. */
static size_t below_first(int *numbers, size_t count, long long limit)
{
    size_t below = 0;

    for (size_t i = 0; i < count; i++) {
        int number = numbers[i];

        numbers[i] = numbers[below];
        numbers[below] = number;
        below += number < limit;
    }
    return below;
}

/* True if they are in order, or now are, since they were in the opposite order. */
static bool was_in_order(int *numbers, size_t count)
{
    size_t up = 1, down = 1;

    while (up < count && numbers[up - 1] <= numbers[up])
        up++;
    if (up >= count)
        return true;
    while (down < count && numbers[down - 1] >= numbers[down])
        down++;
    for (size_t i = 0; down >= count && i < count / 2; i++) {
        int number = numbers[i];

        numbers[i] = numbers[count - 1 - i];
        numbers[count - 1 - i] = number;
    }
    return down >= count;
}

/* The least are equal to the median of three if none is below it: they are in their place. */
static void quicksort(int *numbers, size_t count)
{
    while (count > INSERTED) {
        int middle = median_of(numbers[count / 4], numbers[count / 2], numbers[count - count / 4]);
        size_t below = below_first(numbers, count, middle);

        if (below == 0) {
            size_t equal = below_first(numbers, count, (long long)middle + 1);

            numbers += equal;
            count -= equal;
        } else if (below < count - below) {
            quicksort(numbers, below);
            numbers += below;
            count -= below;
        } else {
            quicksort(numbers + below, count - below);
            count = below;
        }
    }
    insertion_sort(numbers, count);
}

void part_sort(const struct part *part)
{
    if (!was_in_order(part->numbers, part->count))
        quicksort(part->numbers, part->count);
}

/* ---- numbers that are in order already ---- */

/* True if so many pairs of neighbours are in the order. */
static bool pairs_are(const int *numbers, size_t pairs, enum order order)
{
    int wrong = 0;

    if (order == IN_ORDER)
        for (size_t i = 0; i < pairs; i++)
            wrong |= numbers[i] > numbers[i + 1];
    else
        for (size_t i = 0; i < pairs; i++)
            wrong |= numbers[i] < numbers[i + 1];
    return wrong == 0;
}

enum order part_begins(const struct part *part)
{
    size_t pairs = (part->count < FIRST ? part->count : FIRST) - 1;

    if (pairs_are(part->numbers, pairs, IN_ORDER))
        return IN_ORDER;
    return pairs_are(part->numbers, pairs, OPPOSITE) ? OPPOSITE : NO_ORDER;
}

/* True if numbers first to last - 1 go on so, up to the next one behind them. */
static bool numbers_go_on(const struct part *part, enum order order, size_t first, size_t last)
{
    size_t end = last < part->count ? last : part->count - 1;

    for (; first < end; first += BLOCK)
        if (!pairs_are(part->numbers + first, end - first < BLOCK ? end - first : BLOCK, order))
            return false;
    return true;
}

bool part_goes_on(const struct part *part, enum order order, size_t first, size_t last)
{
    return numbers_go_on(part, order, first, last) &&
           numbers_go_on(part, order, part->count - last, part->count - first);
}

void part_turn(const struct part *part, size_t first, size_t last)
{
    for (size_t i = first; i < last; i++) {
        int number = part->numbers[i];

        part->numbers[i] = part->numbers[part->count - 1 - i];
        part->numbers[part->count - 1 - i] = number;
    }
}

/* ---- merging ---- */

/* How many of the numbers, which are in order, are below the limit. */
static size_t count_below(const int *numbers, size_t count, int limit)
{
    size_t first = 0;

    while (count > 0) {
        size_t half = count / 2;

        if (numbers[first + half] < limit) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first;
}

struct merge merge_divide(struct merge *merge)
{
    bool a_longer = merge->a_count >= merge->b_count;
    const int *longer = a_longer ? merge->a : merge->b;
    const int *shorter = a_longer ? merge->b : merge->a;
    size_t count = a_longer ? merge->a_count : merge->b_count;
    size_t other = a_longer ? merge->b_count : merge->a_count;
    size_t middle = count / 2, below = count_below(shorter, other, longer[middle]);
    struct merge left = {.a = longer,
                         .b = shorter,
                         .a_count = middle,
                         .b_count = below,
                         .to = merge->to,
                         .cutoff = merge->cutoff};

    *merge = (struct merge){.a = longer + middle,
                            .b = shorter + below,
                            .a_count = count - middle,
                            .b_count = other - below,
                            .to = merge->to + middle + below,
                            .cutoff = merge->cutoff};
    return left;
}

/* As many numbers of a merge from its beginning, and from its end, as the shorter part has: neither
 * can run out of either part, and they do not meet. */
static void merge_ends(struct merge *merge, size_t steps)
{
    const int *a = merge->a, *b = merge->b;
    const int *a_last = a + merge->a_count - 1, *b_last = b + merge->b_count - 1;
    int *to = merge->to, *to_last = to + merge->a_count + merge->b_count - 1;

    for (size_t i = 0; i < steps; i++) {
        int from_a = *a, from_b = *b, last_a = *a_last, last_b = *b_last;
        size_t first = from_a <= from_b, last = last_a <= last_b;

        *to++ = first ? from_a : from_b;
        a += first;
        b += 1 - first;
        *to_last-- = last ? last_b : last_a;
        a_last -= 1 - last;
        b_last -= last;
    }
    merge->a = a;
    merge->b = b;
    merge->a_count = (size_t)(a_last + 1 - a);
    merge->b_count = (size_t)(b_last + 1 - b);
    merge->to = to;
}

void merge_all(const struct merge *merge)
{
    struct merge left = *merge;

    while (left.a_count > 0 && left.b_count > 0) {
        if (left.a[left.a_count - 1] <= left.b[0])
            break;
        merge_ends(&left, left.a_count < left.b_count ? left.a_count : left.b_count);
    }
    memcpy(left.to, left.a, left.a_count * sizeof(*left.a));
    memcpy(left.to + left.a_count, left.b, left.b_count * sizeof(*left.b));
}
