/* SPDX-License-Identifier: BSL-1.0 */
/* Rows of `calls`: spawns, and what the two sides do with each other. */
#include "calls.h"

/* ---- the children of children ---- */

int run_grandchild(int argc, char **argv)
{
    int number[2], *appnum, flag, is, count;
    MPI_Comm parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &flag);
    MPI_Comm_rank(parent, &is);
    MPI_Comm_size(parent, &count);
    MPI_Recv(number, 1, MPI_INT, 0, 1, parent, MPI_STATUS_IGNORE);
    number[0] += 1000 * *appnum + 100 * count + 10 * is;
    number[1] = argc > 2 ? argv[2][0] : 0;
    MPI_Send(number, 2, MPI_INT, 0, 2, parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

/* The first parent talks with each child; all say what they got. */
static void talk(int error, MPI_Comm children, const int *codes)
{
    int is = -1, count = -1, got[2];

    say_error("is", error);
    MPI_Comm_rank(children, &is);
    MPI_Comm_remote_size(children, &count);
    say(" %d with %d", is, count);
    for (int i = 0; i < count; i++) {
        say_error("code", codes[i]);
        if (is != 0)
            continue;
        MPI_Send(&i, 1, MPI_INT, i, 1, children);
        MPI_Recv(got, 2, MPI_INT, i, 2, children, MPI_STATUS_IGNORE);
        say(" got %d '%c'", got[0], got[1]);
    }
    say_error("end", MPI_Comm_disconnect(&children));
    say(" null %d", children == MPI_COMM_NULL);
}

static void row_comm_spawn(void)
{
    char *argv[] = {(char *)"grandchild", (char *)"a", NULL};
    int codes[2] = {-1, -1}, error;
    MPI_Comm children;

    error = MPI_Comm_spawn(rank == 1 ? program : NULL, rank == 1 ? argv : NULL, rank == 1 ? 2 : -9,
                           MPI_INFO_NULL, 1, comm, &children, codes);
    talk(error, children, codes);
    if (rank != 0)
        return;
    error = MPI_Comm_spawn(program, argv, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, codes);
    talk(error, children, codes);
}

static void row_comm_spawn_multiple(void)
{
    char *first[] = {(char *)"grandchild", (char *)"b", NULL};
    char *second[] = {(char *)"grandchild", (char *)"c", NULL}, **argv[] = {first, second};
    char *commands[] = {program, program};
    int counts[] = {1, 2}, codes[3] = {-1, -1, -1}, error;
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm children;

    error = MPI_Comm_spawn_multiple(2, commands, argv, counts, infos, 0, comm, &children, codes);
    talk(error, children, codes);
}

/* ---- a child and its parent: both run this ---- */

static void messages_between(MPI_Comm other, bool is_parent)
{
    int number = 5 + rank, got = -1;
    MPI_Status status;

    if (!is_parent) {
        MPI_Send(&number, 1, MPI_INT, 0, rank, other);
        MPI_Recv(&got, 1, MPI_INT, 0, 9, other, &status);
        say(" got %d", got);
        say_status("is", &status);
        return;
    }
    for (int i = 0; i < 3; i++) {
        MPI_Recv(&got, 1, MPI_INT, i, MPI_ANY_TAG, other, &status);
        say_status("is", &status);
        got *= 2;
        MPI_Send(&got, 1, MPI_INT, i, 9, other);
    }
}

static void collective_between(MPI_Comm other, bool is_parent)
{
    int number = is_parent ? 77 : rank == 1 ? 88 : -1;
    MPI_Request request;

    say_error("barrier", MPI_Barrier(other));
    MPI_Ibarrier(other, &request);
    say_error("barrier", MPI_Wait(&request, MPI_STATUS_IGNORE));
    say_error("down", MPI_Bcast(&number, 1, MPI_INT, is_parent ? MPI_ROOT : 0, other));
    say(" %d", number);
    number = is_parent ? -1 : 88;
    MPI_Ibcast(&number, 1, MPI_INT,
               is_parent   ? 1
               : rank == 1 ? MPI_ROOT
                           : MPI_PROC_NULL,
               other, &request);
    say_error("up", MPI_Wait(&request, MPI_STATUS_IGNORE));
    say(" %d", number);
    number = -1;
    if (!is_parent && rank == 1)
        number = 99;
    say_error("up", MPI_Bcast(&number, 1, MPI_INT,
                              is_parent   ? 1
                              : rank == 1 ? MPI_ROOT
                                          : MPI_PROC_NULL,
                              other));
    say(" %d", number);
}

void between(MPI_Comm other, bool is_parent)
{
    MPI_Comm twin, merged;
    int is = -1, sum = 0, one = 1;

    messages_between(other, is_parent);
    collective_between(other, is_parent);
    say_error("dup", MPI_Comm_dup(other, &twin));
    messages_between(twin, is_parent);
    for (int high = 0; high < 2; high++) {
        say_error("merge", MPI_Intercomm_merge(twin, is_parent ? high : !high, &merged));
        MPI_Comm_rank(merged, &is);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged);
        say(" %d of %d", is, sum);
        MPI_Comm_free(&merged);
    }
    say_error("end", MPI_Comm_disconnect(&twin));
    say_error("end", MPI_Comm_disconnect(&other));
}

static void row_intercomm_merge(void)
{
    MPI_Comm parent;

    MPI_Comm_get_parent(&parent);
    between(parent, false);
    MPI_Comm_get_parent(&parent);
    say(" parent %d", parent != MPI_COMM_NULL);
}

const struct row spawn_rows[] = {{"MPI_Comm_spawn", row_comm_spawn},
                                 {"MPI_Comm_spawn_multiple", row_comm_spawn_multiple},
                                 {"MPI_Intercomm_merge", row_intercomm_merge},
                                 {NULL, NULL}};
