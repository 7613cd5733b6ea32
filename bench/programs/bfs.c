/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Breadth-first search of Kronecker graphs (examples/bfs) on all processors, the second kernel of the
 * Graph500 benchmark: all versions in the same graph and from the same root in each round, and all with
 * a tree in the numbering of the list of edges as their result. The limit is Beamer's hybrid with
 * OpenMP; a second row gives it what Umbra's has, the order of degrees and huge pages.
 */
#define _GNU_SOURCE
#include "bfs_case.h"
#include "child.h"
#include "harness.h"
#include "in_fiber.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <crew.h>
#include <validate.h>
#include <versions.h>

#define ROUNDS 32
#define ROUNDS_QUICK 5
#define EDGE_FACTOR 16
#define SEED 1
#define ROW_NAME 40
#define TASKS 4

/* A graph, and what its rows share. */
struct problem {
    unsigned scale;
    unsigned threads;
    unsigned parts; /* of the graph, for umbra-partitioned */
    bool made;
    int error;
    struct umbra_runtime *runtime; /* while the graph is made, or a row runs */
    struct crew crew;
    struct graph graph;
    struct bfs_case bfs;
    uint8_t *level; /* of all vertices, from each root */
    uint32_t *parent;
    int file; /* for the child */
    char file_text[16];
    struct child_program programs[2]; /* as enum bfs_problem */
    struct child_process *process;
    struct task {
        struct problem *problem;
        const struct version *version;
        struct search search;
        uint64_t batches;
    } task[TASKS];
    char names[TASKS + 2][ROW_NAME];
};

static const struct version versions[TASKS] = {
    {{.name = "umbra-bfs"}, ORDERED, HYBRID, ordered_create, ordered_destroy, ordered_search},
    {{.name = "umbra-partitioned"}, PARTS, HYBRID, parts_create, parts_destroy, parts_search},
    {{.name = "top-down"}, ONE_PART, TOP_DOWN, parts_create, parts_destroy, parts_search},
    {{.name = "bottom-up"}, ONE_PART, BOTTOM_UP, parts_create, parts_destroy, parts_search},
};

static const unsigned scales[] = {20, 18, 22}; /* the first has the plain names */

#define PROBLEMS (sizeof(scales) / sizeof(scales[0]))

static struct problem problems[PROBLEMS];
static struct bench_ops openmp_ops; /* child_ops, and the graph */

/* ---- the graph ---- */

static int start(struct bench *bench, struct problem *problem)
{
    int error = in_fiber_cores(bench, bench_cpus(bench), &problem->runtime);

    if (error == 0)
        error = crew_init(&problem->crew, problem->runtime);
    return error;
}

static void stop(struct problem *problem)
{
    crew_fini(&problem->crew);
    umbra_runtime_destroy(problem->runtime);
    problem->runtime = NULL;
}

/* The levels of all vertices, of a tree that keeps all rules. */
static int expect(struct problem *problem, struct search *search, unsigned root)
{
    struct validation validation;
    size_t n = problem->bfs.vertices;
    enum rule rule = RULES_KEPT;
    uint32_t from = problem->bfs.root[root], vertex;
    uint64_t ns;
    int error = validation_create(&validation, &problem->crew, &problem->graph.edges);

    if (error != 0)
        return error;
    error = ordered_search(search, from, problem->parent, &ns);
    if (error == 0)
        error = validate_tree(&validation, from, problem->parent, &rule, &vertex);
    if (error == 0 && rule == RULES_KEPT)
        error = validate_levels(&validation, from, problem->parent, &rule, &vertex);
    if (error == 0 && rule != RULES_KEPT) {
        fprintf(stderr, "bfs: scale %u, root %u: %s\n", problem->scale, from, rule_text(rule));
        error = -EBADMSG;
    }
    for (size_t v = 0; v < n && error == 0; v++)
        problem->level[root * n + v] =
            validation.level[v] < BFS_NO_LEVEL ? (uint8_t)validation.level[v] : BFS_NO_LEVEL;
    problem->bfs.edges[root] = graph_edges_of(&problem->graph, problem->parent);
    validation_destroy(&validation);
    return error;
}

static int expect_all(struct problem *problem)
{
    struct bfs_case *bfs = &problem->bfs;
    struct search search = graph_search(&problem->graph, &versions[0], problem->threads);
    int error;

    bfs->vertices = problem->graph.csr.vertices;
    bfs->roots = (uint32_t)graph_roots(&problem->graph, SEED, bfs->root, BFS_ROOTS);
    problem->level = malloc(bfs->roots * bfs->vertices);
    problem->parent = malloc(bfs->vertices * sizeof(*problem->parent));
    if (!problem->level || !problem->parent)
        return -ENOMEM;
    error = ordered_create(&search);
    for (unsigned root = 0; root < bfs->roots && error == 0; root++)
        error = expect(problem, &search, root);
    ordered_destroy(&search);
    return error;
}

/* Appends an array to the file; *at becomes its place. */
static int append(struct problem *problem, uint64_t *at, const void *from, uint64_t bytes)
{
    *at = problem->bfs.bytes;
    problem->bfs.bytes += (bytes + 63) / 64 * 64;
    for (uint64_t done = 0; done < bytes;) {
        ssize_t wrote =
            pwrite(problem->file, (const char *)from + done, bytes - done, (off_t)(*at + done));

        if (wrote <= 0)
            return -errno;
        done += (uint64_t)wrote;
    }
    return 0;
}

/* All arrays, and at last the header. */
static int write_file(struct problem *problem)
{
    const struct ordered *ordered = &problem->graph.ordered;
    const struct csr *csr = &problem->graph.csr;
    struct bfs_case *bfs = &problem->bfs;
    uint64_t n = bfs->vertices, own = ordered->csr.vertices, header;
    int error;

    bfs->neighbours = csr->row[n];
    bfs->ordered_vertices = own;
    bfs->several = ordered->several;
    problem->file = memfd_create("umbra-bfs", 0); /* which the child inherits */
    if (problem->file < 0)
        return -errno;
    error = append(problem, &header, bfs, sizeof(*bfs));
    error = error ? error : append(problem, &bfs->row, csr->row, (n + 1) * 8);
    error = error ? error : append(problem, &bfs->to, csr->to, bfs->neighbours * 4);
    error = error ? error : append(problem, &bfs->ordered_row, ordered->csr.row, (own + 1) * 8);
    error = error ? error : append(problem, &bfs->ordered_to, ordered->csr.to, bfs->neighbours * 4);
    error = error ? error : append(problem, &bfs->place, ordered->place, n * 4);
    error = error ? error : append(problem, &bfs->name, ordered->name, (own + 1) * 4);
    error = error ? error : append(problem, &bfs->level, problem->level, bfs->roots * n);
    if (error == 0 && (ftruncate(problem->file, (off_t)bfs->bytes) != 0 ||
                       pwrite(problem->file, bfs, sizeof(*bfs), 0) != sizeof(*bfs)))
        error = -errno;
    snprintf(problem->file_text, sizeof(problem->file_text), "%d", problem->file);
    return error;
}

/* Once, for the first row that is opened. */
static int make(struct bench *bench, struct problem *problem)
{
    static const bool wanted[REPRESENTATIONS] = {true, true, true, true};

    if (problem->made)
        return problem->error;
    problem->made = true;
    problem->graph.crew = &problem->crew;
    problem->error = start(bench, problem);
    if (problem->error == 0)
        problem->error = edges_generate(&problem->graph.edges, &problem->crew, problem->scale,
                                        EDGE_FACTOR, SEED);
    if (problem->error == 0)
        problem->error = graph_build(&problem->graph, wanted, problem->parts);
    if (problem->error == 0)
        problem->error = expect_all(problem);
    if (problem->error == 0)
        problem->error = write_file(problem);
    stop(problem);
    edges_destroy(&problem->graph.edges);
    return problem->error;
}

/* ---- in this process ---- */

static int run_search(struct bench_row *row, struct bench_batch *batch)
{
    struct task *task = (struct task *)row->arg;
    struct problem *problem = task->problem;
    unsigned root = bfs_root_of(&problem->bfs, task->batches++);

    for (uint64_t i = 0; i < batch->iterations; i++) {
        uint64_t ns;
        int error =
            task->version->search(&task->search, problem->bfs.root[root], problem->parent, &ns);

        if (error != 0)
            return error;
        batch->ns += ns;
        batch->verified += bfs_is_right(&problem->bfs, problem->level, root, problem->parent);
    }
    return 0;
}

static int start_runtime(struct bench_row *row)
{
    return start(row->bench, ((const struct task *)row->arg)->problem);
}

static void stop_runtime(struct bench_row *row)
{
    stop(((const struct task *)row->arg)->problem);
}

static int open_search(struct bench_row *row)
{
    struct task *task = (struct task *)row->arg;
    int error = make(row->bench, task->problem);

    if (error != 0)
        return error;
    task->problem->crew.members = task->problem->threads;
    task->search = graph_search(&task->problem->graph, task->version, task->problem->threads);
    return task->version->create(&task->search);
}

/* Edges a second, of the median: searches from different roots go through about as many edges. */
static void state_rate(struct bench_row *row, const struct bfs_case *bfs)
{
    double edges = 0;

    for (unsigned root = 0; root < bfs->roots; root++)
        edges += (double)bfs->edges[root] / bfs->roots;
    json_object_set_new(row->params, "teps", json_real(edges / bench_summary_of(row).median * 1e9));
}

/* Beside the limit: the time over that of the hybrid that has the order of degrees, too. */
static void state_relabelled(struct bench_row *row, const struct problem *problem)
{
    const struct bench_row *other = bench_find(row->bench, problem->names[TASKS + BFS_ORDERED]);
    struct bench_summary quotient;

    if (other == NULL)
        return;
    quotient = bench_quotient(row, other);
    json_object_set_new(row->params, "to_relabelled", json_real(quotient.median));
    json_object_set_new(row->params, "to_relabelled_low", json_real(quotient.low));
    json_object_set_new(row->params, "to_relabelled_high", json_real(quotient.high));
}

static void close_search(struct bench_row *row)
{
    struct task *task = (struct task *)row->arg;

    state_rate(row, &task->problem->bfs);
    if (task->version->in == ORDERED)
        state_relabelled(row, task->problem);
    task->version->destroy(&task->search);
}

static const struct bench_ops search_ops = {.open = open_search,
                                            .start = start_runtime,
                                            .run = run_search,
                                            .stop = stop_runtime,
                                            .close = close_search};

/* ---- in a child ---- */

static struct problem *problem_of(const struct bench_row *row)
{
    const struct child_program *program = row->arg;

    for (size_t p = 0; p < PROBLEMS; p++)
        if (program >= problems[p].programs && program < problems[p].programs + 2)
            return &problems[p];
    return NULL;
}

static int open_openmp(struct bench_row *row)
{
    int error = make(row->bench, problem_of(row));

    return error != 0 ? error : child_ops.open(row);
}

static void close_openmp(struct bench_row *row)
{
    state_rate(row, &problem_of(row)->bfs);
    child_ops.close(row);
}

/* ---- rows ---- */

static const char *name_row(struct problem *problem, unsigned which, const char *name)
{
    snprintf(problem->names[which], ROW_NAME, problem == problems ? "%s" : "%s-%u", name,
             problem->scale);
    return problem->names[which];
}

static struct bench_row *add(struct bench *bench, struct problem *problem, const char *name,
                             const struct bench_ops *ops, const void *arg)
{
    struct bench_row *row = bench_add(bench, name, ops, arg);

    json_object_set_new(row->params, "scale", json_integer(problem->scale));
    json_object_set_new(row->params, "threads", json_integer(problem->threads));
    return row;
}

static struct bench_row *add_openmp(struct bench *bench, struct problem *problem,
                                    enum bfs_problem which, const char *name)
{
    problem->programs[which] = (struct child_program){
        .file = "bfs-child",
        .argument = problem->file_text,
        .settings = {"OMP_NUM_THREADS=%u", "OMP_DYNAMIC=false", "OMP_PROC_BIND=close",
                     "OMP_PLACES=%d", "OMP_WAIT_POLICY=active", "GOMP_SPINCOUNT=infinite",
                     "KMP_BLOCKTIME=infinite"},
        .problem = which,
        .shared = &problem->process,
    };
    return add(bench, problem, name_row(problem, TASKS + which, name), &openmp_ops,
               &problem->programs[which]);
}

static void add_problem(struct bench *bench, struct problem *problem)
{
    struct bench_row *limit = add_openmp(bench, problem, BFS_PLAIN, "openmp-hybrid");

    add_openmp(bench, problem, BFS_ORDERED, "openmp-hybrid-relabelled")->limit = limit;
    for (unsigned t = 0; t < TASKS; t++) {
        struct bench_row *row;

        problem->task[t] = (struct task){.problem = problem, .version = &versions[t]};
        row = add(bench, problem, name_row(problem, t, versions[t].way.name), &search_ops,
                  &problem->task[t]);
        row->limit = limit;
        if (versions[t].in == PARTS)
            json_object_set_new(row->params, "parts", json_integer(problem->parts));
    }
}

static int declare(struct bench *bench)
{
    size_t count = bench_quick(bench) || bench_tiny(bench) ? 1 : PROBLEMS;

    openmp_ops = child_ops;
    openmp_ops.open = open_openmp;
    openmp_ops.close = close_openmp;
    for (size_t p = 0; p < count; p++) {
        problems[p].scale = bench_tiny(bench) ? 10 : bench_quick(bench) ? 16 : scales[p];
        problems[p].threads = bench_cpus(bench);
        problems[p].parts =
            problems[p].threads < CREW_PARTS_MOST ? problems[p].threads : CREW_PARTS_MOST;
        add_problem(bench, &problems[p]);
    }
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "bfs",
    .about = "breadth-first search of Kronecker graphs",
    .cpus = 2,
    .all_cpus = true,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .batch = 1,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
