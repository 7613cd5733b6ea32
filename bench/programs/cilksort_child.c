/* SPDX-License-Identifier: BSL-1.0 */
/* The rows of the kernel cilksort that need no other runtime, in a process of their own: one
 * processor, and Umbra's tasks. */
#define _GNU_SOURCE
#include "cilksort_child.h"

#include <umbra.h>

static struct cilksort_child child;

static int start_runtime(const struct child_channel *channel)
{
    char text[CHILD_CHANNEL_LIST_BYTES];
    struct umbra_options options = {.cpus = child_channel_list(channel, channel->n_cpus, text),
                                    .quiet = true};

    return umbra_runtime_create(&options, &child.setting.runtime);
}

static void batch(struct child_channel *channel)
{
    static sort_fn *const ways[] = {
        [WAY_QSORT] = sort_qsort,
        [WAY_SERIAL] = sort_serial,
        [WAY_UMBRA] = sort_umbra,
    };
    enum cilksort_way way = cilksort_case_unpack(channel->problem).way;

    if (way == WAY_UMBRA && start_runtime(channel) != 0) {
        channel->verified = 0;
        return;
    }
    cilksort_child_batch(channel, &child, ways[way]);
    umbra_runtime_destroy(child.setting.runtime);
    child.setting.runtime = NULL;
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 2 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL || !cilksort_child_create(&child, channel, argv[2]))
        return 2;
    child_channel_serve(channel, batch);
}
