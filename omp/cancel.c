/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Cancellation, if OMP_CANCELLATION is true: of a region, a loop, sections, or a taskgroup.
 *
 * A member looks at cancellation points only, and then goes to the end of what is cancelled by itself.
 *
 *   region     barrier.c says how members come to its end
 *   loop       its members are between the same two barriers: the number of the latter one, `cut`, is
 *              what is cancelled, until they have come to it
 *   taskgroup  `cancelled` of the group
 *
 * A task that begins in a cancelled region or taskgroup is discarded: its function is not executed, all
 * that follows is as at the end of another one.
 */
#include "api.h"
#include "library.h"

/* The ABI's numbers. */
enum { REGION = 1, LOOP = 2, SECTIONS = 4, TASKGROUP = 8 };

int omp_get_cancellation(void)
{
    return um_omp_settings.cancel;
}

bool um_omp_is_cancelled(struct um_omp_member *self, const struct um_omp_task *task)
{
    /* acquire, all: what was written before the cancel; pairs with region_cancel(), group_cancel() */
    if (um_atomic_load(&self->team->cancelled, acquire) != 0)
        return true;
    for (struct um_omp_group *group = task->group; group; group = group->outer)
        if (um_atomic_load(&group->cancelled, acquire) != 0)
            return true;
    return false;
}

static void region_cancel(struct um_omp_member *self)
{
    struct um_omp_team *team = self->team;

    /* relaxed: published with the next. The region's end is one with tasks */
    if (um_atomic_load(&team->tasked, relaxed) == 0)
        um_atomic_store(&team->tasked, self->barriers + 1, relaxed);
    /* C1. seq_cst: W1 of wait.c. Others store the same: none comes to the next barrier */
    um_atomic_store(&team->cancelled, self->barriers + 1, seq_cst);
    um_omp_wake_all(team);
}

static void group_cancel(struct um_omp_group *group)
{
    while (group && group->share && group->outer)
        group = group->outer;
    if (group) /* release: pairs with um_omp_is_cancelled() */
        um_atomic_store(&group->cancelled, 1, release);
}

/* True if what the member is in is cancelled. */
static bool at_point(struct um_omp_member *self, int which)
{
    if (which & TASKGROUP)
        return um_omp_is_cancelled(self, self->task);
    if (which & REGION) /* acquire: as um_omp_is_cancelled() */
        return um_atomic_load(&self->team->cancelled, acquire) != 0;
    /* acquire: pairs with GOMP_cancel() */
    if (um_atomic_load(&self->team->cut, acquire) != self->barriers + 1)
        return false;
    um_omp_loop_cut(self);
    return true;
}

UM_OMP_ABI bool GOMP_cancellation_point(int which)
{
    return um_omp_settings.cancel && at_point(um_omp_self(), which);
}

UM_OMP_ABI bool GOMP_cancel(int which, bool condition)
{
    struct um_omp_member *self;

    if (!um_omp_settings.cancel)
        return false;
    self = um_omp_self();
    if (!condition)
        return at_point(self, which);
    if (which & REGION) {
        region_cancel(self);
    } else if (which & TASKGROUP) {
        group_cancel(self->task->group);
    } else {
        /* release: pairs with at_point() */
        um_atomic_store(&self->team->cut, self->barriers + 1, release);
        um_omp_loop_cut(self);
    }
    return true;
}

static bool barrier(struct um_omp_member *self)
{
    if (um_omp_settings.cancel && self->barriers + 1 != self->stays)
        return um_omp_barrier_cancel(self);
    um_omp_barrier_plain(self);
    return false;
}

UM_OMP_ABI bool GOMP_barrier_cancel(void)
{
    return barrier(um_omp_self());
}

UM_OMP_PART bool share_end(void)
{
    struct um_omp_member *self = um_omp_self();

    um_omp_share_leave(self);
    um_omp_seen(UM_OMP_SEE_LOOP);
    return barrier(self);
}

UM_OMP_ABI bool GOMP_loop_end_cancel(void)
{
    return share_end();
}

UM_OMP_ABI bool GOMP_sections_end_cancel(void)
{
    return share_end();
}
