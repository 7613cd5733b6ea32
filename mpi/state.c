/* SPDX-License-Identifier: BSL-1.0 */
/* What there is of each kind, its handles, and the counts that keep it: state.h. */
#define _GNU_SOURCE
#include "state.h"

struct um_mpi um_mpi;
int um_provided = MPI_THREAD_SINGLE;
struct umbra_runtime *um_runtime;
um_atomic_u32 um_live;
struct um_mpi_task um_host = {.bell = UMBRA_EVENT_INIT, .refs = 1};

/* ---- handles ---- */

static void **entry_at(const struct um_table *table, unsigned number)
{
    unsigned from = number + 16, k = 27 - (unsigned)__builtin_clz(from);

    return &table->chunk[k][from - (16u << k)];
}

/* A new entry's number, or -1. */
static int entry_new(struct um_table *table)
{
    unsigned k = 27 - (unsigned)__builtin_clz(table->count + 16);

    if (k < UM_CHUNKS && !table->chunk[k])
        table->chunk[k] = calloc((size_t)16 << k, sizeof(void *));
    return k < UM_CHUNKS && table->chunk[k] ? (int)table->count++ : -1;
}

int um_table_add(struct um_mpi_task *task, struct um_table *table, void *item)
{
    int number;

    um_lock_take(&task->lock);
    number = table->unused ? (int)table->unused - 1 : entry_new(table);
    if (number >= 0) {
        void **entry = entry_at(table, (unsigned)number);

        if (table->unused)
            table->unused = (uintptr_t)*entry >> 1;
        *entry = item;
    }
    um_lock_release(&task->lock);
    return number;
}

void um_table_remove(struct um_mpi_task *task, struct um_table *table, int handle)
{
    int number = handle & UM_HANDLE_BITS;

    um_lock_take(&task->lock);
    *entry_at(table, (unsigned)number) = (void *)(table->unused << 1 | 1);
    table->unused = (uintptr_t)number + 1;
    um_lock_release(&task->lock);
}

static void table_free(struct um_table *table)
{
    for (int k = 0; k < UM_CHUNKS && table->chunk[k]; k++)
        free(table->chunk[k]);
}

/* ---- tasks ---- */

struct um_launch *um_launch_make(const char *command, char *const *argv)
{
    struct um_launch *launch = malloc(sizeof(*launch));
    size_t count = 0, made = 0;

    while (argv && argv[count])
        count++;
    if (launch)
        launch->argv = calloc(count + 2, sizeof(char *));
    if (!launch || !launch->argv) {
        free(launch);
        return NULL;
    }
    um_atomic_store(&launch->refs, 1, relaxed);
    for (; made <= count; made++) {
        launch->argv[made] = strdup(made == 0 ? command : argv[made - 1]);
        if (!launch->argv[made])
            break;
    }
    if (made > count)
        return launch;
    um_launch_put(launch);
    return NULL;
}

void um_launch_put(struct um_launch *launch)
{
    /* acq_rel: as um_mpi_task_put() */
    if (!launch || um_atomic_fetch_add(&launch->refs, (uint32_t)-1, acq_rel) != 1)
        return;
    for (char **arg = launch->argv; *arg; arg++)
        free(*arg);
    free(launch->argv);
    free(launch);
}

struct um_mpi_task *um_mpi_task_make(struct um_launch *launch, int appnum, unsigned depth)
{
    struct um_mpi_task *task = aligned_alloc(UMBRA_CACHE_LINE, (sizeof(*task) + 63) / 64 * 64);

    if (!task)
        return NULL;
    memset(task, 0, sizeof(*task));
    task->bell = (struct umbra_event)UMBRA_EVENT_INIT;
    um_atomic_store(&task->refs, 1, relaxed);
    um_atomic_fetch_add(&launch->refs, 1, relaxed);
    task->launch = launch;
    task->appnum = appnum;
    task->depth = depth;
    return task;
}

void um_mpi_task_put(struct um_mpi_task *task)
{
    /* acq_rel: what others did to it; the last one frees */
    if (um_atomic_fetch_add(&task->refs, (uint32_t)-1, acq_rel) != 1)
        return;
    table_free(&task->comms);
    table_free(&task->groups);
    table_free(&task->requests);
    free(task);
}

/* ---- groups and communicators ---- */

static um_atomic_u32 last_id;

uint32_t um_comm_id(void)
{
    return um_atomic_fetch_add(&last_id, 1, relaxed) + 1; /* only unique */
}

struct um_mpi_group *um_mpi_group_make(int size)
{
    struct um_mpi_group *group = malloc(sizeof(*group) + (size_t)size * sizeof(group->task[0]));

    if (group) {
        um_atomic_store(&group->refs, 1, relaxed);
        um_atomic_store(&group->live, 0, relaxed);
        group->size = size;
    }
    return group;
}

void um_mpi_group_put(struct um_mpi_group *group)
{
    if (!group || um_atomic_fetch_add(&group->refs, (uint32_t)-1, acq_rel) != 1)
        return;
    for (int i = 0; i < group->size; i++)
        um_mpi_task_put(group->task[i]);
    free(group);
}

void um_comm_put(struct um_comm *comm)
{
    if (um_atomic_fetch_add(&comm->refs, (uint32_t)-1, acq_rel) != 1)
        return;
    um_mpi_group_put(comm->local);
    um_mpi_group_put(comm->remote);
    free(comm->name);
    free(comm);
}

struct um_comm *um_comm_make(struct um_mpi_task *task, uint32_t id, int rank,
                             struct um_mpi_group *local, struct um_mpi_group *remote)
{
    struct um_comm *comm = malloc(sizeof(*comm));
    int number = -1;

    if (comm) {
        *comm = (struct um_comm){.refs = 1,
                                 .id = id,
                                 .rank = rank,
                                 .local = local,
                                 .remote = remote,
                                 .handler = MPI_ERRORS_ARE_FATAL};
        number = um_table_add(task, &task->comms, comm);
        comm->handle = (MPI_Comm)(UM_IS_COMM | number);
    }
    if (number >= 0)
        return comm;
    free(comm);
    um_mpi_group_put(local);
    um_mpi_group_put(remote);
    return NULL;
}

/* ---- requests ---- */

struct um_request *um_request_make(struct um_mpi_task *task, struct um_comm *comm,
                                   MPI_Request *handle)
{
    struct um_request *request = malloc(sizeof(*request));
    int number = request ? um_table_add(task, &task->requests, request) : -1;

    if (number < 0) {
        free(request);
        return NULL;
    }
    um_atomic_fetch_add(&comm->refs, 1, relaxed); /* the handle is a reference, too */
    *handle = (MPI_Request)(UM_IS_REQUEST | number);
    return request;
}

struct um_request *um_request_of(const struct um_mpi_task *task, MPI_Request handle)
{
    if (!um_is(handle, UM_IS_REQUEST))
        return NULL;
    return um_table_get(&task->requests, (unsigned)handle & UM_HANDLE_BITS);
}

void um_request_free(struct um_mpi_task *task, struct um_request *request, MPI_Request *handle)
{
    um_table_remove(task, &task->requests, *handle);
    um_comm_put(request->comm);
    free(request);
    *handle = MPI_REQUEST_NULL;
}
