/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The OpenMP side of stream, in a process of its own: a parallel region a pass, each thread its
 * range, as a static loop divides it; the operations come compiled. Each thread is the first to
 * touch its range. Told what to do by child_channel.h; the kernel sets the environment that binds
 * the threads and makes them wait actively.
 */
#define _GNU_SOURCE
#include "child_channel.h"
#include "stream_case.h"

#include <omp.h>

#define PROBLEMS_MOST 64
#define KEPT_BYTES ((size_t)1 << 29) /* larger ones are freed when another problem comes */

struct problem {
    uint64_t number;
    struct stream_arrays arrays;
    void *memory;
    size_t bytes;
    bool checked; /* once is enough: the passes are all the same */
};

static struct problem problems[PROBLEMS_MOST];
static unsigned n_problems;

/* Elements from one array to the next: each begins a page. */
static size_t apart(size_t elements)
{
    return (elements + 511) / 512 * 512;
}

static void drop_large(const struct problem *but)
{
    for (unsigned i = 0; i < n_problems; i++)
        if (&problems[i] != but && problems[i].bytes > KEPT_BYTES) {
            free(problems[i].memory);
            problems[i].memory = NULL;
        }
}

static void fill(struct problem *problem, int threads)
{
    struct stream_arrays *arrays = &problem->arrays;

    problem->bytes = 3 * apart(arrays->elements) * sizeof(double);
    problem->memory = aligned_alloc(4096, problem->bytes);
    if (problem->memory == NULL)
        exit(2);
    arrays->a = problem->memory;
    arrays->b = arrays->a + apart(arrays->elements);
    arrays->c = arrays->b + apart(arrays->elements);
#pragma omp parallel num_threads(threads)
    {
        unsigned i = (unsigned)omp_get_thread_num();

        stream_fill(arrays, stream_begin(arrays->elements, i, (unsigned)threads),
                    stream_begin(arrays->elements, i + 1, (unsigned)threads));
    }
}

static struct problem *problem_of(uint64_t number, int threads)
{
    struct problem *problem = problems;

    while (problem < problems + n_problems && problem->number != number)
        problem++;
    if (problem == problems + PROBLEMS_MOST)
        exit(2);
    if (problem == problems + n_problems) {
        n_problems++;
        problem->number = number;
        problem->arrays.elements = (size_t)1 << (number >> 8 & 0xff);
    }
    drop_large(problem);
    if (problem->memory == NULL)
        fill(problem, threads);
    return problem;
}

static void batch(struct child_channel *channel)
{
    enum stream_operation operation = (enum stream_operation)(channel->problem & 0xff);
    int threads = (int)(channel->problem >> 16);
    struct problem *problem = problem_of(channel->problem, threads);
    const struct stream_arrays *arrays = &problem->arrays;
    uint64_t iterations = channel->iterations, begin = child_channel_now_ns(), passes = 0;

    for (uint64_t i = 0; i < iterations; i++) {
#pragma omp parallel num_threads(threads) reduction(+ : passes)
        {
            unsigned k = (unsigned)omp_get_thread_num();

            stream_run(operation, arrays, stream_begin(arrays->elements, k, (unsigned)threads),
                       stream_begin(arrays->elements, k + 1, (unsigned)threads));
            passes++;
        }
    }
    channel->own_ns = child_channel_now_ns() - begin;
    channel->verified = passes / (uint64_t)threads;
    channel->elsewhere = 0;
    if (!problem->checked && !stream_check(operation, arrays))
        channel->verified = 0;
    problem->checked = true;
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 1 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL)
        return 2;
    child_channel_serve(channel, batch);
}
