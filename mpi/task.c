/* SPDX-License-Identifier: BSL-1.0 */
/* What a task does: waits, errors, and its leave. */
#define _GNU_SOURCE
#include "library.h"

/* A wait for MPI sleeps after so many questions, so often, and so long. */
#define ASKED_AWAKE 100
#define SLEEP_PART 4
#define SLEEP_LEAST_NS 5000
#define SLEEP_MOST_NS 1000000

/* ---- waits ---- */

/* The calling task goes on, after its core may have run others. */
static void resumed(struct umbra_child *child)
{
    if (child)
        um_child_resumed(child);
    else
        um_host_resumed();
}

/* The condition of a wait: the caller's, or that the task must end. */
struct condition {
    struct um_mpi_task *task;
    bool (*holds)(void *);
    void *arg;
};

static bool wait_over(void *arg)
{
    const struct condition *condition = arg;

    /* acquire: as the condition itself; pairs with MPI_Abort() */
    return um_atomic_load(&condition->task->aborted, acquire) != 0 ||
           condition->holds(condition->arg);
}

/*
 * One round. A task has one fiber, which may take each ring. If the task has threads of its own,
 * too, a ring goes to the waiter whose condition holds. A fiber that waited before the first thread
 * did may have taken that thread's ring: it gives the ring back.
 */
static void wait_once(struct um_mpi_task *task, struct condition *condition)
{
    bool fiber = umbra_core_index() >= 0;

    if (!fiber)
        um_atomic_store(&task->threaded, 1, relaxed); /* the request, and its ring, come after */
    if (fiber && um_atomic_load(&task->threaded, relaxed) == 0) {
        umbra_event_wait(&task->bell, UMBRA_NEVER);
        if (UM_UNLIKELY(um_atomic_load(&task->threaded, relaxed) != 0)) /* the ring orders */
            um_mpi_task_ring(task);
    } else {
        umbra_event_wait_until(&task->bell, wait_over, condition, UMBRA_NEVER);
    }
}

void um_mpi_task_wait(struct um_mpi_task *task, bool (*holds)(void *), void *arg)
{
    struct condition condition = {task, holds, arg};
    struct umbra_child *child = um_seat.running;
    int saved = errno;

    while (!wait_over(&condition)) { /* again after an error: the fiber was canceled */
        wait_once(task, &condition);
        resumed(child);
    }
    errno = saved;
}

void um_mpi_task_step(void)
{
    struct umbra_child *child = um_seat.running;
    int saved = errno;

    umbra_yield();
    resumed(child);
    errno = saved;
}

void um_mpi_task_yield(struct um_mpi_task *task)
{
    um_mpi_task_step();
    um_mpi_task_check(task);
}

void um_mpi_task_pause(struct um_mpi_task *task, struct um_patience *patience)
{
    struct umbra_child *child = um_seat.running;
    uint64_t now = 0, ns = 0;
    int saved = errno;

    if (++patience->asked > ASKED_AWAKE)
        now = umbra_now_ns();
    if (patience->asked == ASKED_AWAKE + 1)
        patience->since_ns = now;
    if (now > 0)
        ns = (now - patience->since_ns) / SLEEP_PART;
    if (ns < SLEEP_LEAST_NS) {
        um_mpi_task_yield(task);
        return;
    }
    umbra_sleep_ns(ns < SLEEP_MOST_NS ? ns : SLEEP_MOST_NS);
    resumed(child);
    errno = saved;
    um_mpi_task_check(task);
}

int um_mpi_await(struct um_mpi_task *task, MPI_Request *request, MPI_Status *status)
{
    struct um_patience patience = {0, 0};
    int flag = 0, error;

    for (;;) {
        error = um_mpi.Test(request, &flag, status);
        if (error != MPI_SUCCESS || flag)
            return error;
        um_mpi_task_pause(task, &patience);
    }
}

/* ---- ends ---- */

void um_mpi_task_leave(int code)
{
    if (um_seat.running)
        um_child_leave(um_seat.running, (code & 0xff) << 8);
    um_mpi.Abort(MPI_COMM_WORLD, code);
    _Exit(code);
}

void um_mpi_task_check(struct um_mpi_task *task)
{
    uint32_t aborted = um_atomic_load(&task->aborted, relaxed); /* only the number counts */

    if (UM_UNLIKELY(aborted != 0))
        um_mpi_task_leave((int)aborted - 1);
}

/* ---- errors ---- */

/* Handlers that programs made: MPI's handle, and the function. */
struct handler {
    MPI_Errhandler handle;
    MPI_Comm_errhandler_function *function;
    struct handler *next;
};

static struct um_lock handlers_lock;
static struct handler *handlers;

int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function *function, MPI_Errhandler *handle)
{
    struct handler *handler = malloc(sizeof(*handler));
    int error = handler ? um_mpi.Comm_create_errhandler(function, handle) : MPI_ERR_NO_MEM;

    if (error != MPI_SUCCESS) {
        free(handler);
        return error;
    }
    um_lock_take(&handlers_lock);
    *handler = (struct handler){*handle, function, handlers}; /* newest first: handles are reused */
    handlers = handler;
    um_lock_release(&handlers_lock);
    return MPI_SUCCESS;
}

static MPI_Comm_errhandler_function *function_of(MPI_Errhandler handle)
{
    const struct handler *handler;

    um_lock_take(&handlers_lock);
    for (handler = handlers; handler && handler->handle != handle; handler = handler->next) {
    }
    um_lock_release(&handlers_lock);
    return handler ? handler->function : NULL;
}

/* A communicator inside may have it, which MPI does not know: it stays, and so its handle. */
int MPI_Errhandler_free(MPI_Errhandler *handle)
{
    if (!function_of(*handle))
        return um_mpi.Errhandler_free(handle);
    *handle = MPI_ERRHANDLER_NULL;
    return MPI_SUCCESS;
}

/* A wait of a task that was aborted has failed, too: it ends here. */
int um_error(struct um_mpi_task *task, struct um_comm *comm, int class, const char *call,
             const char *what)
{
    MPI_Errhandler handler = comm ? comm->handler : MPI_ERRORS_ARE_FATAL;
    MPI_Comm_errhandler_function *function;

    um_mpi_task_check(task);
    if (handler == MPI_ERRORS_RETURN)
        return class;
    function = function_of(handler);
    if (function && comm) {
        MPI_Comm handle = comm->handle;

        function(&handle, &class);
        return class;
    }
    fprintf(stderr, "umbra_mpi: %s: %s (rank %d)\n", call, what, comm ? comm->rank : 0);
    um_mpi_task_leave(class);
}
