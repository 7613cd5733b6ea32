/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A short parallel loop: two parts, of none to some thousand multiplications each, one for each of
 * two processors. The limit is both parts one after the other on one processor: how short may a loop
 * be so that two processors are faster? The parts are the same object code for all (loop_case.c).
 * A sample is the time of one loop. The limit of a team that any thread may run, and of one of which
 * only two of eight members run, is the team of two that its creator runs. And a loop of many indices
 * from main, whose limit is two threads that divide it by hand.
 */
#include "child.h"
#include "harness.h"
#include "in_fiber.h"
#include "loop_case.h"
#include "shadow_fork.h"

#include <stdio.h>
#include <stdlib.h>

#include <umbra/task.h>
#include <umbra/team.h>

#define ROUNDS 101
#define ROUNDS_QUICK 15
#define WAKE_NS 100000 /* loops that are not counted: both cores are awake then */

/* ---- how contenders execute one loop ---- */

#define CONTENDERS 14
#define TEAM_MOST 8 /* members of a team that two run */

struct contender;

/* One contender with one size of loop. */
struct entry {
    const struct contender *contender;
    unsigned size;
    struct loop_case *loop; /* one for all, in turns */
    struct bench_row *row;
    struct child_program program;
};

struct contender {
    const char *name;
    void (*once)(struct loop_case *loop, void *state); /* NULL: in a child process */
    bool in_fiber;
    bool any_thread;  /* of a team */
    unsigned members; /* likewise, if more than run */
    unsigned limit;   /* which contender is */
    struct child_program program;
    struct child_process **process; /* NULL: each row in a process of its own */
};

static void once_serial(struct loop_case *loop, void *state)
{
    (void)state;
    for (size_t part = 0; part < LOOP_PARTS; part++)
        loop_part(loop, part);
}

static void shadow_part(void *loop)
{
    loop_part(loop, 1);
}

static void once_shadow(struct loop_case *loop, void *shadow)
{
    shadow_fork(shadow, shadow_part, loop);
    loop_part(loop, 0);
    shadow_join(shadow);
}

static void team_part(unsigned member, unsigned members, void *loop)
{
    (void)members;
    loop_part(loop, member);
}

static void once_team(struct loop_case *loop, void *team)
{
    umbra_team_run(team, LOOP_PARTS, team_part, loop);
}

static void once_task(struct loop_case *loop, void *state)
{
    struct umbra_task task;

    (void)state;
    umbra_task_fork(&task, shadow_part, loop);
    loop_part(loop, 0);
    umbra_task_join(&task, UMBRA_NEVER);
}

static void range_part(size_t begin, size_t end, void *loop)
{
    for (size_t part = begin; part < end; part++)
        loop_part(loop, part);
}

static void once_range(struct loop_case *loop, void *state)
{
    (void)state;
    umbra_parallel_for(0, LOOP_PARTS, 1, range_part, loop);
}

static void once_measured(struct loop_case *loop, void *state)
{
    (void)state;
    umbra_parallel_for(0, LOOP_PARTS, 0, range_part, loop);
}

/* ---- batches ---- */

static void loops(const struct entry *entry, void *state, struct bench_batch *batch)
{
    struct loop_case *loop = entry->loop;
    uint64_t begin;

    loop_begin(loop, entry->size);
    begin = bench_now_ns();
    for (uint64_t i = 0; i < batch->iterations; i++)
        entry->contender->once(loop, state);
    batch->ns = bench_now_ns() - begin;
    batch->verified = loop_verified(loop);
}

static int run_here(struct bench_row *row, struct bench_batch *batch)
{
    loops(row->arg, row->state, batch);
    return 0;
}

/* All rows have their samples; what a loop takes on one processor is known now. */
static void close_serial(struct bench_row *row)
{
    const struct entry *of_size = row->arg; /* the first of its size; all others follow */

    for (size_t c = 0; c < CONTENDERS; c++)
        json_object_set_new(of_size[c].row->params, "work_ns",
                            json_real(bench_summary_of(row).median));
}

static const struct bench_ops serial_ops = {.run = run_here, .close = close_serial};

/* ---- the shadow, the team ---- */

static int start_shadow(struct bench_row *row)
{
    static const struct umbra_wait_options two_phase = {.mode = UMBRA_WAIT_TWO_PHASE};

    row->state = bench_lines(row->bench);
    return shadow_fork_create(row, &two_phase, row->state);
}

static void stop_shadow(struct bench_row *row)
{
    shadow_destroy(row->state);
}

static const struct bench_ops shadow_ops = {
    .start = start_shadow, .run = run_here, .stop = stop_shadow};

/* The row's two processors, and for further members others, as far as there are any. */
static void list_places(const struct bench_row *row, unsigned members, char *list, size_t bytes)
{
    const struct umbra_topology_info *info = umbra_topology_info(bench_topology(row->bench));
    int length = snprintf(list, bytes, "%d,%d", row->cpus[0], row->cpus[1]);
    unsigned places = 2;

    for (unsigned i = 0; i < info->cpus && places < members; i++)
        if (info->cpu[i].cpu != row->cpus[0] && info->cpu[i].cpu != row->cpus[1]) {
            length += snprintf(list + length, bytes - (size_t)length, ",%d", info->cpu[i].cpu);
            places++;
        }
}

static int start_team(struct bench_row *row)
{
    const struct contender *contender = ((const struct entry *)row->arg)->contender;
    char places[TEAM_MOST * 12];
    struct umbra_team_options options = {.members = contender->members,
                                         .cpus = places,
                                         .any_thread = contender->any_thread,
                                         .topology = bench_topology(row->bench)};

    list_places(row, contender->members, places, sizeof places);
    return umbra_team_create(&options, (struct umbra_team **)&row->state);
}

static void stop_team(struct bench_row *row)
{
    umbra_team_destroy(row->state);
}

static const struct bench_ops team_ops = {.start = start_team, .run = run_here, .stop = stop_team};

/* ---- in a fiber ---- */

struct turn {
    const struct entry *entry;
    struct bench_batch *batch;
};

static void *turn_fiber(void *arg)
{
    const struct turn *turn = arg;
    uint64_t begin = bench_now_ns();

    loop_begin(turn->entry->loop, turn->entry->size);
    while (bench_now_ns() - begin < WAKE_NS)
        turn->entry->contender->once(turn->entry->loop, NULL);
    loops(turn->entry, NULL, turn->batch);
    return NULL;
}

static int start_cores(struct bench_row *row)
{
    return in_fiber_cores(row->bench, 2, (struct umbra_runtime **)&row->state);
}

static int run_in_fiber(struct bench_row *row, struct bench_batch *batch)
{
    struct turn turn = {.entry = row->arg, .batch = batch};

    return in_fiber(row->state, turn_fiber, &turn);
}

static void stop_cores(struct bench_row *row)
{
    umbra_runtime_destroy(row->state);
}

static const struct bench_ops fiber_ops = {
    .start = start_cores, .run = run_in_fiber, .stop = stop_cores};

/* ---- rows ---- */

#define OMP_SETTINGS                                                                               \
    "OMP_NUM_THREADS=2", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close", "OMP_PLACES=%d",              \
        "OMP_WAIT_POLICY=active"

static struct child_process *processes[5];

static const struct contender contenders[CONTENDERS] = {
    {.name = "serial", .once = once_serial},
    {.name = "shadow", .once = once_shadow},
    {.name = "umbra-team", .once = once_team},
    {.name = "umbra-team-any", .once = once_team, .any_thread = true, .limit = 2},
    {.name = "umbra-team-part", .once = once_team, .members = TEAM_MOST, .limit = 2},
    {.name = "umbra-task", .once = once_task, .in_fiber = true},
    {.name = "umbra-parallel-for", .once = once_range, .in_fiber = true},
    {.name = "umbra-parallel-for-grain-0", .once = once_measured, .in_fiber = true},
    {.name = "umbra-parallel-for-main", .program = {.file = "loop-child-main"}},
    {.name = "openmp-gomp",
     .program = {.file = "loop-child-gomp", .settings = {OMP_SETTINGS, "GOMP_SPINCOUNT=infinite"}},
     .process = &processes[0]},
    {.name = "openmp-llvm",
     .program = {.file = "loop-child-llvm", .settings = {OMP_SETTINGS, "KMP_BLOCKTIME=infinite"}},
     .process = &processes[1]},
    {.name = "tbb", .program = {.file = "loop-child-tbb"}, .process = &processes[2]},
    {.name = "fork-union", .program = {.file = "loop-child-fork-union"}, .process = &processes[3]},
    {.name = "citor", .program = {.file = "loop-child-citor"}, .process = &processes[4]},
};

static const struct bench_ops *ops_of(const struct contender *contender)
{
    return contender->in_fiber              ? &fiber_ops
           : !contender->once               ? &child_ops
           : contender->once == once_team   ? &team_ops
           : contender->once == once_shadow ? &shadow_ops
                                            : &serial_ops;
}

static void add(struct bench *bench, struct entry *entry)
{
    const struct contender *contender = entry->contender;
    struct bench_row *row;

    entry->program = contender->program;
    entry->program.problem = entry->size;
    entry->program.shared = contender->process;
    row = bench_add(bench, contender->name, ops_of(contender),
                    contender->once ? (void *)entry : (void *)&entry->program);
    json_object_set_new(row->params, "multiplications", json_integer(loop_sizes[entry->size]));
    json_object_set_new(row->params, "members", json_integer(LOOP_PARTS));
    entry->row = row;
}

/* A loop of many indices: the first is the limit. */
static void add_indices(struct bench *bench)
{
    static const char *const names[] = {"pthread-halves", "serial", "umbra-parallel-for-main"};
    static struct child_program programs[] = {
        {.file = "loop-child-main", .argument = "pthreads", .problem = LOOP_SIZES},
        {.file = "loop-child-main", .argument = "serial", .problem = LOOP_SIZES},
        {.file = "loop-child-main", .problem = LOOP_SIZES}};
    struct bench_row *limit = NULL;

    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        struct bench_row *row = bench_add(bench, names[i], &child_ops, &programs[i]);

        json_object_set_new(row->params, "indices", json_integer(LOOP_INDICES));
        row->limit = limit;
        limit = limit ? limit : row;
    }
}

static int declare(struct bench *bench)
{
    static struct loop_case loop;
    struct entry *entry = calloc(LOOP_SIZES * CONTENDERS, sizeof(*entry));

    if (entry == NULL)
        return -ENOMEM;
    for (unsigned size = 0; size < LOOP_SIZES; size++, entry += CONTENDERS)
        for (size_t c = 0; c < CONTENDERS; c++) {
            entry[c] = (struct entry){.contender = &contenders[c], .size = size, .loop = &loop};
            add(bench, &entry[c]);
            entry[c].row->limit = c > 0 ? entry[contenders[c].limit].row : NULL;
        }
    add_indices(bench);
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "loop",
    .about = "a short loop of two parts, one for each of two processors",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
