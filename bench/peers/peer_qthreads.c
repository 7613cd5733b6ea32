/* SPDX-License-Identifier: BSL-1.0 */
/* Qthreads' rows: one worker, the caller's thread. */
#define _GNU_SOURCE
#include "peers.h"

#include <errno.h>
#include <stdlib.h>

#include <qthread/qthread.h>

static unsigned users;

static int enter(void)
{
    setenv("QTHREAD_NUM_SHEPHERDS", "1", 1);
    setenv("QTHREAD_NUM_WORKERS_PER_SHEPHERD", "1", 1);
    setenv("QTHREAD_STACK_SIZE", BENCH_TEXT(BENCH_STACK_BYTES), 1);
    if (users == 0 && qthread_initialize() != QTHREAD_SUCCESS)
        return -EIO;
    users++;
    return 0;
}

static void leave(void)
{
    if (--users == 0)
        qthread_finalize();
}

/* ---- switch ---- */

static void yield(void *unused)
{
    (void)unused;
    qthread_yield();
}

static aligned_t second_yields(void *turns)
{
    turns_second(turns, yield, NULL);
    return 0;
}

static int run_yield(struct turns *turns)
{
    aligned_t ended;

    qthread_fork(second_yields, turns, &ended);
    turns_first(turns, yield, NULL);
    qthread_readFF(NULL, &ended);
    return 0;
}

const struct switch_way qthreads_yield = {enter, run_yield, leave};

/* ---- spawn ---- */

static aligned_t null_thread(void *count)
{
    ++*(uint64_t *)count;
    return 0;
}

static int run_spawn(struct spawned *spawned)
{
    aligned_t *ended = (aligned_t *)spawned->handles;

    _Static_assert(sizeof(aligned_t) <= sizeof(void *), "handles hold results");
    for (uint64_t i = 0; i < spawned->iterations; i++) {
        for (uint64_t n = 0; n < spawned->each; n++)
            qthread_fork(null_thread, &spawned->ran, &ended[n]);
        for (uint64_t n = 0; n < spawned->each; n++)
            qthread_readFF(NULL, &ended[n]);
    }
    return 0;
}

const struct spawn_way qthreads_spawn = {enter, run_spawn, leave};
