/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The word that says which thread owns a shadow or a team. Private. Checked by tests/model/slot and
 * tests/model/team.
 *
 *   NONE ---> a thread ---> ENDED ---> another thread ---> NONE
 *             creates       it ends    takes over, to destroy
 *
 * A team that any thread may run has an owner only during a run, and while it is made or destroyed:
 *
 *   NONE ---> a thread ---> NONE
 *             it runs the team (or ends in the midst of a run, as above)
 *
 * So an owner sees what the owners before it wrote.
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

/* True if there was no owner and the caller is the owner now. */
UM_INLINE bool um_owner_claim(um_atomic_uptr *owner, uintptr_t self)
{
    uintptr_t none = UM_OWNER_NONE;

    /* relaxed: a look that spares the line of an owner at work. acquire: what the owners before
     * wrote; pairs with um_owner_leave() */
    return um_atomic_load(owner, relaxed) == UM_OWNER_NONE &&
           um_atomic_cas(owner, &none, self, acquire, relaxed);
}

/* The owner has no more to do with it. */
UM_INLINE void um_owner_leave(um_atomic_uptr *owner)
{
    um_atomic_store(owner, UM_OWNER_NONE, release); /* pairs with um_owner_claim() */
}

#endif
