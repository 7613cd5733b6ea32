/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A mutex that two threads, or two fibers, want again and again, one on each of two processors. A
 * sample is the time of a turn: lock, add one to a counter, unlock, and then some work outside.
 * The limit is pthread's mutex with the same work.
 */
#include "harness.h"
#include "two_sides.h"

#include <pthread.h>
#include <stdlib.h>

#include <umbra/cpu.h>
#include <umbra/sync.h>

#define ROUNDS 301
#define ROUNDS_QUICK 31
#define SIDES 2 /* two_sides.h */
#define LINE 128

struct turns;

struct contender {
    const char *name;
    void (*lock)(struct turns *turns);
    void (*unlock)(struct turns *turns);
    bool fibers;      /* or threads */
    unsigned work_ns; /* between two turns of a side */
};

struct turns {
    pthread_mutex_t pthread __attribute__((aligned(LINE)));
    struct umbra_mutex umbra __attribute__((aligned(LINE)));
    uint64_t done __attribute__((aligned(LINE))); /* turns of both sides; under the mutex */
    um_atomic_u32 ready __attribute__((aligned(LINE)));
    struct {
        uint64_t turns __attribute__((aligned(LINE)));
        uint64_t begin_ns, end_ns;
    } side[SIDES];
    const struct contender *contender;
    uint64_t wanted;
    struct two_sides sides;
};

static void lock_pthread(struct turns *turns)
{
    pthread_mutex_lock(&turns->pthread);
}

static void unlock_pthread(struct turns *turns)
{
    pthread_mutex_unlock(&turns->pthread);
}

static void lock_umbra(struct turns *turns)
{
    umbra_mutex_lock(&turns->umbra);
}

static void unlock_umbra(struct turns *turns)
{
    umbra_mutex_unlock(&turns->umbra);
}

/* ---- what a side does ---- */

static bool take_turn(struct turns *turns)
{
    const struct contender *by = turns->contender;
    bool more;

    by->lock(turns);
    more = turns->done < turns->wanted;
    turns->done += more;
    by->unlock(turns);
    return more;
}

static void take_turns(void *arg, unsigned side)
{
    struct turns *turns = arg;
    uint64_t work = um_ns_to_cycles(turns->contender->work_ns);
    uint64_t mine = 0;

    um_atomic_fetch_add(&turns->ready, 1, relaxed); /* both begin at about the same time */
    while (um_atomic_load(&turns->ready, relaxed) < SIDES)
        um_arch_relax();
    turns->side[side].begin_ns = bench_now_ns();
    while (take_turn(turns)) {
        uint64_t now = um_cycles();

        mine++;
        while (work != 0 && um_cycles() - now < work)
            ;
    }
    turns->side[side].turns = mine;
    turns->side[side].end_ns = bench_now_ns();
}

static void begin_batch(struct turns *turns, uint64_t iterations)
{
    turns->done = 0;
    turns->wanted = iterations;
    um_atomic_store(&turns->ready, 0, relaxed); /* no side runs */
}

static void end_batch(const struct turns *turns, struct bench_batch *batch)
{
    uint64_t begin = turns->side[0].begin_ns, end = turns->side[0].end_ns;

    for (unsigned side = 1; side < SIDES; side++) {
        begin = turns->side[side].begin_ns < begin ? turns->side[side].begin_ns : begin;
        end = turns->side[side].end_ns > end ? turns->side[side].end_ns : end;
    }
    batch->ns = end - begin;
    batch->verified = turns->side[0].turns + turns->side[1].turns;
}

static int start(struct bench_row *row)
{
    const struct contender *contender = row->arg;
    struct turns *turns = aligned_alloc(LINE, sizeof(*turns));
    int error;

    if (turns == NULL)
        return -ENOMEM;
    *turns = (struct turns){.contender = contender, .umbra = UMBRA_MUTEX_INIT};
    pthread_mutex_init(&turns->pthread, NULL);
    row->state = turns;
    error = two_sides_start(&turns->sides, row, contender->fibers);
    if (error != 0)
        free(turns);
    return error;
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct turns *turns = row->state;
    int error;

    begin_batch(turns, batch->iterations);
    error = two_sides_run(&turns->sides, take_turns, turns);
    end_batch(turns, batch);
    return error;
}

static void stop(struct bench_row *row)
{
    struct turns *turns = row->state;

    two_sides_stop(&turns->sides);
    pthread_mutex_destroy(&turns->pthread);
    free(turns);
}

static const struct bench_ops ops = {.start = start, .run = run, .stop = stop};

/* ---- rows ---- */

#define WORK_NS 130

static struct bench_row *add(struct bench *bench, const struct contender *contender,
                             struct bench_row *limit)
{
    struct bench_row *row = bench_add(bench, contender->name, &ops, contender);

    row->limit = limit;
    json_object_set_new(row->params, "parties", json_integer(SIDES));
    json_object_set_new(row->params, "work_ns", json_integer(contender->work_ns));
    return row;
}

static int declare(struct bench *bench)
{
    static const struct contender contenders[][3] = {
        {
            {"pthread-mutex", lock_pthread, unlock_pthread, false, 0},
            {"umbra-mutex", lock_umbra, unlock_umbra, true, 0},
            {"umbra-mutex-threads", lock_umbra, unlock_umbra, false, 0},
        },
        {
            {"pthread-mutex-work", lock_pthread, unlock_pthread, false, WORK_NS},
            {"umbra-mutex-work", lock_umbra, unlock_umbra, true, WORK_NS},
            {"umbra-mutex-threads-work", lock_umbra, unlock_umbra, false, WORK_NS},
        },
    };

    for (unsigned i = 0; i < 2; i++) {
        struct bench_row *limit = add(bench, &contenders[i][0], NULL);

        add(bench, &contenders[i][1], limit);
        add(bench, &contenders[i][2], limit);
    }
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "lock",
    .about = "a mutex that two want, one on each of two processors",
    .cpus = SIDES,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
