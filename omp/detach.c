/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Detached tasks: one has ended when its function has, and its event is fulfilled, which any thread
 * of the process may do, at any time.
 *
 *   event      OPEN -> FULFILLED          the function ends the task
 *              OPEN -> LEFT -> OVER       the function has ended first: then the task goes to the
 *                                         front of `urgent`, from which a member that waits ends it
 *
 * So a member ends each task, with all that follows; and by the counts of barrier.c the task is one
 * that has not been executed until then. All changes are under the team's lock. A member looks there
 * once more before it ends a task, so the thread that fulfils an event touches no team that may be
 * freed.
 */
#include "api.h"
#include "count.h"

enum { NONE, OPEN, LEFT, FULFILLED, OVER, ABSENT /* of a task that may be discarded */ };

void um_omp_event_make(struct um_omp_task *task, const struct um_omp_arguments *from)
{
    if (!from->event) {
        /* relaxed: published with the task. One whose arguments were constructed destroys them */
        if (!from->copy)
            um_atomic_store(&task->event, ABSENT, relaxed);
        return;
    }
    um_atomic_store(&task->event, OPEN, relaxed); /* published with the handle */
    *from->event = task;
    if (from->data)
        *(void **)from->data = task; /* the ABI: the function's own copy of the handle */
}

void omp_fulfill_event(void *event)
{
    struct um_omp_task *task = event;
    struct um_omp_team *team = task->home->team;

    um_lock_take(&team->lock);
    if (um_atomic_load(&task->event, relaxed) == LEFT) { /* relaxed, here and below: the lock */
        um_atomic_store(&task->event, OVER, relaxed);
        task->link.prev = (struct umbra_task *)um_atomic_load(&team->urgent, relaxed);
        um_atomic_store(&team->urgent, (uintptr_t)task, seq_cst); /* W1 of wait.c */
    } else {
        um_atomic_store(&task->event, FULFILLED, seq_cst); /* likewise: um_omp_event_await() */
    }
    um_omp_wake_all(team);
    um_lock_release(&team->lock);
}

bool um_omp_event_leave(struct um_omp_task *task)
{
    struct um_lock *lock = &task->home->team->lock;
    bool open;

    if (um_atomic_load(&task->event, relaxed) == ABSENT) /* its maker has set it */
        return false;
    um_lock_take(lock);
    open = um_atomic_load(&task->event, relaxed) == OPEN;
    if (open)
        um_atomic_store(&task->event, LEFT, relaxed);
    um_lock_release(lock);
    return open;
}

void um_omp_event_await(struct um_omp_member *self, struct um_omp_task *task)
{
    struct um_omp_end end = {&task->event, UINT64_MAX, FULFILLED, false};

    if (um_atomic_load(&task->event, relaxed) == ABSENT) /* as above */
        return;
    um_omp_await(self, &end, UM_OMP_DESCEND);
    um_lock_take(&self->team->lock); /* the thread that has fulfilled it is through */
    um_lock_release(&self->team->lock);
}

/* The program may fulfil it later: the task keeps its memory as long as its home is there. */
void um_omp_event_discard(struct um_omp_task *task)
{
    if (um_atomic_load(&task->event, relaxed) != OPEN) /* FULFILLED is for good */
        return;
    um_atomic_fetch_add(&task->count, UM_OMP_HOLD, relaxed); /* this thread takes its own hold */
    omp_fulfill_event(task);
}

bool um_omp_event_over(const struct um_omp_task *task)
{
    return um_atomic_load(&task->event, relaxed) == OVER; /* came with the task */
}
