/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The channel's protocol: which items are there, and which caller waits. Two sides, PUSH and POP;
 * any thread or fiber may be on either. Private; read by the model checker as it stands.
 *
 *     side[POP].at          side[PUSH].at          at: how many items the side has pushed, or
 *          v                     v                 popped; a ring of `capacity` places
 *          [oldest]  ...  [newest]  (free places)
 *
 * A side changes only its own `at`, in its own line. It may go on until `at` is its `limit`: as far
 * as the other side had come when this side last looked, and for pushes `capacity` beyond that. So
 * a stream loads the line of the other side once for many items. With several callers on a side,
 * they take turns under the side's lock. With one said, there is no lock.
 *
 *   the waiter of a side                          a caller of the other side
 *   W1  waiting + 1               seq_cst         G1  at + 1, or closed           see below
 *   W2  quick? a fence in all threads             G2  look at waiting             seq_cst
 *   W3  join the event; its holder looks          G3  if any: signal the event
 *       at `at` and `closed`      seq_cst
 *
 * No wake-up is lost: if W3 misses G1, then G2 comes after W1, and the caller signals. The signal
 * asks the waiters in their order, and releases the first for which there is an item or a place;
 * that waiter is taken off `waiting` by the holder. It then tries again; another caller may have
 * been faster, and then it waits again.
 *
 * G1 and G2 need an order between a store and a later load, which is a locked instruction for each
 * item. A side has two paces:
 *
 *   careful   G1 is a seq_cst exchange. All in the table is in one total order
 *   quick     G1 is a release store. The waiter makes all threads execute a fence instead (W2): a
 *             store before that fence is seen at W3, a load after it sees W1
 *
 *   careful -> quick   seq_cst exchange, after UM_CHANNEL_CALM items without a waiter
 *   quick -> careful   relaxed store, when a waiter is seen at G2; G3 follows
 *
 * A waiter that loads "careful" at W2 needs no fence. If the side becomes quick later, the load
 * comes before that exchange in the total order, and with it W1; so each G2 after the exchange sees
 * W1. If the side was quick earlier, it has become careful before a G3: a waiter that joins before
 * that signal is asked by it, and one that joins after it sees all that was stored before. A fence
 * in all threads takes about as long as the locked instructions for UM_CHANNEL_CALM items, and at
 * least so many lie between two of them: the pace costs at most twice what the better one would.
 *
 * Where both sides are fast, one of them is always close behind the other, and each item would move
 * the lines of both. So a side that gains few items from a look pauses before the next look, twice
 * as long each time, until that is UM_CHANNEL_RESTS pauses or more; a look that gains nothing ends
 * that.
 */
#ifndef UMBRA_CHANNEL_PROTOCOL_H
#define UMBRA_CHANNEL_PROTOCOL_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/os/os.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_CHANNEL_CALM 1024 /* items without a waiter, then a side is quick */
#define UM_CHANNEL_FEW 64    /* items: a look that gains less is followed by a rest */
#define UM_CHANNEL_RESTS 16  /* pauses before a look: from here on no more are added */

/* The compiler keeps the order of what is before and after; W2 has the processor's part. */
#define um_channel_keep_order() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif

enum um_channel_which { UM_CHANNEL_PUSH, UM_CHANNEL_POP };

/* One side, in a line of its own: written by its callers, under the lock if there are several. */
struct um_channel_side {
    um_atomic_u64 at;         /* items; read by the other side */
    um_atomic_u32 quick;      /* the pace; read by the other side's waiters */
    um_plain(uint32_t) calm;  /* items since a waiter was seen */
    um_plain(uint64_t) limit; /* `at` may go so far */
    um_plain(uint32_t) rest;  /* pauses before the next look at the other side */
    uint32_t few;             /* UM_CHANNEL_FEW, or a 16th of the capacity; fixed */
    uint64_t ahead;           /* of the other side's `at`: the capacity, or 0; fixed */
    struct um_lock lock;      /* of the side, if there are several callers */
};

/* What both sides read, and seldom write. */
struct um_channel {
    um_atomic_u32 waiting[2]; /* callers of each side that wait, or will */
    um_atomic_u32 closed;     /* 1: no more items; written under the lock of PUSH */
    bool one;                 /* one caller at a time on each side; fixed */
    bool may_be_quick;        /* a thread can make all threads execute a fence; fixed */
};

/* ---- one item ---- */

/* The caller has its turn. Returns `at`, which stays so to the end of the turn, unless the caller
 * changes it. */
UM_INLINE uint64_t um_channel_enter(const struct um_channel *channel, struct um_channel_side *mine)
{
    if (!channel->one)
        um_lock_take(&mine->lock);
    return um_atomic_load(&mine->at, relaxed); /* only this side writes it */
}

UM_INLINE void um_channel_leave(const struct um_channel *channel, struct um_channel_side *mine)
{
    if (!channel->one)
        um_lock_release(&mine->lock);
}

/* Looks how far the other side has come. True if this side may go on. */
UM_INLINE bool um_channel_look(struct um_channel_side *mine, const struct um_channel_side *other,
                               uint64_t at)
{
    uint32_t rest = um_plain_read(mine->rest);
    uint64_t gain;

    for (uint32_t i = 0; i < rest; i++)
        um_arch_pause();
    /* acquire: the items are there, or have been copied out; pairs with um_channel_done() */
    gain = um_atomic_load(&other->at, acquire) + mine->ahead - at;
    um_plain_write(mine->limit, at + gain);
    if (gain == 0)
        rest = 0;
    else if (gain < mine->few)
        rest = rest < UM_CHANNEL_RESTS ? 2 * rest + 1 : rest;
    um_plain_write(mine->rest, rest);
    return gain != 0;
}

/* True if there is a place to push to, or an item to pop: at number `at` of the ring. */
UM_INLINE bool um_channel_may(struct um_channel_side *mine, const struct um_channel_side *other,
                              uint64_t at)
{
    return UM_LIKELY(at != um_plain_read(mine->limit)) || um_channel_look(mine, other, at);
}

/* Items or places that the last look has left. */
UM_INLINE uint64_t um_channel_left(const struct um_channel_side *mine, uint64_t at)
{
    return um_plain_read(mine->limit) - at;
}

/* Changes the pace of a side: a waiter was seen, or one item more without. */
UM_INLINE void um_channel_pace(const struct um_channel *channel, struct um_channel_side *mine,
                               bool waited)
{
    if (waited) {
        um_plain_write(mine->calm, 0);
        um_atomic_store(&mine->quick, 0, relaxed); /* relaxed: G3 orders it, see above */
    } else if (channel->may_be_quick) {
        uint32_t calm = um_plain_read(mine->calm) + 1;

        um_plain_write(mine->calm, calm);
        if (calm >= UM_CHANNEL_CALM)
            um_atomic_exchange(&mine->quick, 1, seq_cst); /* pairs with um_channel_announce() */
    }
}

/* G1, G2: item number `at` was copied. True if the caller must signal the event of the other
 * side. */
UM_INLINE bool um_channel_done(struct um_channel *channel, enum um_channel_which which,
                               struct um_channel_side *mine, uint64_t at)
{
    bool quick = um_atomic_load(&mine->quick, relaxed) != 0; /* only this side writes it */
    bool waited;

    if (quick) {
        um_atomic_store(&mine->at, at + 1, release); /* the copy; pairs with um_channel_may() */
        um_channel_keep_order();
    } else {
        um_atomic_exchange(&mine->at, at + 1, seq_cst); /* G1, and as above */
    }
    waited = um_atomic_load(&channel->waiting[1 - which], seq_cst) > 0;
    if (UM_UNLIKELY(waited || !quick))
        um_channel_pace(channel, mine, waited);
    return waited;
}

/* ---- waiting ---- */

/* W1, W2: the caller is about to join the event of its side. */
UM_INLINE void um_channel_announce(struct um_channel *channel, enum um_channel_which which,
                                   const struct um_channel_side *other)
{
    um_atomic_fetch_add(&channel->waiting[which], 1, seq_cst);
    if (um_atomic_load(&other->quick, seq_cst) != 0) /* pairs with um_channel_pace() */
        um_os_fence_threads();
}

/* A waiter is released, or gives up. relaxed: only a number, of those that still wait */
UM_INLINE void um_channel_retract(struct um_channel *channel, enum um_channel_which which)
{
    um_atomic_fetch_add(&channel->waiting[which], UINT32_MAX, relaxed);
}

/*
 * W3: true if a caller of the side should try. It may be too early: with several callers `mine` is
 * an old value. It is not too late: `other` is as new as the table says.
 */
UM_INLINE bool um_channel_ready(const struct um_channel *channel,
                                const struct um_channel_side *mine,
                                const struct um_channel_side *other)
{
    uint64_t at = um_atomic_load(&mine->at, relaxed); /* as above */

    /* seq_cst: against G1 */
    return um_atomic_load(&other->at, seq_cst) + mine->ahead != at ||
           um_atomic_load(&channel->closed, seq_cst) != 0;
}

/* G1 of a close. True if the channel was open. The caller signals each event as often as its side
 * has waiters. */
UM_INLINE bool um_channel_shut(struct um_channel *channel, struct um_channel_side *push)
{
    bool open;

    um_channel_enter(channel, push);
    open = um_atomic_exchange(&channel->closed, 1, seq_cst) == 0;
    um_channel_leave(channel, push);
    return open;
}

/* True if the channel is closed: no push begins any more, and pops see all items. */
UM_INLINE bool um_channel_closed(const struct um_channel *channel)
{
    return um_atomic_load(&channel->closed, acquire) != 0; /* pairs with um_channel_shut() */
}

#endif
