/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Which task a member executes next: the newest of its own, or the oldest that another one shares,
 * by umbra/task/protocol.h. The members are its cores: `sleepers` of the team is its idle bits.
 *
 * The scheduling constraint: a member in a taskwait, a taskyield or at the end of a taskgroup has a
 * task that it will go on with, and so executes only tasks below that one; at a barrier any. What
 * stands above in its own deque was made by tasks below it.
 */
#include "library.h"

/* O1 to O4 of umbra/task/protocol.h */
void um_omp_answer(struct um_omp_member *self)
{
    um_atomic_u32 *sleepers = &self->team->sleepers;
    uint32_t asleep;

    um_tasks_answer(&self->tasks);
    if (!um_tasks_shared(&self->tasks) && um_tasks_some(&self->tasks))
        um_tasks_publish(&self->tasks);
    asleep = um_atomic_load(sleepers, seq_cst); /* O3; pairs with fall_asleep() in wait.c */
    if (asleep > 1)
        um_tasks_ask_early(&self->tasks);
    for (unsigned i = 1; asleep > 0 && i < self->team->members; i++) {
        struct um_omp_member *other = &self->team->member[(self->number + i) % self->team->members];

        if (um_atomic_load(&other->asleep, seq_cst)) { /* O3 */
            um_omp_ring(other);
            asleep = 0;
        }
    }
}

/* True if the task is below the other one, which is being executed. */
static bool descends(const struct um_omp_task *task, const struct um_omp_task *of)
{
    while (task->depth > of->depth)
        task = task->parent;
    return task == of;
}

/* The newest of the own tasks, if the member may execute it now. */
static struct um_omp_task *own(struct um_omp_member *self, const struct um_omp_task *below)
{
    struct um_tasks *tasks = &self->tasks;
    struct umbra_task *link = tasks->newest;

    if (!link && tasks->old_count > 0)
        link = tasks->old.prev;
    if (link && below && !descends((struct um_omp_task *)link, below))
        return NULL;
    if (link) {
        if (!um_tasks_pop(tasks, link))
            um_tasks_unlink(tasks, link);
        return (struct um_omp_task *)link;
    }
    link = um_tasks_steal(tasks); /* it shares all that it has */
    if (link && below && !descends((struct um_omp_task *)link, below)) {
        um_tasks_keep(tasks, link, &tasks->old);
        return NULL;
    }
    return (struct um_omp_task *)link;
}

static struct um_omp_task *steal(struct um_omp_member *self)
{
    struct um_omp_team *team = self->team;

    for (unsigned i = 1; i < team->members; i++) {
        struct um_tasks *tasks = &team->member[(self->number + i) % team->members].tasks;
        struct umbra_task *link = um_tasks_steal(tasks);

        if (link) {
            if (!um_tasks_shared(tasks))
                um_tasks_ask_early(tasks);
            return (struct um_omp_task *)link;
        }
        /* H2. seq_cst: if it was asked before, the answer is still to come, and O3 sees H1 */
        if (um_atomic_load(&tasks->asked, seq_cst) == 0)
            um_tasks_ask(tasks);
    }
    for (unsigned i = 1; i < team->members; i++) { /* H3 */
        struct um_tasks *tasks = &team->member[(self->number + i) % team->members].tasks;
        struct umbra_task *link = um_tasks_shared(tasks) ? um_tasks_steal(tasks) : NULL;

        if (link)
            return (struct um_omp_task *)link;
    }
    return NULL;
}

struct um_omp_task *um_omp_next_task(struct um_omp_member *self, enum um_omp_help help)
{
    struct um_omp_task *task;

    if (um_tasks_asked(&self->tasks) && um_tasks_some(&self->tasks))
        um_omp_answer(self);
    task = own(self, help == UM_OMP_DESCEND ? self->task : NULL);
    return task || help == UM_OMP_DESCEND ? task : steal(self);
}
