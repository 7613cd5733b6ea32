/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A barrier of a team: all have come, and all tasks have ended. Members that wait execute tasks.
 *
 * All have come: a dissemination barrier, as in umbra/team/protocol.h. In round k a member signals
 * the member 2^k further on, and waits for the one 2^k before it. A flag is the number of the
 * barrier that its writer has come to.
 *
 * All tasks have ended. Each member counts the deferred tasks that it has created and those that it
 * has executed. Tasks are created by members that have not come and by tasks. So when all have come
 *
 *   Q1  looks + 1           acq_rel    after the member's last task
 *   Q2  e = sum of executed acquire
 *   Q3  c = sum of created  relaxed
 *
 * e = c says that there was a moment after Q2 with as many executed as created: for good, as no
 * task is left that could create one. A count of executed tasks that Q2 reads comes with what
 * those tasks created. The last member at Q1 reads the counts of all: each member's last task is
 * before its own last Q1. So that member ends the barrier, and none needs to look twice.
 *
 * `tasked` is the first barrier of the region at which tasks must end. A member that is still in
 * the one before may read it, and does not wait for quiet there: no other member does.
 *
 * Such a member may also have taken a task of the next phase, from one that has left the barrier.
 * Tasks that this one made are in its own deque, where others may wait for them, so it executes
 * them before it leaves. They count for the next barrier, which it has not come to.
 *
 * A cancelled region. `cancelled` is the number n of the next barrier of the member that cancels it:
 *
 *   C1  cancelled = n, wake all   seq_cst   before the member comes to n, at the region's end
 *   C2  look at cancelled         acquire   in each round of a barrier that can be left
 *   C3  barriers - 1, and leave
 *
 * All come to n after C1, or to the one before and leave that. So those that do not leave n at C2 have
 * not ended it: the last to come is the one of C1. At the region's end a member goes through the
 * barriers that it has left once more, from the first round: what it says there it has said before. But
 * n may then end when another member, which has come to it and left, is not at the end yet. So all go
 * through one more, n + 1, which each comes to at the end only. A plain barrier, which cannot be left,
 * ends with others' n. Behind it its member may come to another one, n + 1:
 *
 *   C4  cancelled = n + 1    release    after the plain barrier n, before the member comes to n + 1
 *
 * So the others, which look at cancelled after n + 1, go on to n + 2; and so on.
 *
 * Checked by tests/model/omp_quiet.
 */
#include "library.h"

/* The flag that a member waits for in a round. In a team of two both stand in one line. */
static um_atomic_u64 *flag_of(const struct um_omp_team *team, unsigned round, unsigned number)
{
    size_t stride = team->members > 2 ? UMBRA_CACHE_LINE / sizeof(um_atomic_u64) : 1;

    return &team->flag[stride * ((size_t)team->members * round + number)];
}

static bool is_quiet(const struct um_omp_team *team)
{
    uint64_t executed = 0, created = 0;

    for (unsigned i = 0; i < team->members; i++) /* Q2; pairs with um_omp_task_take() */
        executed += um_atomic_load(&team->member[i].executed, acquire);
    for (unsigned i = 0; i < team->members; i++) /* Q3: came with Q2 */
        created += um_atomic_load(&team->member[i].created, relaxed);
    return executed == created;
}

void um_omp_look_for_quiet(struct um_omp_member *self)
{
    struct um_omp_team *team = self->team;

    um_atomic_fetch_add(&team->looks, 1, acq_rel); /* Q1; pairs with itself */
    if (!is_quiet(team))
        return;
    /* seq_cst: what the tasks did, pairs with um_omp_ended(); W1 of wait.c. Another member may have
     * found the same: both store the number of this barrier, as no member can come to the next */
    um_atomic_store(&team->quiet, self->barriers, seq_cst);
    um_omp_wake_all(team);
}

/* least: of the waits. False: the region is cancelled, and the member may leave. */
UM_INLINE bool come(struct um_omp_member *self, struct um_omp_team *team, uint64_t number,
                    unsigned least)
{
    unsigned round = 0;

    um_omp_see(UM_OMP_SEE_BARRIER, self->at);
    for (unsigned ahead = 1; ahead < team->members; ahead *= 2) {
        struct um_omp_end come = {flag_of(team, round, self->number), 0, number, least};
        unsigned to = self->number + ahead;

        to = to < team->members ? to : to - team->members;
        /* seq_cst: the member's writes before the barrier, pairs with um_omp_ended(); W1 */
        um_atomic_store(flag_of(team, round, to), number, seq_cst);
        um_omp_wake(&team->member[to]);
        um_omp_await(self, &come, UM_OMP_ANY);
        /* C2. acquire: what was written before the cancel, and `tasked`; pairs with C1 */
        if (least == UM_OMP_LEAVE && um_atomic_load(&team->cancelled, acquire) != 0)
            return false;
        round++;
    }
    return true;
}

/* All have come: now their tasks end. */
UM_INLINE uint64_t tasks_end(struct um_omp_member *self, struct um_omp_team *team, uint64_t number)
{
    /* relaxed: a member that set it to this barrier, or to one before, has come; and a task that
     * this member has taken came with it */
    uint64_t tasked = um_atomic_load(&team->tasked, relaxed);

    if (tasked != 0) {
        struct um_omp_end quiet = {&team->quiet, 0, number, true};
        struct um_omp_task *task;

        if (tasked <= number)
            um_omp_await(self, &quiet, UM_OMP_QUIET);
        while ((task = um_omp_next_task(self, UM_OMP_OWN)))
            um_omp_task_take(self, task);
    }
    um_omp_seen(UM_OMP_SEE_BARRIER);
    return tasked;
}

uint64_t um_omp_barrier(struct um_omp_member *self)
{
    struct um_omp_team *team = self->team;
    uint64_t number = ++self->barriers;

    come(self, team, number, true);
    return tasks_end(self, team, number);
}

void um_omp_barrier_plain(struct um_omp_member *self)
{
    struct um_omp_team *team = self->team;
    uint64_t number = ++self->barriers, tasked;

    come(self, team, number, true);
    tasked = tasks_end(self, team, number);
    /* relaxed: C1 was before the barrier, or another member's is the same as C4. Release: as C1 for those
     * that look there. Others store the same: none has come to the next barrier */
    if (UM_UNLIKELY(tasked != 0) && um_atomic_load(&team->cancelled, relaxed) != 0)
        um_atomic_store(&team->cancelled, number + 1, release);
}

bool um_omp_barrier_cancel(struct um_omp_member *self)
{
    struct um_omp_team *team = self->team;
    uint64_t number = ++self->barriers;

    if (!come(self, team, number, UM_OMP_LEAVE)) {
        self->barriers--;
        um_omp_seen(UM_OMP_SEE_BARRIER);
        return true;
    }
    tasks_end(self, team, number);
    return false;
}

void um_omp_barrier_settle(struct um_omp_member *self)
{
    /* relaxed: all have come */
    while (um_atomic_load(&self->team->cancelled, relaxed) >= self->barriers)
        um_omp_barrier(self);
}

UM_OMP_ABI void GOMP_barrier(void)
{
    um_omp_barrier_plain(um_omp_self());
}
