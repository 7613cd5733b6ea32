/* SPDX-License-Identifier: BSL-1.0 */
/*
 * ordered(n) with dependences of iterations (doacross). An iteration is a vector of numbers from 0,
 * one for each of the n loops; its place is its number in the order of the program. The outermost
 * loop is divided among the members, in pieces that one member executes in order. Each piece has a
 * position: 1 more than the place of the latest iteration that has been posted.
 *
 *     static     a piece for each member: all that it executes
 *     dynamic    each chunk; guided is as dynamic
 */
#include <stdarg.h>
#include <stdlib.h>

#include "library.h"

typedef unsigned long long ull;

struct um_omp_doacross {
    size_t stride; /* words from one position to the next */
    um_atomic_u64 *position;
    unsigned loops;
    uint64_t count[]; /* iterations of each loop; the positions are behind */
};

struct um_omp_doacross *um_omp_doacross_make(struct um_omp_share *share, unsigned members,
                                             const struct um_omp_loop *loop)
{
    struct um_omp_doacross *doacross;
    size_t pieces = members, stride = UMBRA_CACHE_LINE / sizeof(um_atomic_u64);

    if (share->schedule == UM_OMP_GUIDED)
        share->schedule = UM_OMP_DYNAMIC;
    if (share->schedule == UM_OMP_DYNAMIC) {
        pieces = share->chunk > 0 ? share->count / share->chunk + 1 : 1;
        stride = 1; /* neighbours read each other's anyway */
    }
    doacross = calloc(1, sizeof(*doacross) + loop->loops * sizeof(uint64_t) +
                             pieces * stride * sizeof(um_atomic_u64));
    if (!doacross)
        um_omp_fatal("out of memory");
    doacross->stride = stride;
    doacross->loops = loop->loops;
    doacross->position = (um_atomic_u64 *)(doacross->count + loop->loops);
    for (unsigned i = 0; i < loop->loops; i++)
        doacross->count[i] = loop->counts[i];
    return doacross;
}

/* The position of the piece that has an iteration of the outermost loop. */
static um_atomic_u64 *position_of(const struct um_omp_member *self, uint64_t outer)
{
    const struct um_omp_doacross *doacross = self->share->doacross;
    uint64_t members = self->team->members, piece;

    if (self->schedule == UM_OMP_DYNAMIC) {
        piece = outer / self->chunk;
    } else if (self->chunk > 0) {
        piece = outer / self->chunk % members;
    } else { /* as next_static() divides: the first `more` have one more */
        uint64_t each = self->count / members, more = self->count % members;

        piece = outer < more * (each + 1) ? outer / (each + 1) : (outer - more) / each;
    }
    return &doacross->position[piece * doacross->stride];
}

static void post(struct um_omp_member *self, uint64_t outer, uint64_t place)
{
    /* seq_cst: the iteration so far, pairs with um_omp_ended(); W1 of wait.c */
    um_atomic_store(position_of(self, outer), place + 1, seq_cst);
    um_omp_wake_all(self->team);
}

static void await(struct um_omp_member *self, uint64_t outer, uint64_t place)
{
    struct um_omp_end end = {position_of(self, outer), 0, place + 1, true};

    um_omp_await(self, &end, UM_OMP_IDLE);
}

/* The functions of the ABI for loops of one type: an iteration has been posted; waits for one, if there
 * is such an iteration: gcc 12 says -1, too. */
#define ITERATIONS(name, type)                                                                     \
    UM_OMP_ABI void GOMP_doacross_##name##post(type *numbers)                                      \
    {                                                                                              \
        struct um_omp_member *self = um_omp_self();                                                \
        const struct um_omp_doacross *doacross = self->share->doacross;                            \
        uint64_t place = (uint64_t)numbers[0];                                                     \
                                                                                                   \
        for (unsigned i = 1; i < doacross->loops; i++)                                             \
            place = place * doacross->count[i] + (uint64_t)numbers[i];                             \
        post(self, (uint64_t)numbers[0], place);                                                   \
    }                                                                                              \
    UM_OMP_ABI void GOMP_doacross_##name##wait(type first, ...)                                    \
    {                                                                                              \
        struct um_omp_member *self = um_omp_self();                                                \
        const struct um_omp_doacross *doacross = self->share->doacross;                            \
        uint64_t number = (uint64_t)first, place = number;                                         \
        bool is = number < doacross->count[0] && self->team->members > 1;                          \
        va_list others;                                                                            \
                                                                                                   \
        va_start(others, first);                                                                   \
        for (unsigned i = 1; i < doacross->loops; i++) {                                           \
            number = (uint64_t)va_arg(others, type);                                               \
            is = is && number < doacross->count[i];                                                \
            place = place * doacross->count[i] + number;                                           \
        }                                                                                          \
        va_end(others);                                                                            \
        if (is)                                                                                    \
            await(self, (uint64_t)first, place);                                                   \
    }

ITERATIONS(, long)
ITERATIONS(ull_, ull)

static bool start(bool wide, const uint64_t *counts, unsigned loops, long kind, uint64_t chunk,
                  uint64_t *from, uint64_t *to, uintptr_t *reductions, void **memory)
{
    struct um_omp_loop loop = {.end = counts[0],
                               .step = 1,
                               .wide = wide,
                               .up = true,
                               .schedule = kind,
                               .chunk = chunk,
                               .reductions = reductions,
                               .memory = memory,
                               .loops = loops,
                               .counts = counts};
    struct um_omp_member *self = um_omp_self();

    um_omp_see(UM_OMP_SEE_LOOP, self->at);
    um_omp_loop_enter(self, &loop);
    return !from || um_omp_loop_next(self, from, to);
}

#define LOOP(name, wide, type)                                                                     \
    UM_OMP_ABI bool GOMP_loop_##name##doacross_start(unsigned loops, type *counts, long kind,      \
                                                     type chunk, type *from, type *to,             \
                                                     uintptr_t *reductions, void **memory)         \
    {                                                                                              \
        return start(wide, (const uint64_t *)counts, loops, kind, (uint64_t)chunk,                 \
                     (uint64_t *)from, (uint64_t *)to, reductions, memory);                        \
    }                                                                                              \
    UM_OMP_ABI bool GOMP_loop_##name##doacross_runtime_start(unsigned loops, type *counts,         \
                                                             type *from, type *to)                 \
    {                                                                                              \
        return start(wide, (const uint64_t *)counts, loops, UM_OMP_RUNTIME, 0, (uint64_t *)from,   \
                     (uint64_t *)to, NULL, NULL);                                                  \
    }

#define LOOP_OF(name, wide, type, schedule, kind)                                                  \
    UM_OMP_ABI bool GOMP_loop_##name##doacross_##schedule##_start(                                 \
        unsigned loops, type *counts, type chunk, type *from, type *to)                            \
    {                                                                                              \
        return start(wide, (const uint64_t *)counts, loops, kind, (uint64_t)chunk,                 \
                     (uint64_t *)from, (uint64_t *)to, NULL, NULL);                                \
    }

LOOP(, false, long)
LOOP(ull_, true, ull)
LOOP_OF(, false, long, static, UM_OMP_STATIC)
LOOP_OF(, false, long, dynamic, UM_OMP_DYNAMIC)
LOOP_OF(, false, long, guided, UM_OMP_GUIDED)
LOOP_OF(ull_, true, ull, static, UM_OMP_STATIC)
LOOP_OF(ull_, true, ull, dynamic, UM_OMP_DYNAMIC)
LOOP_OF(ull_, true, ull, guided, UM_OMP_GUIDED)
