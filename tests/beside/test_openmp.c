/* SPDX-License-Identifier: BSL-1.0 */
/* OpenMP regions in fibers: libgomp where gcc compiles this, libomp where clang does. */
#define _GNU_SOURCE
#include "beside.h"

#include <omp.h>

#define TEAM 3 /* more threads than some machines have processors: they share */
#define TERMS 100000

/* What a region found. */
struct region {
    int team; /* threads */
    int all;  /* those that may use all processors */
    long sum;
};

static void run_region(void *arg)
{
    struct region *region = arg;
    int team = 0, all = 0;
    long sum = 0;

#pragma omp parallel num_threads(TEAM) reduction(+ : team, all, sum)
    {
        team = 1;
        all = may_use_all();
#pragma omp for
        for (int i = 1; i <= TERMS; i++)
            sum += i;
    }
    *region = (struct region){team, all, sum};
}

static void check_region(const struct region *region)
{
    cr_expect_eq(region->team, TEAM, "%d", region->team);
    cr_expect_eq(region->all, TEAM, "%d of them may use all processors", region->all);
    cr_expect_eq(region->sum, TERMS * (TERMS + 1L) / 2, "%ld", region->sum);
}

static void *has_regions(void *arg)
{
    for (int i = 0; i < 3; i++) {
        struct region region = {0, 0, 0};

        cr_expect(core_is_bound());
        cr_expect_eq(umbra_core_unbound(run_region, &region), 0);
        check_region(&region);
        cr_expect(core_is_bound(), "after region %d", i);
    }
    return arg;
}

Test(openmp, region_of_a_fiber_has_all_processors_and_its_core_is_bound_after)
{
    note_allowed();
    cr_assert_eq(run_cores(1, has_regions, NULL), 0);
    cr_assert(may_use_all());
}

Test(openmp, region_of_a_fiber_after_one_of_the_main_thread_likewise)
{
    struct region region = {0, 0, 0};

    note_allowed();
    run_region(&region);
    check_region(&region);
    cr_assert_eq(run_cores(1, has_regions, NULL), 0);
    cr_assert(may_use_all());
    run_region(&region);
    check_region(&region);
}

static void *has_regions_later(void *arg)
{
    struct region region = {0, 0, 0};

    cr_expect_eq(umbra_core_unbound(run_region, &region), 0);
    for (int i = 0; i < 3; i++) {
        run_region(&region);
        region.all += CPU_COUNT(&allowed) > 1; /* its own thread, which is bound */
        check_region(&region);
        cr_expect(core_is_bound());
    }
    return arg;
}

Test(openmp, later_regions_of_a_core_need_not_be_unbound)
{
    note_allowed();
    cr_assert_eq(run_cores(1, has_regions_later, NULL), 0);
}

static void *has_regions_on_each_core(void *arg)
{
    unsigned cores = umbra_runtime_cores(umbra_runtime_self());
    struct umbra_fiber fiber[2];

    for (unsigned i = 0; i < cores; i++) {
        struct umbra_spawn_options there = on_core(i);

        cr_expect_eq(umbra_spawn_with(NULL, &there, has_regions, NULL, &fiber[i]), 0);
    }
    for (unsigned i = 0; i < cores; i++)
        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(openmp, regions_of_several_cores_at_once)
{
    note_allowed();
    cr_assert_eq(run_cores(2, has_regions_on_each_core, NULL), 0);
}

Test(openmp, regions_in_a_runtime_after_another)
{
    note_allowed();
    for (int i = 0; i < 3; i++)
        cr_assert_eq(run_cores(2, has_regions_on_each_core, NULL), 0);
}

/* A region in a thread that is no core, which a fiber asks for and waits for. */
struct request {
    struct umbra_runtime *runtime;
    struct umbra_event asked;
    struct umbra_event done;
    struct region region;
};

static void *serves(void *arg)
{
    struct request *request = arg;

    cr_expect_eq(umbra_event_wait(&request->asked, UMBRA_NEVER), 0);
    run_region(&request->region);
    umbra_event_signal(&request->done);
    umbra_release(request->runtime);
    return NULL;
}

static void *asks(void *arg)
{
    struct request *request = arg;

    umbra_event_signal(&request->asked);
    cr_expect_eq(umbra_event_wait(&request->done, UMBRA_NEVER), 0);
    check_region(&request->region);
    cr_expect(core_is_bound());
    return NULL;
}

Test(openmp, region_of_a_plain_thread_for_a_fiber_that_waits)
{
    struct umbra_options options = {.cores = 1, .quiet = true};
    struct request request;
    pthread_t thread;

    note_allowed();
    request.asked = (struct umbra_event)UMBRA_EVENT_INIT;
    request.done = (struct umbra_event)UMBRA_EVENT_INIT;
    cr_assert_eq(umbra_runtime_create(&options, &request.runtime), 0);
    umbra_hold(request.runtime);
    cr_assert_eq(pthread_create(&thread, NULL, serves, &request), 0);
    cr_assert_eq(umbra_runtime_run(request.runtime, asks, &request), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    umbra_runtime_destroy(request.runtime);
}
