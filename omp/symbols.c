/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The ABI's loop functions: one for each kind, schedule and width. Widths are one here: bounds are
 * numbers of 64 bits, and a loop knows whether they have a sign. Regions that are one loop begin
 * here, too.
 *
 * The functions' names before `nonmonotonic` do not promise that chunks of a member go up; theirs
 * do, so each schedule serves all names.
 */
#include "library.h"

typedef unsigned long long ull;

/* Comes to the loop, and takes the first iterations, if the program wants them. */
UM_OMP_PART bool start(const struct um_omp_loop *loop, uint64_t *from, uint64_t *to)
{
    struct um_omp_member *self = um_omp_self();

    um_omp_see(UM_OMP_SEE_LOOP, self->at);
    um_omp_loop_enter(self, loop);
    return !from || um_omp_loop_next(self, from, to);
}

UM_OMP_PART bool start_ordered(const struct um_omp_loop *loop, uint64_t *from, uint64_t *to)
{
    struct um_omp_member *self = um_omp_self();

    um_omp_see(UM_OMP_SEE_LOOP, self->at);
    um_omp_loop_enter(self, loop);
    return !from || um_omp_loop_next_ordered(self, from, to);
}

static bool next(uint64_t *from, uint64_t *to)
{
    return um_omp_loop_next(um_omp_self(), from, to);
}

static bool next_ordered(uint64_t *from, uint64_t *to)
{
    return um_omp_loop_next_ordered(um_omp_self(), from, to);
}

/* A region that is a loop. */
static void region(um_omp_fn *fn, void *data, unsigned threads, const struct um_omp_loop *loop)
{
    struct um_omp_member *self = um_omp_self();
    struct um_omp_team *team = um_omp_team_find(self, um_omp_region_size(self, threads));

    um_omp_region_prepare(self, team);
    um_omp_loop_preset(team, loop);
    um_omp_region_run(self, team, fn, data);
    um_omp_loop_settle(team);
}

/* As GOMP_parallel_start(): of one member. */
static void region_start(const struct um_omp_loop *loop)
{
    struct um_omp_member *self = um_omp_self();
    struct um_omp_team *team = um_omp_team_find(self, 1);

    um_omp_region_enter(self, team);
    um_omp_loop_preset(team, loop);
}

#define NARROW(kind, size)                                                                         \
    {                                                                                              \
        .start = (uint64_t)a, .end = (uint64_t)b, .step = (uint64_t)step, .up = step > 0,          \
        .schedule = (kind), .chunk = (uint64_t)(size)                                              \
    }
#define SECTIONS                                                                                   \
    {                                                                                              \
        .start = 1, .end = (uint64_t)count + 1, .step = 1, .up = true, .schedule = UM_OMP_DYNAMIC, \
        .chunk = 1                                                                                 \
    }
#define WIDE(kind, size)                                                                           \
    {                                                                                              \
        .start = a, .end = b, .step = step, .wide = true, .up = up, .schedule = (kind),            \
        .chunk = (size)                                                                            \
    }

/* GOMP_loop_NAME_next(), GOMP_loop_ull_NAME_next() */
#define NEXT(name, how)                                                                            \
    UM_OMP_ABI bool GOMP_loop_##name##_next(long *from, long *to)                                  \
    {                                                                                              \
        return how((uint64_t *)from, (uint64_t *)to);                                              \
    }                                                                                              \
    UM_OMP_ABI bool GOMP_loop_ull_##name##_next(ull *from, ull *to)                                \
    {                                                                                              \
        return how((uint64_t *)from, (uint64_t *)to);                                              \
    }

/* With a chunk's size. */
#define LOOP(name, kind, how)                                                                      \
    UM_OMP_ABI bool GOMP_loop_##name##_start(long a, long b, long step, long chunk, long *from,    \
                                             long *to)                                             \
    {                                                                                              \
        struct um_omp_loop loop = NARROW(kind, chunk);                                             \
                                                                                                   \
        return how(&loop, (uint64_t *)from, (uint64_t *)to);                                       \
    }                                                                                              \
    UM_OMP_ABI bool GOMP_loop_ull_##name##_start(bool up, ull a, ull b, ull step, ull chunk,       \
                                                 ull *from, ull *to)                               \
    {                                                                                              \
        struct um_omp_loop loop = WIDE(kind, chunk);                                               \
                                                                                                   \
        return how(&loop, (uint64_t *)from, (uint64_t *)to);                                       \
    }

/* schedule(runtime) */
#define LOOP_RUNTIME(name, how)                                                                    \
    UM_OMP_ABI bool GOMP_loop_##name##_start(long a, long b, long step, long *from, long *to)      \
    {                                                                                              \
        struct um_omp_loop loop = NARROW(UM_OMP_RUNTIME, 0);                                       \
                                                                                                   \
        return how(&loop, (uint64_t *)from, (uint64_t *)to);                                       \
    }                                                                                              \
    UM_OMP_ABI bool GOMP_loop_ull_##name##_start(bool up, ull a, ull b, ull step, ull *from,       \
                                                 ull *to)                                          \
    {                                                                                              \
        struct um_omp_loop loop = WIDE(UM_OMP_RUNTIME, 0);                                         \
                                                                                                   \
        return how(&loop, (uint64_t *)from, (uint64_t *)to);                                       \
    }

/* With reductions of tasks, or memory for the program. */
#define LOOP_ANY(name, how)                                                                        \
    UM_OMP_ABI bool GOMP_loop_##name(long a, long b, long step, long kind, long chunk, long *from, \
                                     long *to, uintptr_t *reductions, void **memory)               \
    {                                                                                              \
        struct um_omp_loop loop = NARROW(kind, chunk);                                             \
                                                                                                   \
        loop.reductions = reductions;                                                              \
        loop.memory = memory;                                                                      \
        return how(&loop, (uint64_t *)from, (uint64_t *)to);                                       \
    }                                                                                              \
    UM_OMP_ABI bool GOMP_loop_ull_##name(bool up, ull a, ull b, ull step, long kind, ull chunk,    \
                                         ull *from, ull *to, uintptr_t *reductions, void **memory) \
    {                                                                                              \
        struct um_omp_loop loop = WIDE(kind, chunk);                                               \
                                                                                                   \
        loop.reductions = reductions;                                                              \
        loop.memory = memory;                                                                      \
        return how(&loop, (uint64_t *)from, (uint64_t *)to);                                       \
    }

#define REGION(name, kind)                                                                         \
    UM_OMP_ABI void GOMP_parallel_loop_##name(um_omp_fn *fn, void *data, unsigned threads, long a, \
                                              long b, long step, long chunk, unsigned flags)       \
    {                                                                                              \
        struct um_omp_loop loop = NARROW(kind, chunk);                                             \
                                                                                                   \
        (void)flags;                                                                               \
        region(fn, data, threads, &loop);                                                          \
    }

#define REGION_RUNTIME(name)                                                                       \
    UM_OMP_ABI void GOMP_parallel_loop_##name(um_omp_fn *fn, void *data, unsigned threads, long a, \
                                              long b, long step, unsigned flags)                   \
    {                                                                                              \
        struct um_omp_loop loop = NARROW(UM_OMP_RUNTIME, 0);                                       \
                                                                                                   \
        (void)flags;                                                                               \
        region(fn, data, threads, &loop);                                                          \
    }

#define REGION_START(name, kind)                                                                   \
    UM_OMP_ABI void GOMP_parallel_loop_##name##_start(um_omp_fn *fn, void *data, unsigned threads, \
                                                      long a, long b, long step, long chunk)       \
    {                                                                                              \
        struct um_omp_loop loop = NARROW(kind, chunk);                                             \
                                                                                                   \
        (void)fn;                                                                                  \
        (void)data;                                                                                \
        (void)threads;                                                                             \
        region_start(&loop);                                                                       \
    }

NEXT(static, next)
NEXT(dynamic, next)
NEXT(guided, next)
NEXT(runtime, next)
NEXT(nonmonotonic_dynamic, next)
NEXT(nonmonotonic_guided, next)
NEXT(nonmonotonic_runtime, next)
NEXT(maybe_nonmonotonic_runtime, next)
NEXT(ordered_static, next_ordered)
NEXT(ordered_dynamic, next_ordered)
NEXT(ordered_guided, next_ordered)
NEXT(ordered_runtime, next_ordered)

LOOP(static, UM_OMP_STATIC, start)
LOOP(dynamic, UM_OMP_DYNAMIC, start)
LOOP(guided, UM_OMP_GUIDED, start)
LOOP(nonmonotonic_dynamic, UM_OMP_DYNAMIC, start)
LOOP(nonmonotonic_guided, UM_OMP_GUIDED, start)
LOOP(ordered_static, UM_OMP_STATIC, start_ordered)
LOOP(ordered_dynamic, UM_OMP_DYNAMIC, start_ordered)
LOOP(ordered_guided, UM_OMP_GUIDED, start_ordered)
LOOP_RUNTIME(runtime, start)
LOOP_RUNTIME(nonmonotonic_runtime, start)
LOOP_RUNTIME(maybe_nonmonotonic_runtime, start)
LOOP_RUNTIME(ordered_runtime, start_ordered)
LOOP_ANY(start, start)
LOOP_ANY(ordered_start, start_ordered)

REGION(static, UM_OMP_STATIC)
REGION(dynamic, UM_OMP_DYNAMIC)
REGION(guided, UM_OMP_GUIDED)
REGION(nonmonotonic_dynamic, UM_OMP_DYNAMIC)
REGION(nonmonotonic_guided, UM_OMP_GUIDED)
REGION_RUNTIME(runtime)
REGION_RUNTIME(nonmonotonic_runtime)
REGION_RUNTIME(maybe_nonmonotonic_runtime)
REGION_START(static, UM_OMP_STATIC)
REGION_START(dynamic, UM_OMP_DYNAMIC)
REGION_START(guided, UM_OMP_GUIDED)

UM_OMP_ABI void GOMP_parallel_loop_runtime_start(um_omp_fn *fn, void *data, unsigned threads,
                                                 long a, long b, long step)
{
    struct um_omp_loop loop = NARROW(UM_OMP_RUNTIME, 0);

    (void)fn;
    (void)data;
    (void)threads;
    region_start(&loop);
}

UM_OMP_ABI void GOMP_parallel_sections(um_omp_fn *fn, void *data, unsigned threads, unsigned count,
                                       unsigned flags)
{
    struct um_omp_loop loop = SECTIONS;

    (void)flags;
    region(fn, data, threads, &loop);
}

UM_OMP_ABI void GOMP_parallel_sections_start(um_omp_fn *fn, void *data, unsigned threads,
                                             unsigned count)
{
    struct um_omp_loop loop = SECTIONS;

    (void)fn;
    (void)data;
    (void)threads;
    region_start(&loop);
}
