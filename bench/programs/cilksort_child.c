/* SPDX-License-Identifier: BSL-1.0 */
/* The rows of the kernel cilksort that need no other runtime: one processor, in one process, and
 * Umbra's tasks, in another. */
#define _GNU_SOURCE
#include "cilksort_child.h"

#include <umbra.h>

static struct cilksort_child child;
static struct umbra_runtime *runtime; /* of the first batch of tasks, and of all others */

static void *umbra_batch(void *channel)
{
    cilksort_child_batch(channel, &child, sort_umbra);
    return NULL;
}

/* A sort is timed in a fiber, and cores that wait do not sleep in the kernel: OpenMP's sort is timed
 * in one of its threads, and none of these sleeps. */
static int run_umbra(struct child_channel *channel)
{
    char text[CHILD_CHANNEL_LIST_BYTES];
    struct umbra_options options = {.cpus = child_channel_list(channel, channel->n_cpus, text),
                                    .wait.block_cycles = UMBRA_NEVER,
                                    .quiet = true};
    int error = runtime ? 0 : umbra_runtime_create(&options, &runtime);

    return error != 0 ? error : umbra_runtime_run(runtime, umbra_batch, channel);
}

static void batch(struct child_channel *channel)
{
    static sort_fn *const ways[] = {[WAY_QSORT] = sort_qsort, [WAY_SERIAL] = sort_serial};
    enum cilksort_way way = cilksort_case_unpack(channel->problem).way;

    if (way != WAY_UMBRA)
        cilksort_child_batch(channel, &child, ways[way]);
    else if (run_umbra(channel) != 0)
        channel->verified = 0;
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 2 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL || !cilksort_child_create(&child, channel, argv[2]))
        return 2;
    child_channel_serve(channel, batch);
}
