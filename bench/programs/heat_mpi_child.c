/* SPDX-License-Identifier: BSL-1.0 */
/*
 * MPI's rows of the kernel heat: each rank a process, with examples/heat/part.c.
 *
 *     heat-mpi-child FD RANKS:NODES    what the kernel starts: becomes mpiexec, which starts
 *     heat-mpi-child PATH RANKS:NODES  each rank; PATH is that descriptor as others can open it
 *
 * The kernel stops mpiexec between turns, not the ranks: those sleep then, rank 0 until it has a
 * turn, others until rank 0 says so in memory that they share.
 */
#define _GNU_SOURCE
#include "heat_child.h"
#include "resident.h"

#include <fcntl.h>
#include <sched.h>

#include <mpi.h>
#include <part.h>

#define PATH_BYTES 64

/* In the channel's page, behind the channel. */
struct ranks_channel {
    struct child_channel kernel;
    uint32_t turn __attribute__((aligned(CHILD_CHANNEL_LINE))); /* rank 0 writes */
};

static struct heat_child child;
static struct part part;
static int ranks;
static uint64_t idle_bytes; /* resident before there was a body */

/* ---- a batch: all ranks at once, each with a channel of its own but for the first ---- */

static int spread_part(struct body *body, struct setting *setting)
{
    (void)body; /* the part's */
    setting->ms = part_steps_ms(&part, setting);
    return 0;
}

static uint64_t sum(uint64_t mine)
{
    uint64_t all = 0;

    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void batch(struct child_channel *own)
{
    struct setting setting = {.ms = 0};

    heat_child_batch(own, &child, spread_part, &setting);
    own->own_ns = (uint64_t)(setting.ms * 1e6);
    own->verified = sum(own->verified) == (uint64_t)ranks * own->iterations ? own->iterations : 0;
    if (heat_case_unpack(own->problem).resident)
        own->own_ns = sum(resident_bytes() - idle_bytes) * own->iterations;
}

/* Rank 0's. */
static void batch_of_all(struct child_channel *channel)
{
    struct ranks_channel *all = (struct ranks_channel *)channel;

    child_channel_post(&all->turn, channel->turn);
    batch(channel);
}

static void follow(struct ranks_channel *all)
{
    struct child_channel own;
    uint32_t turn = 0;

    while ((turn = child_channel_wait(&all->turn, turn, -1)) != CHILD_CHANNEL_END) {
        own = all->kernel;
        batch(&own);
    }
}

/* ---- processes ---- */

static void bind_to(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static int run_rank(const char *path, const char *argument)
{
    int fd = open(path, O_RDWR), rank;
    struct ranks_channel *all = fd < 0 ? NULL : (struct ranks_channel *)child_channel_map(fd);
    size_t nodes[3];

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* none outlives what mpiexec started it by */
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (all == NULL || ranks != atoi(argument) || (uint32_t)ranks > all->kernel.n_cpus ||
        !size_read(strchr(argument, ':') + 1, nodes))
        return 2;
    bind_to(all->kernel.cpus[rank]);
    idle_bytes = resident_bytes();
    if (part_create(&part, nodes) != 0)
        return 2;
    child.body = part.body;
    if (heat_child_begin(&child) != 0)
        return 2;
    if (rank > 0) {
        follow(all);
    } else {
        child_channel_serve(&all->kernel, batch_of_all);
        child_channel_post(&all->turn, CHILD_CHANNEL_END);
    }
    MPI_Finalize();
    return 0;
}

/* Nothing that is typed is for a rank. */
static int become_mpiexec(char **argv)
{
    char path[PATH_BYTES], number[16];
    char *words[] = {HEAT_MPIEXEC, "-n", number, argv[0], path, argv[2], NULL};
    int null = open("/dev/null", O_RDWR);

    snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)getpid(), argv[1]);
    snprintf(number, sizeof(number), "%d", atoi(argv[2]));
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    execv(words[0], words);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc != 3 || strchr(argv[2], ':') == NULL)
        return 2;
    return argv[1][0] == '/' ? run_rank(argv[1], argv[2]) : become_mpiexec(argv);
}
