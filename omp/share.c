/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Work shares: loops, sections and scopes; and single. A team has a ring of n shares, so that
 * members may be some `nowait` loops apart. Instance i takes share i % n of the ring:
 *
 *   state   3 i        free for instance i
 *           3 i + 1    the member that came first sets it up
 *           3 i + 2    ready
 *
 *   each member   S1  wait until state is 3 i or more            acquire
 *                 S2  state: 3 i -> 3 i + 1, by one; it writes the share
 *                 S3  that one: state = 3 i + 2                  seq_cst
 *                 S4  wait until state is 3 i + 2 or more        acquire
 *                 S5  left + 1, when it uses the share no more   acq_rel
 *                 S6  the last one: state = 3 (i + n)            seq_cst
 *
 * If the region is cancelled, a member that waits at S1 may wait for one that has left the region: it goes
 * on in a share of its own, without iterations.
 *
 * Iterations are numbered from 0. Each member copies what it needs of the share into its own lines:
 * then only `next` is written, by all that take iterations. Checked by tests/model/omp_share.
 */
#include <stdlib.h>

#include "library.h"

/* ---- the ring ---- */

void um_omp_share_free(struct um_omp_share *share)
{
    free(share->memory);
    free(share->doacross);
    share->memory = NULL;
    share->doacross = NULL;
}

/* A member's way into a share. The first sets it up, then calls share_ready(). */
enum way { NEXT, FIRST, ALONE };

/* Without iterations, as another member may do the same. */
static enum way share_alone(struct um_omp_member *self)
{
    if (!self->alone)
        self->alone = um_omp_memory(sizeof(*self->alone));
    um_omp_share_free(self->alone);
    self->share = self->alone;
    return ALONE;
}

static enum way share_enter(struct um_omp_member *self)
{
    uint64_t number = self->shares++, free_for = 3 * number;
    struct um_omp_share *share = &self->team->share[number % UM_OMP_SHARES];
    struct um_omp_end over = {&share->state, 0, 3 * number, UM_OMP_LEAVE};
    struct um_omp_end ready = {&share->state, 0, 3 * number + 2, true};

    self->share = share;
    self->trip = 0;
    self->from = self->to = 0;
    if (um_atomic_load(&share->state, acquire) < free_for) { /* S1; pairs with S6 */
        um_omp_await_slow(self, &over, UM_OMP_IDLE);
        /* acquire: as before. Or the region is cancelled */
        if (um_atomic_load(&share->state, acquire) < free_for)
            return share_alone(self);
    }
    /* S2. relaxed: S1 has the order. The look spares members that come late an exchange */
    if (um_atomic_load(&share->state, relaxed) == free_for &&
        um_atomic_cas(&share->state, &free_for, free_for + 1, relaxed, relaxed))
        return FIRST;
    um_omp_await(self, &ready, UM_OMP_IDLE); /* S4; pairs with S3 */
    return NEXT;
}

static void share_ready(struct um_omp_member *self)
{
    um_atomic_store(&self->share->left, 0, relaxed); /* published with the share */
    /* S3. seq_cst: the share, pairs with S4; W1 of wait.c */
    um_atomic_store(&self->share->state, 3 * (self->shares - 1) + 2, seq_cst);
    um_omp_wake_all(self->team);
}

void um_omp_share_leave(struct um_omp_member *self)
{
    struct um_omp_share *share = self->share;

    /* S5. acq_rel: the others' reads, before the share is written again; pairs with itself */
    if (um_atomic_fetch_add(&share->left, 1, acq_rel) + 1 < self->team->members)
        return;
    um_omp_share_free(share);
    /* S6. seq_cst: as above, pairs with S1; W1 of wait.c */
    um_atomic_store(&share->state, 3 * (self->shares - 1 + UM_OMP_SHARES), seq_cst);
    um_omp_wake_all(self->team);
}

/* relaxed, all: no member is in a region of the team; published with the next one */
void um_omp_shares_reset(struct um_omp_team *team)
{
    for (unsigned i = 0; i < UM_OMP_SHARES; i++) {
        struct um_omp_share *share = &team->share[i];

        um_omp_share_free(share);
        um_atomic_store(&share->state, 3 * (uint64_t)i, relaxed);
    }
    for (unsigned i = 0; i < team->members; i++)
        team->member[i].shares = team->member[i].singles = 0;
    um_atomic_store(&team->single, 0, relaxed);
}

/* ---- loops ---- */

static uint64_t iterations(const struct um_omp_loop *loop)
{
    uint64_t start = loop->start, end = loop->end;
    bool some = loop->wide
                    ? (loop->up ? start < end : start > end)
                    : (loop->up ? (int64_t)start < (int64_t)end : (int64_t)start > (int64_t)end);

    if (!some)
        return 0;
    return loop->up ? (end - start - 1) / loop->step + 1 : (start - end - 1) / -loop->step + 1;
}

static void loop_set(struct um_omp_member *self, const struct um_omp_loop *loop)
{
    struct um_omp_share *share = self->share;
    enum um_omp_schedule schedule = (enum um_omp_schedule)(loop->schedule & 7);
    uint64_t chunk = loop->chunk;

    if (schedule == UM_OMP_RUNTIME) {
        schedule = (enum um_omp_schedule)(self->task->icv.schedule & 7);
        chunk = (uint64_t)self->task->icv.chunk;
    }
    if (schedule == UM_OMP_AUTO) {
        schedule = UM_OMP_STATIC;
        chunk = 0;
    }
    share->count = iterations(loop);
    share->start = loop->start;
    share->step = loop->step;
    if (schedule != UM_OMP_STATIC && (chunk == 0 || (!loop->wide && (int64_t)chunk < 0)))
        chunk = 1;
    chunk = chunk < share->count ? chunk : share->count;
    /* each member adds once more to `next` than it takes, and that must not wrap around */
    if (schedule == UM_OMP_DYNAMIC && chunk > (UINT64_MAX - share->count) / self->team->members)
        schedule = UM_OMP_STATIC;
    share->schedule = schedule;
    share->chunk = chunk;
    um_atomic_store(&share->next, 0, relaxed); /* this and the next: published by S3 */
    um_atomic_store(&share->ordered, 0, relaxed);
}

static void loop_copy(struct um_omp_member *self)
{
    const struct um_omp_share *share = self->share;

    self->count = share->count;
    self->start = share->start;
    self->step = share->step;
    self->chunk = share->chunk;
    self->schedule = share->schedule;
}

void um_omp_loop_enter(struct um_omp_member *self, const struct um_omp_loop *loop)
{
    enum way first;

    if (loop->reductions)
        um_omp_group_begin(self);
    first = share_enter(self);
    if (first)
        loop_set(self, loop);
    if (UM_UNLIKELY(first == ALONE))
        self->share->count = self->share->chunk = 0;
    if (loop->reductions)
        um_omp_reduce_share(self, self->share, loop->reductions, first != NEXT);
    if (first && loop->memory)
        self->share->memory = um_omp_memory((uintptr_t)*loop->memory + 1);
    if (first && loop->counts)
        self->share->doacross = um_omp_doacross_make(self->share, self->team->members, loop);
    if (first)
        share_ready(self);
    if (loop->memory)
        *loop->memory = self->share->memory;
    loop_copy(self);
}

void um_omp_loop_preset(struct um_omp_team *team, const struct um_omp_loop *loop)
{
    struct um_omp_member *first = &team->member[0];

    um_omp_loop_enter(first, loop);
    for (unsigned i = 1; i < team->members; i++) {
        struct um_omp_member *member = &team->member[i];

        member->shares = first->shares;
        member->share = first->share;
        member->trip = 0;
        member->from = member->to = 0;
        loop_copy(member);
    }
}

void um_omp_loop_settle(struct um_omp_team *team)
{
    for (unsigned i = 0; i < UM_OMP_SHARES; i++) {
        um_atomic_u64 *state = &team->share[i].state;
        uint64_t is = um_atomic_load(state, relaxed); /* the region is over, or has one member */

        if (is % 3 == 2) /* relaxed: published with the next region */
            um_atomic_store(state, is - 2 + 3 * UM_OMP_SHARES, relaxed);
    }
}

/* The member's next part of a static loop. */
static bool next_static(struct um_omp_member *self, uint64_t *from, uint64_t *to)
{
    uint64_t members = self->team->members, number = self->number, count = self->count;
    uint64_t trip = self->trip++;

    if (self->chunk > 0) {
        uint64_t at = trip * members + number;

        if (at > (count - 1) / self->chunk) /* a chunk is at most count: that is not 0 */
            return false;
        *from = at * self->chunk;
        *to = count - *from > self->chunk ? *from + self->chunk : count;
    } else {
        uint64_t each = count / members, more = count % members;

        if (trip > 0)
            return false;
        *from = each * number + (number < more ? number : more);
        *to = *from + each + (number < more);
    }
    return *from < *to;
}

/* Takes iterations, by number. */
static bool take(struct um_omp_member *self, uint64_t *from, uint64_t *to)
{
    um_atomic_u64 *next = &self->share->next;
    uint64_t count = self->count, at, size = self->chunk, members = self->team->members;

    if (self->schedule == UM_OMP_STATIC)
        return next_static(self, from, to);
    if (self->schedule == UM_OMP_DYNAMIC) {
        at = um_atomic_fetch_add(next, size, relaxed); /* this and below: only the number counts */
    } else {
        at = um_atomic_load(next, relaxed);
        do {
            if (at >= count)
                return false;
            size = (count - at + members - 1) / members;
            size = size > self->chunk ? size : self->chunk;
            size = size < count - at ? size : count - at;
        } while (!um_atomic_cas(next, &at, at + size, relaxed, relaxed));
    }
    if (at >= count)
        return false;
    *from = at;
    *to = size < count - at ? at + size : count;
    return true;
}

bool um_omp_loop_next(struct um_omp_member *self, uint64_t *from, uint64_t *to)
{
    uint64_t first, end;

    if (!take(self, &first, &end))
        return false;
    *from = self->start + first * self->step;
    *to = self->start + end * self->step;
    return true;
}

UM_OMP_ABI void GOMP_loop_end_nowait(void)
{
    um_omp_share_leave(um_omp_self());
    um_omp_seen(UM_OMP_SEE_LOOP);
}

UM_OMP_ABI void GOMP_loop_end(void)
{
    struct um_omp_member *self = um_omp_self();

    um_omp_share_leave(self);
    um_omp_seen(UM_OMP_SEE_LOOP);
    um_omp_barrier_plain(self);
}

/* ---- ordered: a member's chunk has its turn when all before it have ended ---- */

static void await_turn(struct um_omp_member *self)
{
    struct um_omp_end turn = {&self->share->ordered, UINT64_MAX, self->from, false};

    um_omp_await(self, &turn, UM_OMP_IDLE);
}

bool um_omp_loop_next_ordered(struct um_omp_member *self, uint64_t *from, uint64_t *to)
{
    if (self->from < self->to) {
        await_turn(self);
        /* seq_cst: what was done in order, pairs with um_omp_ended(); W1 of wait.c */
        um_atomic_store(&self->share->ordered, self->to, seq_cst);
        um_omp_wake_all(self->team);
        self->from = self->to = 0;
    }
    if (!take(self, &self->from, &self->to)) {
        self->from = self->to = 0;
        return false;
    }
    *from = self->start + self->from * self->step;
    *to = self->start + self->to * self->step;
    return true;
}

void um_omp_loop_cut(struct um_omp_member *self)
{
    uint64_t from, to;

    if (self->from < self->to)
        while (um_omp_loop_next_ordered(self, &from, &to))
            continue;
}

UM_OMP_ABI void GOMP_ordered_start(void)
{
    struct um_omp_member *self = um_omp_self();

    if (self->from < self->to)
        await_turn(self);
}

UM_OMP_ABI void GOMP_ordered_end(void)
{
}

/* ---- sections: a loop over their numbers ---- */

UM_OMP_PART unsigned sections_enter(unsigned count, uintptr_t *reductions, void **memory)
{
    struct um_omp_loop loop = {.start = 1,
                               .end = (uint64_t)count + 1,
                               .step = 1,
                               .up = true,
                               .schedule = UM_OMP_DYNAMIC,
                               .chunk = 1,
                               .reductions = reductions,
                               .memory = memory};
    struct um_omp_member *self = um_omp_self();
    uint64_t from, to;

    um_omp_see(UM_OMP_SEE_LOOP, self->at);
    um_omp_loop_enter(self, &loop);
    return um_omp_loop_next(self, &from, &to) ? (unsigned)from : 0;
}

UM_OMP_ABI unsigned GOMP_sections_start(unsigned count)
{
    return sections_enter(count, NULL, NULL);
}

UM_OMP_ABI unsigned GOMP_sections2_start(unsigned count, uintptr_t *reductions, void **memory)
{
    return sections_enter(count, reductions, memory);
}

UM_OMP_ABI unsigned GOMP_sections_next(void)
{
    uint64_t from, to;

    return um_omp_loop_next(um_omp_self(), &from, &to) ? (unsigned)from : 0;
}

UM_OMP_ABI void GOMP_sections_end(void)
{
    GOMP_loop_end();
}

UM_OMP_ABI void GOMP_sections_end_nowait(void)
{
    GOMP_loop_end_nowait();
}

/* ---- scope, single ---- */

UM_OMP_ABI void GOMP_scope_start(uintptr_t *reductions)
{
    struct um_omp_member *self = um_omp_self();
    enum way first;

    if (!reductions)
        return;
    um_omp_group_begin(self);
    first = share_enter(self);
    um_omp_reduce_share(self, self->share, reductions, first != NEXT);
    if (first)
        share_ready(self);
    um_omp_share_leave(self);
}

/* True in the member that comes first. */
static bool single_first(struct um_omp_member *self)
{
    struct um_omp_team *team = self->team;
    uint64_t number = self->singles++;

    /* relaxed, all: what members do before it is not ordered by it */
    return team->members == 1 ||
           (um_atomic_load(&team->single, relaxed) == number &&
            um_atomic_cas(&team->single, &number, number + 1, relaxed, relaxed));
}

UM_OMP_ABI bool GOMP_single_start(void)
{
    return single_first(um_omp_self());
}

/* NULL in the member that comes first, which then calls the next; else what that one gave. */
UM_OMP_ABI void *GOMP_single_copy_start(void)
{
    struct um_omp_member *self = um_omp_self();

    if (single_first(self))
        return NULL;
    um_omp_barrier_plain(self);
    self->stays = self->barriers + 1;
    return self->team->copy;
}

UM_OMP_ABI void GOMP_single_copy_end(void *data)
{
    struct um_omp_member *self = um_omp_self();

    self->team->copy = data;
    um_omp_barrier_plain(self);
    self->stays = self->barriers + 1;
}
