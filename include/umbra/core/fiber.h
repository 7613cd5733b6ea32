/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What fibers and cores are made of: the control block of a fiber, the core, its ready queue, and the
 * words by which a fiber's state, flags and permit are read. Private; included by fiber.h, after its
 * declarations. The ready queue is touched by its core's thread alone; other threads only look at what
 * a comment says they may read.
 */
#ifndef UMBRA_CORE_FIBER_H
#define UMBRA_CORE_FIBER_H

#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/context.h>
#include <umbra/core/exceptions.h>
#include <umbra/core/timers.h>
#include <umbra/cpu.h>
#include <umbra/protocol/claim.h>
#include <umbra/protocol/event.h>
#include <umbra/protocol/join.h>
#include <umbra/protocol/task.h>
#include <umbra/stack.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* ---- the control block ---- */

/*
 * A place in a ready queue: a ring through its core's `ready`. Atomic, relaxed, though only one
 * thread uses it: else compilers join the two stores into one of a vector register, which takes
 * longer to fill, and to be read back from, than two stores do.
 */
struct um_link {
    _Atomic(struct um_link *) next;
    _Atomic(struct um_link *) prev;
};

#define UM_FIBER_PERMIT 1u       /* flags: umbra_continue came before the transfer */

#define UM_FIBER_BARRED 16u      /* flags: canceled and not shielded: it does not begin to wait */
#define UM_FIBER_INTERRUPTED 32u /* flags: what it waited for has not come */

#define UM_AHEAD 8 /* how far to look: some 10 ns a fiber, against 100 ns from memory */

/* A core: the scheduler of one hardware thread. Private, but for what the calls above tell. */
struct umbra_core {
    /* other threads write this line */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u64 inbox;
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_waiter waiter; /* to wait on its inbox with */

    /* the core's own */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    _Atomic(struct um_fiber *) current; /* runs now; NULL: the scheduler. All read */
    struct um_link ready;               /* the ready queue, oldest next */
    struct um_timers timers;
    struct um_fiber *idle_fibers;    /* of the default size, this core's, to be started here */
    struct um_fiber *kept[UM_AHEAD]; /* what entered that list last, in a ring */
    uint32_t kept_next;              /* its oldest place */
    um_atomic_u64 live;              /* fibers begun and not ended here; all read */
    struct um_context scheduler;     /* its thread's own stack */
    struct um_fiber *watched;        /* ended last, and looked at while idle, or NULL */
    struct um_fiber *retiring;       /* ended; published once its context is saved */
    void *retiring_result;           /* what its function returned */
    uint32_t turns;                  /* looks around since the timers were last looked at */
    um_atomic_u32 state;             /* enum umbra_core_state; all read */
    unsigned victim;                 /* the core whose tasks it looked at last */
    bool starved;                    /* there are tasks, and no memory for a fiber to run them */
    struct um_tasks tasks;           /* forked here and not started */

    /* fixed; who spawns here reads it, so it shares no line with what changes */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_runtime *runtime;
    unsigned index;
    int cpu;
    um_atomic_u64 *unplaced;     /* how much work has no place; the runtime's */
    uint64_t in_place_cycles;    /* how long a fiber waits before it leaves an idle core */
    uint64_t look_cycles;        /* how long an idle core looks around before it dozes */
    struct um_fiber **elsewhere; /* idle fibers of other cores that fibers here joined, by core */
    struct um_core_more *more;   /* what is seldom needed: core.h */
    struct um_exceptions *exceptions; /* its thread's; set before it runs fibers */
};

/*
 * A fiber. At the top of its stack, so that a blocked fiber costs one page. The memory stays a
 * control block until the runtime is destroyed.
 */
struct UM_ALIGNED(64) um_fiber {
    /* the home core's line */
    struct um_context context;
    struct um_link ready;   /* in the ready queue */
    um_atomic_u32 state;    /* enum umbra_fiber_state, but for executing; home core; all read */
    um_atomic_u32 flags;    /* home core, during a life; a late permit's, by comparing */
    struct um_fiber *ahead; /* a few places on in the core's list of idle fibers: a hint, or NULL */

    /* what another core touches to start it, and a signaller to wake it */
    struct um_node node; /* home: its core; done: see UM_DONE_. At its start accept and arg hold
                            function and argument, at its end arg the result */

    /* whoever spawns and joins it; and the home core while it is blocked */
    um_atomic_u64 generation;                  /* one more for each life; whoever collects writes */
    struct um_fiber *in_pool;                  /* next in a list of idle fibers; the list's owner */
    uint32_t traits;                           /* how it was spawned; spawner */
    uint32_t size_class;                       /* of its stack; fixed */
    _Atomic(const struct um_kind *) waits_for; /* blocked: what kind of thing; home core; reports
                                                  read, as the next two */
    _Atomic(const void *) waits_on;            /* blocked: its address; see um_waits_on_fiber() */
    _Atomic(const void *) waits_at; /* blocked: where in the program it was called from */
    struct um_event *waits_in;      /* blocked, with its own node: the event that has it, or NULL:
                                       the wait cannot be interrupted; home core */

    /* rarely used */
    void **local;               /* fiber-local, UMBRA_LOCAL_KEYS of them, or NULL; home core */
    struct um_claimed *claimed; /* blocked: the claim of a wait that may time out, or NULL */
    uint64_t ticket;            /* of claimed */
    _Atomic(struct umbra_core *) owner; /* set before `done` becomes ASKED; owner; all read */
    uint32_t shields;              /* umbra_shield less umbra_unshield, if SHIELDED; the fiber */
    struct um_node mail;           /* UM_NODE_CONTINUE */
    um_atomic_u64 mail_for;        /* generation that a pending mail is for, 0: none pending */
    struct um_timer timer;         /* home core; deadline 0: none */
    struct um_slab *slab;          /* its stack's; fixed */
    struct umbra_runtime *runtime; /* fixed */
    uint32_t slot;                 /* in the slab; fixed */
    uint32_t mutexes;              /* held, if UMBRA_ASSERT; the fiber */
    um_atomic_u64 name[UMBRA_FIBER_NAME_BYTES / 8]; /* its bytes; spawner; reports read */
};

#define UM_FRAMES_FETCHED 4 /* cache lines: a jump's registers, a caller or two */
#define UM_BLOCK_FETCHED 3  /* and those of the control block up to the generation */

/* The core whose thread this is; NULL: none. One for each executable or shared object. */
UM_SHARED _Thread_local struct umbra_core *um_core_self = NULL;

/* The tasks of threads that are no core: none, and always asked, so that forks look further. */
UM_SHARED struct um_tasks um_tasks_of_none = {.asked = 1};

/* The tasks of the core whose thread this is; of another thread those of none. */
UM_SHARED _Thread_local struct um_tasks *um_tasks_self = &um_tasks_of_none;

/* ---- the ready queue: its core only ---- */

UM_INLINE struct um_fiber *um_fiber_of_link(struct um_link *link)
{
    return (struct um_fiber *)((char *)link - offsetof(struct um_fiber, ready));
}

UM_INLINE struct um_fiber *um_fiber_of_node(struct um_node *node)
{
    return (struct um_fiber *)((char *)node - offsetof(struct um_fiber, node));
}

UM_INLINE struct um_link *um_link_next(const struct um_link *link)
{
    return um_atomic_load(&link->next, relaxed);
}

UM_INLINE void um_link_join(struct um_link *prev, struct um_link *next)
{
    um_atomic_store(&prev->next, next, relaxed);
    um_atomic_store(&next->prev, prev, relaxed);
}

UM_INLINE void um_ready_push(struct umbra_core *core, struct um_fiber *fiber)
{
    um_link_join(um_atomic_load(&core->ready.prev, relaxed), &fiber->ready);
    um_link_join(&fiber->ready, &core->ready);
}

/* Takes the first, which the caller has read. */
UM_ALWAYS_INLINE struct um_fiber *um_ready_take(struct umbra_core *core, struct um_link *first)
{
    um_link_join(&core->ready, um_link_next(first));
    return um_fiber_of_link(first);
}

/* relaxed, all of these: what a fiber does is written by its core and only looked at by others */
UM_INLINE struct um_fiber *um_core_current(const struct umbra_core *core)
{
    return um_atomic_load(&core->current, relaxed);
}

UM_INLINE void um_fiber_set_state(struct um_fiber *fiber, enum umbra_fiber_state state)
{
    um_atomic_store(&fiber->state, (uint32_t)state, relaxed);
}

/* Whether it has returned: known by its state on its own core, elsewhere once that core has told.
 * acquire: see um_fiber_is() */
UM_INLINE bool um_fiber_has_ended(const struct um_fiber *fiber)
{
    return um_atomic_load(&fiber->state, acquire) == UMBRA_FIBER_TERMINATED ||
           um_done_is_told(um_atomic_load(&fiber->node.done, acquire));
}

UM_INLINE uint64_t um_fiber_generation(const struct um_fiber *fiber)
{
    return um_atomic_load(&fiber->generation, relaxed);
}

/*
 * A fiber in one life, or a thread, in one word that is never 0: what has a mutex. Of a fiber the
 * address of its control block, below 2^48 and a multiple of 64, and 21 bits of the generation above it;
 * so fibers that live at a time differ, and a life from 2,097,151 later ones. Threads are odd.
 */
#define UM_SELF_LIFE_SHIFT 43
#define UM_SELF_LIFE ((uintptr_t)1 << UM_SELF_LIFE_SHIFT)
#define UM_SELF_THREAD ((uintptr_t)1)

UM_INLINE uintptr_t um_fiber_self(const struct um_fiber *fiber, uint64_t generation)
{
    return (uintptr_t)generation << UM_SELF_LIFE_SHIFT | (uintptr_t)fiber >> 5;
}

/* Where the control block is. */
UM_INLINE uintptr_t um_self_block(uintptr_t self)
{
    return (self & (UM_SELF_LIFE - 1)) << 5;
}

/*
 * A handle may be stale, and its fiber begin another life at any moment. So what a call finds out
 * about the fiber it reads first, with acquire, and the generation last: each life's writes follow
 * its number, so if the number still fits, all of it was this life's.
 */
UM_INLINE bool um_fiber_is(struct umbra_fiber handle, enum umbra_fiber_state state,
                           const struct umbra_core *home)
{
    return um_atomic_load(&handle.block->state, acquire) == (uint32_t)state &&
           um_atomic_load(&handle.block->node.home, acquire) == (uintptr_t)home &&
           um_fiber_generation(handle.block) == handle.generation;
}

/* relaxed, both: the home core's own */
UM_INLINE uint32_t um_fiber_flags(const struct um_fiber *fiber)
{
    return um_atomic_load(&fiber->flags, relaxed);
}

/* True if the fiber has been canceled and may not begin to wait. The fiber, or its home core. */
UM_INLINE bool um_fiber_barred(const struct um_fiber *fiber)
{
    return UM_UNLIKELY(um_fiber_flags(fiber) & UM_FIBER_BARRED);
}

UM_INLINE struct umbra_core *um_fiber_home(const struct um_fiber *fiber)
{
    return (struct umbra_core *)um_atomic_load(&fiber->node.home, relaxed);
}

UM_INLINE void um_fiber_make_ready(struct umbra_core *core, struct um_fiber *fiber)
{
    um_fiber_set_state(fiber, UMBRA_FIBER_READY);
    um_ready_push(core, fiber);
}

/* Whether the caller runs on this fiber's stack, at whose top it stands, not on an alternate signal
 * stack. */
UM_INLINE bool um_fiber_on_stack(const struct um_fiber *fiber)
{
    return um_arch_stack_pointer() - (uintptr_t)fiber->context.stack_low <
           fiber->context.stack_bytes;
}

/* ---- switching ---- */

/* Whether somebody wants something of the core: a message, a timer, work without a place. */
UM_ALWAYS_INLINE bool um_core_attention(const struct umbra_core *core)
{
    /* relaxed: whoever acts on it takes the message or the work with an acquire */
    return (um_atomic_load(&core->inbox, relaxed) | (uintptr_t)core->timers.top |
            um_atomic_load(core->unplaced, relaxed)) != 0;
}

UM_ALWAYS_INLINE void um_fiber_switch(struct umbra_core *core, struct um_fiber *from,
                                      struct um_fiber *to)
{
    um_atomic_store(&core->current, to, relaxed); /* only looked at by others */
    um_context_switch(&from->context, &to->context);
}

/* Fetches lines of a control block, or below zero of the top of its stack; NULL: none. */
UM_INLINE void um_fiber_fetch(const struct um_fiber *fiber, int first, int last)
{
    const char *block = (const char *)fiber; /* its stack is right below it */

    for (int line = first; line <= last && block; line++)
        um_arch_prefetch_write(block + (ptrdiff_t)line * 64);
}

UM_LINKONCE int um_fiber_take_interrupt(struct um_fiber *fiber);

#ifndef UMBRA_DECLARE

/* What a message in an inbox asks for. */
enum um_node_kind {
    UM_NODE_WAKE,     /* the fiber whose node it is may run: what it waited for has come */
    UM_NODE_SPAWN,    /* the fiber whose node it is begins */
    UM_NODE_ASIDE,    /* the same, stopped */
    UM_NODE_CONTINUE, /* umbra_continue for the fiber whose `mail` it is */
    UM_NODE_CANCEL,   /* umbra_cancel: struct um_cancel_request in arg */
    UM_NODE_JOIN      /* struct um_join_request in arg */
};

#define UM_FIBER_LOCAL 2u        /* flags: has fiber-local values, or is in a child process */
#define UM_FIBER_CANCELED 4u     /* flags: umbra_cancel, in this life */
#define UM_FIBER_SHIELDED 8u     /* flags: `shields` counts; else there are none */

#define UM_FIBER_LIFE 6 /* flags: from this bit on, the generation that the permit is for */

/* flags: what neither a permit nor its end changes */
#define UM_FIBER_KEPT                                                                              \
    (UM_FIBER_LOCAL | UM_FIBER_CANCELED | UM_FIBER_SHIELDED | UM_FIBER_BARRED |                    \
     UM_FIBER_INTERRUPTED)

#define UM_FIBER_ANYWHERE 1u /* traits: spawned without a place */
#define UM_FIBER_NAMED 2u    /* traits: has a name */
#define UM_FIBER_FOREIGN 4u  /* traits: spawned from outside, so its memory is the depot's */

_Static_assert(offsetof(struct um_fiber, context) == 0, "um_context_switch knows contexts");
_Static_assert(offsetof(struct um_fiber, node) == 64, "a line each for the core and for others");
_Static_assert(offsetof(struct um_fiber, generation) == 128, "and for who joins");

UM_INLINE bool um_ready_empty(const struct umbra_core *core)
{
    return um_link_next(&core->ready) == &core->ready;
}

UM_INLINE void um_ready_remove(struct um_fiber *fiber)
{
    um_link_join(um_atomic_load(&fiber->ready.prev, relaxed), um_link_next(&fiber->ready));
}

/* The oldest; the queue must not be empty. */
UM_ALWAYS_INLINE struct um_fiber *um_ready_pop(struct umbra_core *core)
{
    return um_ready_take(core, um_link_next(&core->ready));
}

UM_INLINE uint32_t um_fiber_get_state(const struct um_fiber *fiber)
{
    return um_atomic_load(&fiber->state, relaxed);
}

/* relaxed, both: a report may see part of a name that is just being written, and no harm is done */
UM_INLINE void um_fiber_write_name(struct um_fiber *fiber, const char bytes[UMBRA_FIBER_NAME_BYTES])
{
    for (int i = 0; i < UMBRA_FIBER_NAME_BYTES / 8; i++) {
        uint64_t word;

        memcpy(&word, bytes + i * 8, 8);
        um_atomic_store(&fiber->name[i], word, relaxed);
    }
}

UM_INLINE void um_fiber_read_name(const struct um_fiber *fiber, char bytes[UMBRA_FIBER_NAME_BYTES])
{
    for (int i = 0; i < UMBRA_FIBER_NAME_BYTES / 8; i++) {
        uint64_t word = um_atomic_load(&fiber->name[i], relaxed);

        memcpy(bytes + i * 8, &word, 8);
    }
    bytes[UMBRA_FIBER_NAME_BYTES - 1] = 0;
}

UM_INLINE void um_fiber_set_flags(struct um_fiber *fiber, uint32_t flags)
{
    um_atomic_store(&fiber->flags, flags, relaxed);
}

/* The flags of a permit for one life: one that comes late is not mistaken for the next life's. */
UM_INLINE uint32_t um_fiber_permit(uint64_t generation)
{
    return UM_FIBER_PERMIT | (uint32_t)generation << UM_FIBER_LIFE;
}

/* Whether it has a permit, if any, for the life that it leads. The home core. */
UM_INLINE bool um_fiber_permitted(const struct um_fiber *fiber)
{
    return (um_fiber_flags(fiber) & ~UM_FIBER_KEPT) == um_fiber_permit(um_fiber_generation(fiber));
}

/* ---- the fiber's flags: the fiber, or its home core ---- */

/* After CANCELED or the shields have changed. */
UM_INLINE void um_fiber_set_barred(struct um_fiber *fiber, uint32_t flags)
{
    bool barred = (flags & (UM_FIBER_CANCELED | UM_FIBER_SHIELDED)) == UM_FIBER_CANCELED;

    um_fiber_set_flags(fiber, (flags & ~UM_FIBER_BARRED) | (barred ? UM_FIBER_BARRED : 0));
}

/* 0, or -ECANCELED. */
UM_LINKONCE int um_fiber_take_interrupt(struct um_fiber *fiber)
{
    um_fiber_set_flags(fiber, um_fiber_flags(fiber) & ~UM_FIBER_INTERRUPTED);
    return -ECANCELED;
}

#endif /* UMBRA_DECLARE */

#endif
