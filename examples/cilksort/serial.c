/* SPDX-License-Identifier: BSL-1.0 */
/* One processor: the C library's qsort, and the steps as calls. */
#include "variants.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

int sort_qsort(struct setting *setting)
{
    qsort(setting->part.numbers, setting->part.count, sizeof(int), compare);
    setting->tasks = 0;
    return 0;
}

static size_t merge(struct merge merge_right)
{
    size_t tasks = 0;

    if (!merge_divides(&merge_right)) {
        merge_all(&merge_right);
        return 0;
    }
    tasks += merge(merge_divide(&merge_right));
    return tasks + 1 + merge(merge_right);
}

static size_t sort(const struct part *part)
{
    size_t tasks = 0;

    if (!part_divides(part)) {
        part_sort(part);
        return 0;
    }
    for (unsigned i = 0; i < 4; i++) {
        struct part quarter = part_quarter(part, i);

        tasks += (i < 3) + sort(&quarter);
    }
    for (unsigned i = 0; i < 3; i++)
        tasks += merge(part_merge(part, i));
    return tasks;
}

/* True if the numbers were in order, or in the opposite order: then now they are in order. */
static bool was_in_order(const struct part *part)
{
    enum order order = part_begins(part);

    if (order == NO_ORDER || !part_goes_on(part, order, 0, part_half(part)))
        return false;
    if (order == OPPOSITE)
        part_turn(part, 0, part_half(part));
    return true;
}

int sort_serial(struct setting *setting)
{
    setting->tasks = 1 + (was_in_order(&setting->part) ? 0 : sort(&setting->part));
    return 0;
}
