/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Loops of threads that are no cores: a team of the process runs them. Private; included by task.h.
 *
 * The team belongs to no thread: one at a time holds it, for one loop. A loop that comes meanwhile,
 * from another thread or from a part of the loop that runs, is processed by its caller alone; so is
 * one of a thread that the library has started, and one within a parallel region of OpenMP: their
 * like have the processors.
 *
 * There is no team before it can pay: the first loops are processed in parts by their callers,
 * until they have taken as long as its creation takes; what is left then is the team's (the same
 * bound as for a wait, wait/probe.h: at most twice the time of what would have been best). From
 * then on the history of a kind of loop decides (base/loop_history.h): all members, or the caller alone.
 *
 * fork(2): the child has no members, and perhaps a parent's holder. A holder is known by how many
 * forks led to its process, as a team is. The child makes a team of its own; the parent's stays
 * where it is, since a part may have been in it.
 */
#ifndef UMBRA_TASK_LOOP_TEAM_H
#define UMBRA_TASK_LOOP_TEAM_H

#include <pthread.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/environment.h>
#include <umbra/base/loop_history.h>
#include <umbra/base/parts.h>
#include <umbra/cpu.h>
#include <umbra/task/ranges.h>
#include <umbra/team.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

struct um_loop_team {
    um_atomic_u32 holder;    /* 0, or how many forks led to the holder's process, and 1 */
    struct umbra_team *team; /* NULL: not made yet. This and what follows: the holder */
    um_atomic_u32 refused;   /* there is no team, and will be none; the holder writes */
    uint64_t alone_cycles;   /* that loops have taken before there was a team */
    struct um_history histories[UM_HISTORIES];
    um_atomic_u64 runs; /* loops that the team has run; the holder writes, any thread reads */
};

UM_SHARED(struct um_loop_team um_loop_team, {0, NULL, 0, 0, {{0}}, 0});

#ifdef UMBRA_IMPLEMENTATION

/* What the creation of a team takes: its topology, what waits depend on, its threads. */
#define UM_LOOP_TEAM_NS 2000000

/* Time of what a member takes at once: twenty ways of the line that all members take from. */
#define UM_LOOP_PART_NS 4000

#define UM_LOOP_PIECES 32 /* of a reduction, at most; each has a value */

/* A loop that a team runs, in its caller's frame. */
struct um_loop {
    const struct um_range_work *work;
    size_t begin;
    uint64_t count;                                   /* indices; of a reduction: pieces */
    uint64_t indices;                                 /* of a reduction; this and the next */
    unsigned char (*values)[UMBRA_REDUCTION_BYTES];   /* of the pieces */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u64 taken; /* of count; all members */
};

/* Takes the next indices: as many as wanted, but no more than half of a member's share of what is
 * left. Returns how many; 0: all are taken. relaxed: a number; the run's beginning and end order
 * what the parts read and write. */
UM_INLINE uint64_t um_loop_take(struct um_loop *loop, unsigned members, uint64_t wanted,
                                uint64_t *at)
{
    uint64_t count, left;

    *at = um_atomic_load(&loop->taken, relaxed);
    do {
        left = loop->count - *at;
        count = wanted < left / (2 * members) ? wanted : left / (2 * members);
        count = count < loop->work->grain ? loop->work->grain : count;
        count = count == 0 ? 1 : count;
        count = count < left ? count : left;
    } while (left > 0 && !um_atomic_cas(&loop->taken, at, *at + count, relaxed, relaxed));
    return count;
}

/* A member's part of a loop: an umbra_team_fn. */
UM_LINKONCE void um_loop_part(unsigned member, unsigned members, void *arg)
{
    struct um_loop *loop = (struct um_loop *)arg;
    const uint64_t cycles = um_ns_to_cycles(UM_LOOP_PART_NS);
    size_t wanted = 1;
    uint64_t at, count;

    (void)member;
    while ((count = um_loop_take(loop, members, wanted, &at)) > 0) {
        uint64_t begun = um_cycles();

        um_range_call(loop->work, loop->begin + at, loop->begin + at + count, NULL);
        wanted = um_part_after(count, um_cycles() - begun, cycles);
    }
}

/* Where a piece of a reduction begins; that of the number `count` is the end. */
UM_INLINE size_t um_loop_piece(const struct um_loop *loop, uint64_t piece)
{
    uint64_t longer = loop->indices % loop->count;

    return loop->begin + piece * (loop->indices / loop->count) + (piece < longer ? piece : longer);
}

/* A member's part of a reduction: an umbra_team_fn. */
UM_LINKONCE void um_loop_reduce_part(unsigned member, unsigned members, void *arg)
{
    struct um_loop *loop = (struct um_loop *)arg;
    const struct um_range_work *work = loop->work;
    uint64_t piece;

    (void)member;
    (void)members;
    /* relaxed: as um_loop_take() */
    while ((piece = um_atomic_fetch_add(&loop->taken, 1, relaxed)) < loop->count) {
        work->reduction->begin(loop->values[piece], work->arg);
        um_range_call(work, um_loop_piece(loop, piece), um_loop_piece(loop, piece + 1),
                      loop->values[piece]);
    }
}

UM_LINKONCE void um_loop_reduce(struct umbra_team *team, struct um_loop *loop, void *value)
{
    UM_ALIGNED(UMBRA_CACHE_LINE) unsigned char values[UM_LOOP_PIECES][UMBRA_REDUCTION_BYTES];
    uint64_t pieces = 4 * (uint64_t)team->members;

    loop->values = values;
    loop->indices = loop->count;
    loop->count = pieces < UM_LOOP_PIECES ? pieces : UM_LOOP_PIECES;
    loop->count = loop->count < loop->indices ? loop->count : loop->indices;
    umbra_team_run(team, 0, um_loop_reduce_part, loop);
    for (uint64_t piece = 0; piece < loop->count; piece++)
        loop->work->reduction->join(value, values[piece], loop->work->arg);
}

/* All members process the range. The holder. */
UM_LINKONCE void um_loop_in_team(struct um_range *range)
{
    struct um_loop_team *loops = &um_loop_team;
    struct um_loop loop = {
        .work = range->work, .begin = range->begin, .count = range->end - range->begin};

    if (range->work->fn)
        umbra_team_run(loops->team, 0, um_loop_part, &loop);
    else
        um_loop_reduce(loops->team, &loop, range->value);
    range->begin = range->end;
    um_atomic_store(&loops->runs, um_atomic_load(&loops->runs, relaxed) + 1,
                    relaxed); /* a number */
}

/* How many threads the user wants for a loop: 0: one for each place. False: no team. */
UM_LINKONCE UM_COLD bool um_loop_threads(unsigned *members)
{
    uint64_t threads;

    if (um_environment_number("UMBRA_THREADS", 0, UMBRA_TEAM_MOST, UINT64_MAX, &threads) != 0)
        return false;
    *members = threads == UINT64_MAX ? 0 : (unsigned)threads;
    return threads > 1;
}

/* True if there is a team now. The holder; blocks for some milliseconds. */
UM_LINKONCE UM_COLD bool um_loop_team_make(struct um_loop_team *loops)
{
    struct umbra_team_options options = {.bind = UMBRA_TEAM_BIND_MEMBERS, .any_thread = true};
    struct umbra_team *team = NULL;

    if (!um_loop_threads(&options.members) || umbra_team_create(&options, &team) != 0 ||
        team->members == 1) {
        umbra_team_destroy(team);
        um_atomic_store(&loops->refused, 1, relaxed);
        return false;
    }
    loops->team = team;
    return true;
}

/* A loop before there is a team: alone, until all loops have taken so long that a team would have
 * paid. The holder. */
UM_LINKONCE UM_COLD void um_loop_before_team(struct um_loop_team *loops, struct um_range *range)
{
    uint64_t most = um_ns_to_cycles(UM_LOOP_TEAM_NS);
    uint64_t begun = um_cycles(), took = 0;

    while (range->begin < range->end && loops->alone_cycles + took < most) {
        um_range_step(range);
        took = um_cycles() - begun;
    }
    loops->alone_cycles += took;
    if (range->begin < range->end && um_loop_team_make(loops))
        um_loop_in_team(range);
    else
        um_range_whole(range);
}

/* How many forks led to this process, and 1. They count from here on: before there is a holder. */
UM_INLINE uint32_t um_loop_process(void)
{
    um_teams_watch_forks();
    return um_atomic_load(&um_teams.forks, relaxed) + 1; /* written before the child runs */
}

#ifdef __linux__
extern int omp_in_parallel(void) __attribute__((__weak__));

UM_INLINE bool um_loop_in_openmp(void)
{
    return omp_in_parallel && omp_in_parallel();
}
#else
UM_INLINE bool um_loop_in_openmp(void)
{
    return false;
}
#endif

UM_LINKONCE uint64_t um_loop_runs(void)
{
    return um_atomic_load(&um_loop_team.runs, relaxed);
}

/* Runs a loop in the team, or whole and timed, or before there is a team. The holder: a thread that
 * is canceled meanwhile would leave its frame to the members, and be the holder for ever. */
UM_LINKONCE void um_loop_hold(struct um_loop_team *loops, struct um_range *range,
                              const struct um_way *way)
{
    size_t count = range->end - range->begin;
    int cancels = PTHREAD_CANCEL_ENABLE;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
    if (!loops->team)
        um_loop_before_team(loops, range);
    else if (way->whole)
        um_range_whole(range);
    else
        um_loop_in_team(range);
    um_range_hear(way, count);
    um_atomic_store(&loops->holder, 0, release); /* pairs with the acquire in um_loop_run() */
    pthread_setcancelstate(cancels, &cancels);
}

/* A range of a thread that is no core. */
UM_LINKONCE void um_loop_run(struct um_range *range)
{
    struct um_loop_team *loops = &um_loop_team;
    uint32_t process = um_loop_process();
    uint32_t holder = um_atomic_load(&loops->holder, relaxed); /* only compared */
    struct um_way way = {0};

    /* acquire: what the last holder wrote; pairs with the releases below and in um_loop_hold() */
    if (range->end - range->begin <= (range->work->grain ? range->work->grain : 1) ||
        um_atomic_load(&loops->refused, relaxed) || holder == process || um_masked_self.is ||
        um_loop_in_openmp() || !um_atomic_cas(&loops->holder, &holder, process, acquire, relaxed)) {
        um_range_whole(range);
        return;
    }
    if (loops->team && !um_team_is_here(loops->team))
        loops->team = NULL;
    if (loops->team)
        way = um_range_way(loops->histories, range);
    if (way.whole && way.begun == 0) {
        /* the team is free meanwhile; pairs with the acquire above */
        um_atomic_store(&loops->holder, 0, release);
        um_range_whole(range);
    } else {
        um_loop_hold(loops, range, &way);
    }
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
