/* SPDX-License-Identifier: BSL-1.0 */
/* Entries for clang's code: regions, barriers, loops. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "kmpc.h"

/* Of any arguments. The first two point to the thread's numbers; here both are its number in the team. */
typedef void micro(void);

/* ---- where, and how many ---- */

UM_OMP_ABI void __kmpc_begin(void *source, int32_t flags)
{
}

UM_OMP_ABI void __kmpc_end(void *source)
{
}

#define QUERY(name, result)                                                                        \
    UM_OMP_ABI int32_t __kmpc_##name(void *source)                                                 \
    {                                                                                              \
        return result;                                                                             \
    }

QUERY(global_thread_num, (int32_t)um_omp_self()->number)
QUERY(bound_thread_num, (int32_t)um_omp_self()->number)
QUERY(global_num_threads, omp_get_num_threads())
QUERY(bound_num_threads, omp_get_num_threads())
QUERY(in_parallel, omp_in_parallel())
QUERY(ok_to_fork, 1)

UM_OMP_ABI int32_t __kmpc_get_target_offload(void)
{
    return 0; /* disabled */
}

/* ---- regions ---- */

/* What the next region or teams construct of the thread asks for. */
static UM_OMP_THREAD struct {
    unsigned members, teams, limit;
} asked;

UM_OMP_ABI void __kmpc_push_num_threads(UM_SOURCE, int32_t members)
{
    asked.members = members > 0 ? (unsigned)members : 0;
}

UM_OMP_ABI void __kmpc_pop_num_threads(UM_SOURCE)
{
}

UM_OMP_ABI void __kmpc_push_proc_bind(UM_SOURCE, int32_t bind)
{
    (void)bind; /* as GOMP_parallel() */
}

UM_OMP_ABI void __kmpc_push_num_teams_51(UM_SOURCE, int32_t least, int32_t most, int32_t limit)
{
    asked.teams = (unsigned)(most > 0 ? most : least > 0 ? least : 0);
    asked.limit = limit > 0 ? (unsigned)limit : 0;
}

UM_OMP_ABI void __kmpc_push_num_teams(UM_SOURCE, int32_t teams, int32_t limit)
{
    __kmpc_push_num_teams_51(source, thread, teams, teams, limit);
}

enum { MOST = 256 /* arguments */ };

/* A function of the program, and what it gets. */
struct call {
    UM_ALIGNED(UMBRA_CACHE_LINE) micro *fn; /* first: um_omp_fn_of() */
    unsigned count;
    void *arg[MOST];
};

#define P4 void *, void *, void *, void *
#define P16 P4, P4, P4, P4
#define P64 P16, P16, P16, P16
#define A4(i) arg[i], arg[(i) + 1], arg[(i) + 2], arg[(i) + 3]
#define A16(i) A4(i), A4((i) + 4), A4((i) + 8), A4((i) + 12)
#define A64(i) A16(i), A16((i) + 16), A16((i) + 32), A16((i) + 48)

/* Calls it with as many as it has, or more, which it does not look at: a function leaves its arguments'
 * room to its caller. */
void um_omp_kmpc_call(void *data)
{
    const struct call *call = data;
    void *const *arg = call->arg;
    int32_t number = (int32_t)um_omp_here->number, same = number;

    if (call->count <= 4)
        ((void (*)(int32_t *, int32_t *, P4))call->fn)(&number, &same, A4(0));
    else if (call->count <= 16)
        ((void (*)(int32_t *, int32_t *, P16))call->fn)(&number, &same, A16(0));
    else if (call->count <= 64)
        ((void (*)(int32_t *, int32_t *, P64))call->fn)(&number, &same, A64(0));
    else
        ((void (*)(int32_t *, int32_t *, P64, P64, P64, P64))call->fn)(&number, &same, A64(0),
                                                                       A64(64), A64(128), A64(192));
}

static void call_set(struct call *call, micro *fn, int32_t count, va_list list)
{
    unsigned room = count <= 4 ? 4 : count <= 16 ? 16 : count <= 64 ? 64 : MOST;

    if (count > MOST)
        um_omp_fatal("a region has %d arguments, and there may be %d", count, MOST);
    call->fn = fn;
    call->count = (unsigned)count;
    for (unsigned i = 0; i < room; i++)
        call->arg[i] = i < call->count ? va_arg(list, void *) : NULL;
}

static void region(struct um_omp_member *self, struct call *call)
{
    struct um_omp_team *team = um_omp_team_find(self, um_omp_region_size(self, asked.members));

    asked.members = 0;
    um_omp_region_prepare(self, team);
    um_omp_region_run(self, team, um_omp_kmpc_call, call);
}

UM_OMP_ABI void __kmpc_fork_call(void *source, int32_t count, micro *fn, ...)
{
    struct um_omp_member *self = um_omp_self();
    struct call call;
    va_list list;

    va_start(list, fn);
    call_set(&call, fn, count, list);
    va_end(list);
    region(self, &call);
}

/* A region of one member, which the program executes itself. */
UM_OMP_ABI void __kmpc_serialized_parallel(UM_SOURCE)
{
    struct um_omp_member *self = um_omp_self();

    asked.members = 0;
    um_omp_region_enter(self, um_omp_team_find(self, 1));
}

UM_OMP_ABI void __kmpc_end_serialized_parallel(UM_SOURCE)
{
    struct um_omp_member *self = um_omp_self();

    if (um_omp_barrier(self) != 0) /* for detached tasks */
        um_omp_barrier_settle(self);
    um_omp_region_leave(self);
}

UM_OMP_ABI void __kmpc_fork_call_if(void *source, int32_t count, micro *fn, int32_t condition,
                                    void *arg)
{
    struct um_omp_member *self = um_omp_self();
    struct call call = {.fn = fn, .count = 1};

    call.arg[0] = arg;
    if (!condition)
        asked.members = 1;
    region(self, &call);
}

UM_OMP_ABI void GOMP_teams_reg(um_omp_fn *fn, void *data, unsigned teams, unsigned limit,
                               unsigned flags);

UM_OMP_ABI void __kmpc_fork_teams(void *source, int32_t count, micro *fn, ...)
{
    unsigned teams = asked.teams, limit = asked.limit;
    struct call call;
    va_list list;

    asked.teams = asked.limit = 0;
    va_start(list, fn);
    call_set(&call, fn, count, list);
    va_end(list);
    GOMP_teams_reg(um_omp_kmpc_call, &call, teams, limit, 0);
}

/* ---- barriers, cancel ---- */

UM_OMP_ABI bool GOMP_barrier_cancel(void);
UM_OMP_ABI bool GOMP_cancel(int which, bool condition);
UM_OMP_ABI bool GOMP_cancellation_point(int which);

UM_OMP_ABI void __kmpc_barrier(UM_SOURCE)
{
    um_omp_barrier_plain(um_omp_self());
}

UM_OMP_ABI int32_t __kmpc_cancel_barrier(UM_SOURCE)
{
    return GOMP_barrier_cancel();
}

/* The construct, by the ABI's number, is cancelled: the program goes to its end, and asks for no more
 * iterations. */
static int32_t cancelled(int32_t construct)
{
    struct um_omp_member *self = um_omp_self();
    enum { REGION = 1, TASKGROUP = 4 };

    if (construct == TASKGROUP || !self->dispatch)
        return 1;
    if (construct != REGION) {
        um_omp_share_leave(self);
        um_omp_seen(UM_OMP_SEE_LOOP);
    }
    self->dispatch = UM_OMP_NO_DISPATCH;
    return 1;
}

UM_OMP_ABI int32_t __kmpc_cancel(UM_SOURCE, int32_t construct)
{
    return GOMP_cancel(1 << (construct - 1), true) ? cancelled(construct) : 0;
}

UM_OMP_ABI int32_t __kmpc_cancellationpoint(UM_SOURCE, int32_t construct)
{
    return GOMP_cancellation_point(1 << (construct - 1)) ? cancelled(construct) : 0;
}

UM_OMP_ABI void __kmpc_flush(void *source)
{
    __sync_synchronize(); /* of the program, as its partners are */
}

/* ---- one member, or one after the other ---- */

UM_OMP_ABI bool GOMP_single_start(void);
UM_OMP_ABI void GOMP_critical_name_start(void **name);
UM_OMP_ABI void GOMP_critical_name_end(void **name);
UM_OMP_ABI void GOMP_atomic_start(void);
UM_OMP_ABI void GOMP_atomic_end(void);
UM_OMP_ABI void GOMP_ordered_start(void);

UM_OMP_ABI int32_t __kmpc_masked(UM_SOURCE, int32_t number)
{
    return (int32_t)um_omp_self()->number == number;
}

UM_OMP_ABI int32_t __kmpc_master(UM_SOURCE)
{
    return __kmpc_masked(source, thread, 0);
}

UM_OMP_ABI int32_t __kmpc_single(UM_SOURCE)
{
    return GOMP_single_start();
}

#define NOTHING(name)                                                                              \
    UM_OMP_ABI void __kmpc_##name(UM_SOURCE)                                                       \
    {                                                                                              \
    }

NOTHING(end_master)
NOTHING(end_masked)
NOTHING(end_single)
NOTHING(end_ordered)
NOTHING(for_static_fini)
NOTHING(dispatch_fini_4)
NOTHING(dispatch_fini_4u)
NOTHING(dispatch_fini_8)
NOTHING(dispatch_fini_8u)
NOTHING(dispatch_deinit)

UM_OMP_ABI void __kmpc_scope(UM_SOURCE, void *reserved)
{
}

UM_OMP_ABI void __kmpc_end_scope(UM_SOURCE, void *reserved)
{
}

/* All members come; one of them did the single, and the others copy. */
UM_OMP_ABI void __kmpc_copyprivate(UM_SOURCE, size_t bytes, void *data,
                                   void (*copy)(void *, void *), int32_t did)
{
    struct um_omp_member *self = um_omp_self();

    if (did)
        self->team->copy = data;
    um_omp_barrier_plain(self);
    if (!did)
        copy(data, self->team->copy);
    um_omp_barrier_plain(self);
}

/* A section's 32 bytes, which begin zeroed, are the lock. */
UM_OMP_ABI void __kmpc_critical(UM_SOURCE, void **name)
{
    GOMP_critical_name_start(name);
}

UM_OMP_ABI void __kmpc_critical_with_hint(UM_SOURCE, void **name, uint32_t hint)
{
    GOMP_critical_name_start(name);
}

UM_OMP_ABI void __kmpc_end_critical(UM_SOURCE, void **name)
{
    GOMP_critical_name_end(name);
}

UM_OMP_ABI void __kmpc_atomic_start(void)
{
    GOMP_atomic_start();
}

UM_OMP_ABI void __kmpc_atomic_end(void)
{
    GOMP_atomic_end();
}

UM_OMP_ABI void __kmpc_ordered(UM_SOURCE)
{
    GOMP_ordered_start();
}

/* Each member adds what it has to the variables between these. */
UM_OMP_ABI int32_t __kmpc_reduce_nowait(UM_SOURCE, int32_t variables, size_t bytes, void *data,
                                        void (*reduce)(void *, void *), void **name)
{
    GOMP_critical_name_start(name);
    return 1;
}

UM_OMP_ABI int32_t __kmpc_reduce(UM_SOURCE, int32_t variables, size_t bytes, void *data,
                                 void (*reduce)(void *, void *), void **name)
{
    return __kmpc_reduce_nowait(source, thread, variables, bytes, data, reduce, name);
}

UM_OMP_ABI void __kmpc_end_reduce_nowait(UM_SOURCE, void **name)
{
    __kmpc_end_critical(source, thread, name);
}

UM_OMP_ABI void __kmpc_end_reduce(UM_SOURCE, void **name)
{
    __kmpc_end_critical(source, thread, name);
    um_omp_barrier_plain(um_omp_self());
}

/* ---- loops ---- */

/* The ABI's numbers of schedules; ORDERED: those in [64, 80); MERGED: 128 less in [160, 208). */
enum {
    STATIC_CHUNKED = 33,
    STATIC,
    DYNAMIC,
    GUIDED,
    RUNTIME,
    AUTO,
    TRAPEZOIDAL,
    STATIC_STEAL = 44,
    STATIC_BALANCED_CHUNKED,
    GUIDED_SIMD,
    RUNTIME_SIMD,
    ORDERED = 64,
    DISTRIBUTE = 91, /* STATIC_CHUNKED among teams */
    UNMERGED = 160,
    MODIFIERS = 3 << 29
};

/* How many iterations a loop has, with those of both bounds. */
#define TRIPS(lower, upper, step)                                                                  \
    ((step) > 0                                                                                    \
         ? ((lower) <= (upper) ? ((uint64_t)(upper) - (uint64_t)(lower)) / (uint64_t)(step) + 1    \
                               : 0)                                                                \
         : ((lower) >= (upper) ? ((uint64_t)(lower) - (uint64_t)(upper)) / -(uint64_t)(step) + 1   \
                               : 0))

/* A schedule's number without what does not concern the library. */
static int32_t plain(int32_t schedule)
{
    schedule &= ~MODIFIERS;
    return schedule >= UNMERGED ? schedule - 128 : schedule;
}

/* Iterations of one part of a loop: from `first`, so many, and more of them each `apart`. */
struct divided {
    uint64_t first, count, apart;
    bool last; /* has the last one */
};

static struct divided divide(int32_t schedule, uint64_t chunk, uint64_t count, uint64_t parts,
                             uint64_t number)
{
    struct divided part = {.apart = count};
    uint64_t each = count / parts, more = count % parts;

    if (schedule == STATIC_CHUNKED || schedule == STATIC_BALANCED_CHUNKED) {
        chunk = chunk < 1 ? 1 : chunk < count ? chunk : count;
        if (schedule == STATIC_BALANCED_CHUNKED)
            chunk = (each + (more > 0) + chunk - 1) / chunk * chunk;
        if (number > (count - 1) / chunk)
            return part;
        part.first = number * chunk;
        part.count = count - part.first < chunk ? count - part.first : chunk;
        /* behind the last one if there are no more: a sum of chunks may be no value of the type */
        part.apart = parts > (count - 1 - part.first) / chunk ? count - part.first : parts * chunk;
        part.last = (count - 1) / chunk % parts == number;
    } else {
        part.first = each * number + (number < more ? number : more);
        part.count = each + (number < more);
        part.last = part.count > 0 && part.first + part.count == count;
    }
    return part;
}

static struct divided divide_among_teams(int32_t schedule, int64_t chunk, uint64_t count)
{
    return divide(schedule, chunk > 0 ? (uint64_t)chunk : 1, count, (uint64_t)omp_get_num_teams(),
                  (uint64_t)omp_get_team_num());
}

static struct divided divide_among_members(int32_t schedule, int64_t chunk, uint64_t count)
{
    const struct um_omp_member *self = um_omp_here ? um_omp_here : um_omp_root_make();

    schedule = plain(schedule);
    if (schedule >= DISTRIBUTE)
        return divide_among_teams(schedule - DISTRIBUTE + STATIC_CHUNKED, chunk, count);
    return divide(schedule, chunk > 0 ? (uint64_t)chunk : 1, count, self->team->members,
                  self->number);
}

/* The bounds of the caller's part. An empty part's are two values that there are, the wrong way; those
 * of an empty loop stay. */
#define PART(type, divide, schedule, end, lower, upper, stride, step, chunk)                       \
    do {                                                                                           \
        uint64_t count = TRIPS(*(lower), *(upper), step), first = (uint64_t) * (lower);            \
        struct divided part = {.last = false};                                                     \
        int32_t *has_last = end;                                                                   \
                                                                                                   \
        *(stride) = step;                                                                          \
        if (count > 0) {                                                                           \
            part = divide(schedule, chunk, count);                                                 \
            *(stride) = (type)(part.apart * (uint64_t)(step));                                     \
            *(lower) = (type)(first + (part.count > 0 ? part.first : 1) * (uint64_t)(step));       \
            *(upper) = (type)(first + (part.count > 0 ? part.first + part.count - 1 : 0) *         \
                                          (uint64_t)(step));                                       \
        }                                                                                          \
        if (has_last)                                                                              \
            *has_last = part.last;                                                                 \
    } while (0)

/* Comes to a loop; numbered from 0, and the member's own copy has its values. */
static void dispatch_init(struct um_omp_member *self, int32_t schedule, uint64_t lower,
                          uint64_t step, uint64_t count, int64_t chunk)
{
    struct um_omp_loop loop = {.end = count, .step = 1, .wide = true, .up = true};

    schedule = plain(schedule);
    self->dispatch = schedule > ORDERED ? UM_OMP_DISPATCH_ORDERED : UM_OMP_DISPATCH;
    schedule = schedule > ORDERED ? schedule - ORDERED + STATIC_CHUNKED - 1 : schedule;
    loop.chunk = chunk > 0 ? (uint64_t)chunk : 1;
    switch (schedule) {
    case DYNAMIC:
    case STATIC_STEAL:
        loop.schedule = UM_OMP_DYNAMIC;
        break;
    case GUIDED:
    case TRAPEZOIDAL:
    case GUIDED_SIMD:
        loop.schedule = UM_OMP_GUIDED;
        break;
    case RUNTIME:
    case RUNTIME_SIMD:
        loop.schedule = UM_OMP_RUNTIME;
        break;
    case STATIC_CHUNKED:
    case STATIC_BALANCED_CHUNKED:
        loop.schedule = UM_OMP_STATIC;
        break;
    default:
        loop.schedule = UM_OMP_STATIC;
        loop.chunk = 0;
    }
    um_omp_see(UM_OMP_SEE_LOOP, self->at);
    um_omp_loop_enter(self, &loop);
    self->start = lower;
    self->step = step;
}

/* The next iterations, [from, to); false: the member has left the loop. */
static bool dispatch_next(struct um_omp_member *self, int32_t *last, uint64_t *from, uint64_t *to)
{
    bool is = self->dispatch == UM_OMP_DISPATCH_ORDERED ? um_omp_loop_next_ordered(self, from, to)
                                                        : um_omp_loop_next(self, from, to);

    if (!is) {
        self->dispatch = UM_OMP_NO_DISPATCH;
        um_omp_share_leave(self);
        um_omp_seen(UM_OMP_SEE_LOOP);
        return false;
    }
    if (last)
        *last = *to == self->start + self->count * self->step;
    return true;
}

#define LOOPS(size, type, wide)                                                                    \
    UM_OMP_ABI void __kmpc_for_static_init_##size(UM_SOURCE, int32_t schedule, int32_t *last,      \
                                                  type *lower, type *upper, wide *stride,          \
                                                  wide step, wide chunk)                           \
    {                                                                                              \
        PART(type, divide_among_members, schedule, last, lower, upper, stride, step, chunk);       \
    }                                                                                              \
    UM_OMP_ABI void __kmpc_team_static_init_##size(                                                \
        UM_SOURCE, int32_t *last, type *lower, type *upper, wide *stride, wide step, wide chunk)   \
    {                                                                                              \
        PART(type, divide_among_teams, STATIC_CHUNKED, last, lower, upper, stride, step, chunk);   \
    }                                                                                              \
    UM_OMP_ABI void __kmpc_dist_for_static_init_##size(UM_SOURCE, int32_t schedule, int32_t *last, \
                                                       type *lower, type *upper, type *team_upper, \
                                                       wide *stride, wide step, wide chunk)        \
    {                                                                                              \
        int32_t last_team, last_member;                                                            \
                                                                                                   \
        PART(type, divide_among_teams, STATIC, &last_team, lower, upper, stride, step, 0);         \
        *team_upper = *upper;                                                                      \
        PART(type, divide_among_members, schedule, &last_member, lower, upper, stride, step,       \
             chunk);                                                                               \
        if (last)                                                                                  \
            *last = last_team && last_member;                                                      \
    }                                                                                              \
    UM_OMP_ABI void __kmpc_dispatch_init_##size(UM_SOURCE, int32_t schedule, type lower,           \
                                                type upper, wide step, wide chunk)                 \
    {                                                                                              \
        dispatch_init(um_omp_self(), schedule, (uint64_t)lower, (uint64_t)step,                    \
                      TRIPS(lower, upper, step), chunk);                                           \
    }                                                                                              \
    UM_OMP_ABI void __kmpc_dist_dispatch_init_##size(                                              \
        UM_SOURCE, int32_t schedule, int32_t *last, type lower, type upper, wide step, wide chunk) \
    {                                                                                              \
        wide stride;                                                                               \
                                                                                                   \
        PART(type, divide_among_teams, STATIC, last, &lower, &upper, &stride, step, 0);            \
        dispatch_init(um_omp_self(), schedule, (uint64_t)lower, (uint64_t)step,                    \
                      TRIPS(lower, upper, step), chunk);                                           \
    }                                                                                              \
    UM_OMP_ABI int32_t __kmpc_dispatch_next_##size(UM_SOURCE, int32_t *last, type *lower,          \
                                                   type *upper, wide *stride)                      \
    {                                                                                              \
        struct um_omp_member *self = um_omp_self();                                                \
        uint64_t from, to;                                                                         \
                                                                                                   \
        if (!dispatch_next(self, last, &from, &to))                                                \
            return 0;                                                                              \
        *lower = (type)from;                                                                       \
        *upper = (type)(to - self->step);                                                          \
        if (stride)                                                                                \
            *stride = (wide)self->step;                                                            \
        return 1;                                                                                  \
    }

LOOPS(4, int32_t, int32_t)
LOOPS(4u, uint32_t, int32_t)
LOOPS(8, int64_t, int64_t)
LOOPS(8u, uint64_t, int64_t)

/* ---- blocks of a team ---- */

struct um_omp_block *um_omp_block_enter(struct um_omp_member *self, size_t bytes)
{
    void *cell = (void *)sizeof(uintptr_t);
    struct um_omp_loop loop = {.schedule = UM_OMP_STATIC, .memory = &cell};
    uintptr_t own = (uintptr_t)um_omp_memory(bytes), is = 0;

    um_omp_loop_enter(self, &loop);
    /* release: zeroed; acquire: another member's, likewise. Pairs with itself */
    if (um_atomic_cas((um_atomic_uptr *)cell, &is, own, acq_rel, acquire))
        is = own;
    else
        free((void *)own);
    um_omp_share_leave(self);
    return (struct um_omp_block *)is;
}

/* ---- iterations that wait for each other (doacross) ---- */

struct dimension {
    int64_t lower, upper, step;
};

/* A member's: what it needs to number iterations in the program's order. In the block each iteration has a
 * bit, which is 1 when it has been posted: with `collapse` members have any of them. */
struct um_omp_across {
    struct um_omp_block *block;
    um_atomic_u64 *posted; /* in the block */
    int32_t loops;
    struct dimension loop[];
};

static uint64_t trips(const struct dimension *loop, int64_t upper)
{
    return TRIPS(loop->lower, upper, loop->step);
}

UM_OMP_ABI void __kmpc_doacross_init(UM_SOURCE, int32_t loops, const struct dimension *loop)
{
    struct um_omp_member *self = um_omp_self();
    struct um_omp_across *across = malloc(sizeof(*across) + (size_t)loops * sizeof(*loop));
    uint64_t count = 1;

    if (!across)
        um_omp_fatal("out of memory");
    for (int32_t i = 0; i < loops; i++)
        count *= trips(&loop[i], loop[i].upper);
    across->block =
        um_omp_block_enter(self, sizeof(struct um_omp_block) + (count / 64 + 1) * sizeof(uint64_t));
    across->posted = (um_atomic_u64 *)(across->block + 1);
    across->loops = loops;
    memcpy(across->loop, loop, (size_t)loops * sizeof(*loop));
    self->across = across;
}

/* Where the iteration with these variables has its bit; 0: there is no such iteration. */
static uint64_t bit_of(const struct um_omp_across *across, const int64_t *variable,
                       um_atomic_u64 **word)
{
    uint64_t place = 0;

    for (int32_t i = 0; i < across->loops; i++) {
        const struct dimension *loop = &across->loop[i];
        uint64_t is = trips(loop, variable[i]), count = trips(loop, loop->upper);

        if (is == 0 || is > count)
            return 0;
        place = place * count + is - 1;
    }
    *word = &across->posted[place / 64];
    return UINT64_C(1) << place % 64;
}

UM_OMP_ABI void __kmpc_doacross_post(UM_SOURCE, const int64_t *variable)
{
    struct um_omp_member *self = um_omp_self();
    um_atomic_u64 *word = NULL;
    uint64_t bit = bit_of(self->across, variable, &word);

    if (bit == 0)
        return;
    /* seq_cst: the iteration so far, pairs with um_omp_ended(); W1 of wait.c */
    um_atomic_fetch_or(word, bit, seq_cst);
    um_omp_wake_all(self->team);
}

UM_OMP_ABI void __kmpc_doacross_wait(UM_SOURCE, const int64_t *variable)
{
    struct um_omp_member *self = um_omp_self();
    um_atomic_u64 *word = NULL;
    uint64_t bit = bit_of(self->across, variable, &word);
    struct um_omp_end end = {word, bit, bit, false};

    if (bit != 0)
        um_omp_await(self, &end, UM_OMP_IDLE);
}

UM_OMP_ABI void __kmpc_doacross_fini(UM_SOURCE)
{
    struct um_omp_member *self = um_omp_self();

    if (um_omp_block_leave(self, self->across->block))
        free(self->across->block);
    free(self->across);
    self->across = NULL;
}
