/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The hand: one cache line of a core, through which another core gives it one piece of work while
 * it is idle, and learns that the work is done. The owner is the core; the giver is any other core.
 * The taker is the owner, or the giver's core when that is idle. No call waits. Private. Checked by
 * tests/model/hand.
 *
 * The word has the number of the gift and a state:
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
 *   - Only one giver has a gift's number: its claim is a compare-and-swap. It writes what is given
 *     between claim and give. The taker reads that between take and end, and a later giver claims
 *     what end, or the owner's next open, has stored. So neither reads what the other is writing.
 *     Only the owner opens its hand: another taker ends with a closed one.
 *   - A gift runs once: each take and take back is a compare-and-swap of the same word.
 *   - A gift that has not been taken is the giver's again when it wants it, or its core's. So an owner
 *     may leave at any moment, for a fiber of its own, say, and no giver waits for it.
 *   - No wake-up is lost: await and end change one word. If await comes first, end returns the
 *     giver's node, which stands with what is given; else await fails. The taker reads the node
 *     before end, since a later giver may write there after it.
 */
#ifndef UMBRA_CORE_HAND_H
#define UMBRA_CORE_HAND_H

#ifndef UM_MODEL_CHECK
#include <stddef.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/wait/protocol.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_HAND_CLOSED UINT64_C(0)
#define UM_HAND_OPEN UINT64_C(1)
#define UM_HAND_CLAIMED UINT64_C(2)
#define UM_HAND_GIVEN UINT64_C(3)
#define UM_HAND_TAKEN UINT64_C(4)
#define UM_HAND_AWAITED UINT64_C(5)
#define UM_HAND_STATE UINT64_C(7)
#define UM_HAND_NUMBER UINT64_C(8) /* one gift more; 61 bits do not come round */

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

struct um_hand {
    um_atomic_u64 word;                /* number and state; see above */
    um_plain(struct um_node *) waiter; /* the giver's node, for AWAITED; written as `given` */
    struct um_given given;
};

UM_INLINE uint64_t um_hand_state(uint64_t word)
{
    return word & UM_HAND_STATE;
}

/* ---- the owner ---- */

/* Opens the hand, if it is closed. Only the owner changes a closed hand. */
UM_INLINE void um_hand_open(struct um_hand *hand)
{
    /* acquire: what a giver wrote that took its gift back, and what another taker has read; pairs
     * with um_hand_take_back() and um_hand_end() */
    uint64_t word = um_atomic_load(&hand->word, acquire);

    if (um_hand_state(word) == UM_HAND_CLOSED)
        /* release: the last taker has read its gift; pairs with um_hand_claim() */
        um_atomic_store(&hand->word, word | UM_HAND_OPEN, release);
}

/* Closes the hand, if it is open. */
UM_INLINE void um_hand_close(struct um_hand *hand)
{
    uint64_t word = um_atomic_load(&hand->word, relaxed); /* only compared */

    if (um_hand_state(word) == UM_HAND_OPEN)
        /* relaxed: a giver that claims now keeps its claim, and nothing was handed over */
        um_atomic_cas(&hand->word, &word, word & ~UM_HAND_STATE, relaxed, relaxed);
}

/* True if there is a gift. relaxed: taking it acquires */
UM_INLINE bool um_hand_holds(const struct um_hand *hand)
{
    return um_hand_state(um_atomic_load(&hand->word, relaxed)) == UM_HAND_GIVEN;
}

/* ---- the taker ---- */

/* Takes the gift. False: there is none, or it was taken, or taken back. */
UM_INLINE bool um_hand_take(struct um_hand *hand)
{
    uint64_t word = um_atomic_load(&hand->word, relaxed); /* only compared */

    /* acquire: what is given; pairs with um_hand_give() */
    return um_hand_state(word) == UM_HAND_GIVEN &&
           um_atomic_cas(&hand->word, &word, (word & ~UM_HAND_STATE) | UM_HAND_TAKEN, acquire,
                         relaxed);
}

/* The gift's work is done. open: the taker is the owner and invites the next giver. Returns the node
 * to wake, or NULL. */
UM_INLINE struct um_node *um_hand_end(struct um_hand *hand, bool open)
{
    struct um_node *waiter = um_plain_read(hand->waiter);
    uint64_t word =
        um_atomic_load(&hand->word, relaxed); /* TAKEN or AWAITED: the number is fixed */
    uint64_t next = (word & ~UM_HAND_STATE) + UM_HAND_NUMBER + (open ? UM_HAND_OPEN : 0);

    /* release: what the work did, and that the gift was read; acquire: the node is ready. Pairs with
     * um_hand_ended(), um_hand_await(), um_hand_claim() */
    word = um_atomic_exchange(&hand->word, next, acq_rel);
    return um_hand_state(word) == UM_HAND_AWAITED ? waiter : NULL;
}

/* ---- the giver ---- */

/* Claims an open hand. Returns the gift's number, which is not 0; or 0: the hand is not open. */
UM_INLINE uint64_t um_hand_claim(struct um_hand *hand)
{
    uint64_t word = um_atomic_load(&hand->word, relaxed); /* only compared */
    uint64_t claimed = (word & ~UM_HAND_STATE) | UM_HAND_CLAIMED;

    if (um_hand_state(word) != UM_HAND_OPEN)
        return 0;
    /* acquire: the taker has read the gift before; pairs with um_hand_end() and um_hand_open() */
    return um_atomic_cas(&hand->word, &word, claimed, acquire, relaxed) ? claimed : 0;
}

/* Gives what was written to `given` and `waiter`. number: of um_hand_claim(), as in the next ones. */
UM_INLINE void um_hand_give(struct um_hand *hand, uint64_t number)
{
    /* release: what is given; pairs with um_hand_take() */
    um_atomic_store(&hand->word, number + (UM_HAND_GIVEN - UM_HAND_CLAIMED), release);
}

/* Takes the gift back. False: it was taken. */
UM_INLINE bool um_hand_take_back(struct um_hand *hand, uint64_t number)
{
    uint64_t given = number + (UM_HAND_GIVEN - UM_HAND_CLAIMED);

    /* relaxed: what was written was released by um_hand_give(), and this goes on with its release
     * sequence; pairs with um_hand_open() */
    return um_atomic_cas(&hand->word, &given, (number & ~UM_HAND_STATE) + UM_HAND_NUMBER, relaxed,
                         relaxed);
}

/* True if the taker of the gift is done. There is one. */
UM_INLINE bool um_hand_ended(const struct um_hand *hand, uint64_t number)
{
    /* acquire: what the work did; pairs with um_hand_end(), or with a later giver's um_hand_give(),
     * which that giver's claim orders after it */
    return ((um_atomic_load(&hand->word, acquire) ^ number) & ~UM_HAND_STATE) != 0;
}

/* True: the giver's node will be woken. False: the taker is done. There is one. */
UM_INLINE bool um_hand_await(struct um_hand *hand, uint64_t number)
{
    uint64_t taken = number + (UM_HAND_TAKEN - UM_HAND_CLAIMED);

    /* release: the node; acquire: as um_hand_ended() */
    return um_atomic_cas(&hand->word, &taken, number + (UM_HAND_AWAITED - UM_HAND_CLAIMED), acq_rel,
                         acquire);
}

#endif
