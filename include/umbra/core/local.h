/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Fiber-local values. Private; included by core.h. Any thread may create keys, which are valid in
 * all fibers of this executable or shared object. Only the fiber itself sets its values, and
 * destroys them after its function has returned. The first value that it sets allocates memory for
 * all. Errors: see umbra/fiber.h.
 */
#ifndef UMBRA_CORE_LOCAL_H
#define UMBRA_CORE_LOCAL_H

#include <stdlib.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/fiber.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

#define UM_LOCAL_ROUNDS 4 /* rounds of destructors, if they set new values; as with POSIX threads */

struct um_local_keys {
    um_atomic_u32 count;                      /* of keys; none is given back */
    um_atomic_uptr destroy[UMBRA_LOCAL_KEYS]; /* written by umbra_local_create(); 0: none */
};

UM_SHARED(struct um_local_keys um_local_keys, {0});

UM_LINKONCE int umbra_local_create(void (*destroy)(void *value), unsigned *key)
{
    uint32_t taken = um_atomic_load(&um_local_keys.count, relaxed); /* only compared */

    do {
        if (taken >= UMBRA_LOCAL_KEYS)
            return um_why(-ENOSPC, "the most is %d keys", UMBRA_LOCAL_KEYS);
    } while (!um_atomic_cas(&um_local_keys.count, &taken, taken + 1, relaxed, relaxed));
    /* release: before the key is given out; pairs with um_local_round() */
    um_atomic_store(&um_local_keys.destroy[taken], (uintptr_t)destroy, release);
    *key = taken;
    return 0;
}

UM_LINKONCE int umbra_local_set(unsigned key, void *value)
{
    struct um_fiber *fiber = um_core_self ? um_core_current(um_core_self) : NULL;

    if (!fiber)
        return um_why(-EPERM, "the caller is no fiber");
    if (key >= um_atomic_load(&um_local_keys.count, relaxed)) /* ordered by how the key came here */
        return um_why(-EINVAL, "key = %u: there is no such key", key);
    if (!fiber->local)
        fiber->local = calloc(UMBRA_LOCAL_KEYS, sizeof(*fiber->local));
    if (!fiber->local)
        return um_why_none(-ENOMEM);
    um_fiber_set_flags(fiber, um_fiber_flags(fiber) | UM_FIBER_LOCAL);
    fiber->local[key] = value;
    return 0;
}

/* One round of destructors. True if one was called. The fiber. */
UM_LINKONCE bool um_local_round(struct um_fiber *fiber)
{
    bool any = false;

    for (unsigned key = 0; key < UMBRA_LOCAL_KEYS; key++) {
        void *value = fiber->local[key];
        /* acquire: pairs with umbra_local_create() */
        uintptr_t destroy = um_atomic_load(&um_local_keys.destroy[key], acquire);

        fiber->local[key] = NULL;
        if (value && destroy) {
            any = true;
            ((void (*)(void *))destroy)(value);
        }
    }
    return any;
}

/* Destroys the values of a fiber that has returned from its function. The fiber; destructors may
 * switch. In a child process (um_core_in_child()) there is no core that goes on: the process ends,
 * as it does with its only thread. */
UM_LINKONCE void um_fiber_end(struct um_fiber *fiber)
{
    for (unsigned round = 0; fiber->local && round < UM_LOCAL_ROUNDS && um_local_round(fiber);
         round++)
        ;
    free(fiber->local);
    fiber->local = NULL;
    if (!um_core_self)
        exit(0);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
