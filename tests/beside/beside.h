/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Where threads may run: for tests of Umbra beside libraries with threads of their own. Needs
 * _GNU_SOURCE before the first header.
 */
#ifndef UMBRA_TESTS_BESIDE_H
#define UMBRA_TESTS_BESIDE_H

#include <fibers.h>
#include <siblings.h>

#include <dirent.h>

/* What the thread that starts the runtime may use; set by note_allowed(). */
static cpu_set_t allowed;

static inline void note_allowed(void)
{
    cr_assert_eq(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
}

/* True if the calling thread may use all that the process may. */
static inline bool may_use_all(void)
{
    cpu_set_t own;

    return sched_getaffinity(0, sizeof(own), &own) == 0 && CPU_EQUAL(&own, &allowed);
}

/* True if the calling fiber's core is bound to its processor. */
static inline bool core_is_bound(void)
{
    cpu_set_t one = just(core_cpu(umbra_runtime_self(), (unsigned)umbra_core_index()));
    cpu_set_t own;

    return sched_getaffinity(0, sizeof(own), &own) == 0 && CPU_EQUAL(&own, &one);
}

/* How many threads of the process may use all that it may, and how many there are. */
struct census_of_threads {
    int all;
    int threads;
};

static inline struct census_of_threads count_threads(void)
{
    struct census_of_threads census = {0, 0};
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;

    while (tasks && (entry = readdir(tasks)) != NULL) {
        cpu_set_t set;

        if (entry->d_name[0] == '.')
            continue;
        set = allowed_to(atoi(entry->d_name));
        census.threads++;
        census.all += CPU_EQUAL(&set, &allowed);
    }
    if (tasks)
        closedir(tasks);
    return census;
}

#endif
