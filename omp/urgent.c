/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Tasks that members look at before those in deques, a list of the team under its lock: detached tasks
 * that are to be ended (detach.c), then those with a priority, the highest first.
 */
#include "count.h"

/* Under the lock, so that no other thread writes it. */
static void urgents_add(struct um_omp_team *team, uint32_t more)
{
    um_atomic_store(&team->urgents, um_atomic_load(&team->urgents, relaxed) + more, relaxed);
}

void um_omp_task_urge(struct um_omp_member *self, struct um_omp_task *task)
{
    struct um_omp_team *team = self->team;
    struct umbra_task *before = NULL, *at;

    um_omp_count_created(self, task);
    um_lock_take(&team->lock);
    urgents_add(team, 1);
    at = (struct umbra_task *)um_atomic_load(&team->urgent, relaxed); /* here and below: the lock */
    while (at && (um_omp_event_over((struct um_omp_task *)at) ||
                  ((struct um_omp_task *)at)->priority > task->priority)) {
        before = at;
        at = at->prev;
    }
    task->link.prev = at;
    if (before)
        before->prev = &task->link;
    else /* seq_cst: W1 of wait.c. Otherwise a member looks under the lock before it sleeps */
        um_atomic_store(&team->urgent, (uintptr_t)task, seq_cst);
    um_lock_release(&team->lock);
    um_omp_wake_all(team);
}

bool um_omp_many_urgent(struct um_omp_team *team)
{
    /* relaxed: a number */
    return um_atomic_load(&team->urgents, relaxed) >= UM_OMP_WAITING_MOST * team->members;
}

/* True if the task that the member executes may wait for this one: as its child, or in a taskgroup.
 * The tasks further above may have ended, and their memory may be that of others; but not the
 * taskgroups. */
static bool is_waited_for(const struct um_omp_member *self, const struct um_omp_task *task)
{
    const struct um_omp_group *group = task->group;

    if (um_atomic_load(&task->parent, relaxed) == self->task) /* came with the task */
        return true;
    while (group && group->task != self->task)
        group = group->outer;
    return group != NULL;
}

struct um_omp_task *um_omp_urgent_next(struct um_omp_member *self, enum um_omp_help help)
{
    struct um_omp_team *team = self->team;
    struct umbra_task *link, *newer = NULL;

    um_lock_take(&team->lock);
    link = (struct umbra_task *)um_atomic_load(&team->urgent, relaxed);
    while (link && help < UM_OMP_ANY && !is_waited_for(self, (struct um_omp_task *)link)) {
        newer = link;
        link = link->prev;
    }
    if (link && newer)
        newer->prev = link->prev;
    else if (link)
        um_atomic_store(&team->urgent, (uintptr_t)link->prev, relaxed);
    if (link && !um_omp_event_over((struct um_omp_task *)link))
        urgents_add(team, (uint32_t)-1);
    um_lock_release(&team->lock);
    return (struct um_omp_task *)link;
}
