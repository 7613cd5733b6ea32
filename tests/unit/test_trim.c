/* SPDX-License-Identifier: BSL-1.0 */
/* What a burst of fibers leaves in memory when cores have been idle for a while. */
#define _GNU_SOURCE
#include "fibers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(UMBRA_UNDER_TSAN) || defined(UMBRA_UNDER_ASAN)
#define FIBERS 200 /* each has memory of the sanitizer's */
#else
#define FIBERS 2000
#endif
#define USED_BYTES 40000 /* of each stack */
#define CORES 2u
#define MOST_S                                                                                     \
    60 /* until no more than the reserve is left: 1 s, or more if others use the processors */

/* ---- how much memory stacks have ---- */

static size_t slab_pages(const struct um_slab *slab)
{
    size_t bytes = slab->slots * slab->slot_bytes;
    size_t pages = bytes / um_os_page_bytes();
    unsigned char *in_memory = malloc(pages);
    size_t count = 0;

    if (!in_memory || mincore(slab->base, bytes, in_memory) != 0)
        _exit(77);
    for (size_t i = 0; i < pages; i++)
        count += in_memory[i] & 1;
    free(in_memory);
    return count;
}

/* No slab may come or go meanwhile. */
static size_t stack_bytes(void)
{
    size_t pages = 0;

    for (struct um_slab *slab = um_slabs.first; slab; slab = slab->listed)
        pages += slab_pages(slab);
    return pages * um_os_page_bytes();
}

/* The reserve that docs/limits.md states: the top page of each fiber that there was, and on each core
 * 16 stacks. */
static size_t reserve_bytes(size_t fibers)
{
    return fibers * um_os_page_bytes() + CORES * (size_t)16 * (USED_BYTES + 16384);
}

/* ---- bursts ---- */

static struct umbra_runtime *runtime;
static struct umbra_event all = UMBRA_EVENT_INIT_MANUAL; /* have been spawned */

static void *uses_stack(void *arg)
{
    volatile char used[USED_BYTES];

    for (size_t i = 0; i < sizeof(used); i += 1000)
        used[i] = 1;
    umbra_event_wait(&all, UMBRA_NEVER);
    return arg;
}

static struct umbra_event over = UMBRA_EVENT_INIT_MANUAL; /* the burst */
static _Atomic int gone;                                  /* the stacks, or the patience */

/* How and where a burst's fibers are spawned. */
struct burst {
    const char *name;
    struct umbra_spawn_options options;
    bool outside;  /* by a thread that is no core */
    bool detached; /* not joined */
    bool stays;    /* a fiber sleeps on while the core is idle */
};

static const struct burst bursts[] = {
    {.name = "here"},
    {.name = "here, beside a fiber that sleeps", .stays = true},
    {.name = "on another core", .options = {.where = UMBRA_ON_CORE, .core = 1}},
    {.name = "anywhere", .options = {.where = UMBRA_ANYWHERE}},
    {.name = "anywhere, detached", .options = {.where = UMBRA_ANYWHERE}, .detached = true},
    {.name = "of another size", .options = {.stack_bytes = 1 << 20}},
    {.name = "from outside", .outside = true},
    {.name = "from outside, detached", .outside = true, .detached = true},
    {.name = "from outside, on a core",
     .options = {.where = UMBRA_ON_CORE, .core = 1},
     .outside = true},
};

#define BURSTS ((int)(sizeof(bursts) / sizeof(bursts[0])))

/* Spawns and joins. */
static void run_burst(const struct burst *burst)
{
    static struct umbra_fiber fiber[FIBERS];

    for (int i = 0; i < FIBERS; i++)
        if (umbra_spawn_with(burst->outside ? runtime : NULL, &burst->options, uses_stack, NULL,
                             burst->detached ? NULL : &fiber[i]) != 0)
            _exit(1);
    if (!burst->outside)
        umbra_sleep_ns(10 * MS);
    umbra_event_signal(&all);
    for (int i = 0; i < FIBERS && !burst->detached; i++)
        if (umbra_join(fiber[i], UMBRA_NEVER, NULL) != 0)
            _exit(1);
}

static void *bursts_in_a_fiber(void *arg)
{
    const struct burst *burst = arg;

    run_burst(burst);
    umbra_event_signal(&over);
    if (burst->stays)
        while (!gone)
            umbra_sleep_ns(10 * MS);
    return NULL;
}

/* True if no more than the reserve is left within MOST_S. */
static bool goes_back(size_t most)
{
    struct timespec nap = {.tv_nsec = 50 * (long)MS};
    uint64_t end = umbra_now_ns() + MOST_S * SECOND;
    size_t left;

    do {
        nanosleep(&nap, NULL);
        left = stack_bytes();
    } while (left > most && umbra_now_ns() < end);
    if (left > most)
        fprintf(stderr, "%zu KiB of stacks are left, above %zu\n", left >> 10, most >> 10);
    gone = 1;
    return left <= most;
}

static int burst_and_idle(const struct burst *burst)
{
    struct umbra_options options = {.cores = CORES, .oversubscribe = true};
    size_t most = reserve_bytes(FIBERS + 100);

    if (umbra_runtime_create(&options, &runtime) != 0)
        return 1;
    if (burst->outside)
        run_burst(burst);
    else if (umbra_spawn_with(runtime, NULL, bursts_in_a_fiber, (void *)(uintptr_t)burst, NULL))
        return 1;
    if (burst->stays ? umbra_event_wait(&over, UMBRA_NEVER) : umbra_runtime_wait(runtime))
        return 1;
    if (!goes_back(most))
        return 1;
    if (umbra_runtime_wait(runtime) != 0)
        return 1;
    all = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
    if (umbra_runtime_run(runtime, bursts_in_a_fiber, (void *)(uintptr_t)&bursts[0]) != 0)
        return 1; /* fibers live on stacks that were given back */
    return umbra_runtime_destroy(runtime);
}

Test(trim, stacks_of_a_burst_go_back_while_cores_are_idle, .timeout = 300)
{
    pid_t pid[BURSTS];

#ifdef UMBRA_POSIX_ONLY
    cr_skip_test("the POSIX form gives nothing back");
#endif
    for (int i = 0; i < BURSTS; i++) {
        pid[i] = fork();
        cr_assert_geq(pid[i], 0);
        if (pid[i] == 0)
            _exit(burst_and_idle(&bursts[i]));
    }
    for (int i = 0; i < BURSTS; i++) {
        int status = 0;

        cr_assert_eq(waitpid(pid[i], &status, 0), pid[i]);
        cr_expect(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77),
                  "%s", bursts[i].name);
    }
}
