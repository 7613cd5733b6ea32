/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A lock for a few instructions: a thread that does not get it spins a little, then sleeps. Private;
 * read by the model checker as it stands.
 *
 * It stops the thread, not only the fiber: nobody who has it gives up his core, so waiting for long
 * can only mean that the holder's thread has lost its processor, and then the system must run that.
 * A lock that fibers hold for longer is a mutex (umbra/sync.h).
 *
 *   word     FREE -> HELD             who takes it                          um_lock_try()
 *            any -> WANTED            who is about to sleep for it; it is his if it was FREE
 *            HELD, WANTED -> FREE     who lets go; WANTED: and wakes one who sleeps
 *
 * Whoever has slept leaves WANTED behind when it gets the lock, as it cannot know whether others
 * sleep, too; so nobody is forgotten. The word is the last that the holder touches: the memory may
 * go as soon as another has had the lock since.
 */
#ifndef UMBRA_PROTOCOL_LOCK_H
#define UMBRA_PROTOCOL_LOCK_H

#ifndef UM_MODEL_CHECK
#include <umbra/cpu.h>
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/os/os.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

struct um_lock {
    um_atomic_u32 word; /* all zero: free */
};

#define UM_LOCK_FREE 0u
#define UM_LOCK_HELD 1u
#define UM_LOCK_WANTED 2u /* held, and somebody sleeps for it, or is about to */

#ifndef UM_LOCK_LOOKS
#define UM_LOCK_LOOKS 100 /* before it sleeps: 1 to 5 us, by what a pause takes */
#endif

UM_INLINE bool um_lock_try(struct um_lock *lock)
{
    uint32_t word = UM_LOCK_FREE;

    /* acquire: what the last holder wrote; pairs with um_lock_release() */
    return um_atomic_cas(&lock->word, &word, UM_LOCK_HELD, acquire, relaxed);
}

#ifdef UMBRA_DECLARE
UM_LINKONCE void um_lock_take_slow(struct um_lock *lock);
#else
UM_LINKONCE void um_lock_take_slow(struct um_lock *lock)
{
    for (int i = 0; i < UM_LOCK_LOOKS; i++) {
        /* relaxed: only looked at */
        if (um_atomic_load(&lock->word, relaxed) == UM_LOCK_FREE && um_lock_try(lock))
            return;
        um_arch_pause();
    }
    /* acquire: as um_lock_try() */
    while (um_atomic_exchange(&lock->word, UM_LOCK_WANTED, acquire) != UM_LOCK_FREE)
        um_os_futex_wait(&lock->word, UM_LOCK_WANTED, UMBRA_NEVER);
}
#endif /* UMBRA_DECLARE */

UM_INLINE void um_lock_take(struct um_lock *lock)
{
    if (UM_UNLIKELY(!um_lock_try(lock)))
        um_lock_take_slow(lock);
}

UM_INLINE void um_lock_release(struct um_lock *lock)
{
    /* release: pairs with um_lock_try() and um_lock_take_slow() */
    if (UM_UNLIKELY(um_atomic_exchange(&lock->word, UM_LOCK_FREE, release) == UM_LOCK_WANTED))
        um_os_futex_wake(&lock->word); /* to the kernel it is only an address */
}

#endif
