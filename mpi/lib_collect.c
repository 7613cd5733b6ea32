/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Collective calls. Inside they are made of messages in a context of their own: trees for a
 * broadcast and a reduction, one message for each member for the others. With communicators of
 * MPI's own they are MPI's, begun and then asked for, so that other fibers run.
 */
#define _GNU_SOURCE
#include "library.h"

/* ---- a broadcast and a reduction ---- */

int um_broadcast(struct um_mpi_task *task, struct um_comm *comm, enum um_use use, void *buffer,
                 int count, MPI_Datatype type, int root)
{
    int size = comm->local->size, rank = (comm->rank - root + size) % size, bit = 1;
    int error = MPI_SUCCESS;

    while (bit < size && !(rank & bit)) /* the parent lacks my lowest bit */
        bit <<= 1;
    if (rank != 0)
        error = um_get(task, comm, use, buffer, count, type, (rank - bit + root) % size);
    for (bit >>= 1; bit > 0 && error == MPI_SUCCESS; bit >>= 1)
        if (rank + bit < size)
            error = um_give(task, comm, use, buffer, count, type, (rank + bit + root) % size);
    return error;
}

/* Memory for elements of a type, at which address 0 of the elements is returned; *memory: to be
 * freed. */
static void *elements(int count, MPI_Datatype type, void **memory)
{
    MPI_Aint low, extent, true_low, true_extent;

    um_mpi.Type_get_extent(type, &low, &extent);
    um_mpi.Type_get_true_extent(type, &true_low, &true_extent);
    *memory = malloc((size_t)(true_extent + extent * (count > 0 ? count - 1 : 0)) + 1);
    return *memory ? (char *)*memory - true_low : NULL;
}

/* Copies elements by way of a message to itself: any type, and with no other copy if it is basic. */
static int copy_elements(struct um_mpi_task *task, struct um_comm *comm, const void *from,
                         int from_count, MPI_Datatype from_type, void *to, int to_count,
                         MPI_Datatype to_type)
{
    struct um_request receive, send;
    int error =
        um_receive_begin(task, &receive, comm, UM_LOCALLY, to, to_count, to_type, comm->rank, 0);

    if (error != MPI_SUCCESS)
        return error;
    error = um_send_begin(task, &send, comm, UM_LOCALLY, from, from_count, from_type, comm->rank, 0,
                          false);
    if (error != MPI_SUCCESS) {
        um_request_withdraw(task, &receive);
        return error;
    }
    um_request_end(&send, MPI_STATUS_IGNORE);
    return um_request_run(task, &receive, MPI_STATUS_IGNORE);
}

/* Combines what the members have into *sum of member 0, in the order of their ranks. `spare` is for
 * what comes; the two are exchanged. */
static int reduce_tree(struct um_mpi_task *task, struct um_comm *comm, void **sum, void **spare,
                       int count, MPI_Datatype type, MPI_Op op)
{
    int size = comm->local->size, rank = comm->rank, error = MPI_SUCCESS;

    for (int bit = 1; bit < size && error == MPI_SUCCESS; bit <<= 1) {
        void *came = *spare;

        if (rank & bit)
            return um_give(task, comm, UM_COLLECTIVE, *sum, count, type, rank - bit);
        if (rank + bit >= size)
            continue;
        error = um_get(task, comm, UM_COLLECTIVE, came, count, type, rank + bit);
        if (error == MPI_SUCCESS)
            error = um_mpi.Reduce_local(*sum, came, count, type, op); /* came = sum op came */
        *spare = *sum;
        *sum = came;
    }
    return error;
}

static int reduce(struct um_mpi_task *task, struct um_comm *comm, const void *from, void *to,
                  int count, MPI_Datatype type, MPI_Op op, int root)
{
    void *memory[2] = {NULL, NULL}, *sum = elements(count, type, &memory[0]);
    void *spare = elements(count, type, &memory[1]);
    int error = sum && spare ? MPI_SUCCESS : MPI_ERR_NO_MEM;

    if (error == MPI_SUCCESS)
        error = copy_elements(task, comm, from == MPI_IN_PLACE ? to : from, count, type, sum, count,
                              type);
    if (error == MPI_SUCCESS)
        error = reduce_tree(task, comm, &sum, &spare, count, type, op);
    if (error == MPI_SUCCESS && comm->rank == 0 && root == 0)
        error = copy_elements(task, comm, sum, count, type, to, count, type);
    else if (error == MPI_SUCCESS && comm->rank == 0)
        error = um_give(task, comm, UM_COLLECTIVE, sum, count, type, root);
    else if (error == MPI_SUCCESS && comm->rank == root)
        error = um_get(task, comm, UM_COLLECTIVE, to, count, type, 0);
    free(memory[0]);
    free(memory[1]);
    return error;
}

/* ---- checks and errors ---- */

/* MPI's error, after the handler. */
static int ended(struct um_mpi_task *task, struct um_comm *comm, int error, const char *call)
{
    if (error == MPI_SUCCESS)
        return error;
    return um_error(task, comm, error, call,
                    error == MPI_ERR_PROC_ABORTED ? "a member has ended"
                    : error == MPI_ERR_COMM       ? "not with an inter-communicator"
                    : error == MPI_ERR_ROOT       ? "no such root"
                                                  : "a message of the wrong size, or no memory");
}

static int check(struct um_mpi_task *task, const struct um_comm *comm, int root)
{
    um_mpi_task_check(task);
    if (comm->remote)
        return MPI_ERR_COMM;
    return root < 0 || root >= comm->local->size ? MPI_ERR_ROOT : MPI_SUCCESS;
}

static int await(struct um_mpi_task *task, int error, MPI_Request *request)
{
    return error == MPI_SUCCESS ? um_mpi_await(task, request, MPI_STATUS_IGNORE) : error;
}

/* The i-th block of an array of elements. */
static void *block(const void *buffer, int i, int count, MPI_Datatype type)
{
    MPI_Aint low, extent;

    um_mpi.Type_get_extent(type, &low, &extent);
    return (char *)(uintptr_t)buffer + (MPI_Aint)i * count * extent;
}

/* ---- calls ---- */

/* Between two groups: each first member hears of the other's group. */
static int barrier_between(struct um_mpi_task *task, struct um_comm *comm)
{
    int error;

    for (int bit = 1; bit < comm->local->size; bit <<= 1) {
        if (comm->rank & bit) {
            error = um_give(task, comm, UM_LOCALLY, NULL, 0, MPI_BYTE, comm->rank - bit);
            break;
        }
        if (comm->rank + bit >= comm->local->size)
            continue;
        error = um_get(task, comm, UM_LOCALLY, NULL, 0, MPI_BYTE, comm->rank + bit);
        if (error != MPI_SUCCESS)
            return error;
    }
    if (comm->remote && comm->rank == 0) {
        error = um_give(task, comm, UM_COLLECTIVE, NULL, 0, MPI_BYTE, 0);
        if (error == MPI_SUCCESS)
            error = um_get(task, comm, UM_COLLECTIVE, NULL, 0, MPI_BYTE, 0);
        if (error != MPI_SUCCESS)
            return error;
    }
    return um_broadcast(task, comm, UM_LOCALLY, NULL, 0, MPI_BYTE, 0);
}

int MPI_Barrier(MPI_Comm handle)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);
    MPI_Request request;

    if (!comm)
        return await(task, um_mpi.Ibarrier(handle, &request), &request);
    um_mpi_task_check(task);
    return ended(task, comm, barrier_between(task, comm), "MPI_Barrier");
}

static int broadcast_between(struct um_mpi_task *task, struct um_comm *comm, void *buffer,
                             int count, MPI_Datatype type, int root)
{
    int error = MPI_SUCCESS;

    if (root == MPI_PROC_NULL)
        return MPI_SUCCESS;
    if (root == MPI_ROOT)
        return um_give(task, comm, UM_COLLECTIVE, buffer, count, type, 0);
    if (root < 0 || root >= comm->remote->size)
        return MPI_ERR_ROOT;
    if (comm->rank == 0)
        error = um_get(task, comm, UM_COLLECTIVE, buffer, count, type, root);
    return error ? error : um_broadcast(task, comm, UM_LOCALLY, buffer, count, type, 0);
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm handle)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);
    MPI_Request request;
    int error;

    if (!comm)
        return await(task, um_mpi.Ibcast(buffer, count, type, root, handle, &request), &request);
    if (comm->remote) {
        error = broadcast_between(task, comm, buffer, count, type, root);
    } else {
        error = check(task, comm, root);
        if (error == MPI_SUCCESS)
            error = um_broadcast(task, comm, UM_COLLECTIVE, buffer, count, type, root);
    }
    return ended(task, comm, error, "MPI_Bcast");
}

int MPI_Reduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm handle)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);
    MPI_Request request;
    int error;

    if (!comm)
        return await(task, um_mpi.Ireduce(from, to, count, type, op, root, handle, &request),
                     &request);
    error = check(task, comm, root);
    if (error == MPI_SUCCESS)
        error = reduce(task, comm, from, to, count, type, op, root);
    return ended(task, comm, error, "MPI_Reduce");
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm handle)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);
    MPI_Request request;
    int error;

    if (!comm)
        return await(task, um_mpi.Iallreduce(from, to, count, type, op, handle, &request),
                     &request);
    error = check(task, comm, 0);
    if (error == MPI_SUCCESS)
        error = reduce(task, comm, from, to, count, type, op, 0);
    if (error == MPI_SUCCESS)
        error = um_broadcast(task, comm, UM_COLLECTIVE, to, count, type, 0);
    return ended(task, comm, error, "MPI_Allreduce");
}

static int gather(struct um_mpi_task *task, struct um_comm *comm, const void *out, int out_count,
                  MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, int root)
{
    int error = MPI_SUCCESS;

    if (comm->rank != root)
        return um_give(task, comm, UM_COLLECTIVE, out, out_count, out_type, root);
    for (int i = 0; i < comm->local->size && error == MPI_SUCCESS; i++) {
        void *to = block(in, i, in_count, in_type);

        if (i != root)
            error = um_get(task, comm, UM_COLLECTIVE, to, in_count, in_type, i);
        else if (out != MPI_IN_PLACE)
            error = copy_elements(task, comm, out, out_count, out_type, to, in_count, in_type);
    }
    return error;
}

int MPI_Gather(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
               MPI_Datatype in_type, int root, MPI_Comm handle)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);
    MPI_Request request;
    int error;

    if (!comm)
        return await(
            task,
            um_mpi.Igather(out, out_count, out_type, in, in_count, in_type, root, handle, &request),
            &request);
    error = check(task, comm, root);
    if (error == MPI_SUCCESS)
        error = gather(task, comm, out, out_count, out_type, in, in_count, in_type, root);
    return ended(task, comm, error, "MPI_Gather");
}

int MPI_Allgather(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                  MPI_Datatype in_type, MPI_Comm handle)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);
    MPI_Request request;
    int error;

    if (!comm)
        return await(
            task,
            um_mpi.Iallgather(out, out_count, out_type, in, in_count, in_type, handle, &request),
            &request);
    error = check(task, comm, 0);
    if (out == MPI_IN_PLACE && comm->rank != 0) {
        out = block(in, comm->rank, in_count, in_type);
        out_count = in_count;
        out_type = in_type;
    }
    if (error == MPI_SUCCESS)
        error = gather(task, comm, out, out_count, out_type, in, in_count, in_type, 0);
    for (int i = 0; i < comm->local->size && error == MPI_SUCCESS; i++)
        error = um_broadcast(task, comm, UM_COLLECTIVE, block(in, i, in_count, in_type), in_count,
                             in_type, 0);
    return ended(task, comm, error, "MPI_Allgather");
}

static int scatter(struct um_mpi_task *task, struct um_comm *comm, const void *out, int out_count,
                   MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, int root)
{
    int error = MPI_SUCCESS;

    if (comm->rank != root)
        return um_get(task, comm, UM_COLLECTIVE, in, in_count, in_type, root);
    for (int i = 0; i < comm->local->size && error == MPI_SUCCESS; i++) {
        const void *from = block(out, i, out_count, out_type);

        if (i != root)
            error = um_give(task, comm, UM_COLLECTIVE, from, out_count, out_type, i);
        else if (in != MPI_IN_PLACE)
            error = copy_elements(task, comm, from, out_count, out_type, in, in_count, in_type);
    }
    return error;
}

int MPI_Scatter(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                MPI_Datatype in_type, int root, MPI_Comm handle)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);
    MPI_Request request;
    int error;

    if (!comm)
        return await(task,
                     um_mpi.Iscatter(out, out_count, out_type, in, in_count, in_type, root, handle,
                                     &request),
                     &request);
    error = check(task, comm, root);
    if (error == MPI_SUCCESS)
        error = scatter(task, comm, out, out_count, out_type, in, in_count, in_type, root);
    return ended(task, comm, error, "MPI_Scatter");
}

/* All send at once; each receives in the order of the distance. */
static int all_to_all(struct um_mpi_task *task, struct um_comm *comm, const void *out,
                      int out_count, MPI_Datatype out_type, void *in, int in_count,
                      MPI_Datatype in_type)
{
    int size = comm->local->size, error = MPI_SUCCESS;
    struct um_request send;

    for (int i = 0; i < size && error == MPI_SUCCESS; i++) {
        int to = (comm->rank + i) % size, from = (comm->rank - i + size) % size;

        error = um_send_begin(task, &send, comm, UM_COLLECTIVE, block(out, to, out_count, out_type),
                              out_count, out_type, to, i, false);
        if (error == MPI_SUCCESS) {
            struct um_request receive;

            error =
                um_receive_begin(task, &receive, comm, UM_COLLECTIVE,
                                 block(in, from, in_count, in_type), in_count, in_type, from, i);
            if (error == MPI_SUCCESS)
                error = um_request_run(task, &receive, MPI_STATUS_IGNORE);
            if (error != MPI_SUCCESS)
                um_request_withdraw(task, &send);
            else
                error = um_request_run(task, &send, MPI_STATUS_IGNORE);
        }
    }
    return error;
}

int MPI_Alltoall(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                 MPI_Datatype in_type, MPI_Comm handle)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);
    MPI_Request request;
    void *memory = NULL;
    int error;

    if (!comm)
        return await(
            task,
            um_mpi.Ialltoall(out, out_count, out_type, in, in_count, in_type, handle, &request),
            &request);
    error = check(task, comm, 0);
    if (error == MPI_SUCCESS && out == MPI_IN_PLACE) {
        out = elements(comm->local->size * in_count, in_type, &memory);
        out_count = in_count;
        out_type = in_type;
        error = out ? copy_elements(task, comm, in, comm->local->size * in_count, in_type,
                                    (void *)(uintptr_t)out, comm->local->size * in_count, in_type)
                    : MPI_ERR_NO_MEM;
    }
    if (error == MPI_SUCCESS)
        error = all_to_all(task, comm, out, out_count, out_type, in, in_count, in_type);
    free(memory);
    return ended(task, comm, error, "MPI_Alltoall");
}
