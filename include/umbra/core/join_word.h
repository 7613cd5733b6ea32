/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The end of a fiber and its join: one word, `done`, that only the fiber's home core and its owner
 * change. Private; read by the model checker as it stands.
 *
 * The owner of a fiber is the core that spawned it. Fibers of the owner join directly; all other
 * joiners (askers) ask the owner by a message that carries a node. So one core decides which join
 * gets the result.
 *
 *   done                 changed by                  to
 *   owner, RUNNING       owner                       node JOINED or ASKED; owner, DETACHED
 *                        home, at the end            owner, FINISHED
 *   owner, FINISHED      owner                       the fiber is collected; its next life begins
 *   node, JOINED         owner: the joiner is        owner, RUNNING
 *                        interrupted
 *                        home, at the end            node, TOLD: the joiner runs, and collects
 *   node, ASKED          owner: the asker has        another node, ASKED; node, JOINED;
 *                        given up                    owner, DETACHED
 *                        home, at the end            ANSWERING: the node belongs to the home core
 *   ANSWERING            home                        collected and answered; or, if the asker has
 *                                                    given up meanwhile, owner, FINISHED
 *   owner, DETACHED      home, at the end            collected
 *
 * Where owner and home are the same core, the owner's changes are stores (UM_DONE_SAME), else
 * compare-and-swap.
 *
 * An asker that gives up, at its deadline or because it is interrupted, leaves its node behind. The
 * node has a claim (wait/claim.h), and a node in `done` is ignored if its claim is dead. The
 * owner reads only the claim, which stays an atomic word, since the home core may have taken the
 * node and freed it. Only if `done` still has the node may the owner drop it.
 */
#ifndef UMBRA_CORE_JOIN_WORD_H
#define UMBRA_CORE_JOIN_WORD_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/wait/protocol.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* What is in `done` besides a pointer. */
#define UM_DONE_RUNNING UINT64_C(0)   /* with the owner; no join has begun */
#define UM_DONE_FINISHED UINT64_C(1)  /* with the owner; the result is there */
#define UM_DONE_DETACHED UINT64_C(2)  /* with the owner; no join comes */
#define UM_DONE_JOINED UINT64_C(3)    /* with the node of a fiber of the owner, which collects */
#define UM_DONE_ASKED UINT64_C(4)     /* with an asker's node; the home core answers it */
#define UM_DONE_TOLD UINT64_C(5)      /* with the node as in JOINED; its fiber is about to run */
#define UM_DONE_ANSWERING UINT64_C(6) /* alone, for some instructions of the home core */
#define UM_DONE_TAG UINT64_C(7)

UM_INLINE struct um_node *um_done_node(uint64_t done)
{
    return (struct um_node *)(uintptr_t)(done & ~UM_DONE_TAG);
}

/* True if the fiber has ended, and the home core has said so. */
UM_INLINE bool um_done_is_told(uint64_t done)
{
    return (done & UM_DONE_TAG) == UM_DONE_FINISHED || (done & UM_DONE_TAG) >= UM_DONE_TOLD;
}

/* ---- the home core ---- */

/*
 * The fiber has ended, and its result is written. Returns what `done` was: RUNNING (it is FINISHED
 * now), DETACHED (the caller collects), JOINED (the caller wakes the node's fiber), or ASKED (the
 * node belongs to the caller, which answers and collects, or calls um_done_unanswered()).
 */
UM_INLINE uint64_t um_done_tell(um_atomic_u64 *done)
{
    uint64_t value =
        um_atomic_load(done, acquire); /* a joiner's node; pairs with um_done_change() */
    uint64_t next;

    do {
        switch (value & UM_DONE_TAG) {
        case UM_DONE_RUNNING:
            next = value | UM_DONE_FINISHED;
            break;
        case UM_DONE_JOINED:
            next = (value & ~UM_DONE_TAG) | UM_DONE_TOLD;
            break;
        case UM_DONE_ASKED:
            next = UM_DONE_ANSWERING;
            break;
        default:
            return value;
        }
        /* acq_rel: the result and the saved context for the joiner, the joiner's node from it;
         * pairs with um_done_change() and the loads of joiners */
    } while (!um_atomic_cas(done, &value, next, acq_rel, acquire));
    return value;
}

/* The asker has given up: the next join may have the result. */
UM_INLINE void um_done_unanswered(um_atomic_u64 *done, uint64_t owner)
{
    um_atomic_store(done, owner | UM_DONE_FINISHED, release); /* as um_done_tell() */
}

/* ---- the owner ---- */

/* APART: owner and home core are two cores. SAME: they are one core. */
enum um_done_sides { UM_DONE_OTHER, UM_DONE_SAME };

/* Changes `done` from a value that was read to another. False: the home core was first. */
UM_INLINE bool um_done_change(um_atomic_u64 *done, enum um_done_sides sides, uint64_t from,
                              uint64_t to)
{
    if (sides == UM_DONE_SAME) {
        um_atomic_store(done, to, release); /* for joiners on other cores, which only look */
        return true;
    }
    /* acq_rel: the joiner's node for the home core, or the result from it; pairs with
     * um_done_tell() */
    return um_atomic_cas(done, &from, to, acq_rel, acquire);
}

/* True if the asker of this value has given up. True stays true as long as `done` has the value; if
 * `done` has changed meanwhile, the answer means nothing, and um_done_change() fails. */
UM_INLINE bool um_done_given_up(uint64_t done)
{
    struct um_claimed *claimed = (struct um_claimed *)um_done_node(done);

    if ((done & UM_DONE_TAG) != UM_DONE_ASKED)
        return false;
    /* acquire: what the asker did before; pairs with um_claim_give_up() */
    return (um_atomic_load(&claimed->claim, acquire) & UM_CLAIM_STATE) == UM_CLAIM_DEAD;
}

#endif
