/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the files of libumbra_omp do for each other. Private. Each calls those below it only:
 *
 *   kmpc...c       the entries that clang's code calls: kmpc.h
 *   symbols.c      the ABI's loop functions: one by kind and schedule
 *   fortran.c      Fortran's names of the API
 *   directive.c    error, warning
 *   device.c       target, teams and devices: all on the host
 *   query.c        omp_get_..., omp_set_...
 *   cancel.c       cancel, cancellation points
 *   affinity.c     texts of omp_display_affinity
 *   display.c      the settings, shown
 *   allocator.c    omp_alloc and allocators
 *   lock.c         locks, critical, atomic
 *   taskloop.c     taskloop
 *   region.c       regions: their size, begin and end
 *   share.c        loops, sections, single, scope
 *   doacross.c     loops with iterations that wait for each other
 *   reduction.c    reductions of tasks
 *   task.c         tasks, taskwait, taskgroup
 *   depend.c       dependences of tasks; turn.h says when a task has its turn
 *   barrier.c      barriers, in which members execute tasks
 *   detach.c       events of detached tasks
 *   deque.c        which task a member executes next
 *   urgent.c       tasks that come first
 *   pool.c         members, teams and pools: made and freed
 *   environment.c  settings
 *   hwloc.c        hwloc, loaded by the first region
 *   count.h        counts of tasks, and what their ends set free
 *   wait.c         a member waits, in phases
 *   see.c          traces and counters
 *   stuck.c        deadlocks
 *   state.h        what there is
 */
#ifndef UMBRA_OMP_LIBRARY_H
#define UMBRA_OMP_LIBRARY_H

#include "state.h"

#define UM_HIDE __attribute__((__visibility__("hidden")))
#define UM_OMP_PART static inline __attribute__((__always_inline__)) /* of its caller */

/* Ends the program with a line and exit status 2; not in a function that runs once: what the program does
 * at its end may call OpenMP. */
UM_HIDE _Noreturn __attribute__((__format__(__printf__, 1, 2))) void
um_omp_fatal(const char *format, ...);

/* Zeroed memory that begins a line; there is always some. */
UM_HIDE void *um_omp_memory(size_t bytes);

/* ---- environment.c ---- */

/* Reads the environment, unless that has been done. */
UM_HIDE void um_omp_settings_read(void);
/* Where members are bound: the calling thread may run where the process began, as libgomp, which is
 * in the process, too, has bound its first thread, and threads inherit that. */
UM_HIDE void um_omp_unbind(void);

/* ---- pool.c ---- */

extern UM_HIDE UM_OMP_THREAD struct um_omp_member *um_omp_here; /* NULL: none yet */

extern UM_HIDE um_atomic_u64
    um_omp_poll_cycles; /* a member that waits polls so long; 0: no team yet */

UM_HIDE struct um_omp_member *um_omp_root_make(void); /* the calling thread's, at level 0 */
UM_HIDE void um_omp_root_free(struct um_omp_member *root);
/* A team of the member's pool that is not used. */
UM_HIDE struct um_omp_team *um_omp_team_find(struct um_omp_member *self, unsigned members);
/* Executes fn in all threads of the pool. */
UM_HIDE void um_omp_pool_run(struct um_omp_member *self, unsigned members, umbra_team_fn *fn,
                             void *arg);

/* Ends the threads of the member's regions, and of those inside, which the next region makes anew. */
UM_HIDE void um_omp_pool_pause(struct um_omp_member *self);

/* The calling thread's member. In functions of the ABI, and those that are a part of such: it notes where
 * the program called. */
UM_OMP_PART struct um_omp_member *um_omp_self(void)
{
    struct um_omp_member *self = um_omp_here;

    if (UM_UNLIKELY(self == NULL))
        self = um_omp_root_make();
    self->at = __builtin_return_address(0);
    return self;
}

/* ---- kmpc.c, kmpc_task.c ---- */

/* Functions of regions and of tasks; their data begins with the program's function. */
UM_HIDE void um_omp_kmpc_call(void *data);
UM_HIDE void um_omp_kmpc_task(void *data);

/* The program's function, of which the library executes fn. */
UM_INLINE um_omp_fn *um_omp_fn_of(um_omp_fn *fn, void *data)
{
    return fn == um_omp_kmpc_call || fn == um_omp_kmpc_task ? *(um_omp_fn **)data : fn;
}

/* ---- wait.c ---- */

enum um_omp_least {
    UM_OMP_LEAVE = 2 /* beside false and true */
};

/* The end of a wait: *word & mask is value; or, least: *word is at least value; UM_OMP_LEAVE: that, or the
 * region is cancelled. */
struct um_omp_end {
    const um_atomic_u64 *word;
    uint64_t mask, value;
    unsigned least;
};

/* What a member executes while it waits. */
enum um_omp_help {
    UM_OMP_IDLE,    /* nothing: no scheduling point */
    UM_OMP_DESCEND, /* own tasks below the one that it executes */
    UM_OMP_OWN,     /* own tasks */
    UM_OMP_ANY,     /* any task of the team */
    UM_OMP_QUIET    /* the same, and then looks for quiet: barrier.c */
};

/* Waits in phases: polls, yields where the team is crowded, sleeps. */
UM_HIDE void um_omp_await_slow(struct um_omp_member *self, const struct um_omp_end *end,
                               enum um_omp_help help);
UM_HIDE void um_omp_ring(struct um_omp_member *member);
UM_HIDE void um_omp_ring_all(struct um_omp_team *team);

UM_INLINE bool um_omp_ended(const struct um_omp_member *self, const struct um_omp_end *end)
{
    /* acquire: what the thread that changed the word wrote before; pairs with its release */
    uint64_t is = um_atomic_load(end->word, acquire);

    if (!end->least)
        return (is & end->mask) == end->value;
    /* acquire: as above */
    return is >= end->value ||
           (end->least == UM_OMP_LEAVE && um_atomic_load(&self->team->cancelled, acquire) != 0);
}

UM_INLINE void um_omp_await(struct um_omp_member *self, const struct um_omp_end *end,
                            enum um_omp_help help)
{
    if (!um_omp_ended(self, end))
        um_omp_await_slow(self, end, help);
}

/* After a seq_cst change of what the member may wait for: wakes it if it sleeps. */
UM_INLINE void um_omp_wake(struct um_omp_member *member)
{
    /* seq_cst: after the change; pairs with the store of `asleep` before the last look */
    if (UM_UNLIKELY(um_atomic_load(&member->asleep, seq_cst) != 0))
        um_omp_ring(member);
}

/* The same for all members. */
UM_INLINE void um_omp_wake_all(struct um_omp_team *team)
{
    /* seq_cst: as um_omp_wake() */
    if (UM_UNLIKELY(um_atomic_load(&team->sleepers, seq_cst) != 0))
        um_omp_ring_all(team);
}

/* ---- see.c ---- */

/* A place in the program: where a call ends, or a function and 1 byte, as if it had been called there. */
#define UM_OMP_PLACE(fn) ((const void *)((uintptr_t)(fn) + 1))

/* Once, when the first member is made. 0 or a negative errno. */
UM_HIDE int um_omp_see_read(void);
UM_HIDE void um_omp_see_begin(enum um_omp_what what, const void *place);
UM_HIDE void um_omp_see_end(enum um_omp_what what);

/* The calling thread begins something, and ends it. */
UM_INLINE void um_omp_see(enum um_omp_what what, const void *place)
{
    if (UM_UNLIKELY(um_omp_settings.sees))
        um_omp_see_begin(what, place);
}

UM_INLINE void um_omp_seen(enum um_omp_what what)
{
    if (UM_UNLIKELY(um_omp_settings.sees))
        um_omp_see_end(what);
}

/* ---- stuck.c ---- */

/* A wait of a thread, on its stack; zeroed but for what is set here. */
struct um_omp_stuck {
    struct um_omp_member *member; /* this and the next five: set by the thread before it waits */
    const char *what;             /* waits ... */
    const void *place;            /* where in the program */
    struct um_lock *lock;         /* a lock, or NULL: */
    const struct um_omp_end *end; /* this, asleep with this bell */
    uint64_t bell;
    uint64_t limit_ns; /* of the next sleep; this and the rest: stuck.c */
    uint32_t thread;
    um_atomic_u32 awake; /* 1: it looks at the lock; lock.c */
    bool told;
    struct um_omp_stuck *next;
};

/* Threads of all pools: added when they are there, taken before they end; and how often that was. */
#define UM_OMP_POOL_CHANGE (UINT64_C(1) << 32)
extern UM_HIDE um_atomic_u64 um_omp_pool_threads;

UM_HIDE int um_omp_stuck_read(void); /* the environment; 0 or a negative errno */
UM_HIDE void um_omp_stuck_in_child(void);
/* How long the thread sleeps at most. */
UM_HIDE uint64_t um_omp_stuck_limit_ns(struct um_omp_stuck *wait);
/* It has slept so long. */
UM_HIDE void um_omp_stuck(struct um_omp_stuck *wait);
/* The wait is over. */
UM_HIDE void um_omp_stuck_end(struct um_omp_stuck *wait);
/* Sleeps until the bell is another one: P4 of wait.c. */
UM_HIDE void um_omp_sleep(struct um_omp_member *self, const struct um_omp_end *end,
                          enum um_omp_help help, uint64_t bell);
/* Where the member's call was that ends there: if that was the last thing that a function did, the call
 * seems to end in this library; then it is the function of its task. */
UM_HIDE const void *um_omp_place(const struct um_omp_member *member, const void *place);
/* A place as file + offset, for tools/umbra-report. */
UM_HIDE void um_omp_place_text(char *text, size_t bytes, const void *place);

/* ---- deque.c ---- */

/* The task that the member is to execute next, or NULL. */
UM_HIDE struct um_omp_task *um_omp_next_task(struct um_omp_member *self, enum um_omp_help help);
/* A hungry member has asked: shares tasks, and wakes one that sleeps and would take them. */
UM_HIDE void um_omp_answer(struct um_omp_member *self);
/* True if so many tasks of the member wait that another one is better executed at once. Before that it
 * shares some. */
UM_HIDE bool um_omp_many_wait(struct um_omp_member *self);
/* The caller has ended a task of a parent that the other member executes: shares others if that one
 * waits for such. */
UM_HIDE void um_omp_offer(struct um_omp_member *self, struct um_omp_member *other);

UM_INLINE void um_omp_push(struct um_omp_member *self, struct um_omp_task *task)
{
    um_tasks_push(&self->tasks, &task->link);
    self->waiting++;
    if (UM_UNLIKELY(um_tasks_asked(&self->tasks)))
        um_omp_answer(self);
}

/* ---- barrier.c ---- */

/* Of a region's end. Returns 0 if no task was made, and the region is not cancelled. */
UM_HIDE uint64_t um_omp_barrier(struct um_omp_member *self);
/* The program's; it is not left, also if the region is cancelled. */
UM_HIDE void um_omp_barrier_plain(struct um_omp_member *self);
/* The program's; if the region is cancelled the member leaves at once: true. */
UM_HIDE bool um_omp_barrier_cancel(struct um_omp_member *self);
/* At the end of a region, after its barrier did not return 0: once more if it was cancelled. */
UM_HIDE void um_omp_barrier_settle(struct um_omp_member *self);
/* Ends the barrier if all deferred tasks of the team have ended. Once after the member's last
 * task. */
UM_HIDE void um_omp_look_for_quiet(struct um_omp_member *self);

/* ---- task.c ---- */

/* The priority of a new task, as the program asks for. */
UM_INLINE int um_omp_priority(int asked)
{
    return asked < um_omp_settings.priority ? asked : um_omp_settings.priority;
}

/* Where a task's arguments come from. */
struct um_omp_arguments {
    void *data;                         /* NULL: from nowhere, the caller writes them */
    void (*copy)(void *to, void *from); /* NULL: as bytes */
    long bytes, align;
    void **event; /* a detached task: where its event's handle goes; NULL: another */
};

/* A task of the calling one. If it is deferred its arguments are copied. */
UM_HIDE struct um_omp_task *um_omp_task_make(struct um_omp_member *self, um_omp_fn *fn,
                                             const struct um_omp_arguments *from, unsigned kind,
                                             bool deferred);
/* Executes one that is deferred, later; and one that is not, now. */
UM_HIDE void um_omp_task_defer(struct um_omp_member *self, struct um_omp_task *task);
UM_HIDE void um_omp_task_execute(struct um_omp_member *self, struct um_omp_task *task);
/* Executes one that was deferred. */
UM_HIDE void um_omp_task_take(struct um_omp_member *self, struct um_omp_task *task);
/* Executes a new one as the program asks for: at once if the condition is false or there is no room; or
 * after those that come first by a list of the ABI, or NULL. */
UM_HIDE void um_omp_task_begin(struct um_omp_member *self, struct um_omp_task *task, void **depend,
                               bool condition, bool detached, int priority);
/* Between these the calling thread executes the new task itself; `began`: what the first returned. */
UM_HIDE uint64_t um_omp_task_enter(struct um_omp_member *self, struct um_omp_task *task);
UM_HIDE void um_omp_task_leave(struct um_omp_member *self, struct um_omp_task *task,
                               uint64_t began);
/* True if the member has as many tasks as it may have. */
UM_HIDE bool um_omp_tasks_full(struct um_omp_member *self);
UM_HIDE void um_omp_group_begin(struct um_omp_member *self);
UM_HIDE void um_omp_group_end(struct um_omp_member *self); /* waits for its tasks */

/* ---- taskloop.c ---- */

/* The ABI's flags: iterations a task are asked for; so many, strictly. */
#define UM_OMP_GRAINSIZE (1u << 9)
#define UM_OMP_STRICT (1u << 14)

/* The iterations, and how many each task gets: `each`, and one more in the first `more`; the last
 * what is left. */
struct um_omp_taskloop {
    uint64_t start, step, count, tasks, each, more;
};

/* As many as the program asks for: tasks, or iterations a task; 0: a task a member. */
UM_HIDE void um_omp_taskloop_divide(struct um_omp_taskloop *loop, unsigned flags, uint64_t asked,
                                    unsigned members);

/* ---- depend.c ---- */

/* Waits for the calling task's children that come first, by a list of the ABI. */
UM_HIDE void um_omp_depend_await(struct um_omp_member *self, void **depend);
/* Executes a child of the calling task after those. */
UM_HIDE void um_omp_depend_defer(struct um_omp_member *self, struct um_omp_task *task,
                                 void **depend);
/* It has ended. */
UM_HIDE void um_omp_depend_end(struct um_omp_member *self, struct um_omp_task *task);
UM_HIDE void um_omp_depends_free(struct um_omp_depends *depends);

/* ---- cancel.c ---- */

/* True if the task is in a cancelled region of the member's team, or in a cancelled taskgroup. */
UM_HIDE bool um_omp_is_cancelled(struct um_omp_member *self, const struct um_omp_task *task);

/* ---- detach.c ---- */

/* The task is detached, or may be discarded. */
UM_HIDE void um_omp_event_make(struct um_omp_task *task, const struct um_omp_arguments *from);
/* Its function has ended. True: it ends later; it may be another member's from now on. */
UM_HIDE bool um_omp_event_leave(struct um_omp_task *task);
/* The same; waits until the event is fulfilled. */
UM_HIDE void um_omp_event_await(struct um_omp_member *self, struct um_omp_task *task);
/* Its function is not executed: it needs no event any more. */
UM_HIDE void um_omp_event_discard(struct um_omp_task *task);
/* True if the function has ended, and the event is fulfilled: the caller ends the task. */
UM_HIDE bool um_omp_event_over(const struct um_omp_task *task);

/* ---- urgent.c ---- */

/* As um_omp_task_defer(), of a task with a priority. */
UM_HIDE void um_omp_task_urge(struct um_omp_member *self, struct um_omp_task *task);
/* True if so many wait there that another one is better executed at once: the list is looked through. */
UM_HIDE bool um_omp_many_urgent(struct um_omp_team *team);
/* An urgent task that the member may execute, or NULL. */
UM_HIDE struct um_omp_task *um_omp_urgent_next(struct um_omp_member *self, enum um_omp_help help);

/* ---- reduction.c ---- */

/* Makes memory for what the program says at data, and keeps it in the innermost taskgroup. */
UM_HIDE void um_omp_reduce_begin(struct um_omp_member *self, uintptr_t *data);
/* The first member of a work share; and the others. */
UM_HIDE void um_omp_reduce_share(struct um_omp_member *self, struct um_omp_share *share,
                                 uintptr_t *data, bool first);
UM_HIDE void um_omp_reduce_region(uintptr_t *data, unsigned members);
UM_HIDE void um_omp_reduce_end(uintptr_t *data);

/* ---- region.c ---- */

/* How many members a region has that asks for so many; 0: it does not ask. Under a limit they count
 * from now on, so the region must follow. */
UM_HIDE unsigned um_omp_region_size(const struct um_omp_member *self, unsigned asked);
/* What a team needs before its region; then executes it. */
UM_HIDE void um_omp_region_prepare(struct um_omp_member *self, struct um_omp_team *team);
UM_HIDE void um_omp_region_run(struct um_omp_member *self, struct um_omp_team *team, um_omp_fn *fn,
                               void *data);
/* A region of one member that ends later. */
UM_HIDE void um_omp_region_enter(struct um_omp_member *self, struct um_omp_team *team);
UM_HIDE void um_omp_region_leave(struct um_omp_member *self);

/* ---- share.c ---- */

/* A loop as the program says it. */
struct um_omp_loop {
    uint64_t start, end, step;
    bool wide, up; /* unsigned long long; that goes up */
    long schedule; /* enum um_omp_schedule with modifier */
    uint64_t chunk;
    uintptr_t *reductions;
    void **memory;
    unsigned loops;         /* doacross: how many there are; the outermost one is divided */
    const uint64_t *counts; /* their iterations; NULL: another loop */
};

/* The member comes to a loop. */
UM_HIDE void um_omp_loop_enter(struct um_omp_member *self, const struct um_omp_loop *loop);
/* Before a region: all its members are in the loop. */
UM_HIDE void um_omp_loop_preset(struct um_omp_team *team, const struct um_omp_loop *loop);
/* After it: gcc leaves a static loop that began so without a call. */
UM_HIDE void um_omp_loop_settle(struct um_omp_team *team);
/* The next iterations of the member; false: there are none. */
UM_HIDE bool um_omp_loop_next(struct um_omp_member *self, uint64_t *from, uint64_t *to);
UM_HIDE bool um_omp_loop_next_ordered(struct um_omp_member *self, uint64_t *from, uint64_t *to);
UM_HIDE void um_omp_share_leave(struct um_omp_member *self);
/* What the loop had for itself. */
UM_HIDE void um_omp_share_free(struct um_omp_share *share);
/* The member leaves a cancelled loop. If it is an ordered one, the turns of its chunks pass, and of those
 * that no member has taken. */
UM_HIDE void um_omp_loop_cut(struct um_omp_member *self);
/* After a cancelled region: all members are before the first share, and the first single. */
UM_HIDE void um_omp_shares_reset(struct um_omp_team *team);

/* ---- doacross.c ---- */

/* What iterations wait for; one piece of memory. The loop is set up in the share. */
UM_HIDE struct um_omp_doacross *um_omp_doacross_make(struct um_omp_share *share, unsigned members,
                                                     const struct um_omp_loop *loop);

#endif
