/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Random graphs of tasks with dependences, by calls of the ABI: kinds and addresses are known only at
 * run time. Each graph is made by one task, and its tasks note when they begin and end. The checker
 * knows only what the standard says: two tasks that have an address in common, in kinds that
 * exclude each other, are executed one after the other, and but for mutexinoutset in their order.
 * What a task may write it writes without atomic operations, so that a race detector sees an order
 * that is missing.
 *
 *     graphs [GRAPHS [SEED]]
 */
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define FLAG_DEPEND (1u << 3)

enum { TASKS = 40, ADDRESSES = 6, CLAUSES = 4, THREADS = 4 };
enum kind { IN = 1, OUT, INOUT, MUTEX, SET };

void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
bool GOMP_single_start(void);
void GOMP_task(void (*fn)(void *), void *data, void (*copy)(void *, void *), long bytes, long align,
               bool condition, unsigned flags, void **depend, int priority, void *detach);
void GOMP_taskwait(void);
void GOMP_taskwait_depend(void **depend);
void GOMP_taskwait_depend_nowait(void **depend);
void GOMP_taskgroup_start(void);
void GOMP_taskgroup_end(void);

struct clause {
    int address; /* -1: omp_all_memory, with INOUT */
    enum kind kind;
};

struct task {
    struct graph *graph;
    struct clause clause[CLAUSES];
    int clauses;
    bool condition;
    unsigned yields;
    uint64_t began, ended;
};

struct graph {
    uint64_t seed, clock;
    long cell[ADDRESSES];
    struct task task[TASKS];
    int tasks, made, waits; /* waits: by taskwait depend, after that many tasks */
    int wrong;
};

static uint64_t draw(struct graph *graph, uint64_t most)
{
    uint64_t z = graph->seed += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z >> 33) % most;
}

static void graph_draw(struct graph *graph)
{
    int addresses = 1 + (int)draw(graph, ADDRESSES);

    graph->tasks = 1 + (int)draw(graph, TASKS);
    graph->waits = draw(graph, 3) == 0 ? (int)draw(graph, TASKS) : -1;
    for (int i = 0; i < graph->tasks; i++) {
        struct task *task = &graph->task[i];

        task->graph = graph;
        task->clauses = (int)draw(graph, CLAUSES + 1);
        task->condition = draw(graph, 10) > 0;
        task->yields = draw(graph, 4) == 0 ? (unsigned)draw(graph, 6) : 0;
        for (int k = 0; k < task->clauses; k++) {
            task->clause[k].address = (int)draw(graph, (uint64_t)addresses);
            task->clause[k].kind = (enum kind)(1 + draw(graph, 5));
            if (draw(graph, 20) == 0)
                task->clause[k] = (struct clause){-1, INOUT};
        }
    }
}

/* ---- the tasks ---- */

/* True if the task may write what is at the address: it excludes all others. */
static bool writes(const struct task *task, int address)
{
    bool in = false, set = false;

    for (int k = 0; k < task->clauses; k++)
        if (task->clause[k].address == address || task->clause[k].address < 0) {
            in |= task->clause[k].kind == IN;
            set |= task->clause[k].kind == SET;
            if (task->clause[k].kind != IN && task->clause[k].kind != SET)
                return true;
        }
    return in && set;
}

static bool reads(const struct task *task, int address)
{
    for (int k = 0; k < task->clauses; k++)
        if (task->clause[k].address == address)
            return true;
    return false;
}

static void execute(void *data)
{
    struct task *task = *(struct task **)data;
    struct graph *graph = task->graph;
    long before[ADDRESSES];

    task->began = __atomic_add_fetch(&graph->clock, 1, __ATOMIC_RELAXED);
    for (int a = 0; a < ADDRESSES; a++)
        if (reads(task, a) || writes(task, a))
            before[a] = graph->cell[a];
    for (unsigned i = 0; i < task->yields; i++)
        sched_yield();
    for (int a = 0; a < ADDRESSES; a++)
        if (writes(task, a))
            graph->cell[a] = before[a] + 1;
    task->ended = __atomic_add_fetch(&graph->clock, 1, __ATOMIC_RELAXED);
}

/* The ABI's array: its first form where that will do, or, half of the time, its second one. */
static void clauses_write(const struct task *task, void **depend, void *(*object)[2], bool objects)
{
    static const enum kind order[2][4] = {{OUT, INOUT, IN, 0}, {OUT, INOUT, MUTEX, IN}};
    size_t at = objects ? 5 : 2, count[6] = {0};
    bool done[CLAUSES] = {false};

    for (int i = 0; i < 4; i++)
        for (int k = 0; k < task->clauses; k++) {
            const struct clause *clause = &task->clause[k];

            /* some of each kind are depend objects */
            if (clause->kind != order[objects][i] || (objects && (k + task->clauses) % 3 == 0))
                continue;
            depend[at++] = clause->address < 0 ? NULL : &task->graph->cell[clause->address];
            count[clause->kind]++;
            done[k] = true;
        }
    for (int k = 0; k < task->clauses; k++)
        if (!done[k]) {
            int address = task->clause[k].address;

            object[k][0] = address < 0 ? NULL : &task->graph->cell[address];
            object[k][1] = (void *)(uintptr_t)task->clause[k].kind;
            depend[at++] = object[k];
        }
    if (!objects) {
        depend[0] = (void *)(uintptr_t)task->clauses;
        depend[1] = (void *)(count[OUT] + count[INOUT]);
        return;
    }
    depend[0] = NULL;
    depend[1] = (void *)(uintptr_t)task->clauses;
    depend[2] = (void *)(count[OUT] + count[INOUT]);
    depend[3] = (void *)count[MUTEX];
    depend[4] = (void *)count[IN];
}

static bool plain(const struct task *task)
{
    for (int k = 0; k < task->clauses; k++)
        if (task->clause[k].kind > INOUT)
            return false;
    return task->clauses > 0;
}

static bool excludes(const struct task *a, const struct task *b, bool *ordered);

/* What the parent does: all the tasks, and perhaps a wait for some. */
static void make(struct graph *graph)
{
    for (int i = 0; i < graph->tasks; i++) {
        struct task *task = &graph->task[i];
        void *depend[5 + CLAUSES], *object[CLAUSES][2];
        bool ordered;

        clauses_write(task, depend, object, !plain(task) || draw(graph, 2) == 0);
        if (i == graph->waits && task->clauses > 0) {
            GOMP_taskwait_depend(depend);
            for (int j = 0; j < i; j++)
                graph->wrong +=
                    excludes(&graph->task[j], task, &ordered) && graph->task[j].ended == 0;
        }
        GOMP_task(execute, &task, NULL, sizeof(task), _Alignof(struct task *), task->condition,
                  task->clauses > 0 ? FLAG_DEPEND : 0, depend, 0, NULL);
        graph->made++;
    }
}

/* ---- the checker ---- */

/* True if the two may not overlap; *ordered: the first one ends before the second begins. */
static bool excludes(const struct task *a, const struct task *b, bool *ordered)
{
    bool some = false;

    *ordered = false;
    for (int k = 0; k < a->clauses; k++)
        for (int m = 0; m < b->clauses; m++) {
            enum kind one = a->clause[k].kind, other = b->clause[m].kind;
            bool all = a->clause[k].address < 0 || b->clause[m].address < 0;

            if (!all && a->clause[k].address != b->clause[m].address)
                continue;
            if (one == other && (one == IN || one == SET))
                continue;
            some = true;
            *ordered |= one != MUTEX || other != MUTEX;
        }
    return some;
}

static void check(struct graph *graph)
{
    for (int i = 0; i < graph->tasks; i++)
        for (int j = i + 1; j < graph->tasks; j++) {
            const struct task *a = &graph->task[i], *b = &graph->task[j];
            bool ordered;

            if (a->ended == 0 || b->ended == 0)
                graph->wrong++;
            if (excludes(a, b, &ordered) && a->ended > b->began)
                graph->wrong += ordered || b->ended > a->began;
        }
    for (int a = 0; a < ADDRESSES; a++) {
        long written = 0;

        for (int i = 0; i < graph->tasks; i++)
            written += writes(&graph->task[i], a);
        graph->wrong += graph->cell[a] != written;
    }
}

/* ---- regions ---- */

static void graph_task(void *data)
{
    struct graph *graph = *(struct graph **)data;

    make(graph);
    if (draw(graph, 2) == 0)
        GOMP_taskwait();
}

/* One graph made by the region's task, two by tasks of it. */
static void region(void *data)
{
    struct graph *graph = data;

    if (!GOMP_single_start())
        return;
    GOMP_taskgroup_start();
    for (int i = 1; i < 3; i++) {
        struct graph *other = &graph[i];

        GOMP_task(graph_task, &other, NULL, sizeof(other), _Alignof(struct graph *), true, 0, NULL,
                  0, NULL);
    }
    if (draw(graph, 2) == 0)
        make(graph);
    GOMP_taskgroup_end();
    if (graph->made == 0)
        make(graph);
}

/* ---- taskwait depend nowait: a task that does nothing, between two others ---- */

static long first, second;

static void set(void *data)
{
    (void)data;
    usleep(2000);
    first = 1;
}

static void copy(void *data)
{
    (void)data;
    second = first;
}

static void nowait(void *data)
{
    void *one[] = {(void *)1, (void *)1, &first};
    void *between[] = {(void *)2, (void *)1, &second, &first};
    void *two[] = {(void *)1, (void *)0, &second};

    (void)data;
    if (!GOMP_single_start())
        return;
    GOMP_task(set, NULL, NULL, 0, 1, true, FLAG_DEPEND, one, 0, NULL);
    GOMP_taskwait_depend_nowait(between);
    GOMP_task(copy, NULL, NULL, 0, 1, true, FLAG_DEPEND, two, 0, NULL);
}

int main(int argc, char **argv)
{
    int graphs = argc > 1 ? atoi(argv[1]) : 1000, wrong = 0;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);

    fprintf(stderr, "seed %ju\n", (uintmax_t)seed);
    for (int done = 0; done < graphs; done += 3) {
        static struct graph graph[3];

        for (int i = 0; i < 3; i++) {
            graph[i] = (struct graph){.seed = seed + (uint64_t)(done + i) * 1000};
            graph_draw(&graph[i]);
        }
        GOMP_parallel(region, graph, 1 + (unsigned)(done / 3 % THREADS), 0);
        for (int i = 0; i < 3; i++) {
            check(&graph[i]);
            wrong += graph[i].wrong;
        }
    }
    GOMP_parallel(nowait, NULL, 3, 0);
    wrong += second != 1;
    printf("graphs: %d wrong\n", wrong);
    return wrong > 0;
}
