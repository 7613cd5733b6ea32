/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A read-write lock, which is taken for writing once in a hundred times, and a condition, of which
 * a hundred waiters are notified together. Each processor has so many threads or fibers. The limit of
 * the lock is two steps, fetch_add, on one line; that of the condition is pthread's.
 */
#include "sync_locks.h"
#include "two_sides.h"

#include <pthread.h>
#include <stdlib.h>

#include <umbra/cpu.h>
#include <umbra/sync.h>

#define LINE 128
#define SIDES 2
#define CREW_MOST 100 /* of a side */
#define WRITES_EVERY 100

struct locks;

struct contender {
    const char *name;
    bool fibers;    /* or threads */
    unsigned crew;  /* of each side */
    uint64_t batch; /* iterations */
    bool (*begin)(struct locks *locks, bool writes);
    void (*end)(struct locks *locks, bool writes);
    void (*wait)(struct locks *locks, bool back); /* for the next turn, or until all are back */
    void (*notify)(struct locks *locks, bool back);
};

struct locks {
    um_atomic_u64 word __attribute__((aligned(LINE)));
    pthread_rwlock_t pthread __attribute__((aligned(LINE)));
    struct umbra_rwlock umbra __attribute__((aligned(LINE)));
    pthread_mutex_t pthread_mutex __attribute__((aligned(LINE)));
    struct umbra_mutex mutex __attribute__((aligned(LINE)));
    pthread_cond_t pthread_turn, pthread_back;
    struct umbra_condition turn, back;
    struct {
        uint64_t number, same;     /* a writer changes both */
        uint64_t turns, come_back; /* of the condition's waiters, in all turns */
    } guarded __attribute__((aligned(LINE)));
    um_atomic_u64 verified __attribute__((aligned(LINE))), ready;
    const struct contender *by;
    uint64_t iterations, begin_ns, end_ns;
    struct two_sides sides;
};

struct member {
    struct locks *locks;
    unsigned index;
    pthread_t thread;
    struct umbra_fiber fiber;
};

/* ---- contenders ---- */

static bool begin_adding(struct locks *locks, bool writes)
{
    (void)writes;
    um_atomic_fetch_add(&locks->word, 1, acq_rel);
    return false; /* it guards nothing */
}

static void end_adding(struct locks *locks, bool writes)
{
    (void)writes;
    um_atomic_fetch_add(&locks->word, UINT64_MAX, acq_rel);
}

static bool begin_pthread(struct locks *locks, bool writes)
{
    if (writes)
        pthread_rwlock_wrlock(&locks->pthread);
    else
        pthread_rwlock_rdlock(&locks->pthread);
    return true;
}

static void end_pthread(struct locks *locks, bool writes)
{
    (void)writes;
    pthread_rwlock_unlock(&locks->pthread);
}

static bool begin_umbra(struct locks *locks, bool writes)
{
    if (writes)
        umbra_rwlock_write(&locks->umbra);
    else
        umbra_rwlock_read(&locks->umbra);
    return true;
}

static void end_umbra(struct locks *locks, bool writes)
{
    (void)writes;
    umbra_rwlock_unlock(&locks->umbra);
}

static bool begin_pthread_mutex(struct locks *locks, bool writes)
{
    (void)writes;
    return pthread_mutex_lock(&locks->pthread_mutex) == 0;
}

static void end_pthread_mutex(struct locks *locks, bool writes)
{
    (void)writes;
    pthread_mutex_unlock(&locks->pthread_mutex);
}

static void wait_pthread(struct locks *locks, bool back)
{
    pthread_cond_wait(back ? &locks->pthread_back : &locks->pthread_turn, &locks->pthread_mutex);
}

static void notify_pthread(struct locks *locks, bool back)
{
    pthread_cond_broadcast(back ? &locks->pthread_back : &locks->pthread_turn);
}

static bool begin_mutex(struct locks *locks, bool writes)
{
    (void)writes;
    umbra_mutex_lock(&locks->mutex);
    return true;
}

static void end_mutex(struct locks *locks, bool writes)
{
    (void)writes;
    umbra_mutex_unlock(&locks->mutex);
}

static void wait_umbra(struct locks *locks, bool back)
{
    if (umbra_condition_wait(back ? &locks->back : &locks->turn, &locks->mutex, UMBRA_NEVER) != 0)
        abort();
}

static void notify_umbra(struct locks *locks, bool back)
{
    umbra_condition_notify(back ? &locks->back : &locks->turn, true);
}

/* ---- what a member does ---- */

/* Its part of the side's turns. */
static void read_and_write(const struct member *member)
{
    struct locks *locks = member->locks;
    const struct contender *by = locks->by;
    uint64_t first = locks->iterations * member->index / by->crew;
    uint64_t end = locks->iterations * (member->index + 1) / by->crew, right = 0;

    for (uint64_t i = first; i < end; i++) {
        bool writes = i % WRITES_EVERY == 0;

        if (by->begin(locks, writes)) {
            right += locks->guarded.number == locks->guarded.same;
            locks->guarded.number += writes;
            locks->guarded.same += writes;
        } else {
            right++;
        }
        by->end(locks, writes);
    }
    um_atomic_fetch_add(&locks->verified, right, relaxed); /* read when all have ended */
}

/* Waits for every turn. */
static void come_back(const struct member *member)
{
    struct locks *locks = member->locks;
    const struct contender *by = locks->by;

    by->begin(locks, true);
    for (uint64_t turn = 0;; turn++) {
        if (++locks->guarded.come_back == (turn + 1) * SIDES * by->crew)
            by->notify(locks, true);
        if (turn == locks->iterations)
            break;
        while (locks->guarded.turns == turn)
            by->wait(locks, false);
    }
    by->end(locks, true);
}

/* Beside the members: the turns of come_back(). */
static void notify_all(struct locks *locks)
{
    const struct contender *by = locks->by;

    by->begin(locks, true);
    for (uint64_t turn = 0; turn <= locks->iterations; turn++) {
        while (locks->guarded.come_back < (turn + 1) * SIDES * by->crew)
            by->wait(locks, true);
        if (turn == 0)
            locks->begin_ns = bench_now_ns();
        if (turn == locks->iterations)
            break;
        locks->guarded.turns++;
        by->notify(locks, false);
    }
    locks->end_ns = bench_now_ns();
    by->end(locks, true);
    um_atomic_store(&locks->verified, locks->guarded.come_back - SIDES * by->crew, relaxed);
}

/* ---- turns ---- */

static void *work(void *arg)
{
    const struct member *member = arg;

    if (member->locks->by->wait)
        come_back(member);
    else
        read_and_write(member);
    return NULL;
}

static int begin_member(struct member *member, unsigned side)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = side};

    return member->locks->by->fibers ? umbra_spawn_with(NULL, &there, work, member, &member->fiber)
                                     : pthread_create(&member->thread, NULL, work, member);
}

static void do_side(void *arg, unsigned side)
{
    struct locks *locks = arg;
    struct member crew[CREW_MOST];

    um_atomic_fetch_add(&locks->ready, 1, relaxed); /* both begin at about the same time */
    while (um_atomic_load(&locks->ready, relaxed) < SIDES)
        um_arch_relax();
    if (side == 0)
        locks->begin_ns = bench_now_ns();
    for (unsigned i = 0; i < locks->by->crew; i++) {
        crew[i] = (struct member){.locks = locks, .index = i};
        if (begin_member(&crew[i], side) != 0)
            abort();
    }
    if (side == 0 && locks->by->wait)
        notify_all(locks);
    for (unsigned i = 0; i < locks->by->crew; i++) {
        if (locks->by->fibers)
            umbra_join(crew[i].fiber, UMBRA_NEVER, NULL);
        else
            pthread_join(crew[i].thread, NULL);
    }
}

static int start(struct bench_row *row)
{
    const struct contender *contender = row->arg;
    struct locks *locks = aligned_alloc(LINE, sizeof(*locks));
    int error;

    if (locks == NULL)
        return -ENOMEM;
    *locks = (struct locks){.by = contender, .umbra = UMBRA_RWLOCK_INIT, .mutex = UMBRA_MUTEX_INIT};
    pthread_rwlock_init(&locks->pthread, NULL);
    pthread_mutex_init(&locks->pthread_mutex, NULL);
    pthread_cond_init(&locks->pthread_turn, NULL);
    pthread_cond_init(&locks->pthread_back, NULL);
    row->state = locks;
    error = two_sides_start(&locks->sides, row, contender->fibers);
    if (error != 0)
        free(locks);
    return error;
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct locks *locks = row->state;
    int error;

    locks->iterations = batch->iterations;
    locks->guarded.turns = locks->guarded.come_back = 0;
    um_atomic_store(&locks->ready, 0, relaxed); /* no side runs, here and after */
    um_atomic_store(&locks->verified, 0, relaxed);
    error = two_sides_run(&locks->sides, do_side, locks);
    batch->ns = (locks->by->wait ? locks->end_ns : bench_now_ns()) - locks->begin_ns;
    batch->verified = um_atomic_load(&locks->verified, relaxed);
    return error;
}

static void stop(struct bench_row *row)
{
    struct locks *locks = row->state;

    two_sides_stop(&locks->sides);
    free(locks);
}

static const struct bench_ops ops = {.start = start, .run = run, .stop = stop};

/* ---- rows ---- */

#define READS 100000
#define TURNS 16

static const struct contender readers[] = {
    {"fetch-adds", false, 1, READS, begin_adding, end_adding, NULL, NULL},
    {"pthread-rwlock", false, 1, READS, begin_pthread, end_pthread, NULL, NULL},
    {"umbra-rwlock", true, 1, READS, begin_umbra, end_umbra, NULL, NULL},
    {"umbra-rwlock-10", true, 10, READS, begin_umbra, end_umbra, NULL, NULL},
    {"umbra-rwlock-100", true, 100, READS, begin_umbra, end_umbra, NULL, NULL},
};

static const struct contender waiters[] = {
    {"pthread-broadcast", false, 50, TURNS, begin_pthread_mutex, end_pthread_mutex, wait_pthread,
     notify_pthread},
    {"umbra-broadcast", true, 50, TURNS, begin_mutex, end_mutex, wait_umbra, notify_umbra},
};

static void add(struct bench *bench, const struct contender *contender, unsigned count,
                unsigned parts)
{
    struct bench_row *limit = NULL;

    for (unsigned i = 0; i < count; i++) {
        struct bench_row *row = bench_add(bench, contender[i].name, &ops, &contender[i]);

        row->limit = limit;
        row->parts = parts;
        row->batch = contender[i].batch;
        json_object_set_new(row->params, "crew", json_integer(SIDES * contender[i].crew));
        limit = limit ? limit : row;
    }
}

void sync_locks_declare(struct bench *bench)
{
    add(bench, readers, sizeof readers / sizeof readers[0], SIDES);
    add(bench, waiters, sizeof waiters / sizeof waiters[0], SIDES * 50);
}
