/* SPDX-License-Identifier: BSL-1.0 */
/* Rows of `calls`: collective calls, blocking and not, and operations. */
#include "calls.h"

static int large[LARGE], sums[LARGE];
static MPI_Request request; /* of a call with I, in a wrapper */

static int ended(int error)
{
    return error == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : error;
}

/* ---- barrier ---- */

static void barriers(int (*call)(MPI_Comm))
{
    int number = rank, got = -1, flag = 0;
    MPI_Request receive;

    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &receive);
    MPI_Send(&number, 1, MPI_INT, (rank + 1) % size, 1, comm);
    say_error("is", call(comm));
    while (!flag) /* it was sent before */
        MPI_Test(&receive, &flag, MPI_STATUS_IGNORE);
    say(" got %d", got);
}

static int i_barrier(MPI_Comm of)
{
    return ended(MPI_Ibarrier(of, &request));
}

static void row_barrier(void)
{
    barriers(MPI_Barrier);
}

static void row_ibarrier(void)
{
    barriers(i_barrier);
}

/* ---- broadcast ---- */

typedef int bcast_call(void *, int, MPI_Datatype, int, MPI_Comm);

static void bcasts(bcast_call *call)
{
    MPI_Datatype sparse = sparse_type(3);
    int numbers[9] = {0};

    for (int root = 0; root < size; root++) {
        fill(large, LARGE, rank == root ? root + 1 : -1);
        say_error("is", call(large, LARGE, MPI_INT, root, comm));
        say(" %ld", sum_of(large, LARGE));
    }
    if (rank == 1)
        fill(numbers, 9, 1);
    call(numbers, rank == 1 ? 3 : 1, rank == 1 ? MPI_INT : sparse, 1, comm);
    say_numbers("sparse", numbers, 9);
    MPI_Type_free(&sparse);
    say_error("nothing", call(NULL, 0, MPI_INT, 0, comm));
    say_error("root", call(numbers, 1, MPI_INT, size, comm));
    say_error("root", call(numbers, 1, MPI_INT, -1, comm));
    say_error("count", call(numbers, -1, MPI_INT, 0, comm));
    say_error("type", call(numbers, 1, MPI_DATATYPE_NULL, 0, comm));
    say_error("buffer", call(NULL, 1, MPI_INT, 0, comm));
}

static int i_bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm of)
{
    return ended(MPI_Ibcast(buffer, count, type, root, of, &request));
}

static void row_bcast(void)
{
    bcasts(MPI_Bcast);
}

static void row_ibcast(void)
{
    bcasts(i_bcast);
}

/* ---- reductions ---- */

/* Not commutative: the order of ranks shows. Pairs are numbers and powers of ten. */
static void append(void *in, void *out, int *count, MPI_Datatype *type)
{
    int *left = in, *right = out;

    (void)type;
    for (int i = 0; i < *count; i++, left += 2, right += 2) {
        right[0] += left[0] * right[1];
        right[1] *= left[1];
    }
}

/* A reduction, whose root (or counts for each task) the caller has bound. */
typedef int reduction(const void *, void *, int, MPI_Datatype, MPI_Op);
static int root; /* of reductions that have one */

/* Each result; where it is not defined, what was there. */
static void reductions(reduction *call)
{
    struct {
        double value;
        int at;
    } where = {rank == 1 ? 9 : 1, rank}, most = {-1, -1};
    int pair[2] = {rank + 1, 10}, both[2] = {-1, -1}, bits = 1 << rank, all = -1;
    MPI_Datatype pairs;
    MPI_Op op;

    MPI_Type_contiguous(2, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    MPI_Op_create(append, 0, &op);
    fill(large, LARGE, rank + 1);
    memset(sums, 0, sizeof(sums));
    say_error("sum", call(large, sums, LARGE, MPI_INT, MPI_SUM));
    say(" %ld", sum_of(sums, LARGE));
    call(pair, both, 1, pairs, op);
    say_numbers("in order", both, 1);
    call(&where, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC);
    say(" most %g at %d", most.value, most.at);
    call(&bits, &all, 1, MPI_INT, MPI_BOR);
    say(" bits %d", all);
    say_error("nothing", call(NULL, NULL, 0, MPI_INT, MPI_SUM));
    MPI_Op_free(&op);
    MPI_Type_free(&pairs);
}

static void refused_reductions(reduction *call)
{
    int number = 1, sum = 0;

    say_error("op", call(&number, &sum, 1, MPI_INT, MPI_OP_NULL));
    say_error("buffer", call(NULL, &sum, 1, MPI_INT, MPI_SUM));
}

/* In place: the tasks that get a result, or all. */
static void in_place(reduction *call, bool only_root)
{
    int numbers[2] = {rank + 1, 10 * (rank + 1)};
    bool place = !only_root || rank == root;

    say_error("in place",
              call(place ? MPI_IN_PLACE : numbers, place ? numbers : NULL, 2, MPI_INT, MPI_SUM));
    say_numbers("is", numbers, 2);
}

static int reduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op)
{
    return MPI_Reduce(from, to, count, type, op, root, comm);
}

static int i_reduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op)
{
    return ended(MPI_Ireduce(from, to, count, type, op, root, comm, &request));
}

static void reduces(reduction *call)
{
    int number = 1, sum = 0;

    for (root = 0; root < size; root++) {
        reductions(call);
        in_place(call, true);
    }
    say_error("root", call(&number, &sum, 1, MPI_INT, MPI_SUM));
    root = 0;
    refused_reductions(call);
}

static void row_reduce(void)
{
    reduces(reduce);
}

static void row_ireduce(void)
{
    reduces(i_reduce);
}

static void reduces_to_all(reduction *call)
{
    reductions(call);
    in_place(call, false);
    refused_reductions(call);
}

static int allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op)
{
    return MPI_Allreduce(from, to, count, type, op, comm);
}

static int i_allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op)
{
    return ended(MPI_Iallreduce(from, to, count, type, op, comm, &request));
}

static int scan(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op)
{
    return MPI_Scan(from, to, count, type, op, comm);
}

static int i_scan(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op)
{
    return ended(MPI_Iscan(from, to, count, type, op, comm, &request));
}

static int exscan(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op)
{
    return MPI_Exscan(from, to, count, type, op, comm);
}

static int i_exscan(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op)
{
    return ended(MPI_Iexscan(from, to, count, type, op, comm, &request));
}

static void row_allreduce(void)
{
    reduces_to_all(allreduce);
}

static void row_iallreduce(void)
{
    reduces_to_all(i_allreduce);
}

static void row_scan(void)
{
    reduces_to_all(scan);
}

static void row_iscan(void)
{
    reduces_to_all(i_scan);
}

static void row_exscan(void)
{
    reduces_to_all(exscan);
}

static void row_iexscan(void)
{
    reduces_to_all(i_exscan);
}

/* ---- reductions whose result is scattered ---- */

/* `count` elements for task 0, one more for each next one; a negative count is passed on. */
static int *unequal(int count, int counts[MOST])
{
    for (int i = 0; i < size; i++)
        counts[i] = count < 0 ? count : count + i;
    return counts;
}

typedef int scattered(const void *, void *, int, MPI_Datatype, MPI_Op, int *counts);

static int reduce_scatter(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                          int *counts)
{
    return MPI_Reduce_scatter(from, to, unequal(count, counts), type, op, comm);
}

static int i_reduce_scatter(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                            int *counts)
{
    return ended(MPI_Ireduce_scatter(from, to, unequal(count, counts), type, op, comm, &request));
}

static int reduce_scatter_block(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                                int *counts)
{
    (void)counts;
    return MPI_Reduce_scatter_block(from, to, count, type, op, comm);
}

static int i_reduce_scatter_block(const void *from, void *to, int count, MPI_Datatype type,
                                  MPI_Op op, int *counts)
{
    (void)counts;
    return ended(MPI_Ireduce_scatter_block(from, to, count, type, op, comm, &request));
}

static void scatters_reduced(scattered *call)
{
    int numbers[MOST * MOST], got[MOST * MOST], counts[MOST];

    fill(numbers, MOST * MOST, rank + 1);
    memset(got, 0, sizeof(got));
    say_error("is", call(numbers, got, 2, MPI_INT, MPI_SUM, counts));
    say_numbers("got", got, 5);
    say_error("in place", call(MPI_IN_PLACE, numbers, 2, MPI_INT, MPI_SUM, counts));
    say_numbers("got", numbers, 2);
    fill(large, LARGE, rank + 1);
    memset(sums, 0, sizeof(sums));
    say_error("many", call(large, sums, LARGE / size - size, MPI_INT, MPI_SUM, counts));
    say(" %ld", sum_of(sums, LARGE));
    say_error("nothing", call(numbers, got, 0, MPI_INT, MPI_SUM, counts));
    say_error("op", call(numbers, got, 1, MPI_INT, MPI_OP_NULL, counts));
    say_error("buffer", call(NULL, got, 1, MPI_INT, MPI_SUM, counts));
    say_error("buffer", call(numbers, NULL, 1, MPI_INT, MPI_SUM, counts));
}

static void row_reduce_scatter(void)
{
    scatters_reduced(reduce_scatter);
}

static void row_ireduce_scatter(void)
{
    scatters_reduced(i_reduce_scatter);
}

static void row_reduce_scatter_block(void)
{
    scatters_reduced(reduce_scatter_block);
}

static void row_ireduce_scatter_block(void)
{
    scatters_reduced(i_reduce_scatter_block);
}

/* ---- blocks: a call is bound to its form; counts and places lie in `form` ---- */

static struct {
    int root;
    int count;                          /* of each block, or of this task's */
    int counts[MOST], at[MOST];         /* of blocks of unequal size, with a hole before each */
    int all_counts[MOST], all_at[MOST]; /* what is sent to each: as many as the sender has */
} form;

static void form_make(int count)
{
    form.count = count < 0 ? count : count + rank;
    for (int i = 0, at = 1; i < size; i++) {
        form.counts[i] = count < 0 ? count : count + i;
        form.at[i] = at;
        at += form.counts[i] + 1;
        form.all_counts[i] = form.count;
        form.all_at[i] = i * (form.count + 1);
    }
}

typedef int blocks(const void *, MPI_Datatype, void *, MPI_Datatype);

static int gather(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return MPI_Gather(out, form.counts[0], out_type, in, form.counts[0], in_type, form.root, comm);
}

static int i_gather(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return ended(MPI_Igather(out, form.counts[0], out_type, in, form.counts[0], in_type, form.root,
                             comm, &request));
}

static int gatherv(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return MPI_Gatherv(out, form.count, out_type, in, form.counts, form.at, in_type, form.root,
                       comm);
}

static int i_gatherv(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return ended(MPI_Igatherv(out, form.count, out_type, in, form.counts, form.at, in_type,
                              form.root, comm, &request));
}

static int scatter(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return MPI_Scatter(out, form.counts[0], out_type, in, form.counts[0], in_type, form.root, comm);
}

static int i_scatter(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return ended(MPI_Iscatter(out, form.counts[0], out_type, in, form.counts[0], in_type, form.root,
                              comm, &request));
}

static int scatterv(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return MPI_Scatterv(out, form.counts, form.at, out_type, in, form.count, in_type, form.root,
                        comm);
}

static int i_scatterv(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return ended(MPI_Iscatterv(out, form.counts, form.at, out_type, in, form.count, in_type,
                               form.root, comm, &request));
}

static int allgather(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return MPI_Allgather(out, form.counts[0], out_type, in, form.counts[0], in_type, comm);
}

static int i_allgather(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return ended(
        MPI_Iallgather(out, form.counts[0], out_type, in, form.counts[0], in_type, comm, &request));
}

static int allgatherv(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return MPI_Allgatherv(out, form.count, out_type, in, form.counts, form.at, in_type, comm);
}

static int i_allgatherv(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return ended(MPI_Iallgatherv(out, form.count, out_type, in, form.counts, form.at, in_type, comm,
                                 &request));
}

static int alltoall(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return MPI_Alltoall(out, form.counts[0], out_type, in, form.counts[0], in_type, comm);
}

static int i_alltoall(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return ended(
        MPI_Ialltoall(out, form.counts[0], out_type, in, form.counts[0], in_type, comm, &request));
}

static int alltoallv(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return MPI_Alltoallv(out, form.all_counts, form.all_at, out_type, in, form.counts, form.at,
                         in_type, comm);
}

static int i_alltoallv(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type)
{
    return ended(MPI_Ialltoallv(out, form.all_counts, form.all_at, out_type, in, form.counts,
                                form.at, in_type, comm, &request));
}

/* One type is sent and another received: every third int of `out`, one after the other in `in`. */
static void with_types(blocks *call)
{
    static int out[300], in[300];
    MPI_Datatype third;

    MPI_Type_create_resized(MPI_INT, 0, 3 * (MPI_Aint)sizeof(int), &third);
    MPI_Type_commit(&third);
    fill(out, 300, rank + 1);
    memset(in, 0, sizeof(in));
    form_make(2);
    say_error("third", call(out, third, in, MPI_INT));
    say_numbers("got", in, 14);
    fill(out, 300, rank + 1);
    memset(in, 0, sizeof(in));
    say_error("to third", call(out, MPI_INT, in, third));
    say_numbers("got", in, 20);
    MPI_Type_free(&third);
}

static void moves_blocks(blocks *call, bool with_root)
{
    static int out[LARGE], in[LARGE];

    for (form.root = 0; form.root < (with_root ? size : 1); form.root++) {
        fill(out, LARGE, rank + 1);
        memset(in, 0, sizeof(in));
        form_make(LARGE / size - 2 * size);
        say_error("many", call(out, MPI_INT, in, MPI_INT));
        say(" %ld", sum_of(in, LARGE));
        with_types(call);
    }
    form_make(0);
    form.root = 0;
    say_error("few", call(out, MPI_INT, in, MPI_INT));
    if (with_root) {
        form.root = size;
        say_error("root", call(out, MPI_INT, in, MPI_INT));
        form.root = 0;
    }
    form_make(1);
    say_error("type", call(out, MPI_DATATYPE_NULL, in, MPI_DATATYPE_NULL));
    say_error("buffer", call(NULL, MPI_INT, NULL, MPI_INT));
    form_make(-1);
    say_error("count", call(out, MPI_INT, in, MPI_INT));
}

/* In place: the root of a gather or scatter, or all tasks, have their own block there. */
static void blocks_in_place(blocks *call, bool with_root, bool scatters)
{
    int numbers[40], others[40];
    bool place = !with_root || rank == 1;

    form_make(2);
    form.root = 1;
    fill(numbers, 40, rank + 1);
    memset(others, 0, sizeof(others));
    if (scatters)
        say_error("in place", call(numbers, MPI_INT, place ? MPI_IN_PLACE : others, MPI_INT));
    else
        say_error("in place",
                  call(place ? MPI_IN_PLACE : numbers, MPI_INT, place ? numbers : others, MPI_INT));
    say_numbers("numbers", numbers, 14);
    say_numbers("others", others, 4);
}

static void gathers(blocks *call)
{
    moves_blocks(call, true);
    blocks_in_place(call, true, false);
}

static void scatters(blocks *call)
{
    moves_blocks(call, true);
    blocks_in_place(call, true, true);
}

static void gathers_to_all(blocks *call)
{
    moves_blocks(call, false);
    blocks_in_place(call, false, false);
}

/* In place with blocks of one size: what is sent and what comes is equally long. */
static void exchanges(blocks *call)
{
    int numbers[40];

    moves_blocks(call, false);
    form_make(2);
    for (int i = 0; i < size; i++) {
        form.counts[i] = 2;
        form.at[i] = 3 * i + 1;
    }
    fill(numbers, 40, rank + 1);
    say_error("in place", call(MPI_IN_PLACE, MPI_INT, numbers, MPI_INT));
    say_numbers("numbers", numbers, 14);
}

#define BLOCKS_ROW(form, name)                                                                     \
    static void row_##name(void)                                                                   \
    {                                                                                              \
        form(name);                                                                                \
    }                                                                                              \
    static void row_i_##name(void)                                                                 \
    {                                                                                              \
        form(i_##name);                                                                            \
    }
BLOCKS_ROW(gathers, gather)
BLOCKS_ROW(gathers, gatherv)
BLOCKS_ROW(scatters, scatter)
BLOCKS_ROW(scatters, scatterv)
BLOCKS_ROW(gathers_to_all, allgather)
BLOCKS_ROW(gathers_to_all, allgatherv)
BLOCKS_ROW(exchanges, alltoall)
BLOCKS_ROW(exchanges, alltoallv)

/* ---- operations ---- */

/* It may be freed while a call uses it. */
static void row_op_free(void)
{
    int pair[2] = {rank + 1, 10}, both[2] = {-1, -1};
    MPI_Datatype pairs;
    MPI_Op op;

    MPI_Type_contiguous(2, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    MPI_Op_create(append, 0, &op);
    MPI_Iallreduce(pair, both, 1, pairs, op, comm, &request);
    say_error("used", MPI_Op_free(&op));
    say(" null %d", op == MPI_OP_NULL);
    MPI_Type_free(&pairs);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say_numbers("in order", both, 1);
    MPI_Op_create(append, 0, &op);
    say_error("unused", MPI_Op_free(&op));
    say(" null %d", op == MPI_OP_NULL);
}

const struct row collect_rows[] = {{"MPI_Barrier", row_barrier},
                                   {"MPI_Ibarrier", row_ibarrier},
                                   {"MPI_Bcast", row_bcast},
                                   {"MPI_Ibcast", row_ibcast},
                                   {"MPI_Reduce", row_reduce},
                                   {"MPI_Ireduce", row_ireduce},
                                   {"MPI_Allreduce", row_allreduce},
                                   {"MPI_Iallreduce", row_iallreduce},
                                   {"MPI_Scan", row_scan},
                                   {"MPI_Iscan", row_iscan},
                                   {"MPI_Exscan", row_exscan},
                                   {"MPI_Iexscan", row_iexscan},
                                   {"MPI_Reduce_scatter", row_reduce_scatter},
                                   {"MPI_Ireduce_scatter", row_ireduce_scatter},
                                   {"MPI_Reduce_scatter_block", row_reduce_scatter_block},
                                   {"MPI_Ireduce_scatter_block", row_ireduce_scatter_block},
                                   {"MPI_Gather", row_gather},
                                   {"MPI_Igather", row_i_gather},
                                   {"MPI_Gatherv", row_gatherv},
                                   {"MPI_Igatherv", row_i_gatherv},
                                   {"MPI_Scatter", row_scatter},
                                   {"MPI_Iscatter", row_i_scatter},
                                   {"MPI_Scatterv", row_scatterv},
                                   {"MPI_Iscatterv", row_i_scatterv},
                                   {"MPI_Allgather", row_allgather},
                                   {"MPI_Iallgather", row_i_allgather},
                                   {"MPI_Allgatherv", row_allgatherv},
                                   {"MPI_Iallgatherv", row_i_allgatherv},
                                   {"MPI_Alltoall", row_alltoall},
                                   {"MPI_Ialltoall", row_i_alltoall},
                                   {"MPI_Alltoallv", row_alltoallv},
                                   {"MPI_Ialltoallv", row_i_alltoallv},
                                   {"MPI_Op_free", row_op_free},
                                   {NULL, NULL}};
