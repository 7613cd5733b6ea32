/* SPDX-License-Identifier: BSL-1.0 */
/* Requests: those inside have a handle in the task's table; others are MPI's. */
#define _GNU_SOURCE
#include "library.h"

/* ---- the end of one ---- */

/* Only the elements that have come: the message may be shorter than the buffer, and end within an
 * element. */
static void unpack(struct um_request *request, size_t bytes)
{
    int count, at = 0, one = 0;

    if (!request->packed || bytes == 0)
        return;
    um_mpi.Pack_size(1, request->type, MPI_COMM_SELF, &one);
    count = (int)((bytes + (size_t)one - 1) / (size_t)one);
    um_mpi.Unpack(request->packed, (int)bytes, &at, (void *)(uintptr_t)request->user,
                  count < request->count ? count : request->count, request->type, MPI_COMM_SELF);
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

bool um_request_ended(void *arg)
{
    struct um_request *request = arg;

    return um_side_ended(request->sends ? &request->message.done : &request->receive.done) !=
           UM_PENDING;
}

void um_request_blank(struct um_request *request, struct um_comm *comm)
{
    request->sends = request->background = request->cancelled = false;
    request->taken = NULL;
    request->packed = NULL;
    request->comm = comm;
    um_atomic_store(&request->receive.done, UM_PENDING, relaxed); /* not yet given */
}

/* A receive that has ended with nothing, from MPI_PROC_NULL or, if it was cancelled, any source. */
static void receive_nothing(struct um_receive *receive, int source)
{
    receive->got = (struct um_envelope){0, source, MPI_ANY_TAG};
    receive->room = receive->bytes = 0;
    um_side_end(&receive->done, UM_DONE);
}

void um_request_nowhere(struct um_request *request, struct um_comm *comm)
{
    um_request_blank(request, comm);
    receive_nothing(&request->receive, MPI_PROC_NULL);
}

void um_request_discard(struct um_request *request)
{
    if (UM_LIKELY(request->packed == NULL))
        return;
    free(request->packed);
    request->packed = NULL;
    if (!request->sends)
        um_mpi.Type_free(&request->type);
}

int um_request_end(struct um_request *request, MPI_Status *status)
{
    struct um_receive *receive = &request->receive;
    int error = MPI_SUCCESS;

    if (UM_UNLIKELY(request->background)) {
        error = request->error;
        um_status_set(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
    } else if (request->sends) {
        if (um_side_ended(&request->message.done) == UM_FAILED)
            error = MPI_ERR_PROC_ABORTED;
        um_status_set(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
    } else if (um_side_ended(&receive->done) == UM_FAILED) {
        error = MPI_ERR_PROC_ABORTED;
        um_status_set(status, receive->wants.source, receive->wants.tag, 0);
    } else {
        size_t bytes = receive->bytes < receive->room ? receive->bytes : receive->room;

        unpack(request, bytes);
        um_status_set(status, receive->got.source, receive->got.tag, bytes);
        if (receive->bytes > receive->room)
            error = MPI_ERR_TRUNCATE;
    }
    if (UM_UNLIKELY(request->cancelled) && status != MPI_STATUS_IGNORE)
        status->count_hi_and_cancelled |= 1;
    um_request_discard(request);
    return error;
}

void um_request_cancel(struct um_mpi_task *task, struct um_request *request)
{
    if (request->sends ? !um_box_withdraw(&request->to->box, &request->message)
                       : !um_box_cancel(&task->box, &request->receive))
        return;
    request->cancelled = true;
    if (request->sends)
        um_side_end(&request->message.done, UM_DONE);
    else
        receive_nothing(&request->receive, MPI_ANY_SOURCE);
    um_mpi_task_ring(task); /* another of its threads may wait for it */
}

/* The fiber that does it for the task must go on to its end: all its waits fail. */
static void background_stop(struct um_mpi_task *task, struct um_request *request)
{
    um_atomic_store(&task->aborted, 1, relaxed); /* the ring orders */
    while (!um_request_ended(request)) {
        um_mpi_task_ring(task);
        um_mpi_task_step();
    }
}

void um_request_withdraw(struct um_mpi_task *task, struct um_request *request)
{
    um_atomic_u32 *done = request->sends ? &request->message.done : &request->receive.done;

    if (UM_UNLIKELY(request->taken != NULL))
        um_messages_drop(request->taken);
    if (um_request_ended(request))
        return;
    if (UM_UNLIKELY(request->background))
        background_stop(task, request);
    else if (request->sends ? um_box_withdraw(&request->to->box, &request->message)
                            : um_box_cancel(&task->box, &request->receive))
        um_atomic_store(done, UM_FAILED, relaxed); /* only this thread has it */
    while (!um_request_ended(request))             /* the peer copies at this moment */
        um_mpi_task_step();
}

int um_request_run(struct um_mpi_task *task, struct um_request *request, MPI_Status *status)
{
    if (!um_request_ended(request)) {
        um_mpi_task_wait(task, um_request_ended, request);
        if (UM_UNLIKELY(um_atomic_load(&task->aborted, relaxed) != 0)) /* see um_error() */
            um_request_withdraw(task, request);
    }
    return um_request_end(request, status);
}

/* The end of a request inside that has ended: its error, after the error handler. */
static int finish(struct um_mpi_task *task, struct um_request *request, MPI_Request *handle,
                  MPI_Status *status)
{
    struct um_comm *comm = request->comm;
    int error = um_request_end(request, status);

    if (error == MPI_SUCCESS) {
        um_request_free(task, request, handle);
        return MPI_SUCCESS;
    }
    um_atomic_fetch_add(&comm->refs, 1, relaxed); /* for the handler */
    um_request_free(task, request, handle);
    error = um_error(task, comm, error, "a request",
                     error == MPI_ERR_TRUNCATE ? "the message is longer than the buffer"
                                               : "the peer has ended");
    um_comm_put(comm);
    return error;
}

/* ---- several ---- */

struct requests {
    struct um_mpi_task *task;
    MPI_Request *handle;
    int count;
    int real;  /* of them MPI's own */
    int which; /* found ended */
    bool all;  /* wanted */
};

static void empty_status(MPI_Status *status)
{
    if (status != MPI_STATUS_IGNORE)
        *status = (MPI_Status){.MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG};
}

/* True if a request has ended; -1 in *active: it is none. */
static bool has_ended(struct um_mpi_task *task, MPI_Request handle, bool *active)
{
    struct um_request *request = um_request_of(task, handle);
    int flag = 0;

    *active = handle != MPI_REQUEST_NULL;
    if (request)
        return um_request_ended(request);
    if (*active)
        um_mpi.Request_get_status(handle, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
}

/* The number of active requests that have ended, up to the first if not all are wanted; which: the
 * first. */
static bool enough_ended(void *arg)
{
    struct requests *all = arg;
    int active = 0, ended = 0;
    bool is;

    all->which = MPI_UNDEFINED;
    for (int i = 0; i < all->count; i++) {
        bool end = has_ended(all->task, all->handle[i], &is);

        active += is;
        ended += is && end;
        if (is && end && !all->all) {
            all->which = i;
            return true;
        }
    }
    return all->all ? ended == active : active == 0;
}

static void count_real(struct requests *all)
{
    for (int i = 0; i < all->count; i++)
        all->real += all->handle[i] != MPI_REQUEST_NULL && !um_is(all->handle[i], UM_IS_REQUEST);
}

/* Waits for one, or all. Among requests of MPI's own it asks MPI again and again. */
static void wait_for(struct requests *all)
{
    struct um_patience patience = {0, 0};

    count_real(all);
    if (all->real == 0) {
        um_mpi_task_wait(all->task, enough_ended, all);
        um_mpi_task_check(all->task); /* which leaves the requests to task_end() */
    } else {
        while (!enough_ended(all))
            um_mpi_task_pause(all->task, &patience);
    }
    if (!all->all)
        enough_ended(all); /* which: another thread may have asked last */
}

static int end_one(struct um_mpi_task *task, MPI_Request *handle, MPI_Status *status)
{
    struct um_request *request = um_request_of(task, *handle);

    if (request)
        return finish(task, request, handle, status);
    if (*handle == MPI_REQUEST_NULL) {
        empty_status(status);
        return MPI_SUCCESS;
    }
    return um_mpi.Wait(handle, status);
}

/* ---- MPI's calls ---- */

int MPI_Wait(MPI_Request *handle, MPI_Status *status)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_request *request = um_request_of(task, *handle);

    if (!request)
        return um_mpi_await(task, handle, status);
    if (!um_request_ended(request)) {
        um_mpi_task_wait(task, um_request_ended, request);
        um_mpi_task_check(task);
    }
    return finish(task, request, handle, status);
}

int MPI_Test(MPI_Request *handle, int *flag, MPI_Status *status)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_request *request = um_request_of(task, *handle);

    if (!request) {
        int error = um_mpi.Test(handle, flag, status);

        if (error == MPI_SUCCESS && !*flag)
            um_mpi_task_yield(task);
        return error;
    }
    *flag = um_request_ended(request);
    if (*flag)
        return finish(task, request, handle, status);
    um_mpi_task_yield(task); /* the caller asks again */
    return MPI_SUCCESS;
}

/* One of several: its error is in its status, too. */
static int end_into(struct requests *all, int i, MPI_Status *status)
{
    int error = end_one(all->task, &all->handle[i], status);

    if (status != MPI_STATUS_IGNORE)
        status->MPI_ERROR = error;
    return error;
}

static int end_all(struct requests *all, MPI_Status *statuses)
{
    int result = MPI_SUCCESS;

    for (int i = 0; i < all->count; i++) {
        MPI_Status *status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];

        if (end_into(all, i, status) != MPI_SUCCESS)
            result = MPI_ERR_IN_STATUS;
    }
    return result;
}

int MPI_Waitall(int count, MPI_Request *handles, MPI_Status *statuses)
{
    struct requests all = {um_mpi_task_self(), handles, count, 0, 0, true};

    wait_for(&all);
    return end_all(&all, statuses);
}

int MPI_Testall(int count, MPI_Request *handles, int *flag, MPI_Status *statuses)
{
    struct requests all = {um_mpi_task_self(), handles, count, 0, 0, true};

    *flag = enough_ended(&all);
    if (*flag)
        return end_all(&all, statuses);
    um_mpi_task_yield(all.task);
    return MPI_SUCCESS;
}

int MPI_Waitany(int count, MPI_Request *handles, int *which, MPI_Status *status)
{
    struct requests all = {um_mpi_task_self(), handles, count, 0, 0, false};

    wait_for(&all);
    *which = all.which;
    if (all.which != MPI_UNDEFINED)
        return end_one(all.task, &handles[all.which], status);
    empty_status(status);
    return MPI_SUCCESS;
}

int MPI_Testany(int count, MPI_Request *handles, int *which, int *flag, MPI_Status *status)
{
    struct requests all = {um_mpi_task_self(), handles, count, 0, 0, false};

    *flag = enough_ended(&all);
    *which = all.which;
    if (all.which != MPI_UNDEFINED)
        return end_one(all.task, &handles[all.which], status);
    if (*flag)
        empty_status(status);
    else
        um_mpi_task_yield(all.task);
    return MPI_SUCCESS;
}

/* Ends all that have ended. */
static int end_some(struct requests *all, int *out, int *which, MPI_Status *statuses)
{
    int result = MPI_SUCCESS;
    bool active, any = false;

    *out = 0;
    for (int i = 0; i < all->count; i++) {
        bool ended = has_ended(all->task, all->handle[i], &active);
        MPI_Status *status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[*out];

        any = any || active;
        if (!active || !ended)
            continue;
        which[(*out)++] = i;
        if (end_into(all, i, status) != MPI_SUCCESS)
            result = MPI_ERR_IN_STATUS;
    }
    if (!any)
        *out = MPI_UNDEFINED;
    return result;
}

int MPI_Waitsome(int count, MPI_Request *handles, int *out, int *which, MPI_Status *statuses)
{
    struct requests all = {um_mpi_task_self(), handles, count, 0, 0, false};

    wait_for(&all);
    return end_some(&all, out, which, statuses);
}

int MPI_Testsome(int count, MPI_Request *handles, int *out, int *which, MPI_Status *statuses)
{
    struct requests all = {um_mpi_task_self(), handles, count, 0, 0, false};
    int error = end_some(&all, out, which, statuses);

    if (*out == 0)
        um_mpi_task_yield(all.task);
    return error;
}

int MPI_Request_get_status(MPI_Request handle, int *flag, MPI_Status *status)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_request *request = um_request_of(task, handle);
    int error = MPI_SUCCESS;

    if (!request)
        error = um_mpi.Request_get_status(handle, flag, status);
    else if ((*flag = um_request_ended(request)) != 0)
        um_request_end(request, status); /* its error is that of the call that frees it */
    if (error == MPI_SUCCESS && !*flag)
        um_mpi_task_yield(task); /* the caller asks again */
    return error;
}

/* One that has not ended stays in the task's table until the task ends: a peer may still use it. */
int MPI_Request_free(MPI_Request *handle)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_request *request = um_request_of(task, *handle);

    if (!request)
        return um_mpi.Request_free(handle);
    if (um_request_ended(request)) {
        um_request_end(request, MPI_STATUS_IGNORE);
        um_request_free(task, request, handle);
    }
    *handle = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

/* What has matched ends as usual. */
int MPI_Cancel(MPI_Request *handle)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_request *request = um_request_of(task, *handle);

    if (!request)
        return um_mpi.Cancel(handle);
    if (!um_request_ended(request))
        um_request_cancel(task, request);
    return MPI_SUCCESS;
}
