/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Runs a function once in a process, also in a child of fork(2) that was made while another thread
 * of the parent ran the function. That thread is not in the child, so a call there begins anew.
 * POSIX leaves open what pthread_once() does then; musl's waits for ever, and the functions that
 * run once here measure for milliseconds. Any thread; blocks while another thread runs the
 * function. Private.
 *
 *   UM_RUN_NEVER ---> a process's id ---> UM_RUN_DONE
 *                       ^   | in a child, by its first call
 *                       +---+
 */
#ifndef UMBRA_OS_RUN_ONCE_H
#define UMBRA_OS_RUN_ONCE_H

#include <pthread.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/os/os.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_RUN_NEVER 0u
#define UM_RUN_DONE UINT32_MAX

struct um_run_once {
    um_atomic_u32 state; /* as above; written and read by every caller */
};

UM_LINKONCE UM_COLD void um_once_in_process_slow(struct um_run_once *once, void (*fn)(void));

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD void um_once_in_process_slow(struct um_run_once *once, void (*fn)(void))
{
    uint32_t own = um_os_process();
    int cancels = PTHREAD_CANCEL_ENABLE;
    /* acquire, all: as in um_once_in_process() */
    uint32_t seen = um_atomic_load(&once->state, acquire);

    while (seen != UM_RUN_DONE) {
        if (seen == own) {
            um_os_futex_wait(&once->state, own, UMBRA_NEVER);
            seen = um_atomic_load(&once->state, acquire);
        } else if (um_atomic_cas(&once->state, &seen, own, acquire, acquire)) {
            /* a caller that is canceled in fn would leave the others to wait for it */
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
            fn();
            pthread_setcancelstate(cancels, &cancels);
            /* release: what fn wrote; pairs with the acquire in um_once_in_process() */
            um_atomic_store(&once->state, UM_RUN_DONE, release);
            seen = UM_RUN_DONE;
        }
    }
    um_os_futex_wake(&once->state); /* one waiter, which wakes the next */
}
#endif /* UMBRA_IMPLEMENTATION */

/* Returns when fn has run: in this call, in another call, or in a parent process before fork(2). */
UM_INLINE void um_once_in_process(struct um_run_once *once, void (*fn)(void))
{
    /* acquire: what fn wrote; pairs with the release in um_once_in_process_slow() */
    if (UM_UNLIKELY(um_atomic_load(&once->state, acquire) != UM_RUN_DONE))
        um_once_in_process_slow(once, fn);
}

#endif
