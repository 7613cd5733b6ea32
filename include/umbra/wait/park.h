/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Parking: a thread, the waiter, sleeps in the kernel until a word changes, and a signaller that
 * changes the word learns that it must wake the waiter. Any thread or fiber may signal.
 * Private. Checked by tests/model/park.
 *
 * The waited word is never the futex word: the kernel compares 32 bits, and the waited word may
 * have 64 or belong to the user. Each waiter has a word of its own, `parked`.
 *
 *   waiter                                   signaller
 *   W1  parked = 1          seq_cst          S1  word = new          seq_cst (the caller)
 *   W2  look at the word    seq_cst          S2  look at parked      seq_cst
 *   W3  futex: sleep while parked == 1       S3  if not 0: exchange 0, wake
 *
 * No wake-up is lost. W1, W2, S1, S2 are in one total order. If W2 misses the new value, then W2 <
 * S1, hence W1 < W2 < S1 < S2 and S2 sees 1, unless another signaller's S3 has cleared it since W1.
 * Either way the exchange of some signaller took this announcement: `parked` is 0, and that
 * signaller wakes the waiter. The kernel compares under its own lock, so it finds 0, or the waiter
 * sleeps already and is woken. A signaller that is late from an earlier wait may clear `parked` of
 * the next one. Then the waiter returns from its sleep and starts again at W1: it announces itself
 * again before it looks.
 *
 * A core may sleep in another way (io/protocol.h): then `parked` is the number of an eventfd instead,
 * and a signaller writes to that (um_os_rouse()).
 *
 * One waiter at a time owns a um_park; any number of signallers may call um_park_wake. A signaller
 * touches the um_park after it stored the word, so the um_park must outlive that call, not only the
 * wait.
 */
#ifndef UMBRA_WAIT_PARK_H
#define UMBRA_WAIT_PARK_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/os/os.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

struct um_park {
    um_atomic_u32 parked; /* UM_OS_AT_*: the waiter sleeps or is about to; 0: not. Waiter sets,
                             signallers clear */
};

/* True if the wait is over. Must read the waited word with seq_cst (W2). */
typedef bool um_park_ready(void *context);

/*
 * Waiter: sleeps until ready(context) is true, at most until deadline_ns of um_os_now_ns(). Blocks
 * the thread. Returns 0, or -ETIMEDOUT: not ready by then.
 */
UM_INLINE int um_park_until(struct um_park *park, um_park_ready *ready, void *context,
                            uint64_t deadline_ns)
{
    bool timed_out = false;
    bool done;

    for (;;) {
        um_atomic_store(&park->parked, 1, seq_cst); /* W1: before W2; pairs with S2 */
        done = ready(context);                      /* W2: after W1; pairs with S1 */
        if (done || timed_out)
            break;
        timed_out = um_os_futex_wait(&park->parked, 1, deadline_ns) == -ETIMEDOUT; /* W3 */
    }
    /* relaxed: a signaller that still sees 1 makes a vain system call, which is harmless */
    um_atomic_store(&park->parked, 0, relaxed);
    return done ? 0 : -ETIMEDOUT;
}

/*
 * Signaller, after it stored the waited word with seq_cst (S1): wakes the waiter if it has parked.
 * True if it made the system call.
 */
UM_INLINE bool um_park_wake(struct um_park *park)
{
    uint32_t was;

    if (um_atomic_load(&park->parked, seq_cst) == 0) /* S2: after S1; pairs with W1 */
        return false;
    /*
     * S3: one signaller gets it. seq_cst, so that no S2 after a new W1 can read this older 0,
     * which C11 7.17.3p6 would allow of a weaker store
     */
    was = um_atomic_exchange(&park->parked, 0, seq_cst);
    if (was == 0)
        return false;
    um_os_rouse(&park->parked, was);
    return true;
}

#endif
