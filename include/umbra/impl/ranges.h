/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Ranges as tasks: halved when somebody is hungry, and only then. Private; included by task.h.
 */
#ifndef UMBRA_IMPL_RANGES_H
#define UMBRA_IMPL_RANGES_H

#include <umbra/base/base.h>
#include <umbra/base/parts.h>
#include <umbra/core.h>
#include <umbra/cpu.h>
#include <umbra/impl/task.h>
#include <umbra/protocol/task.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifndef UMBRA_DECLARE

_Static_assert(_Alignof(struct umbra_task) <= UM_ANY_MEMORY, "malloc's memory will do");

#define UM_PART_NS 1000 /* what a part should take: so long somebody hungry may have to wait */

/* What is the same for all parts of a range. */
struct um_range_work {
    umbra_range_fn *fn;                      /* or, with a reduction, NULL */
    const struct umbra_reduction *reduction; /* or NULL */
    void *arg;
    size_t grain;         /* fixed, or 0 */
    uint64_t part_cycles; /* what a part should take, where it is not */
};

struct um_range {
    struct umbra_task task;
    const struct um_range_work *work;
    size_t begin;
    size_t end;
    size_t part; /* how many at a time */
    void *value; /* of the reduction, or NULL */
};

/* The part that is next, and how long the one after it should be. */
UM_INLINE void um_range_step(struct um_range *range)
{
    const struct um_range_work *work = range->work;
    size_t count =
        range->end - range->begin < range->part ? range->end - range->begin : range->part;
    uint64_t begun = umbra_cycles();

    if (work->fn)
        work->fn(range->begin, range->begin + count, work->arg);
    else
        work->reduction->range(range->begin, range->begin + count, range->value, work->arg);
    range->begin += count;
    if (work->grain == 0)
        range->part = um_part_after(range->part, umbra_cycles() - begun, work->part_cycles);
}

/* Whether a core waits for work, which this one could share and has not. */
UM_INLINE bool um_range_wanted(struct umbra_core *core)
{
    return core && um_tasks_asked(&core->tasks) && !um_tasks_shared(&core->tasks);
}

/* Where a wait for the other half is said to be: the function that the program gave. */
UM_INLINE const void *um_range_at(const struct um_range_work *work)
{
    return work->fn ? (const void *)(uintptr_t)work->fn
                    : (const void *)(uintptr_t)work->reduction->range;
}

UM_LINKONCE void um_range_run(void *arg);

/* Does the left half, and the right half if nobody takes it. */
UM_LINKONCE void um_range_halve(struct um_range *range)
{
    UM_ALIGNED(16) unsigned char value[UMBRA_REDUCTION_BYTES];
    const struct um_range_work *work = range->work;
    struct um_range right = {.work = work,
                             .begin = range->begin + (range->end - range->begin) / 2,
                             .end = range->end,
                             .part = range->part};

    range->end = right.begin;
    if (work->reduction) {
        right.value = value;
        work->reduction->begin(value, work->arg);
    }
    umbra_task_fork(&right.task, um_range_run, &right);
    um_range_run(range);
    if (um_tasks_pop(um_tasks_self, &right.task))
        um_range_run(&right);
    else
        um_task_join_at(&right.task, um_range_at(work));
    if (work->reduction)
        work->reduction->join(range->value, value, work->arg);
}

UM_LINKONCE void um_range_run(void *arg)
{
    struct um_range *range = arg;
    struct umbra_core *core = um_core_self;

    while (range->begin < range->end) {
        if (range->end - range->begin > range->work->grain && range->end - range->begin > 1 &&
            UM_UNLIKELY(um_range_wanted(core))) {
            um_range_halve(range);
            return;
        }
        um_range_step(range);
    }
}

UM_LINKONCE void umbra_parallel_for(size_t begin, size_t end, size_t grain, umbra_range_fn *fn,
                                    void *arg)
{
    struct um_range_work work = {
        .fn = fn, .arg = arg, .grain = grain, .part_cycles = umbra_ns_to_cycles(UM_PART_NS)};
    struct um_range range = {.work = &work, .begin = begin, .end = end, .part = grain ? grain : 1};

    um_range_run(&range);
}

UM_LINKONCE int umbra_parallel_reduce(size_t begin, size_t end, size_t grain,
                                      const struct umbra_reduction *reduction, void *arg,
                                      void *value)
{
    struct um_range_work work = {.reduction = reduction,
                                 .arg = arg,
                                 .grain = grain,
                                 .part_cycles = umbra_ns_to_cycles(UM_PART_NS)};
    struct um_range range = {
        .work = &work, .begin = begin, .end = end, .part = grain ? grain : 1, .value = value};

    if (reduction->bytes > UMBRA_REDUCTION_BYTES)
        return -EINVAL;
    reduction->begin(value, arg);
    um_range_run(&range);
    return 0;
}

#endif /* UMBRA_DECLARE */

#endif
