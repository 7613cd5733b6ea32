/* SPDX-License-Identifier: BSL-1.0 */
/*
 * MPI's collective calls, blocking and not. Inside, a call is done by collect.c: at once, or,
 * if it is to go on while its caller does something else, by a fiber of the caller's core. If the
 * caller is a thread, a thread does it: the core of the task may be stopped, since the task waits
 * there for that thread. With communicators of MPI's own it is MPI's, begun and then asked for, so
 * that other fibers run.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "library.h"

/* ---- inside ---- */

/* MPI's error, after the handler. */
static int ended(struct um_mpi_task *task, struct um_comm *comm, int error, const char *name)
{
    if (error == MPI_SUCCESS)
        return error;
    return um_error(task, comm, error, name,
                    error == MPI_ERR_PROC_ABORTED ? "a member has ended"
                    : error == MPI_ERR_COMM       ? "not with an inter-communicator"
                    : error == MPI_ERR_ROOT       ? "no such root"
                    : error == MPI_ERR_COUNT      ? "a negative count"
                    : error == MPI_ERR_TYPE       ? "no datatype"
                    : error == MPI_ERR_BUFFER     ? "no buffer"
                    : error == MPI_ERR_OP         ? "no operation"
                                                  : "a message of the wrong size, or no memory");
}

/* True if the communicator is inside; then the call has its number. begun: NULL of a blocking call. */
static bool is_inside(struct um_collective *call, MPI_Comm handle, MPI_Request *begun)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);

    call->begun = begun;
    call->own = MPI_REQUEST_NULL; /* a handler of the program may hide an error */
    call->request = begun ? begun : &call->own;
    if (!comm)
        return false;
    um_collective_begin(call, task, comm);
    return true;
}

/* Of what is in place all else is ignored. */
static int blocks_check(const struct um_blocks *blocks, int size)
{
    int error = MPI_SUCCESS;

    if (blocks->memory == MPI_IN_PLACE || blocks->type == 0)
        return MPI_SUCCESS;
    if (!blocks->counts)
        return um_data_check(blocks->memory, blocks->count, blocks->type);
    for (int i = 0; i < size && error == MPI_SUCCESS; i++)
        error = um_data_check(blocks->memory, blocks->counts[i], blocks->type);
    return error;
}

/* A reduction has its type in `in`, and its counts there or, if it scatters, in `out`. */
static int reduction_check(const struct um_collective *call, int size, bool has_result)
{
    bool scatters = call->run == um_collect_reduce_scatter;
    struct um_blocks from = call->out, to = call->in;
    int error;

    from.type = to.type;
    if (!scatters)
        from.count = to.count;
    else
        to.count = from.counts ? from.counts[call->comm->rank] : from.count;
    if (from.memory == MPI_IN_PLACE)
        from.memory = to.memory;
    error = blocks_check(&from, size);
    return error != MPI_SUCCESS || !has_result ? error : blocks_check(&to, size);
}

/* What only the root gives is ignored in others. */
static int check(const struct um_collective *call)
{
    const struct um_comm *comm = call->comm;
    int size = comm->local->size, error = MPI_SUCCESS;
    bool is_root = comm->rank == call->root;

    if (comm->remote && !call->between)
        return MPI_ERR_COMM;
    if (!comm->remote && (call->root < 0 || call->root >= size))
        return MPI_ERR_ROOT;
    if (call->op == MPI_OP_NULL)
        return MPI_ERR_OP;
    if (call->op != 0)
        return reduction_check(call, size, call->run != um_collect_reduce || is_root);
    if (call->run != um_collect_scatter || is_root)
        error = blocks_check(&call->out, size);
    if (error == MPI_SUCCESS && (call->run != um_collect_gather || is_root) &&
        !(comm->remote && call->root == MPI_PROC_NULL))
        error = blocks_check(&call->in, size);
    return error;
}

/* A call that a fiber or thread does: begun by one call, ended by another. */
struct background {
    struct um_collective call;
    struct um_request *request;
    struct um_child_thread thread; /* if a thread does it for a child */
    int error;
};

/* How many there are, of all tasks. */
static um_atomic_u32 backgrounds;

/* The program may free datatypes and operation as soon as the call has begun. */
static int background_keep(struct um_collective *call)
{
    int error = um_type_keep(&call->out.type);

    if (error != MPI_SUCCESS)
        return error;
    error = um_type_keep(&call->in.type);
    if (error != MPI_SUCCESS)
        um_type_drop(&call->out.type);
    else
        um_atomic_fetch_add(&backgrounds, 1,
                            relaxed); /* the call's fiber, and its end, come after */
    return error;
}

static void background_drop(struct background *background)
{
    um_type_drop(&background->call.out.type);
    um_type_drop(&background->call.in.type);
    um_atomic_fetch_add(&backgrounds, (uint32_t)-1, relaxed); /* a number */
    free(background);
}

/* MPI has no copy of an operation: while a call may use it, it stays. */
int MPI_Op_free(MPI_Op *op)
{
    if (um_atomic_load(&backgrounds, relaxed) == 0) /* the caller's own call has counted itself */
        return um_mpi.Op_free(op);
    *op = MPI_OP_NULL;
    return MPI_SUCCESS;
}

static void background_end(struct background *background)
{
    struct um_mpi_task *task = background->call.task;
    struct um_request *request = background->request;

    request->error = background->error;
    background_drop(background);
    um_side_end(&request->receive.done, UM_DONE);
    um_mpi_task_ring(task);
    um_mpi_task_put(task);
}

static void *fiber_run(void *arg)
{
    struct background *background = arg;

    um_host_resumed(); /* no code of a child, but for combine() */
    background->error = background->call.run(&background->call);
    background_end(background);
    return NULL;
}

/* Also if the operation has called exit(): then the error is the one that the call began with. */
static void thread_end(void *arg)
{
    struct background *background = arg;

    if (background->call.behind)
        um_child_thread_end(&background->thread);
    background_end(background);
    umbra_release(um_runtime);
}

static void *thread_run(void *arg)
{
    struct background *background = arg;

    if (background->call.behind)
        um_child_thread_begin(&background->thread);
    pthread_cleanup_push(thread_end, background);
    background->error = background->call.run(&background->call);
    pthread_cleanup_pop(1);
    return NULL;
}

/* Starts what does the call. False: no memory. */
static bool executor_start(struct background *background)
{
    int core = umbra_core_index();
    struct umbra_spawn_options where = {.where = UMBRA_ON_CORE,
                                        .core = (unsigned)core,
                                        .name = "MPI",
                                        .stack_bytes = UMBRA_CHILD_STACK_BYTES};
    pthread_t thread;

    if (core >= 0)
        return umbra_spawn_with(um_runtime, &where, fiber_run, background, NULL) == 0;
    umbra_hold(um_runtime);
    if (pthread_create(&thread, NULL, thread_run, background) == 0) {
        pthread_detach(thread);
        return true;
    }
    umbra_release(um_runtime);
    return false;
}

static int background_start(const struct um_collective *call)
{
    struct background *background = malloc(sizeof(*background));
    struct um_mpi_task *task = call->task;
    struct um_request *request = background ? um_request_make(task, call->comm, call->begun) : NULL;

    if (!request) {
        free(background);
        return MPI_ERR_NO_MEM;
    }
    *background = (struct background){
        .call = *call,
        .request = request,
        .thread = {.child = um_seat.running, .process = getpid()},
        .error = MPI_ERR_PROC_ABORTED,
    };
    background->call.behind = um_seat.running;
    um_request_blank(request, call->comm);
    request->background = true;
    request->error = background_keep(&background->call);
    if (request->error !=
        MPI_SUCCESS) { /* the error comes with the request's end, here and below */
        um_side_end(&request->receive.done, UM_DONE);
        free(background);
        return MPI_SUCCESS;
    }
    um_atomic_store(&task->threaded, 1, relaxed); /* two may wait; see wait_once() */
    um_atomic_fetch_add(&task->refs, 1, relaxed); /* the caller has one */
    if (executor_start(background))
        return MPI_SUCCESS;
    request->error = MPI_ERR_NO_MEM;
    um_side_end(&request->receive.done, UM_DONE);
    um_mpi_task_put(task);
    background_drop(background);
    return MPI_SUCCESS;
}

static int run_inside(struct um_collective *call)
{
    int error;

    um_mpi_task_check(call->task);
    if (call->begun)
        *call->begun = MPI_REQUEST_NULL;
    error = check(call);
    if (error == MPI_SUCCESS)
        error = call->begun ? background_start(call) : call->run(call);
    return ended(call->task, call->comm, error, call->name);
}

/* ---- MPI's own ---- */

static int run_outside(struct um_collective *call, int error)
{
    if (call->begun || error != MPI_SUCCESS)
        return error;
    return um_mpi_await(um_mpi_task_self(), &call->own, MPI_STATUS_IGNORE);
}

/* ---- the calls: one function for each and its form that does not block ---- */

static int do_barrier(MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {.run = um_collect_barrier, .name = "MPI_Barrier", .between = true};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call, um_mpi.Ibarrier(comm, call.request));
}

int MPI_Barrier(MPI_Comm comm)
{
    return do_barrier(comm, NULL);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    return do_barrier(comm, request);
}

static int do_bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
                    MPI_Request *begun)
{
    struct um_collective call = {.run = um_collect_broadcast,
                                 .name = "MPI_Bcast",
                                 .in = {.memory = buffer, .count = count, .type = type},
                                 .root = root,
                                 .between = true};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call, um_mpi.Ibcast(buffer, count, type, root, comm, call.request));
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    return do_bcast(buffer, count, type, root, comm, NULL);
}

int MPI_Ibcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request *request)
{
    return do_bcast(buffer, count, type, root, comm, request);
}

static int do_reduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root,
                     MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {.run = um_collect_reduce,
                                 .name = "MPI_Reduce",
                                 .out = {.memory = from},
                                 .in = {.memory = to, .count = count, .type = type},
                                 .op = op,
                                 .root = root};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call, um_mpi.Ireduce(from, to, count, type, op, root, comm, call.request));
}

int MPI_Reduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm)
{
    return do_reduce(from, to, count, type, op, root, comm, NULL);
}

int MPI_Ireduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm, MPI_Request *request)
{
    return do_reduce(from, to, count, type, op, root, comm, request);
}

static int do_allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                        MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {.run = um_collect_allreduce,
                                 .name = "MPI_Allreduce",
                                 .out = {.memory = from},
                                 .in = {.memory = to, .count = count, .type = type},
                                 .op = op};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call, um_mpi.Iallreduce(from, to, count, type, op, comm, call.request));
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    return do_allreduce(from, to, count, type, op, comm, NULL);
}

int MPI_Iallreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    return do_allreduce(from, to, count, type, op, comm, request);
}

static int do_scan(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {.run = um_collect_scan,
                                 .name = "MPI_Scan",
                                 .out = {.memory = from},
                                 .in = {.memory = to, .count = count, .type = type},
                                 .op = op};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call, um_mpi.Iscan(from, to, count, type, op, comm, call.request));
}

int MPI_Scan(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    return do_scan(from, to, count, type, op, comm, NULL);
}

int MPI_Iscan(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
              MPI_Request *request)
{
    return do_scan(from, to, count, type, op, comm, request);
}

static int do_exscan(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                     MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {.run = um_collect_scan,
                                 .name = "MPI_Exscan",
                                 .out = {.memory = from},
                                 .in = {.memory = to, .count = count, .type = type},
                                 .op = op,
                                 .exclusive = true};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call, um_mpi.Iexscan(from, to, count, type, op, comm, call.request));
}

int MPI_Exscan(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    return do_exscan(from, to, count, type, op, comm, NULL);
}

int MPI_Iexscan(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                MPI_Request *request)
{
    return do_exscan(from, to, count, type, op, comm, request);
}

static int do_reduce_scatter(const void *from, void *to, const int *counts, MPI_Datatype type,
                             MPI_Op op, MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {.run = um_collect_reduce_scatter,
                                 .name = "MPI_Reduce_scatter",
                                 .out = {.memory = from, .counts = counts},
                                 .in = {.memory = to, .type = type},
                                 .op = op};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call,
                       um_mpi.Ireduce_scatter(from, to, counts, type, op, comm, call.request));
}

int MPI_Reduce_scatter(const void *from, void *to, const int *counts, MPI_Datatype type, MPI_Op op,
                       MPI_Comm comm)
{
    return do_reduce_scatter(from, to, counts, type, op, comm, NULL);
}

int MPI_Ireduce_scatter(const void *from, void *to, const int *counts, MPI_Datatype type, MPI_Op op,
                        MPI_Comm comm, MPI_Request *request)
{
    return do_reduce_scatter(from, to, counts, type, op, comm, request);
}

static int do_reduce_scatter_block(const void *from, void *to, int count, MPI_Datatype type,
                                   MPI_Op op, MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {.run = um_collect_reduce_scatter,
                                 .name = "MPI_Reduce_scatter_block",
                                 .out = {.memory = from, .count = count},
                                 .in = {.memory = to, .type = type},
                                 .op = op};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call,
                       um_mpi.Ireduce_scatter_block(from, to, count, type, op, comm, call.request));
}

int MPI_Reduce_scatter_block(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm)
{
    return do_reduce_scatter_block(from, to, count, type, op, comm, NULL);
}

int MPI_Ireduce_scatter_block(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm, MPI_Request *request)
{
    return do_reduce_scatter_block(from, to, count, type, op, comm, request);
}

static int do_gather(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                     MPI_Datatype in_type, int root, MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {.run = um_collect_gather,
                                 .name = "MPI_Gather",
                                 .out = {.memory = out, .count = out_count, .type = out_type},
                                 .in = {.memory = in, .count = in_count, .type = in_type},
                                 .root = root};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call, um_mpi.Igather(out, out_count, out_type, in, in_count, in_type, root,
                                             comm, call.request));
}

int MPI_Gather(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
               MPI_Datatype in_type, int root, MPI_Comm comm)
{
    return do_gather(out, out_count, out_type, in, in_count, in_type, root, comm, NULL);
}

int MPI_Igather(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                MPI_Datatype in_type, int root, MPI_Comm comm, MPI_Request *request)
{
    return do_gather(out, out_count, out_type, in, in_count, in_type, root, comm, request);
}

static int do_gatherv(const void *out, int out_count, MPI_Datatype out_type, void *in,
                      const int *in_counts, const int *in_at, MPI_Datatype in_type, int root,
                      MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {
        .run = um_collect_gather,
        .name = "MPI_Gatherv",
        .out = {.memory = out, .count = out_count, .type = out_type},
        .in = {.memory = in, .counts = in_counts, .at = in_at, .type = in_type},
        .root = root};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call, um_mpi.Igatherv(out, out_count, out_type, in, in_counts, in_at,
                                              in_type, root, comm, call.request));
}

int MPI_Gatherv(const void *out, int out_count, MPI_Datatype out_type, void *in,
                const int *in_counts, const int *in_at, MPI_Datatype in_type, int root,
                MPI_Comm comm)
{
    return do_gatherv(out, out_count, out_type, in, in_counts, in_at, in_type, root, comm, NULL);
}

int MPI_Igatherv(const void *out, int out_count, MPI_Datatype out_type, void *in,
                 const int *in_counts, const int *in_at, MPI_Datatype in_type, int root,
                 MPI_Comm comm, MPI_Request *request)
{
    return do_gatherv(out, out_count, out_type, in, in_counts, in_at, in_type, root, comm, request);
}

static int do_scatter(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                      MPI_Datatype in_type, int root, MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {.run = um_collect_scatter,
                                 .name = "MPI_Scatter",
                                 .out = {.memory = out, .count = out_count, .type = out_type},
                                 .in = {.memory = in, .count = in_count, .type = in_type},
                                 .root = root};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call, um_mpi.Iscatter(out, out_count, out_type, in, in_count, in_type, root,
                                              comm, call.request));
}

int MPI_Scatter(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                MPI_Datatype in_type, int root, MPI_Comm comm)
{
    return do_scatter(out, out_count, out_type, in, in_count, in_type, root, comm, NULL);
}

int MPI_Iscatter(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                 MPI_Datatype in_type, int root, MPI_Comm comm, MPI_Request *request)
{
    return do_scatter(out, out_count, out_type, in, in_count, in_type, root, comm, request);
}

static int do_scatterv(const void *out, const int *out_counts, const int *out_at,
                       MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
                       int root, MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {
        .run = um_collect_scatter,
        .name = "MPI_Scatterv",
        .out = {.memory = out, .counts = out_counts, .at = out_at, .type = out_type},
        .in = {.memory = in, .count = in_count, .type = in_type},
        .root = root};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call, um_mpi.Iscatterv(out, out_counts, out_at, out_type, in, in_count,
                                               in_type, root, comm, call.request));
}

int MPI_Scatterv(const void *out, const int *out_counts, const int *out_at, MPI_Datatype out_type,
                 void *in, int in_count, MPI_Datatype in_type, int root, MPI_Comm comm)
{
    return do_scatterv(out, out_counts, out_at, out_type, in, in_count, in_type, root, comm, NULL);
}

int MPI_Iscatterv(const void *out, const int *out_counts, const int *out_at, MPI_Datatype out_type,
                  void *in, int in_count, MPI_Datatype in_type, int root, MPI_Comm comm,
                  MPI_Request *request)
{
    return do_scatterv(out, out_counts, out_at, out_type, in, in_count, in_type, root, comm,
                       request);
}

static int do_allgather(const void *out, int out_count, MPI_Datatype out_type, void *in,
                        int in_count, MPI_Datatype in_type, MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {.run = um_collect_allgather,
                                 .name = "MPI_Allgather",
                                 .out = {.memory = out, .count = out_count, .type = out_type},
                                 .in = {.memory = in, .count = in_count, .type = in_type}};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call, um_mpi.Iallgather(out, out_count, out_type, in, in_count, in_type,
                                                comm, call.request));
}

int MPI_Allgather(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                  MPI_Datatype in_type, MPI_Comm comm)
{
    return do_allgather(out, out_count, out_type, in, in_count, in_type, comm, NULL);
}

int MPI_Iallgather(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                   MPI_Datatype in_type, MPI_Comm comm, MPI_Request *request)
{
    return do_allgather(out, out_count, out_type, in, in_count, in_type, comm, request);
}

static int do_allgatherv(const void *out, int out_count, MPI_Datatype out_type, void *in,
                         const int *in_counts, const int *in_at, MPI_Datatype in_type,
                         MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {
        .run = um_collect_allgather,
        .name = "MPI_Allgatherv",
        .out = {.memory = out, .count = out_count, .type = out_type},
        .in = {.memory = in, .counts = in_counts, .at = in_at, .type = in_type}};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call, um_mpi.Iallgatherv(out, out_count, out_type, in, in_counts, in_at,
                                                 in_type, comm, call.request));
}

int MPI_Allgatherv(const void *out, int out_count, MPI_Datatype out_type, void *in,
                   const int *in_counts, const int *in_at, MPI_Datatype in_type, MPI_Comm comm)
{
    return do_allgatherv(out, out_count, out_type, in, in_counts, in_at, in_type, comm, NULL);
}

int MPI_Iallgatherv(const void *out, int out_count, MPI_Datatype out_type, void *in,
                    const int *in_counts, const int *in_at, MPI_Datatype in_type, MPI_Comm comm,
                    MPI_Request *request)
{
    return do_allgatherv(out, out_count, out_type, in, in_counts, in_at, in_type, comm, request);
}

static int do_alltoall(const void *out, int out_count, MPI_Datatype out_type, void *in,
                       int in_count, MPI_Datatype in_type, MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {.run = um_collect_all_to_all,
                                 .name = "MPI_Alltoall",
                                 .out = {.memory = out, .count = out_count, .type = out_type},
                                 .in = {.memory = in, .count = in_count, .type = in_type}};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call, um_mpi.Ialltoall(out, out_count, out_type, in, in_count, in_type,
                                               comm, call.request));
}

int MPI_Alltoall(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                 MPI_Datatype in_type, MPI_Comm comm)
{
    return do_alltoall(out, out_count, out_type, in, in_count, in_type, comm, NULL);
}

int MPI_Ialltoall(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                  MPI_Datatype in_type, MPI_Comm comm, MPI_Request *request)
{
    return do_alltoall(out, out_count, out_type, in, in_count, in_type, comm, request);
}

static int do_alltoallv(const void *out, const int *out_counts, const int *out_at,
                        MPI_Datatype out_type, void *in, const int *in_counts, const int *in_at,
                        MPI_Datatype in_type, MPI_Comm comm, MPI_Request *begun)
{
    struct um_collective call = {
        .run = um_collect_all_to_all,
        .name = "MPI_Alltoallv",
        .out = {.memory = out, .counts = out_counts, .at = out_at, .type = out_type},
        .in = {.memory = in, .counts = in_counts, .at = in_at, .type = in_type}};

    if (is_inside(&call, comm, begun))
        return run_inside(&call);
    return run_outside(&call, um_mpi.Ialltoallv(out, out_counts, out_at, out_type, in, in_counts,
                                                in_at, in_type, comm, call.request));
}

int MPI_Alltoallv(const void *out, const int *out_counts, const int *out_at, MPI_Datatype out_type,
                  void *in, const int *in_counts, const int *in_at, MPI_Datatype in_type,
                  MPI_Comm comm)
{
    return do_alltoallv(out, out_counts, out_at, out_type, in, in_counts, in_at, in_type, comm,
                        NULL);
}

int MPI_Ialltoallv(const void *out, const int *out_counts, const int *out_at, MPI_Datatype out_type,
                   void *in, const int *in_counts, const int *in_at, MPI_Datatype in_type,
                   MPI_Comm comm, MPI_Request *request)
{
    return do_alltoallv(out, out_counts, out_at, out_type, in, in_counts, in_at, in_type, comm,
                        request);
}
