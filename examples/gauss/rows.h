/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Elimination row by row: the arithmetic that all row-wise variants share, and who has which rows.
 *
 * Row i is finished when pivots 0 to i - 1 have been applied to it; then it is pivot i. Rows are
 * dealt out in groups of some consecutive ones, group by group, to sides (threads or fibers).
 */
#ifndef GAUSS_ROWS_H
#define GAUSS_ROWS_H

#include "system.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Applies pivots `from` to `to` - 1, in this order, to rows `first` to `end` - 1, below them. */
typedef void rows_apply_fn(const struct system *system, size_t first, size_t end, size_t from,
                           size_t to);
extern rows_apply_fn *rows_apply; /* chosen for this processor before main */

/* The largest so far of a column's elements, and the row that has it; of equals the first. */
struct pivot {
    size_t row;
    double size;
};

static inline void pivot_offer(struct pivot *best, const struct pivot *other)
{
    if (other->size > best->size || (other->size == best->size && other->row < best->row))
        *best = *other;
}

static inline void pivot_offer_row(struct pivot *best, const struct system *system, size_t row,
                                   size_t column)
{
    struct pivot other = {.row = row, .size = fabs(system_row(system, row)[column])};

    pivot_offer(best, &other);
}

/* No element yet, so that the row stays where it is. */
static inline struct pivot pivot_none(size_t row)
{
    return (struct pivot){.row = row, .size = -1};
}

/* The pivot of the first column. */
struct pivot rows_first_pivot(const struct system *system);

/* Exchanges two rows: coefficients, multipliers, right-hand side. */
void rows_exchange(const struct system *system, size_t row, size_t other);

/* Solves the triangle that elimination leaves. */
void rows_substitute_back(const struct system *system, double *x);

/* The row of the first zero on the diagonal (or what is no number), or n. */
size_t rows_singular(const struct system *system);

/* Consecutive rows. Whoever computes with them has taken them: their side, or who helps it. */
struct group {
    size_t first;
    size_t end;          /* one past the last */
    _Atomic size_t done; /* pivots applied to all of them; changed by whoever has taken them */
    _Atomic bool taken;
};

/* One side's groups, from top to bottom. */
struct share {
    struct group *group;
    size_t count;
    size_t front; /* the first that is not finished */
    size_t next;  /* whose turn it is to have pivots applied */
};

/*
 * Deals n rows to `sides` shares, whose groups lie one share's after the other's. 0 or -ENOMEM (and
 * *shares is NULL, which may be destroyed).
 */
int shares_create(struct share **shares, size_t sides, size_t n, size_t group_rows);
void shares_destroy(struct share *shares);

/*
 * Pivots are applied in steps: so many to one row after the other, since they fit into a
 * second-level cache. Rows are finished before that for the steps to come, but not for all that
 * could be: whoever ran ahead with them would apply all pivots to one row after the other, and have
 * none of them in its cache.
 */
#define SHARE_STEP 32
#define SHARE_PART 16 /* or a part of them, while the others are not known */
#define SHARE_AHEAD (4 * SHARE_STEP)

/* The pivot up to which those who are through with a step may go, when so many are known. */
static inline size_t share_goal(size_t step, size_t known)
{
    return known < step + SHARE_STEP ? step + (known - step) / SHARE_PART * SHARE_PART
                                     : step + SHARE_STEP;
}

/* Whether nothing is left to do. */
static inline bool share_finished(const struct share *share)
{
    return share->front == share->count;
}

/* Whether all its rows are above that row. */
static inline bool share_is_above(const struct share *share, size_t row)
{
    return share->count == 0 || share->group[share->count - 1].end <= row;
}

/* Whether the front group can be finished, and should, in a step, when so many pivots are known. */
static inline bool share_front_ready(const struct share *share, size_t step, size_t known)
{
    return !share_finished(share) && share->group[share->front].first <= known &&
           share->group[share->front].first < step + SHARE_AHEAD;
}

/*
 * Which of `count`, from top to bottom, comes i-th when pivot k is applied to all of them: back and
 * forth, since those that came last are still in a cache when the next pivot begins with them.
 */
static inline size_t rows_in_turn(size_t i, size_t count, size_t k)
{
    return k % 2 == 0 ? i : count - 1 - i;
}

/* Applies pivot k to all rows below it, from top to bottom or back and forth. In the caller's frame: a fiber's stack is seldom in the nearest
 * cache. */
static inline void share_apply(const struct share *share, const struct system *system, size_t k,
                               bool in_turns)
{
    for (size_t i = 0; i < share->count; i++) {
        const struct group *group = &share->group[in_turns ? rows_in_turn(i, share->count, k) : i];
        size_t first = group->first > k ? group->first : k + 1;

        rows_apply(system, first, group->end, k, k + 1);
    }
}

enum share_result {
    SHARE_LACKS_NONE, /* its groups have had all these pivots applied */
    SHARE_ADVANCED,   /* one had not */
    SHARE_TAKEN       /* only groups had not that somebody else has taken */
};

/* Applies pivots up to the goal to the next unfinished group that lacks any. */
enum share_result share_advance(struct share *share, const struct system *system, size_t goal);

/*
 * For anybody: applies a step of the pivots, of which so many are known, to a group that lacks it.
 * Whether it did, and nobody had taken it.
 */
bool group_help(struct group *group, const struct system *system, size_t known);

/*
 * Finishes the front group, which is ready: each of its rows in turn, and tells of it by
 * finished(row, arg) at once. Whether nobody else had taken it.
 */
bool share_finish_front(struct share *share, const struct system *system,
                        void (*finished)(size_t row, void *arg), void *arg);

#endif
