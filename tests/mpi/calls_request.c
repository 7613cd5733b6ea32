/* SPDX-License-Identifier: BSL-1.0 */
/* Rows of `calls`: what can be done with requests. */
#include "calls.h"

/* ---- a set with one request of each kind, ended by each call ---- */

enum kind { NULL_ONE, NOWHERE, TO_NOWHERE, RECEIVE, SEND, TOO_LONG, CANCELLED, SPARSE, KINDS };

static const char *const kind_names[] = {"null", "nowhere",  "to nowhere", "receive",
                                         "send", "too long", "cancelled",  "sparse"};

struct set {
    MPI_Request request[KINDS];
    MPI_Status status[KINDS];
    int error[KINDS]; /* -1: the call has not named it */
    int numbers[9], small, got[9], sparse[9];
};

/* too_long: else that request is null, since an error leaves others as they may be. */
static void set_begin(struct set *set, bool too_long)
{
    MPI_Datatype sparse = sparse_type(3);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;

    memset(set, 0, sizeof(*set));
    fill(set->numbers, 9, rank + 1);
    for (int i = 0; i < KINDS; i++) {
        set->request[i] = MPI_REQUEST_NULL;
        set->error[i] = -1;
    }
    MPI_Irecv(set->got, 9, MPI_INT, MPI_PROC_NULL, 3, comm, &set->request[NOWHERE]);
    MPI_Isend(set->got, 9, MPI_INT, MPI_PROC_NULL, 3, comm, &set->request[TO_NOWHERE]);
    MPI_Irecv(set->got, 9, MPI_INT, from, RECEIVE, comm, &set->request[RECEIVE]);
    if (too_long)
        MPI_Irecv(&set->small, 1, MPI_INT, from, TOO_LONG, comm, &set->request[TOO_LONG]);
    MPI_Irecv(&set->sparse, 1, sparse, MPI_ANY_SOURCE, CANCELLED, comm, &set->request[CANCELLED]);
    MPI_Irecv(&set->sparse, 1, sparse, MPI_ANY_SOURCE, SPARSE, comm, &set->request[SPARSE]);
    MPI_Type_free(&sparse);
    MPI_Cancel(&set->request[CANCELLED]);
    MPI_Barrier(comm);
    MPI_Isend(set->numbers, 4, MPI_INT, to, RECEIVE, comm, &set->request[SEND]);
    if (too_long)
        MPI_Send(set->numbers, 2, MPI_INT, to, TOO_LONG, comm);
    MPI_Send(set->numbers, 3, MPI_INT, to, SPARSE, comm);
}

/* A status of a send tells nothing but that it was not cancelled. */
static void set_say(struct set *set)
{
    for (int i = 0; i < KINDS; i++) {
        int cancelled = -1;

        if (set->error[i] == -1) {
            say(" (%s", kind_names[i]);
        } else {
            say_error(kind_names[i], set->error[i]);
            if (i == SEND || i == TO_NOWHERE) {
                MPI_Test_cancelled(&set->status[i], &cancelled);
                say(" %d", cancelled);
            } else if (i != TOO_LONG) {
                say_status("is", &set->status[i]);
            }
        }
        say("%s", set->request[i] == MPI_REQUEST_NULL ? "" : " not null");
    }
    say_numbers("got", set->got, 5);
    say_numbers("sparse", set->sparse, 9);
}

/* The errors of a call for several. */
static void set_errors(struct set *set, int error, int count, const int *which,
                       const MPI_Status *status)
{
    for (int i = 0; i < count; i++) {
        int at = which ? which[i] : i, class;

        MPI_Error_class(error, &class);
        set->status[at] = status[i];
        set->error[at] = class == MPI_ERR_IN_STATUS ? status[i].MPI_ERROR : error;
    }
}

static void row_wait(void)
{
    struct set set;

    set_begin(&set, true);
    for (int i = 0; i < KINDS; i++)
        set.error[i] = MPI_Wait(&set.request[i], &set.status[i]);
    set_say(&set);
}

static void row_test(void)
{
    struct set set;

    set_begin(&set, true);
    for (int i = 0; i < KINDS; i++)
        for (int flag = 0; !flag && (set.error[i] == -1 || set.error[i] == MPI_SUCCESS);)
            set.error[i] = MPI_Test(&set.request[i], &flag, &set.status[i]);
    set_say(&set);
}

/* The error of a single one is in its status. */
static void say_in_status(int error, const MPI_Status *status)
{
    int class;

    MPI_Error_class(error, &class);
    say(" in status %d", class == MPI_ERR_IN_STATUS);
    say_error("which is", status->MPI_ERROR);
}

static void row_waitall(void)
{
    MPI_Status status[KINDS];
    struct set set;
    int error;

    set_begin(&set, false);
    error = MPI_Waitall(KINDS, set.request, status);
    set_errors(&set, error, KINDS, NULL, status);
    set_say(&set);
    say_error("null", MPI_Waitall(KINDS, set.request, status));
    say_status("is", &status[SEND]);
    say_error("none", MPI_Waitall(0, NULL, status));
    MPI_Irecv(&set.small, 1, MPI_INT, rank, 1, comm, &set.request[0]);
    MPI_Send(set.numbers, 2, MPI_INT, rank, 1, comm);
    error = MPI_Waitall(1, set.request, status);
    say_in_status(error, status);
}

static int testall(struct set *set, int count, MPI_Status *status)
{
    int error, flag = 0;

    do
        error = MPI_Testall(count, set->request, &flag, status);
    while (error == MPI_SUCCESS && !flag);
    return error;
}

static void row_testall(void)
{
    MPI_Status status[KINDS];
    struct set set;
    int error;

    set_begin(&set, false);
    error = testall(&set, KINDS, status);
    set_errors(&set, error, KINDS, NULL, status);
    set_say(&set);
    say_error("null", testall(&set, KINDS, status));
    say_status("is", &status[SEND]);
    MPI_Irecv(&set.small, 1, MPI_INT, rank, 1, comm, &set.request[0]);
    MPI_Send(set.numbers, 2, MPI_INT, rank, 1, comm);
    error = testall(&set, 1, status);
    say_in_status(error, status);
}

static void row_waitany(void)
{
    MPI_Status status;
    struct set set;

    set_begin(&set, true);
    for (int which = 0; which != MPI_UNDEFINED;) {
        int error = MPI_Waitany(KINDS, set.request, &which, &status);

        if (which == MPI_UNDEFINED)
            say_status("none", &status);
        else
            set_errors(&set, error, 1, &which, &status);
    }
    set_say(&set);
}

static void row_testany(void)
{
    MPI_Status status;
    struct set set;

    set_begin(&set, true);
    for (int which = 0, flag = 0; which != MPI_UNDEFINED || !flag;) {
        int error = MPI_Testany(KINDS, set.request, &which, &flag, &status);

        if (error == MPI_SUCCESS && which == MPI_UNDEFINED && flag)
            say_status("none", &status);
        else if (which != MPI_UNDEFINED)
            set_errors(&set, error, 1, &which, &status);
    }
    set_say(&set);
}

typedef int some_call(int, MPI_Request *, int *, int *, MPI_Status *);

static void some(some_call *call)
{
    MPI_Status status[KINDS];
    int which[KINDS];
    struct set set;

    set_begin(&set, true);
    for (int count = 0; count != MPI_UNDEFINED;) {
        int error = call(KINDS, set.request, &count, which, status);

        if (count != MPI_UNDEFINED)
            set_errors(&set, error, count, which, status);
    }
    set_say(&set);
}

static void row_waitsome(void)
{
    some(MPI_Waitsome);
}

static void row_testsome(void)
{
    some(MPI_Testsome);
}

/* Asked until it has ended; the request stays. */
static void row_request_get_status(void)
{
    struct set set;

    set_begin(&set, true);
    for (int i = 0; i < KINDS; i++) {
        int flag = 0, error = MPI_SUCCESS;

        while (error == MPI_SUCCESS && !flag)
            error = MPI_Request_get_status(set.request[i], &flag, &set.status[i]);
        set.error[i] = i == TOO_LONG ? MPI_SUCCESS : error; /* MPI does not say */
    }
    say(" got %d", set.got[0]);
    set_say(&set);
    for (int i = 0; i < KINDS; i++)
        set.error[i] = MPI_Wait(&set.request[i], &set.status[i]);
    set_say(&set);
}

/* What was begun goes on. */
static void row_request_free(void)
{
    int number = rank, got = -1, to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Request request;

    MPI_Irecv(&got, 1, MPI_INT, from, 1, comm, &request);
    say_error("receive", MPI_Request_free(&request));
    say(" null %d", request == MPI_REQUEST_NULL);
    MPI_Barrier(comm);
    MPI_Isend(&number, 1, MPI_INT, to, 1, comm, &request);
    say_error("send", MPI_Request_free(&request));
    MPI_Isend(&number, 1, MPI_INT, to, 2, comm, &request); /* comes later: the first has come */
    MPI_Recv(&number, 1, MPI_INT, from, 2, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say(" got %d %d", got, number);
    for (int i = 0; i < 1000; i++) {
        MPI_Isend(&number, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &request);
        MPI_Request_free(&request);
    }
}

/* ---- cancel ---- */

static void say_cancelled(const char *what, MPI_Request *request)
{
    MPI_Status status;
    int cancelled = -1;

    say_error(what, MPI_Cancel(request));
    MPI_Wait(request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    say(" %d", cancelled);
}

static void row_cancel(void)
{
    int number = rank, got[4] = {-1, -1, -1, -1}, flag = 0;
    MPI_Datatype sparse = sparse_type(2);
    MPI_Request request;
    MPI_Status status;

    MPI_Irecv(&got[0], 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &request);
    say_cancelled("receive", &request);
    MPI_Irecv(&got[0], 1, sparse, (rank + 1) % size, 1, comm, &request);
    say_cancelled("sparse", &request);
    MPI_Type_free(&sparse);
    MPI_Send(&number, 1, MPI_INT, rank, 2, comm);
    MPI_Irecv(&got[1], 1, MPI_INT, rank, 2, comm, &request);
    while (!flag)
        MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    say_cancelled("too late", &request);
    MPI_Irecv(&got[2], 1, MPI_INT, MPI_PROC_NULL, 2, comm, &request);
    say_cancelled("nowhere", &request);
    MPI_Isend(&number, 1, MPI_INT, rank, 1, comm, &request); /* no receive is left that takes it */
    MPI_Recv(&got[3], 1, MPI_INT, rank, 1, comm, &status);
    say_cancelled("sent", &request);
    say_numbers("got", got, 4);
    say_status("is", &status);
}

const struct row request_rows[] = {{"MPI_Wait", row_wait},
                                   {"MPI_Test", row_test},
                                   {"MPI_Waitall", row_waitall},
                                   {"MPI_Testall", row_testall},
                                   {"MPI_Waitany", row_waitany},
                                   {"MPI_Testany", row_testany},
                                   {"MPI_Waitsome", row_waitsome},
                                   {"MPI_Testsome", row_testsome},
                                   {"MPI_Request_get_status", row_request_get_status},
                                   {"MPI_Request_free", row_request_free},
                                   {"MPI_Cancel", row_cancel},
                                   {NULL, NULL}};
