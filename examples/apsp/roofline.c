/* SPDX-License-Identifier: BSL-1.0 */
/* See roofline.h. */
#define _GNU_SOURCE
#include "roofline.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include <umbra/cpu.h>

#define LENGTH_NS UINT64_C(20000000)

struct worker {
    pthread_t thread;
    size_t index;
    struct blocks blocks; /* three */
    double relaxations;   /* a second */
    pthread_barrier_t *together;
};

/* Binds the caller to one of its processors: else two might begin, and stay, on the same one. */
static void bind_nth(size_t n)
{
    cpu_set_t allowed, one;
    int cpu = -1;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return;
    n %= (size_t)CPU_COUNT(&allowed);
    do
        cpu++;
    while (!CPU_ISSET(cpu, &allowed) || n-- > 0);
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct blocks *blocks = &worker->blocks;
    relax_fn *relax = arithmetic_for(blocks->element).relax;
    uint64_t begin, now, times = 0;

    bind_nth(worker->index);
    pthread_barrier_wait(worker->together);
    begin = umbra_now_ns();
    do {
        relax(block_at(blocks, 0, 0), block_at(blocks, 0, 1), block_at(blocks, 1, 0),
              blocks->block);
        times++;
        now = umbra_now_ns();
    } while (now - begin < LENGTH_NS);
    worker->relaxations = (double)times * (double)blocks->block * (double)blocks->block *
                          (double)blocks->block / (double)(now - begin) * 1e9;
    return NULL;
}

int roofline(enum element element, size_t block, size_t threads, double *relaxations)
{
    struct graph complete = {.n = 2 * block};
    struct worker *worker = calloc(threads, sizeof(*worker));
    pthread_barrier_t together;
    int error = worker ? graph_generate(&complete, 2 * block, 8, false, 1) : -ENOMEM;
    size_t started = 0;

    *relaxations = 0;
    for (size_t t = 0; t < threads && !error; t++) {
        worker[t].index = t;
        worker[t].together = &together;
        error = blocks_create(&worker[t].blocks, element, complete.n, block);
        if (!error)
            blocks_fill(&worker[t].blocks, &complete);
    }
    if (!error) {
        pthread_barrier_init(&together, NULL, (unsigned)threads);
        while (started < threads &&
               pthread_create(&worker[started].thread, NULL, work, &worker[started]) == 0)
            started++;
        if (started < threads)
            abort(); /* they would wait for each other for ever */
        for (size_t t = 0; t < threads; t++) {
            pthread_join(worker[t].thread, NULL);
            *relaxations += worker[t].relaxations;
        }
        pthread_barrier_destroy(&together);
    }
    for (size_t t = 0; t < threads && worker; t++)
        blocks_destroy(&worker[t].blocks);
    graph_destroy(&complete);
    free(worker);
    return error;
}
