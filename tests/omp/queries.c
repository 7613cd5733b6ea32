/* SPDX-License-Identifier: BSL-1.0 */
/* All that a program can ask for, as the environment has set it, and allocators. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void settings(void)
{
    omp_sched_t kind;
    int chunk;

    omp_get_schedule(&kind, &chunk);
    printf("threads %d, procs %d, dynamic %d, nested %d, levels %d of %d, limit %d\n",
           omp_get_max_threads(), omp_get_num_procs(), omp_get_dynamic(), omp_get_nested(),
           omp_get_max_active_levels(), omp_get_supported_active_levels(), omp_get_thread_limit());
    printf("schedule %x %d, priority %d, bind %d, places %d, teams %d %d\n", (unsigned)kind, chunk,
           omp_get_max_task_priority(), (int)omp_get_proc_bind(), omp_get_num_places(),
           omp_get_max_teams(), omp_get_teams_thread_limit());
    printf("devices %d %d %d %d %d\n", omp_get_num_devices(), omp_get_default_device(),
           omp_get_initial_device(), omp_get_device_num(), omp_is_initial_device());
}

static void levels(void)
{
    omp_set_dynamic(0);
    omp_set_num_threads(2);
    omp_set_nested(1);
    printf("nested %d\n", omp_get_nested());
#pragma omp parallel
#pragma omp parallel
#pragma omp single
#pragma omp critical
    {
        static int printed;

        if (printed++ == 0)
            printf("inside: %d threads, level %d %d, size %d %d %d %d, next %d, proc_bind %d\n",
                   omp_get_num_threads(), omp_get_level(), omp_get_active_level(),
                   omp_get_team_size(0), omp_get_team_size(1), omp_get_team_size(2),
                   omp_get_team_size(3), omp_get_max_threads(), (int)omp_get_proc_bind());
    }
}

static void allocators(void)
{
    omp_alloctrait_t traits[] = {
        {omp_atk_alignment, 256}, {omp_atk_pool_size, 10000}, {omp_atk_fallback, omp_atv_null_fb}};
    omp_allocator_handle_t own = omp_init_allocator(omp_default_mem_space, 3, traits);
    omp_allocator_handle_t limited = omp_init_allocator(omp_default_mem_space, 2, traits + 1);
    char *a = omp_alloc(1000, own), *b = omp_alloc(20000, own), *c;
    volatile size_t much = SIZE_MAX;

    printf("allocators: %d %d %d", a != NULL, (int)((uintptr_t)a % 256), b == NULL);
    memset(a, 7, 1000);
    a = omp_realloc(a, 2000, own, own);
    printf(" %d %d", a[0], a[999]);
    omp_free(a, own);
    a = omp_alloc(9000, own);
    printf(" %d", a != NULL);
    omp_free(a, omp_null_allocator);
    a = omp_realloc(omp_alloc(9000, limited), 9500, limited, limited);
    printf(" %d %d", a != NULL, omp_realloc(a, 20000, limited, limited) != NULL);
    omp_free(a, limited);
    omp_destroy_allocator(limited);
    printf(" %d %d", omp_alloc(much, omp_default_mem_alloc) != NULL,
           omp_calloc(2, much, omp_cgroup_mem_alloc) != NULL);
    omp_destroy_allocator(own);
    c = omp_calloc(10, 10, omp_default_mem_alloc);
    printf(" %d", c[0] + c[99]);
    omp_free(c, omp_default_mem_alloc);
    c = omp_aligned_alloc(512, 512, omp_null_allocator);
    printf(" %d %d\n", (int)((uintptr_t)c % 512), (int)omp_get_default_allocator());
    omp_free(c, omp_null_allocator);
}

static void affinity(void)
{
    char text[200];
    size_t bytes = omp_capture_affinity(text, sizeof(text), "%{nesting_level}|%5n|%0.4N|%a|%%|x");

    printf("affinity: %zu %s\n", bytes, text);
    bytes = omp_get_affinity_format(text, sizeof(text));
    printf("format: %zu %s\n", bytes, text);
    omp_set_affinity_format("%.3L");
    bytes = omp_capture_affinity(text, 3, NULL);
    printf("short: %zu %s\n", bytes, text);
}

/* A target region has the settings of the environment, and leaves none of its own. */
static void target(void)
{
    int threads = -1, team = -1, own[3] = {1, 2, 3}, *none = NULL;

    omp_set_num_threads(7);
#pragma omp target teams num_teams(3) thread_limit(2)
#pragma omp parallel if (0)
    omp_set_num_threads(5);
#pragma omp target thread_limit(3) firstprivate(own, none) map(from : threads, team)
    {
        threads = omp_get_max_threads() + 100 * omp_get_thread_limit() + (none != NULL);
        team = omp_get_team_num();
        own[1] += 5;
        omp_set_num_threads(5);
    }
    printf("target: threads %d, team %d, %d; then %d of %d, limit %d, team %d\n", threads, team,
           own[1], omp_get_max_threads(), omp_get_num_teams(), omp_get_thread_limit(),
           omp_get_team_num());
}

/* A region at the program's end, also where there could be none before. */
static void last(void)
{
    int members = 0;

#pragma omp parallel num_threads(2) reduction(+ : members)
    members++;
    printf("last %d\n", members);
}

int main(void)
{
    atexit(last);
    settings();
    levels();
    target();
    allocators();
    affinity();
    return 0;
}
