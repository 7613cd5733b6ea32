/* SPDX-License-Identifier: BSL-1.0 */
/* Rows of `calls`: sends, receives and probes. */
#include "calls.h"

static int large[LARGE];

/* ---- sends ---- */

typedef int send_call(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int isend_call(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void refused_sends(send_call *send)
{
    int number = 1;

    say_error("nowhere", send(&number, 1, MPI_INT, MPI_PROC_NULL, 1, comm));
    say_error("count", send(&number, -1, MPI_INT, 0, 1, comm));
    say_error("type", send(&number, 1, MPI_DATATYPE_NULL, 0, 1, comm));
    say_error("rank", send(&number, 1, MPI_INT, size, 1, comm));
    say_error("rank", send(&number, 1, MPI_INT, -7, 1, comm));
    say_error("tag", send(&number, 1, MPI_INT, 0, -7, comm));
    say_error("buffer", send(NULL, 1, MPI_INT, 0, 1, comm));
}

/* Nothing, one number, and many; the receives are there before. */
static void sends(send_call *send)
{
    static const int counts[] = {0, 1, LARGE};
    MPI_Request request;
    MPI_Status status;

    for (int i = 0; i < 3; i++) {
        memset(large, 0, sizeof(large));
        if (rank != 0)
            MPI_Irecv(large, LARGE, MPI_INT, 0, i, comm, &request);
        MPI_Barrier(comm);
        if (rank == 0) {
            fill(large, counts[i], i + 1);
            for (int to = 1; to < size; to++)
                say_error("sent", send(large, counts[i], MPI_INT, to, i, comm));
        } else {
            MPI_Wait(&request, &status);
            say_status("got", &status);
            say(" sum %ld", sum_of(large, LARGE));
        }
    }
    refused_sends(send);
}

static void row_send(void)
{
    sends(MPI_Send);
}

static void row_ssend(void)
{
    sends(MPI_Ssend);
}

static void row_rsend(void)
{
    sends(MPI_Rsend);
}

static isend_call *started;

static int start_and_wait(const void *buffer, int count, MPI_Datatype type, int to, int tag,
                          MPI_Comm of)
{
    MPI_Request request;
    int error = started(buffer, count, type, to, tag, of, &request);

    return error == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : error;
}

/* Sent before it is received, in two types. */
static void starts(isend_call *start)
{
    MPI_Datatype sparse = sparse_type(3);
    MPI_Request request;
    int numbers[9], got[9] = {0}, done = -1;
    MPI_Status status;

    started = start;
    sends(start_and_wait);
    fill(numbers, 9, 10);
    say_error("started", start(numbers, 1, sparse, (rank + 1) % size, 5, comm, &request));
    MPI_Type_free(&sparse);
    if (start == MPI_Issend) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        say(" done %d", done);
    }
    MPI_Barrier(comm);
    MPI_Recv(got, 9, MPI_INT, (rank + size - 1) % size, 5, comm, &status);
    say_status("got", &status);
    say_numbers("numbers", got, 4);
    say_error("ended", MPI_Wait(&request, MPI_STATUS_IGNORE));
    say(" null %d", request == MPI_REQUEST_NULL);
}

static void row_isend(void)
{
    starts(MPI_Isend);
}

static void row_issend(void)
{
    starts(MPI_Issend);
}

/* ---- receives ---- */

typedef int recv_call(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);

static int start_recv_and_wait(void *buffer, int count, MPI_Datatype type, int from, int tag,
                               MPI_Comm of, MPI_Status *status)
{
    MPI_Request request;
    int error = MPI_Irecv(buffer, count, type, from, tag, of, &request);

    return error == MPI_SUCCESS ? MPI_Wait(&request, status) : error;
}

static void refused_receives(recv_call *recv)
{
    int number = 7;
    MPI_Status status;

    say_error("nowhere", recv(&number, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &status));
    say_status("is", &status);
    say_error("count", recv(&number, -1, MPI_INT, 0, 1, comm, &status));
    say_error("type", recv(&number, 1, MPI_DATATYPE_NULL, 0, 1, comm, &status));
    say_error("rank", recv(&number, 1, MPI_INT, size, 1, comm, &status));
    say_error("tag", recv(&number, 1, MPI_INT, 0, -7, comm, &status));
    say_error("buffer", recv(NULL, 1, MPI_INT, 0, 1, comm, &status));
    say(" number %d", number);
}

/* Of each kind one message is sent to the next task. */
static void receives(recv_call *recv)
{
    int numbers[12], got[12] = {0}, to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Datatype sparse = sparse_type(2); /* ints 0 and 3 of a buffer */
    MPI_Status status;

    fill(numbers, 12, rank + 1);
    for (int tag = 0; tag < 4; tag++)
        MPI_Send(numbers, tag == 2 ? 3 : 2, MPI_INT, to, tag, comm);
    MPI_Send(large, LARGE, MPI_INT, MPI_PROC_NULL, 0, comm);
    recv(got, 12, MPI_INT, from, 1, comm, &status);
    say_status("by tag", &status);
    recv(got, 12, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
    say_status("any", &status);
    memset(got, 0, sizeof(got));
    recv(got, 2, sparse, from, 2, comm, &status); /* three ints, for two elements of two */
    say_status("part of an element", &status);
    say_numbers("numbers", got, 12);
    say_error("too long", recv(got, 1, MPI_INT, from, 3, comm, &status));
    MPI_Type_free(&sparse);
    refused_receives(recv);
}

static void row_recv(void)
{
    receives(MPI_Recv);
}

static void row_irecv(void)
{
    receives(start_recv_and_wait);
}

static void row_sendrecv(void)
{
    int number = rank, got = -1, to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Status status;

    say_error("ring",
              MPI_Sendrecv(&number, 1, MPI_INT, to, 1, &got, 1, MPI_INT, from, 1, comm, &status));
    say_status("got", &status);
    say(" number %d", got);
    MPI_Sendrecv(&number, 1, MPI_INT, MPI_PROC_NULL, 1, &got, 1, MPI_INT, MPI_PROC_NULL, 1, comm,
                 &status);
    say_status("nowhere", &status);
    got = -1; /* a call that is refused has received nothing, then or later */
    say_error("rank", MPI_Sendrecv(&number, 1, MPI_INT, size, 2, &got, 1, MPI_INT, from, 2, comm,
                                   MPI_STATUS_IGNORE));
    say_error("rank", MPI_Sendrecv(&number, 1, MPI_INT, to, 2, &got, 1, MPI_INT, size, 2, comm,
                                   MPI_STATUS_IGNORE));
    MPI_Send(&number, 1, MPI_INT, to, 2, comm);
    MPI_Barrier(comm);
    say(" number %d", got);
    MPI_Recv(&got, 1, MPI_INT, from, 2, comm, &status);
    say(" number %d", got);
    say_error("too long", MPI_Sendrecv(large, 2, MPI_INT, to, 3, &got, 1, MPI_INT, from, 3, comm,
                                       MPI_STATUS_IGNORE));
}

static void row_sendrecv_replace(void)
{
    int numbers[6], to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Datatype sparse = sparse_type(2);
    MPI_Status status;

    fill(numbers, 6, rank + 1);
    MPI_Sendrecv_replace(numbers, 1, sparse, to, 1, from, 1, comm, &status);
    say_status("got", &status);
    say_numbers("numbers", numbers, 6);
    MPI_Type_free(&sparse);
    say_error("nowhere", MPI_Sendrecv_replace(numbers, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_PROC_NULL,
                                              1, comm, &status));
    say_status("is", &status);
    say_error("count", MPI_Sendrecv_replace(numbers, -1, MPI_INT, to, 1, from, 1, comm, &status));
    say_error("type",
              MPI_Sendrecv_replace(numbers, 1, MPI_DATATYPE_NULL, to, 1, from, 1, comm, &status));
    say_error("rank", MPI_Sendrecv_replace(numbers, 1, MPI_INT, size, 1, from, 1, comm, &status));
    say_error("tag", MPI_Sendrecv_replace(numbers, 1, MPI_INT, to, -7, from, 1, comm, &status));
}

/* ---- probes: all four forms find a message, which is then received ---- */

typedef int probe_call(int from, int tag, MPI_Message *message, MPI_Status *status);

static int by_probe(int from, int tag, MPI_Message *message, MPI_Status *status)
{
    (void)message;
    return MPI_Probe(from, tag, comm, status);
}

static int by_iprobe(int from, int tag, MPI_Message *message, MPI_Status *status)
{
    int flag = 0, error = MPI_SUCCESS;

    (void)message;
    while (error == MPI_SUCCESS && !flag)
        error = MPI_Iprobe(from, tag, comm, &flag, status);
    return error;
}

static int by_mprobe(int from, int tag, MPI_Message *message, MPI_Status *status)
{
    return MPI_Mprobe(from, tag, comm, message, status);
}

static int by_improbe(int from, int tag, MPI_Message *message, MPI_Status *status)
{
    int flag = 0, error = MPI_SUCCESS;

    while (error == MPI_SUCCESS && !flag)
        error = MPI_Improbe(from, tag, comm, &flag, message, status);
    return error;
}

static int receive_found(bool matched, int from, int tag, MPI_Message *message, MPI_Status *status)
{
    if (matched)
        return MPI_Mrecv(large, LARGE, MPI_INT, message, status);
    return MPI_Recv(large, LARGE, MPI_INT, from, tag, comm, status);
}

static void probes(probe_call *probe, bool matched)
{
    static const int counts[] = {0, 2, LARGE};
    int from = (rank + size - 1) % size;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Request request[3];
    MPI_Status status;

    fill(large, LARGE, 1);
    for (int tag = 0; tag < 3; tag++)
        MPI_Isend(large, counts[tag], MPI_INT, (rank + 1) % size, tag, comm, &request[tag]);
    for (int tag = 2; tag >= 0; tag--) { /* the last is found although others came before */
        say_error("found", probe(tag == 1 ? MPI_ANY_SOURCE : from, tag, &message, &status));
        say_status("is", &status);
        receive_found(matched, from, tag, &message, &status);
        say_status("got", &status);
    }
    for (int tag = 0; tag < 3; tag++)
        MPI_Wait(&request[tag], MPI_STATUS_IGNORE);
    say_error("nowhere", probe(MPI_PROC_NULL, 0, &message, &status));
    say_status("is", &status);
    receive_found(matched, MPI_PROC_NULL, 0, &message, &status);
    say_status("got", &status);
    say_error("rank", probe(size, 0, &message, &status));
    say_error("tag", probe(0, -7, &message, &status));
}

static void row_probe(void)
{
    probes(by_probe, false);
}

static void row_iprobe(void)
{
    int flag = -1;

    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
    MPI_Barrier(comm);
    say(" none %d", flag);
    probes(by_iprobe, false);
}

static void row_mprobe(void)
{
    probes(by_mprobe, true);
}

static void row_improbe(void)
{
    int flag = -1;
    MPI_Message message = MPI_MESSAGE_NO_PROC;

    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &message, MPI_STATUS_IGNORE);
    MPI_Barrier(comm);
    say(" none %d %d", flag, message == MPI_MESSAGE_NULL);
    probes(by_improbe, true);
}

/* ---- receives of a message that a probe has taken ---- */

typedef int matched_call(void *, int, MPI_Datatype, MPI_Message *, MPI_Status *);

static int start_matched_and_wait(void *buffer, int count, MPI_Datatype type, MPI_Message *message,
                                  MPI_Status *status)
{
    MPI_Request request;
    int error = MPI_Imrecv(buffer, count, type, message, &request);

    return error == MPI_SUCCESS ? MPI_Wait(&request, status) : error;
}

static void matched_receives(matched_call *recv)
{
    int numbers[9], got[9] = {0};
    MPI_Datatype sparse = sparse_type(2);
    MPI_Message message;
    MPI_Status status;

    fill(numbers, 9, 1);
    for (int tag = 0; tag < 3; tag++)
        MPI_Send(numbers, 3, MPI_INT, (rank + 1) % size, tag, comm);
    MPI_Mprobe(MPI_ANY_SOURCE, 2, comm, &message, MPI_STATUS_IGNORE);
    say_error("count", recv(got, -1, MPI_INT, &message, &status)); /* the message stays */
    say_error("later", recv(got, 9, MPI_INT, &message, &status));
    say_status("is", &status);
    say(" null %d", message == MPI_MESSAGE_NULL);
    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, MPI_STATUS_IGNORE);
    memset(got, 0, sizeof(got));
    say_error("sparse", recv(got, 2, sparse, &message, &status));
    say_status("is", &status);
    say_numbers("numbers", got, 9);
    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, MPI_STATUS_IGNORE);
    say_error("too long", recv(got, 1, MPI_INT, &message, &status));
    message = MPI_MESSAGE_NO_PROC;
    say_error("nowhere", recv(got, 1, MPI_INT, &message, &status));
    say_status("is", &status);
    MPI_Type_free(&sparse);
}

static void row_mrecv(void)
{
    matched_receives(MPI_Mrecv);
}

static void row_imrecv(void)
{
    matched_receives(start_matched_and_wait);
}

const struct row message_rows[] = {{"MPI_Send", row_send},
                                   {"MPI_Ssend", row_ssend},
                                   {"MPI_Rsend", row_rsend},
                                   {"MPI_Isend", row_isend},
                                   {"MPI_Issend", row_issend},
                                   {"MPI_Recv", row_recv},
                                   {"MPI_Irecv", row_irecv},
                                   {"MPI_Sendrecv", row_sendrecv},
                                   {"MPI_Sendrecv_replace", row_sendrecv_replace},
                                   {"MPI_Probe", row_probe},
                                   {"MPI_Iprobe", row_iprobe},
                                   {"MPI_Mprobe", row_mprobe},
                                   {"MPI_Improbe", row_improbe},
                                   {"MPI_Mrecv", row_mrecv},
                                   {"MPI_Imrecv", row_imrecv},
                                   {NULL, NULL}};
