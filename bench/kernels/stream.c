/* SPDX-License-Identifier: BSL-1.0 */
/*
 * STREAM (McCalpin): how many bytes a second the processors move in copy, scale, add and triad, after
 * Yasui and Fujisawa: against the number of elements and of threads (their Figure 5), from the
 * threads of one NUMA node to the memory of another (Figure 6), with local and interleaved memory on
 * one, two and all nodes (Figure 7), and with arrays cut into a part for each node (Figure 8).
 *
 *   contender           memory
 *   openmp-...          touched first by the thread that uses it; a parallel region a pass (limit)
 *   umbra-partitioned   a part for each node, and in it a slice for each thread of the node
 *   umbra-local         all on the node of the thread that touches it first, as numactl --localalloc
 *                       gives a program in which one thread fills all arrays
 *   umbra-interleaved   pages in turns on the nodes
 *   umbra-huge          partitioned, on huge pages if the system gives them
 *   umbra-node          threads of one node, memory of one node
 *
 * A pass of umbra is a fork to a shadow on each other processor, the caller's own slice, and a join
 * of each. A sample is one pass. Bytes are counted as McCalpin does: 16 an element for copy and
 * scale, 24 for add and triad; what the processor reads in order to write is not counted. The
 * arrays are checked as his program does.
 */
#define _GNU_SOURCE
#include "child.h"
#include "harness.h"
#include "stream_case.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <umbra/memory.h>
#include <umbra/shadow.h>

#define ROUNDS 61
#define ROUNDS_QUICK 15
#define LOG2_LEAST 10
#define LOG2_MOST 28
#define LOG2_LARGE                                                                                 \
    22 /* of the rows that are not for the curve: above a last-level cache of 96 MiB */
#define LOG2_KEPT 24        /* larger arrays are made for each turn anew */
#define BYTES_AN_ELEMENT 64 /* of memory: three arrays here, three in a child, and some air */
#define NODES_MOST 64

static const unsigned quick_sizes[] = {10, 12, 14, 17, 20, 22, 24};
static const unsigned tiny_sizes[] = {10, 14};

/* One thread of a pass. */
struct stream_thread {
    UM_ALIGNED(BENCH_LINES_ALIGN) struct umbra_shadow shadow;
    struct stream_case *stream;
    int cpu;
    size_t begin, end; /* its slice */
    uint64_t passes;
};

/* A row of ours, and what it works on. */
struct stream_case {
    enum stream_operation operation;
    enum umbra_memory_place place;
    bool huge;
    unsigned log2_elements;
    unsigned threads;
    int from, to;   /* nodes of the threads and of the memory, by the system's index; -1: all */
    unsigned nodes; /* how many nodes the threads are on, the first ones; 0: not restricted */

    int *node; /* of the memory */
    unsigned node_count;
    struct stream_thread *thread;
    struct umbra_memory memory[3];
    struct stream_arrays arrays;
    bool made, checked;
};

static struct child_process *omp_process;
static char omp_places[96] = "OMP_PLACES=threads";

#define OMP_SETTINGS                                                                               \
    "OMP_DYNAMIC=false", "OMP_PROC_BIND=close", omp_places, "OMP_WAIT_POLICY=active",              \
        "GOMP_SPINCOUNT=infinite"

static const struct umbra_wait_options spin = {.mode = UMBRA_WAIT_SPIN};

/* ---- memory ---- */

static void free_arrays(struct stream_case *stream)
{
    for (int i = 0; i < 3 && stream->made; i++)
        umbra_memory_destroy(&stream->memory[i]);
    stream->made = false;
}

static int make_arrays(struct bench_row *row)
{
    struct stream_case *stream = (struct stream_case *)row->arg;
    struct umbra_memory_options options = {.place = stream->place,
                                           .node = stream->to,
                                           .nodes = stream->node,
                                           .node_count = stream->node_count,
                                           .alignment = 4096,
                                           .huge_pages = stream->huge,
                                           .topology = bench_topology(row->bench)};
    size_t elements = (size_t)1 << stream->log2_elements;
    double **array[] = {&stream->arrays.a, &stream->arrays.b, &stream->arrays.c};

    stream->arrays.elements = elements;
    for (int i = 0; i < 3; i++) {
        int error = umbra_memory_create(&options, elements * sizeof(double), &stream->memory[i]);

        if (error != 0) {
            while (i-- > 0)
                umbra_memory_destroy(&stream->memory[i]);
            return error;
        }
        *array[i] = stream->memory[i].at;
    }
    stream->made = true;
    return 0;
}

/* ---- slices ---- */

static int node_of(const struct bench *bench, int cpu)
{
    return umbra_topology_cpu_of(bench_topology(bench), cpu)->node;
}

/* Cuts the elements [first, first + count) into slices for the threads on a node (-1: all). */
static void cut(const struct bench *bench, struct stream_case *stream, int node, size_t first,
                size_t count)
{
    unsigned n = 0, i = 0;

    for (unsigned t = 0; t < stream->threads; t++)
        n += node < 0 || node_of(bench, stream->thread[t].cpu) == node;
    for (unsigned t = 0; t < stream->threads; t++) {
        struct stream_thread *thread = &stream->thread[t];

        if (node >= 0 && node_of(bench, thread->cpu) != node)
            continue;
        thread->begin = first + stream_begin(count, i, n);
        thread->end = first + stream_begin(count, ++i, n);
    }
}

/* True if each part of the memory has threads on its node, and each thread a part. */
static bool parts_fit(const struct bench *bench, const struct stream_case *stream)
{
    unsigned found = 0, count = stream->memory[0].parts;

    for (unsigned k = 0; k < count; k++)
        for (unsigned t = 0; t < stream->threads; t++)
            if (node_of(bench, stream->thread[t].cpu) == stream->memory[0].node[k]) {
                found++;
                break;
            }
    return stream->place == UMBRA_MEMORY_PARTITIONED && count > 1 && found == count;
}

static void cut_all(const struct bench *bench, struct stream_case *stream)
{
    size_t part = stream->memory[0].part_bytes / sizeof(double), elements = stream->arrays.elements;

    if (!parts_fit(bench, stream)) {
        cut(bench, stream, -1, 0, elements);
        return;
    }
    for (unsigned k = 0; k < stream->memory[0].parts; k++) {
        size_t first = k * part < elements ? k * part : elements;

        cut(bench, stream, stream->memory[0].node[k], first,
            elements - first < part ? elements - first : part);
    }
}

/* ---- a pass ---- */

static void fill_slice(void *arg)
{
    const struct stream_thread *thread = arg;

    stream_fill(&thread->stream->arrays, thread->begin, thread->end);
}

static void run_slice(void *arg)
{
    struct stream_thread *thread = arg;

    stream_run(thread->stream->operation, &thread->stream->arrays, thread->begin, thread->end);
    thread->passes++;
}

/* Thread 0 is the caller; its processor may be one that the case does not use (then: no slice). */
static void on_all(struct stream_case *stream, umbra_shadow_fn *fn)
{
    for (unsigned t = 1; t < stream->threads; t++)
        shadow_fork(&stream->thread[t].shadow, fn, &stream->thread[t]);
    fn(&stream->thread[0]);
    for (unsigned t = 1; t < stream->threads; t++)
        shadow_join(&stream->thread[t].shadow);
}

static void stop_shadows(struct stream_case *stream, unsigned from)
{
    for (unsigned t = from; t-- > 1;)
        shadow_destroy(&stream->thread[t].shadow);
}

static int start_shadows(struct bench_row *row)
{
    struct stream_case *stream = (struct stream_case *)row->arg;

    for (unsigned t = 1; t < stream->threads; t++) {
        struct umbra_shadow_options options = {.topology = bench_topology(row->bench),
                                               .wait = spin,
                                               .place_owner = true,
                                               .place_shadow = true,
                                               .owner_cpu = stream->thread[0].cpu,
                                               .shadow_cpu = stream->thread[t].cpu};
        int error = shadow_create(&stream->thread[t].shadow, &options);

        if (error != 0) {
            stop_shadows(stream, t);
            return error;
        }
    }
    return 0;
}

/* How many pages lie on each node, and on the one that was asked for; of array a. */
static void tell_pages(struct bench_row *row, const struct stream_case *stream)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE),
           most = (stream->memory[0].bytes + page - 1) / page + 1;
    int *node = malloc(most * sizeof(*node));
    struct umbra_memory_report report;
    json_t *map = json_object();
    size_t count[NODES_MOST] = {0};

    if (node != NULL && umbra_memory_report(&stream->memory[0], &report, node, most) == 0) {
        for (size_t i = 0; i < report.pages; i++)
            if (node[i] >= 0 && node[i] < NODES_MOST)
                count[node[i]]++;
        for (int k = 0; k < NODES_MOST; k++) {
            char name[8];

            snprintf(name, sizeof(name), "%d", k);
            if (count[k] > 0)
                json_object_set_new(map, name, json_integer((json_int_t)count[k]));
        }
        json_object_set_new(
            row->params, "placed",
            json_real((double)report.placed / (double)(report.present + !report.present)));
        json_object_set(row->params, "pages", map);
        if (stream->huge)
            json_object_set_new(
                row->params, "huge",
                json_real((double)report.huge_bytes / (double)stream->memory[0].bytes));
    }
    json_decref(map);
    free(node);
}

static int start(struct bench_row *row)
{
    struct stream_case *stream = (struct stream_case *)row->arg;
    int error = start_shadows(row);

    if (error != 0 || stream->made)
        return error;
    error = make_arrays(row);
    if (error != 0) {
        stop_shadows(stream, stream->threads);
        return error;
    }
    cut_all(row->bench, stream);
    if (stream->place == UMBRA_MEMORY_TOUCHED)
        stream_fill(&stream->arrays, 0, stream->arrays.elements);
    else
        on_all(stream, fill_slice);
    if (json_object_get(row->params, "pages") == NULL)
        tell_pages(row, stream);
    return 0;
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct stream_case *stream = (struct stream_case *)row->arg;
    uint64_t begin;

    for (unsigned t = 0; t < stream->threads; t++)
        stream->thread[t].passes = 0;
    begin = bench_now_ns();
    for (uint64_t i = 0; i < batch->iterations; i++)
        on_all(stream, run_slice);
    batch->ns = bench_now_ns() - begin;
    batch->verified = stream->thread[0].passes;
    for (unsigned t = 0; t < stream->threads; t++)
        if (stream->thread[t].passes != batch->verified)
            batch->verified = 0;
    if (!stream->checked && !stream_check(stream->operation, &stream->arrays))
        batch->verified = 0;
    stream->checked = true;
    return 0;
}

static void stop(struct bench_row *row)
{
    struct stream_case *stream = (struct stream_case *)row->arg;

    stop_shadows(stream, stream->threads);
    if (stream->log2_elements > LOG2_KEPT)
        free_arrays(stream);
}

static void close_row(struct bench_row *row)
{
    free_arrays((struct stream_case *)row->arg);
}

static const struct bench_ops ops = {.start = start, .run = run, .stop = stop, .close = close_row};

/* ---- rows ---- */

static void say(struct bench_row *row, enum stream_operation operation, unsigned log2_elements,
                unsigned threads)
{
    size_t elements = (size_t)1 << log2_elements;

    json_object_set_new(row->params, "operation", json_string(stream_names[operation]));
    json_object_set_new(row->params, "elements", json_integer((json_int_t)elements));
    json_object_set_new(row->params, "bytes",
                        json_integer((json_int_t)(elements * stream_bytes[operation])));
    json_object_set_new(row->params, "threads", json_integer(threads));
    row->every = log2_elements > LOG2_KEPT ? 4 : 1;
}

static struct bench_row *add_openmp(struct bench *bench, enum stream_operation operation,
                                    unsigned log2_elements, unsigned threads)
{
    struct child_program *program = calloc(1, sizeof(*program));
    char *name = malloc(32);
    struct bench_row *row;

    if (program == NULL || name == NULL)
        return NULL;
    snprintf(name, 32, "openmp-%s", stream_names[operation]);
    *program = (struct child_program){.file = "stream-child",
                                      .settings = {OMP_SETTINGS},
                                      .problem = stream_problem(operation, log2_elements, threads),
                                      .shared = &omp_process};
    row = bench_add(bench, name, &child_ops, program);
    say(row, operation, log2_elements, threads);
    return row;
}

/* Gives the case its threads: of the wanted nodes, one a core first, up to `threads` (0: all). */
static int choose_threads(const struct bench *bench, struct stream_case *stream, unsigned most)
{
    unsigned cpus = bench_lists(bench) ? 1 : bench_cpus(bench);

    stream->thread = aligned_alloc(BENCH_LINES_ALIGN, cpus * sizeof(*stream->thread));
    if (stream->thread == NULL)
        return -ENOMEM;
    memset(stream->thread, 0, cpus * sizeof(*stream->thread));
    stream->threads = 0;
    for (unsigned i = 0; i < cpus && (most == 0 || stream->threads < most); i++) {
        int cpu = bench_lists(bench) ? 0 : bench_cpu(bench, i);
        bool wanted = stream->from < 0 && stream->nodes == 0;

        if (!bench_lists(bench) && !wanted)
            wanted = stream->from >= 0 ? node_of(bench, cpu) == stream->from : false;
        for (unsigned k = 0; k < stream->nodes && stream->from < 0; k++)
            wanted = wanted || node_of(bench, cpu) == stream->node[k];
        if (wanted || bench_lists(bench))
            stream->thread[stream->threads++] =
                (struct stream_thread){.stream = stream, .cpu = cpu};
    }
    return 0;
}

/* Adds a row of ours like `like`, with so many threads at most (0: all). */
static struct bench_row *add(struct bench *bench, const char *name, const struct stream_case *like,
                             unsigned threads, struct bench_row *limit)
{
    struct stream_case *stream = malloc(sizeof(*stream));
    struct bench_row *row;

    if (stream == NULL)
        return NULL;
    *stream = *like;
    if (choose_threads(bench, stream, threads) != 0)
        return NULL;
    row = bench_add(bench, name, &ops, stream);
    say(row, stream->operation, stream->log2_elements, stream->threads);
    if (stream->threads > 0 && !bench_lists(bench))
        row->cpus[0] = row->cpus[1] = stream->thread[0].cpu;
    row->limit = limit;
    return row;
}

/* The nodes of --cpus, in their order. */
static int *nodes;
static unsigned n_nodes;

static int find_nodes(const struct bench *bench)
{
    nodes = calloc(BENCH_MAX_CPUS, sizeof(*nodes));
    if (nodes == NULL)
        return -ENOMEM;
    for (unsigned i = 0; !bench_lists(bench) && i < bench_cpus(bench); i++) {
        int node = node_of(bench, bench_cpu(bench, i));
        unsigned k = 0;

        while (k < n_nodes && nodes[k] != node)
            k++;
        if (k == n_nodes && node >= 0)
            nodes[n_nodes++] = node;
    }
    return 0;
}

/* The nodes to place memory on: without any, it is only touched. */
static struct stream_case case_of(enum stream_operation operation, enum umbra_memory_place place,
                                  unsigned log2_elements)
{
    return (struct stream_case){.operation = operation,
                                .place = n_nodes > 0 ? place : UMBRA_MEMORY_TOUCHED,
                                .log2_elements = log2_elements,
                                .from = -1,
                                .to = -1,
                                .node = n_nodes > 0 ? nodes : NULL,
                                .node_count = n_nodes};
}

static struct {
    struct bench_row *openmp, *partitioned;
    unsigned log2_elements;
} curve[LOG2_MOST + 1];

static unsigned n_curve;

/* One size: all places, all processors. */
static void add_size(struct bench *bench, enum stream_operation operation, unsigned log2_elements)
{
    unsigned threads = bench_lists(bench) ? 1 : bench_cpus(bench);
    struct bench_row *limit = add_openmp(bench, operation, log2_elements, threads);
    struct stream_case like = case_of(operation, UMBRA_MEMORY_PARTITIONED, log2_elements);
    struct bench_row *row = add(bench, "umbra-partitioned", &like, 0, limit);

    if (operation == STREAM_TRIAD) {
        curve[n_curve].openmp = limit;
        curve[n_curve].partitioned = row;
        curve[n_curve++].log2_elements = log2_elements;
    }
    like.place = UMBRA_MEMORY_TOUCHED;
    add(bench, "umbra-local", &like, 0, limit);
    like = case_of(operation, UMBRA_MEMORY_INTERLEAVED, log2_elements);
    add(bench, "umbra-interleaved", &like, 0, limit);
    if (operation == STREAM_TRIAD && ((size_t)8 << log2_elements) >= ((size_t)8 << 20)) {
        like = case_of(operation, UMBRA_MEMORY_PARTITIONED, log2_elements);
        like.huge = true;
        add(bench, "umbra-huge", &like, 0, limit);
    }
}

/* Fewer threads; the first nodes; from each node to each. */
static void add_others(struct bench *bench, unsigned log2_elements)
{
    static const struct {
        const char *name;
        enum umbra_memory_place place;
    } places[] = {{"umbra-partitioned", UMBRA_MEMORY_PARTITIONED},
                  {"umbra-local", UMBRA_MEMORY_TOUCHED},
                  {"umbra-interleaved", UMBRA_MEMORY_INTERLEAVED}};
    unsigned cpus = bench_lists(bench) ? 1 : bench_cpus(bench);
    struct bench_row *row;

    for (unsigned threads = 1; threads < cpus; threads *= 2) {
        struct stream_case like = case_of(STREAM_TRIAD, UMBRA_MEMORY_PARTITIONED, log2_elements);

        add(bench, "umbra-partitioned", &like, threads,
            add_openmp(bench, STREAM_TRIAD, log2_elements, threads));
    }
    for (unsigned count = 1; count < n_nodes; count *= 2)
        for (int p = 0; p < 3; p++) {
            struct stream_case like = case_of(STREAM_TRIAD, places[p].place, log2_elements);

            like.nodes = like.node_count = count;
            row = add(bench, places[p].name, &like, 0, NULL);
            json_object_set_new(row->params, "nodes", json_integer(count));
        }
    for (unsigned i = 0; i < (n_nodes > 0 ? n_nodes : 1); i++)
        for (unsigned k = 0; k < (n_nodes > 0 ? n_nodes : 1); k++) {
            struct stream_case like = case_of(STREAM_TRIAD, UMBRA_MEMORY_ON_NODE, log2_elements);

            like.from = n_nodes > 0 ? nodes[i] : -1;
            like.to = n_nodes > 0 ? nodes[k] : -1;
            row = add(bench, "umbra-node", &like, 0, NULL);
            json_object_set_new(row->params, "from", json_integer(like.from));
            json_object_set_new(row->params, "node", json_integer(like.to));
        }
}

/* The most elements that fit the machine. */
static unsigned log2_most(const struct bench *bench)
{
    const struct umbra_topology_info *info = umbra_topology_info(bench_topology(bench));
    uint64_t memory = 0;
    unsigned most = LOG2_LARGE;

    for (unsigned k = 0; k < n_nodes; k++) {
        unsigned i = 0;

        while (info->cpu[i].node != nodes[k])
            i++;
        memory += info->cpu[i].node_bytes;
    }
    while (most < LOG2_MOST && ((uint64_t)BYTES_AN_ELEMENT << (most + 1)) <= memory)
        most++;
    return most;
}

static int name_places(const struct bench *bench)
{
    size_t at = strlen("OMP_PLACES=");
    int error = find_nodes(bench);

    for (unsigned i = 0; error == 0 && !bench_lists(bench) && i < bench_cpus(bench); i++) {
        int more = snprintf(omp_places + at, sizeof(omp_places) - at, "%s{%d}", i > 0 ? "," : "",
                            bench_cpu(bench, i));

        if ((size_t)more >= sizeof(omp_places) - at) { /* too many to name */
            strcpy(omp_places, "OMP_PLACES=threads");
            break;
        }
        at += (size_t)more;
    }
    return error;
}

static int declare(struct bench *bench)
{
    bool tiny = bench_tiny(bench);
    unsigned large = tiny ? LOG2_LEAST + 2 : LOG2_LARGE;
    int error = name_places(bench);

    if (error != 0)
        return error;
    if (tiny)
        for (size_t i = 0; i < sizeof(tiny_sizes) / sizeof(tiny_sizes[0]); i++)
            add_size(bench, STREAM_TRIAD, tiny_sizes[i]);
    else if (bench_quick(bench))
        for (size_t i = 0; i < sizeof(quick_sizes) / sizeof(quick_sizes[0]); i++)
            add_size(bench, STREAM_TRIAD, quick_sizes[i]);
    else
        for (unsigned log2 = LOG2_LEAST; log2 <= log2_most(bench); log2++)
            add_size(bench, STREAM_TRIAD, log2);
    for (int operation = 0; operation < STREAM_TRIAD; operation++)
        add_size(bench, (enum stream_operation)operation, large);
    add_others(bench, large);
    return 0;
}

static double gigabytes(const struct bench_row *row)
{
    return (double)json_integer_value(json_object_get(row->params, "bytes")) /
           bench_summary_of(row).median;
}

/* The curve, and how far the partitioned triad is from OpenMP's. */
static void remark(const struct bench *bench, FILE *out)
{
    (void)bench;
    fprintf(out, "\n%-10s%18s%18s  times OpenMP's bytes a second\n", "triad", "openmp, GB/s",
            "partitioned, GB/s");
    for (unsigned i = 0; i < n_curve; i++) {
        struct bench_summary quotient;

        if (!curve[i].openmp->runs || !curve[i].partitioned->runs)
            continue;
        quotient = bench_quotient(curve[i].openmp, curve[i].partitioned);
        fprintf(out, "2^%-8u%18.1f%18.1f  %.3f (%.3f to %.3f)\n", curve[i].log2_elements,
                gigabytes(curve[i].openmp), gigabytes(curve[i].partitioned), quotient.median,
                quotient.low, quotient.high);
    }
}

static const struct bench_kernel kernel = {
    .name = "stream",
    .about = "copy, scale, add and triad of large arrays on NUMA nodes",
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
