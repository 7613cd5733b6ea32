/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The MPI program of the kernel mpi-child. It knows nothing of Umbra.
 *
 *     mpi-child-rank FD in-process|process   what the kernel starts: becomes mpiexec, which starts
 *     mpi-child-rank PATH                    what measures; PATH is that descriptor for others
 *     mpi-child-rank                         its children
 *
 * A child gets how many messages there will be and of how many bytes, and sends each back. It lives
 * for one batch, since the kernel stops only mpiexec between turns.
 */
#define _GNU_SOURCE
#include "child_channel.h"
#include "mpi_child_case.h"
#include "mpi_spawning.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include <mpi.h>

#define PATH_BYTES 64
#define TRIES 200 /* spawns, until a child is on another processor */

enum { ORDER, PLACE, DATA };

struct order {
    int bytes, trips;
};

static char *self;
static char here[MPI_CHILD_MOST_BYTES], there[MPI_CHILD_MOST_BYTES];

/* ---- children ---- */

static int run_child(MPI_Comm parent)
{
    struct order order;
    int cpu = sched_getcpu();
    char *data;

    MPI_Send(&cpu, 1, MPI_INT, 0, PLACE, parent);
    MPI_Recv(&order, sizeof(order), MPI_BYTE, 0, ORDER, parent, MPI_STATUS_IGNORE);
    data = malloc((size_t)order.bytes);
    if (data == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < order.trips; i++) {
        MPI_Recv(data, order.bytes, MPI_BYTE, 0, DATA, parent, MPI_STATUS_IGNORE);
        data[order.bytes - 1]++;
        MPI_Send(data, order.bytes, MPI_BYTE, 0, DATA, parent);
    }
    free(data);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

/* ---- batches ---- */

static MPI_Comm spawn(int count)
{
    MPI_Comm children;

    MPI_Comm_spawn(self, MPI_ARGV_NULL, count, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                   MPI_ERRCODES_IGNORE);
    return children;
}

static int place_of(int child, MPI_Comm children)
{
    int cpu;

    MPI_Recv(&cpu, 1, MPI_INT, child, PLACE, children, MPI_STATUS_IGNORE);
    return cpu;
}

/* The round trips with one child. How many were right. */
static uint64_t make_trips(int child, MPI_Comm children, struct order order)
{
    uint64_t right = 0;

    MPI_Send(&order, sizeof(order), MPI_BYTE, child, ORDER, children);
    for (int i = 0; i < order.trips; i++) {
        here[0] = (char)i;
        here[order.bytes - 1] = (char)i;
        MPI_Send(here, order.bytes, MPI_BYTE, child, DATA, children);
        MPI_Recv(here, order.bytes, MPI_BYTE, child, DATA, children, MPI_STATUS_IGNORE);
        right += here[order.bytes - 1] == (char)(i + 1);
    }
    return right;
}

static void batch_of_children(struct child_channel *channel, struct mpi_child_case what)
{
    const struct order order = {.bytes = (int)what.bytes, .trips = 1};
    uint64_t begin = child_channel_now_ns(), right = 0;

    for (uint64_t i = 0; i < channel->iterations; i++) {
        MPI_Comm children = spawn((int)what.live);

        for (int child = 0; child < (int)what.live; child++) {
            place_of(child, children);
            right += make_trips(child, children, order);
        }
        MPI_Comm_disconnect(&children);
    }
    channel->own_ns = child_channel_now_ns() - begin;
    channel->verified = right;
}

/* A child on another processor, if children may be on several; it stays there. */
static MPI_Comm spawn_elsewhere(void)
{
    const struct order nothing = {.bytes = 1, .trips = 0};
    MPI_Comm children = spawn(1);

    for (int try = 0; try < TRIES && place_of(0, children) == sched_getcpu(); try++) {
        make_trips(0, children, nothing);
        MPI_Comm_disconnect(&children);
        children = spawn(1);
        for (uint64_t begin = child_channel_now_ns(); child_channel_now_ns() - begin < 50000;) {
        } /* another processor takes it meanwhile */
    }
    return children;
}

static bool several_cores(const struct child_channel *channel)
{
    return channel->n_cpus > 1 && getenv("UMBRA_MPI_CORES") == NULL;
}

static void batch_of_messages(struct child_channel *channel, struct mpi_child_case what)
{
    struct order order = {.bytes = (int)what.bytes, .trips = (int)channel->iterations};
    MPI_Comm children = MPI_COMM_NULL;
    uint64_t begin;

    if (several_cores(channel)) {
        children = spawn_elsewhere();
    } else {
        children = spawn(1);
        place_of(0, children);
    }
    begin = child_channel_now_ns();
    channel->verified = 2 * make_trips(0, children, order);
    channel->own_ns = child_channel_now_ns() - begin;
    MPI_Comm_disconnect(&children);
}

static void batch_of_copies(struct child_channel *channel, struct mpi_child_case what)
{
    uint64_t begin = child_channel_now_ns(), right = 0;

    for (uint64_t i = 0; i < channel->iterations; i++) {
        here[what.bytes - 1] = (char)i;
        memcpy(there, here, what.bytes);
        __asm__ volatile("" : : : "memory");
        memcpy(here, there, what.bytes);
        right += there[what.bytes - 1] == (char)i;
    }
    channel->own_ns = child_channel_now_ns() - begin;
    channel->verified = 2 * right;
}

/* Two threads that copy in turn, by the number of copies so far; 1: the second thread has begun. */
struct pair {
    uint64_t copies __attribute__((aligned(CHILD_CHANNEL_LINE)));
    uint64_t trips __attribute__((aligned(CHILD_CHANNEL_LINE)));
    size_t bytes;
};

static void wait_for_copy(const struct pair *pair, uint64_t copies)
{
    while (__atomic_load_n(&pair->copies, __ATOMIC_ACQUIRE) != copies)
        __builtin_ia32_pause();
}

static void *copy_back(void *arg)
{
    struct pair *pair = arg;

    __atomic_store_n(&pair->copies, 1, __ATOMIC_RELEASE);
    for (uint64_t i = 0; i < pair->trips; i++) {
        wait_for_copy(pair, 2 * i + 2);
        there[pair->bytes - 1]++;
        memcpy(here, there, pair->bytes);
        __atomic_store_n(&pair->copies, 2 * i + 3, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* On the first of the processors that is not the caller's. */
static pthread_t start_elsewhere(const struct child_channel *channel, struct pair *pair)
{
    pthread_attr_t attr;
    pthread_t thread;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)channel->cpus[channel->cpus[0] == sched_getcpu()], &set);
    pthread_attr_init(&attr);
    pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
    if (pthread_create(&thread, &attr, copy_back, pair) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    pthread_attr_destroy(&attr);
    wait_for_copy(pair, 1);
    return thread;
}

static void batch_of_copies_between(struct child_channel *channel, struct mpi_child_case what)
{
    struct pair pair = {.trips = channel->iterations, .bytes = what.bytes};
    pthread_t thread = start_elsewhere(channel, &pair);
    uint64_t begin = child_channel_now_ns(), right = 0;

    for (uint64_t i = 0; i < pair.trips; i++) {
        here[what.bytes - 1] = (char)i;
        memcpy(there, here, what.bytes);
        __atomic_store_n(&pair.copies, 2 * i + 2, __ATOMIC_RELEASE);
        wait_for_copy(&pair, 2 * i + 3);
        right += here[what.bytes - 1] == (char)(i + 1);
    }
    channel->own_ns = child_channel_now_ns() - begin;
    channel->verified = 2 * right;
    pthread_join(thread, NULL);
}

static void batch(struct child_channel *channel)
{
    struct mpi_child_case what = mpi_child_case_unpack(channel->problem);

    channel->elsewhere = 0;
    if (what.way == WAY_CHILD)
        batch_of_children(channel, what);
    else if (what.way == WAY_MESSAGE)
        batch_of_messages(channel, what);
    else if (several_cores(channel))
        batch_of_copies_between(channel, what);
    else
        batch_of_copies(channel, what);
}

/* ---- processes ---- */

static int measure(const char *path)
{
    int fd = open(path, O_RDWR);
    struct child_channel *channel = fd < 0 ? NULL : child_channel_map(fd);

    if (channel == NULL)
        return 2;
    child_channel_serve(channel, batch);
    MPI_Finalize();
    return 0;
}

static int become_mpiexec(char **argv)
{
    char path[PATH_BYTES];
    char *words[] = {argv[0], path, NULL};
    bool library = strcmp(argv[2], "in-process") == 0;

    if (mpi_spawning_missing(library) != NULL)
        return 2;
    snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)getpid(), argv[1]);
    mpi_spawning_exec(words, library);
    return 2;
}

int main(int argc, char **argv)
{
    MPI_Comm parent;

    if (argc == 3)
        return become_mpiexec(argv);
    self = argv[0];
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* none outlives what mpiexec started it by */
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    return parent != MPI_COMM_NULL ? run_child(parent) : measure(argv[1]);
}
