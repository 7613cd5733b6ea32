/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A contender of crowd, in a process of its own: with the argument "team" teams of Umbra, else OpenMP.
 * Teams are made before the time begins, by the threads that run them; it lasts from the first that
 * runs a graph to the last.
 */
#define _GNU_SOURCE
#include "child_channel.h"
#include "crowd_case.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include <umbra/team.h>

#define THREADS_MOST 2
#define WORK 200 /* multiplications of a part of a node */

static bool with_umbra;

/* A thread that runs graphs. */
struct caller {
    uint64_t graphs;
    unsigned members;
    struct umbra_team *team;
    pthread_barrier_t *all; /* callers */
    uint64_t begun, ended;  /* ns */
    pthread_t thread;
    struct {
        uint64_t nodes, value;
    } part[CROWD_MOST] __attribute__((aligned(CHILD_CHANNEL_LINE)));
};

/* A member's part of a node. */
static void compute(struct caller *caller, unsigned member)
{
    uint64_t value = caller->part[member].value;

    for (unsigned i = 0; i < WORK; i++)
        value = value * 6364136223846793005u + 1442695040888963407u;
    caller->part[member].value = value;
    caller->part[member].nodes++;
}

static void graph_part(unsigned member, unsigned members, void *arg)
{
    struct caller *caller = arg;

    (void)members;
    for (unsigned node = 0; node < CROWD_BARRIERS; node++) {
        compute(caller, member);
        umbra_team_barrier(caller->team, member);
    }
}

static void graph_in_openmp(struct caller *caller)
{
    unsigned next = 0;

#pragma omp parallel num_threads(caller->members)
    {
        unsigned member;

#pragma omp atomic capture
        member = next++;
        for (unsigned node = 0; node < CROWD_BARRIERS; node++) {
            compute(caller, member);
#pragma omp barrier
        }
    }
}

static void graph(struct caller *caller)
{
    if (with_umbra)
        umbra_team_run(caller->team, 0, graph_part, caller);
    else
        graph_in_openmp(caller);
}

static void *call(void *arg)
{
    struct caller *caller = arg;
    struct umbra_team_options options = {.members = caller->members};

    if (with_umbra && umbra_team_create(&options, &caller->team) != 0)
        abort();
    graph(caller);
    pthread_barrier_wait(caller->all);
    caller->begun = child_channel_now_ns();
    for (uint64_t i = 0; i < caller->graphs; i++)
        graph(caller);
    caller->ended = child_channel_now_ns();
    umbra_team_destroy(caller->team);
    return NULL;
}

/* A thread that wants the first processor; it ends with the batch. */
static void *loop_for_ever(void *stop)
{
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
        ;
    return NULL;
}

static void bind_to(const struct child_channel *channel, pthread_t thread, unsigned cpus)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (unsigned i = 0; i < cpus; i++)
        CPU_SET(channel->cpus[i], &set);
    pthread_setaffinity_np(thread, sizeof(set), &set);
}

/* All graphs of a batch had all their nodes, in all parts. */
static uint64_t verified(const struct caller *callers, const struct crowd_case *of, uint64_t graphs)
{
    for (unsigned i = 0; i < of->threads; i++)
        for (unsigned m = 0; m < of->members; m++)
            if (callers[i].part[m].nodes != (graphs + 1) * CROWD_BARRIERS)
                return 0;
    return graphs;
}

static void batch(struct child_channel *channel)
{
    static struct caller callers[THREADS_MOST];
    const struct crowd_case *of = &crowd_cases[channel->problem];
    pthread_barrier_t all;
    pthread_t busy;
    uint64_t begun = UINT64_MAX, ended = 0;
    int stop = 0;

    pthread_barrier_init(&all, NULL, of->threads);
    memset(callers, 0, sizeof(callers));
    if (of->loops) {
        pthread_create(&busy, NULL, loop_for_ever, &stop);
        bind_to(channel, busy, 1);
    }
    for (unsigned i = 0; i < of->threads; i++) {
        callers[i].graphs = channel->iterations;
        callers[i].members = of->members;
        callers[i].all = &all;
        pthread_create(&callers[i].thread, NULL, call, &callers[i]);
    }
    for (unsigned i = 0; i < of->threads; i++) {
        pthread_join(callers[i].thread, NULL);
        begun = callers[i].begun < begun ? callers[i].begun : begun;
        ended = callers[i].ended > ended ? callers[i].ended : ended;
    }
    channel->own_ns = ended - begun;
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    if (of->loops)
        pthread_join(busy, NULL);
    pthread_barrier_destroy(&all);
    channel->verified = verified(callers, of, channel->iterations);
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 1 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL)
        return 2;
    with_umbra = argc > 2 && strcmp(argv[2], "team") == 0;
    bind_to(channel, pthread_self(), 2);
    child_channel_serve(channel, batch);
}
