/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The paper's cilksort-start: has numbers sorted by a first cilksort-sort, which spawns others.
 *
 *     mpiexec -n 1 cilksort-start COUNT random|sorted|reversed|FILE [CUTOFF [SEED]]
 *
 * A FILE has COUNT numbers, as memory has them; SEED is that of random ones, 1 by default. Prints the
 * milliseconds that it took, and how many tasks; the paper has 13,313 of 3,000,000 random numbers.
 * Exit status: 0; 1 if the numbers are not in order or something could not be had; 2 for a bad
 * argument.
 */
#include "input.h"
#include "mpi_task.h"

#define COUNT_MOST 100000000

static const char *file; /* or NULL */
static enum input input;
static size_t seed = 1;

/* The number that is all of a text; 0: it is none. */
static size_t number_of(const char *text)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    return *text >= '0' && *text <= '9' && *end == '\0' && number <= COUNT_MOST ? number : 0;
}

/* What is wrong with the arguments, or NULL. */
static const char *read_arguments(int argc, char **argv, struct mpi_task *task)
{
    if (argc < 3 || argc > 5)
        return "usage: cilksort-start COUNT random|sorted|reversed|FILE [CUTOFF [SEED]]";
    task->counts[0] = number_of(argv[1]);
    task->cutoff = argc > 3 ? number_of(argv[3]) : CUTOFF;
    if (argc > 4)
        seed = number_of(argv[4]);
    if (task->counts[0] == 0)
        return "cilksort-start: COUNT: not a number from 1 to 100000000";
    if (task->cutoff < CUTOFF_LEAST)
        return "cilksort-start: CUTOFF: not a number from 4 to 100000000";
    if (seed == 0)
        return "cilksort-start: SEED: not a number from 1 to 100000000";
    file = input_read(argv[2], &input) ? NULL : argv[2];
    return NULL;
}

static bool fill(int *numbers, size_t count)
{
    FILE *in;
    size_t got;

    if (!file) {
        input_fill(numbers, count, input, seed);
        return true;
    }
    in = fopen(file, "rb");
    got = in ? fread(numbers, sizeof(*numbers), count, in) : 0;
    if (in)
        fclose(in);
    if (got < count)
        fprintf(stderr, "cilksort-start: there are not %zu numbers: '%s'\n", count, file);
    return got == count;
}

/* The folder that this program is in, for the others. */
static void set_folder(struct mpi_task *task, const char *program)
{
    static char folder[PATH_MAX];
    char *slash;

    snprintf(folder, sizeof(folder), "%s", program);
    slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    task->folder = slash ? folder : ".";
}

/* An exit status. */
static int sort(const struct mpi_task *task, int *numbers, size_t count)
{
    uint64_t sum = input_sum(numbers, count);
    double begin = MPI_Wtime();
    MPI_Comm child = mpi_spawn(task, "cilksort-sort", 1);
    size_t tasks = 1;

    mpi_send_sizes(child, 0, count, 0);
    MPI_Send(numbers, (int)count, MPI_INT, 0, NUMBERS, child);
    tasks += mpi_receive(child, 0, numbers, count);
    MPI_Comm_disconnect(&child);
    printf("%.3f ms, %zu tasks\n", (MPI_Wtime() - begin) * 1e3, tasks);
    if (input_in_order(numbers, count) && input_sum(numbers, count) == sum)
        return 0;
    fprintf(stderr, "cilksort-start: the numbers are not in order\n");
    return 1;
}

int main(int argc, char **argv)
{
    struct mpi_task task = {.cutoff = CUTOFF};
    const char *problem;
    int *numbers;
    int status;

    MPI_Init(&argc, &argv);
    problem = read_arguments(argc, argv, &task);
    if (problem) {
        fprintf(stderr, "%s\n", problem);
        MPI_Finalize();
        return 2;
    }
    set_folder(&task, argv[0]);
    numbers = mpi_allocate(task.counts[0]);
    status = fill(numbers, task.counts[0]) ? sort(&task, numbers, task.counts[0]) : 1;
    free(numbers);
    MPI_Finalize();
    return status;
}
