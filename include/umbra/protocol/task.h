/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Where a core keeps the tasks that it has forked and nobody has started. Private; read by the model
 * checker as it stands.
 *
 *      slot 0 ... tail-1     slot tail ... split-1     old list          fast list
 *           taken              shared                  ---------- private ----------
 *                              oldest                                       newest
 *
 * Only the owner touches those that are private, without atomic operations. Forks push on the fast
 * list, joins pop. It is a list through the tasks themselves: what a fork or join stores is an
 * address that is at hand, so that none waits for the loads and stores of those before it; and it
 * has one link a task, the fewest stores. What else the owner does, it does to the old list, which
 * has both links: to it the fast one is spilled first. So each task is spilled once at most.
 *
 * As in Lace (van Dijk and van de Pol, 2014), a task is shared only when somebody has asked. {tail,
 * split, changes} are one word:
 *
 *   thief     T1  load the word, acquire    T2  load slot[tail]    T3  tail + 1, compare-and-swap
 *   owner     publish: when nothing is shared, tail = 0, split = n     store
 *             retract: split down                                      compare-and-swap
 *
 * Each of the owner's changes counts in `changes`, so that a T3 succeeds only if since T1 the owner
 * has done nothing to what is shared: T2 has read what was published. (48 bits of changes come round
 * in no less than a month, which a thief would have to spend between T1 and T3.) A publish may be a
 * store: while nothing is shared no thief's compare-and-swap can succeed.
 *
 * Asking:
 *
 *   a hungry core that goes to sleep                the owner, when it forks and is asked
 *   H1  its bit in idle (protocol/idle.h) seq_cst   O1  asked = 0, exchange          seq_cst
 *   H2  asked = 1                         seq_cst   O2  publish                      seq_cst
 *   H3  look at the word                  seq_cst   O3  look at idle, clear one bit  seq_cst
 *   H4  nothing shared: sleep                       O4  poke that core; if more sleep: asked = 1
 *
 * If O1 undoes H2, then H1 < H2 < O1 < O3 in the one order of these, and O3 sees the bit. If not,
 * `asked` stays, and the owner's next fork answers. If H3 misses what O2 publishes, then H1 < H3 <
 * O2 < O3. So no core sleeps on while another goes on forking; and what is private when its owner
 * forks no more is run by the owner, at the join, or when it has nothing else to do.
 *
 * A task that has been shared has a state: 0 until it has ended, UM_TASK_DONE then, or in between the
 * node of who waits for that. Whoever took it exchanges DONE for what was there; whoever joins it
 * puts its node there by a compare-and-swap, which fails if it has ended. After the exchange the
 * task's memory is the joiner's again.
 *
 * A joiner with a deadline puts a node with a claim there (protocol/claim.h), and gives up in two steps:
 *
 *   joiner   J1  claim: WAITING -> DEAD                core that ran the task   E1  state: node -> DONE
 *            J2  state: node -> 0                                               E2  claim: WAITING -> TAKEN
 *
 * If J2 comes before E1, the node is the joiner's alone, and the task can be joined again. If not, the
 * task has ended, so the join has succeeded; the core finds the claim dead at E2 and drops its share of
 * the node, as the joiner does. If E2 comes before J1, the wake-up is on its way.
 */
#ifndef UMBRA_PROTOCOL_TASK_H
#define UMBRA_PROTOCOL_TASK_H

#ifndef UM_MODEL_CHECK
#include <umbra/cpu.h>
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/protocol/claim.h>

#define UM_TASKS_SHARED 128 /* at once, by a core */
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_TASK_WAITED ((uintptr_t)0) /* states, besides nodes */
#define UM_TASK_DONE ((uintptr_t)1)

#define UM_TASKS_BITS 8 /* of tail and of split in the word */
#define UM_TASKS_MASK ((UINT64_C(1) << UM_TASKS_BITS) - 1)
#define UM_TASKS_CHANGE (UINT64_C(1) << 2 * UM_TASKS_BITS)

/* What a task runs. */
typedef void umbra_task_fn(void *arg);

/* umbra/task.h */
struct umbra_task {
    umbra_task_fn *fn; /* forker writes, whoever runs it reads; both */
    void *arg;
    struct umbra_task *prev; /* in both lists the next older one; the owner's */
    struct umbra_task
        *next;            /* in the old list the next newer one; NULL: it has a state. In the fast
                                list anything. The owner's */
    um_atomic_uptr state; /* if it has one: see above */
};

/* What a core has of them. */
struct um_tasks {
    /* the hungry look at this line and write it */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u32 asked; /* 1: somebody would like to have some */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u64 word;  /* tail, split, changes; see above */
    /* the owner writes; others read those that are shared */
    um_atomic_uptr slot[UM_TASKS_SHARED];

    /* the owner's own */
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

/* What the owner makes of the word. */
UM_INLINE uint64_t um_tasks_changed(uint64_t word, uint32_t tail, uint32_t split)
{
    return ((word & ~(UM_TASKS_CHANGE - 1)) + UM_TASKS_CHANGE) | (uint64_t)split << UM_TASKS_BITS |
           tail;
}

/* ---- the owner ---- */

/* Before anybody else knows them. */
UM_INLINE void um_tasks_init(struct um_tasks *tasks, bool asked)
{
    um_atomic_store(&tasks->asked, asked, relaxed);
    um_atomic_store(&tasks->word, 0, relaxed);
    tasks->newest = NULL;
    tasks->old.prev = &tasks->old;
    tasks->old.next = &tasks->old;
    tasks->old_count = 0;
}

UM_INLINE void um_tasks_push(struct um_tasks *tasks, struct umbra_task *task)
{
    task->prev = tasks->newest;
    tasks->newest = task;
}

/* Whether the task was the newest of the fast list, and is out. */
UM_INLINE bool um_tasks_pop(struct um_tasks *tasks, struct umbra_task *task)
{
    if (UM_UNLIKELY(tasks->newest != task))
        return false;
    tasks->newest = task->prev;
    return true;
}

/* Whether there are private ones. */
UM_INLINE bool um_tasks_some(const struct um_tasks *tasks)
{
    return tasks->newest || tasks->old_count > 0;
}

/* Whether somebody has asked. relaxed: O1 comes before the answer */
UM_INLINE bool um_tasks_asked(struct um_tasks *tasks)
{
    return um_atomic_load(&tasks->asked, relaxed) != 0;
}

/* The request is about to be answered: O1. */
UM_INLINE void um_tasks_answer(struct um_tasks *tasks)
{
    um_atomic_exchange(&tasks->asked, 0, seq_cst);
}

/* Puts a task into the old list, as the next newer one of `before`. */
UM_INLINE void um_tasks_keep(struct um_tasks *tasks, struct umbra_task *task,
                             struct umbra_task *before)
{
    task->prev = before;
    task->next = before->next;
    before->next->prev = task;
    before->next = task;
    tasks->old_count++;
}

/* Takes one out of the old list. */
UM_INLINE void um_tasks_unlink(struct um_tasks *tasks, struct umbra_task *task)
{
    task->prev->next = task->next;
    task->next->prev = task->prev;
    tasks->old_count--;
}

/* From now on it is in no list, and has a state. */
UM_INLINE void um_task_begin(struct umbra_task *task, uintptr_t state)
{
    task->next = NULL;
    um_atomic_store(&task->state, state, relaxed); /* published with the task */
}

/* Spills the fast list. */
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

/* Shares the older half of the private tasks, or as many as have room: O2. There must be some, and
 * nothing shared. */
UM_INLINE void um_tasks_publish(struct um_tasks *tasks)
{
    /* acquire: thieves have read the slots that are written now; pairs with T3 */
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
    /* seq_cst: O2, and slots and tasks for T1 */
    um_atomic_store(&tasks->word, um_tasks_changed(word, 0, count), seq_cst);
}

/*
 * Makes a task that was shared private again, and all that are newer. half: somebody is hungry, so
 * leave half of those that are older; else take all. Whether nobody had taken it.
 */
UM_INLINE bool um_tasks_retract(struct um_tasks *tasks, struct umbra_task *task, bool half)
{
    uint64_t word = um_atomic_load(&tasks->word, relaxed); /* the slots are the owner's to read */
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
        /* relaxed: takes back what is its own; slots are not written again before the acquire of
         * um_tasks_publish() */
    } while (!um_atomic_cas(&tasks->word, &word, changed, relaxed, relaxed));
    while (end-- > split) /* relaxed: the owner's own */
        um_tasks_keep(tasks, (struct umbra_task *)um_atomic_load(&tasks->slot[end], relaxed),
                      &tasks->old);
    return true;
}

/* Takes a task out that um_tasks_pop() did not. Whether it was here: else it was taken. */
UM_INLINE bool um_tasks_take_back(struct um_tasks *tasks, struct umbra_task *task)
{
    um_tasks_spill(tasks);
    if (!task->next && !um_tasks_retract(tasks, task, um_tasks_asked(tasks)))
        return false;
    um_tasks_unlink(tasks, task);
    return true;
}

/* ---- anybody ---- */

/* Asks the owner to share: H2. */
UM_INLINE void um_tasks_ask(struct um_tasks *tasks)
{
    um_atomic_store(&tasks->asked, 1, seq_cst);
}

/* Asks for the next one, by who has taken the last that was shared and is about to run it: who forks,
 * waits for that and forks again would have forked by the time it could ask. */
UM_INLINE void um_tasks_ask_ahead(struct um_tasks *tasks)
{
    um_atomic_store(&tasks->asked, 1, relaxed); /* a hint: who goes to sleep asks again, by H2 */
}

/* Whether something is shared: H3. */
UM_INLINE bool um_tasks_shared(struct um_tasks *tasks)
{
    uint64_t word = um_atomic_load(&tasks->word, seq_cst);

    return um_tasks_tail_of(word) < um_tasks_split_of(word);
}

/* Takes the oldest that is shared; NULL: nothing is. */
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

/* ---- a task's state ---- */

/* The core that ran it: it has ended. The node to wake, or NULL. */
UM_INLINE struct um_node *um_task_end(um_atomic_uptr *state)
{
    /* E1. release: what it did; acquire: the node. Pairs with um_task_has_ended(), um_task_await(),
     * um_task_leave() */
    struct um_node *node = (struct um_node *)um_atomic_exchange(state, UM_TASK_DONE, acq_rel);

    if (!node || !(um_plain_read(node->flags) & UM_NODE_CLAIMED) ||
        um_claimed_offer((struct um_claimed *)node) == UM_OFFER_TAKEN) /* E2 */
        return node;
    um_claimed_drop((struct um_claimed *)node);
    return NULL;
}

UM_INLINE bool um_task_has_ended(um_atomic_uptr *state)
{
    return um_atomic_load(state, acquire) == UM_TASK_DONE; /* pairs with um_task_end() */
}

/* Whoever joins it: whether its node is in place, to be woken; else the task has ended. */
UM_INLINE bool um_task_await(um_atomic_uptr *state, uintptr_t node)
{
    uintptr_t value = UM_TASK_WAITED;

    /* release: the node; acquire: as um_task_has_ended() */
    return um_atomic_cas(state, &value, node, acq_rel, acquire);
}

/* J2, of a joiner that has given up: true if its node is its own again; else the task has ended. */
UM_INLINE bool um_task_leave(um_atomic_uptr *state, uintptr_t node)
{
    /* acquire: as um_task_has_ended(); of success nothing is needed */
    return um_atomic_cas(state, &node, UM_TASK_WAITED, acquire, acquire);
}

#endif
