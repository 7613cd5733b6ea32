/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The loop of a NUMA node: a range that several threads take in parts. Any thread may take, and
 * takes never wait; one thread sets a loop, while no thread takes from it. Private; read by the
 * model checker as it stands.
 *
 *   next    number of the next part; goes up, beyond `parts` by at most the number of takers
 *   parts   how many there are; part k is [first + k * grain, first + (k + 1) * grain), cut at end
 *
 * An addition to `next` gives the adding thread the part with the old number. So no two threads
 * take the same part, and all parts are taken. The additions order nothing. What tells the takers
 * to begin (a spawn, a barrier) orders the set before the takes. What tells the setter that the
 * takers have ended orders the takes before the next set. A set while a thread takes may lose parts
 * or give them out twice; nothing finds that out.
 *
 * The range stands in the line of `next`, which a take has to fetch anyway.
 */
#ifndef UMBRA_MEMORY_PROTOCOL_H
#define UMBRA_MEMORY_PROTOCOL_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

struct um_node_loop {
    um_atomic_u64 next;     /* takers add 1; all zero: a loop without parts */
    um_plain(size_t) parts; /* this and what follows: written by set, read by takers */
    um_plain(size_t) first;
    um_plain(size_t) end;
    um_plain(size_t) grain;
};

/* Sets the loop to [begin, end) in parts of grain iterations; 0: 1. No thread takes meanwhile. */
UM_INLINE void um_node_loop_set(struct um_node_loop *loop, size_t begin, size_t end, size_t grain)
{
    size_t part = grain ? grain : 1;

    um_plain_write(loop->first, begin);
    um_plain_write(loop->end, end);
    um_plain_write(loop->grain, part);
    um_plain_write(loop->parts, begin < end ? (end - begin - 1) / part + 1 : 0);
    um_atomic_store(&loop->next, 0, relaxed); /* see above */
}

/* Takes the next part. False: none is left. */
UM_INLINE bool um_node_loop_take(struct um_node_loop *loop, size_t *begin, size_t *end)
{
    /* relaxed, both: only the numbers count; see above */
    uint64_t part = um_atomic_load(&loop->next, relaxed);
    size_t first;

    if (part >= um_plain_read(loop->parts)) /* so that `next` does not go up without end */
        return false;
    part = um_atomic_fetch_add(&loop->next, 1, relaxed);
    if (part >= um_plain_read(loop->parts))
        return false;
    first = um_plain_read(loop->first) + (size_t)part * um_plain_read(loop->grain);
    *begin = first;
    *end = um_plain_read(loop->end) - first > um_plain_read(loop->grain)
               ? first + um_plain_read(loop->grain)
               : um_plain_read(loop->end);
    return true;
}

#endif
