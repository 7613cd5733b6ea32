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
    int cpu;
    struct blocks blocks; /* three */
    double relaxations;   /* a second */
    pthread_barrier_t *together;
};

/* Else two might begin, and stay, on the same processor. */
static void bind(int cpu)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct blocks *blocks = &worker->blocks;
    relax_fn *relax = blocks->arithmetic.relax;
    uint64_t begin, now, times = 0;

    bind(worker->cpu);
    pthread_barrier_wait(worker->together);
    begin = umbra_now_ns();
    do {
        relax(block_at(blocks, 0, 0), block_at(blocks, 0, 0), block_at(blocks, 0, 1),
              block_at(blocks, 1, 0), blocks->block);
        times++;
        now = umbra_now_ns();
    } while (now - begin < LENGTH_NS);
    worker->relaxations = (double)times * (double)blocks->block * (double)blocks->block *
                          (double)blocks->block / (double)(now - begin) * 1e9;
    return NULL;
}

int roofline(const struct blocks *like, const int *cpus, size_t threads, double *relaxations)
{
    struct worker *worker = calloc(threads, sizeof(*worker));
    pthread_barrier_t together;
    struct graph graph = {0};
    int error = worker ? graph_generate(&graph, 2 * like->block, 8, false, 1) : -ENOMEM;
    size_t started = 0;

    *relaxations = 0;
    for (size_t t = 0; t < threads && !error; t++) {
        worker[t].cpu = cpus[t];
        worker[t].together = &together;
        error = blocks_create(&worker[t].blocks, like->element, graph.n, like->block);
        if (!error)
            blocks_fill(&worker[t].blocks, &graph);
        worker[t].blocks.arithmetic = like->arithmetic;
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
    graph_destroy(&graph);
    free(worker);
    return error;
}
