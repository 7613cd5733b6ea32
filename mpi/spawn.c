/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Spawning. A group of children becomes fibers if its communicator is inside, or has only this
 * process; if all executables can be held (image.h); and if the limit allows all of them. Else the
 * whole group becomes processes.
 */
#define _GNU_SOURCE
#include "library.h"

/* The host alone: its group, made once. */
static struct um_mpi_group *host_group(void)
{
    static struct um_mpi_group *group;
    static struct um_lock lock;

    um_lock_take(&lock);
    if (!group) {
        group = um_mpi_group_make(1);
        if (group)
            group->task[0] = um_mpi_task_hold(&um_host);
    }
    um_lock_release(&lock);
    return group;
}

/* How many; -1: MPI must refuse that. In members other than the root the arguments may be anything. */
static int total_of(const struct um_asked *asked)
{
    int total = 0;

    for (int i = 0; i < asked->commands; i++) {
        if (asked->count[i] < 0 || asked->count[i] > INT32_MAX - total)
            return -1;
        total += asked->count[i];
    }
    return total;
}

/* The root's part. */
static void decide(const struct um_asked *asked, struct um_spawn *spawn)
{
    if (spawn->told.total < 0)
        spawn->why = "the number of children is negative, or too large";
    else
        spawn->why = um_policy_admit(asked, spawn);
    if (!spawn->why)
        spawn->why = um_children_start(asked, spawn);
    free(spawn->held);
    if (spawn->told.children) /* a reference for each member */
        um_atomic_fetch_add(&spawn->told.children->refs, (uint32_t)spawn->parents->size - 1,
                            relaxed);
}

/* The member's own copy. */
static void codes_set(const struct um_spawn *spawn)
{
    const struct um_mpi_group *children = spawn->told.children;

    for (int i = 0; spawn->codes != MPI_ERRCODES_IGNORE && i < spawn->told.total; i++)
        spawn->codes[i] = children && children->task[i]->started ? MPI_SUCCESS : MPI_ERR_SPAWN;
}

/* made: stays NULL if there are no children in this process. */
static int spawn_inside(const struct um_asked *asked, struct um_spawn *spawn, struct um_comm **made)
{
    struct um_collective call;
    int error = MPI_SUCCESS, rank = spawn->comm ? spawn->comm->rank : 0;

    if (spawn->is_root)
        decide(asked, spawn);
    if (spawn->parents->size > 1) {
        um_collective_begin(&call, spawn->task, spawn->comm);
        error = um_broadcast(&call, UM_COLLECTIVE, &spawn->told, sizeof(spawn->told), MPI_BYTE,
                             spawn->root);
    }
    codes_set(spawn);
    if (error != MPI_SUCCESS || !spawn->told.children)
        return error;
    *made = um_comm_make(spawn->task, spawn->told.between, rank, um_mpi_group_hold(spawn->parents),
                         spawn->told.children);
    if (!*made)
        return MPI_ERR_NO_MEM;
    (*made)->first = true;
    (*made)->handler = spawn->comm ? spawn->comm->handler : MPI_ERRORS_ARE_FATAL;
    return spawn->told.error;
}

static bool is_root(const struct um_spawn *spawn)
{
    int rank = 0;

    if (spawn->comm)
        return spawn->comm->rank == spawn->root;
    return um_mpi.Comm_rank(spawn->handle, &rank) == MPI_SUCCESS && rank == spawn->root;
}

static int spawn_run(const struct um_asked *asked, struct um_spawn *spawn)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, spawn->handle), *made = NULL;
    int error = MPI_SUCCESS;

    um_mpi_task_check(task);
    spawn->task = task;
    spawn->comm = comm;
    spawn->parents = comm ? comm->local : host_group();
    spawn->is_root = is_root(spawn);
    if (spawn->is_root)
        spawn->told.total = total_of(asked);
    *spawn->result = MPI_COMM_NULL;
    if (!um_runtime)
        spawn->why = "the program was not started by the library";
    else if (!comm && !um_mpi_is_alone(spawn->handle))
        spawn->why = "several processes spawn together";
    else if (!spawn->parents)
        return MPI_ERR_NO_MEM;
    else
        error = spawn_inside(asked, spawn, &made);
    if (made)
        *spawn->result = made->handle;
    else if (error == MPI_SUCCESS && comm && comm->local->size > 1)
        error = MPI_ERR_SPAWN;
    else if (error == MPI_SUCCESS)
        error = um_processes_spawn(asked, spawn);
    if (error == MPI_SUCCESS)
        return error;
    if (made)
        return um_error(task, made, error, asked->call, "no child started");
    if (comm)
        return um_error(task, comm, error, asked->call, "the children cannot become fibers");
    um_mpi.Comm_call_errhandler(spawn->handle, error);
    return error;
}

int MPI_Comm_spawn(const char *command, char *argv[], int count, MPI_Info info, int root,
                   MPI_Comm comm, MPI_Comm *result, int codes[])
{
    char *name = (char *)(uintptr_t)command;
    struct um_asked asked = {.call = "MPI_Comm_spawn",
                             .commands = 1,
                             .command = &name,
                             .argv = argv ? &argv : NULL,
                             .count = &count,
                             .info = &info};
    struct um_spawn spawn = {.root = root, .handle = comm, .result = result, .codes = codes};

    return spawn_run(&asked, &spawn);
}

int MPI_Comm_spawn_multiple(int commands, char *command[], char **argv[], const int count[],
                            const MPI_Info info[], int root, MPI_Comm comm, MPI_Comm *result,
                            int codes[])
{
    struct um_asked asked = {.call = "MPI_Comm_spawn_multiple",
                             .multiple = true,
                             .commands = commands,
                             .command = command,
                             .argv = argv,
                             .count = count,
                             .info = info};
    struct um_spawn spawn = {.root = root, .handle = comm, .result = result, .codes = codes};

    return spawn_run(&asked, &spawn);
}
