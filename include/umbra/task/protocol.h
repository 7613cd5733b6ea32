/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Where a core keeps the tasks that it has forked and that have not started. The owner is the core;
 * its fibers fork and join. Thieves are other cores: they steal and ask. No call waits. Private;
 * read by the model checker as it stands.
 *
 *      slot 0 ... tail-1     slot tail ... split-1     old list          fast list
 *           taken              shared                  ---------- private ----------
 *                              oldest                                       newest
 *
 * Only the owner touches private tasks, without atomic operations. Forks push on the fast list,
 * joins pop. The list goes through the tasks themselves: a fork or join stores an address that is
 * at hand, so it does not wait for the loads and stores of earlier ones; and there is one link a
 * task, the fewest stores. All other work of the owner is done on the old list, which has both
 * links: the fast list is spilled to it first. So each task is spilled once at most.
 *
 * As in Lace (van Dijk and van de Pol, 2014), a task is shared only after a thief has asked. {tail,
 * split, changes} are one word:
 *
 *   thief     T1  load the word, acquire    T2  load slot[tail]    T3  tail + 1, compare-and-swap
 *   owner     publish: when nothing is shared, tail = 0, split = n     store
 *             retract: split down                                      compare-and-swap
 *
 * Each of the owner's changes is counted in `changes`, so that a T3 succeeds only if the owner has
 * changed nothing shared since T1: T2 has read what was published. (48 bits of changes repeat after
 * a month at least, which a thief would have to spend between T1 and T3.) A publish may be a store:
 * while nothing is shared, no thief's compare-and-swap can succeed.
 *
 * Asking:
 *
 *   a hungry core that goes to sleep                the owner, when it forks and is asked
 *   H1  its bit in idle (core/idle.h) seq_cst   O1  asked = 0, exchange          seq_cst
 *   H2  asked = 1                         seq_cst   O2  publish                      seq_cst
 *   H3  look at the word                  seq_cst   O3  look at idle, clear one bit  seq_cst
 *   H4  nothing shared: sleep                       O4  poke that core; if more sleep: asked = 1
 *
 * If O1 clears the `asked` of H2, then H1 < H2 < O1 < O3 in the one order of these, and O3 sees the
 * bit. If not, `asked` stays, and the owner's next fork answers. If H3 misses what O2 publishes,
 * then H1 < H3 < O2 < O3. So no core sleeps on while another goes on forking. If the owner forks no
 * more, it runs its private tasks itself, at the join, or when it has nothing else to do.
 *
 * A task that has been shared has a state: 0, or the joiner's node, until it has ended, then
 * UM_TASK_DONE. The core that ran it exchanges DONE for what was there. The joiner puts its node
 * there by a compare-and-swap, which fails if the task has ended. After the exchange the task's
 * memory belongs to the joiner again.
 *
 * A task that was started from outside has a state, too. A core that has no memory for a fiber gives
 * such a task back to its joiner, if that has come: it exchanges UM_TASK_RETURNED for the node by a
 * compare-and-swap, and wakes the joiner, which runs the task. A joiner without memory for a node
 * puts UM_TASK_POLLED there instead, and looks at the state again and again.
 *
 * A joiner with a deadline puts a node with a claim there (wait/claim.h), and gives up in two
 * steps:
 *
 *   joiner                             core that ran the task
 *   J1  claim: WAITING -> DEAD         E1  state: node -> DONE
 *   J2  state: node -> 0               E2  claim: WAITING -> TAKEN
 *
 * If J2 comes before E1, only the joiner has the node, and the task can be joined again. If not,
 * the task has ended, so the join has succeeded; the core finds the claim dead at E2 and drops its
 * reference to the node, as the joiner drops its own. If E2 comes before J1, the wake-up is on its
 * way. A core that gives the task back does the same with RETURNED at E1.
 */
#ifndef UMBRA_TASK_PROTOCOL_H
#define UMBRA_TASK_PROTOCOL_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/wait/protocol.h>

#define UM_TASKS_SHARED 128 /* shared tasks of a core at most */
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_TASK_WAITED ((uintptr_t)0) /* states, besides nodes */
#define UM_TASK_DONE ((uintptr_t)1)
#define UM_TASK_RETURNED ((uintptr_t)2)
#define UM_TASK_POLLED ((uintptr_t)3)

#define UM_TASKS_BITS 8 /* of tail and of split in the word */
#define UM_TASKS_MASK ((UINT64_C(1) << UM_TASKS_BITS) - 1)
#define UM_TASKS_CHANGE (UINT64_C(1) << 2 * UM_TASKS_BITS)

/* What a task runs. */
typedef void umbra_task_fn(void *arg);

/* umbra/task.h */
struct umbra_task {
    umbra_task_fn *fn; /* the forker writes, the core that runs it reads; both */
    void *arg;
    struct umbra_task *prev; /* in both lists the next older task; owner only */
    struct umbra_task
        *next;            /* in the old list the next newer task; NULL: it has a state. In the fast
                                list anything. Owner only */
    um_atomic_uptr state; /* if it has one: see above */
};

/* A core's tasks. */
struct um_tasks {
    /* hungry cores read this line and write it */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u32 asked; /* 1: a hungry core has asked */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u64 word;  /* tail, split, changes; see above */
    /* the owner writes; thieves read those that are shared */
    um_atomic_uptr slot[UM_TASKS_SHARED];

    /* owner only */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_task *newest; /* of the fast list, or NULL */
    struct umbra_task old; /* the ring of the old list: next is the oldest */
    uint64_t old_count;
};

UM_INLINE uint32_t um_tasks_tail_of(uint64_t word)
{
    return (uint32_t)(word & UM_TASKS_MASK);
}

UM_INLINE uint32_t um_tasks_split_of(uint64_t word)
{
    return (uint32_t)(word >> UM_TASKS_BITS & UM_TASKS_MASK);
}

/* The word after one more change by the owner. */
UM_INLINE uint64_t um_tasks_changed(uint64_t word, uint32_t tail, uint32_t split)
{
    return ((word & ~(UM_TASKS_CHANGE - 1)) + UM_TASKS_CHANGE) | (uint64_t)split << UM_TASKS_BITS |
           tail;
}

/* ---- the owner ---- */

/* Before any other core knows them. */
UM_INLINE void um_tasks_init(struct um_tasks *tasks, bool asked)
{
    um_atomic_store(&tasks->asked, asked, relaxed);
    um_atomic_store(&tasks->word, 0, relaxed);
    tasks->newest = NULL;
    tasks->old.prev = &tasks->old;
    tasks->old.next = &tasks->old;
    tasks->old_count = 0;
}

/* A fork: the task becomes the newest of the fast list. */
UM_INLINE void um_tasks_push(struct um_tasks *tasks, struct umbra_task *task)
{
    task->prev = tasks->newest;
    tasks->newest = task;
}

/* A join. True if the task was the newest of the fast list, and is out of it. */
UM_INLINE bool um_tasks_pop(struct um_tasks *tasks, struct umbra_task *task)
{
    if (UM_UNLIKELY(tasks->newest != task))
        return false;
    tasks->newest = task->prev;
    return true;
}

/* True if there are private tasks. */
UM_INLINE bool um_tasks_some(const struct um_tasks *tasks)
{
    return tasks->newest || tasks->old_count > 0;
}

/* True if a hungry core has asked. relaxed: O1 comes before the answer */
UM_INLINE bool um_tasks_asked(struct um_tasks *tasks)
{
    return um_atomic_load(&tasks->asked, relaxed) != 0;
}

/* The request is about to be answered: O1. */
UM_INLINE void um_tasks_answer(struct um_tasks *tasks)
{
    um_atomic_exchange(&tasks->asked, 0, seq_cst);
}

/* Puts a task into the old list, as the next newer of `before`. */
UM_INLINE void um_tasks_keep(struct um_tasks *tasks, struct umbra_task *task,
                             struct umbra_task *before)
{
    task->prev = before;
    task->next = before->next;
    before->next->prev = task;
    before->next = task;
    tasks->old_count++;
}

/* Takes a task out of the old list. */
UM_INLINE void um_tasks_unlink(struct um_tasks *tasks, struct umbra_task *task)
{
    task->prev->next = task->next;
    task->next->prev = task->prev;
    tasks->old_count--;
}

/* From now on the task is in no list, and has a state. */
UM_INLINE void um_task_begin(struct umbra_task *task, uintptr_t state)
{
    task->next = NULL;
    um_atomic_store(&task->state, state, relaxed); /* published with the task */
}

/* Moves the fast list to the old list, as its newest. */
UM_INLINE void um_tasks_spill(struct um_tasks *tasks)
{
    struct umbra_task *before = tasks->old.prev;
    struct umbra_task *task = tasks->newest;

    while (task) {
        struct umbra_task *older = task->prev;

        um_tasks_keep(tasks, task, before);
        task = older;
    }
    tasks->newest = NULL;
}

/* Shares the older half of the private tasks, UM_TASKS_SHARED at most: O2. There must be private
 * tasks, and none shared. */
UM_INLINE void um_tasks_publish(struct um_tasks *tasks)
{
    /* acquire: T2 of thieves, before the slots are written again; pairs with T3 */
    uint64_t word = um_atomic_load(&tasks->word, acquire);
    uint32_t count = UM_TASKS_SHARED;

    um_tasks_spill(tasks);
    if (tasks->old_count < 2 * UM_TASKS_SHARED)
        count = (uint32_t)(tasks->old_count + 1) / 2;
    for (uint32_t i = 0; i < count; i++) {
        struct umbra_task *task = tasks->old.next;

        um_tasks_unlink(tasks, task);
        um_task_begin(task, UM_TASK_WAITED);
        um_atomic_store(&tasks->slot[i], (uintptr_t)task, relaxed); /* published below */
    }
    /* seq_cst: O2; slots and tasks, before the word; pairs with T1 */
    um_atomic_store(&tasks->word, um_tasks_changed(word, 0, count), seq_cst);
}

/*
 * Makes a shared task private again, and all that are newer. half: a core is hungry, so half of the
 * older ones stay shared; else all become private. False: a thief had taken the task.
 */
UM_INLINE bool um_tasks_retract(struct um_tasks *tasks, struct umbra_task *task, bool half)
{
    uint64_t word = um_atomic_load(&tasks->word, relaxed); /* the owner wrote the slots */
    uint32_t end = um_tasks_split_of(word);
    uint32_t at = end;
    uint64_t changed;
    uint32_t tail;
    uint32_t split;

    do
        if (at-- == um_tasks_tail_of(word))
            return false;
    while (um_atomic_load(&tasks->slot[at], relaxed) != (uintptr_t)task);
    do {
        tail = um_tasks_tail_of(word);
        if (at < tail)
            return false;
        split = half ? tail + (at - tail + 1) / 2 : tail;
        changed = um_tasks_changed(word, tail, split);
        /* relaxed: the owner takes back what it wrote itself; slots are not written again before
         * the acquire of um_tasks_publish() */
    } while (!um_atomic_cas(&tasks->word, &word, changed, relaxed, relaxed));
    while (end-- > split) /* relaxed: the owner has written them */
        um_tasks_keep(tasks, (struct umbra_task *)um_atomic_load(&tasks->slot[end], relaxed),
                      &tasks->old);
    return true;
}

/* A join of a task that um_tasks_pop() did not find. False: a thief has taken it. */
UM_INLINE bool um_tasks_take_back(struct um_tasks *tasks, struct umbra_task *task)
{
    um_tasks_spill(tasks);
    if (!task->next && !um_tasks_retract(tasks, task, um_tasks_asked(tasks)))
        return false;
    um_tasks_unlink(tasks, task);
    return true;
}

/* ---- any core ---- */

/* Asks the owner to share: H2. */
UM_INLINE void um_tasks_ask(struct um_tasks *tasks)
{
    um_atomic_store(&tasks->asked, 1, seq_cst);
}

/* A thief that has taken the last shared task asks for the next before it runs this one. An owner
 * that forks, waits for that task and forks again would have forked before the thief could ask. */
UM_INLINE void um_tasks_ask_early(struct um_tasks *tasks)
{
    um_atomic_store(&tasks->asked, 1, relaxed); /* a hint: a core asks again before it sleeps */
}

/* True if a task is shared: H3. */
UM_INLINE bool um_tasks_shared(struct um_tasks *tasks)
{
    uint64_t word = um_atomic_load(&tasks->word, seq_cst);

    return um_tasks_tail_of(word) < um_tasks_split_of(word);
}

/* Takes the oldest shared task; NULL: none is shared. */
UM_INLINE struct umbra_task *um_tasks_steal(struct um_tasks *tasks)
{
    uint64_t word = um_atomic_load(&tasks->word, acquire); /* T1; pairs with O2 */

    while (um_tasks_tail_of(word) < um_tasks_split_of(word)) {
        uintptr_t task = um_atomic_load(&tasks->slot[um_tasks_tail_of(word)], relaxed); /* T2 */

        /* T3. release: T2, before the owner writes the slot again; pairs with um_tasks_publish().
         * acquire: as T1 */
        if (um_atomic_cas(&tasks->word, &word, word + 1, acq_rel, acquire))
            return (struct umbra_task *)task;
    }
    return NULL;
}

/* ---- limits: see fiber/task_limits.h ---- */

/* Any thread: L1. Asking each core (L2) is next. */
UM_INLINE void um_limits_publish(um_atomic_uptr *limits, uintptr_t value)
{
    um_atomic_store(limits, value, release); /* what it points to; pairs with um_limits_look() */
}

/* The owner, when it has answered (C1), or when it wants: C2. */
UM_INLINE uintptr_t um_limits_look(um_atomic_uptr *limits)
{
    return um_atomic_load(limits, acquire); /* pairs with um_limits_publish() */
}

/* ---- a task's state ---- */

/* The node to wake of what was in the state, or NULL: no joiner sleeps. E2 */
UM_INLINE struct um_node *um_task_sleeper(uintptr_t state)
{
    struct um_node *node = (struct um_node *)(state == UM_TASK_POLLED ? 0 : state);

    if (!node || !(um_plain_read(node->flags) & UM_NODE_CLAIMED) ||
        um_claimed_offer((struct um_claimed *)node) == UM_OFFER_TAKEN)
        return node;
    um_claimed_drop((struct um_claimed *)node);
    return NULL;
}

/* The core that ran the task: it has ended. Returns the node to wake, or NULL. */
UM_INLINE struct um_node *um_task_end(um_atomic_uptr *state)
{
    /* E1. release: what it did; acquire: the node. Pairs with um_task_has_ended(), um_task_await(),
     * um_task_leave() */
    return um_task_sleeper(um_atomic_exchange(state, UM_TASK_DONE, acq_rel));
}

/* The core that has taken the task and cannot run it. True: the task is its joiner's, and *waiting
 * the node to wake, or NULL. False: no joiner has come. */
UM_INLINE bool um_task_return(um_atomic_uptr *state, struct um_node **waiting)
{
    uintptr_t joiner = um_atomic_load(state, acquire); /* the node; pairs with um_task_await() */

    /* E1. release: the core touches the task no more; pairs with um_task_was_returned() */
    if (joiner == UM_TASK_WAITED ||
        !um_atomic_cas(state, &joiner, UM_TASK_RETURNED, acq_rel, relaxed))
        return false; /* or the joiner has given up meanwhile */
    *waiting = um_task_sleeper(joiner);
    return true;
}

#endif
