/* SPDX-License-Identifier: BSL-1.0 */
/* The rows of the kernel heat-adaptive that need no other runtime, in processes of their own: one
 * processor, or the dispatcher. */
#define _GNU_SOURCE
#include "heat_adaptive_child.h"

#include <string.h>

#include <umbra/core.h>

static struct heat_adaptive_child child;
static bool serial;

static void batch(struct child_channel *channel)
{
    char cpus[CHILD_CHANNEL_LIST_BYTES];
    struct umbra_options options = {
        .cpus = child_channel_list(channel, (unsigned)child.run.processors, cpus), .quiet = true};

    channel->own_ns = channel->verified = 0;
    if (!serial && umbra_runtime_create(&options, &child.run.runtime) != 0)
        return;
    heat_adaptive_batch(channel, &child, serial ? adaptive_serial : adaptive_dispatch);
    umbra_runtime_destroy(child.run.runtime);
    child.run.runtime = NULL;
}

/* "serial/" before the argument: on one processor, by calls. */
int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 2 ? child_channel_map(atoi(argv[1])) : NULL;
    const char *after = argc > 2 ? strchr(argv[2], '/') : NULL;

    serial = after != NULL;
    if (channel == NULL || !heat_adaptive_create(&child, channel, after ? after + 1 : argv[2]))
        return 2;
    child_channel_serve(channel, batch);
}
