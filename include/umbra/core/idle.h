/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Idle cores and work that has no place yet: the thread that adds such work wakes an idle core, so
 * no core sleeps on while there is some. Any thread or fiber may add; each core announces itself.
 * Private; read by the model checker as it stands.
 *
 *   a core that goes to sleep                      a thread that adds work
 *   I1  its bit in idle        seq_cst             A1  count + 1          seq_cst
 *   I2  look at count          seq_cst             A2  look at idle       seq_cst
 *   I3  none: wait on the inbox                    A3  clear one bit; poke that core
 *
 * I1, I2, A1, A2 are in one total order: if I2 misses the work, then I1 < I2 < A1 < A2, and A2 sees
 * the bit, unless the A3 of another thread has cleared it; then that thread pokes the core. A core
 * that is poked, or wakes by itself, looks for work before it sleeps again. One bit is cleared for
 * each piece of work, so that n pieces wake up to n cores.
 *
 * count goes up and down under the list's lock, after the list has changed. A core may see an old
 * count for a moment; then it looks again.
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

/* The thread that adds work: A1, after the work is in its list. */
UM_INLINE void um_idle_added(um_atomic_u64 *count)
{
    um_atomic_fetch_add(count, 1, seq_cst);
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
