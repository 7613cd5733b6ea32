/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Which task a member executes next: an urgent one (urgent.c), or the newest of its own, or the oldest
 * that another one shares, by umbra/task/protocol.h. The members are its cores: `sleepers` of the team is its idle bits.
 *
 * The scheduling constraint: a member in a taskwait, a taskyield or at the end of a taskgroup has a
 * task that it will go on with, and so executes only tasks below that one; at a barrier any. Until
 * that task ends the member executes only it and tasks below it. So the tasks in its deque that are
 * below it are those made since it began: the newest ones. A task that gets its turn (turn.h) goes
 * to the member that has ended its last predecessor; another member may be the one that waits for
 * it. So a member in a taskwait, whose task has children with dependences, takes such children also
 * from the deques of other members, which offer them.
 */
#include "library.h"

/* Others may take some of its private tasks. There are some, and none shared. */
static void tasks_share(struct um_omp_member *self)
{
    struct um_tasks *tasks = &self->tasks;

    um_tasks_publish(tasks);
    /* relaxed: what the member has written itself; those that are taken meanwhile are still in it */
    self->waiting =
        (unsigned)tasks->old_count + um_tasks_split_of(um_atomic_load(&tasks->word, relaxed));
}

/* At most UM_TASKS_SHARED of them have been taken since `waiting` was counted, so that at least half of
 * what it says are there: in each member as many as in all under libgomp. The word, which thieves write,
 * is not looked at: one that has taken the last asks. */
bool um_omp_many_wait(struct um_omp_member *self)
{
    unsigned most = UM_OMP_WAITING_MOST * self->team->members;

    if (UM_LIKELY(self->waiting < most))
        return false;
    if (um_tasks_asked(&self->tasks) || self->tasks.newest) {
        um_omp_answer(self);
        um_tasks_spill(&self->tasks);
    }
    return self->waiting >= most;
}

/* O1 to O4 of umbra/task/protocol.h */
void um_omp_answer(struct um_omp_member *self)
{
    um_atomic_u32 *sleepers = &self->team->sleepers;
    uint32_t asleep;

    um_tasks_answer(&self->tasks);
    if (!um_tasks_shared(&self->tasks) && um_tasks_some(&self->tasks))
        tasks_share(self);
    asleep = um_atomic_load(sleepers, seq_cst); /* O3; pairs with fall_asleep() in wait.c */
    if (asleep > 1)
        um_tasks_ask_early(&self->tasks);
    for (unsigned i = 1; asleep > 0 && i < self->team->members; i++) {
        struct um_omp_member *other = &self->team->member[(self->number + i) % self->team->members];

        if (um_atomic_load(&other->asleep, seq_cst) == 2) { /* O3 */
            um_omp_ring(other);
            asleep = 0;
        }
    }
}

void um_omp_offer(struct um_omp_member *self, struct um_omp_member *other)
{
    struct um_tasks *tasks = &self->tasks;

    /* relaxed, both: a hint. This member executes itself what the other one does not take */
    if (other == self || um_atomic_load(&other->hungry, relaxed) == 0)
        return;
    um_atomic_store(&other->hungry, 0, relaxed);
    if (!um_tasks_shared(tasks) && tasks->newest && (tasks->newest->prev || tasks->old_count > 0))
        tasks_share(self); /* one of several */
    um_omp_wake(other);
}

/* The newest of the tasks that the member shares, or NULL. Another may have it already. */
static struct umbra_task *newest_shared(struct um_tasks *tasks)
{
    uint64_t word = um_atomic_load(&tasks->word, relaxed); /* this thread wrote the slots */
    uint32_t split = um_tasks_split_of(word);

    if (um_tasks_tail_of(word) >= split)
        return NULL;
    return (struct umbra_task *)um_atomic_load(&tasks->slot[split - 1], relaxed);
}

/* The newest of the own tasks; below: only if it is below the one that the member executes. */
static struct um_omp_task *own(struct um_omp_member *self, bool below)
{
    struct um_tasks *tasks = &self->tasks;
    struct umbra_task *link = tasks->newest;
    bool shared = false;

    if (!link && tasks->old_count > 0) {
        link = tasks->old.prev;
    } else if (!link) {
        link = newest_shared(tasks);
        shared = true;
    }
    /* relaxed: this member wrote it; if another one has the task, and even its memory is another
     * task's, then it is not taken below */
    if (!link ||
        (below && um_atomic_load(&((struct um_omp_task *)link)->order, relaxed) <= self->began))
        return NULL;
    if (!shared) {
        if (!um_tasks_pop(tasks, link))
            um_tasks_unlink(tasks, link);
    } else if (um_tasks_retract(tasks, link, um_tasks_asked(tasks))) {
        um_tasks_unlink(tasks, link);
    } else {
        return NULL; /* it was the last one, and another member has it */
    }
    self->waiting--;
    return (struct um_omp_task *)link;
}

/* A task that another member shares, and a child of the one that the caller executes: of the oldest
 * ones only. As um_tasks_steal(). */
static struct um_omp_task *steal_child(struct um_omp_member *self)
{
    struct um_omp_team *team = self->team;

    for (unsigned i = 1; i < team->members; i++) {
        struct um_tasks *tasks = &team->member[(self->number + i) % team->members].tasks;
        uint64_t word = um_atomic_load(&tasks->word, acquire); /* T1 */
        uint32_t tail = um_tasks_tail_of(word);
        struct um_omp_task *task;

        if (tail >= um_tasks_split_of(word))
            continue;
        task = (struct um_omp_task *)um_atomic_load(&tasks->slot[tail], relaxed); /* T2 */
        /* relaxed: if another member has the task meanwhile, and even its memory is another
         * task's, then T3 fails */
        if (um_atomic_load(&task->parent, relaxed) == self->task &&
            um_atomic_cas(&tasks->word, &word, word + 1, acq_rel, relaxed)) /* T3 */
            return task;
    }
    return NULL;
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
    /* seq_cst: P3 of wait.c; pairs with omp_fulfill_event() and um_omp_task_urge() */
    if (UM_UNLIKELY(um_atomic_load(&self->team->urgent, seq_cst) != 0) && help != UM_OMP_OWN &&
        (task = um_omp_urgent_next(self, help)))
        return task;
    task = own(self, help == UM_OMP_DESCEND);
    if (!task && help == UM_OMP_DESCEND && self->task->depends) {
        task = steal_child(self);
        um_atomic_store(&self->hungry, !task, relaxed); /* a hint, to um_omp_offer() */
    }
    return task || help < UM_OMP_ANY ? task : steal(self);
}
