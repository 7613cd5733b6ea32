/* SPDX-License-Identifier: BSL-1.0 */
/* OpenMP's tasks. */
#include "variants.h"

static size_t merge(struct merge left)
{
    size_t tasks_left, tasks_right;
    struct merge right;

    if (!merge_divides(&left)) {
        merge_all(&left);
        return 0;
    }
    right = left;
    left = merge_divide(&right);
#pragma omp task shared(tasks_right)
    tasks_right = merge(right);
    tasks_left = merge(left);
#pragma omp taskwait
    return tasks_left + 1 + tasks_right;
}

static size_t sort(struct part part)
{
    size_t tasks[4], all = 0;

    if (!part_divides(&part)) {
        part_sort(&part);
        return 0;
    }
    for (unsigned i = 0; i < 3; i++) {
        struct part quarter = part_quarter(&part, i);

#pragma omp task shared(tasks)
        tasks[i] = 1 + sort(quarter);
    }
    tasks[3] = sort(part_quarter(&part, 3));
#pragma omp taskwait
    for (unsigned i = 0; i < 4; i++)
        all += tasks[i];
    for (unsigned i = 0; i < 3; i++)
        all += merge(part_merge(&part, i));
    return all;
}

/* True if the numbers were in order, or in the opposite order: then now they are in order. */
static bool was_in_order(struct part part)
{
    enum order order = part_begins(&part);
    size_t half = part_half(&part);
    int differs = 0;

    if (order == NO_ORDER)
        return false;
#pragma omp taskloop grainsize(1) shared(differs)
    for (size_t at = 0; at < half; at += PIECE)
        if (!part_goes_on(&part, order, at, at + PIECE < half ? at + PIECE : half)) {
#pragma omp atomic write
            differs = 1;
        }
    if (differs || order == IN_ORDER)
        return !differs;
#pragma omp taskloop grainsize(1)
    for (size_t at = 0; at < half; at += PIECE)
        part_turn(&part, at, at + PIECE < half ? at + PIECE : half);
    return true;
}

int sort_openmp(struct setting *setting)
{
#pragma omp parallel num_threads((int)setting->processors)
#pragma omp single
    setting->tasks = 1 + (was_in_order(setting->part) ? 0 : sort(setting->part));
    return 0;
}
