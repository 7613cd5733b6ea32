/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stands in for the structs of omp/state.h, with the words that the protocols have, and for the
 * waits of umbra/wait.h. Included inside the struct of each variant, after the texts, so it has no
 * guard.
 */
#include "users.hpp"

struct um_omp_group {
    um_atomic_u64 count;
    uint64_t uncounted;
    struct um_omp_task *task;
    plain<struct um_omp_member *> member;
};

struct um_omp_bundle {
    plain<unsigned> count;
    plain<struct um_omp_task *> task[UM_OMP_BUNDLE];
};

struct um_omp_task {
    struct umbra_task link;
    um_atomic_u64 count;
    rl::atomic<struct um_omp_task *> parent;
    struct um_omp_member *home;
    um_atomic_u64 order, event;
    void *depends; /* none */
    plain<struct um_omp_group *> group;
    plain<struct um_omp_member *> member;
    plain<uint32_t> uncounted;
    struct um_omp_bundle bundle;
};

struct um_omp_share {
    um_atomic_u64 state;
    plain<uint64_t> count;
    plain<void *> memory, doacross;
    um_atomic_u64 next;
    um_atomic_u64 left;
    um_atomic_u64 ordered;
};

struct um_omp_member {
    struct umbra_waiter waiter;
    um_atomic_u32 asleep, hungry;
    um_atomic_u64 bell;
    struct um_omp_team *team;
    unsigned number;
    struct um_omp_task *task;
    const void *at;
    uint64_t began, barriers, singles, shares;
    struct um_omp_share *share, *alone;
    uint64_t count, chunk, trip, from, to, start, step;
    enum um_omp_schedule schedule;
    struct umbra_task *free;
    struct um_omp_task *bundle;
    unsigned waiting;
    struct um_omp_task implicit;
    um_atomic_u64 created, executed;
    um_atomic_uptr returned;
    struct um_tasks tasks;
};

struct um_omp_team {
    unsigned members;
    struct um_omp_member *member;
    um_atomic_u64 *flag;
    um_atomic_u64 tasked;
    um_atomic_u32 sleepers;
    um_atomic_u64 cancelled;
    um_atomic_u64 quiet, looks, single;
    um_atomic_uptr urgent; /* none */
    plain<int> copy;
    struct um_omp_share share[UM_OMP_SHARES];
};

static inline struct um_omp_member *heres[UM_THREADS_MOST];

static struct um_omp_member *um_omp_self()
{
    return heres[rl::thread_index()];
}

/* As the real one, but for deadlocks, which are the checker's. */
static void um_omp_sleep(struct um_omp_member *self, const struct um_omp_end *, enum um_omp_help,
                         uint64_t bell)
{
    struct um_wait_cond cond = {&self->bell, bell, UINT64_MAX, true, false};

    um_wait_run(&self->waiter, cond, UMBRA_NEVER);
}

/* Nothing is recorded. */
static void um_omp_see(enum um_omp_what, const void *)
{
}

static void um_omp_seen(enum um_omp_what)
{
}

/* Of a share of a member's own. */
static struct um_omp_share *um_omp_memory(size_t)
{
    struct um_omp_share *share = new struct um_omp_share;

    share->memory = NULL;
    share->doacross = NULL;
    return share;
}

/* Of a loop. */
static void free(void *memory)
{
    delete (loop_memory *)memory;
}

/* No member rests. */
struct pace {
    int none;
};

static bool rests(struct pace *)
{
    return false;
}

static void take_count(struct pace *)
{
}

/* A poll is a look that happens early or late: none, then it sleeps. */
static bool polls_on(const struct um_omp_member *, uint64_t *, unsigned *)
{
    return false;
}

/* No task is detached. */
static bool um_omp_event_over(const struct um_omp_task *)
{
    return false;
}

static bool um_omp_event_leave(struct um_omp_task *)
{
    return false;
}

static struct um_omp_task *um_omp_urgent_next(struct um_omp_member *, enum um_omp_help)
{
    return NULL;
}

/* As the real one, with task_enter(). */
static void execute(struct um_omp_member *self, struct um_omp_task *task)
{
    struct um_omp_task *outer = self->task;
    uint64_t began = self->began;

    task->member = self;
    self->task = task;
    self->began = um_atomic_load(&self->created, relaxed);
    task->link.fn(task->link.arg);
    self->task = outer;
    self->began = began;
}

/* None is discarded: its end is that of another one. */
static void execute_unless_cancelled(struct um_omp_member *self, struct um_omp_task *task)
{
    execute(self, task);
}

static void task_end(struct um_omp_member *self, struct um_omp_task *task)
{
    if (task->group)
        um_omp_group_release(task->group);
    um_omp_count_end(self, task);
}
