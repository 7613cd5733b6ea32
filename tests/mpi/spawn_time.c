/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a child costs an MPI program that knows nothing of Umbra: spawn_time [TIMES]. Spawns itself,
 * sends a number, receives one, disconnects; then sends 8 bytes to a child and back so often.
 * Prints one line of JSON: medians and 99th percentile in microseconds, and nanoseconds one way.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int child(MPI_Comm parent)
{
    long times, value;

    MPI_Recv(&times, 1, MPI_LONG, 0, 0, parent, MPI_STATUS_IGNORE);
    for (long i = 0; i < times; i++) {
        MPI_Recv(&value, 1, MPI_LONG, 0, 0, parent, MPI_STATUS_IGNORE);
        MPI_Send(&value, 1, MPI_LONG, 0, 0, parent);
    }
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

/* Seconds for a spawn, so many round trips, and a disconnect; *trips: of the round trips alone. */
static double once(char *self, long times, double *trips)
{
    double begin = MPI_Wtime(), end;
    MPI_Comm children;
    long value = 0;

    MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                   MPI_ERRCODES_IGNORE);
    MPI_Send(&times, 1, MPI_LONG, 0, 0, children);
    *trips = MPI_Wtime();
    for (long i = 0; i < times; i++) {
        MPI_Send(&value, 1, MPI_LONG, 0, 0, children);
        MPI_Recv(&value, 1, MPI_LONG, 0, 0, children, MPI_STATUS_IGNORE);
    }
    end = MPI_Wtime();
    *trips = end - *trips;
    MPI_Comm_disconnect(&children);
    return MPI_Wtime() - begin;
}

int main(int argc, char **argv)
{
    long times = argc > 1 ? atol(argv[1]) : 2000;
    double *us, trips;
    MPI_Comm parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent);
    us = malloc((size_t)times * sizeof(*us));
    if (!us)
        return 1;
    for (long i = 0; i < times; i++)
        us[i] = once(argv[0], 1, &trips) * 1e6;
    qsort(us, (size_t)times, sizeof(*us), by_size);
    once(argv[0], times * 10, &trips);
    MPI_Finalize();
    printf("{\"bench\":\"mpi_spawn\",\"times\":%ld,\"spawn_us\":%.3f,\"spawn_us_p99\":%.3f,"
           "\"one_way_ns\":%.1f}\n",
           times, us[times / 2], us[times * 99 / 100], trips * 1e9 / (double)(times * 20));
    free(us);
    return 0;
}
