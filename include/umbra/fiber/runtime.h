/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The runtime: what its cores share, and the list of all runtimes that reports, debuggers and
 * fork(2) go through. Private; included by fiber.h.
 *
 * Any thread may post a message to a core or poke it. The comment of a field says which thread
 * writes it, or which lock protects it. In a child process of fork(2) the parent's runtimes have no
 * threads: they are marked as inherited, and calls that need these threads return -EPERM.
 */
#ifndef UMBRA_FIBER_RUNTIME_H
#define UMBRA_FIBER_RUNTIME_H

#include <pthread.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/loop_history.h>
#include <umbra/base/why.h>
#include <umbra/core/protocol.h>
#include <umbra/cpu.h>
#include <umbra/fiber/control_block.h>
#include <umbra/os/run_once.h>
#include <umbra/shadow.h>
#include <umbra/stack.h>
#include <umbra/topology.h>
#include <umbra/wait.h>
#include <umbra/wait/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_CORES_MOST 1024
#define UM_SIZE_CLASSES 40 /* of stacks: 0 the runtime's size, k > 0 a page times 2^(k - 1) */

/* The idle fibers of a core that are in no core's list, and the slabs that new ones come from. */
struct um_depot {
    pthread_mutex_t lock;
    /* linked by in_pool; under lock. Those in `lean` have no stack now: core/trim.h gave it back */
    struct um_fiber *idle[UM_SIZE_CLASSES];
    struct um_fiber *lean[UM_SIZE_CLASSES];
    bool
        called; /* another core has put a fiber into idle, and called the core for that; under lock */
    /* the slab of the next new fiber, and its slot there: under lock; reports read without */
    um_atomic_ptr(struct um_slab) slab[UM_SIZE_CLASSES];
    um_atomic_u32 next_slot[UM_SIZE_CLASSES];
};

/* What became of a fork where tasks have limits; see fiber/task_limits.h. */
enum um_became { UM_BECAME_INLINE, UM_BECAME_CALL, UM_BECAME_FIBER, UM_BECAME };

struct um_completions;

/* What the watchdog knows of a core's present slice; see core/watchdog.h. The watchdog's own. */
struct um_slice {
    struct um_fiber *fiber; /* that it saw; NULL: none runs */
    uint64_t attended;      /* the core's count then */
    uint64_t since;         /* since when, um_os_now_ns() */
    bool told;              /* the fiber was reported */
};

/* The part of a core that is seldom used. */
struct um_core_more {
    struct um_slice slice;
    struct um_depot depot;
    uint64_t trim_next; /* when it may give back stacks again, a time stamp; the core */
    uint64_t grants;    /* granted tasks forked here and not joined; the core */
    um_atomic_u64 became[UM_BECAME];           /* how many; the core writes, any thread reads */
    struct um_history histories[UM_HISTORIES]; /* loops without a grain (task/ranges.h); the core */
    pthread_t thread;
    struct umbra_affinity *before;    /* undoes its thread's binding; the thread */
    struct um_exceptions *exceptions; /* its thread's; the thread */
    struct um_trace *trace;           /* see fiber/trace_record.h; fixed */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_shadow shadow;
    struct um_completions *completions; /* fiber/completions.h; NULL: none; the core */
    bool io_begun;                      /* its way is chosen (umbra/io.h); the core */
    uint32_t io_woken; /* fibers woken by umbra/io.h that have not run since; the core */
    bool has_shadow;
    int sibling;            /* the hardware thread kept for its shadow, -1: none; set once */
    int start_error;        /* its thread writes before it is counted as started */
    char why[UM_WHY_BYTES]; /* likewise: the reason of start_error */
};

/* What a header above the core adds to a runtime, and what ends with the runtime. */
struct um_attached {
    /* Frees it, when the cores have ended and their fibers are still there; may block. */
    void (*end)(struct um_attached *attached);
    struct um_attached *next; /* fixed when it is attached */
};

enum um_verdict { UM_VERDICT_NONE, UM_VERDICT_ENDED, UM_VERDICT_DEADLOCK };

struct umbra_runtime {
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u64 unplaced; /* see core/idle.h */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u64 activity; /* see core/quiet.h */
    um_atomic_u64 holds; /* by umbra_hold(), and no others; likewise */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 idle[UM_CORES_MOST / UM_IDLE_BITS]; /* a bit for each core that dozes or sleeps */

    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u64 granted; /* tasks; see fiber/task_limits.h */

    UM_ALIGNED(UMBRA_CACHE_LINE) struct um_lock outside_lock;
    struct umbra_task *outside_first; /* linked by prev, oldest first; under outside_lock, both */
    struct umbra_task *outside_last;

    pthread_mutex_t lock;              /* for all that follows, up to old_limits */
    pthread_cond_t changed;            /* verdict, waiting, started or joins */
    enum um_verdict verdict;           /* for the threads in umbra_runtime_wait */
    unsigned waiting;                  /* threads in umbra_runtime_wait */
    unsigned started;                  /* cores with a thread that is up, or has failed */
    struct um_join_thread *joins;      /* threads that join fibers of the runtime */
    struct um_task_limits *old_limits; /* limits of tasks that there have been */

    um_atomic_ptr(struct um_attached) helpers; /* blocking/helpers.h; under lock; read without */
    struct um_attached *ends_last;             /* a list of others; under lock */

    um_atomic_u32 stopping;     /* 1: a core ends as soon as it has nothing to do */
    um_atomic_u32 tasking;      /* 1: some core has shared tasks at some time */
    um_atomic_u32 next_core;    /* for spawns from outside without a place */
    um_atomic_uptr task_limits; /* the limits of tasks, or 0; see fiber/task_limits.h */
    struct umbra_core **core;   /* fixed, as all that follows */
    unsigned cores;
    bool report; /* print deadlocks */
    bool shadows;
    bool inherited;        /* the parent process's; um_runtimes_in_child() writes */
    size_t stack_bytes;    /* of size class 0 */
    uint64_t share_cycles; /* of a fiber that polls (um_slice_look()), 0: no limit */
    uint64_t watchdog_ns;  /* until a fiber that holds its core is reported, 0: never */
    pthread_t watchdog;    /* if watchdog_ns is not 0 and all cores have started; the creator */
    bool has_watchdog;
    um_atomic_u32 watchdog_stop;     /* 1: the watchdog ends */
    uint64_t linger_cycles;          /* how long an idle core waits before it counts as asleep */
    unsigned blocking_threads;       /* as the option */
    struct umbra_wait_options wait;  /* for shadows */
    struct umbra_wait_policy policy; /* of idle cores */
    struct um_polls polls;           /* how cores and fibers poll in place; set before they start */
    uintptr_t creator; /* um_thread_self(); holds the runtime, except in umbra_runtime_wait */
    struct umbra_topology *topology;
    bool own_topology;
    uint64_t signals; /* what the creator had, as the next: what cores and helpers begin with */
    struct umbra_affinity *processors;        /* NULL: threads are not bound */
    int dump_signal;                          /* 0: none */
    um_atomic_ptr(struct umbra_runtime) next; /* in um_runtimes; changed under its lock */
};

/* All runtimes of this executable or shared object. */
struct um_runtimes {
    pthread_mutex_t lock;
    um_atomic_ptr(struct umbra_runtime) first;
    struct um_run_once once; /* for key and error */
    pthread_key_t key;       /* a core's thread has its core there; see um_core_thread_exits() */
    int error;               /* of um_runtimes_init(), which runs once */
    um_atomic_u32 reports;   /* under way in signal handlers; see um_report_begin() */
};

UM_SHARED(struct um_runtimes um_runtimes,
          {.lock = PTHREAD_MUTEX_INITIALIZER, .once = {UM_RUN_NEVER}});

/* The runtime of the calling thread's core; NULL: it is no core. */
UM_INLINE struct umbra_runtime *um_runtime_self(void)
{
    return um_core_self ? um_core_self->runtime : NULL;
}

/* Counts a fiber that begins here (1) or ends (-1). The core. */
UM_INLINE void um_core_count(struct umbra_core *core, int more)
{
    uint64_t live = um_atomic_load(&core->live, relaxed); /* only the core writes it */

    um_atomic_store(&core->live, live + (uint64_t)more,
                    release); /* pairs with um_runtime_empty() */
}

struct um_text;

/* A kind of thing that fibers wait for; reports read it. */
struct um_kind {
    const char *name;
    /* adds to the text what a report says besides the address; NULL: nothing. It reads the thing,
       which must not be freed meanwhile, so it is called only while all cores are idle */
    void (*describe)(struct um_text *text, const void *on);
};

/* What a fiber in state "system call" waits for. Stored as blocked: the kind tells the two apart. */
enum um_system_call {
    UM_SYSTEM_BLOCKING, /* a function on a helper thread: umbra/blocking.h */
    UM_SYSTEM_READ,     /* umbra/io.h, as all that follow */
    UM_SYSTEM_WRITE,
    UM_SYSTEM_RECV,
    UM_SYSTEM_SEND,
    UM_SYSTEM_ACCEPT,
    UM_SYSTEM_RECVMSG,
    UM_SYSTEM_SENDMSG,
    UM_SYSTEM_CONNECT,
    UM_SYSTEM_POLL,
    UM_SYSTEM_CALLS
};

UM_SHARED(const struct um_kind um_kind_system[UM_SYSTEM_CALLS], {{"blocking call", NULL},
                                                                 {"read", NULL},
                                                                 {"write", NULL},
                                                                 {"recv", NULL},
                                                                 {"send", NULL},
                                                                 {"accept", NULL},
                                                                 {"recvmsg", NULL},
                                                                 {"sendmsg", NULL},
                                                                 {"connect", NULL},
                                                                 {"poll", NULL}});

/* True if a blocked fiber that waits for this is in a system call. kind: NULL is allowed. */
UM_INLINE bool um_kind_is_system(const struct um_kind *kind)
{
    return (uintptr_t)kind - (uintptr_t)um_kind_system < sizeof(um_kind_system);
}

/* A join by the inlined path: waits_at is not set, but the saved context says the place. */
UM_SHARED(const struct um_kind um_kind_join_inline, {"join", NULL});

/* A fiber's address for waits_on, with a mark in bit 0. By this one word a report knows that it may
 * read the fiber's name, even if the waiting fiber writes its other fields meanwhile. */
UM_INLINE const void *um_waits_on_fiber(const struct um_fiber *fiber)
{
    return (const char *)fiber + 1;
}

/* Gives a core a message. Any thread, signal handlers too; never switches or blocks. */
UM_INLINE void um_core_post(struct umbra_core *core, struct um_node *node)
{
    if (um_inbox_push(&core->inbox, node))
        umbra_wake(&core->waiter);
}

#ifdef UMBRA_IMPLEMENTATION

UM_SHARED(const struct um_kind um_kind_join, {"join", NULL});
/* A transfer by the slow path, which sets waits_at. Of a fiber that stopped by the inlined path the
 * saved context says where. */
UM_SHARED(const struct um_kind um_kind_transfer, {"transfer", NULL});

/* Makes a core look around. Any thread; never switches or blocks. */
UM_INLINE void um_core_poke(struct umbra_core *core)
{
    if (um_inbox_poke(&core->inbox))
        umbra_wake(&core->waiter);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
