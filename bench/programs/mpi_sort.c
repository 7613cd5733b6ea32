/* SPDX-License-Identifier: BSL-1.0 */
/* See mpi_sort.h. */
#define _GNU_SOURCE
#include "mpi_sort.h"
#include "mpi_spawning.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SAID_BYTES 256
#define SECONDS_MOST "300" /* a run that takes longer is ended */
#define TRIAL_COUNT 1000   /* numbers, one task */

/* ---- in the process that becomes the program ---- */

static void use_all_cpus(const struct bench *bench)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (unsigned i = 0; i < bench_cpus(bench); i++)
        CPU_SET((size_t)bench_cpu(bench, i), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static _Noreturn void become(const struct bench_row *row, const struct mpi_sort *sort, int output)
{
    char count[24], cutoff[24], seed[24], limit[24];
    char *words[] = {(char *)MPI_SORT_START, count, (char *)sort->input, cutoff, seed, NULL};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(count, sizeof(count), "%zu", sort->count);
    snprintf(cutoff, sizeof(cutoff), "%zu", sort->cutoff);
    snprintf(seed, sizeof(seed), "%u", sort->seed);
    snprintf(limit, sizeof(limit), "%ld", sort->limit);
    if (sort->limit > 0)
        setenv("UMBRA_MPI_LIMIT", limit, 1);
    use_all_cpus(row->bench);
    dup2(output, STDOUT_FILENO);
    setenv("MPIEXEC_TIMEOUT", SECONDS_MOST, 1);
    mpi_spawning_exec(words, sort->limit != MPI_SORT_NO_LIBRARY);
    _exit(127);
}

/* ---- runs ---- */

/* All that comes, as far as there is room; an end. */
static void read_all(int fd, char *text, size_t bytes)
{
    size_t length = 0;
    ssize_t got;

    while (length < bytes - 1 && (got = read(fd, text + length, bytes - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
}

/* One run: its milliseconds and tasks. 0 or a negative errno. */
static int run_once(struct bench_row *row, const struct mpi_sort *sort, double *ms, size_t *tasks)
{
    char said[SAID_BYTES];
    int ends[2], status = 0;
    pid_t pid;

    if (pipe(ends) != 0)
        return -errno;
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        become(row, sort, ends[1]);
    }
    close(ends[1]);
    read_all(ends[0], said, sizeof(said));
    close(ends[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -errno;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return -ECHILD;
    return sscanf(said, "%lf ms, %zu tasks", ms, tasks) == 2 ? 0 : -EPROTO;
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct mpi_sort *sort = (struct mpi_sort *)row->arg;

    batch->ns = batch->verified = 0;
    for (uint64_t i = 0; i < batch->iterations; i++) {
        size_t tasks = 0;
        double ms = 0;
        int error = run_once(row, sort, &ms, &tasks);

        if (error)
            return error;
        if (sort->tasks == 0)
            sort->tasks = tasks;
        batch->ns += (uint64_t)(ms * 1e6);
        batch->verified += tasks == sort->tasks;
    }
    return 0;
}

/* A run of a single task, so that what cannot run is left out. */
static int open_row(struct bench_row *row)
{
    const struct mpi_sort *sort = row->arg;
    struct mpi_sort trial = *sort;
    const char *missing = mpi_spawning_missing(sort->limit != MPI_SORT_NO_LIBRARY);
    size_t tasks;
    double ms;
    int error;

    if (missing)
        return bench_refuse(row, -ENOENT, "%s", missing);
    trial.count = TRIAL_COUNT;
    trial.cutoff = TRIAL_COUNT;
    error = run_once(row, &trial, &ms, &tasks);
    return error == 0 ? 0 : bench_refuse(row, error, "%s: does not run here", MPI_SORT_START);
}

static void close_row(struct bench_row *row)
{
    const struct mpi_sort *sort = row->arg;

    if (sort->tasks > 0)
        json_object_set_new(row->params, "tasks", json_integer((json_int_t)sort->tasks));
}

static const struct bench_ops ops = {.open = open_row, .run = run, .close = close_row};

struct bench_row *mpi_sort_row(struct bench *bench, const char *name, const struct mpi_sort *sort)
{
    struct mpi_sort *own = malloc(sizeof(*own));
    struct bench_row *row;

    if (own == NULL) {
        fprintf(stderr, "%s: out of memory\n", name);
        exit(BENCH_FAILED);
    }
    *own = *sort;
    row = bench_add(bench, name, &ops, own);
    row->batch = 1;
    row->cold = true;
    json_object_set_new(row->params, "n", json_integer((json_int_t)sort->count));
    json_object_set_new(row->params, "input", json_string(sort->input));
    if (sort->limit > 0)
        json_object_set_new(row->params, "limit", json_integer(sort->limit));
    return row;
}
