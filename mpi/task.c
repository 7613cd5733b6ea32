/* SPDX-License-Identifier: BSL-1.0 */
/* Tasks: handles, waits, errors, and the end of one. */
#define _GNU_SOURCE
#include "image/bind.h"
#include "library.h"

/* A wait for MPI sleeps after so many questions, so often, and so long. */
#define ASKED_AWAKE 100
#define SLEEP_PART 4
#define SLEEP_LEAST_NS 5000
#define SLEEP_MOST_NS 1000000

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

int um_table_add(struct um_table *table, void *item)
{
    int number = table->unused ? (int)table->unused - 1 : entry_new(table);

    if (number < 0)
        return -1;
    if (table->unused)
        table->unused = (uintptr_t)*entry_at(table, (unsigned)number) >> 1;
    *entry_at(table, (unsigned)number) = item;
    return number;
}

void um_table_remove(struct um_table *table, int number)
{
    *entry_at(table, (unsigned)number) = (void *)(table->unused << 1 | 1);
    table->unused = (uintptr_t)number + 1;
}

static void table_free(struct um_table *table)
{
    for (int k = 0; k < UM_CHUNKS && table->chunk[k]; k++)
        free(table->chunk[k]);
}

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

/* The first member from `from` on that has not ended; size: none. */
static uint32_t first_live(const struct um_mpi_group *group, uint32_t from)
{
    /* seq_cst: of two that end at once, one sees that all have; pairs with um_mpi_task_end() */
    while (from < (uint32_t)group->size && um_atomic_load(&group->task[from]->ended, seq_cst) != 0)
        from++;
    return from;
}

/* True if no member is left but one. The members before `live` have ended: each end looks at few. */
static bool all_ended(struct um_mpi_group *group, const struct um_mpi_task *but)
{
    /* relaxed: an older number only takes longer */
    uint32_t live = first_live(group, um_atomic_load(&group->live, relaxed));

    um_atomic_store(&group->live, live, relaxed);
    if (live < (uint32_t)group->size && group->task[live] == but)
        live = first_live(group, live + 1);
    return live == (uint32_t)group->size;
}

/* Ends the receives of one peer, in some uses, that only the ending task could have sent to. */
static void peer_fail(struct um_comm *comm, struct um_mpi_task *peer, enum um_use first,
                      uint32_t uses)
{
    bool all = all_ended(comm->local, peer), probed;
    struct um_receive *receive;

    while ((receive = um_box_orphan(&peer->box, comm->id * UM_USES + first, uses, comm->rank, all,
                                    &probed))) {
        um_side_end(&receive->done, UM_FAILED);
        um_mpi_task_ring(peer);
    }
    if (probed) /* it looks whether a source is left */
        um_mpi_task_ring(peer);
}

static void group_fail(struct um_mpi_task *task, struct um_comm *comm,
                       const struct um_mpi_group *peers, enum um_use first, uint32_t uses)
{
    for (int i = 0; i < peers->size; i++)
        /* acquire: its box is closed, then nothing waits there */
        if (peers->task[i] != task && um_atomic_load(&peers->task[i]->ended, acquire) == 0)
            peer_fail(comm, peers->task[i], first, uses);
}

/* What is used between the members of a group is not between two groups: ranks mean others there. */
static void peers_fail(struct um_mpi_task *task, struct um_comm *comm)
{
    if (!comm->remote) {
        group_fail(task, comm, comm->local, UM_POINT, UM_USES);
        return;
    }
    group_fail(task, comm, comm->remote, UM_POINT, UM_LOCALLY);
    group_fail(task, comm, comm->local, UM_LOCALLY, 1);
}

void um_messages_drop(struct um_message *message)
{
    while (message) {
        struct um_message *next = message->next;
        struct um_mpi_task *sender = message->sender;

        if (sender) {
            /* It waits, so it is there; once this has ended it may be freed, since the receiver may
             * have freed the communicator. */
            um_atomic_fetch_add(&sender->refs, 1, relaxed);
            um_side_end(&message->done, UM_FAILED);
            um_mpi_task_ring(sender);
            um_mpi_task_put(sender);
        } else {
            free(message);
        }
        message = next;
    }
}

static void requests_free(struct um_mpi_task *task)
{
    for (unsigned i = 0; i < task->requests.count; i++) {
        struct um_request *request = um_table_get(&task->requests, i);

        if (!request)
            continue;
        um_request_withdraw(task, request);
        um_request_discard(request);
        um_comm_put(request->comm);
        free(request);
    }
}

/* In the child's fiber, when its code has ended. */
void um_mpi_task_end(struct um_mpi_task *task)
{
    requests_free(task);
    um_atomic_store(&task->ended, 1, seq_cst); /* before the looks at peers; see all_ended() */
    um_messages_drop(um_box_close(&task->box));
    for (unsigned i = 0; i < task->comms.count; i++) {
        struct um_comm *comm = um_table_get(&task->comms, i);

        if (comm)
            peers_fail(task, comm);
    }
    for (unsigned i = 0; i < task->comms.count; i++) {
        struct um_comm *comm = um_table_get(&task->comms, i);

        if (comm)
            um_comm_put(comm);
    }
    for (unsigned i = 0; i < task->groups.count; i++)
        if (um_table_get(&task->groups, i))
            um_mpi_group_put(um_table_get(&task->groups, i));
    um_launch_put(task->launch);
    um_mpi_task_put(task);
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
