/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Cilksort (Frigo, Leiserson and Randall, 1998; as paper 004 has it): numbers are divided into four
 * quarters, which are sorted; two merges make two halves of them, and a third all. A merge is
 * divided at the median of its longer part. Here is what all ways to do it share: where to divide,
 * and what is done when there is nothing more to divide. C and C++.
 */
#ifndef CILKSORT_STEPS_H
#define CILKSORT_STEPS_H

#include <stdbool.h>
#include <stddef.h>

/* Numbers to sort, and room for as many, which is used meanwhile. */
struct part {
    int *numbers, *room;
    size_t count;
    size_t cutoff; /* so many or fewer are not divided; at least CUTOFF_LEAST */
};

/* Two parts in order, to be merged. */
struct merge {
    const int *a, *b;
    size_t a_count, b_count;
    int *to; /* room for all, elsewhere */
    size_t cutoff;
};

#define CUTOFF_LEAST 4
#define CUTOFF 2048 /* the paper's */

static inline bool part_divides(const struct part *part)
{
    return part->count > part->cutoff;
}

/* Quarter 0 to 3; the last has what is left. */
static inline struct part part_quarter(const struct part *part, unsigned index)
{
    size_t quarter = part->count / 4, before = index * quarter;
    struct part one = *part;

    one.numbers += before;
    one.room += before;
    one.count = index == 3 ? part->count - before : quarter;
    return one;
}

/* Merge 0 and 1 of the four quarters into the room; 2, when both are done, of all back. */
static inline struct merge part_merge(const struct part *part, unsigned index)
{
    size_t quarter = part->count / 4, half = 2 * quarter;
    struct merge merge = {NULL, NULL, 0, 0, NULL, part->cutoff};

    merge.a = index == 2 ? part->room : part->numbers + index * half;
    merge.a_count = index == 2 ? half : quarter;
    merge.b = merge.a + merge.a_count;
    merge.b_count = index == 2   ? part->count - half
                    : index == 1 ? part->count - half - quarter
                                 : quarter;
    merge.to = index == 2 ? part->numbers : part->room + index * half;
    return merge;
}

/* True if both parts are so long that the merge is divided. */
static inline bool merge_divides(const struct merge *merge)
{
    return merge->a_count > merge->cutoff && merge->b_count > merge->cutoff;
}

/* The merge of what is below the median of the longer part; *merge becomes the rest, for which
 * there is something in each case. */
struct merge merge_divide(struct merge *merge);

/* A look at the whole before it is sorted, as libraries do: numbers in order stay, and those in the
 * opposite order are turned round. The first numbers say which of both can be so: random ones cost
 * no more than these. Then pieces are looked at, and turned, at the same time. A piece of the first
 * half and the numbers at the same distance from the end belong together: a processor that has looked
 * at them finds them in its cache when it exchanges them. */
enum order { NO_ORDER, IN_ORDER, OPPOSITE };

#define PIECE 32768 /* numbers of the first half, and as many of the second */

/* Numbers of the first half, the one in the middle included. */
static inline size_t part_half(const struct part *part)
{
    return part->count - part->count / 2;
}

enum order part_begins(const struct part *part);
/* True if numbers first to last - 1 of the first half go on so, up to the next one behind them, and
 * so do those at the same distance from the end. */
bool part_goes_on(const struct part *part, enum order order, size_t first, size_t last);
/* Exchanges numbers first to last - 1 of the first half with those at the same distance from the
 * end; one in the middle stays. */
void part_turn(const struct part *part, size_t first, size_t last);

/* Without dividing. */
void part_sort(const struct part *part);
void merge_all(const struct merge *merge);

#endif
