/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The handover: one cache line of a core, through which another core gives it one piece of work
 * while it is idle, and learns that the work is done. The owner is the core; the giver is any other
 * core. The taker is the owner, or the giver's core when that is idle. No call waits. Private.
 * Checked by tests/model/handover.
 *
 * The word has the number of the piece and a state:
 *
 *            owner            giver             giver            taker             taker
 *   CLOSED ---------> OPEN ---------> CLAIMED ---------> GIVEN ---------> TAKEN ----------> number + 1,
 *      ^      open     |      claim              give     |      take       |      end       OPEN or
 *      |     close     |                                  |  take back      | await          CLOSED
 *      +---------------+   CLOSED, number + 1 <-----------+                 v
 *                                                                        AWAITED (then as TAKEN)
 *
 * What is given stands beside the word: so one transfer of the line carries it, and one carries the
 * answer, which also invites the next giver (design, invariant 6).
 *
 *   - Only one giver has a piece's number: its claim is a compare-and-swap. It writes what is given
 *     between claim and give. The taker reads that between take and end, and a later giver claims
 *     what end, or the owner's next open, has stored. So neither reads what the other is writing.
 *     Only the owner opens its handover: another taker ends with a closed one.
 *   - A piece runs once: each take and take back is a compare-and-swap of the same word.
 *   - A piece that has not been taken is the giver's again when it wants it, or its core's. So an
 *     owner may leave at any moment, for a fiber of its own, say, and no giver waits for it.
 *   - No wake-up is lost: await and end change one word. If await comes first, end returns the
 *     giver's node, which stands with what is given; else await fails. The taker reads the node
 *     before end, since a later giver may write there after it.
 */
#ifndef UMBRA_CORE_HANDOVER_H
#define UMBRA_CORE_HANDOVER_H

#ifndef UM_MODEL_CHECK
#include <stddef.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/wait/protocol.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_HANDOVER_CLOSED UINT64_C(0)
#define UM_HANDOVER_OPEN UINT64_C(1)
#define UM_HANDOVER_CLAIMED UINT64_C(2)
#define UM_HANDOVER_GIVEN UINT64_C(3)
#define UM_HANDOVER_TAKEN UINT64_C(4)
#define UM_HANDOVER_AWAITED UINT64_C(5)
#define UM_HANDOVER_STATE UINT64_C(7)
#define UM_HANDOVER_NUMBER UINT64_C(8) /* one piece more; 61 bits do not come round */

struct um_given;

/* Runs what was given, in a fiber of the taker. */
typedef void um_given_fn(const struct um_given *given);

typedef void um_given_part_fn(size_t begin, size_t end, void *arg); /* umbra_range_fn */

/* What is given; the giver writes, the taker reads. */
struct um_given {
    um_plain(um_given_fn *) run;
    um_plain(um_given_part_fn *) fn; /* for the indices of a loop; or NULL */
    um_plain(void *) arg;
    um_plain(size_t) begin;
    um_plain(size_t) end;
    um_plain(size_t) grain;
};

struct um_handover {
    um_atomic_u64 word;                /* number and state; see above */
    um_plain(struct um_node *) waiter; /* the giver's node, for AWAITED; written as `given` */
    struct um_given given;
};

UM_INLINE uint64_t um_handover_state(uint64_t word)
{
    return word & UM_HANDOVER_STATE;
}

/* ---- the owner ---- */

/* Opens the handover, if it is closed. Only the owner changes a closed handover. */
UM_INLINE void um_handover_open(struct um_handover *handover)
{
    /* acquire: what a giver wrote that took its piece back, and what another taker has read; pairs
     * with um_handover_take_back() and um_handover_end() */
    uint64_t word = um_atomic_load(&handover->word, acquire);

    if (um_handover_state(word) == UM_HANDOVER_CLOSED)
        /* release: the last taker has read its piece; pairs with um_handover_claim() */
        um_atomic_store(&handover->word, word | UM_HANDOVER_OPEN, release);
}

/* Closes the handover, if it is open. */
UM_INLINE void um_handover_close(struct um_handover *handover)
{
    uint64_t word = um_atomic_load(&handover->word, relaxed); /* only compared */

    if (um_handover_state(word) == UM_HANDOVER_OPEN)
        /* relaxed: a giver that claims now keeps its claim, and nothing was handed over */
        um_atomic_cas(&handover->word, &word, word & ~UM_HANDOVER_STATE, relaxed, relaxed);
}

/* True if there is a piece. relaxed: taking it acquires */
UM_INLINE bool um_handover_holds(const struct um_handover *handover)
{
    return um_handover_state(um_atomic_load(&handover->word, relaxed)) == UM_HANDOVER_GIVEN;
}

/* ---- the taker ---- */

/* Takes the piece. False: there is none, or it was taken, or taken back. */
UM_INLINE bool um_handover_take(struct um_handover *handover)
{
    uint64_t word = um_atomic_load(&handover->word, relaxed); /* only compared */

    /* acquire: what is given; pairs with um_handover_give() */
    return um_handover_state(word) == UM_HANDOVER_GIVEN &&
           um_atomic_cas(&handover->word, &word, (word & ~UM_HANDOVER_STATE) | UM_HANDOVER_TAKEN,
                         acquire, relaxed);
}

/* The piece's work is done. open: the taker is the owner and invites the next giver. Returns the
 * node to wake, or NULL. */
UM_INLINE struct um_node *um_handover_end(struct um_handover *handover, bool open)
{
    struct um_node *waiter = um_plain_read(handover->waiter);
    uint64_t word =
        um_atomic_load(&handover->word, relaxed); /* TAKEN or AWAITED: the number is fixed */
    uint64_t next =
        (word & ~UM_HANDOVER_STATE) + UM_HANDOVER_NUMBER + (open ? UM_HANDOVER_OPEN : 0);

    /* release: what the work did, and that the piece was read; acquire: the node is ready. Pairs
     * with um_handover_ended(), um_handover_await(), um_handover_claim() */
    word = um_atomic_exchange(&handover->word, next, acq_rel);
    return um_handover_state(word) == UM_HANDOVER_AWAITED ? waiter : NULL;
}

/* ---- the giver ---- */

/* Claims an open handover. Returns the piece's number, which is not 0; or 0: the handover is not
 * open. */
UM_INLINE uint64_t um_handover_claim(struct um_handover *handover)
{
    uint64_t word = um_atomic_load(&handover->word, relaxed); /* only compared */
    uint64_t claimed = (word & ~UM_HANDOVER_STATE) | UM_HANDOVER_CLAIMED;

    if (um_handover_state(word) != UM_HANDOVER_OPEN)
        return 0;
    /* acquire: the taker has read the piece before; pairs with um_handover_end() and
     * um_handover_open() */
    return um_atomic_cas(&handover->word, &word, claimed, acquire, relaxed) ? claimed : 0;
}

/* Gives what was written to `given` and `waiter`. number: of um_handover_claim(), as in the next
 * ones. */
UM_INLINE void um_handover_give(struct um_handover *handover, uint64_t number)
{
    /* release: what is given; pairs with um_handover_take() */
    um_atomic_store(&handover->word, number + (UM_HANDOVER_GIVEN - UM_HANDOVER_CLAIMED), release);
}

/* Takes the piece back. False: it was taken. */
UM_INLINE bool um_handover_take_back(struct um_handover *handover, uint64_t number)
{
    uint64_t given = number + (UM_HANDOVER_GIVEN - UM_HANDOVER_CLAIMED);

    /* relaxed: what was written was released by um_handover_give(), and this goes on with its
     * release sequence; pairs with um_handover_open() */
    return um_atomic_cas(&handover->word, &given,
                         (number & ~UM_HANDOVER_STATE) + UM_HANDOVER_NUMBER, relaxed, relaxed);
}

/* True if the taker of the piece is done. There is one. */
UM_INLINE bool um_handover_ended(const struct um_handover *handover, uint64_t number)
{
    /* acquire: what the work did; pairs with um_handover_end(), or with a later giver's
     * um_handover_give(), which that giver's claim orders after it */
    return ((um_atomic_load(&handover->word, acquire) ^ number) & ~UM_HANDOVER_STATE) != 0;
}

/* True: the giver's node will be woken. False: the taker is done. There is one. */
UM_INLINE bool um_handover_await(struct um_handover *handover, uint64_t number)
{
    uint64_t taken = number + (UM_HANDOVER_TAKEN - UM_HANDOVER_CLAIMED);

    /* release: the node; acquire: as um_handover_ended() */
    return um_atomic_cas(&handover->word, &taken,
                         number + (UM_HANDOVER_AWAITED - UM_HANDOVER_CLAIMED), acq_rel, acquire);
}

#endif
