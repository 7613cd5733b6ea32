/* SPDX-License-Identifier: BSL-1.0 */
/* The oneTBB side of start: a loop with a part for each thread. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <new>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>

#include "start_child.h"

static unsigned region(const child_channel *channel)
{
    tbb::task_scheduler_handle threads{tbb::attach{}};

    tbb::parallel_for(0u, channel->n_cpus, [](unsigned) {});
    return tbb::finalize(threads, std::nothrow);
}

int main(int argc, char **argv)
{
    return start_child(argc, argv, region);
}
