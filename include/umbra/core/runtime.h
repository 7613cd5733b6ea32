/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the cores of one runtime share. Private; included by core.h.
 */
#ifndef UMBRA_CORE_RUNTIME_H
#define UMBRA_CORE_RUNTIME_H

#include <pthread.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/core/fiber.h>
#include <umbra/cpu.h>
#include <umbra/os/run_once.h>
#include <umbra/protocol/claim.h>
#include <umbra/protocol/idle.h>
#include <umbra/protocol/inbox.h>
#include <umbra/protocol/quiet.h>
#include <umbra/shadow.h>
#include <umbra/stack.h>
#include <umbra/topology.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_CORES_MOST 1024
#define UM_SIZE_CLASSES 40 /* of stacks: 0 the runtime's size, k > 0 a page times 2^(k - 1) */

/* Idle fibers that belong to no core's list, and the slabs that new ones come from. */
struct um_depot {
    pthread_mutex_t lock;
    struct um_fiber *idle[UM_SIZE_CLASSES]; /* linked by in_pool; under lock */
    /* where the next new one is, and which: under lock; reports read without */
    _Atomic(struct um_slab *) slab[UM_SIZE_CLASSES];
    um_atomic_u32 next_slot[UM_SIZE_CLASSES];
};

/* The part of a core that is seldom used. */
struct um_core_more {
    struct um_depot depot;
    pthread_t thread;
    struct umbra_affinity *before; /* what undoes its thread's binding; the thread */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_shadow shadow;
    bool has_shadow;
    int sibling;     /* the hardware thread that is kept for its shadow, -1: none; set once */
    int start_error; /* its thread writes before it is counted as started */
    char why[UM_WHY_BYTES]; /* likewise: the reason of that */
};

enum um_verdict { UM_VERDICT_NONE, UM_VERDICT_ENDED, UM_VERDICT_DEADLOCK };

struct umbra_runtime {
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u64 unplaced; /* see protocol/idle.h */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u64 activity; /* see protocol/quiet.h */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 idle[UM_CORES_MOST / UM_IDLE_BITS]; /* cores that sleep */

    UM_ALIGNED(UMBRA_CACHE_LINE) pthread_mutex_t unplaced_lock;
    struct um_fiber *unplaced_first; /* linked by in_pool, oldest first; under unplaced_lock */
    struct um_fiber *unplaced_last;

    pthread_mutex_t lock;         /* for the rest up to `started` */
    pthread_cond_t changed;       /* verdict, waiting, started */
    enum um_verdict verdict;      /* of the cores, for who waits for the runtime */
    unsigned waiting;             /* threads in umbra_runtime_wait */
    unsigned started;             /* cores whose thread is up, or has failed */
    struct um_join_thread *joins; /* threads that join its fibers */

    um_atomic_u32 stopping;   /* cores end when they have nothing to do */
    um_atomic_u32 tasking;    /* some core has shared tasks, once */
    um_atomic_u32 next_core;  /* for spawns from outside without a place */
    struct umbra_core **core; /* fixed, as all that follows */
    unsigned cores;
    bool report; /* print deadlocks */
    bool shadows;
    bool inherited;                  /* the parent process's; um_runtimes_in_child() writes */
    size_t stack_bytes;              /* of size class 0 */
    uint64_t linger_cycles;          /* how long an idle core waits before it counts as asleep */
    struct umbra_wait_options wait;  /* for shadows */
    struct umbra_wait_policy policy; /* of idle cores and waiting threads */
    pthread_t creator;               /* the thread that holds it but in umbra_runtime_wait */
    struct umbra_topology *topology;
    bool own_topology;
    int dump_signal;                      /* 0: none */
    _Atomic(struct umbra_runtime *) next; /* in um_runtimes; changed under its lock */
};

/* All runtimes of this executable or shared object: for reports, debuggers, and fork(2). */
struct um_runtimes {
    pthread_mutex_t lock;
    _Atomic(struct umbra_runtime *) first;
    struct um_run_once once; /* for key, has_key and error */
    pthread_key_t key;       /* cores' threads have their core there; see um_core_thread_exits() */
    bool has_key;            /* um_runtimes_end() deletes it */
    int error;               /* of what is done once */
    um_atomic_u32 reports;   /* in signal handlers; see um_report_begin() */
};

UM_SHARED struct um_runtimes um_runtimes = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                              .once = {UM_RUN_NEVER}};

/* The runtime of the calling thread's core; NULL: it is no core. */
UM_INLINE struct umbra_runtime *um_runtime_self(void)
{
    return um_core_self ? um_core_self->runtime : NULL;
}

/* One more fiber begun there, or one less. The core. */
UM_INLINE void um_core_count(struct umbra_core *core, int more)
{
    uint64_t live = um_atomic_load(&core->live, relaxed); /* its own */

    um_atomic_store(&core->live, live + (uint64_t)more,
                    release); /* pairs with um_runtime_empty() */
}

struct um_text;

/* A kind of thing that fibers wait for, for reports. */
struct um_kind {
    const char *name;
    /* adds what a report says of one besides its address, or NULL: then nothing. It reads the thing,
       which must not go meanwhile: only while all cores are idle */
    void (*describe)(struct um_text *text, const void *on);
};

/* A join that was blocked in line: waits_at does not count, its context tells. */
UM_SHARED const struct um_kind um_kind_join_inline = {"join", NULL};

/* For waits_on: marked, so that a report knows by this one word that it may read the fiber's name,
 * whatever else the fiber that waits writes meanwhile. */
UM_INLINE const void *um_waits_on_fiber(const struct um_fiber *fiber)
{
    return (const char *)fiber + 1;
}

/* Gives a core a message. Any thread; never blocks. */
UM_INLINE void um_core_post(struct umbra_core *core, struct um_node *node)
{
    if (um_inbox_push(&core->inbox, node))
        umbra_wake(&core->waiter);
}

#ifndef UMBRA_DECLARE

/* fork(2): the child has none of the runtimes' threads. */
UM_LINKONCE UM_COLD void um_runtimes_before_fork(void)
{
    pthread_mutex_lock(&um_runtimes.lock);
    pthread_mutex_lock(&um_slabs.lock);
}

UM_LINKONCE UM_COLD void um_runtimes_in_parent(void)
{
    pthread_mutex_unlock(&um_slabs.lock);
    pthread_mutex_unlock(&um_runtimes.lock);
}

/* Nothing runs them in the child. Those of its own come into an empty list. */
UM_LINKONCE UM_COLD void um_runtimes_inherit(void)
{
    struct umbra_runtime *runtime =
        um_atomic_load(&um_runtimes.first, relaxed); /* the only thread */

    for (; runtime; runtime = um_atomic_load(&runtime->next, relaxed)) /* as above */
        runtime->inherited = true;
    um_atomic_store(&um_runtimes.first, NULL, relaxed); /* as above */
}

/*
 * The child's only thread has been a core: it goes on in the fiber that forked, as a thread that is none,
 * on the processors that it began with. At the end of the fiber's function, um_fiber_end() looks.
 */
UM_LINKONCE UM_COLD void um_core_in_child(struct umbra_core *core)
{
    struct um_fiber *fiber = um_core_current(core);

    if (fiber)
        um_fiber_set_flags(fiber, um_fiber_flags(fiber) | UM_FIBER_LOCAL);
    um_core_self = NULL;
    um_tasks_self = &um_tasks_of_none;
    umbra_topology_unbind(core->runtime->topology, core->more->before);
}

UM_LINKONCE UM_COLD void um_runtimes_in_child(void)
{
    if (um_core_self)
        um_core_in_child(um_core_self);
    um_runtimes_inherit();
    um_atomic_store(&um_runtimes.reports, 0, relaxed); /* the only thread, both */
    um_atomic_store(&um_slabs.looking, 0, relaxed);
    um_slabs.runtimes = 0; /* which leaves the handler where it is, until one of the child's ends */
    pthread_mutex_unlock(&um_slabs.lock);
    pthread_mutex_unlock(&um_runtimes.lock);
}

/* As um_sleepers_end(). A program that exits may still have runtimes, whose cores use the key. */
UM_LINKONCE UM_COLD __attribute__((__destructor__(101))) void um_runtimes_end(void)
{
    if (um_runtimes.has_key && !um_atomic_load(&um_runtimes.first, relaxed)) { /* only compared */
        um_runtimes.has_key = false;
        pthread_key_delete(um_runtimes.key);
    }
}

UM_SHARED const struct um_kind um_kind_join = {"join", NULL};
/* A transfer not in line: as long as it lasts waits_at counts, else the context of what is stopped. */
UM_SHARED const struct um_kind um_kind_transfer = {"transfer", NULL};

/* Makes a core look around. */
UM_INLINE void um_core_poke(struct umbra_core *core)
{
    if (um_inbox_poke(&core->inbox))
        umbra_wake(&core->waiter);
}

#endif /* UMBRA_DECLARE */

#endif
