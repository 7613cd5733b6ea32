/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Ranges as tasks: a range is halved when a core has asked for work, and only then. Private;
 * included by task.h.
 *
 * The right half is given to a core that has just run a task or a part and looks for more, by its
 * handover (core/handover.h): two ways of one line. If there is none it is shared, and stolen, as
 * other tasks are. Either way the half is divided again where it is run, so uneven ranges are
 * balanced.
 *
 * A short loop may take longer on several cores than on one. For loops without a grain each core
 * learns that by the function and the number of indices, up to a factor of two: such a loop is run
 * in parts or whole, whichever is faster (base/loop_history.h).
 */
#ifndef UMBRA_TASK_RANGES_H
#define UMBRA_TASK_RANGES_H

#include <umbra/base/base.h>
#include <umbra/base/loop_history.h>
#include <umbra/base/parts.h>
#include <umbra/base/why.h>
#include <umbra/core.h>
#include <umbra/core/protocol.h>
#include <umbra/cpu.h>
#include <umbra/task/hand_over_range.h>
#include <umbra/task/protocol.h>
#include <umbra/task/start.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

UM_STATIC_ASSERT(__alignof__(struct umbra_task) <= UM_ANY_MEMORY, "malloc's memory will do");

/* Time of a part, ten ways of a line: an idle core may wait so long for work. */
#define UM_PART_NS 1000

/* A loop without a grain that takes less may be run whole, if that is faster: some hundred ways of
 * a line; a longer one gains by other cores. */
#define UM_SHORT_NS 20000

/* The same for all parts of a range. */
struct um_range_work {
    umbra_range_fn *fn;                      /* NULL: a reduction */
    const struct umbra_reduction *reduction; /* or NULL */
    void *arg;
    size_t grain;         /* fixed, or 0 */
    uint64_t part_cycles; /* time of a part, if grain is 0 */
};

struct um_range {
    struct umbra_task task;
    const struct um_range_work *work;
    size_t begin;
    size_t end;
    size_t part; /* indices of the next part */
    void *value; /* of the reduction, or NULL */
};

/* Time of a part of a loop with this grain; 0: it has a grain. */
UM_INLINE uint64_t um_part_cycles(size_t grain)
{
    return grain ? 0 : um_ns_to_cycles(UM_PART_NS);
}

/* Processes the next part; without a grain, sets the size of the part after it. */
UM_INLINE void um_range_step(struct um_range *range)
{
    const struct um_range_work *work = range->work;
    size_t count =
        range->end - range->begin < range->part ? range->end - range->begin : range->part;
    uint64_t begun = work->grain == 0 ? um_cycles() : 0;

    if (work->fn)
        work->fn(range->begin, range->begin + count, work->arg);
    else
        work->reduction->range(range->begin, range->begin + count, range->value, work->arg);
    range->begin += count;
    if (work->grain == 0)
        range->part = um_part_after(range->part, um_cycles() - begun, work->part_cycles);
}

/* True if a core has asked for work, and this core shares no task now. */
UM_INLINE bool um_range_wanted(struct umbra_core *core)
{
    return core && um_tasks_asked(&core->tasks) && !um_tasks_shared(&core->tasks);
}

/* The place that reports give for the wait for the other half: the program's function. */
UM_INLINE const void *um_range_at(const struct um_range_work *work)
{
    return work->fn ? (const void *)(uintptr_t)work->fn
                    : (const void *)(uintptr_t)work->reduction->range;
}

UM_LINKONCE void um_range_run(void *arg);

/* Runs a range that was given by a core's handover. */
UM_LINKONCE void um_range_given(const struct um_given *given)
{
    struct um_range_work work = {.fn = given->fn,
                                 .arg = given->arg,
                                 .grain = given->grain,
                                 .part_cycles = um_part_cycles(given->grain)};
    struct um_range range = {.work = &work,
                             .begin = given->begin,
                             .end = given->end,
                             .part = given->grain ? given->grain : 1};

    um_range_run(work.fn ? &range : given->arg);
}

/* The caller gives the range to the core whose handover it has claimed. A loop is copied into the
 * handover's line. The taker writes the value of a reduction, so the line has its address only. */
UM_INLINE void um_range_give(const struct um_piece *piece, struct um_range *range)
{
    struct um_given *given = &piece->handover->given;

    given->run = um_range_given;
    given->fn = range->work->fn;
    given->arg = range->work->fn ? range->work->arg : range;
    given->begin = range->begin;
    given->end = range->end;
    given->grain = range->work->grain;
    um_handover_give(piece->handover, piece->number);
}

/* Processes the right half, unless another core has begun it; then waits for that. */
UM_INLINE void um_range_join(struct umbra_core *core, struct um_range *right,
                             const struct um_piece *piece)
{
    const void *at = um_range_at(right->work);

    if (!piece->handover) {
        um_task_join_at(&right->task, UMBRA_NEVER, at);
        return;
    }
    core->pieces--;
    if (um_handover_take_back(piece->handover, piece->number))
        um_range_run(right);
    else
        um_piece_wait(piece, &right->task, at);
}

/* Processes the left half, and the right half if no other core takes it: one that has nothing to do
 * gets it at once, else it is shared as a task. */
UM_LINKONCE void um_range_halve(struct umbra_core *core, struct um_range *range)
{
    UM_ALIGNED(16) unsigned char value[UMBRA_REDUCTION_BYTES];
    const struct um_range_work *work = range->work;
    struct um_range right = {.task.fn = um_range_run,
                             .work = work,
                             .begin = range->begin + (range->end - range->begin) / 2,
                             .end = range->end,
                             .part = range->part};
    struct um_piece piece;

    range->end = right.begin;
    if (work->reduction) {
        right.value = value;
        work->reduction->begin(value, work->arg);
    }
    piece = um_core_claim_hand(core);
    if (piece.handover)
        um_range_give(&piece, &right);
    else
        umbra_task_fork(&right.task, um_range_run, &right);
    um_range_run(range);
    um_range_join(core, &right, &piece);
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
            um_range_halve(core, range);
            return;
        }
        um_range_step(range);
    }
}

/* Calls the function for these indices, in parts of at most the grain. */
UM_INLINE void um_range_call(const struct um_range_work *work, size_t begin, size_t end,
                             void *value)
{
    while (begin < end) {
        size_t count = work->grain && work->grain < end - begin ? work->grain : end - begin;

        if (work->fn)
            work->fn(begin, begin + count, work->arg);
        else
            work->reduction->range(begin, begin + count, value, work->arg);
        begin += count;
    }
}

/* Processes the whole range here. */
UM_INLINE void um_range_whole(struct um_range *range)
{
    um_range_call(range->work, range->begin, range->end, range->value);
    range->begin = range->end;
}

/* How a loop is to be run, by the history of its kind. */
struct um_way {
    struct um_history *history;
    uintptr_t key;
    bool whole;
    uint64_t begun; /* a time stamp; 0: it is not timed */
};

/* The way of a loop that begins now. histories: the caller's own. */
UM_INLINE struct um_way um_range_way(struct um_history *histories, const struct um_range *range)
{
    size_t count = range->end - range->begin;
    uintptr_t key = (uintptr_t)um_range_at(range->work) * 64 + (unsigned)__builtin_clzll(count);
    struct um_history *history = um_history_of(histories, key);
    bool whole = um_history_next(history);

    return (struct um_way){history, key, whole,
                           UM_UNLIKELY(um_history_timed(history)) ? um_cycles() : 0};
}

/* Records the time of a loop of `count` indices that has been run, if it is timed. */
UM_INLINE void um_range_hear(const struct um_way *way, size_t count)
{
    if (UM_UNLIKELY(way->begun != 0) &&
        way->history->key == way->key) /* else another fiber's loop has its place */
        um_history_hear(way->history, (um_cycles() - way->begun) * 1024 / count,
                        um_ns_to_cycles(UM_SHORT_NS) * 1024 / count);
}

/* Runs a loop in parts, or, if it is so short that this is faster, whole. May switch. */
UM_INLINE void um_range_pick(struct umbra_core *core, struct um_range *range)
{
    size_t count = range->end - range->begin;
    struct um_way way = um_range_way(core->more->histories, range);

    if (way.whole)
        um_range_whole(range);
    else
        um_range_run(range);
    um_range_hear(&way, count);
}

/* A range of a thread that is no core: task/loop_team.h. */
UM_LINKONCE void um_loop_run(struct um_range *range);

/* Runs a range that the caller has not divided. */
UM_INLINE void um_range_begin(struct um_range *range)
{
    struct umbra_core *core = um_core_self;

    if (range->begin >= range->end)
        return;
    if (!core)
        um_loop_run(range);
    else if (core->runtime->cores == 1)
        um_range_whole(range);
    else if (range->work->grain > 0)
        um_range_run(range);
    else
        um_range_pick(core, range);
}

UM_LINKONCE void umbra_parallel_for(size_t begin, size_t end, size_t grain, umbra_range_fn *fn,
                                    void *arg)
{
    struct um_range_work work = {
        .fn = fn, .arg = arg, .grain = grain, .part_cycles = um_part_cycles(grain)};
    struct um_range range = {.work = &work, .begin = begin, .end = end, .part = grain ? grain : 1};

    if (UMBRA_ASSERT && !fn)
        um_misused("loop with argument", arg, " has no function", __builtin_return_address(0));
    um_range_begin(&range);
}

UM_LINKONCE int umbra_parallel_reduce(size_t begin, size_t end, size_t grain,
                                      const struct umbra_reduction *reduction, void *arg,
                                      void *value)
{
    struct um_range_work work = {
        .reduction = reduction, .arg = arg, .grain = grain, .part_cycles = um_part_cycles(grain)};
    struct um_range range = {
        .work = &work, .begin = begin, .end = end, .part = grain ? grain : 1, .value = value};

    if (reduction->bytes > UMBRA_REDUCTION_BYTES || !reduction->begin || !reduction->range ||
        !reduction->join)
        return um_why(-EINVAL, "bytes = %zu: the most is %d; or a function is missing",
                      reduction->bytes, UMBRA_REDUCTION_BYTES);
    reduction->begin(value, arg);
    um_range_begin(&range);
    return 0;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
