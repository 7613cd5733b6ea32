// SPDX-License-Identifier: BSL-1.0
// As reaches.c, in C++.
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <thread>

static thread_local int local = 17;

// The streams' buffers are those of the process.
static int streams()
{
    std::ios::sync_with_stdio(false);
    std::cin.tie(nullptr);
    std::cout << "" << std::flush;
    return std::cout.good() ? 0 : 1;
}

static int thread()
{
    int seen = 0;

    local = 18;
    std::thread([&] { seen = local; }).join();
    return seen == 17 && local == 18 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && std::strcmp(argv[1], "streams") == 0)
        return streams();
    return argc > 1 && std::strcmp(argv[1], "thread") == 0 ? thread() : 2;
}
