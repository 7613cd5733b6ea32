// SPDX-License-Identifier: BSL-1.0
// oneTBB's rows of the kernel heat-adaptive, in processes of their own with examples/heat/adaptive_tbb.cpp.
#include "heat_adaptive_child.h"

#include <oneapi/tbb/global_control.h>

namespace {

heat_adaptive_child child;

void batch(child_channel *channel)
{
    heat_adaptive_batch(channel, &child, adaptive_tbb);
}

} // namespace

int main(int argc, char **argv)
{
    child_channel *channel = argc > 2 ? child_channel_map(std::atoi(argv[1])) : nullptr;

    if (channel == nullptr || !heat_adaptive_create(&child, channel, argv[2]))
        return 2;
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, child.run.processors);
    child_channel_serve(channel, batch);
}
