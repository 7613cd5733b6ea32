/* SPDX-License-Identifier: BSL-1.0 */
/*
 * An MPI program that spawns itself, compiled without any knowledge of Umbra: spawns TEST [NUMBER].
 * It prints "ok" and ends with status 0 if what it was asked for was so. Run under libumbra_mpi.so
 * by test_library.sh.
 */
#include <assert.h>
#include <err.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static int calls; /* private to each task */
#ifdef LOCAL      /* also in the program that holds the children */
static _Thread_local int local[50] = {1, 2, 3};
#else
static int local[50] = {1, 2, 3};
#endif
static char *self;

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "spawns: line %d: %s\n", __LINE__, #condition);                        \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                          \
        }                                                                                          \
    } while (0)

static MPI_Comm spawned(const char *role, int count)
{
    char *argv[] = {(char *)"child", (char *)(size_t)role, NULL};
    MPI_Comm children;

    MUST(MPI_Comm_spawn(self, argv, count, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                        MPI_ERRCODES_IGNORE) == MPI_SUCCESS);
    return children;
}

/* ---- roles of children ---- */

static void child_echo(MPI_Comm parent)
{
    int value;

    MUST(calls++ == 0 && local[0]++ == 1 && local[2] == 3);
    MPI_Recv(&value, 1, MPI_INT, 0, 1, parent, MPI_STATUS_IGNORE);
    value++;
    MUST(local[0] == 2 && local[2] == 3);
    MPI_Send(&value, 1, MPI_INT, 0, 2, parent);
    MPI_Comm_disconnect(&parent);
}

/* Sends `large` numbers back, doubled. */
static void child_large(MPI_Comm parent)
{
    static int numbers[200000];
    MPI_Status status;
    int count;

    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, parent, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    MUST(status.MPI_SOURCE == 0 && count > 0 && count <= 200000);
    MPI_Recv(numbers, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, parent, &status);
    for (int i = 0; i < count; i++)
        numbers[i] *= 2;
    MPI_Ssend(numbers, count, MPI_INT, 0, status.MPI_TAG, parent);
}

#define STREAM 300
#define SENDERS 4

/* Sends numbers in order, with tags 0 to 2, small and large. */
static void child_stream(MPI_Comm parent)
{
    static int numbers[8000];
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < STREAM; i++) {
        int count = i % 37 == 5 ? 8000 : 1;

        numbers[0] = i;
        if (i % 3 == 0) {
            MPI_Request request;

            MPI_Isend(numbers, count, MPI_INT, 0, i % 3, parent, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Send(numbers, count, MPI_INT, 0, i % 3, parent);
        }
    }
}

/* Of at least three. */
static void child_collective(void)
{
    int rank, size, sum, all[16], out[16], in[16];

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MUST(sum == size * (size - 1) / 2);
    sum = rank == 2 ? 77 : 0;
    MPI_Bcast(&sum, 1, MPI_INT, 2, MPI_COMM_WORLD);
    MUST(sum == 77);
    MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_MAX, 1, MPI_COMM_WORLD);
    MUST(rank != 1 || sum == size - 1);
    MPI_Gather(&rank, 1, MPI_INT, all, 1, MPI_INT, 1, MPI_COMM_WORLD);
    for (int i = 0; rank == 1 && i < size; i++)
        MUST(all[i] == i);
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        MUST(all[i] == i);
    MPI_Scatter(all, 1, MPI_INT, &sum, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MUST(sum == rank);
    for (int i = 0; i < size; i++)
        out[i] = 100 * rank + i;
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        MUST(in[i] == 100 * i + rank);
}

/* Each sends its numbers to the next, and has those of the one before. */
static void child_ring(void)
{
    int rank, size, before, numbers[2];

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    before = (rank + size - 1) % size;
    numbers[0] = rank;
    numbers[1] = 10 * rank;
    MPI_Sendrecv_replace(numbers, 1, MPI_2INT, (rank + 1) % size, 5, before, 5, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    MUST(numbers[0] == before && numbers[1] == 10 * before);
}

/* Rank r has r + 1 numbers, 10 r and following, for each. */
static void child_unequal(void)
{
    int rank, size, counts[16], at[16], same[16], own[16], all[256], total = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < size; i++) {
        counts[i] = i + 1;
        at[i] = total + i; /* one is left out before each block */
        total += counts[i];
        same[i] = 0;
    }
    for (int i = 0; i <= rank; i++)
        own[i] = 10 * rank + i;
    memset(all, -1, sizeof(all));
    MPI_Gatherv(own, rank + 1, MPI_INT, all, counts, at, MPI_INT, 1, MPI_COMM_WORLD);
    for (int i = 0; rank == 1 && i < size; i++)
        MUST(all[at[i]] == 10 * i && all[at[i] + i] == 11 * i && (i == 0 || all[at[i] - 1] == -1));
    MPI_Allgatherv(own, rank + 1, MPI_INT, all, counts, at, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        MUST(all[at[i]] == 10 * i && all[at[i] + i] == 11 * i);
    memset(own, 0, sizeof(own));
    MPI_Scatterv(all, counts, at, MPI_INT, own, rank + 1, MPI_INT, 2, MPI_COMM_WORLD);
    MUST(own[0] == 10 * rank && own[rank] == 11 * rank);
    for (int i = 0; i < size; i++)
        counts[i] = rank + 1;
    memset(all, -1, sizeof(all));
    for (int i = 0; i < size; i++)
        at[i] = i * (i + 1) / 2;
    for (int i = 0; i < size; i++)
        same[i] = i + 1;
    MPI_Alltoallv(own, counts, (int[16]){0}, MPI_INT, all, same, at, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        MUST(all[at[i]] == 10 * i && all[at[i] + i] == 11 * i);
}

static void child_partial_sums(void)
{
    int rank, size, sum = -1, counts[16], all[16];

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Scan(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MUST(sum == rank * (rank + 1) / 2);
    MPI_Exscan(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MUST(rank == 0 || sum == rank * (rank - 1) / 2);
    for (int i = 0; i < size; i++) {
        counts[i] = i == 1 ? 0 : 1;
        all[i] = i;
    }
    MPI_Reduce_scatter(all, &sum, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MUST(rank == 1 || sum == size * (rank > 1 ? rank - 1 : 0));
    MPI_Reduce_scatter_block(all, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MUST(sum == size * rank);
}

static void add(void *in, void *sum, int *count, MPI_Datatype *type)
{
    (void)type;
    calls++; /* private to each task */
    for (int i = 0; i < *count; i++)
        ((int *)sum)[i] += ((int *)in)[i];
}

/* Several at the same time, and blocking ones and messages among them. */
static void child_nonblocking(void)
{
    int rank, size, sum = 0, number = 0, all[16], before = calls;
    MPI_Request requests[5];
    MPI_Status statuses[5];
    MPI_Op op;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Op_create(add, 1, &op);
    if (rank == 2)
        number = 5;
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
    MPI_Ibcast(&number, 1, MPI_INT, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, op, MPI_COMM_WORLD, &requests[2]);
    MPI_Iallgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, &requests[3]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[4]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Waitall(5, requests, statuses);
    MUST(number == 5 && sum == size * (size - 1) / 2);
    before = calls - before;
    MPI_Allreduce(&before, &number, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MUST(number >= size - 1); /* so often two were added */
    for (int i = 0; i < size; i++)
        MUST(all[i] == i);
    MPI_Op_free(&op);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
    for (int flag = 0; !flag;)
        MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
}

/* An operation of the child's own, which needs its globals, and thread-locals that are a thread's. */
static void add_in_thread(void *in, void *sum, int *count, MPI_Datatype *type)
{
#ifdef LOCAL
    MUST(local[0] == 1 && local[1] == 2);
#endif
    MUST(local[2] == 3);
    add(in, sum, count, type);
}

/* The child's main waits for the thread on its core: that must not stop the call. */
static void *reduce_in_thread(void *sum)
{
    MPI_Request request;
    int rank;
    MPI_Op op;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Op_create(add_in_thread, 1, &op);
    MPI_Iallreduce(&rank, sum, 1, MPI_INT, op, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Op_free(&op);
    return NULL;
}

static void child_thread_reduces(void)
{
    int rank, size, sum = 0, before = calls, all;
    pthread_t thread;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    local[0] = local[1] = 100 + rank;
    MUST(pthread_create(&thread, NULL, reduce_in_thread, &sum) == 0);
    pthread_join(thread, NULL);
    MUST(sum == size * (size - 1) / 2 && local[0] == 100 + rank && local[1] == 100 + rank);
    before = calls - before;
    MPI_Allreduce(&before, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MUST(all >= size - 1); /* so often two were added */
}

/* Messages that are taken in another order than they came; one that never is. */
static void child_matched(void)
{
    int rank, size, value, flag;
    MPI_Message messages[16];
    MPI_Status status;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank != 0) {
        MPI_Send(&rank, 1, MPI_INT, 0, rank, MPI_COMM_WORLD);
        return;
    }
    MPI_Improbe(MPI_ANY_SOURCE, 1000, MPI_COMM_WORLD, &flag, &messages[0], &status);
    MUST(!flag);
    for (int i = 1; i < size; i++) {
        MPI_Mprobe(i, MPI_ANY_TAG, MPI_COMM_WORLD, &messages[i], &status);
        MUST(status.MPI_TAG == i);
    }
    for (int i = size - 1; i > 0; i--) {
        MPI_Mrecv(&value, 1, MPI_INT, &messages[i], &status);
        MUST(value == i && status.MPI_SOURCE == i && messages[i] == MPI_MESSAGE_NULL);
    }
}

static void child_collect(MPI_Comm parent)
{
    child_unequal();
    child_partial_sums();
    child_nonblocking();
    child_thread_reduces();
    child_matched();
    MPI_Barrier(parent);
}

/* Rank 1 leaves while rank 0 waits for it in a barrier between two groups, or probes for it. */
static void child_waits(MPI_Comm parent)
{
    MPI_Status status;
    int rank, value = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0)
        MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        usleep(1000); /* most likely the others wait then; it must be the same if not */
        exit(0);
    }
    MUST(MPI_Barrier(parent) == MPI_ERR_PROC_ABORTED);
    MUST(MPI_Probe(1, 0, MPI_COMM_WORLD, &status) == MPI_ERR_PROC_ABORTED);
    MPI_Send(&value, 1, MPI_INT, 0, 0, parent);
}

static void must_cancel(MPI_Request *request)
{
    MPI_Status status;
    int cancelled = 0;

    MUST(MPI_Cancel(request) == MPI_SUCCESS && MPI_Wait(request, &status) == MPI_SUCCESS);
    MPI_Test_cancelled(&status, &cancelled);
    MUST(cancelled && *request == MPI_REQUEST_NULL);
}

/* Of what it sends to the parent only the last is not cancelled. MPICH cancels no send on one
 * machine, so calls.c has none. */
static void child_cancels(MPI_Comm parent)
{
    static int numbers[20000];
    MPI_Datatype column;
    MPI_Request request;

    MPI_Type_vector(10000, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Issend(numbers, 1, MPI_INT, 0, 1, parent, &request);
    must_cancel(&request);
    MPI_Isend(numbers, 20000, MPI_INT, 0, 2, parent, &request);
    must_cancel(&request);
    MPI_Isend(numbers, 1, column, 0, 3, parent, &request);
    must_cancel(&request);
    MPI_Type_free(&column);
    MPI_Send(numbers, 1, MPI_INT, 0, 4, parent);
    MPI_Barrier(parent);
}

/* Leaves while a collective call of it is under way. */
static void child_leaves(void)
{
    MPI_Request request;
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
    exit(0);
}

static void child_group(MPI_Comm parent)
{
    int rank, size, sum, half_rank, half_size;
    MPI_Comm half, twin, merged;

    child_collective();
    child_ring();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_rank(half, &half_rank);
    MPI_Comm_size(half, &half_size);
    MUST(half_size == (size + 1 - rank % 2) / 2 && half_rank == half_size - 1 - rank / 2);
    MPI_Comm_dup(half, &twin);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_MIN, twin);
    MUST(sum == rank % 2);
    MPI_Comm_free(&twin);
    MPI_Comm_free(&half);
    MPI_Intercomm_merge(parent, 1, &merged);
    MPI_Comm_rank(merged, &sum);
    MUST(sum == rank + 1);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged);
    MUST(sum == 1000 + size * (size - 1) / 2);
    MPI_Comm_free(&merged);
}

static void child_nest(MPI_Comm parent)
{
    int depth, value = 0;

    MPI_Recv(&depth, 1, MPI_INT, 0, 1, parent, MPI_STATUS_IGNORE);
    if (depth > 0) {
        MPI_Comm children = spawned("nest", 1);

        depth--;
        MPI_Send(&depth, 1, MPI_INT, 0, 1, children);
        MPI_Recv(&value, 1, MPI_INT, 0, 2, children, MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&children);
    }
    value++;
    MPI_Send(&value, 1, MPI_INT, 0, 2, parent);
}

static int deep(volatile int depth)
{
    volatile int room[1000];

    room[0] = depth;
    return depth < 0 ? 0 : deep(depth + 1) + room[0];
}

/* Rank 1 ends in some way, without MPI_Finalize() but for "finalize"; the others go on. */
static int child_end(const char *how, MPI_Comm parent)
{
    volatile int *nowhere = NULL;
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != 1 || strcmp(how, "finalize") == 0) {
        if (rank != 1)
            child_echo(parent);
        MPI_Finalize();
        return 0;
    }
    if (strcmp(how, "exit") == 0)
        exit(4);
    if (strcmp(how, "_exit") == 0)
        _exit(4);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "assert") == 0)
        assert(rank == 0);
    if (strcmp(how, "err") == 0)
        err(5, "a child's err()");
    if (strcmp(how, "crash") == 0)
        *nowhere = 1;
    if (strcmp(how, "overflow") == 0)
        return deep(0);
    if (strcmp(how, "mpi-abort") == 0)
        MPI_Abort(MPI_COMM_SELF, 5);
    return 6; /* "return" */
}

/* What each of several that spawn together learns of each child. Only the root says what is spawned. */
static void child_spawns(MPI_Comm parent)
{
    char *commands[] = {self, self}, *nothing[] = {(char *)"no/such/program", self};
    char *argv[] = {(char *)"child", (char *)"quiet", NULL}, **both[] = {argv, argv};
    int counts[] = {2, 1}, codes[] = {77, 77, 77, 77}, rank, size;
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm children;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 1)
        MUST(MPI_Comm_spawn_multiple(2, commands, both, counts, infos, 1, MPI_COMM_WORLD, &children,
                                     codes) == MPI_SUCCESS);
    else
        MUST(MPI_Comm_spawn_multiple(9, NULL, NULL, NULL, NULL, 1, MPI_COMM_WORLD, &children,
                                     codes) == MPI_SUCCESS);
    for (int i = 0; i < 3; i++)
        MUST(codes[i] == MPI_SUCCESS);
    MPI_Comm_remote_size(children, &size);
    MUST(size == 3 && codes[3] == 77);
    MPI_Comm_disconnect(&children);
    MUST(MPI_Comm_spawn_multiple(2, nothing, both, counts, infos, 0, MPI_COMM_WORLD, &children,
                                 rank == 2 ? MPI_ERRCODES_IGNORE : codes) != MPI_SUCCESS);
    for (int i = 0; i < 3; i++)
        MUST(rank == 2 || codes[i] != MPI_SUCCESS);
    MPI_Barrier(parent);
}

/* What a child can ask about its communicators. */
static void child_names(MPI_Comm parent)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length, size, flag, *universe;

    MPI_Comm_get_name(parent, name, &length);
    MUST(strcmp(name, "MPI_COMM_PARENT") == 0 && length == (int)strlen(name));
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    MUST(strcmp(name, "MPI_COMM_WORLD") == 0);
    MPI_Comm_set_name(parent, "spawner");
    MPI_Comm_get_name(parent, name, &length);
    MUST(strcmp(name, "spawner") == 0);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &flag);
    MUST(flag && *universe > size); /* a further one can be spawned */
    MPI_Barrier(parent);
}

/* Spawns what is not there, at the same time as others. */
static void child_fails(MPI_Comm parent)
{
    MPI_Comm children;

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int i = 0; i < 10; i++)
        MUST(MPI_Comm_spawn("no/such/program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF,
                            &children, MPI_ERRCODES_IGNORE) != MPI_SUCCESS);
    MPI_Barrier(parent);
}

/* Says in which process it is, and stays until it gets a number, which it sends back. */
static void child_room(MPI_Comm parent)
{
    int pid = (int)getpid(), value;

    MPI_Send(&pid, 1, MPI_INT, 0, 1, parent);
    MPI_Recv(&value, 1, MPI_INT, 0, 1, parent, MPI_STATUS_IGNORE);
    MPI_Send(&value, 1, MPI_INT, 0, 2, parent);
    MPI_Comm_disconnect(&parent);
}

static int child(const char *role)
{
    MPI_Comm parent;

    MPI_Comm_get_parent(&parent);
    MUST(parent != MPI_COMM_NULL);
    if (strcmp(role, "echo") == 0)
        child_echo(parent);
    else if (strcmp(role, "large") == 0)
        child_large(parent);
    else if (strcmp(role, "stream") == 0)
        child_stream(parent);
    else if (strcmp(role, "group") == 0)
        child_group(parent);
    else if (strcmp(role, "nest") == 0)
        child_nest(parent);
    else if (strcmp(role, "collect") == 0)
        child_collect(parent);
    else if (strcmp(role, "waits") == 0)
        child_waits(parent);
    else if (strcmp(role, "leaves") == 0)
        child_leaves();
    else if (strcmp(role, "cancels") == 0)
        child_cancels(parent);
    else if (strcmp(role, "names") == 0)
        child_names(parent);
    else if (strcmp(role, "spawns") == 0)
        child_spawns(parent);
    else if (strcmp(role, "fails") == 0)
        child_fails(parent);
    else if (strcmp(role, "room") == 0)
        child_room(parent);
    else if (strcmp(role, "quiet") == 0)
        MPI_Comm_disconnect(&parent);
    else
        return child_end(role, parent);
    MPI_Finalize();
    return 0;
}

/* ---- tests ---- */

static void test_echo(int times)
{
    for (int i = 0; i < times; i++) {
        MPI_Comm children = spawned("echo", 1);
        int value = i, size;

        MUST(local[0] == 1 && local[1]++ == i + 2);
        local[2] = i;
        MPI_Comm_remote_size(children, &size);
        MUST(size == 1);
        MPI_Send(&value, 1, MPI_INT, 0, 1, children);
        MPI_Recv(&value, 1, MPI_INT, 0, 2, children, MPI_STATUS_IGNORE);
        MUST(value == i + 1 && local[2] == i);
        MPI_Comm_disconnect(&children);
    }
    MUST(calls == 0);
}

static void test_large(int count)
{
    static int numbers[200000];
    MPI_Comm children = spawned("large", 1);
    MPI_Status status;

    for (int i = 0; i < count; i++)
        numbers[i] = i;
    MPI_Send(numbers, count, MPI_INT, 0, 9, children);
    MPI_Recv(numbers, count, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, children, &status);
    MUST(status.MPI_TAG == 9 && status.MPI_SOURCE == 0);
    for (int i = 0; i < count; i++)
        MUST(numbers[i] == 2 * i);
    MPI_Comm_disconnect(&children);
}

/* Of each sender and tag the numbers come in their order, whatever the receives want. */
static void test_stream(int seed)
{
    static int numbers[8000];
    int last[SENDERS][3];
    MPI_Comm children = spawned("stream", SENDERS);

    memset(last, -1, sizeof(last));
    for (int left = SENDERS * STREAM; left > 0; left--) {
        MPI_Status status;

        seed = (int)((unsigned)seed * 1103515245u + 12345u);
        if (seed >> 16 & 1) {
            MPI_Request request;

            MPI_Irecv(numbers, 8000, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, children, &request);
            MPI_Wait(&request, &status);
        } else {
            MPI_Recv(numbers, 8000, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, children, &status);
        }
        MUST(numbers[0] % 3 == status.MPI_TAG);
        MUST(numbers[0] > last[status.MPI_SOURCE][status.MPI_TAG]);
        for (int tag = 0; tag < 3; tag++) /* any tag: the order of all */
            MUST(numbers[0] > last[status.MPI_SOURCE][tag]);
        last[status.MPI_SOURCE][status.MPI_TAG] = numbers[0];
    }
    MPI_Comm_disconnect(&children);
}

static void test_group(int size)
{
    MPI_Comm children = spawned("group", size), merged;
    int value = 1000, sum, rank;

    MPI_Intercomm_merge(children, 0, &merged);
    MPI_Comm_rank(merged, &rank);
    MUST(rank == 0);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, merged);
    MUST(sum == 1000 + size * (size - 1) / 2);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&children);
}

static void test_nest(int depth)
{
    MPI_Comm children = spawned("nest", 1);
    int value;

    MPI_Send(&depth, 1, MPI_INT, 0, 1, children);
    MPI_Recv(&value, 1, MPI_INT, 0, 2, children, MPI_STATUS_IGNORE);
    MUST(value == depth + 1);
    MPI_Comm_disconnect(&children);
}

/* With the child of that rank a number and back. */
static void echo(MPI_Comm children, int rank)
{
    int value = 10 * rank;

    MPI_Send(&value, 1, MPI_INT, rank, 1, children);
    MPI_Recv(&value, 1, MPI_INT, rank, 2, children, MPI_STATUS_IGNORE);
    MUST(value == 10 * rank + 1);
}

/* However a child ends, what waits for it ends with an error, and others go on. */
static void test_ends(int unused)
{
    static const char *const ways[] = {"return", "exit",  "_exit",    "abort",     "assert",
                                       "err",    "crash", "overflow", "mpi-abort", "finalize"};
    int value;

    (void)unused;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        MPI_Comm children = spawned(ways[i], 3);
        MPI_Request request;

        MPI_Comm_set_errhandler(children, MPI_ERRORS_RETURN);
        MPI_Irecv(&value, 1, MPI_INT, 1, 0, children, &request);
        MUST(MPI_Recv(&value, 1, MPI_INT, 1, 0, children, MPI_STATUS_IGNORE) ==
             MPI_ERR_PROC_ABORTED);
        MUST(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_ERR_PROC_ABORTED);
        MUST(MPI_Send(&value, 1, MPI_INT, 1, 0, children) == MPI_SUCCESS); /* as if not received */
        MUST(MPI_Ssend(&value, 1, MPI_INT, 1, 0, children) == MPI_ERR_PROC_ABORTED);
        echo(children, 2);
        echo(children, 0);
        MPI_Comm_disconnect(&children);
    }
}

static void test_waits(int children)
{
    MPI_Comm comm = spawned("waits", children);
    int value;

    for (int rank = 0; rank < children; rank++)
        if (rank != 1)
            MPI_Recv(&value, 1, MPI_INT, rank, 0, comm, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(&comm);
}

static void test_cancel(int unused)
{
    MPI_Comm comm = spawned("cancels", 1);
    MPI_Status status;
    int value;

    (void)unused;
    MPI_Barrier(comm);
    MPI_Recv(&value, 1, MPI_INT, 0, MPI_ANY_TAG, comm, &status);
    MUST(status.MPI_TAG == 4);
    MPI_Comm_disconnect(&comm);
}

/* A column of a matrix, to a row. */
static void test_types(int unused)
{
    int matrix[10][10], row[10];
    MPI_Datatype column;
    MPI_Comm children = spawned("large", 1);

    (void)unused;
    for (int i = 0; i < 100; i++)
        matrix[i / 10][i % 10] = i;
    MPI_Type_vector(10, 1, 10, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Send(&matrix[0][3], 1, column, 0, 1, children);
    MPI_Recv(row, 10, MPI_INT, 0, 1, children, MPI_STATUS_IGNORE);
    for (int i = 0; i < 10; i++)
        MUST(row[i] == 2 * matrix[i][3]);
    MPI_Type_free(&column);
    MPI_Comm_disconnect(&children);
}

/* With a limit of so many: one more is refused by an MPI that cannot spawn. */
static void test_limit(int limit)
{
    char *argv[] = {(char *)"child", (char *)"echo", NULL};
    MPI_Comm children[64];

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int i = 0; i < limit; i++)
        children[i] = spawned("echo", 1);
    MUST(MPI_Comm_spawn(self, argv, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children[limit],
                        MPI_ERRCODES_IGNORE) != MPI_SUCCESS);
    for (int i = 0; i < limit; i++) {
        int value = i;

        MPI_Send(&value, 1, MPI_INT, 0, 1, children[i]);
        MPI_Recv(&value, 1, MPI_INT, 0, 2, children[i], MPI_STATUS_IGNORE);
        MUST(value == i + 1);
        MPI_Comm_disconnect(&children[i]);
    }
}

/* So many bytes of address space more than now. */
static void leave_room(size_t bytes)
{
    FILE *file = fopen("/proc/self/statm", "r");
    struct rlimit limit;
    unsigned long pages;

    MUST(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes;
    MUST(setrlimit(RLIMIT_AS, &limit) == 0);
}

#define ROOM_MOST 400

/* Spawns children until so many are processes; with 0 of them: until MPI, which cannot spawn, refuses
 * one. Those that run go on. most: fewer children than that find room here. */
static void fill(int processes, int most)
{
    char *argv[] = {(char *)"child", (char *)"room", NULL};
    int count = 0, outside = 0, pid;
    MPI_Comm children[ROOM_MOST];

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    while (count < most && (processes == 0 || outside < processes) &&
           MPI_Comm_spawn(self, argv, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children[count],
                          MPI_ERRCODES_IGNORE) == MPI_SUCCESS) {
        MPI_Recv(&pid, 1, MPI_INT, 0, 1, children[count++], MPI_STATUS_IGNORE);
        outside += pid != (int)getpid();
    }
    MUST(outside == processes && count > outside && count < most);
    for (int i = 0; i < count; i++) {
        MPI_Send(&i, 1, MPI_INT, 0, 1, children[i]);
        MPI_Recv(&pid, 1, MPI_INT, 0, 2, children[i], MPI_STATUS_IGNORE);
        MUST(pid == i);
        MPI_Comm_disconnect(&children[i]);
    }
}

/* When the address space is used up, further children become processes. */
static void test_room(int processes)
{
    leave_room((size_t)1 << 30);
    setenv("UMBRA_MPI_STACK_BYTES", "268435456", 1);
    fill(processes, 16);
}

/* When the mappings are used up, further children become processes. */
static void test_mappings(int processes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 0, left = 1000;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    char *pages;

    if (file == NULL || fscanf(file, "%zu", &count) != 1 || count > 200000) {
        puts("skipped: so many mappings are allowed, or it is not known how many");
        exit(77);
    }
    fclose(file);
    pages = mmap(NULL, 2 * count * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(pages != MAP_FAILED);
    for (size_t i = 0; mprotect(pages + i * page, page, PROT_READ) == 0; i += 2)
        count = i;
    MUST(munmap(pages + (count - left) * page, left * page) == 0);
    fill(processes, ROOM_MOST);
}

static void test_names(int children)
{
    MPI_Comm comm = spawned("names", children);

    MPI_Barrier(comm);
    MPI_Comm_disconnect(&comm);
}

static void test_codes(int children)
{
    MPI_Comm comm = spawned("spawns", children);

    MPI_Barrier(comm);
    MPI_Comm_disconnect(&comm);
}

static void test_collect(int children)
{
    MPI_Comm comm = spawned("collect", children);

    MPI_Barrier(comm);
    MPI_Comm_disconnect(&comm);
    comm = spawned("leaves", children);
    MPI_Comm_disconnect(&comm);
}

static void *spawn_in_thread(void *comm)
{
    *(MPI_Comm *)comm = spawned("echo", 1);
    return NULL;
}

/* Threads of the program spawn, too; its main talks to their children. */
static void test_threads(int unused)
{
    MPI_Comm children[4];
    pthread_t thread[4];

    (void)unused;
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&thread[i], NULL, spawn_in_thread, &children[i]) == 0);
    for (int i = 0; i < 4; i++) {
        int value = i;

        pthread_join(thread[i], NULL);
        MPI_Send(&value, 1, MPI_INT, 0, 1, children[i]);
        MPI_Recv(&value, 1, MPI_INT, 0, 2, children[i], MPI_STATUS_IGNORE);
        MUST(value == i + 1);
        MPI_Comm_disconnect(&children[i]);
    }
}

/* Spawns of children that MPI refuses, at the same time: each is an error of that child alone. */
static void test_fails(int children)
{
    MPI_Comm comm = spawned("fails", children);
    MPI_Errhandler handler;

    MPI_Barrier(comm);
    MPI_Comm_disconnect(&comm);
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &handler);
    MUST(handler == MPI_ERRORS_ARE_FATAL);
}

struct turn {
    MPI_Comm comm, children;
    pthread_t thread;
};

/* Spawns an echo together with the other processes. */
static void *spawn_with_others(void *arg)
{
    char *argv[] = {(char *)"child", (char *)"echo", NULL};
    struct turn *turn = arg;

    MUST(MPI_Comm_spawn(self, argv, 1, MPI_INFO_NULL, 0, turn->comm, &turn->children,
                        MPI_ERRCODES_IGNORE) == MPI_SUCCESS);
    return NULL;
}

static void spawn_begin(struct turn *turn)
{
    MUST(pthread_create(&turn->thread, NULL, spawn_with_others, turn) == 0);
}

/* Two processes spawn twice together. The first makes one spawn after the other. In the second a
 * thread begins the later one, and another the earlier one meanwhile. */
static void test_together(int unused)
{
    struct turn turn[2];
    int rank;

    (void)unused;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 2; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &turn[i].comm);
    spawn_begin(&turn[rank]);
    if (rank == 0)
        pthread_join(turn[0].thread, NULL);
    else
        usleep(100000);
    spawn_begin(&turn[1 - rank]);
    for (int i = rank == 0 ? 1 : 0; i < 2; i++)
        pthread_join(turn[i].thread, NULL);
    for (int i = 0; i < 2; i++) {
        if (rank == 0)
            echo(turn[i].children, 0);
        MPI_Comm_disconnect(&turn[i].children);
        MPI_Comm_free(&turn[i].comm);
    }
}

/* Spawns an echo with a key of MPI_Info. True if it ran: an MPI that cannot spawn refuses others. */
static int runs_with(const char *command, const char *key, const char *value)
{
    char *argv[] = {(char *)"child", (char *)"echo", NULL};
    MPI_Comm children;
    MPI_Info info;
    int error, number = 1;

    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    error =
        MPI_Comm_spawn(command, argv, 1, info, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
    MPI_Info_free(&info);
    if (error != MPI_SUCCESS)
        return 0;
    MPI_Send(&number, 1, MPI_INT, 0, 1, children);
    MPI_Recv(&number, 1, MPI_INT, 0, 2, children, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(&children);
    return number == 2;
}

/* What the keys of a spawn allow. */
static void test_keys(int unused)
{
    char copy[4096];

    (void)unused;
    snprintf(copy, sizeof(copy), "%s_copy", self);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MUST(runs_with(self, "umbra_limit", "1") && !runs_with(self, "umbra_limit", "0"));
    MUST(runs_with(self, "umbra_depth", "1") && !runs_with(self, "umbra_depth", "0"));
    MUST(runs_with(self, "umbra_stack_bytes", "300000"));
    MUST(runs_with(self, "umbra_same_executable", "1"));
    MUST(runs_with(copy, "umbra_same_executable", "0"));
    MUST(!runs_with(copy, "umbra_same_executable", "1"));
    MUST(!runs_with(self, "wdir", "/a/long/one"));
}

static const struct {
    const char *name;
    void (*run)(int number);
    int number;
} tests[] = {
    {"echo", test_echo, 200},       {"large", test_large, 200000}, {"small", test_large, 3},
    {"stream", test_stream, 1},     {"group", test_group, 7},      {"nest", test_nest, 20},
    {"ends", test_ends, 0},         {"types", test_types, 0},      {"limit", test_limit, 3},
    {"keys", test_keys, 0},         {"names", test_names, 3},      {"threads", test_threads, 0},
    {"collect", test_collect, 7},   {"waits", test_waits, 3},      {"codes", test_codes, 3},
    {"room", test_room, 0},         {"fails", test_fails, 4},      {"together", test_together, 0},
    {"mappings", test_mappings, 3}, {"cancel", test_cancel, 0},
};

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    int rank;

    self = argv[0];
    MPI_Init(&argc, &argv);
    if (argc > 2 && strcmp(name, "child") == 0)
        return child(argv[2]);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        if (strcmp(name, tests[i].name) == 0) {
            tests[i].run(argc > 2 ? atoi(argv[2]) : tests[i].number);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Finalize();
            if (rank == 0)
                puts("ok");
            return 0;
        }
    fprintf(stderr, "spawns: no test '%s'\n", name);
    return 2;
}
