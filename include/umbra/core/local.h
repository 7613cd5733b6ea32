/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Fiber-local values. Private; included by core.h.
 */
#ifndef UMBRA_CORE_LOCAL_H
#define UMBRA_CORE_LOCAL_H

#include <stdlib.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/core/fiber.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifndef UMBRA_DECLARE

#define UM_LOCAL_ROUNDS 4 /* how often destructors may set new values, as of POSIX threads */

struct um_local_keys {
    um_atomic_u32 count;
    _Atomic(uintptr_t) destroy[UMBRA_LOCAL_KEYS]; /* 0: none */
};

UM_SHARED struct um_local_keys um_local_keys = {0};

UM_LINKONCE int umbra_local_create(void (*destroy)(void *value), unsigned *key)
{
    uint32_t taken = um_atomic_load(&um_local_keys.count, relaxed); /* only compared */

    do {
        if (taken >= UMBRA_LOCAL_KEYS)
            return -ENOSPC;
    } while (!um_atomic_cas(&um_local_keys.count, &taken, taken + 1, relaxed, relaxed));
    /* release: pairs with um_local_round(); before anybody has the key */
    um_atomic_store(&um_local_keys.destroy[taken], (uintptr_t)destroy, release);
    *key = taken;
    return 0;
}

UM_LINKONCE int umbra_local_set(unsigned key, void *value)
{
    struct um_fiber *fiber = um_core_self ? um_core_current(um_core_self) : NULL;

    if (!fiber)
        return -EPERM;
    if (key >= um_atomic_load(&um_local_keys.count, relaxed)) /* the key came from somewhere */
        return -EINVAL;
    if (!fiber->local)
        fiber->local = calloc(UMBRA_LOCAL_KEYS, sizeof(*fiber->local));
    if (!fiber->local)
        return -ENOMEM;
    um_fiber_set_flags(fiber, um_fiber_flags(fiber) | UM_FIBER_LOCAL);
    fiber->local[key] = value;
    return 0;
}

/* One round of destructors. Whether there was any value. */
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

/* In a child process (um_core_in_child()) there is no core to go on: the process ends, as one does with
 * its only thread. */
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

#endif /* UMBRA_DECLARE */

#endif
