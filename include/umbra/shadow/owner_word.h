/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The word that says which thread owns a shadow or a team. Private. Checked by tests/model/slot.
 *
 *   NONE ---> a thread ---> ENDED ---> another thread ---> NONE
 *             creates       it ends    takes over, to destroy
 *
 * A thread's name is the address of its thread control block, the same in all copies of the library
 * in the process. The C library gives the address to a later thread, so no word may keep it when
 * the thread has ended: the thread itself makes it ENDED, as late as it can. Then one caller of
 * destroy takes over, and sees all that the owner has written.
 */
#ifndef UMBRA_SHADOW_OWNER_WORD_H
#define UMBRA_SHADOW_OWNER_WORD_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_OWNER_NONE ((uintptr_t)0)
#define UM_OWNER_ENDED ((uintptr_t)1) /* no thread's name: those are addresses of words */

/* The owner ends. */
UM_INLINE void um_owner_ends(um_atomic_uptr *owner)
{
    um_atomic_store(owner, UM_OWNER_ENDED, release); /* what it wrote; pairs with the next */
}

/* True if the owner has ended and the caller is the owner now. */
UM_INLINE bool um_owner_take_over(um_atomic_uptr *owner, uintptr_t self)
{
    uintptr_t ended = UM_OWNER_ENDED;

    /* acquire: what the owner wrote; pairs with um_owner_ends() */
    return um_atomic_cas(owner, &ended, self, acquire, relaxed);
}

#endif
