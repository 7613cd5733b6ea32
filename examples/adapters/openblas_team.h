/* SPDX-License-Identifier: BSL-1.0 */
/*
 * OpenBLAS (0.3.27 and later) on a team: each of its jobs is a part of a run. The jobs of a product
 * wait for each other in loops of their own, which the parts of a run may do: a part has its thread
 * from its beginning to its end. So there is no way to do the jobs one after another, and a call
 * whose team is in use waits for its turn. A job's number is also that of its buffer, so two calls
 * must not run beside each other on two teams, either.
 *
 *     openblas_team_open((unsigned)openblas_get_num_threads());
 *     openblas_set_threads_callback_function(openblas_team_run);
 *
 * A program that has done so does not ask OpenBLAS for more threads, and a child of fork(2) that
 * calls OpenBLAS opens another team first.
 */
#ifndef EXAMPLES_OPENBLAS_TEAM_H
#define EXAMPLES_OPENBLAS_TEAM_H

#include <pthread.h>
#include <stdlib.h>

#include <umbra/team.h>

struct openblas_jobs {
    void (*job)(int number, void *data, int buffers);
    char *data;
    size_t bytes; /* of data, for a job */
    int buffers;
};

static struct umbra_team *openblas_team;
static pthread_mutex_t openblas_turn = PTHREAD_MUTEX_INITIALIZER;

static int openblas_team_open(unsigned threads)
{
    struct umbra_team_options options = {
        .members = threads, .any_thread = true, .bind = UMBRA_TEAM_BIND_MEMBERS};

    return umbra_team_create(&options, &openblas_team);
}

static void openblas_part(unsigned member, unsigned members, void *arg)
{
    const struct openblas_jobs *jobs = arg;

    (void)members;
    jobs->job((int)member, jobs->data + member * jobs->bytes, jobs->buffers);
}

/* What OpenBLAS calls: it wants all jobs done at the return (sync is 1). */
static void openblas_team_run(int sync, void (*job)(int, void *, int), int count, size_t bytes,
                              void *data, int buffers)
{
    struct openblas_jobs jobs = {job, data, bytes, buffers};
    int error;

    (void)sync;
    pthread_mutex_lock(&openblas_turn);
    error = umbra_team_run(openblas_team, (unsigned)count, openblas_part, &jobs);
    pthread_mutex_unlock(&openblas_turn);
    if (error)
        abort(); /* more jobs than members, or a child of fork(2) */
}

#endif
