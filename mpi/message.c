/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Sends, receives and probes. The side that comes second copies the data, from the sender's memory
 * to the receiver's, if a receive waits or the message is large: match.h.
 */
#define _GNU_SOURCE
#include "library.h"

/* ---- data ---- */

/* True if elements of the type lie one behind the other. MPICH's handle of a basic type has its
 * size in its second byte. */
static bool is_basic(MPI_Datatype type)
{
    return ((unsigned)type & 0xff000000u) == 0x4c000000u;
}

static size_t bytes_of(int count, MPI_Datatype type)
{
    return (size_t)count * ((unsigned)type >> 8 & 0xff);
}

/* True if the program cannot free it: it is MPI's, or an unused argument. A copy of a pair would be
 * none to MPI_MAXLOC. */
static bool is_kept(MPI_Datatype type)
{
    return type == 0 || type == MPI_DATATYPE_NULL || is_basic(type) || type == MPI_FLOAT_INT ||
           type == MPI_DOUBLE_INT || type == MPI_LONG_INT || type == MPI_SHORT_INT ||
           type == MPI_LONG_DOUBLE_INT;
}

int um_type_keep(MPI_Datatype *type)
{
    if (is_kept(*type))
        return MPI_SUCCESS;
    return um_mpi.Type_dup(*type, type) == MPI_SUCCESS ? MPI_SUCCESS : MPI_ERR_TYPE;
}

void um_type_drop(MPI_Datatype *type)
{
    if (!is_kept(*type))
        um_mpi.Type_free(type);
}

/* What the message carries: the user's memory, or for other types a packed copy. */
static int pack_begin(struct um_request *request, const void *buffer, int count, MPI_Datatype type,
                      size_t *bytes)
{
    int size = 0;

    request->background = request->cancelled = false;
    request->taken = NULL;
    request->user = buffer;
    request->count = count;
    request->type = type;
    request->packed = NULL;
    if (UM_LIKELY(is_basic(type))) {
        *bytes = bytes_of(count, type);
        return MPI_SUCCESS;
    }
    if (um_mpi.Pack_size(count, type, MPI_COMM_SELF, &size) != MPI_SUCCESS)
        return MPI_ERR_TYPE;
    request->packed = malloc((size_t)size + 1);
    *bytes = (size_t)size;
    return request->packed ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static int pack(struct um_request *request, size_t *bytes)
{
    int at = 0;

    if (!request->packed)
        return MPI_SUCCESS;
    if (um_mpi.Pack(request->user, request->count, request->type, request->packed, (int)*bytes, &at,
                    MPI_COMM_SELF) != MPI_SUCCESS)
        return MPI_ERR_TYPE;
    *bytes = (size_t)at;
    return MPI_SUCCESS;
}

static void *data_of(const struct um_request *request)
{
    return request->packed ? request->packed : (void *)(uintptr_t)request->user;
}

static void copy_to(struct um_receive *receive, const struct um_envelope *is, const void *data,
                    size_t bytes)
{
    size_t copied = bytes < receive->room ? bytes : receive->room;

    receive->got = *is;
    receive->bytes = bytes;
    if (copied > 0)
        memcpy(receive->buffer, data, copied);
}

/* ---- sending ---- */

static void deliver(struct um_mpi_task *to, struct um_receive *receive,
                    const struct um_envelope *is, const void *data, size_t bytes)
{
    copy_to(receive, is, data, bytes);
    um_side_end(&receive->done, UM_DONE);
    um_mpi_task_ring(to);
}

/* Lists a message; ends it at once if it need not be listed. */
static enum um_sent list(struct um_mpi_task *to, struct um_message *message)
{
    struct um_envelope is = message->is;
    struct um_receive *receive;
    enum um_sent sent = um_box_send(&to->box, &is, message, &receive);

    if (sent == UM_SENT_MATCHED)
        deliver(to, receive, &is, message->data, message->bytes);
    else if (sent == UM_SENT_PROBED)
        um_mpi_task_ring(to);
    return sent;
}

/* A copy, and the sender goes on. A message to a task that has ended is lost, as one is that a
 * process has not received. */
static int list_copy(struct um_mpi_task *to, const struct um_envelope *is, const void *data,
                     size_t bytes)
{
    struct um_message *message = malloc(sizeof(*message) + bytes);
    enum um_sent sent;

    if (!message)
        return MPI_ERR_NO_MEM;
    *message = (struct um_message){.is = *is, .data = message + 1, .bytes = bytes};
    if (bytes > 0)
        memcpy(message + 1, data, bytes);
    sent = list(to, message);
    if (sent == UM_SENT_MATCHED || sent == UM_SENT_CLOSED)
        free(message);
    return MPI_SUCCESS;
}

int um_send_begin(struct um_mpi_task *task, struct um_request *request, struct um_comm *comm,
                  enum um_use use, const void *buffer, int count, MPI_Datatype type, int to_rank,
                  int tag, bool synchronous)
{
    const struct um_mpi_group *group =
        comm->remote && use != UM_LOCALLY ? comm->remote : comm->local;
    struct um_envelope is = {comm->id * UM_USES + use, comm->rank, tag};
    struct um_mpi_task *to = group->task[to_rank];
    struct um_receive *receive;
    size_t bytes;
    int error = pack_begin(request, buffer, count, type, &bytes);

    request->sends = true;
    request->comm = comm;
    request->to = to;
    um_atomic_store(&request->message.done, UM_DONE, relaxed); /* only this thread */
    if (error == MPI_SUCCESS)
        error = pack(request, &bytes);
    if (UM_UNLIKELY(error != MPI_SUCCESS))
        return error;
    if (um_box_send(&to->box, &is, NULL, &receive) == UM_SENT_MATCHED) {
        deliver(to, receive, &is, data_of(request), bytes);
        return MPI_SUCCESS;
    }
    if (!synchronous && bytes <= UM_EAGER_BYTES)
        return list_copy(to, &is, data_of(request), bytes);
    request->message = (struct um_message){
        .is = is, .data = data_of(request), .bytes = bytes, .sender = task, .done = UM_PENDING};
    switch (list(to, &request->message)) {
    case UM_SENT_MATCHED:
        um_atomic_store(&request->message.done, UM_DONE, relaxed);
        break;
    case UM_SENT_CLOSED:
        um_atomic_store(&request->message.done, UM_FAILED, relaxed);
        break;
    default:
        break;
    }
    return MPI_SUCCESS;
}

/* ---- receiving ---- */

static void take(struct um_receive *receive, struct um_message *message)
{
    struct um_mpi_task *sender = message->sender;

    copy_to(receive, &message->is, message->data, message->bytes);
    um_atomic_store(&receive->done, UM_DONE, relaxed); /* only this thread */
    if (sender) {
        um_side_end(&message->done, UM_DONE);
        um_mpi_task_ring(sender);
    } else {
        free(message);
    }
}

/* True if no task is left that could send. */
static bool source_ended(const struct um_comm *comm, enum um_use use, int from,
                         const struct um_mpi_task *self)
{
    const struct um_mpi_group *group =
        comm->remote && use != UM_LOCALLY ? comm->remote : comm->local;

    if (from >= 0) /* acquire: what it sent before; pairs with task_end() */
        return um_atomic_load(&group->task[from]->ended, acquire) != 0;
    for (int i = 0; i < group->size; i++)
        if (group->task[i] == self || um_atomic_load(&group->task[i]->ended, acquire) == 0)
            return false;
    return true;
}

/* Where the data of a receive will go. The program may free the datatype before the end. */
static int receive_prepare(struct um_request *request, struct um_comm *comm, void *buffer,
                           int count, MPI_Datatype type)
{
    struct um_receive *receive = &request->receive;
    int error = pack_begin(request, buffer, count, type, &receive->room);

    request->sends = false;
    request->comm = comm;
    um_atomic_store(&receive->done, UM_FAILED, relaxed); /* if it cannot be posted */
    if (UM_UNLIKELY(error != MPI_SUCCESS))
        return error;
    receive->buffer = data_of(request);
    return UM_UNLIKELY(request->packed != NULL) ? um_mpi.Type_dup(type, &request->type)
                                                : MPI_SUCCESS;
}

int um_receive_begin(struct um_mpi_task *task, struct um_request *request, struct um_comm *comm,
                     enum um_use use, void *buffer, int count, MPI_Datatype type, int from, int tag)
{
    struct um_receive *receive = &request->receive;
    struct um_message *message;
    int error = receive_prepare(request, comm, buffer, count, type);

    if (UM_UNLIKELY(error != MPI_SUCCESS))
        return error;
    receive->wants = (struct um_envelope){comm->id * UM_USES + use, from, tag};
    um_atomic_store(&receive->done, UM_PENDING, relaxed); /* published by the lock */
    message = um_box_receive(&task->box, receive);
    if (message)
        take(receive, message);
    else if (source_ended(comm, use, from, task) && um_box_cancel(&task->box, receive))
        um_atomic_store(&receive->done, UM_FAILED, relaxed);
    return MPI_SUCCESS;
}

/* ---- MPI's calls ---- */

static const char *text_of(int class)
{
    switch (class) {
    case MPI_ERR_TRUNCATE:
        return "the message is longer than the buffer";
    case MPI_ERR_PROC_ABORTED:
        return "the peer has ended";
    case MPI_ERR_RANK:
        return "no such rank";
    case MPI_ERR_TAG:
        return "no such tag";
    case MPI_ERR_COUNT:
        return "a negative count";
    case MPI_ERR_TYPE:
        return "no datatype that MPI can pack";
    case MPI_ERR_BUFFER:
        return "no buffer";
    default:
        return "no memory";
    }
}

static int point_error(struct um_mpi_task *task, struct um_comm *comm, int error, const char *call)
{
    return error == MPI_SUCCESS ? error : um_error(task, comm, error, call, text_of(error));
}

static int peer_check(const struct um_comm *comm, int rank, int tag, bool receives)
{
    const struct um_mpi_group *group = comm->remote ? comm->remote : comm->local;

    if (UM_UNLIKELY(tag < 0 && !(receives && tag == MPI_ANY_TAG)))
        return MPI_ERR_TAG;
    if (UM_UNLIKELY((rank < 0 || rank >= group->size) && rank != MPI_PROC_NULL &&
                    !(receives && rank == MPI_ANY_SOURCE)))
        return MPI_ERR_RANK;
    return MPI_SUCCESS;
}

int um_data_check(const void *buffer, int count, MPI_Datatype type)
{
    if (UM_UNLIKELY(count < 0))
        return MPI_ERR_COUNT;
    if (UM_UNLIKELY(type == MPI_DATATYPE_NULL))
        return MPI_ERR_TYPE;
    if (UM_UNLIKELY(!buffer && count > 0 && is_basic(type))) /* others have addresses */
        return MPI_ERR_BUFFER;
    return MPI_SUCCESS;
}

static int send_check(const struct um_comm *comm, const void *buffer, int count, MPI_Datatype type,
                      int to, int tag)
{
    int error = um_data_check(buffer, count, type);

    return error ? error : peer_check(comm, to, tag, false);
}

static int receive_check(const struct um_comm *comm, const void *buffer, int count,
                         MPI_Datatype type, int from, int tag)
{
    int error = um_data_check(buffer, count, type);

    return error ? error : peer_check(comm, from, tag, true);
}

static int send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                bool synchronous, const char *call)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *inside = um_comm_of(task, comm);
    struct um_request request;
    MPI_Request outside = MPI_REQUEST_NULL; /* a handler of the program may hide an error */
    int error;

    if (UM_UNLIKELY(!inside)) {
        error = (synchronous ? um_mpi.Issend : um_mpi.Isend)(buffer, count, type, to, tag, comm,
                                                             &outside);
        return error ? error : um_mpi_await(task, &outside, MPI_STATUS_IGNORE);
    }
    error = send_check(inside, buffer, count, type, to, tag);
    um_mpi_task_check(task);
    if (error == MPI_SUCCESS && to == MPI_PROC_NULL)
        return MPI_SUCCESS;
    if (error == MPI_SUCCESS)
        error = um_send_begin(task, &request, inside, UM_POINT, buffer, count, type, to, tag,
                              synchronous);
    if (error == MPI_SUCCESS)
        error = um_request_run(task, &request, MPI_STATUS_IGNORE);
    return point_error(task, inside, error, call);
}

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    return send(buffer, count, type, to, tag, comm, false, "MPI_Send");
}

int MPI_Ssend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    return send(buffer, count, type, to, tag, comm, true, "MPI_Ssend");
}

int MPI_Rsend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    return MPI_Send(buffer, count, type, to, tag, comm);
}

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *inside = um_comm_of(task, comm);
    struct um_request request;
    MPI_Request outside = MPI_REQUEST_NULL; /* a handler of the program may hide an error */
    int error;

    if (UM_UNLIKELY(!inside)) {
        error = um_mpi.Irecv(buffer, count, type, from, tag, comm, &outside);
        return error ? error : um_mpi_await(task, &outside, status);
    }
    error = receive_check(inside, buffer, count, type, from, tag);
    um_mpi_task_check(task);
    if (error == MPI_SUCCESS && from == MPI_PROC_NULL) {
        um_status_set(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
        return MPI_SUCCESS;
    }
    if (error == MPI_SUCCESS)
        error = um_receive_begin(task, &request, inside, UM_POINT, buffer, count, type, from, tag);
    if (error == MPI_SUCCESS)
        error = um_request_run(task, &request, status);
    return point_error(task, inside, error, "MPI_Recv");
}

static int send_start(const void *buffer, int count, MPI_Datatype type, int to, int tag,
                      MPI_Comm comm, bool synchronous, MPI_Request *handle)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *inside = um_comm_of(task, comm);
    struct um_request *request;
    int error;

    if (!inside)
        return (synchronous ? um_mpi.Issend : um_mpi.Isend)(buffer, count, type, to, tag, comm,
                                                            handle);
    error = send_check(inside, buffer, count, type, to, tag);
    *handle = MPI_REQUEST_NULL;
    um_mpi_task_check(task);
    request = error ? NULL : um_request_make(task, inside, handle);
    if (request && to == MPI_PROC_NULL)
        um_request_nowhere(request, inside);
    else if (request)
        error = um_send_begin(task, request, inside, UM_POINT, buffer, count, type, to, tag,
                              synchronous);
    else if (error == MPI_SUCCESS)
        error = MPI_ERR_NO_MEM;
    return point_error(task, inside, error, "MPI_Isend");
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return send_start(buffer, count, type, to, tag, comm, false, request);
}

int MPI_Issend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return send_start(buffer, count, type, to, tag, comm, true, request);
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *handle)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *inside = um_comm_of(task, comm);
    struct um_request *request;
    int error;

    if (!inside)
        return um_mpi.Irecv(buffer, count, type, from, tag, comm, handle);
    *handle = MPI_REQUEST_NULL;
    um_mpi_task_check(task);
    error = receive_check(inside, buffer, count, type, from, tag);
    request = error ? NULL : um_request_make(task, inside, handle);
    if (request && from == MPI_PROC_NULL)
        um_request_nowhere(request, inside);
    else if (request)
        error = um_receive_begin(task, request, inside, UM_POINT, buffer, count, type, from, tag);
    else if (error == MPI_SUCCESS)
        error = MPI_ERR_NO_MEM;
    return point_error(task, inside, error, "MPI_Irecv");
}

int MPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag,
                 void *in, int in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm,
                 MPI_Status *status)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *inside = um_comm_of(task, comm);
    MPI_Request receives = MPI_REQUEST_NULL, sends = MPI_REQUEST_NULL;
    int error = inside ? send_check(inside, out, out_count, out_type, to, out_tag) : MPI_SUCCESS;
    int sent;

    if (error != MPI_SUCCESS) /* before the receive has a message */
        return point_error(task, inside, error, "MPI_Sendrecv");
    error = MPI_Irecv(in, in_count, in_type, from, in_tag, comm, &receives);
    if (error != MPI_SUCCESS)
        return error;
    sent = MPI_Isend(out, out_count, out_type, to, out_tag, comm, &sends);
    if (sent != MPI_SUCCESS)
        MPI_Cancel(&receives);
    error = MPI_Wait(&receives, status);
    if (sent == MPI_SUCCESS)
        sent = MPI_Wait(&sends, MPI_STATUS_IGNORE);
    return error ? error : sent;
}

/* What is sent is packed first, so that it has left the buffer. An error of the arguments is that
 * of the receive, which has the same; then nothing is packed. */
int MPI_Sendrecv_replace(void *buffer, int count, MPI_Datatype type, int to, int out_tag, int from,
                         int in_tag, MPI_Comm comm, MPI_Status *status)
{
    bool good = um_data_check(buffer, count, type) == MPI_SUCCESS;
    int bytes = 0, at = 0, error = MPI_SUCCESS;
    void *packed = NULL;

    if (!good)
        return MPI_Sendrecv(NULL, 0, MPI_BYTE, to, out_tag, buffer, count, type, from, in_tag, comm,
                            status);
    error = um_mpi.Pack_size(count, type, MPI_COMM_SELF, &bytes);
    if (error == MPI_SUCCESS)
        packed = malloc((size_t)bytes + 1);
    if (error == MPI_SUCCESS && !packed)
        error = MPI_ERR_NO_MEM;
    if (error == MPI_SUCCESS)
        error = um_mpi.Pack(buffer, count, type, packed, bytes, &at, MPI_COMM_SELF);
    if (error == MPI_SUCCESS)
        error = MPI_Sendrecv(packed, at, MPI_PACKED, to, out_tag, buffer, count, type, from, in_tag,
                             comm, status);
    free(packed);
    return error;
}

/* ---- probes ---- */

struct arrival {
    struct um_mpi_task *task;
    struct um_comm *comm;
    int from;
    uint32_t before;
};

/* The error of a probe's arguments; a probe of MPI_PROC_NULL has its answer. */
static int probe_check(struct um_mpi_task *task, struct um_comm *comm, int from, int tag,
                       const char *call, MPI_Status *status)
{
    um_mpi_task_check(task);
    if (from != MPI_PROC_NULL)
        return point_error(task, comm, peer_check(comm, from, tag, true), call);
    um_status_set(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    return MPI_SUCCESS;
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *inside = um_comm_of(task, comm);
    struct um_envelope wants, is;
    uint32_t unused;
    size_t bytes;
    int error;

    if (!inside) {
        error = um_mpi.Iprobe(from, tag, comm, flag, status);
        if (error == MPI_SUCCESS && !*flag)
            um_mpi_task_yield(task);
        return error;
    }
    error = probe_check(task, inside, from, tag, "MPI_Iprobe", status);
    *flag = error == MPI_SUCCESS && from == MPI_PROC_NULL;
    if (error != MPI_SUCCESS || *flag)
        return error;
    wants = (struct um_envelope){inside->id * UM_USES + UM_POINT, from, tag};
    *flag = um_box_probe(&task->box, &wants, false, &is, &bytes, &unused);
    if (*flag)
        um_status_set(status, is.source, is.tag, bytes);
    else
        um_mpi_task_yield(task); /* the caller asks again */
    return MPI_SUCCESS;
}

static int mpi_probe(struct um_mpi_task *task, int from, int tag, MPI_Comm comm, MPI_Status *status)
{
    struct um_patience patience = {0, 0};
    int flag = 0, error;

    for (;;) {
        error = um_mpi.Iprobe(from, tag, comm, &flag, status);
        if (error != MPI_SUCCESS || flag)
            return error;
        um_mpi_task_pause(task, &patience);
    }
}

/* What a prober waits for: an arrival, or that no source is left. */
static bool probe_over(void *arg)
{
    struct arrival *arrival = arg;

    return um_box_arrivals(&arrival->task->box) != arrival->before ||
           source_ended(arrival->comm, UM_POINT, arrival->from, arrival->task);
}

int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status *status)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *inside = um_comm_of(task, comm);
    struct arrival arrival = {.task = task, .comm = inside, .from = from};
    struct um_envelope wants, is;
    bool ended = false;
    size_t bytes;
    int error;

    if (!inside)
        return mpi_probe(task, from, tag, comm, status);
    error = probe_check(task, inside, from, tag, "MPI_Probe", status);
    if (error != MPI_SUCCESS || from == MPI_PROC_NULL)
        return error;
    wants = (struct um_envelope){inside->id * UM_USES + UM_POINT, from, tag};
    while (!um_box_probe(&task->box, &wants, true, &is, &bytes, &arrival.before)) {
        if (!ended)
            um_mpi_task_wait(task, probe_over, &arrival);
        um_box_probed(&task->box);
        um_mpi_task_check(task);
        if (ended)
            return point_error(task, inside, MPI_ERR_PROC_ABORTED, "MPI_Probe");
        ended = source_ended(inside, UM_POINT, from, task); /* then a last look */
    }
    um_status_set(status, is.source, is.tag, bytes);
    return MPI_SUCCESS;
}

/* ---- matched probes: the message is taken out of the box, and received later ---- */

static int taken_error(struct um_mpi_task *task, struct um_comm *comm, struct um_message *message)
{
    message->next = NULL;
    um_messages_drop(message);
    return um_error(task, comm, MPI_ERR_NO_MEM, "MPI_Mprobe", "no memory");
}

/* A handle for a message that was taken, or NULL: there was none. */
static int probe_taken(struct um_mpi_task *task, struct um_comm *comm, struct um_message *message,
                       MPI_Message *handle, MPI_Status *status)
{
    MPI_Request number;
    struct um_request *request = um_request_make(task, comm, &number);

    if (!request)
        return taken_error(task, comm, message);
    um_request_blank(request, comm);
    message->next = NULL; /* it is a list of one, if it must be dropped */
    request->taken = message;
    um_atomic_store(&request->receive.done, UM_DONE, relaxed);
    um_status_set(status, message->is.source, message->is.tag, message->bytes);
    *handle = (MPI_Message)number;
    return MPI_SUCCESS;
}

int MPI_Improbe(int from, int tag, MPI_Comm comm, int *flag, MPI_Message *handle,
                MPI_Status *status)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *inside = um_comm_of(task, comm);
    struct um_envelope wants;
    struct um_message *message;
    int error;

    if (!inside) {
        error = um_mpi.Improbe(from, tag, comm, flag, handle, status);
        if (error == MPI_SUCCESS && !*flag)
            um_mpi_task_yield(task);
        return error;
    }
    *flag = 1;
    *handle = MPI_MESSAGE_NO_PROC;
    error = probe_check(task, inside, from, tag, "MPI_Improbe", status);
    if (error != MPI_SUCCESS || from == MPI_PROC_NULL)
        return error;
    wants = (struct um_envelope){inside->id * UM_USES + UM_POINT, from, tag};
    message = um_box_take(&task->box, &wants);
    if (message)
        return probe_taken(task, inside, message, handle, status);
    *flag = 0;
    *handle = MPI_MESSAGE_NULL;
    um_mpi_task_yield(task); /* the caller asks again */
    return MPI_SUCCESS;
}

/* Another thread of the task may take the message that MPI_Probe() has seen. */
int MPI_Mprobe(int from, int tag, MPI_Comm comm, MPI_Message *handle, MPI_Status *status)
{
    int flag = 0, error;

    do {
        error = from == MPI_PROC_NULL ? MPI_SUCCESS : MPI_Probe(from, tag, comm, status);
        if (error == MPI_SUCCESS)
            error = MPI_Improbe(from, tag, comm, &flag, handle, status);
    } while (error == MPI_SUCCESS && !flag);
    return error;
}

/* The message's request becomes the receive's, which has ended. */
int MPI_Imrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *handle, MPI_Request *result)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_request *request = um_request_of(task, (MPI_Request)*handle);
    struct um_message *message;
    int error;

    if (!request) /* also MPI_MESSAGE_NO_PROC */
        return um_mpi.Imrecv(buffer, count, type, handle, result);
    error = um_data_check(buffer, count, type);
    if (error != MPI_SUCCESS)
        return point_error(task, request->comm, error, "MPI_Imrecv");
    *result = (MPI_Request)*handle;
    *handle = MPI_MESSAGE_NULL;
    message = request->taken;
    error = receive_prepare(request, request->comm, buffer, count, type);
    if (error == MPI_SUCCESS)
        take(&request->receive, message);
    else
        um_messages_drop(message);
    return point_error(task, request->comm, error, "MPI_Imrecv");
}

int MPI_Mrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *handle, MPI_Status *status)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int error = MPI_Imrecv(buffer, count, type, handle, &request);

    return error ? error : MPI_Wait(&request, status);
}
