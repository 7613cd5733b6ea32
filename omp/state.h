/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What libumbra_omp has: settings, tasks, members, teams and pools. It knows nothing of what is
 * done with them; library.h says which file does what. Private.
 *
 * A member is a thread's place in a team, and has what the thread needs there. Each thread that
 * calls OpenMP outside regions has a team of its own, of one member at level 0. A member that
 * begins a region takes a team of its pool: one of so many members. All teams of a pool have the
 * same threads, those of one umbra_team, whose parts stay with their threads: a thread-local
 * variable is that of the member. So a pool belongs to one thread at one level of nesting, and a
 * region locks nothing.
 *
 *     thread   root team (1 member)
 *                 member 0   pool   umbra_team of 4
 *                                   team of 4   member 0   pool ...   a region inside the region
 *                                               member 1   pool ...
 *                                   team of 2   ...
 *
 * Lifetimes. Pools and teams live until their root's thread ends. A task's memory stays its team's:
 * what reads a task that has ended reads a task.
 */
#ifndef UMBRA_OMP_STATE_H
#define UMBRA_OMP_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/task/protocol.h>
#include <umbra/team.h>
#include <umbra/wait.h>
#include <umbra/wait/lock.h>

#define UM_OMP_ABI __attribute__((__visibility__("default"))) /* programs call it by this name */
#define UM_OMP_THREAD __attribute__((__tls_model__("initial-exec"))) __thread

#define UM_OMP_LEVELS 255 /* active levels that are supported: as libgomp */
#define UM_OMP_NO_LIMIT 0x7fffffff
#define UM_OMP_LIST 16             /* levels of OMP_NUM_THREADS and OMP_PROC_BIND at most */
#define UM_OMP_PLACES 1024         /* at most */
#define UM_OMP_SHARES 8            /* work shares that are under way at most */
#define UM_OMP_TASKS_MOST 2048     /* tasks of a member; one more is executed at once */
#define UM_OMP_WAITING_MOST 128    /* in its deque, or urgent in the team, for each member */
#define UM_OMP_NEAR 144            /* bytes of a task's arguments that need no other memory */
#define UM_OMP_UNCOUNTED_MOST 4096 /* children of a task: count.h */
#define UM_OMP_BUNDLE 16 /* tasks that are returned to their home at once, beside the first */

typedef void um_omp_fn(void *data);

/* How a loop is divided; the ABI's numbers, and those of omp_sched_t. */
enum um_omp_schedule { UM_OMP_RUNTIME, UM_OMP_STATIC, UM_OMP_DYNAMIC, UM_OMP_GUIDED, UM_OMP_AUTO };
#define UM_OMP_MONOTONIC 0x80000000u /* a modifier */

/* What is seen of a program: see.c. */
enum um_omp_what {
    UM_OMP_SEE_REGION, /* a member's part */
    UM_OMP_SEE_TASK,
    UM_OMP_SEE_TAKEN, /* a task that another member has made */
    UM_OMP_SEE_LOOP,  /* or sections; but those that gcc divides itself */
    UM_OMP_SEE_BARRIER,
    UM_OMP_SEE_TASKS, /* a wait for tasks: taskwait, the end of a taskgroup */
    UM_OMP_SEE_TURN,  /* a wait for other iterations: ordered */
    UM_OMP_SEE_CRITICAL,
    UM_OMP_SEE_LOCK,
    UM_OMP_SEES
};

/* The variables that each task has of its own, and hands down to those that it makes. */
struct um_omp_icv {
    int threads;       /* of a region */
    int limit;         /* OMP_THREAD_LIMIT */
    int chunk;         /* this and the next: of schedule(runtime) */
    unsigned schedule; /* enum um_omp_schedule, with modifier */
    int device;
    uint8_t levels; /* active levels at most */
    bool dynamic;
    uintptr_t allocator;
};

/* The environment, read when the library is loaded; afterwards only read. */
struct um_omp_settings {
    struct um_omp_icv icv;                       /* of initial tasks */
    int processors;                              /* that the process may use */
    int threads[UM_OMP_LIST], bind[UM_OMP_LIST]; /* by level; omp_proc_bind_t */
    unsigned thread_levels, bind_levels;         /* how many of them are set */
    bool sees;                                   /* anything is recorded: see.c */
    int teams, teams_limit, priority;
    bool cancel; /* OMP_CANCELLATION */
    size_t stack_bytes;
    enum umbra_wait_mode wait;
    char cpus[4096]; /* of OMP_PLACES, a list for umbra_team_options.cpus; empty: none */
    bool siblings;   /* a place is a hardware thread */
    unsigned places; /* how many; this and the next: omp_get_place_...() */
    int place[UM_OMP_PLACES];
    const char *format;     /* OMP_AFFINITY_FORMAT */
    bool display_affinity;  /* OMP_DISPLAY_AFFINITY */
    const char *umbra_wait; /* UMBRA_WAIT, or NULL; the environment's text */
};

extern UM_VISIBLE struct um_omp_settings um_omp_settings;

struct um_omp_member;
struct um_omp_team;
struct um_omp_node;
struct um_omp_depends;
struct um_omp_doacross;
struct um_omp_across;
struct um_omp_copies;

/* A taskgroup. The thread that began it frees it when its count is 0. */
struct um_omp_group {
    um_atomic_u64
        count; /* tasks that have not ended; their makers add, threads that end them take */
    uint64_t uncounted;         /* tasks that `task` has made and not counted; that one only */
    struct um_omp_group *outer; /* this and the rest: its member only, but tasks of it read them */
    struct um_omp_member *member; /* that waits for it */
    struct um_omp_task *task;     /* that it executes there */
    uintptr_t *reductions;        /* or NULL; reduction.c */
    struct um_omp_copies *copies; /* or NULL; kmpc_task.c */
    bool share;                   /* of a work share with reductions: no taskgroup of the program */
    bool first;                   /* the same, and its member came first: it has made the copies */
    um_atomic_u32 cancelled;      /* 1: cancel.c */
};

/* Of a task, and handed down to those that it makes. The first is the ABI's flag, too. */
#define UM_OMP_FINAL 2u
#define UM_OMP_CANCELLABLE 1u /* it may be discarded: cancel.c */

/* Free tasks, beside the one that has the bundle, on their way to their home: count.h. */
struct um_omp_bundle {
    unsigned count;
    struct um_omp_task *task[UM_OMP_BUNDLE];
};

/* A task, implicit or explicit. */
struct um_omp_task {
    struct umbra_task link; /* in a member's deque, or in a list of free tasks */
    um_atomic_u64 count;    /* children that have not ended, and a hold: count.h */
    um_atomic_ptr(struct um_omp_task) parent; /* this and the next: set by its maker, once */
    struct um_omp_member *home;               /* the owner of its memory */
    um_atomic_u64 order; /* `created` of the member that has deferred it, which writes it */
    uint8_t kind;        /* UM_OMP_FINAL, UM_OMP_CANCELLABLE */
    bool detaches;       /* `depends` has had a detached task; the task itself */
    int priority;        /* of one that has dependences or is in `urgent`: its maker has set it */
    struct um_omp_group *group;     /* the innermost; the task itself */
    struct um_omp_node *node;       /* its dependences, or NULL: depend.c */
    struct um_omp_depends *depends; /* its children's, or NULL; the task itself */
    um_atomic_u64 event;            /* 0, or a detached or a cancellable task's: detach.c */
    struct um_omp_member *member;   /* that executes it; children that end wake it */
    void *far;                      /* arguments without room below */
    struct um_omp_icv icv;          /* the task itself; children copy it */
    /* children that are not in `count` yet; the task itself. Others read `member`, on another line */
    uint32_t uncounted;
    union {
        UM_ALIGNED(UM_ANY_MEMORY) char near[UM_OMP_NEAR];
        struct um_omp_bundle bundle; /* a free one */
    };
};

/* A work share: a loop, sections or a scope. Instance i of a team is in share i % UM_OMP_SHARES;
 * the member that comes first sets it up. */
struct um_omp_share {
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 state;  /* of which instance, and how far: share.c */
    uint64_t count;       /* iterations; this and the next five: set up, then only read */
    uint64_t start, step; /* of the loop's variable; step may wrap around */
    uint64_t chunk;       /* static: 0: equal parts */
    enum um_omp_schedule schedule;
    uintptr_t *reductions;            /* of tasks, or NULL */
    void *memory;                     /* the program's, or NULL */
    struct um_omp_doacross *doacross; /* or NULL */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 next; /* dynamic, guided: the first iteration that is left */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 left;    /* members that have left it */
    um_atomic_u64 ordered; /* ordered: the iteration that has its turn */
};

struct um_omp_pool;

/* A loop in which clang's code asks for iterations until there are none. */
enum um_omp_dispatch { UM_OMP_NO_DISPATCH, UM_OMP_DISPATCH, UM_OMP_DISPATCH_ORDERED };

struct um_omp_member {
    /* its thread and those that wake it: wait.h */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_waiter waiter;
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u32 asleep; /* 1: sleeps or is about to; 2: and takes tasks of others */
    um_atomic_u32 hungry; /* 1: it waits, and would take children of its task: deque.c */
    um_atomic_u64 bell;   /* what it sleeps on; goes up */

    /* its thread only */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct um_omp_team *team;
    unsigned number;
    struct um_omp_task *task;      /* that it executes */
    const void *at;                /* where the program's last call ends: um_omp_self() */
    uint64_t began;                /* `created` when that task began; of the implicit one 0 */
    uint64_t barriers;             /* that it has come to */
    uint64_t stays;                /* a barrier that it does not leave: until then members copy */
    uint64_t singles;              /* single constructs, likewise */
    uint64_t shares;               /* work shares, likewise: the next one's number */
    struct um_omp_share *share;    /* the work share that it is in */
    struct um_omp_share *alone;    /* one of its own, or NULL: share.c */
    enum um_omp_dispatch dispatch; /* this and the next: kmpc.c */
    struct um_omp_across *across;  /* of the loop that it is in */
    /* of that share: a copy, and where the member is in it */
    uint64_t count, start, step, chunk, trip, from, to;
    enum um_omp_schedule schedule;
    struct umbra_task *free; /* tasks of its home */
    unsigned made;           /* tasks that it has made memory for */
    unsigned waiting; /* tasks in its deque, with those taken since it has last shared some */
    void *chunks;     /* that memory, a list */
    struct um_omp_task *bundle; /* free tasks of another home, or NULL: count.h */
    struct um_omp_pool *pool;   /* of regions that it begins, or NULL */
    struct um_omp_task implicit;

    /* of tasks: its thread writes, all read */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 created;  /* deferred tasks that it has made since the team is there */
    um_atomic_u64 executed; /* that it has executed */
    /* tasks of this home that others have freed, a stack of bundles: they push, its thread takes all */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_uptr returned;
    struct um_tasks tasks;
};

struct um_omp_team {
    /* set once, all read; but for `next`, those of the teams construct, and `judged` */
    unsigned members;
    unsigned level, active;    /* regions around it and itself, of them with several members */
    struct um_omp_team *outer; /* this and the next: the member that begins its regions */
    unsigned outer_number;
    struct um_omp_team *around; /* of an initial team of a target region in a region: that one's */
    bool crowded;               /* more members than processors */
    struct um_omp_member *member;
    um_atomic_u64 *flag;      /* of barriers: barrier.c */
    struct um_omp_team *next; /* of the pool */
    um_atomic_u32 *busy;      /* threads of this root's regions, for OMP_THREAD_LIMIT */
    int teams, team;          /* of the teams construct: how many, and which; a root's only */
    uint64_t judged;          /* stuck.c */

    /* a region: member 0 writes before it, all read */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_omp_fn *fn;
    void *data;
    struct um_omp_icv icv;
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 tasked;    /* the first barrier at which tasks must end, or 0; makers set it */
    um_atomic_u32 sleepers;  /* members that sleep, or are about to */
    um_atomic_u64 cancelled; /* the barrier that the member comes to that has cancelled the region,
                                or 0 */
    um_atomic_u64 cut; /* the barrier behind the latest loop or sections that were cancelled */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 quiet;   /* the last barrier that is over, of those in regions with tasks */
    um_atomic_u64 looks;   /* for quiet, a count: barrier.c */
    struct um_lock lock;   /* of detached tasks' events, and of the next */
    um_atomic_uptr urgent; /* tasks that members take first, a list: urgent.c */
    um_atomic_u32 urgents; /* those of them that have not begun */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 single; /* single constructs that have been given to a member */
    void *copy;           /* of copyprivate: that member writes, between two barriers all read */
    struct um_omp_share share[UM_OMP_SHARES];
};

/* The threads of a member's regions, and its teams. */
struct um_omp_pool {
    struct umbra_team *threads; /* NULL: none yet */
    unsigned members;           /* of them; this and the next two: set with them */
    unsigned shown;             /* members of the last region that OMP_DISPLAY_AFFINITY showed */
    unsigned most;              /* members of a run that needs no more; 0: until they measure */
    uint64_t measure_at;        /* a time stamp */
    struct um_omp_team *teams;  /* a list; the last used is the first */
};

#endif
