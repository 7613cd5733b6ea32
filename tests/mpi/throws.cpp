/* SPDX-License-Identifier: BSL-1.0 */
/*
 * An MPI program in C++ that spawns itself, compiled without any knowledge of Umbra: throws TEST.
 * Run under libumbra_mpi.so by test_library.sh; prints "ok". Child 1 ends by an exception that leaves
 * its main; child 0 catches one, after a wait in between.
 */
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <stdexcept>

static void must(bool condition, const char *what)
{
    if (condition)
        return;
    std::fprintf(stderr, "throws: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static int child(MPI_Comm parent)
{
    int rank, value = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    try {
        throw std::runtime_error("the child's own");
    } catch (const std::exception &) {
        if (rank == 1)
            throw;
        MPI_Recv(&value, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
    }
    MPI_Send(&value, 1, MPI_INT, 0, 0, parent);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    int value = 7;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent);
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                   MPI_ERRCODES_IGNORE);
    MPI_Comm_set_errhandler(children, MPI_ERRORS_RETURN);
    must(MPI_Recv(&value, 1, MPI_INT, 1, 0, children, MPI_STATUS_IGNORE) == MPI_ERR_PROC_ABORTED,
         "a receive from the child that threw");
    value = 8;
    MPI_Send(&value, 1, MPI_INT, 0, 0, children);
    value = 0;
    MPI_Recv(&value, 1, MPI_INT, 0, 0, children, MPI_STATUS_IGNORE);
    must(value == 8, "the child that caught");
    MPI_Comm_disconnect(&children);
    MPI_Finalize();
    std::puts("ok");
    return 0;
}
