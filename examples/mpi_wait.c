/* SPDX-License-Identifier: BSL-1.0 */
/* MPI in fibers: a receiver waits for a message while its core runs the sender. */
#include <stdio.h>

#include <mpi.h>
#include <umbra/core.h>

/* MPI_Wait that lets the core run other fibers. MPI errors end the program, as is the default. */
static void wait_for(MPI_Request *request)
{
    int done = 0;

    while (MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        umbra_yield();
}

static void *receive(void *message)
{
    MPI_Request request;

    MPI_Irecv(message, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
    wait_for(&request);
    return NULL;
}

static void *first(void *received)
{
    struct umbra_fiber receiver;
    MPI_Request request;
    int message = 42;

    if (umbra_spawn(receive, received, &receiver) != 0)
        return NULL;
    umbra_yield(); /* the receiver begins to wait */
    MPI_Isend(&message, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
    wait_for(&request);
    umbra_join(receiver, UMBRA_NEVER, NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    struct umbra_options options = {.cores = 1, .stack_bytes = 1 << 20};
    int provided, received = 0, error = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    if (provided >= MPI_THREAD_SERIALIZED)
        error = umbra_run(&options, first, &received);
    if (error)
        fprintf(stderr, "mpi_wait: %s\n", umbra_last_error_text());
    else if (provided < MPI_THREAD_SERIALIZED)
        fprintf(stderr, "mpi_wait: this MPI lets only its main thread call it\n");
    else
        printf("received %d\n", received);
    MPI_Finalize();
    return received == 42 ? 0 : 1;
}
