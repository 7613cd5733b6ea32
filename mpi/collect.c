/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How collective calls are done inside: by messages in a context of their own, trees for a
 * broadcast and a reduction, one message for each member for the others. Their tag is the number of
 * the collective call on the communicator, so that those under way at the same time are not mixed
 * up.
 */
#define _GNU_SOURCE
#include "library.h"

void um_collective_begin(struct um_collective *call, struct um_mpi_task *task, struct um_comm *comm)
{
    call->task = task;
    call->comm = comm;
    call->tag = (int)(comm->calls++ & INT32_MAX);
}

int um_give(const struct um_collective *call, enum um_use use, const void *buffer, int count,
            MPI_Datatype type, int to)
{
    struct um_request request;
    int error = um_send_begin(call->task, &request, call->comm, use, buffer, count, type, to,
                              call->tag, false);

    return error ? error : um_request_run(call->task, &request, MPI_STATUS_IGNORE);
}

int um_get(const struct um_collective *call, enum um_use use, void *buffer, int count,
           MPI_Datatype type, int from)
{
    struct um_request request;
    int error = um_receive_begin(call->task, &request, call->comm, use, buffer, count, type, from,
                                 call->tag);

    return error ? error : um_request_run(call->task, &request, MPI_STATUS_IGNORE);
}

int um_broadcast(const struct um_collective *call, enum um_use use, void *buffer, int count,
                 MPI_Datatype type, int root)
{
    int size = call->comm->local->size, rank = (call->comm->rank - root + size) % size, bit = 1;
    int error = MPI_SUCCESS;

    while (bit < size && !(rank & bit)) /* the parent lacks my lowest bit */
        bit <<= 1;
    if (rank != 0)
        error = um_get(call, use, buffer, count, type, (rank - bit + root) % size);
    for (bit >>= 1; bit > 0 && error == MPI_SUCCESS; bit >>= 1)
        if (rank + bit < size)
            error = um_give(call, use, buffer, count, type, (rank + bit + root) % size);
    return error;
}

/* ---- data ---- */

/* The i-th block of an argument, and how many elements it has. */
static void *block_of(const struct um_blocks *blocks, int i, int *count)
{
    MPI_Aint low, extent, at;

    um_mpi.Type_get_extent(blocks->type, &low, &extent);
    *count = blocks->counts ? blocks->counts[i] : blocks->count;
    at = blocks->at ? blocks->at[i] : (MPI_Aint)i * *count;
    return (char *)(uintptr_t)blocks->memory + at * extent;
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
static int copy_elements(const struct um_collective *call, const void *from, int from_count,
                         MPI_Datatype from_type, void *to, int to_count, MPI_Datatype to_type)
{
    struct um_request receive, send;
    int rank = call->comm->rank, error;

    error = um_receive_begin(call->task, &receive, call->comm, UM_LOCALLY, to, to_count, to_type,
                             rank, call->tag);
    if (error != MPI_SUCCESS)
        return error;
    error = um_send_begin(call->task, &send, call->comm, UM_LOCALLY, from, from_count, from_type,
                          rank, call->tag, false);
    if (error != MPI_SUCCESS) {
        um_request_withdraw(call->task, &receive);
        return error;
    }
    um_request_end(&send, MPI_STATUS_IGNORE);
    return um_request_run(call->task, &receive, MPI_STATUS_IGNORE);
}

/* The member's own block. */
static int copy_block(const struct um_collective *call, int i_out, int i_in)
{
    int out_count, in_count;
    const void *from = block_of(&call->out, i_out, &out_count);
    void *to = block_of(&call->in, i_in, &in_count);

    return copy_elements(call, from, out_count, call->out.type, to, in_count, call->in.type);
}

/* ---- without data, and from one to all ---- */

/* Between two groups: each first member hears of the other's group. */
int um_collect_barrier(const struct um_collective *call)
{
    const struct um_comm *comm = call->comm;
    int error;

    for (int bit = 1; bit < comm->local->size; bit <<= 1) {
        if (comm->rank & bit) {
            error = um_give(call, UM_LOCALLY, NULL, 0, MPI_BYTE, comm->rank - bit);
            break;
        }
        if (comm->rank + bit >= comm->local->size)
            continue;
        error = um_get(call, UM_LOCALLY, NULL, 0, MPI_BYTE, comm->rank + bit);
        if (error != MPI_SUCCESS)
            return error;
    }
    if (comm->remote && comm->rank == 0) {
        error = um_give(call, UM_COLLECTIVE, NULL, 0, MPI_BYTE, 0);
        if (error == MPI_SUCCESS)
            error = um_get(call, UM_COLLECTIVE, NULL, 0, MPI_BYTE, 0);
        if (error != MPI_SUCCESS)
            return error;
    }
    return um_broadcast(call, UM_LOCALLY, NULL, 0, MPI_BYTE, 0);
}

static int broadcast_between(const struct um_collective *call, void *buffer)
{
    const struct um_blocks *data = &call->in;
    int error = MPI_SUCCESS;

    if (call->root == MPI_PROC_NULL)
        return MPI_SUCCESS;
    if (call->root == MPI_ROOT)
        return um_give(call, UM_COLLECTIVE, buffer, data->count, data->type, 0);
    if (call->root < 0 || call->root >= call->comm->remote->size)
        return MPI_ERR_ROOT;
    if (call->comm->rank == 0)
        error = um_get(call, UM_COLLECTIVE, buffer, data->count, data->type, call->root);
    return error ? error : um_broadcast(call, UM_LOCALLY, buffer, data->count, data->type, 0);
}

int um_collect_broadcast(const struct um_collective *call)
{
    void *buffer = (void *)(uintptr_t)call->in.memory;

    if (call->comm->remote)
        return broadcast_between(call, buffer);
    return um_broadcast(call, UM_COLLECTIVE, buffer, call->in.count, call->in.type, call->root);
}

/* ---- reductions ---- */

/* came = sum op came. The operation may be the child's own function: it finds the child's globals,
 * and the thread-locals of the child's main; or, on a thread (collective.c), of that thread. */
static int combine(const struct um_collective *call, void *sum, void *came)
{
    struct umbra_child *behind = call->behind;
    int error;

    if (behind && um_atomic_load(&call->task->aborted, relaxed) != 0) /* its memory is at an end */
        return MPI_ERR_PROC_ABORTED;
    if (behind)
        um_child_resumed(behind);
    error = um_mpi.Reduce_local(sum, came, call->in.count, call->in.type, call->op);
    if (behind && !um_seat.thread)
        um_seat.running = NULL;
    return error;
}

/* Combines what the members have into *sum of member 0, in the order of their ranks. `spare` is for
 * what comes; the two are exchanged. */
static int reduce_tree(const struct um_collective *call, void **sum, void **spare)
{
    int size = call->comm->local->size, rank = call->comm->rank, count = call->in.count;
    int error = MPI_SUCCESS;

    for (int bit = 1; bit < size && error == MPI_SUCCESS; bit <<= 1) {
        void *came = *spare;

        if (rank & bit)
            return um_give(call, UM_COLLECTIVE, *sum, count, call->in.type, rank - bit);
        if (rank + bit >= size)
            continue;
        error = um_get(call, UM_COLLECTIVE, came, count, call->in.type, rank + bit);
        if (error == MPI_SUCCESS)
            error = combine(call, *sum, came);
        *spare = *sum;
        *sum = came;
    }
    return error;
}

/* All elements of `in`, from `out` or, in place, from `in`, to `to` of the root. */
static int reduce(const struct um_collective *call, const void *from, void *to, int root)
{
    const struct um_blocks *in = &call->in;
    void *memory[2] = {NULL, NULL}, *sum = elements(in->count, in->type, &memory[0]);
    void *spare = elements(in->count, in->type, &memory[1]);
    int rank = call->comm->rank, error = sum && spare ? MPI_SUCCESS : MPI_ERR_NO_MEM;

    if (error == MPI_SUCCESS)
        error = copy_elements(call, from, in->count, in->type, sum, in->count, in->type);
    if (error == MPI_SUCCESS)
        error = reduce_tree(call, &sum, &spare);
    if (error == MPI_SUCCESS && rank == 0 && root == 0)
        error = copy_elements(call, sum, in->count, in->type, to, in->count, in->type);
    else if (error == MPI_SUCCESS && rank == 0)
        error = um_give(call, UM_COLLECTIVE, sum, in->count, in->type, root);
    else if (error == MPI_SUCCESS && rank == root)
        error = um_get(call, UM_COLLECTIVE, to, in->count, in->type, 0);
    free(memory[0]);
    free(memory[1]);
    return error;
}

static const void *reduced(const struct um_collective *call)
{
    return call->out.memory == MPI_IN_PLACE ? call->in.memory : call->out.memory;
}

int um_collect_reduce(const struct um_collective *call)
{
    return reduce(call, reduced(call), (void *)(uintptr_t)call->in.memory, call->root);
}

int um_collect_allreduce(const struct um_collective *call)
{
    void *to = (void *)(uintptr_t)call->in.memory;
    int error = reduce(call, reduced(call), to, 0);

    return error ? error : um_broadcast(call, UM_COLLECTIVE, to, call->in.count, call->in.type, 0);
}

/* All is combined by member 0, and each member gets its block. The blocks' sizes are in `out`. */
int um_collect_reduce_scatter(const struct um_collective *call)
{
    struct um_collective all = *call;
    struct um_blocks block = {.count = 1, .type = call->in.type}; /* elements, one by one */
    void *memory, *sum, *to = (void *)(uintptr_t)call->in.memory;
    int size = call->comm->local->size, rank = call->comm->rank, at = 0, error = MPI_SUCCESS;

    for (int i = 0; i < size; i++)
        all.in.count += call->out.counts ? call->out.counts[i] : call->out.count;
    block.memory = sum = elements(all.in.count, all.in.type, &memory);
    error = memory ? reduce(&all, reduced(call), sum, 0) : MPI_ERR_NO_MEM;
    for (int i = 0; i < size && error == MPI_SUCCESS; i++) {
        int count = call->out.counts ? call->out.counts[i] : call->out.count, unused;
        void *from = block_of(&block, at, &unused);

        if (rank == 0 && i == 0)
            error = copy_elements(call, from, count, all.in.type, to, count, all.in.type);
        else if (rank == 0)
            error = um_give(call, UM_COLLECTIVE, from, count, all.in.type, i);
        else if (rank == i)
            error = um_get(call, UM_COLLECTIVE, to, count, all.in.type, 0);
        at += count;
    }
    free(memory);
    return error;
}

/* One member after the other: each combines what comes from the one before with its own. */
int um_collect_scan(const struct um_collective *call)
{
    const struct um_blocks *in = &call->in;
    int rank = call->comm->rank, last = call->comm->local->size - 1, error = MPI_SUCCESS;
    void *to = (void *)(uintptr_t)in->memory, *memory[2] = {NULL, NULL};
    void *own = elements(in->count, in->type, &memory[0]);
    void *before = elements(in->count, in->type, &memory[1]);

    if (!own || !before)
        error = MPI_ERR_NO_MEM;
    if (error == MPI_SUCCESS)
        error = copy_elements(call, reduced(call), in->count, in->type, own, in->count, in->type);
    if (error == MPI_SUCCESS && rank > 0)
        error = um_get(call, UM_COLLECTIVE, before, in->count, in->type, rank - 1);
    if (error == MPI_SUCCESS && rank > 0 && call->exclusive)
        error = copy_elements(call, before, in->count, in->type, to, in->count, in->type);
    if (error == MPI_SUCCESS && rank > 0)
        error = combine(call, before, own); /* own = before op own */
    if (error == MPI_SUCCESS && !call->exclusive)
        error = copy_elements(call, own, in->count, in->type, to, in->count, in->type);
    if (error == MPI_SUCCESS && rank < last)
        error = um_give(call, UM_COLLECTIVE, own, in->count, in->type, rank + 1);
    free(memory[0]);
    free(memory[1]);
    return error;
}

/* ---- blocks ---- */

int um_collect_gather(const struct um_collective *call)
{
    int error = MPI_SUCCESS, rank = call->comm->rank;

    if (rank != call->root)
        return um_give(call, UM_COLLECTIVE, call->out.memory, call->out.count, call->out.type,
                       call->root);
    for (int i = 0; i < call->comm->local->size && error == MPI_SUCCESS; i++) {
        int count;
        void *to = block_of(&call->in, i, &count);

        if (i != rank)
            error = um_get(call, UM_COLLECTIVE, to, count, call->in.type, i);
        else if (call->out.memory != MPI_IN_PLACE)
            error = copy_block(call, 0, i);
    }
    return error;
}

/* The size of all blocks together: they lie one behind the other. */
static bool is_dense(const struct um_collective *call, int *count)
{
    *count = call->in.count * call->comm->local->size;
    return !call->in.counts;
}

int um_collect_allgather(const struct um_collective *call)
{
    struct um_collective gather = *call;
    int error, count;

    gather.root = 0;
    if (call->out.memory == MPI_IN_PLACE && call->comm->rank != 0) {
        gather.out.memory = block_of(&call->in, call->comm->rank, &gather.out.count);
        gather.out.type = call->in.type;
    }
    error = um_collect_gather(&gather);
    if (is_dense(call, &count))
        return error ? error
                     : um_broadcast(call, UM_COLLECTIVE, (void *)(uintptr_t)call->in.memory, count,
                                    call->in.type, 0);
    for (int i = 0; i < call->comm->local->size && error == MPI_SUCCESS; i++) {
        void *to = block_of(&call->in, i, &count);

        error = um_broadcast(call, UM_COLLECTIVE, to, count, call->in.type, 0);
    }
    return error;
}

int um_collect_scatter(const struct um_collective *call)
{
    void *in = (void *)(uintptr_t)call->in.memory;
    int error = MPI_SUCCESS, rank = call->comm->rank;

    if (rank != call->root)
        return um_get(call, UM_COLLECTIVE, in, call->in.count, call->in.type, call->root);
    for (int i = 0; i < call->comm->local->size && error == MPI_SUCCESS; i++) {
        int count;
        const void *from = block_of(&call->out, i, &count);

        if (i != rank)
            error = um_give(call, UM_COLLECTIVE, from, count, call->out.type, i);
        else if (in != MPI_IN_PLACE)
            error = copy_block(call, i, 0);
    }
    return error;
}

/* To one member and from another, both at the same distance. */
static int exchange(const struct um_collective *call, int to, int from)
{
    struct um_request send, receive;
    int out_count, in_count, error;
    const void *out = block_of(&call->out, to, &out_count);
    void *in = block_of(&call->in, from, &in_count);

    error = um_send_begin(call->task, &send, call->comm, UM_COLLECTIVE, out, out_count,
                          call->out.type, to, call->tag, false);
    if (error != MPI_SUCCESS)
        return error;
    error = um_receive_begin(call->task, &receive, call->comm, UM_COLLECTIVE, in, in_count,
                             call->in.type, from, call->tag);
    if (error == MPI_SUCCESS)
        error = um_request_run(call->task, &receive, MPI_STATUS_IGNORE);
    if (error == MPI_SUCCESS)
        return um_request_run(call->task, &send, MPI_STATUS_IGNORE);
    um_request_withdraw(call->task, &send);
    um_request_end(&send, MPI_STATUS_IGNORE);
    return error;
}

static int all_to_all(const struct um_collective *call)
{
    int size = call->comm->local->size, rank = call->comm->rank, error = MPI_SUCCESS;

    for (int i = 0; i < size && error == MPI_SUCCESS; i++)
        error = exchange(call, (rank + i) % size, (rank - i + size) % size);
    return error;
}

/* In place: what is sent is kept aside, as far as the farthest block reaches. */
int um_collect_all_to_all(const struct um_collective *call)
{
    struct um_collective kept = *call;
    int size = call->comm->local->size, all = 0, error;
    void *memory;

    if (call->out.memory != MPI_IN_PLACE)
        return all_to_all(call);
    for (int i = 0; i < size; i++) {
        int end = call->in.counts ? call->in.at[i] + call->in.counts[i] : (i + 1) * call->in.count;

        all = end > all ? end : all;
    }
    kept.out = call->in;
    kept.out.memory = elements(all, call->in.type, &memory);
    if (!memory)
        return MPI_ERR_NO_MEM;
    error = copy_elements(call, call->in.memory, all, call->in.type,
                          (void *)(uintptr_t)kept.out.memory, all, call->in.type);
    if (error == MPI_SUCCESS)
        error = all_to_all(&kept);
    free(memory);
    return error;
}
