/* SPDX-License-Identifier: BSL-1.0 */
/* Locks, critical and atomic: umbra/wait/lock.h's, in the room of the ABI's. */
#include <errno.h>
#include <stdlib.h>

#include <umbra/wait/lock.h>

#include "api.h"
#include "library.h"

_Static_assert(sizeof(struct um_lock) == 4, "omp_lock_t");
_Static_assert(sizeof(struct um_omp_nest_lock) == 8, "omp_nest_lock_t");

#define UM_OMP_CALLER __builtin_return_address(0)

static struct {
    UM_ALIGNED(UMBRA_CACHE_LINE) struct um_lock critical; /* without a name */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct um_lock atomic;   /* what no instruction does */
} locks;

/* As um_lock_take_slow(). */
static UM_COLD void take_slow(struct um_lock *lock, enum um_omp_what what, const void *place)
{
    struct um_omp_stuck wait = {.member = um_omp_here ? um_omp_here : um_omp_root_make(),
                                .lock = lock,
                                .what =
                                    what == UM_OMP_SEE_LOCK ? "for lock" : "for critical section",
                                .place = place};

    um_omp_see(what, place);
    for (int i = 0; i < UM_LOCK_LOOKS; i++) {
        /* relaxed: um_lock_try() orders */
        if (um_atomic_load(&lock->word, relaxed) == UM_LOCK_FREE && um_lock_try(lock))
            goto taken;
        um_arch_pause();
    }
    /* acquire: as um_lock_try(); release: `awake`, pairs with stuck.c */
    while (um_atomic_exchange(&lock->word, UM_LOCK_WANTED, acq_rel) != UM_LOCK_FREE) {
        um_atomic_store(&wait.awake, 0, relaxed); /* in vain: the lock is another's */
        if (um_os_futex_wait(&lock->word, UM_LOCK_WANTED,
                             um_os_now_ns() + um_omp_stuck_limit_ns(&wait)) == -ETIMEDOUT)
            um_omp_stuck(&wait);
        um_atomic_store(&wait.awake, 1, relaxed); /* comes with the exchange */
    }
    um_omp_stuck_end(&wait);
taken:
    um_omp_seen(what);
}

/* what: a critical section or a lock; place: of the program's call. */
UM_OMP_PART void take(struct um_lock *lock, enum um_omp_what what, const void *place)
{
    if (UM_UNLIKELY(!um_lock_try(lock)))
        take_slow(lock, what, place);
}

UM_OMP_ABI void GOMP_critical_start(void)
{
    take(&locks.critical, UM_OMP_SEE_CRITICAL, UM_OMP_CALLER);
}

UM_OMP_ABI void GOMP_critical_end(void)
{
    um_lock_release(&locks.critical);
}

/* A named one's pointer, which begins as NULL, is the lock. */
UM_OMP_ABI void GOMP_critical_name_start(void **name)
{
    take((struct um_lock *)name, UM_OMP_SEE_CRITICAL, UM_OMP_CALLER);
}

UM_OMP_ABI void GOMP_critical_name_end(void **name)
{
    um_lock_release((struct um_lock *)name);
}

UM_OMP_ABI void GOMP_atomic_start(void)
{
    take(&locks.atomic, UM_OMP_SEE_CRITICAL, UM_OMP_CALLER);
}

UM_OMP_ABI void GOMP_atomic_end(void)
{
    um_lock_release(&locks.atomic);
}

/* ---- omp_lock_t ---- */

UM_OMP_ABI void omp_init_lock(struct um_lock *lock)
{
    um_atomic_store(&lock->word, UM_LOCK_FREE, relaxed); /* no other thread has it */
}

UM_OMP_ABI void omp_destroy_lock(struct um_lock *lock)
{
    (void)lock;
}

UM_OMP_ABI void omp_set_lock(struct um_lock *lock)
{
    take(lock, UM_OMP_SEE_LOCK, UM_OMP_CALLER);
}

UM_OMP_ABI void omp_unset_lock(struct um_lock *lock)
{
    um_lock_release(lock);
}

UM_OMP_ABI int omp_test_lock(struct um_lock *lock)
{
    return um_lock_try(lock);
}

/* ---- omp_nest_lock_t: its owner is a task ---- */

/* True if the calling task owns it. relaxed: only that task's own write can be equal to it */
static bool owns(struct um_omp_nested *lock, struct um_omp_task *task)
{
    return __atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == task;
}

UM_OMP_ABI void omp_init_nest_lock(struct um_omp_nest_lock *lock)
{
    lock->is = um_omp_memory(sizeof(*lock->is));
}

UM_OMP_ABI void omp_destroy_nest_lock(struct um_omp_nest_lock *lock)
{
    free(lock->is);
}

UM_OMP_ABI void omp_set_nest_lock(struct um_omp_nest_lock *nest)
{
    struct um_omp_nested *lock = nest->is;
    struct um_omp_task *task = um_omp_self()->task;

    if (!owns(lock, task)) {
        take(&lock->lock, UM_OMP_SEE_LOCK, UM_OMP_CALLER);
        __atomic_store_n(&lock->owner, task, __ATOMIC_RELAXED);
    }
    lock->count++;
}

UM_OMP_ABI void omp_unset_nest_lock(struct um_omp_nest_lock *nest)
{
    struct um_omp_nested *lock = nest->is;

    if (--lock->count > 0)
        return;
    __atomic_store_n(&lock->owner, NULL, __ATOMIC_RELAXED);
    um_lock_release(&lock->lock);
}

UM_OMP_ABI int omp_test_nest_lock(struct um_omp_nest_lock *nest)
{
    struct um_omp_nested *lock = nest->is;
    struct um_omp_task *task = um_omp_self()->task;

    if (!owns(lock, task)) {
        if (!um_lock_try(&lock->lock))
            return 0;
        __atomic_store_n(&lock->owner, task, __ATOMIC_RELAXED);
    }
    return ++lock->count;
}
