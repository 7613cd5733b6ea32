/* SPDX-License-Identifier: BSL-1.0 */
/* Umbra's tasks. */
#include "variants.h"

#include <umbra.h>

struct merge_task {
    struct umbra_task task;
    struct merge merge;
    size_t tasks; /* that it has made */
};

struct sort_task {
    struct umbra_task task;
    struct part part;
    size_t tasks;
};

static void merge(void *arg)
{
    struct merge_task *self = arg;
    struct merge_task left, right;

    if (!merge_divides(&self->merge)) {
        merge_all(&self->merge);
        self->tasks = 0;
        return;
    }
    right.merge = self->merge;
    left.merge = merge_divide(&right.merge);
    umbra_task_fork(&right.task, merge, &right);
    merge(&left);
    umbra_task_join_with(&right.task, merge, &right);
    self->tasks = left.tasks + 1 + right.tasks;
}

static void sort(void *arg)
{
    struct sort_task *self = arg;
    struct sort_task quarter[4];

    self->tasks = 0;
    if (!part_divides(&self->part)) {
        part_sort(&self->part);
        return;
    }
    for (unsigned i = 0; i < 4; i++)
        quarter[i].part = part_quarter(&self->part, i);
    for (unsigned i = 0; i < 3; i++)
        umbra_task_fork(&quarter[i].task, sort, &quarter[i]);
    sort(&quarter[3]);
    for (unsigned i = 3; i-- > 0;)
        umbra_task_join_with(&quarter[i].task, sort, &quarter[i]);
    for (unsigned i = 0; i < 4; i++)
        self->tasks += (i < 3) + quarter[i].tasks;
    for (unsigned i = 0; i < 3; i++) {
        struct merge_task one = {.merge = part_merge(&self->part, i)};

        merge(&one);
        self->tasks += one.tasks;
    }
}

/* The look at the whole. */
struct look {
    const struct part *part;
    enum order order;
    bool differs; /* atomic */
};

static void look_at(size_t first, size_t last, void *arg)
{
    struct look *look = arg;

    /* relaxed: the loop's end orders it */
    if (!__atomic_load_n(&look->differs, __ATOMIC_RELAXED) &&
        !part_goes_on(look->part, look->order, first, last))
        __atomic_store_n(&look->differs, true, __ATOMIC_RELAXED);
}

static void turn(size_t first, size_t last, void *arg)
{
    part_turn(arg, first, last);
}

/* True if the numbers were in order, or in the opposite order: then now they are in order. */
static bool was_in_order(struct part *part)
{
    struct look look = {part, part_begins(part), false};

    if (look.order == NO_ORDER)
        return false;
    umbra_parallel_for(0, part_half(part), PIECE, look_at, &look);
    if (__atomic_load_n(&look.differs, __ATOMIC_RELAXED))
        return false;
    if (look.order == OPPOSITE)
        umbra_parallel_for(0, part_half(part), PIECE, turn, part);
    return true;
}

static void *sorts(void *arg)
{
    struct setting *setting = arg;
    struct sort_task all = {.part = setting->part};
    struct umbra_task_counts counts;

    if (!was_in_order(&all.part))
        sort(&all);
    setting->tasks = 1 + all.tasks;
    umbra_task_get_counts(umbra_runtime_self(), &counts);
    setting->inlined = counts.inlined;
    setting->called = counts.called;
    setting->fibers = counts.fibers;
    return NULL;
}

int sort_umbra(struct setting *setting)
{
    struct umbra_options options = {.cores = (unsigned)setting->processors, .oversubscribe = true};

    if (!umbra_runtime_self())
        return umbra_run(&options, sorts, setting);
    sorts(setting);
    return 0;
}
