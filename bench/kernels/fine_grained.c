/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Pairs of equal small tasks, of 0.1 to 100 us each (as in Los and Petushkov, "Relic", 2024): one
 * task goes to the other processor, the caller runs the other one, and waits. The limit is both
 * tasks one after the other on one processor; how small may a task be so that two processors are
 * faster than that? The tasks are the same object code for all (fine_tasks.c).
 *
 * Nobody can hand a task over and get it back in less time than a cache line needs to travel there
 * and back, so that this is measured beside the pairs.
 *
 * OpenMP and oneTBB have several ways to say this. All are measured, and the one that was fastest,
 * by its median, is the contender; the row says which that is.
 */
#include "child.h"
#include "fine_case.h"
#include "harness.h"
#include "in_fiber.h"
#include "ping_pong.h"
#include "shadow_fork.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/task.h>

#define ROUNDS 61
#define ROUNDS_QUICK 15
#define KINDS_QUICK 3 /* the first ones */

static const bool quick_sizes[FINE_SIZES] = {
    [0] = true, [1] = true, [3] = true, [4] = true, [6] = true, [8] = true};

static const struct umbra_wait_options spin = {.mode = UMBRA_WAIT_SPIN};
static const struct umbra_wait_options two_phase = {.mode = UMBRA_WAIT_TWO_PHASE};

/* ---- contenders in processes of their own ---- */

#define OMP_SETTINGS                                                                               \
    "OMP_NUM_THREADS=2", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close", "OMP_PLACES=%d",              \
        "OMP_WAIT_POLICY=active"

static const struct child_program gomp = {.file = "fine-omp-child-gomp",
                                          .settings = {OMP_SETTINGS, "GOMP_SPINCOUNT=infinite"}};
static const struct child_program llvm = {.file = "fine-omp-child-llvm",
                                          .settings = {OMP_SETTINGS, "KMP_BLOCKTIME=infinite"}};
static const struct child_program tbb = {.file = "fine-tbb-child"};

/* Ways to say the same: each is a row, and a process, and a part of the whole's row. */
static const struct way {
    const char *whole, *name, *argument;
    const struct child_program *program;
} ways[] = {
    {"openmp-gomp", "openmp-gomp-parallel", "parallel", &gomp},
    {"openmp-gomp", "openmp-gomp-loop", "loop", &gomp},
    {"openmp-gomp", "openmp-gomp-sections", "sections", &gomp},
    {"openmp-gomp", "openmp-gomp-tasks", "tasks", &gomp},
    {"openmp-llvm", "openmp-llvm-parallel", "parallel", &llvm},
    {"openmp-llvm", "openmp-llvm-loop", "loop", &llvm},
    {"openmp-llvm", "openmp-llvm-sections", "sections", &llvm},
    {"openmp-llvm", "openmp-llvm-tasks", "tasks", &llvm},
    {"tbb", "tbb-task-group", "task-group", &tbb},
    {"tbb", "tbb-invoke", "invoke", &tbb},
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

static struct child_process *processes[WAYS];

/* In the columns' order. */
static const char *const contenders[] = {"shadow-spin", "shadow-two-phase", "umbra-task",
                                         "openmp-gomp", "openmp-llvm",      "tbb"};

#define TASKS 2 /* the third of them */
#define CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

/* ---- one pair and its rows ---- */

struct entry {
    unsigned kind, size;
    struct fine_pair pair;
    struct bench_row *serial, *rows[CONTENDERS], *parts[WAYS];
    struct child_program programs[WAYS];
    uint64_t forks, elsewhere; /* tasks of umbra-task, and how many of them the other core ran */
};

static struct entry *entries;
static size_t n_entries;
static struct bench_row *ping_pong;

static struct fine_pair *pair_of(const struct bench_row *row)
{
    return &((struct entry *)row->arg)->pair;
}

static int run_serial(struct bench_row *row, struct bench_batch *batch)
{
    struct fine_pair *pair = pair_of(row);
    uint64_t begin;

    fine_pair_begin(pair);
    begin = bench_now_ns();
    for (uint64_t i = 0; i < batch->iterations; i++) {
        pair->run(pair->sides[0]);
        pair->run(pair->sides[1]);
    }
    batch->ns = bench_now_ns() - begin;
    batch->verified = fine_pair_verified(pair);
    return 0;
}

static void take_samples(struct bench_row *whole, const struct bench_row *part)
{
    bench_take_samples(whole, part);
    json_object_set_new(whole->params, "fastest", json_string(part->name));
    json_object_update_missing(whole->params, part->params);
}

/* The whole is its fastest part. The least of each round would be luck, of so many parts. */
static void choose_parts(struct entry *entry)
{
    for (size_t c = 0; c < CONTENDERS; c++) {
        const struct bench_row *best = NULL;

        for (size_t w = 0; w < WAYS; w++) {
            const struct bench_row *part = entry->parts[w];

            if (part->part_of == entry->rows[c] && part->runs &&
                (best == NULL || bench_summary_of(part).median < bench_summary_of(best).median))
                best = part;
        }
        if (best != NULL && entry->rows[c]->runs)
            take_samples(entry->rows[c], best);
    }
}

static double task_ns(const struct entry *entry)
{
    return bench_summary_of(entry->serial).median / 2;
}

/* All rows have their samples; what a task took is known now. */
static void close_serial(struct bench_row *row)
{
    struct entry *entry = (struct entry *)row->arg;

    json_object_set_new(entry->serial->params, "task_ns", json_real(task_ns(entry)));
    for (size_t w = 0; w < WAYS; w++)
        json_object_set_new(entry->parts[w]->params, "task_ns", json_real(task_ns(entry)));
    for (size_t c = 0; c < CONTENDERS; c++)
        json_object_set_new(entry->rows[c]->params, "task_ns", json_real(task_ns(entry)));
    if (entry->forks > 0)
        json_object_set_new(entry->rows[TASKS]->params, "elsewhere",
                            json_real((double)entry->elsewhere / (double)entry->forks));
    choose_parts(entry);
}

static const struct bench_ops serial_ops = {.run = run_serial, .close = close_serial};

/* ---- the shadow ---- */

static int start_shadow(struct bench_row *row, const struct umbra_wait_options *wait)
{
    row->state = bench_lines(row->bench);
    return shadow_fork_create(row, wait, row->state);
}

static int start_spin(struct bench_row *row)
{
    return start_shadow(row, &spin);
}

static int start_two_phase(struct bench_row *row)
{
    return start_shadow(row, &two_phase);
}

static int run_shadow(struct bench_row *row, struct bench_batch *batch)
{
    struct umbra_shadow *shadow = row->state;
    struct fine_pair *pair = pair_of(row);
    uint64_t begin;

    fine_pair_begin(pair);
    begin = bench_now_ns();
    for (uint64_t i = 0; i < batch->iterations; i++) {
        shadow_fork(shadow, pair->run, pair->sides[1]);
        pair->run(pair->sides[0]);
        shadow_join(shadow);
    }
    batch->ns = bench_now_ns() - begin;
    batch->verified = fine_pair_verified(pair);
    return 0;
}

static void stop_shadow(struct bench_row *row)
{
    shadow_destroy(row->state);
}

static const struct bench_ops spin_ops = {
    .start = start_spin, .run = run_shadow, .stop = stop_shadow};
static const struct bench_ops two_phase_ops = {
    .start = start_two_phase, .run = run_shadow, .stop = stop_shadow};

/* ---- tasks of two cores ---- */

#define WAKE_NS 100000 /* pairs that nobody counts: both cores are awake then, and not one asleep */

struct task_turn {
    struct fine_pair *pair;
    struct bench_batch *batch;
};

static void run_by_task(const struct fine_pair *pair)
{
    struct umbra_task task;

    umbra_task_fork(&task, pair->run, pair->sides[1]);
    pair->run(pair->sides[0]);
    umbra_task_join(&task, UMBRA_NEVER);
}

static void *task_fiber(void *arg)
{
    const struct task_turn *turn = arg;
    uint64_t begin = bench_now_ns();

    while (bench_now_ns() - begin < WAKE_NS)
        run_by_task(turn->pair);
    fine_pair_begin(turn->pair);
    begin = bench_now_ns();
    for (uint64_t i = 0; i < turn->batch->iterations; i++)
        run_by_task(turn->pair);
    turn->batch->ns = bench_now_ns() - begin;
    return NULL;
}

static int start_tasks(struct bench_row *row)
{
    return in_fiber_cores(row->bench, 2, (struct umbra_runtime **)&row->state);
}

static int run_tasks(struct bench_row *row, struct bench_batch *batch)
{
    struct entry *entry = (struct entry *)row->arg;
    struct task_turn turn = {.pair = &entry->pair, .batch = batch};
    int error = in_fiber(row->state, task_fiber, &turn);

    batch->verified = fine_pair_verified(turn.pair);
    entry->elsewhere += fine_pair_elsewhere(turn.pair);
    entry->forks += batch->verified;
    return error;
}

static void stop_tasks(struct bench_row *row)
{
    umbra_runtime_destroy(row->state);
}

static const struct bench_ops task_ops = {
    .start = start_tasks, .run = run_tasks, .stop = stop_tasks};

/* ---- rows ---- */

static struct bench_row *add(struct bench *bench, const struct entry *entry, const char *name,
                             const struct bench_ops *ops, const void *arg)
{
    const struct fine_kind *kind = &fine_kinds[entry->kind];
    struct bench_row *row = bench_add(bench, name, ops, arg);

    json_object_set_new(row->params, "task", json_string(kind->name));
    json_object_set_new(row->params, "count", json_integer(kind->counts[entry->size]));
    json_object_set_new(row->params, "counted", json_string(kind->counted));
    row->limit = entry->serial;
    return row;
}

static void add_parts(struct bench *bench, struct entry *entry, struct bench_row *whole)
{
    for (size_t w = 0; w < WAYS; w++) {
        struct child_program *program = &entry->programs[w];

        if (strcmp(ways[w].whole, whole->name) != 0)
            continue;
        *program = *ways[w].program;
        program->argument = ways[w].argument;
        program->problem = entry->kind * FINE_SIZES + entry->size;
        program->shared = &processes[w];
        entry->parts[w] = add(bench, entry, ways[w].name, &child_ops, program);
        entry->parts[w]->part_of = whole;
    }
}

static int add_entry(struct bench *bench, struct entry *entry)
{
    static const struct bench_ops *const ops[CONTENDERS] = {&spin_ops, &two_phase_ops, &task_ops};
    int error = fine_pair_create(&entry->pair, entry->kind * FINE_SIZES + entry->size);

    if (error != 0)
        return error;
    entry->serial = add(bench, entry, "serial", &serial_ops, entry);
    for (size_t c = 0; c < CONTENDERS; c++) {
        entry->rows[c] = add(bench, entry, contenders[c], ops[c], entry);
        add_parts(bench, entry, entry->rows[c]);
    }
    return 0;
}

static int declare(struct bench *bench)
{
    bool quick = bench_quick(bench) || bench_tiny(bench);
    int error = 0;

    ping_pong = ping_pong_add(bench);
    entries = calloc(FINE_KINDS * FINE_SIZES, sizeof(*entries));
    if (entries == NULL)
        return -ENOMEM;
    for (unsigned k = 0; k < (quick ? KINDS_QUICK : FINE_KINDS); k++)
        for (unsigned s = 0; s < FINE_SIZES && error == 0; s++) {
            if ((quick && !quick_sizes[s]) || (bench_tiny(bench) && s > 1))
                continue;
            entries[n_entries] = (struct entry){.kind = k, .size = s};
            error = add_entry(bench, &entries[n_entries++]);
        }
    return error;
}

/* ---- the table ---- */

static double speed_up(const struct bench_row *row)
{
    return 1 / bench_quotient(row, row->limit).median;
}

/*
 * From which size on, in ns of one task, a pair takes less time than on one processor: between the
 * largest size that does not and the next, straight on a logarithmic scale of sizes. 0: in all
 * sizes; infinite: not in the largest. The entries of a kind are in order of their sizes.
 */
static double break_even(const struct entry *first, const struct entry *end, size_t contender)
{
    const struct entry *below = NULL;
    double low, high;

    for (const struct entry *entry = first; entry < end; entry++)
        if (speed_up(entry->rows[contender]) < 1)
            below = entry;
    if (below == NULL)
        return 0;
    if (below + 1 == end)
        return INFINITY;
    low = speed_up(below->rows[contender]);
    high = speed_up(below[1].rows[contender]);
    return task_ns(below) * pow(task_ns(below + 1) / task_ns(below), (1 - low) / (high - low));
}

/* In ns, or in round trips of a cache line as the ping-pong of the same run has them. */
static void print_break_even(FILE *out, const struct entry *first, const struct entry *end,
                             const char *unit, double unit_ns)
{
    fprintf(out, "%10s%12s", "break-even", unit);
    for (size_t c = 0; c < CONTENDERS; c++) {
        int digits = unit_ns == 1 ? 0 : 1;
        char text[24] = "-";
        double ns;

        if (first->rows[c]->runs) {
            ns = break_even(first, end, c);
            if (ns == 0)
                snprintf(text, sizeof(text), "below %.*f", digits, task_ns(first) / unit_ns);
            else if (isinf(ns))
                snprintf(text, sizeof(text), "above %.*f", digits, task_ns(end - 1) / unit_ns);
            else
                snprintf(text, sizeof(text), "%.*f", digits, ns / unit_ns);
        }
        fprintf(out, " %16s", text);
    }
    fputc('\n', out);
}

static void print_kind(FILE *out, const struct entry *first, const struct entry *end)
{
    const struct fine_kind *kind = &fine_kinds[first->kind];

    fprintf(out, "\n%-10s%12s", kind->name, "task, ns");
    for (size_t c = 0; c < CONTENDERS; c++)
        fprintf(out, " %16s", contenders[c]);
    fputc('\n', out);
    for (const struct entry *entry = first; entry < end; entry++) {
        fprintf(out, "%10" PRIu32 "%12.0f", kind->counts[entry->size], task_ns(entry));
        for (size_t c = 0; c < CONTENDERS; c++) {
            if (entry->rows[c]->runs)
                fprintf(out, " %16.2f", speed_up(entry->rows[c]));
            else
                fprintf(out, " %16s", "-");
        }
        fputc('\n', out);
    }
    print_break_even(out, first, end, "ns", 1);
    if (ping_pong->runs)
        print_break_even(out, first, end, "round trips", bench_summary_of(ping_pong).median);
}

static void table(const struct bench *bench, FILE *out)
{
    (void)bench;
    fprintf(out,
            "Speed-up of a pair over one processor; the first column counts what a task does.\n");
    for (size_t begin = 0, end; begin < n_entries; begin = end) {
        for (end = begin; end < n_entries && entries[end].kind == entries[begin].kind;)
            end++;
        print_kind(out, &entries[begin], &entries[end]);
    }
}

/* In how many of the sizes each way was its runtime's fastest. */
static void remark(const struct bench *bench, FILE *out)
{
    (void)bench;
    if (ping_pong->runs)
        fprintf(out, "A cache line travels there and back (ping-pong) in %.0f ns.\n",
                bench_summary_of(ping_pong).median);
    fprintf(out, "Fastest way of each runtime, and in how many of the %zu lines above:\n",
            n_entries);
    for (size_t w = 0; w < WAYS; w++) {
        unsigned times = 0;

        for (size_t e = 0; e < n_entries; e++) {
            const json_t *fastest =
                json_object_get(entries[e].parts[w]->part_of->params, "fastest");

            times += fastest != NULL && strcmp(json_string_value(fastest), ways[w].name) == 0;
        }
        if (times > 0)
            fprintf(out, "  %-22s %u\n", ways[w].name, times);
    }
}

static const struct bench_kernel kernel = {
    .name = "fine-grained",
    .about = "two equal small tasks, one of them on another hardware thread",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
    .table = table,
    .remark = remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
