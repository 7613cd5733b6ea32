/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What Linux itself says of processors, siblings and threads: for tests that compare the library
 * with it. Needs _GNU_SOURCE before the first header.
 */
#ifndef UMBRA_TESTS_SIBLINGS_H
#define UMBRA_TESTS_SIBLINGS_H

#include <runner.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <umbra/shadow.h>

/* The processors of a list such as "0-3,6". */
static inline cpu_set_t set_of_list(const char *list)
{
    cpu_set_t set;
    char *at = (char *)list;

    CPU_ZERO(&set);
    while (*at >= '0' && *at <= '9') {
        unsigned long first = strtoul(at, &at, 10);
        unsigned long last = *at == '-' ? strtoul(at + 1, &at, 10) : first;

        for (; first <= last; first++)
            CPU_SET(first, &set);
        at += *at == ',';
    }
    return set;
}

/* The processors that the kernel calls siblings of this one, itself included. */
static inline cpu_set_t kernel_core(int cpu)
{
    char path[100], list[400] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
             cpu);
    file = fopen(path, "r");
    if (!file)
        cr_skip_test("no %s", path);
    cr_assert_not_null(fgets(list, sizeof(list), file));
    fclose(file);
    return set_of_list(list);
}

/* Where this thread of the process may run. */
static inline cpu_set_t allowed_to(int tid)
{
    static const char key[] = "Cpus_allowed_list:";
    char path[100], line[400];
    cpu_set_t set;
    FILE *file;

    CPU_ZERO(&set);
    snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
    file = fopen(path, "r");
    if (!file)
        cr_skip_test("no %s", path);
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, key, sizeof(key) - 1) == 0)
            set = set_of_list(line + sizeof(key) - 1 + strspn(line + sizeof(key) - 1, " \t"));
    fclose(file);
    return set;
}

static inline cpu_set_t just(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return set;
}

/* The machine, and what of it the process may use. */
struct machine {
    struct umbra_topology *topology;
    cpu_set_t allowed;
    cpu_set_t core[CPU_SETSIZE]; /* of each allowed processor: the allowed ones of its core */
};

/* Call it before any thread is bound. Skips where the topology is a description. */
static inline void look(struct machine *machine)
{
    cr_assert_eq(umbra_topology_create(NULL, &machine->topology), 0);
    if (!umbra_topology_info(machine->topology)->binds)
        cr_skip_test("threads cannot be bound here");
    cr_assert_eq(sched_getaffinity(0, sizeof(machine->allowed), &machine->allowed), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        CPU_ZERO(&machine->core[cpu]);
        if (CPU_ISSET(cpu, &machine->allowed)) {
            machine->core[cpu] = kernel_core(cpu);
            CPU_AND(&machine->core[cpu], &machine->core[cpu], &machine->allowed);
        }
    }
}

/* How many processors of its core may be used, itself included; 0: it may not. */
static inline int ways(const struct machine *machine, int cpu)
{
    return CPU_COUNT(&machine->core[cpu]);
}

/* What a shadow finds out about its thread. */
struct whereabouts {
    int tid;
    int cpu;
};

static inline void tell_whereabouts(void *arg)
{
    struct whereabouts *found = arg;

    *found = (struct whereabouts){gettid(), sched_getcpu()};
}

/* Asks the shadow. */
static inline struct whereabouts whereabouts_of(struct umbra_shadow *shadow)
{
    struct whereabouts found = {0, -1};

    cr_assert_eq(shadow_fork(shadow, tell_whereabouts, &found), 0);
    cr_assert_eq(shadow_join(shadow), 0);
    return found;
}

#endif
