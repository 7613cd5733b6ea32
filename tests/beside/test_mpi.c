/* SPDX-License-Identifier: BSL-1.0 */
/* MPI in fibers: one process that sends to itself. */
#define _GNU_SOURCE
#include "beside.h"

#include <mpi.h>

#define MESSAGES 50

/* Waits for a request while its core runs other fibers. */
static void wait_for(MPI_Request *request)
{
    int done = 0;

    while (MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        umbra_yield();
    cr_expect(done);
}

struct peer {
    int tag;
    long sum; /* of what it received */
};

static void *sends(void *arg)
{
    struct peer *peer = arg;

    for (int i = 1; i <= MESSAGES; i++) {
        MPI_Request request;

        MPI_Isend(&i, 1, MPI_INT, 0, peer->tag, MPI_COMM_SELF, &request);
        wait_for(&request);
    }
    return NULL;
}

static void *receives(void *arg)
{
    struct peer *peer = arg;

    for (int i = 1; i <= MESSAGES; i++) {
        MPI_Request request;
        int message = 0;

        MPI_Irecv(&message, 1, MPI_INT, 0, peer->tag, MPI_COMM_SELF, &request);
        wait_for(&request);
        peer->sum += message;
    }
    cr_expect(core_is_bound());
    return NULL;
}

/* Receivers first: they wait, and their cores go on with what they wait for. */
static void *exchange(void *arg)
{
    unsigned cores = umbra_runtime_cores(umbra_runtime_self());
    struct peer *peers = arg;
    struct umbra_fiber fiber[4];

    for (unsigned i = 0; i < 2; i++) {
        struct umbra_spawn_options near = on_core(i % cores), far = on_core((i + 1) % cores);

        cr_expect_eq(umbra_spawn_with(NULL, &near, receives, &peers[i], &fiber[i]), 0);
        cr_expect_eq(umbra_spawn_with(NULL, &far, sends, &peers[i], &fiber[2 + i]), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    return NULL;
}

/* MPI begun and ended by the main thread with what the fibers of so many cores need. */
static void check_exchange(int level, unsigned cores)
{
    struct peer peers[2] = {{.tag = 1}, {.tag = 2}};
    int provided = -1;

    note_allowed();
    cr_assert_eq(MPI_Init_thread(NULL, NULL, level, &provided), MPI_SUCCESS);
    if (provided < level) {
        MPI_Finalize();
        cr_skip_test("this MPI has thread level %d, not %d", provided, level);
    }
    cr_assert_eq(run_cores(cores, exchange, peers), 0);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(peers[i].sum, MESSAGES * (MESSAGES + 1) / 2, "%ld", peers[i].sum);
    cr_expect(may_use_all());
    cr_assert_eq(MPI_Finalize(), MPI_SUCCESS);
}

Test(mpi, fibers_of_one_core_wait_for_messages_of_each_other)
{
    check_exchange(MPI_THREAD_SERIALIZED, 1);
}

Test(mpi, fibers_of_two_cores_wait_for_messages_of_each_other)
{
    check_exchange(MPI_THREAD_MULTIPLE, 2);
}

static void reduce(void *arg)
{
    int mine = 7, *sum = arg;

    cr_expect(may_use_all());
    MPI_Allreduce(&mine, sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void *reduces(void *arg)
{
    cr_expect_eq(umbra_core_unbound(reduce, arg), 0);
    cr_expect(core_is_bound());
    return NULL;
}

Test(mpi, blocking_call_in_a_fiber_blocks_its_core_only_and_leaves_it_bound)
{
    int provided, sum = 0;

    note_allowed();
    cr_assert_eq(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided), MPI_SUCCESS);
    cr_assert_eq(run_cores(1, reduces, &sum), 0);
    cr_assert_eq(sum, 7);
    cr_assert_eq(MPI_Finalize(), MPI_SUCCESS);
}
