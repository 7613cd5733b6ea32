/* SPDX-License-Identifier: BSL-1.0 */
/* libumbra.so loaded by a program in C++, without its headers: user LIBRARY. */
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

#include <dlfcn.h>

namespace {

struct fiber {
    void *block;
    std::uint64_t generation;
};

void *library;

/* A function of the library, as what the caller asks for. */
template <typename function> function *find(const char *name)
{
    void *found = dlsym(library, name);

    if (!found) {
        std::printf("%s\n", dlerror());
        std::exit(1);
    }
    return reinterpret_cast<function *>(found);
}

bool check(bool ok, const char *what)
{
    std::printf("%s: %s\n", what, ok ? "ok" : "FAILED");
    return ok;
}

/* True if it is as it should be, or if there is no second hardware thread. */
bool shadow_runs_a_function()
{
    auto fork = find<int(void *, void (*)(void *), void *)>("shadow_fork");
    auto join = find<int(void *)>("shadow_join");
    void *shadow = std::malloc(find<std::size_t()>("umbra_sizeof_shadow")());
    int error = find<int(void *, const void *)>("shadow_create")(shadow, nullptr);
    int count = 0;

    for (int i = 0; error == 0 && i < 1000; i++) {
        error = fork(
            shadow, [](void *arg) { ++*static_cast<int *>(arg); }, &count);
        error = error == 0 ? join(shadow) : error;
    }
    find<int(void *)>("shadow_destroy")(shadow);
    std::free(shadow);
    return error == -ENODEV || (error == 0 && count == 1000);
}

void *doubled(void *number)
{
    find<void()>("umbra_yield")();
    return reinterpret_cast<void *>(2 * reinterpret_cast<std::intptr_t>(number));
}

void *spawn_and_join(void *sum)
{
    auto spawn = find<int(void *(*)(void *), void *, fiber *)>("umbra_spawn");
    auto join = find<int(fiber, std::uint64_t, void **)>("umbra_join");
    fiber fibers[10];

    for (std::intptr_t i = 0; i < 10; i++)
        if (spawn(doubled, reinterpret_cast<void *>(i), &fibers[i]) != 0)
            return nullptr;
    for (fiber each : fibers) {
        void *result;

        if (join(each, UINT64_MAX, &result) == 0)
            *static_cast<std::intptr_t *>(sum) += reinterpret_cast<std::intptr_t>(result);
    }
    return nullptr;
}

void add(std::size_t begin, std::size_t end, void *sum)
{
    for (; begin < end; begin++)
        *static_cast<std::atomic<std::size_t> *>(sum) += begin;
}

void *add_in_parallel(void *sum)
{
    using range = void(std::size_t, std::size_t, void *);

    find<void(std::size_t, std::size_t, std::size_t, range *, void *)>("umbra_parallel_for")(
        0, 100000, 1000, add, sum);
    return nullptr;
}

} // namespace

int main(int argc, char **argv)
{
    library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!library) {
        std::printf("usage: user LIBRARY; %s\n", argc == 2 ? dlerror() : "");
        return 2;
    }
    auto run = find<int(const void *, void *(*)(void *), void *)>("umbra_run");
    std::atomic<std::size_t> sum{0};
    std::intptr_t results = 0;
    bool ok = check(shadow_runs_a_function(), "a shadow runs a function");

    ok &= check(run(nullptr, spawn_and_join, &results) == 0 && results == 90, "spawn and join");
    ok &= check(run(nullptr, add_in_parallel, &sum) == 0 && sum == 4999950000, "parallel for");
    ok &= check(dlclose(library) == 0 && dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == library,
                "it stays when it is closed");
    return ok ? 0 : 1;
}
