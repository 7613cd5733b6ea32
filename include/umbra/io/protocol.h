/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How a core sleeps for two things at once: a message in its inbox, and a completion in its
 * io_uring, or a report of its epoll instance. Both wake it from one wait. Private; read by the
 * model checker as it stands.
 *
 * The wait of a ring: the kernel watches the core's park word for it (FUTEX_WAIT as an operation of
 * the ring), so a thread that gives the core a message wakes it as it always does (wait/park.h),
 * and need not know of the ring.
 *
 *   the core                                         a thread that gives it a message
 *   U1  parked = 1                       seq_cst     S1  inbox                     seq_cst
 *   U2  look at inbox                    seq_cst     S2  look at parked            seq_cst
 *   U3  have the kernel watch parked, unless         S3  parked = 0; if it was 1: FUTEX_WAKE
 *       it still does
 *   U4  sleep until the ring has a completion
 *   U5  take all completions; that of the watch:
 *       the kernel does not watch any more
 *
 * U1, U2, S1, S2 are in one total order, as in the park protocol: if U2 misses the message, S2 sees
 * U1, or the thread that cleared parked since is between its S3 and its wake. A wake before U3
 * finds parked 0 there: the watch completes at once. A wake after U3, or after a U3 of an earlier
 * sleep whose watch still stands, completes the watch. In each case the ring has a completion,
 * which stays until U5: U4 does not sleep, or wakes. A completion of any other operation stays as
 * well. So nothing is lost between U2 and U4, and a core that wakes looks again at everything.
 *
 * The ring may have no place for the watch (U3), if the kernel has no memory for what is queued in
 * it. Then the core does not sleep; it looks again at everything, also because an attempt to make a
 * place may have taken completions after U2.
 *
 * A late wake of an earlier sleep completes a watch too early: the core wakes once in vain. While a
 * watch stands the core must never sleep by FUTEX_WAIT itself: FUTEX_WAKE would complete the watch
 * instead. So a core that has a ring always sleeps here. A ring that breaks (io/uring.h) wakes
 * its own watch with FUTEX_WAKE; then the core sleeps by FUTEX_WAIT, or in epoll, from there on.
 *
 * The wait in epoll: an eventfd, the bell, is registered there for good, and U1 writes its number
 * to parked. So S3 writes to the bell instead of FUTEX_WAKE, whenever that is. The bell reports
 * each write once (EPOLLET), as a completion of the watch does above: a write between U1 and U4
 * ends U4 at once, and a late write of an earlier sleep ends it in vain. A core that is awake and
 * looks into epoll may take the report of a write. That loses nothing: the write's S1 came before,
 * and U2 of the next sleep comes after.
 */
#ifndef UMBRA_IO_PROTOCOL_H
#define UMBRA_IO_PROTOCOL_H

#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* The ring, or the epoll instance, as the protocol needs it. Only its core calls these. */
struct um_io_bed {
    uint32_t parked; /* what U1 writes: UM_OS_AT_FUTEX, or the bell's number above UM_OS_AT_BELL */
    bool watched;    /* the kernel watches parked: the watch was given to it, and has not completed.
                     Of epoll always: the bell is watched */
    /* gives the kernel the watch: FUTEX_WAIT on the word, while it is 1; false: there was no place
     * for it, and completions may have been taken */
    bool (*watch)(struct um_io_bed *bed, um_atomic_u32 *parked);
    /* sleeps until there is a completion, or until the deadline, then takes all completions; clears
     * `watched` if the watch's is one of them */
    void (*sleep)(struct um_io_bed *bed, uint64_t deadline_ns);
};

/*
 * The core: sleeps once, unless ready(context) is true: at most until deadline_ns of
 * um_os_now_ns(). It may return with nothing there. ready must read the inbox with seq_cst (U2).
 */
UM_INLINE void um_io_park(struct um_park *park, struct um_io_bed *bed, um_park_ready *ready,
                          void *context, uint64_t deadline_ns)
{
    um_atomic_store(&park->parked, bed->parked, seq_cst); /* U1: before U2; pairs with S2 */
    if (!ready(context)) {                                /* U2: after U1; pairs with S1 */
        if (!bed->watched)
            bed->watched = bed->watch(bed, &park->parked); /* U3 */
        if (bed->watched)
            bed->sleep(bed, deadline_ns); /* U4, U5 */
    }
    /* relaxed: a signaller that still sees 1 makes a vain system call, which is harmless */
    um_atomic_store(&park->parked, 0, relaxed);
}

#endif
