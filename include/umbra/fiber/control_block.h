/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What fibers and cores are made of: the control block of a fiber, the core with its ready queue,
 * and the functions that read and change a fiber's state, flags and permit. Private; included by
 * fiber.h after its declarations.
 *
 * Only the core's own thread touches its ready queue. Each field names its writer; other threads
 * read only what the comment of a field lets them read. A handle may be stale at any moment: see
 * um_fiber_is(). Nothing here blocks, and only um_fiber_switch() switches.
 */
#ifndef UMBRA_FIBER_CONTROL_BLOCK_H
#define UMBRA_FIBER_CONTROL_BLOCK_H

#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/context.h>
#include <umbra/core/protocol.h>
#include <umbra/cpu.h>
#include <umbra/event/protocol.h>
#include <umbra/fiber/exceptions.h>
#include <umbra/fiber/timers.h>
#include <umbra/os/os.h>
#include <umbra/stack.h>
#include <umbra/task/protocol.h>
#include <umbra/wait.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* ---- the control block ---- */

/*
 * A place in a ready queue, which is a ring through its core's `ready`. Atomic (relaxed), although
 * only one thread uses it: otherwise compilers merge the two stores into one of a vector register,
 * which takes longer to fill, and to read back, than two stores.
 */
struct um_link {
    um_atomic_ptr(struct um_link) next;
    um_atomic_ptr(struct um_link) prev;
};

/* What a message in an inbox asks for. */
enum um_node_kind {
    UM_NODE_WAKE,     /* the fiber that waits with this node may run: its wait is over */
    UM_NODE_SPAWN,    /* the fiber that has this node begins */
    UM_NODE_ASIDE,    /* the same, but stopped */
    UM_NODE_CONTINUE, /* umbra_continue() for the fiber that has this node as `mail` */
    UM_NODE_CANCEL,   /* umbra_cancel(): um_cancel_request in the node's um_wait */
    UM_NODE_JOIN      /* um_join_request in the node's um_wait */
};

#define UM_FIBER_PERMIT 1u       /* flags: umbra_continue() came before the transfer */
#define UM_FIBER_LOCAL 2u        /* flags: has fiber-local values, or runs in a child process */
#define UM_FIBER_CANCELED 4u     /* flags: umbra_cancel() was called in this life */
#define UM_FIBER_SHIELDED 8u     /* flags: `shields` is valid; else there are none */
#define UM_FIBER_BARRED 16u      /* flags: canceled and not shielded: no new wait begins */
#define UM_FIBER_INTERRUPTED 32u /* flags: its wait was ended by a cancellation */
#define UM_FIBER_LIFE 6 /* flags: from this bit on, the generation that the permit is for */

/* flags: what stays when a permit is given or used */
#define UM_FIBER_KEPT                                                                              \
    (UM_FIBER_LOCAL | UM_FIBER_CANCELED | UM_FIBER_SHIELDED | UM_FIBER_BARRED |                    \
     UM_FIBER_INTERRUPTED)

#define UM_FIBER_ANYWHERE 1u /* traits: spawned without a place */
#define UM_FIBER_NAMED 2u    /* traits: has a name */
#define UM_FIBER_FOREIGN 4u  /* traits: spawned from outside: its memory returns to the depot */

/*
 * The state of a fiber is the lowest byte of its word. In a ready queue the rest says how it came
 * there, and how many woken fibers went before it since (um_fiber_wake()); else it is 0, or that of
 * the running fiber's last stay in the queue, and SLICE. A fiber that gives up its core is given
 * another word, without SLICE.
 */
#define UM_STATE_BITS 0xffu
#define UM_STATE_OVERTAKEN 0x100u  /* adds one to the number of woken fibers that went before it */
#define UM_STATE_SLICE 0x40000000u /* it runs, and core->slice_end is the end of its share */
#define UM_STATE_WOKEN 0x80000000u /* it was woken */

/*
 * So many fibers that are woken later go before one that is ready but was not woken. Beside two
 * fibers that wake each other a third one gets a sixth of its share, if all slices are equal.
 */
#define UM_WOKEN_IN_A_ROW 16

/* So many turns of ready fibers go before work without a place. */
#define UM_READY_IN_A_ROW 16

/* Prefetch distance, in fibers: some 10 ns each, against 60 to 150 ns from memory, so 6 to 15. What
 * comes too early is still in the cache. */
#define UM_FETCH_AHEAD 8

struct um_trace;

/* A core: the scheduler on one hardware thread. Programs read it through public calls only. */
struct umbra_core {
    /* other threads write this line */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u64 inbox;
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_waiter waiter; /* its wait on the inbox */

    /* the core's own */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_ptr(struct um_fiber) current; /* runs now; NULL: the scheduler. Any thread reads */
    struct um_link ready;                   /* the ready queue, the next to run first */
    struct um_timers timers;
    struct um_exceptions *exceptions; /* its thread's, or such as are not 0: fiber/own_state.h */
    struct um_trace *trace;           /* see fiber/trace_record.h; NULL: it is not traced */
    struct um_fiber *idle_fibers;     /* of this core and the default size, to be started here */
    struct um_fiber *kept[UM_FETCH_AHEAD]; /* the last that entered that list, in a ring */
    uint32_t kept_next;                    /* the oldest place of the ring, modulo UM_FETCH_AHEAD */
    um_atomic_u64 live;                    /* fibers begun and not ended here; any thread reads */
    struct um_context scheduler;           /* runs on its thread's own stack */
    struct um_fiber *watched;              /* ended last; see core/watch.h; or NULL */
    struct um_fiber *yielding;             /* has yielded to work without a place; or NULL */
    struct um_fiber *retiring;             /* has just left; see um_fiber_retire(); or NULL */
    void *retiring_result;                 /* what the function of `retiring` returned */
    uint32_t turns;               /* um_core_attend() with fibers ready and timers set, since
                                         the timers were looked at last */
    um_atomic_u32 state;          /* enum umbra_core_state; any thread reads */
    unsigned victim;              /* index of the core where it last looked for tasks */
    um_atomic_u32 no_completions; /* always 0: `asks` of a core without a ring */
    unsigned pieces;              /* that its fibers have given and not joined */
    uint32_t passed;              /* turns of ready fibers since it took work without a place */
    uint32_t takes;               /* how often it took some */
    bool called;            /* it was idle, and called for such work, which it may not take yet */
    bool starved;           /* there are tasks, but no memory for a fiber to run them */
    bool rung;              /* a timer ended its last wait: the next may be for one, too */
    bool parks;             /* it sleeps in the kernel at once: um_core_idle() */
    uint32_t turns_between; /* how many turns there may be: um_core_pace() */
    uint64_t rang;          /* when the timers were looked at last, a time stamp */
    struct um_fiber *woken; /* was woken, and put before others: a hint where woken fibers
                                         end; it may have left the queue: um_woken_place() */
    uint64_t woken_life;    /* its generation then */
    um_atomic_u64 attended; /* how often it has emptied its inbox; any thread reads */
    uint64_t slice_end;     /* see UM_STATE_SLICE; a time stamp */
    struct um_tasks tasks;  /* tasks forked here and not started */

    /* other cores write this line */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    struct um_handover handover; /* open while the core has nothing to do */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct um_unplaced spawned; /* fibers without a place, from here */

    /* fixed; other threads that spawn here read it, so it shares no line with what changes */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_runtime *runtime;
    unsigned index;
    int cpu;
    um_atomic_u64 *unplaced;   /* lists of work without a place; the runtime's count */
    const um_atomic_u32 *asks; /* not 0: its ring has something; set once (fiber/completions.h) */
    uint64_t share_cycles;     /* of a fiber that polls; 0: no limit */
    uint64_t in_place_cycles;  /* how long a waiting fiber spins before it leaves an idle core */
    uint64_t look_cycles;      /* how long an idle core looks around before it dozes */
    /* index of the core whose handover was open when this core last looked: it looks there first.
     * This core writes it only when that changes */
    unsigned last_taker;
    struct um_fiber **elsewhere; /* idle fibers of other cores, joined by fibers here; by core */
    struct um_core_more *more;   /* what is seldom used: fiber/runtime.h */
};

/* Ends the wait of a blocked fiber, which is then made ready; one for each kind of wait, beside that.
 * LATER: not now, try again. The home core. */
typedef enum um_give_up um_withdraw_fn(struct umbra_core *core, struct um_fiber *self);

/*
 * The control block of a fiber. It stands at the top of the fiber's stack, so that a blocked fiber
 * costs one page. The memory stays a control block until the runtime is destroyed.
 */
struct UM_ALIGNED(64) um_fiber {
    /* the home core's line */
    struct um_context context;
    union {
        struct um_link ready;             /* in the ready queue */
        struct um_unplaced_link unplaced; /* without a place: under its list's lock */
    };
    um_atomic_u32 state; /* enum umbra_fiber_state, never EXECUTING or SYSTEM_CALL, and see
                               UM_STATE_BITS; home core, CREATED also the collector; any thread
                               reads */
    um_atomic_u32 flags; /* home core; before there is one umbra_cancel(), under the list's lock;
                               an old home's late permit, by compare-and-swap */

    /* what another core touches to start the fiber, and a signaller to wake it */
    struct um_node node; /* home: its core, 0: none yet; done: see UM_DONE_. A life begins with the
                            function in accept, its argument in arg; it ends with the result in
                            arg */

    /* the spawner, and the core that collects the ended fiber (collector); the home core while the
       fiber is blocked */
    um_atomic_u64 generation; /* one more for each life; the collector */
    union {
        struct um_fiber *in_pool;  /* idle: next in its list; the list's owner */
        struct um_event *waits_in; /* blocked, with its own node: the event that has the node; home
                                      core */
    };
    uint32_t traits;                               /* how it was spawned; spawner, collector */
    uint32_t size_class;                           /* of its stack; fixed */
    um_atomic_ptr(const struct um_kind) waits_for; /* blocked: for what kind of thing; home core;
                                                  reports read, as the next two */
    um_atomic_ptr(const void) waits_on; /* blocked: its address; see um_waits_on_fiber() */
    um_atomic_ptr(const void) waits_at; /* blocked: where in the program the wait was called */
    um_withdraw_fn *withdraw; /* blocked: how the wait is ended; NULL: not at all; home core */
    /* UM_FETCH_AHEAD places further in the core's idle fibers: a hint, or NULL; home core */
    struct um_fiber *ahead;

    /* rarely used */
    void **local;               /* UMBRA_LOCAL_KEYS fiber-local values, or NULL; home core */
    struct um_claimed *claimed; /* blocked: the claim of its wait, or NULL; home core */
    uint64_t ticket;            /* of `claimed`; home core */
    um_atomic_ptr(struct umbra_core) owner; /* its owner sets it before `done` is ASKED; any thread
                                           reads */
    uint32_t shields;              /* shields begun and not ended, if SHIELDED; the fiber */
    uint32_t task_depth;           /* tasks with limits that it runs in; the fiber */
    struct um_node mail;           /* a message of kind UM_NODE_CONTINUE */
    um_atomic_u64 mail_for;        /* the generation that pending mail is for, 0: none is pending;
                                      senders, and the core that receives it */
    struct um_timer timer;         /* home core; deadline 0: none; the spawner sets a delay */
    struct um_slab *slab;          /* of its stack; fixed */
    struct umbra_runtime *runtime; /* fixed */
    uint64_t float_control;        /* see fiber/own_state.h; the spawner, then the fiber */
    umbra_fiber_fn *float_fn;      /* its function, if it has control words of its own; spawner */
    uint32_t slot;                 /* in the slab; fixed */
    uint32_t mutexes;              /* how many it holds, if UMBRA_ASSERT; the fiber */
    um_atomic_u64 waited;          /* see um_trace_wake(); the fiber, and what wakes it */
    um_atomic_u64 name[UMBRA_FIBER_NAME_BYTES / 8]; /* bytes; spawner, collector; reports read */
};

UM_STATIC_ASSERT(sizeof(struct um_handover) <= UMBRA_CACHE_LINE, "a piece is one line");
UM_STATIC_ASSERT(offsetof(struct um_fiber, context) == 0, "um_context_switch knows contexts");
UM_STATIC_ASSERT(offsetof(struct um_fiber, node) == 64, "a line each for the core and for others");
UM_STATIC_ASSERT(offsetof(struct um_fiber, generation) == 128, "and for who joins");
UM_STATIC_ASSERT(offsetof(struct um_fiber, local) == 192, "what is rarely used comes later");

#define UM_FRAMES_FETCHED 4 /* cache lines: frames of a call or two; Boost's: registers, too */
#define UM_BLOCK_FETCHED 3  /* cache lines of the control block, up to the generation */

/* The core that runs on this thread; NULL: none. One variable an executable or shared object. */
UM_SHARED(UM_THREAD_LOCAL struct umbra_core *um_core_self, NULL);

/* The tasks of a thread that is no core: none, and always asked, so that forks are slow. */
UM_SHARED(struct um_tasks um_tasks_of_none, {.asked = 1});

/* The tasks of the core that runs on this thread; of any other thread um_tasks_of_none. */
UM_SHARED(UM_THREAD_LOCAL struct um_tasks *um_tasks_self, &um_tasks_of_none);

/* ---- the ready queue: only its core ---- */

UM_INLINE struct um_fiber *um_fiber_of_link(struct um_link *link)
{
    return (struct um_fiber *)((char *)link - offsetof(struct um_fiber, ready));
}

UM_INLINE struct um_fiber *um_fiber_of_node(struct um_node *node)
{
    return (struct um_fiber *)((char *)node - offsetof(struct um_fiber, node));
}

UM_INLINE struct um_fiber *um_fiber_of_unplaced(struct um_unplaced_link *link)
{
    return (struct um_fiber *)((char *)link - offsetof(struct um_fiber, unplaced));
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

/* Takes the first fiber out. first: its link, which the caller has read. */
UM_ALWAYS_INLINE struct um_fiber *um_ready_take(struct umbra_core *core, struct um_link *first)
{
    um_link_join(&core->ready, um_link_next(first));
    return um_fiber_of_link(first);
}

/* relaxed, both: the core alone writes what a fiber does; other threads only look */
UM_INLINE struct um_fiber *um_core_current(const struct umbra_core *core)
{
    return um_atomic_load(&core->current, relaxed);
}

UM_INLINE void um_fiber_set_state(struct um_fiber *fiber, enum umbra_fiber_state state)
{
    um_atomic_store(&fiber->state, (uint32_t)state, relaxed);
}

/*
 * Puts the running fiber behind all that are ready, as one that was not woken, and takes the first
 * fiber out. first: its link, which the caller has read. What becomes the first then has no valid
 * `prev`, which only um_ready_remove() would read; the queue is not empty, so its end has.
 */
UM_ALWAYS_INLINE struct um_fiber *um_ready_turn(struct umbra_core *core, struct um_fiber *from,
                                                struct um_link *first)
{
    um_fiber_set_state(from, UMBRA_FIBER_READY);
    um_ready_push(core, from);
    um_atomic_store(&core->ready.next, um_link_next(first), relaxed);
    return um_fiber_of_link(first);
}

/* True if the fiber's function has returned. Its home core knows by the state; other threads may
 * learn it only when that core has told the end in `done`. acquire: see um_fiber_is() */
UM_INLINE bool um_fiber_has_ended(const struct um_fiber *fiber)
{
    return um_atomic_load(&fiber->state, acquire) == UMBRA_FIBER_TERMINATED ||
           um_done_is_told(um_atomic_load(&fiber->node.done, acquire));
}

/* relaxed: it is read last (um_fiber_is()), or the caller's core owns the fiber */
UM_INLINE uint64_t um_fiber_generation(const struct um_fiber *fiber)
{
    return um_atomic_load(&fiber->generation, relaxed);
}

/*
 * The holder of a mutex, in one word that is never 0: a fiber in one life, or a thread. A fiber's
 * word has the address of its control block, below 2^48 and a multiple of 64, and above it 21 bits
 * of the generation. So fibers that live at the same time differ, and a life differs from the
 * 2,097,151 that follow it in the same memory.
 *
 * A thread's word is odd. The C library gives the address of a thread control block to a later
 * thread. So a thread's word has that address, and above it 21 bits of the kernel's number of the
 * thread: it differs from the word of any thread that has ended and left it the block, until the
 * kernel has given all its numbers. All copies of the library in the process make the same word. A
 * thread keeps its word in a child of fork(2), where its number is another.
 */
#define UM_SELF_LIFE_SHIFT 43
#define UM_SELF_LIFE ((uintptr_t)1 << UM_SELF_LIFE_SHIFT)
#define UM_SELF_THREAD ((uintptr_t)1)
#define UM_SELF_UNKNOWN UM_SELF_THREAD /* no thread's: no block is at address 0 */

UM_INLINE uintptr_t um_fiber_self(const struct um_fiber *fiber, uint64_t generation)
{
    return (uintptr_t)generation << UM_SELF_LIFE_SHIFT | (uintptr_t)fiber >> 5;
}

/* The word of the calling thread, once it was asked for. */
UM_SHARED(UM_THREAD_LOCAL uintptr_t um_thread_word, UM_SELF_UNKNOWN);

UM_LINKONCE UM_COLD uintptr_t um_thread_self_first(void);

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD uintptr_t um_thread_self_first(void)
{
    um_thread_word =
        (uintptr_t)um_os_thread() << UM_SELF_LIFE_SHIFT | um_arch_thread_id() >> 5 | UM_SELF_THREAD;
    return um_thread_word;
}
#endif /* UMBRA_IMPLEMENTATION */

UM_INLINE uintptr_t um_thread_self(void)
{
    uintptr_t self = um_thread_word;

    return UM_LIKELY(self != UM_SELF_UNKNOWN) ? self : um_thread_self_first();
}

/* The address of the control block, a fiber's or a thread's, without its lowest 6 bits. */
UM_INLINE uintptr_t um_self_block(uintptr_t self)
{
    return (self & (UM_SELF_LIFE - 1) & ~UM_SELF_THREAD) << 5;
}

/*
 * True if the handle's fiber is in this state and has this home. A handle may be stale, and its
 * fiber may begin another life at any moment. So a call first reads with acquire what it wants to
 * know, and the generation last. The writes of a life follow its generation: if the generation
 * still fits, all that was read belongs to this life. Pairs with um_pool_give_back() and
 * um_fiber_prepare().
 */
UM_INLINE bool um_fiber_is(struct umbra_fiber handle, enum umbra_fiber_state state,
                           const struct umbra_core *home)
{
    return um_atomic_load(&handle.block->state, acquire) == (uint32_t)state &&
           um_atomic_load(&handle.block->node.home, acquire) == (uintptr_t)home &&
           um_fiber_generation(handle.block) == handle.generation;
}

/* relaxed: only the home core writes them while the fiber lives there */
UM_INLINE uint32_t um_fiber_flags(const struct um_fiber *fiber)
{
    return um_atomic_load(&fiber->flags, relaxed);
}

/* True if the fiber has been canceled and may not begin to wait. The fiber, or its home core. */
UM_INLINE bool um_fiber_barred(const struct um_fiber *fiber)
{
    return UM_UNLIKELY(um_fiber_flags(fiber) & UM_FIBER_BARRED);
}

/* relaxed: it changes only between two lives, and when a core takes a fiber without a place */
UM_INLINE struct umbra_core *um_fiber_home(const struct um_fiber *fiber)
{
    return (struct umbra_core *)um_atomic_load(&fiber->node.home, relaxed);
}

/* Puts the fiber at the end of its core's ready queue. The core. */
UM_INLINE void um_fiber_make_ready(struct umbra_core *core, struct um_fiber *fiber)
{
    um_fiber_set_state(fiber, UMBRA_FIBER_READY);
    um_ready_push(core, fiber);
}

/* ---- woken fibers go first ---- */

/*
 * The ready queue is one ring, so that a switch does not ask which kind of fiber comes next:
 *
 *     woken, oldest first | not woken (yielded, or spawned here), oldest first
 *
 * A woken fiber goes behind all that were woken. The search for that place begins at core->woken if
 * that is still in the queue, else at the front, and goes past woken fibers. Nothing is written
 * when a fiber leaves the queue; whether core->woken is still in it shows in its state. Once it
 * runs it is `current`; and before another fiber runs it is given a state without WOKEN: by a
 * yield, a wait, a transfer, or its end.
 *
 * A fiber that was not woken lets UM_WOKEN_IN_A_ROW woken ones go before it, counted in its state
 * while it is the first of its kind; the next woken fiber goes behind it. So it runs after those
 * that were ready when it came, and so many that were woken later for itself and for each fiber of
 * its kind before it.
 */

UM_LINKONCE void um_woken_insert(struct umbra_core *core, struct um_fiber *fiber);

/* Makes a fiber ready whose wait is over, or that was sent to this core: it goes before those that
 * were not woken. The core. */
UM_INLINE void um_fiber_wake(struct umbra_core *core, struct um_fiber *fiber)
{
    /* release: after the generation; pairs with um_woken_place() on the core of an earlier life */
    um_atomic_store(&fiber->state, UMBRA_FIBER_READY | UM_STATE_WOKEN, release);
    if (um_link_next(&core->ready) == &core->ready)
        um_ready_push(core, fiber);
    else
        um_woken_insert(core, fiber);
}

/* True if the address is in the stack of this fiber. */
UM_INLINE bool um_fiber_stack_has(const struct um_fiber *fiber, uintptr_t address)
{
    /* the control block stands right above the stack */
    return (uintptr_t)fiber - address <= fiber->context.stack_bytes;
}

/* True if the caller runs on the stack of this fiber, and not on an alternate signal stack. */
UM_INLINE bool um_fiber_on_stack(const struct um_fiber *fiber)
{
    return um_fiber_stack_has(fiber, um_arch_stack_pointer());
}

#ifdef UMBRA_IMPLEMENTATION
/* Calls that wait, made on an alternate signal stack; and calls for a fiber that has ended. */
UM_LINKONCE UM_COLD int um_why_off_stack(void)
{
    return um_why(-EPERM, "the caller is on an alternate signal stack");
}

UM_LINKONCE UM_COLD int um_why_ended(void)
{
    return um_why(-ESRCH, "the fiber has ended");
}
#endif /* UMBRA_IMPLEMENTATION */

/* ---- switching ---- */

/* In the word that a core's `asks` leads to: only a call says whether there is something. */
#define UM_ASKS_AT_TIMES 0x80000000u

/* True if its ring has something. relaxed: as below */
UM_INLINE bool um_core_has_completions(const struct umbra_core *core)
{
    return (um_atomic_load(core->asks, relaxed) & ~UM_ASKS_AT_TIMES) != 0;
}

/* Not 0 if the core has a message or a timer, or its ring something. */
UM_ALWAYS_INLINE uint64_t um_core_own_words(const struct umbra_core *core)
{
    /* relaxed: a hint; um_core_attend() takes the message or the work with acquire */
    return um_atomic_load(&core->inbox, relaxed) | core->timers.set |
           um_atomic_load(core->asks, relaxed);
}

/* The same, or there is work without a place. */
UM_ALWAYS_INLINE uint64_t um_core_attention_words(const struct umbra_core *core)
{
    return um_core_own_words(core) | um_atomic_load(core->unplaced, relaxed); /* as above */
}

/* True if there is any of that at this moment, as far as a look tells. */
UM_ALWAYS_INLINE bool um_core_attention(const struct umbra_core *core)
{
    return (um_core_attention_words(core) & ~(uint64_t)UM_ASKS_AT_TIMES) != 0;
}

/* True if there is a message, something of the ring, or work without a place. relaxed:
 * taking it acquires */
UM_INLINE bool um_core_has_mail(const struct umbra_core *core)
{
    return (um_atomic_load(&core->inbox, relaxed) | um_atomic_load(core->unplaced, relaxed) |
            um_core_has_completions(core)) != 0;
}

/* True if a hungry core has asked, and there are tasks for it. The core. */
UM_ALWAYS_INLINE bool um_core_must_share(struct umbra_core *core)
{
    return um_tasks_asked(&core->tasks) && um_tasks_some(&core->tasks);
}

/* True if something may wait for the running fiber to give up the core: another fiber, or what the
 * core attends to. A timer counts, whenever its time is. */
UM_ALWAYS_INLINE bool um_core_waited_for(struct umbra_core *core)
{
    uintptr_t others = (uintptr_t)um_link_next(&core->ready) ^ (uintptr_t)&core->ready;

    return (others | um_core_attention_words(core)) != 0 || um_core_must_share(core);
}

/* True if a fiber that leaves must take the slow path: for attention, or because the fiber has
 * something apart (fiber/own_state.h). One condition: each branch costs as much as a load. */
UM_ALWAYS_INLINE bool um_core_leave_slowly(const struct umbra_core *core)
{
    return (um_core_attention_words(core) | um_exceptions_some(core->exceptions)) != 0;
}

/* Jumps to a fiber that is out of the ready queue; returns when `from` runs again. The core. */
UM_ALWAYS_INLINE void um_fiber_switch(struct umbra_core *core, struct um_fiber *from,
                                      struct um_fiber *to)
{
    um_atomic_store(&core->current, to, relaxed); /* other threads only look */
    um_context_switch(&from->context, &to->context);
}

/* Prefetches lines `first` to `last` of a control block; below 0: of its stack's top. NULL:
 * nothing. */
UM_INLINE void um_fiber_fetch(const struct um_fiber *fiber, int first, int last)
{
    const char *block = (const char *)fiber; /* its stack is right below it */

    for (int line = first; line <= last && block; line++)
        um_arch_prefetch_write(block + (ptrdiff_t)line * 64);
}

UM_LINKONCE int um_fiber_take_interrupt(struct um_fiber *fiber);

#ifdef UMBRA_IMPLEMENTATION

/* The link from which on there is a place for a woken fiber. The core. */
UM_INLINE struct um_link *um_woken_place(struct umbra_core *core)
{
    struct um_fiber *last = core->woken;

    /* acquire: it may have ended, and have been woken on another core in its next life; then the
     * generation below is another, too. Pairs with um_fiber_wake() */
    return last && last != um_core_current(core) &&
                   um_atomic_load(&last->state, acquire) == (UMBRA_FIBER_READY | UM_STATE_WOKEN) &&
                   um_fiber_generation(last) == core->woken_life
               ? &last->ready
               : &core->ready;
}

/* True if a woken fiber may go before this one, which is ready. False: this one was woken itself, or
 * enough have gone before it. The core. */
UM_INLINE bool um_fiber_give_way(struct um_fiber *fiber)
{
    uint32_t state = um_atomic_load(&fiber->state, relaxed); /* the core alone writes it, both */

    if (state >= UMBRA_FIBER_READY + UM_WOKEN_IN_A_ROW * UM_STATE_OVERTAKEN)
        return false;
    um_atomic_store(&fiber->state, state + UM_STATE_OVERTAKEN, relaxed);
    return true;
}

/* Puts a woken fiber into a queue that is not empty. The core. */
UM_LINKONCE void um_woken_insert(struct umbra_core *core, struct um_fiber *fiber)
{
    struct um_link *place = um_woken_place(core);
    struct um_link *next;

    if (place == &fiber->ready) /* it is not in the queue: it was woken before, too */
        place = &core->ready;
    next = um_link_next(place);
    while (next != &core->ready && !um_fiber_give_way(um_fiber_of_link(next))) {
        place = next;
        next = um_link_next(next);
    }
    um_link_join(place, &fiber->ready);
    um_link_join(&fiber->ready, next);
    core->woken = fiber;
    core->woken_life = um_fiber_generation(fiber);
}

UM_INLINE bool um_ready_empty(const struct umbra_core *core)
{
    return um_link_next(&core->ready) == &core->ready;
}

/* Takes a fiber out, from any place of the queue. */
UM_INLINE void um_ready_remove(struct umbra_core *core, struct um_fiber *fiber)
{
    struct um_link *link = &fiber->ready;

    um_link_join(um_link_next(&core->ready) == link ? &core->ready /* see um_ready_turn() */
                                                    : um_atomic_load(&link->prev, relaxed),
                 um_link_next(link));
}

/*
 * True if the core takes work without a place now: there is some, and no fiber is ready or enough
 * have gone before it. So what a core has begun goes on before it begins more. The scheduler takes
 * it, and of tasks a fiber that works (um_work_next()). relaxed: a hint; taking it acquires
 */
UM_INLINE bool um_unplaced_due(struct umbra_core *core)
{
    return um_atomic_load(core->unplaced, relaxed) != 0 &&
           (um_ready_empty(core) || core->passed++ >= UM_READY_IN_A_ROW);
}

UM_INLINE uint32_t um_fiber_get_state(const struct um_fiber *fiber)
{
    return um_atomic_load(&fiber->state, relaxed) & UM_STATE_BITS;
}

UM_LINKONCE void um_copy_text(char *to, size_t bytes, const char *text);

#ifdef UMBRA_IMPLEMENTATION
/* Copies a text, and zeros up to so many bytes, the last of which is 0. A text that is longer is cut
 * off between two characters (UTF-8). */
UM_LINKONCE void um_copy_text(char *to, size_t bytes, const char *text)
{
    strncpy(to, text, bytes);
    if (to[bytes - 1] == 0)
        return;
    to[bytes - 1] = 0;
    /* up to the first byte of the character that is cut: the others begin with the bits 10 */
    for (size_t at = bytes - 1; at > 0 && (text[at] & 0xc0) == 0x80; at--)
        to[at - 1] = 0;
}
#endif /* UMBRA_IMPLEMENTATION */

/* Copies bytes into as many words as they fill. relaxed, both: a report may see a name that is only
 * partly written, which does no harm */
UM_INLINE void um_words_write(um_atomic_u64 *words, const char *bytes, unsigned count)
{
    for (unsigned i = 0; i < count / 8; i++) {
        uint64_t word;

        memcpy(&word, bytes + i * 8, 8);
        um_atomic_store(&words[i], word, relaxed);
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

/* Tells ThreadSanitizer the fiber's name, or its address if it has none, as reports print it. Any
 * thread; the fiber has a context. */
#ifdef UM_CONTEXT_TSAN
UM_LINKONCE void um_fiber_tell_name(const struct um_fiber *fiber); /* core/report.h */
#else
UM_INLINE void um_fiber_tell_name(const struct um_fiber *fiber)
{
    (void)fiber;
}
#endif

UM_INLINE void um_fiber_set_flags(struct um_fiber *fiber, uint32_t flags)
{
    um_atomic_store(&fiber->flags, flags, relaxed);
}

/* The flags of a permit. They name the life: a late permit does not count for the next one. */
UM_INLINE uint32_t um_fiber_permit(uint64_t generation)
{
    return UM_FIBER_PERMIT | (uint32_t)generation << UM_FIBER_LIFE;
}

/* True if the fiber has a permit for its present life. The home core. */
UM_INLINE bool um_fiber_permitted(const struct um_fiber *fiber)
{
    return (um_fiber_flags(fiber) & ~UM_FIBER_KEPT) == um_fiber_permit(um_fiber_generation(fiber));
}

/* ---- the fiber's flags: the fiber, or its home core ---- */

/* Sets BARRED anew, after CANCELED or SHIELDED has changed in `flags`. */
UM_INLINE void um_fiber_set_barred(struct um_fiber *fiber, uint32_t flags)
{
    bool barred = (flags & (UM_FIBER_CANCELED | UM_FIBER_SHIELDED)) == UM_FIBER_CANCELED;

    um_fiber_set_flags(fiber, (flags & ~UM_FIBER_BARRED) | (barred ? UM_FIBER_BARRED : 0));
}

/* Clears INTERRUPTED. Always -ECANCELED. */
UM_LINKONCE int um_fiber_take_interrupt(struct um_fiber *fiber)
{
    um_fiber_set_flags(fiber, um_fiber_flags(fiber) & ~UM_FIBER_INTERRUPTED);
    return -ECANCELED;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
