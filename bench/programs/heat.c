/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Heat that spreads through a body (examples/heat) on all processors: a step, in tasks of several
 * sizes and shapes; some ways also on fewer processors. The limit is the best way for one processor to do it, as a whole or block by
 * block. Every runtime is a process of its own that is stopped between its turns; its rows share it.
 *
 *   umbra-dispatch                     also on 1, 2, 4 ... processors, as -pure, -scatter-gather and mpi
 *   umbra-dispatch-pure                the paper's own, on ports
 *   umbra-dispatch-ahead               without an end of each step
 *   umbra-scatter-gather               on ports
 *   openmp-*                           schedule(static); -dynamic, a task at a time; -guided; -tasks;
 *                                      -depend, tasks without an end of each step
 *   tbb                                a loop with an affinity partitioner
 *   mpi                                a rank a processor, each with its planes
 *   *-resident                         bytes that a run makes resident
 *   *-buffer                           the paper's Figure 7: 1000 tasks (--quick: 20) that fill a buffer each,
 *                                      also on one processor
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
    {100, 10, 5},
    {4, 4, 4},
    {13, 13, 13},
    {20, 20, 20},
    {50, 50, 50},
    {100, 50, 25},
    /* what lies between, only dispatched: how little a time depends on the task */
    {16, 16, 16},
    {25, 25, 25},
    {34, 34, 34},
    {100, 20, 10},
    {100, 25, 20},
};
static const uint32_t buffers[] = {1 << 10,  4 << 10,   16 << 10,  32 << 10,
                                   64 << 10, 128 << 10, 512 << 10, 1 << 20};

#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))
#define COMPARED ((size_t)6) /* that all contenders have */
#define LEAST_NODES 4000     /* of a task that is compared with those of its way's best size */
#define BUFFERS (sizeof(buffers) / sizeof(buffers[0]))

enum runtime { HERE, GOMP, LLVM, TBB, MPI, BUFFER, RUNTIMES };

#define OPENMP_SETTINGS                                                                            \
    "OMP_NUM_THREADS=%u", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close", "OMP_PLACES=%d",             \
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
    [MPI] = {.file = "heat-child-mpi"},
    [BUFFER] = {.file = "buffers-child", .shared = &processes[BUFFER]},
};

static const struct contender {
    const char *name;
    enum runtime runtime;
    enum heat_way way;
    bool scales; /* also on fewer processors than all */
} contenders[] = {
    {"umbra-dispatch", HERE, WAY_DISPATCH, true},
    {"umbra-dispatch-pure", HERE, WAY_DISPATCH_PURE, true},
    {"umbra-dispatch-ahead", HERE, WAY_DISPATCH_AHEAD, false},
    {"umbra-scatter-gather", HERE, WAY_SCATTER_GATHER, true},
    {"openmp-gomp", GOMP, WAY_STATIC, false},
    {"openmp-gomp-dynamic", GOMP, WAY_DYNAMIC, false},
    {"openmp-gomp-guided", GOMP, WAY_GUIDED, false},
    {"openmp-gomp-tasks", GOMP, WAY_TASKS, false},
    {"openmp-gomp-depend", GOMP, WAY_DEPEND, false},
    {"openmp-llvm", LLVM, WAY_STATIC, false},
    {"openmp-llvm-dynamic", LLVM, WAY_DYNAMIC, false},
    {"openmp-llvm-guided", LLVM, WAY_GUIDED, false},
    {"openmp-llvm-tasks", LLVM, WAY_TASKS, false},
    {"openmp-llvm-depend", LLVM, WAY_DEPEND, false},
    {"tbb", TBB, WAY_TBB, false},
};

#define CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

enum { BY_STEP, AHEAD, PURE, DISPATCHES };

static struct bench_row *dispatch_rows[DISPATCHES][SHAPES]; /* on all processors */
static struct bench_row *other_rows[SHAPES][CONTENDERS];    /* which none of ours is */
static struct bench_row *mpi_row;
static char argument[ARGUMENT_BYTES], tasks_argument[ARGUMENT_BYTES];
static char mpi_argument[BENCH_COUNTS][ARGUMENT_BYTES];
static struct child_process *mpi_process[BENCH_COUNTS]; /* one for each number of ranks */
static size_t edge;                                     /* nodes of the body in each direction */

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

/* Which of the dispatchers it is, or DISPATCHES. */
static int dispatch_of(const struct contender *contender)
{
    return contender->way == WAY_DISPATCH         ? BY_STEP
           : contender->way == WAY_DISPATCH_AHEAD ? AHEAD
           : contender->way == WAY_DISPATCH_PURE  ? PURE
                                                  : DISPATCHES;
}

static struct bench_row *add_task(struct bench *bench, struct bench_row *serial, size_t shape,
                                  const struct contender *contender, unsigned cores)
{
    struct heat_case heat = case_of(shapes[shape], contender->way, cores);
    struct bench_row *row = add(bench, contender->name, contender->runtime, &heat);

    row->limit = serial;
    state_task(row, &heat);
    return row;
}

static void add_shape(struct bench *bench, struct bench_row *serial, size_t shape)
{
    unsigned counts[BENCH_COUNTS], n = bench_cpu_counts(bench, counts);

    for (size_t c = 0; c < CONTENDERS; c++) {
        const struct contender *contender = &contenders[c];
        int dispatch = dispatch_of(contender);
        struct bench_row *row;

        if (shape >= COMPARED && dispatch == DISPATCHES)
            continue;
        for (unsigned i = 0; contender->scales && i + 1 < n; i++)
            add_task(bench, serial, shape, contender, counts[i]);
        row = add_task(bench, serial, shape, contender, counts[n - 1]);
        if (dispatch < DISPATCHES)
            dispatch_rows[dispatch][shape] = row;
        else if (contender->runtime != HERE)
            other_rows[shape][c] = row;
    }
}

/* MPI on one number of processors, each rank with as many planes. */
static struct bench_row *add_ranks(struct bench *bench, const char *name, unsigned at,
                                   unsigned ranks, bool resident)
{
    size_t planes = edge > ranks ? edge / ranks : 1;
    struct heat_case heat = case_of((size_t[3]){edge, edge, planes}, WAY_MPI, ranks);
    struct bench_row *row;
    struct child_program *program;

    heat.resident = resident;
    snprintf(mpi_argument[at], ARGUMENT_BYTES, "%u:%zu", ranks, edge);
    row = add(bench, name, MPI, &heat);
    program = (struct child_program *)row->arg;
    program->argument = mpi_argument[at];
    program->shared = &mpi_process[at];
    if (!resident)
        state_task(row, &heat);
    return row;
}

static void add_mpi(struct bench *bench, struct bench_row *serial)
{
    unsigned counts[BENCH_COUNTS], n = bench_cpu_counts(bench, counts);

    for (unsigned i = 0; i < n; i++) {
        mpi_row = add_ranks(bench, "mpi", i, counts[i], false);
        mpi_row->limit = serial;
    }
}

static void add_memory(struct bench *bench)
{
    static const struct contender runs[] = {
        {"umbra-dispatch-resident", HERE, WAY_DISPATCH, false},
        {"umbra-dispatch-pure-resident", HERE, WAY_DISPATCH_PURE, false},
        {"umbra-scatter-gather-resident", HERE, WAY_SCATTER_GATHER, false},
    };
    unsigned counts[BENCH_COUNTS], n = bench_cpu_counts(bench, counts);

    for (size_t r = 0; r < sizeof(runs) / sizeof(runs[0]); r++) {
        struct heat_case heat = case_of(shapes[0], runs[r].way, counts[n - 1]);

        heat.resident = true;
        add(bench, runs[r].name, runs[r].runtime, &heat);
    }
    add_ranks(bench, "mpi-resident", n - 1, counts[n - 1], true);
}

static void add_buffer(struct bench *bench, const struct buffers_case *what)
{
    static const char *const names[][2] = {
        [BUFFERS_DISPATCH] = {"umbra-dispatch-buffer", "umbra-dispatch-buffer-resident"},
        [BUFFERS_DISPATCH_PURE] = {"umbra-dispatch-pure-buffer",
                                   "umbra-dispatch-pure-buffer-resident"},
        [BUFFERS_SCATTER_GATHER] = {"umbra-scatter-gather-buffer",
                                    "umbra-scatter-gather-buffer-resident"},
    };
    struct child_program *program = new_program(BUFFER, tasks_argument, buffers_case_pack(what));
    struct bench_row *row = bench_add(bench, names[what->way][what->resident], &child_ops, program);

    state(row, "bytes", what->bytes);
    state(row, "cores", what->cores);
    row->batch = 1;
    if (what->resident)
        row->unit = "bytes";
}

/* On one processor, for the efficiency (Figure 7c); on all of them; and what of these is resident. */
static void add_buffers(struct bench *bench, uint32_t bytes)
{
    unsigned counts[BENCH_COUNTS], n = bench_cpu_counts(bench, counts);

    for (int way = BUFFERS_DISPATCH; way <= BUFFERS_SCATTER_GATHER; way++) {
        struct buffers_case what = {.way = (enum buffers_way)way, .bytes = bytes, .cores = 1};

        if (n > 1)
            add_buffer(bench, &what);
        what.cores = counts[n - 1];
        add_buffer(bench, &what);
        what.resident = true;
        add_buffer(bench, &what);
    }
}

static int declare(struct bench *bench)
{
    struct bench_row *serial;

    edge = bench_tiny(bench) ? 20 : 100;
    snprintf(argument, sizeof(argument), "%zu", edge);
    snprintf(tasks_argument, sizeof(tasks_argument), "%d", bench_quick(bench) ? 20 : 1000);
    serial = add_serial(bench);
    add_mpi(bench, serial);
    for (size_t shape = 0; shape < SHAPES; shape++)
        add_shape(bench, serial, shape);
    add_memory(bench);
    for (size_t b = 0; b < BUFFERS; b++)
        add_buffers(bench, buffers[b]);
    return 0;
}

/* ---- what it comes to ---- */

/* One line; with what the median of the rounds' quotients lies between. */
static void remark_on(const struct bench_row *row, struct bench_summary quotient,
                      const char *called, FILE *out)
{
    if (isnan(quotient.median)) /* of a single round there are no halves */
        return;
    fprintf(out, "%8.2f (%.2f to %.2f) times the time of %s: %s, tasks of %s\n", quotient.median,
            quotient.low, quotient.high, called, row->name,
            json_string_value(json_object_get(row->params, "task")));
}

/* Of ours, at each size, the paper's own. */
static void remark_on_pure(FILE *out)
{
    for (size_t shape = 0; shape < SHAPES; shape++)
        if (dispatch_rows[BY_STEP][shape]->runs && dispatch_rows[PURE][shape]->runs)
            remark_on(dispatch_rows[BY_STEP][shape],
                      bench_quotient(dispatch_rows[BY_STEP][shape], dispatch_rows[PURE][shape]),
                      dispatch_rows[PURE][shape]->name, out);
}

/* At each size the fastest of the others, as all rounds have it, and as a half has it for the other
 * half; at a way's best size MPI; and that for its other sizes. */
static void remark(const struct bench *bench, FILE *out)
{
    (void)bench;
    remark_on_pure(out);
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
    .about = "heat that spreads through a body, a step of its nodes",
    .cpus = 2,
    .all_cpus = true,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
