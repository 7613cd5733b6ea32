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

int sort_serial(struct setting *setting)
{
    setting->tasks = 1 + sort(&setting->part);
    return 0;
}
