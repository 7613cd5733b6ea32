/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Heat that spreads through a body (examples/heat) on two processors: a step, in tasks of several
 * sizes and shapes. The limit is the best way for one processor to do it, as a whole or block by
 * block. Every runtime is a process of its own that is stopped between its turns; its rows share it.
 *
 *   umbra-dispatch                     also on one core
 *   umbra-dispatch-ahead               without an end of each step
 *   umbra-scatter-gather               on ports
 *   openmp-*                           schedule(static); -dynamic, a task at a time; -guided; -tasks;
 *                                      -depend, tasks without an end of each step
 *   tbb                                a loop with an affinity partitioner
 *   mpi                                two ranks, each with its half
 *   *-resident                         bytes that a run makes resident
 *   *-buffer                           the paper's Figure 7: 1000 tasks (--quick: 20) that fill a buffer each
 */
#include "buffers_case.h"
#include "child.h"
#include "harness.h"
#include "heat_case.h"

#include <math.h>
#include <stdlib.h>

#define ROUNDS 21
#define ROUNDS_QUICK 3
#define STEPS 20
#define STEPS_QUICK 2
#define ARGUMENT_BYTES 48

/* Nodes of a block: pencils as long as the body, and cubes; the first has the rows of the ranking. */
static const size_t shapes[][3] = {
    {100, 10, 5}, {4, 4, 4}, {13, 13, 13}, {20, 20, 20}, {50, 50, 50}, {100, 50, 25},
    /* what lies between, only dispatched on both cores: how little a time depends on the task */
    {16, 16, 16}, {25, 25, 25}, {34, 34, 34}, {100, 20, 10}, {100, 25, 20},
};
static const uint32_t buffers[] = {64 << 10, 128 << 10, 512 << 10, 1 << 20};

#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))
#define COMPARED ((size_t)6) /* that all contenders have */
#define LEAST_NODES 4000 /* of a task that is compared with those of its way's best size */
#define BUFFERS (sizeof(buffers) / sizeof(buffers[0]))

enum runtime { HERE, GOMP, LLVM, TBB, MPI, BUFFER, RUNTIMES };

#define OPENMP_SETTINGS                                                                            \
    "OMP_NUM_THREADS=2", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close", "OMP_PLACES=%d",              \
        "OMP_WAIT_POLICY=active"

static struct child_process *processes[RUNTIMES];

static const struct child_program runtimes[RUNTIMES] = {
    [HERE] = {.file = "heat-child", .shared = &processes[HERE]},
    [GOMP] = {.file = "heat-child-gomp",
              .settings = {OPENMP_SETTINGS, "GOMP_SPINCOUNT=infinite"},
              .shared = &processes[GOMP]},
    [LLVM] = {.file = "heat-child-llvm",
              .settings = {OPENMP_SETTINGS, "KMP_BLOCKTIME=infinite"},
              .shared = &processes[LLVM]},
    [TBB] = {.file = "heat-child-tbb", .shared = &processes[TBB]},
    [MPI] = {.file = "heat-child-mpi", .shared = &processes[MPI]},
    [BUFFER] = {.file = "buffers-child", .shared = &processes[BUFFER]},
};

static const struct contender {
    const char *name;
    enum runtime runtime;
    enum heat_way way;
    unsigned cores;
} contenders[] = {
    {"umbra-dispatch", HERE, WAY_DISPATCH, 2},
    {"umbra-dispatch", HERE, WAY_DISPATCH, 1},
    {"umbra-dispatch-ahead", HERE, WAY_DISPATCH_AHEAD, 2},
    {"umbra-scatter-gather", HERE, WAY_SCATTER_GATHER, 2},
    {"openmp-gomp", GOMP, WAY_STATIC, 2},
    {"openmp-gomp-dynamic", GOMP, WAY_DYNAMIC, 2},
    {"openmp-gomp-guided", GOMP, WAY_GUIDED, 2},
    {"openmp-gomp-tasks", GOMP, WAY_TASKS, 2},
    {"openmp-gomp-depend", GOMP, WAY_DEPEND, 2},
    {"openmp-llvm", LLVM, WAY_STATIC, 2},
    {"openmp-llvm-dynamic", LLVM, WAY_DYNAMIC, 2},
    {"openmp-llvm-guided", LLVM, WAY_GUIDED, 2},
    {"openmp-llvm-tasks", LLVM, WAY_TASKS, 2},
    {"openmp-llvm-depend", LLVM, WAY_DEPEND, 2},
    {"tbb", TBB, WAY_TBB, 2},
};

#define CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

enum { BY_STEP, AHEAD, DISPATCHES };

static struct bench_row *dispatch_rows[DISPATCHES][SHAPES]; /* on both cores */
static struct bench_row *other_rows[SHAPES][CONTENDERS]; /* which none of ours is */
static struct bench_row *mpi_row;
static char argument[ARGUMENT_BYTES], tasks_argument[ARGUMENT_BYTES];
static size_t edge; /* nodes of the body in each direction */

/* ---- rows ---- */

static void state(struct bench_row *row, const char *key, size_t value)
{
    json_object_set_new(row->params, key, json_integer((json_int_t)value));
}

static struct child_program *new_program(enum runtime runtime, const char *words, uint64_t problem)
{
    struct child_program *program = malloc(sizeof(*program));

    if (program == NULL) {
        fprintf(stderr, "heat: out of memory\n");
        exit(BENCH_FAILED);
    }
    *program = runtimes[runtime];
    program->argument = words;
    program->problem = problem;
    return program;
}

/* The shape in a body that may be smaller. */
static struct heat_case case_of(const size_t shape[3], enum heat_way way, unsigned cores)
{
    struct heat_case heat = {.way = way, .cores = cores};

    for (int d = 0; d < 3; d++)
        heat.edge[d] = shape[d] < edge ? shape[d] : edge;
    return heat;
}

static struct bench_row *add(struct bench *bench, const char *name, enum runtime runtime,
                             const struct heat_case *heat)
{
    struct bench_row *row =
        bench_add(bench, name, &child_ops, new_program(runtime, argument, heat_case_pack(heat)));

    state(row, "nodes", edge * edge * edge);
    state(row, "cores", heat->cores);
    row->unit = heat->resident ? "bytes" : "ns";
    row->batch = heat->resident ? 1 : bench_quick(bench) ? STEPS_QUICK : STEPS;
    return row;
}

/* What tells tasks apart that have as many nodes: their edges. */
static void state_task(struct bench_row *row, const struct heat_case *heat)
{
    char text[32];

    snprintf(text, sizeof(text), "%zux%zux%zu", heat->edge[0], heat->edge[1], heat->edge[2]);
    json_object_set_new(row->params, "task", json_string(text));
    state(row, "task_nodes", heat->edge[0] * heat->edge[1] * heat->edge[2]);
}

/* The best of one processor: the whole at once, in pencils and in slabs. */
static struct bench_row *add_serial(struct bench *bench)
{
    static const size_t whole[3] = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
    const size_t *const ways[] = {whole, shapes[0], shapes[COMPARED - 1]};
    static const char *const names[] = {"serial-whole", "serial-pencils", "serial-slabs"};
    struct bench_row *serial = bench_add(bench, "serial", NULL, NULL);

    state(serial, "nodes", edge * edge * edge);
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        struct heat_case heat = case_of(ways[w], WAY_SERIAL, 1);

        add(bench, names[w], HERE, &heat)->part_of = serial;
    }
    return serial;
}

/* Which of the dispatchers on both cores it is, or DISPATCHES. */
static int dispatch_of(const struct contender *contender)
{
    return contender->cores != 2                  ? DISPATCHES
           : contender->way == WAY_DISPATCH       ? BY_STEP
           : contender->way == WAY_DISPATCH_AHEAD ? AHEAD
                                                  : DISPATCHES;
}

static void add_shape(struct bench *bench, struct bench_row *serial, size_t shape)
{
    for (size_t c = 0; c < CONTENDERS; c++) {
        const struct contender *contender = &contenders[c];
        struct heat_case heat = case_of(shapes[shape], contender->way, contender->cores);
        int dispatch = dispatch_of(contender);
        struct bench_row *row;

        if (shape >= COMPARED && dispatch == DISPATCHES)
            continue;
        row = add(bench, contender->name, contender->runtime, &heat);
        row->limit = serial;
        state_task(row, &heat);
        if (dispatch < DISPATCHES)
            dispatch_rows[dispatch][shape] = row;
        else if (contender->runtime != HERE)
            other_rows[shape][c] = row;
    }
}

static void add_memory(struct bench *bench)
{
    static const struct contender runs[] = {
        {"umbra-dispatch-resident", HERE, WAY_DISPATCH, 2},
        {"umbra-scatter-gather-resident", HERE, WAY_SCATTER_GATHER, 2},
        {"mpi-resident", MPI, WAY_MPI, 2},
    };

    for (size_t r = 0; r < sizeof(runs) / sizeof(runs[0]); r++) {
        struct heat_case heat = case_of(shapes[0], runs[r].way, runs[r].cores);

        heat.resident = true;
        add(bench, runs[r].name, runs[r].runtime, &heat);
    }
}

static void add_buffer(struct bench *bench, uint32_t bytes)
{
    static const char *const names[2][2] = {
        {"umbra-dispatch-buffer", "umbra-dispatch-buffer-resident"},
        {"umbra-scatter-gather-buffer", "umbra-scatter-gather-buffer-resident"},
    };

    for (int way = BUFFERS_DISPATCH; way <= BUFFERS_SCATTER_GATHER; way++)
        for (int resident = 0; resident <= 1; resident++) {
            struct buffers_case what = {
                .way = (enum buffers_way)way, .bytes = bytes, .resident = resident != 0};
            struct child_program *program =
                new_program(BUFFER, tasks_argument, buffers_case_pack(&what));
            struct bench_row *row = bench_add(bench, names[way][resident], &child_ops, program);

            state(row, "bytes", bytes);
            state(row, "cores", 2);
            row->batch = 1;
            if (resident)
                row->unit = "bytes";
        }
}

static int declare(struct bench *bench)
{
    struct heat_case halves;
    struct bench_row *serial;

    edge = bench_tiny(bench) ? 20 : 100;
    snprintf(argument, sizeof(argument), "%zu", edge);
    snprintf(tasks_argument, sizeof(tasks_argument), "%d", bench_quick(bench) ? 20 : 1000);
    halves = case_of((size_t[3]){edge, edge, edge / 2}, WAY_MPI, 2);
    serial = add_serial(bench);
    mpi_row = add(bench, "mpi", MPI, &halves);
    mpi_row->limit = serial;
    state_task(mpi_row, &halves);
    for (size_t shape = 0; shape < SHAPES; shape++)
        add_shape(bench, serial, shape);
    add_memory(bench);
    for (size_t b = 0; b < BUFFERS; b++)
        add_buffer(bench, buffers[b]);
    return 0;
}

/* ---- what it comes to ---- */

/* One line; with what the median of the rounds' quotients lies between. */
static void remark_on(const struct bench_row *row, struct bench_summary quotient, const char *called,
                      FILE *out)
{
    if (isnan(quotient.median)) /* of a single round there are no halves */
        return;
    fprintf(out, "%8.2f (%.2f to %.2f) times the time of %s: %s, tasks of %s\n", quotient.median,
            quotient.low, quotient.high, called, row->name,
            json_string_value(json_object_get(row->params, "task")));
}

/* At each size the fastest of the others, as all rounds have it, and as a half has it for the other
 * half; at a way's best size MPI; and that for its other sizes. */
static void remark(const struct bench *bench, FILE *out)
{
    (void)bench;
    for (int how = BY_STEP; how < DISPATCHES; how++) {
        const struct bench_row *own_best = bench_best(dispatch_rows[how], SHAPES);

        for (size_t shape = 0; shape < COMPARED; shape++) {
            const struct bench_row *row = dispatch_rows[how][shape];
            const struct bench_row *other = bench_best(other_rows[shape], CONTENDERS);

            if (!row->runs || !other)
                continue;
            remark_on(row, bench_quotient(row, other), other->name, out);
            remark_on(row, bench_quotient_of_best(row, other_rows[shape], CONTENDERS),
                      "the best by the other half of the rounds", out);
        }
        if (own_best && mpi_row->runs)
            remark_on(own_best, bench_quotient(own_best, mpi_row), mpi_row->name, out);
        for (size_t shape = 0; shape < SHAPES; shape++) {
            const struct bench_row *row = dispatch_rows[how][shape];
            json_int_t nodes = json_integer_value(json_object_get(row->params, "task_nodes"));

            if (row->runs && row != own_best && nodes >= LEAST_NODES)
                remark_on(row, bench_quotient(row, own_best), "its best size", out);
        }
    }
}

static const struct bench_kernel kernel = {
    .name = "heat",
    .about = "heat that spreads through a body, a step of its nodes, on two processors",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
