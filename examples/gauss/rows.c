/* SPDX-License-Identifier: BSL-1.0 */
/* See rows.h. */
#include "rows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* ---- arithmetic: the best that this processor can execute ---- */

rows_apply_fn rows_apply_baseline;
#ifdef __x86_64__
rows_apply_fn rows_apply_avx2, rows_apply_avx512;
#endif

rows_apply_fn *rows_apply = rows_apply_baseline;

__attribute__((constructor)) static void choose_rows_apply(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        rows_apply = rows_apply_avx2;
    if (rows_apply == rows_apply_avx2 && __builtin_cpu_supports("avx512f"))
        rows_apply = rows_apply_avx512;
#endif
}

struct pivot rows_first_pivot(const struct system *system)
{
    struct pivot best = pivot_none(0);

    for (size_t row = 0; row < system->n; row++)
        pivot_offer_row(&best, system, row, 0);
    return best;
}

void rows_exchange(const struct system *system, size_t row, size_t other)
{
    double *a = system_row(system, row), *b = system_row(system, other);

    for (size_t j = 0; j <= system->n && a != b; j++) {
        double kept = a[j];

        a[j] = b[j];
        b[j] = kept;
    }
}

void rows_substitute_back(const struct system *system, double *x)
{
    for (size_t i = system->n; i-- > 0;) {
        const double *row = system_row(system, i);
        double sum[4] = {row[system->n], 0, 0, 0};
        size_t j = i + 1;

        for (; j + 4 <= system->n; j += 4)
            for (size_t lane = 0; lane < 4; lane++)
                sum[lane] -= row[j + lane] * x[j + lane];
        for (; j < system->n; j++)
            sum[0] -= row[j] * x[j];
        x[i] = (sum[0] + sum[1] + sum[2] + sum[3]) / row[i];
    }
}

size_t rows_singular(const struct system *system)
{
    size_t i = 0;

    while (i < system->n && isnormal(system_row(system, i)[i]))
        i++;
    return i;
}

int shares_create(struct share **shares, size_t sides, size_t n, size_t group_rows)
{
    size_t groups = (n + group_rows - 1) / group_rows;
    size_t most = (groups + sides - 1) / sides;

    struct group *group = calloc(sides, most * sizeof(*group));

    *shares = group ? calloc(sides, sizeof(**shares)) : NULL;
    if (!*shares) {
        free(group);
        return -ENOMEM;
    }
    for (size_t s = 0; s < sides; s++) {
        struct share *share = &(*shares)[s];

        share->group = group + s * most;
        for (size_t g = s; g < groups; g += sides) {
            struct group *dealt = &share->group[share->count++]; /* nothing done, not taken */

            dealt->first = g * group_rows;
            dealt->end = (g + 1) * group_rows < n ? (g + 1) * group_rows : n;
        }
    }
    return 0;
}

void shares_destroy(struct share *shares)
{
    if (shares)
        free(shares->group);
    free(shares);
}

/* acquire: its rows; pairs with group_leave() */
static bool group_take(struct group *group)
{
    return !atomic_exchange_explicit(&group->taken, true, memory_order_acquire);
}

/* release: its rows, for group_take() */
static void group_leave(struct group *group)
{
    atomic_store_explicit(&group->taken, false, memory_order_release);
}

/* relaxed: it only grows, and whoever needs the rows takes the group */
static size_t group_done(const struct group *group)
{
    return atomic_load_explicit(&group->done, memory_order_relaxed);
}

static void group_apply(struct group *group, const struct system *system, size_t to)
{
    for (size_t done = group_done(group), end; done < to; done = end) {
        end = done + SHARE_STEP < to ? done + SHARE_STEP : to;
        rows_apply(system, group->first, group->end, done, end);
        atomic_store_explicit(&group->done, end, memory_order_relaxed); /* group_leave() publishes */
    }
}

enum share_result share_advance(struct share *share, const struct system *system, size_t goal)
{
    enum share_result result = SHARE_LACKS_NONE;

    for (size_t tried = share->front; tried < share->count; tried++) {
        struct group *group;
        size_t to;

        if (share->next < share->front || share->next >= share->count)
            share->next = share->front;
        group = &share->group[share->next++];
        to = goal < group->first ? goal : group->first;
        if (group_done(group) >= to)
            continue;
        result = SHARE_TAKEN;
        if (!group_take(group))
            continue;
        group_apply(group, system, to);
        group_leave(group);
        return SHARE_ADVANCED;
    }
    return result;
}

bool group_help(struct group *group, const struct system *system, size_t known)
{
    size_t done = group_done(group), to;

    if (known <= done)
        return false;
    to = share_goal(done, known);
    if (to > group->first)
        to = group->first;
    if (to <= done || !group_take(group))
        return false;
    group_apply(group, system, to);
    group_leave(group);
    return true;
}

bool share_finish_front(struct share *share, const struct system *system,
                        void (*finished)(size_t row, void *arg), void *arg)
{
    struct group *group = &share->group[share->front];

    if (!group_take(group))
        return false;
    share->front++;
    group_apply(group, system, group->first);
    for (size_t row = group->first; row < group->end; row++) {
        rows_apply(system, row, row + 1, group->first, row);
        finished(row, arg);
    }
    return true;
}
