/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A contender of crowd, in a process of its own: with the argument "team" teams of Umbra, else OpenMP.
 * Teams are made before the time begins, by the threads that run them; it lasts from the first that
 * runs a graph to the last. A team of which threads take turns, and those within parts, are as a library
 * makes them: any thread runs them.
 */
#define _GNU_SOURCE
#include "child_channel.h"
#include "crowd_case.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>

#include <umbra/team.h>

#define THREADS_MOST 3
#define NESTED_MOST 2 /* members of a team whose parts have teams */
#define WORK 200      /* multiplications of a part of a node */

static bool with_umbra;

/* A thread that runs graphs. */
struct caller {
    uint64_t graphs;
    unsigned members;
    void (*graph)(struct caller *caller);
    struct umbra_team *team;
    struct umbra_team *inner[NESTED_MOST]; /* of its parts */
    pthread_barrier_t *all;                /* callers */
    struct caller *next;                   /* whose turn is after its own; NULL: none waits */
    sem_t turn;
    uint64_t begun, ended; /* ns */
    pthread_t thread;
    struct {
        uint64_t nodes __attribute__((aligned(CHILD_CHANNEL_LINE))), value;
    } part[CROWD_MOST];
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

static void graph_in_team(struct caller *caller)
{
    umbra_team_run(caller->team, 0, graph_part, caller);
}

/* ---- runs of nothing ---- */

static void count(unsigned member, unsigned members, void *arg)
{
    (void)members;
    ((struct caller *)arg)->part[member].nodes++;
}

static void run_in_team(struct caller *caller)
{
    umbra_team_run(caller->team, 0, count, caller);
}

static void run_in_openmp(struct caller *caller)
{
#pragma omp parallel num_threads(caller->members)
    count((unsigned)omp_get_thread_num(), caller->members, caller);
}

/* ---- in each part of a run ---- */

/* A part of a run of nothing, in the part `outer` of another run. */
struct inner {
    struct caller *caller;
    unsigned outer;
};

static void count_inner(unsigned member, unsigned members, void *arg)
{
    const struct inner *inner = arg;

    count(inner->outer * members + member, members, inner->caller);
}

static void outer_part(unsigned member, unsigned members, void *arg)
{
    struct inner inner = {arg, member};

    (void)members;
    umbra_team_run(inner.caller->inner[member], 0, count_inner, &inner);
}

static void nest_in_teams(struct caller *caller)
{
    umbra_team_run(caller->team, 0, outer_part, caller);
}

static void nest_in_openmp(struct caller *caller)
{
#pragma omp parallel num_threads(caller->members)
    {
        struct inner inner = {caller, (unsigned)omp_get_thread_num()};

#pragma omp parallel num_threads(caller->members)
        count_inner((unsigned)omp_get_thread_num(), caller->members, &inner);
    }
}

/* ---- callers ---- */

static void (*const graphs_of[][2])(struct caller *caller) = {
    [CROWD_GRAPH] = {graph_in_openmp, graph_in_team},
    [CROWD_RUN] = {run_in_openmp, run_in_team},
    [CROWD_IN_TURN] = {run_in_openmp, run_in_team},
    [CROWD_NESTED] = {nest_in_openmp, nest_in_teams},
};

static void make(struct umbra_team **team, unsigned members, bool any_thread)
{
    struct umbra_team_options options = {.members = members, .any_thread = any_thread};

    if (any_thread)
        options.bind = UMBRA_TEAM_BIND_MEMBERS;
    if (umbra_team_create(&options, team) != 0)
        abort();
}

/* The teams of a caller that takes no turns with others. */
static void make_teams(struct caller *caller)
{
    make(&caller->team, caller->members, false);
    for (unsigned i = 0; caller->graph == nest_in_teams && i < caller->members; i++)
        make(&caller->inner[i], caller->members, true);
}

static void destroy_teams(struct caller *caller)
{
    umbra_team_destroy(caller->team);
    for (unsigned i = 0; i < NESTED_MOST; i++)
        umbra_team_destroy(caller->inner[i]);
}

/* One graph or run, in the caller's turn if it has one. */
static void graph(struct caller *caller)
{
    if (caller->next)
        sem_wait(&caller->turn);
    caller->graph(caller);
    if (caller->next)
        sem_post(&caller->next->turn);
}

static void *call(void *arg)
{
    struct caller *caller = arg;

    if (with_umbra && !caller->next)
        make_teams(caller);
    graph(caller);
    pthread_barrier_wait(caller->all);
    caller->begun = child_channel_now_ns();
    for (uint64_t i = 0; i < caller->graphs; i++)
        graph(caller);
    caller->ended = child_channel_now_ns();
    if (!caller->next)
        destroy_teams(caller);
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

/* How many graphs of a batch, or runs of nothing in turn, had all their nodes, in all parts: all or
 * none. */
static uint64_t verified(const struct caller *callers, const struct crowd_case *of, uint64_t graphs)
{
    unsigned parts = of->work == CROWD_NESTED ? of->members * of->members : of->members;
    uint64_t nodes = of->work == CROWD_GRAPH ? CROWD_BARRIERS : 1;

    for (unsigned i = 0; i < of->threads; i++)
        for (unsigned m = 0; m < parts; m++)
            if (callers[i].part[m].nodes != (graphs + 1) * nodes)
                return 0;
    return of->work == CROWD_IN_TURN ? graphs * of->threads : graphs;
}

/* The threads and what they have in common. */
static void set_up(struct caller *callers, const struct crowd_case *of, uint64_t graphs,
                   pthread_barrier_t *all)
{
    struct umbra_team *team = NULL;
    bool in_turn = of->work == CROWD_IN_TURN;

    if (in_turn && with_umbra)
        make(&team, of->members, true);
    for (unsigned i = 0; i < of->threads; i++) {
        callers[i] = (struct caller){.graphs = graphs,
                                     .members = of->members,
                                     .graph = graphs_of[of->work][with_umbra],
                                     .team = team,
                                     .next = in_turn ? &callers[(i + 1) % of->threads] : NULL,
                                     .all = all};
        sem_init(&callers[i].turn, 0, i == 0);
    }
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
    set_up(callers, of, channel->iterations, &all);
    if (of->loops) {
        pthread_create(&busy, NULL, loop_for_ever, &stop);
        bind_to(channel, busy, 1);
    }
    for (unsigned i = 0; i < of->threads; i++)
        pthread_create(&callers[i].thread, NULL, call, &callers[i]);
    for (unsigned i = 0; i < of->threads; i++) {
        pthread_join(callers[i].thread, NULL);
        begun = callers[i].begun < begun ? callers[i].begun : begun;
        ended = callers[i].ended > ended ? callers[i].ended : ended;
    }
    channel->own_ns = ended - begun;
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    if (of->loops)
        pthread_join(busy, NULL);
    if (callers[0].next)
        umbra_team_destroy(callers[0].team);
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
