/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The queue of a dispatcher's worker: its values, and how many of them a worker or a thief takes at
 * once. Any worker or source may add, the queue's worker takes, other workers steal. All wait for
 * the lock if it is taken; adding may fail with -ENOMEM. Private; read by the model checker as it
 * stands, with the functions of dispatch/workers.h that use it. Included by dispatch/workers.h.
 *
 *     first                     end       a ring under a lock; `some`: first != end, for a look
 *       v                        v        without the lock, which may see an old value for a moment
 *       [oldest]  ...  [newest]
 *       thieves: half             its worker: the newest, or one part of it
 *
 * An item is a pointer or a range of any number of parts. A worker waits with an unanswered request
 * (dispatch/protocol.h) only while nothing is queued. This holds, because:
 *
 *   - A call that queues an item answers one request, that of the queue's worker if it has one; for
 *     the range of a whole step, or a range queued for another worker, one request for each part.
 *   - A hungry worker has seen all queues empty after it asked. Items that a thief had taken then
 *     were in no queue; for those that the thief queues again it answers requests, too.
 *   - So for each item that was queued while a worker was hungry, one more worker looks for values.
 *     It may find another item first, but then another worker looks for this one. (A worker that
 *     was looking anyway, and was answered before it took its request back, is not one more: it
 *     answers another request, R4.)
 *   - A worker that takes from its own queue takes one item, as it was answered for one; of a range
 *     for which other workers were answered, too, one part. A thief leaves the other parts of a
 *     range, for which no worker was answered: if it queues them, it answers for them; if they are
 *     still where they were, it answers one request more, um_worker_steal().
 */
#ifndef UMBRA_DISPATCH_QUEUE_H
#define UMBRA_DISPATCH_QUEUE_H

#ifndef UM_MODEL_CHECK
#include <sched.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/topology.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_ITEM_QUEUE_FIRST 64 /* items in the first ring; a power of two */
#define UM_STEAL_MOST 16       /* items that a thief takes, at most; else half of what there is */
#define UM_ITEM_QUEUE_PATIENCE                                                                     \
    64 /* looks at a lock, some us, then a yield: a lock is held for less */
#endif

/* What is queued: a pointer, or a range and the size of its parts; 0: the worker that takes it
 * chooses. */
struct um_item {
    um_plain(void *) pointer;
    um_plain(size_t) begin;
    um_plain(size_t) end;
    um_plain(size_t) grain;
};

/* Something taken from a queue. */
struct um_taken {
    struct umbra_value value;
    bool as_liked; /* of a range without a grain, and as long as was asked for */
};

/* A queue. Its worker takes the newest, thieves the oldest. */
struct um_item_queue {
    um_atomic_u32 lock; /* of all but `some`; held for a few instructions, never across a switch */
    um_atomic_u32 some; /* 1: there are items; changed under the lock, read by all workers */
    um_plain(struct um_item *) items; /* the ring */
    um_plain(size_t) room;            /* items that it can have; a power of two */
    um_plain(size_t) first;           /* number of the oldest; never goes down */
    um_plain(size_t) end;             /* number after the newest */
    int node;                         /* of its worker, and so of its memory; fixed, as the next */
    const struct umbra_topology *topology;
};

UM_INLINE void um_item_queue_lock(struct um_item_queue *queue)
{
    /* acquire: what is in the queue; pairs with um_item_queue_unlock() */
    while (UM_UNLIKELY(um_atomic_exchange(&queue->lock, 1, acquire) != 0)) {
        for (int i = 0; i < UM_ITEM_QUEUE_PATIENCE && um_atomic_load(&queue->lock, relaxed) != 0;
             i++)
            um_arch_pause();
        if (um_atomic_load(&queue->lock, relaxed) != 0) /* a hint */
            sched_yield();
    }
}

UM_INLINE void um_item_queue_unlock(struct um_item_queue *queue)
{
    um_atomic_store(&queue->lock, 0, release); /* pairs with um_item_queue_lock() */
}

UM_INLINE struct um_item *um_item_queue_at(struct um_item_queue *queue, size_t at)
{
    return &um_plain_read(queue->items)[at & (um_plain_read(queue->room) - 1)];
}

#ifndef UM_MODEL_CHECK
#ifdef UMBRA_IMPLEMENTATION
/* Memory for a ring, on the node of the queue's worker. NULL: there is none. */
UM_LINKONCE UM_COLD struct um_item *um_item_queue_items(struct um_item_queue *queue, size_t room)
{
    return um_place_alloc(queue->topology, queue->node, room * sizeof(struct um_item));
}

UM_LINKONCE UM_COLD void um_item_queue_free_items(struct um_item_queue *queue)
{
    um_place_free(queue->topology, queue->items, queue->room * sizeof(struct um_item));
}
#endif
#endif

#ifdef UMBRA_IMPLEMENTATION
/* Doubles the ring, under the lock. 0 or -ENOMEM. */
UM_LINKONCE UM_COLD int um_item_queue_grow(struct um_item_queue *queue)
{
    size_t room = um_plain_read(queue->room) ? 2 * um_plain_read(queue->room) : UM_ITEM_QUEUE_FIRST;
    struct um_item *items = um_item_queue_items(queue, room);

    if (!items)
        return -ENOMEM;
    for (size_t at = um_plain_read(queue->first); at != um_plain_read(queue->end); at++)
        items[at & (room - 1)] = *um_item_queue_at(queue, at);
    if (um_plain_read(queue->items))
        um_item_queue_free_items(queue);
    um_plain_write(queue->items, items);
    um_plain_write(queue->room, room);
    return 0;
}

/* Queues an item as the newest. 0 or -ENOMEM. The caller answers a request afterwards. */
UM_LINKONCE int um_item_queue_add(struct um_item_queue *queue, const struct um_item *item)
{
    int error = 0;

    um_item_queue_lock(queue);
    if (um_plain_read(queue->end) - um_plain_read(queue->first) == um_plain_read(queue->room))
        error = um_item_queue_grow(queue);
    if (error == 0) {
        size_t at = um_plain_read(queue->end);

        um_plain_write(queue->end, at + 1);
        *um_item_queue_at(queue, at) = *item;
        if (um_atomic_load(&queue->some, relaxed) == 0) /* under the lock */
            um_atomic_store(&queue->some, 1, seq_cst);  /* V1 */
    }
    um_item_queue_unlock(queue);
    return error;
}
#endif /* UMBRA_IMPLEMENTATION */

/* How many parts a range has. */
UM_INLINE size_t um_parts(size_t begin, size_t end, size_t grain)
{
    return begin < end ? (end - begin - 1) / (grain ? grain : 1) + 1 : 0;
}

/*
 * Under the lock: takes a part of an item. True if that was all of it. Without a grain a part is
 * `part` indices, which took about UM_TAKEN_NS when it was measured; but at most a quarter of what
 * is left, since the next indices may take longer, and no thief can take what is being processed.
 */
UM_INLINE bool um_item_take(struct um_item *item, size_t part, struct um_taken *taken)
{
    size_t left = um_plain_read(item->end) - um_plain_read(item->begin);
    size_t quarter = left / 4 + (left % 4 != 0);
    size_t most = um_plain_read(item->grain) ? um_plain_read(item->grain)
                  : part < quarter           ? part
                                             : quarter;

    if (um_plain_read(item->pointer))
        taken->value.pointer = um_plain_read(item->pointer);
    else
        taken->value.begin = um_plain_read(item->begin);
    taken->as_liked = um_plain_read(item->grain) == 0 && most == part;
    um_plain_write(item->begin, um_plain_read(item->begin) + (left < most ? left : most));
    taken->value.end = um_plain_read(item->begin);
    return um_plain_read(item->begin) == um_plain_read(item->end);
}

/* Under the lock, after an item was taken: clears `some` if none is left. */
UM_INLINE void um_item_queue_settle(struct um_item_queue *queue)
{
    if (um_plain_read(queue->first) == um_plain_read(queue->end))
        um_atomic_store(&queue->some, 0, relaxed); /* a worker that sees an old 1 looks again */
}

/* Its worker takes the newest item, or a part of it. False: there was none. */
UM_INLINE bool um_item_queue_take(struct um_item_queue *queue, size_t part, struct um_taken *taken)
{
    bool any;

    if (um_atomic_load(&queue->some, relaxed) == 0) /* the worker sees its own items */
        return false;
    um_item_queue_lock(queue);
    any = um_plain_read(queue->first) != um_plain_read(queue->end);
    if (any && um_item_take(um_item_queue_at(queue, um_plain_read(queue->end) - 1), part, taken)) {
        um_plain_write(queue->end, um_plain_read(queue->end) - 1);
        um_item_queue_settle(queue);
    }
    um_item_queue_unlock(queue);
    return any;
}

#ifdef UMBRA_IMPLEMENTATION
/* A thief takes the older half of the items, or half of the only item's range. How many items. */
UM_LINKONCE unsigned um_item_queue_steal(struct um_item_queue *queue,
                                         struct um_item items[UM_STEAL_MOST])
{
    unsigned count = 0;
    size_t there;

    um_item_queue_lock(queue);
    there = um_plain_read(queue->end) - um_plain_read(queue->first);
    if (there == 1) {
        struct um_item *only = um_item_queue_at(queue, um_plain_read(queue->first));
        size_t grain = um_plain_read(only->grain) ? um_plain_read(only->grain) : 1;
        size_t parts = um_plain_read(only->pointer)
                           ? 1
                           : um_parts(um_plain_read(only->begin), um_plain_read(only->end), grain);

        items[count++] = *only;
        if (parts > 1) {
            size_t middle = um_plain_read(only->begin) + parts / 2 * grain;

            um_plain_write(items[0].begin, middle);
            um_plain_write(only->end, middle);
        } else {
            um_plain_write(queue->first, um_plain_read(queue->first) + 1);
        }
    }
    while (there > 1 && count < UM_STEAL_MOST && count < (there + 1) / 2) {
        items[count++] = *um_item_queue_at(queue, um_plain_read(queue->first));
        um_plain_write(queue->first, um_plain_read(queue->first) + 1);
    }
    um_item_queue_settle(queue);
    um_item_queue_unlock(queue);
    return count;
}
#endif /* UMBRA_IMPLEMENTATION */

#endif
