/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Idle cores and work that has no place yet: the thread that adds such work wakes an idle core, so
 * no core sleeps on while there is some. Any thread or fiber may add; each core announces itself.
 * Private; read by the model checker as it stands.
 *
 *   a core that goes to sleep                      a thread that adds work
 *   I1  its bit in idle        seq_cst             A1  count + 1, if the list was empty   seq_cst
 *   I2  look at count          seq_cst             A2  look at idle                       seq_cst
 *   I3  none: wait on the inbox                    A3  clear one bit; poke that core
 *
 * I1, I2, A1, A2 are in one total order: if I2 misses the work, then I1 < I2 < A1 < A2, and A2 sees
 * the bit, unless the A3 of another thread has cleared it; then that thread pokes the core. A core
 * that is poked, or wakes by itself, looks for work before it sleeps again. One bit is cleared for
 * each piece of work, so that n pieces wake up to n cores.
 *
 * count says how many lists are not empty: in its lower half those of fibers without a place
 * (core/unplaced.h), in its upper half that of tasks from outside. It goes up and down under the
 * list's lock, after the list has changed. A thread that adds to a list which is not empty has had
 * its lock after the thread of A1, so its A2 comes after that A1. A core may see an old count for a
 * moment; then it looks again.
 */
#ifndef UMBRA_CORE_IDLE_H
#define UMBRA_CORE_IDLE_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_IDLE_BITS 64

#define UM_IDLE_FIBERS UINT64_C(1)        /* in the count: a list of fibers without a place */
#define UM_IDLE_TASKS (UINT64_C(1) << 32) /* the list of tasks from outside */

/* The core: I1. */
UM_INLINE void um_idle_announce(um_atomic_u64 *idle, unsigned core)
{
    um_atomic_fetch_or(&idle[core / UM_IDLE_BITS], UINT64_C(1) << core % UM_IDLE_BITS, seq_cst);
}

/* The core: I2. True if there is no work without a place. */
UM_INLINE bool um_idle_none(um_atomic_u64 *count)
{
    return um_atomic_load(count, seq_cst) == 0; /* pairs with A1 */
}

/* Clears a core's bit. True if it was set: only one thread gets it. */
UM_INLINE bool um_idle_clear(um_atomic_u64 *idle, unsigned core)
{
    uint64_t bit = UINT64_C(1) << core % UM_IDLE_BITS;

    /* seq_cst: A3, after A2 */
    return (um_atomic_fetch_and(&idle[core / UM_IDLE_BITS], ~bit, seq_cst) & bit) != 0;
}

/* The thread that adds work to an empty list: A1, after the work is in the list. list: one of
 * UM_IDLE_. Under its lock. */
UM_INLINE void um_idle_added(um_atomic_u64 *count, uint64_t list)
{
    um_atomic_fetch_add(count, list, seq_cst);
}

/* The list is empty again. Under its lock. */
UM_INLINE void um_idle_emptied(um_atomic_u64 *count, uint64_t list)
{
    /* release: a thread that sees none left sees also that the core which took the work is active
     * (core/quiet.h, Q4); pairs with um_runtime_empty() */
    um_atomic_fetch_add(count, 0 - list, release);
}

/* The thread that added work: A2 and A3. The core to poke, or -1: none sleeps. */
UM_INLINE int um_idle_pick(um_atomic_u64 *idle, unsigned cores)
{
    for (unsigned word = 0; word * UM_IDLE_BITS < cores; word++) {
        uint64_t bits = um_atomic_load(&idle[word], seq_cst); /* pairs with I1 */

        while (bits) {
            unsigned core = word * UM_IDLE_BITS + (unsigned)__builtin_ctzll(bits);

            if (um_idle_clear(idle, core))
                return (int)core;
            bits &= bits - 1;
        }
    }
    return -1;
}

/* The same, but prefers a certain core if that sleeps. */
UM_INLINE int um_idle_pick_rather(um_atomic_u64 *idle, unsigned cores, unsigned core)
{
    uint64_t bits = um_atomic_load(&idle[core / UM_IDLE_BITS], seq_cst); /* pairs with I1 */

    if ((bits >> core % UM_IDLE_BITS & 1) && um_idle_clear(idle, core))
        return (int)core;
    return um_idle_pick(idle, cores);
}

#endif
