/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Whether there is as much memory as a program is going to need: what is not there may be given all
 * the same, and be missed when it is touched.
 */
#ifndef EXAMPLES_MEMORY_H
#define EXAMPLES_MEMORY_H

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The least that a control group, and those that it is in, allow: a number in a file of each. What
 * is no number ("max") or no file, as above what a container sees, is no limit. */
static inline double memory_of_group(const char *mount, char *group, const char *file)
{
    double least = INFINITY, limit;
    char path[PATH_MAX], *end;

    do {
        FILE *limits;

        snprintf(path, sizeof(path), "%s%s/%s", mount, group, file);
        limits = fopen(path, "r");
        if (limits) {
            if (fscanf(limits, "%lf", &limit) == 1 && limit < least)
                least = limit;
            fclose(limits);
        }
        end = strrchr(group, '/');
        if (end)
            *end = '\0';
    } while (end);
    return least;
}

/* Bytes that the process's control groups allow it (cgroups(7)). Its lines are number:controllers:group;
 * those of version 2 name no controllers. */
static inline double memory_of_groups(void)
{
    FILE *groups = fopen("/proc/self/cgroup", "r");
    double least = INFINITY, limit;
    char line[PATH_MAX];

    while (groups && fgets(line, sizeof(line), groups)) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;

        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (strcmp(controllers, ":") == 0)
            limit = memory_of_group("/sys/fs/cgroup", group, "memory.max");
        else if (strcmp(controllers, ":memory") == 0)
            limit = memory_of_group("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
        else
            continue;
        least = limit < least ? limit : least;
    }
    if (groups)
        fclose(groups);
    return least;
}

/* Of all that the machine and the groups have: what others use of it is not looked at. */
static inline bool memory_suffices(double bytes)
{
    double pages = (double)sysconf(_SC_PHYS_PAGES), page_bytes = (double)sysconf(_SC_PAGESIZE);

    return (pages <= 0 || bytes <= pages * page_bytes) && bytes <= memory_of_groups();
}

#endif
