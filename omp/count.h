/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Counts of tasks: when a task's children have ended, when its memory is free, when a taskgroup is
 * over, and when all tasks of a team have ended (barrier.c). Private. Checked by
 * tests/model/omp_count and omp_quiet.
 *
 * A task's count has in its low half the children that have not ended, and UM_OMP_HOLD until the
 * task itself has. A task keeps the children that it makes in `uncounted`, which only its thread writes,
 * and adds them to the count when it waits for them and when it ends. Until then the count is lower by
 * so many, and what N3 wakes may be woken in vain. A taskgroup's own task does the same with the tasks
 * that it makes; the others in it are counted when they are made.
 *
 *   the thread that ends a task
 *   N1  the taskgroup's count - 1          seq_cst   0: wakes the member that waits for it
 *   N2  the task's count - UM_OMP_HOLD     acq_rel   0: its memory is free
 *   N3  the parent's count - UM_OMP_CHILD  seq_cst   only the hold is left: wakes its member;
 *                                                    0: its memory is free
 *
 * So an ended task keeps its memory while it has children, and none longer: they read its member
 * and its count. What N1 and N3 wake they read before: the count may be the last thing that keeps
 * the memory.
 *
 * A task that is executed at once is in no count: it ends before its parent goes on, and its own
 * children hold its memory.
 *
 * Memory. A task's memory is its home's: the member that has made it. Others bundle what they free, and
 * push each bundle on a stack, `returned`, of which the home takes all at once. So it finds their
 * addresses on a few lines, and does not wait for a line of each task to find the next one.
 */
#ifndef UMBRA_OMP_COUNT_H
#define UMBRA_OMP_COUNT_H

#ifndef UM_MODEL_CHECK
#include "library.h"
#endif

#define UM_OMP_CHILD UINT64_C(1)
#define UM_OMP_CHILDREN UINT64_C(0xffffffff)
#define UM_OMP_HOLD (UINT64_C(1) << 32)

/* ---- memory ---- */

UM_INLINE void um_omp_memory_free(struct um_omp_member *self, struct um_omp_task *task)
{
    task->link.prev = self->free;
    self->free = &task->link;
}

/* Frees what other threads have returned of the member's tasks. */
UM_INLINE void um_omp_memory_collect(struct um_omp_member *self)
{
    /* acquire: the bundles, and that others have read the tasks; pairs with um_omp_bundle_return() */
    struct umbra_task *link = (struct umbra_task *)um_atomic_exchange(&self->returned, 0, acquire);

    while (link) {
        struct um_omp_task *first = (struct um_omp_task *)link;

        link = link->prev;
        um_omp_memory_free(self, first);
        for (unsigned i = 0; i < first->bundle.count; i++)
            um_omp_memory_free(self, first->bundle.task[i]);
    }
}

UM_INLINE void um_omp_bundle_return(struct um_omp_task *first)
{
    um_atomic_uptr *returned = &first->home->returned;
    uintptr_t top = um_atomic_load(returned, relaxed); /* only its address is kept */

    do
        first->link.prev = (struct umbra_task *)top;
    while (!um_atomic_cas(returned, &top, (uintptr_t)first, release, relaxed));
}

UM_INLINE void um_omp_memory_give(struct um_omp_member *self, struct um_omp_task *task)
{
    struct um_omp_task *first = self->bundle;

    if (task->home == self) {
        um_omp_memory_free(self, task);
    } else if (first && first->home == task->home) {
        unsigned count = first->bundle.count;

        first->bundle.task[count] = task;
        first->bundle.count = count + 1;
        if (count + 1 < UM_OMP_BUNDLE)
            return;
        um_omp_bundle_return(first);
        self->bundle = NULL;
    } else {
        if (first)
            um_omp_bundle_return(first);
        task->bundle.count = 0;
        self->bundle = task;
    }
}

/* ---- children and taskgroups ---- */

/* The calling task has all its children counted. */
UM_INLINE void um_omp_children_count(struct um_omp_task *task)
{
    if (task->uncounted == 0)
        return;
    /* relaxed: this thread waits */
    um_atomic_fetch_add(&task->count, task->uncounted * UM_OMP_CHILD, relaxed);
    task->uncounted = 0;
}

/* The same, of the group. */
UM_INLINE void um_omp_group_count(struct um_omp_group *group)
{
    um_atomic_fetch_add(&group->count, group->uncounted, relaxed); /* as above */
    group->uncounted = 0;
}

/* A new task that is executed at once. */
UM_INLINE void um_omp_count_hold(struct um_omp_task *task)
{
    um_atomic_store(&task->count, UM_OMP_HOLD, relaxed); /* published with it, or its children */
}

/* A new deferred task of the parent, and of its taskgroup, which is set. */
UM_INLINE void um_omp_count_begin(struct um_omp_task *task, struct um_omp_task *parent)
{
    um_omp_count_hold(task);
    parent->uncounted = parent->uncounted + 1;
    if (UM_UNLIKELY(parent->uncounted == UM_OMP_UNCOUNTED_MOST))
        um_omp_children_count(parent);
    if (!task->group)
        return;
    if (task->group->task == parent)
        task->group->uncounted++;
    else /* relaxed: the parent is one of the group, and counted */
        um_atomic_fetch_add(&task->group->count, 1, relaxed);
}

/* N1. A task of the group has ended. */
UM_INLINE void um_omp_group_release(struct um_omp_group *group)
{
    struct um_omp_member *waits = group->member; /* before: then the group may be gone */

    /* seq_cst: what the task did, pairs with um_omp_ended(); W1 of wait.c */
    if (um_atomic_fetch_add(&group->count, (uint64_t)-1, seq_cst) == 1)
        um_omp_wake(waits);
}

/* N3. A child of the task has ended. */
UM_INLINE void um_omp_parent_release(struct um_omp_member *self, struct um_omp_task *parent)
{
    struct um_omp_member *waits = parent->member; /* before: then its memory may be another's */
    /* seq_cst: what the child did, pairs with um_omp_ended() in a taskwait; W1 of wait.c. And all
     * that held the task have read it; pairs with itself, and with um_omp_count_end() */
    uint64_t before = um_atomic_fetch_add(&parent->count, -UM_OMP_CHILD, seq_cst);

    if (before == UM_OMP_CHILD)
        um_omp_memory_give(self, parent);
    else if (before == (UM_OMP_CHILD | UM_OMP_HOLD))
        um_omp_wake(waits);
}

/* N2. The task itself has ended. */
UM_INLINE void um_omp_task_release(struct um_omp_member *self, struct um_omp_task *task)
{
    uint64_t leaves = UM_OMP_HOLD - task->uncounted * UM_OMP_CHILD;

    task->uncounted = 0;
    /* acquire, acq_rel: its children have read it; pairs with um_omp_parent_release() */
    if (um_atomic_load(&task->count, acquire) == leaves ||
        um_atomic_fetch_add(&task->count, -leaves, acq_rel) == leaves)
        um_omp_memory_give(self, task);
}

/* N2, N3. A deferred task has ended. */
UM_INLINE void um_omp_count_end(struct um_omp_member *self, struct um_omp_task *task)
{
    struct um_omp_task *parent = um_atomic_load(&task->parent, relaxed); /* came with it */

    um_omp_task_release(self, task);
    um_omp_parent_release(self, parent);
}

/* ---- all tasks of a team: barrier.c ---- */

/* The member makes the task a deferred one: it may be pushed now. */
UM_INLINE void um_omp_count_created(struct um_omp_member *self, struct um_omp_task *task)
{
    struct um_omp_team *team = self->team;
    /* relaxed, all: only this thread writes it, and it comes with the task, to the thread that
     * executes that. `tasked` is looked at when this member has come to the barrier, or with the
     * task, and several makers that set it are before the same barrier */
    uint64_t created = um_atomic_load(&self->created, relaxed) + 1;

    if (!um_atomic_load(&team->tasked, relaxed))
        um_atomic_store(&team->tasked, self->barriers + 1, relaxed);
    um_atomic_store(&task->order, created, relaxed);
    um_atomic_store(&self->created, created, relaxed);
}

/* The member has executed a deferred task. */
UM_INLINE void um_omp_count_executed(struct um_omp_member *self)
{
    /* release: its work, its children's counts; pairs with Q2 of barrier.c. Only this thread
     * writes */
    um_atomic_store(&self->executed, um_atomic_load(&self->executed, relaxed) + 1, release);
}

#endif
