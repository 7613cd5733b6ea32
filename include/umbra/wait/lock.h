/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A lock for a few instructions: a thread that does not get it spins a little, then sleeps. Any
 * thread or fiber may take it, but not a signal handler. Private; read by the model checker as it
 * stands.
 *
 * It blocks the thread, not only the fiber. A holder never gives up its core, so a long wait can
 * only mean that the holder's thread has lost its processor, and then the system must run that
 * thread. A lock that fibers hold for longer is a mutex (umbra/sync.h).
 *
 *   word     FREE -> HELD             the thread that takes it              um_lock_try()
 *            any -> WANTED            a thread that is about to sleep for it; if the word was FREE,
 *                                     the thread has the lock and does not sleep
 *            HELD, WANTED -> FREE     the holder releases it; WANTED: and wakes one sleeping thread
 *
 * A thread that has slept leaves WANTED in the word when it gets the lock, since it cannot know
 * whether more threads sleep; so no sleeper is forgotten. The holder touches nothing after the
 * word: the memory may be freed as soon as another thread has had the lock since.
 */
#ifndef UMBRA_WAIT_LOCK_H
#define UMBRA_WAIT_LOCK_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
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
#define UM_LOCK_WANTED 2u /* held; threads may sleep for it, or be about to */

#ifndef UM_LOCK_LOOKS
#define UM_LOCK_LOOKS 100 /* looks before the sleep: 1 to 6 us; a lock is held for less */
#endif

/* True if the caller has the lock now. Never blocks. */
UM_INLINE bool um_lock_try(struct um_lock *lock)
{
    uint32_t word = UM_LOCK_FREE;

    /* acquire: what the last holder wrote; pairs with um_lock_release() */
    return um_atomic_cas(&lock->word, &word, UM_LOCK_HELD, acquire, relaxed);
}

#ifndef UMBRA_IMPLEMENTATION
UM_LINKONCE void um_lock_take_slow(struct um_lock *lock);
#else
UM_LINKONCE void um_lock_take_slow(struct um_lock *lock)
{
    for (int i = 0; i < UM_LOCK_LOOKS; i++) {
        /* relaxed: um_lock_try() orders */
        if (um_atomic_load(&lock->word, relaxed) == UM_LOCK_FREE && um_lock_try(lock))
            return;
        um_arch_pause();
    }
    /* acquire: as um_lock_try() */
    while (um_atomic_exchange(&lock->word, UM_LOCK_WANTED, acquire) != UM_LOCK_FREE)
        um_os_futex_wait(&lock->word, UM_LOCK_WANTED, UMBRA_NEVER);
}
#endif /* UMBRA_IMPLEMENTATION */

UM_INLINE void um_lock_take(struct um_lock *lock)
{
    if (UM_UNLIKELY(!um_lock_try(lock)))
        um_lock_take_slow(lock);
}

UM_INLINE void um_lock_release(struct um_lock *lock)
{
    /* release: pairs with um_lock_try() and um_lock_take_slow() */
    if (UM_UNLIKELY(um_atomic_exchange(&lock->word, UM_LOCK_FREE, release) == UM_LOCK_WANTED))
        um_os_futex_wake(&lock->word); /* the kernel uses only the address */
}

#endif
