/* SPDX-License-Identifier: BSL-1.0 */
/* Children as processes: MPI spawns them, on a thread of its own, so that other fibers run. */
#define _GNU_SOURCE
#include <pthread.h>

#include "library.h"

bool um_mpi_is_alone(MPI_Comm comm)
{
    int size = 0, inter = 1;

    return um_mpi.Comm_test_inter(comm, &inter) == MPI_SUCCESS && !inter &&
           um_mpi.Comm_size(comm, &size) == MPI_SUCCESS && size == 1;
}

/* Of spawns that only this process makes, one at a time. With others no turn can be kept: of two
 * spawns each process might begin another, and wait for the other process in it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A member of a communicator inside spawns by itself. The error handler of the communicator is MPI's
 * own, and may be that of other tasks' spawns, too. */
static int spawn_now(const struct um_asked *asked, const struct um_spawn *spawn)
{
    MPI_Comm comm = spawn->comm ? MPI_COMM_SELF : spawn->handle;
    int root = spawn->comm ? 0 : spawn->root;
    MPI_Errhandler handler = MPI_ERRORS_ARE_FATAL;
    int error;
    bool alone = um_mpi_is_alone(comm);

    if (alone)
        pthread_mutex_lock(&lock);
    um_mpi.Comm_get_errhandler(comm, &handler);
    um_mpi.Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (!asked->multiple)
        error = um_mpi.Comm_spawn(asked->command[0], asked->argv ? asked->argv[0] : NULL,
                                  asked->count[0], asked->info[0], root, comm, spawn->result,
                                  spawn->codes);
    else
        error =
            um_mpi.Comm_spawn_multiple(asked->commands, asked->command, asked->argv, asked->count,
                                       asked->info, root, comm, spawn->result, spawn->codes);
    um_mpi.Comm_set_errhandler(comm, handler);
    if (alone)
        pthread_mutex_unlock(&lock);
    return error;
}

static void *thread_run(void *arg)
{
    struct um_spawn *spawn = arg;

    spawn->error = spawn_now(spawn->asked, spawn);
    umbra_event_signal(&spawn->ended);
    return NULL;
}

static void thread_start(void *arg)
{
    struct um_spawn *spawn = arg;
    pthread_t thread;

    spawn->created = pthread_create(&thread, NULL, thread_run, spawn) == 0;
    if (spawn->created)
        pthread_detach(thread);
}

/* The core runs other fibers meanwhile. The caller asks again and again, and so is no fiber that
 * waits: the runtime needs no hold. */
static int spawn_aside(const struct um_asked *asked, struct um_spawn *spawn)
{
    struct um_patience patience = {0, 0};

    spawn->asked = asked;
    spawn->ended = (struct umbra_event)UMBRA_EVENT_INIT;
    if (umbra_core_unbound(thread_start, spawn) != 0 || !spawn->created)
        return MPI_ERR_NO_MEM;
    while (umbra_event_wait(&spawn->ended, 0) != 0)
        um_mpi_task_pause(spawn->task, &patience);
    return spawn->error;
}

int um_processes_spawn(const struct um_asked *asked, struct um_spawn *spawn)
{
    int error;

    if (um_policy_verbose() && spawn->is_root)
        fprintf(stderr, "umbra_mpi: %s becomes a process: %s\n", asked->command[0], spawn->why);
    um_reserve_spawning(1);
    if (umbra_runtime_self() && um_with_threads())
        error = spawn_aside(asked, spawn);
    else /* MPI may be called on this thread only */
        error = spawn_now(asked, spawn);
    um_reserve_spawning(-1);
    if (spawn->is_root && error == MPI_SUCCESS)
        um_policy_count_processes((uint32_t)spawn->told.total);
    else if (spawn->is_root)
        fprintf(stderr,
                "umbra_mpi: %s cannot run in this process (%s), and MPI could not spawn it\n",
                asked->command[0], spawn->why ? spawn->why : "asked for");
    return error;
}
