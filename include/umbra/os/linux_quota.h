/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The processor time that control groups (cgroups(7)) allow this process, on Linux. Private;
 * included by os.h only.
 *
 * A group may have so many us (its quota) in each period, together with the groups below it: of a
 * process's group and all above it the least counts. Version 2 says it in cpu.max ("50000 100000",
 * or "max 100000"), version 1 in cpu.cfs_quota_us (-1: no limit) and cpu.cfs_period_us. The groups
 * are where systems mount them, /sys/fs/cgroup and /sys/fs/cgroup/cpu. A container may see there
 * only what is below its own group, and still know its group by the host's path: what is not there
 * limits nothing, and the mount itself is then the container's group.
 */
#ifndef UMBRA_OS_LINUX_QUOTA_H
#define UMBRA_OS_LINUX_QUOTA_H

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* The folder that stands for / here; tests have another. */
#ifndef UM_QUOTA_ROOT
#define UM_QUOTA_ROOT ""
#endif

UM_LINKONCE UM_COLD unsigned um_os_quota(void);

#ifdef UMBRA_IMPLEMENTATION

#define UM_QUOTA_PATH 1024
#define UM_QUOTA_FILE 24 /* room for the name of a group's file */

/* Reads a file's beginning, which is "" if that fails. One call is enough for files like these. */
UM_LINKONCE UM_COLD void um_quota_read(const char *path, char *text, size_t room)
{
    long length = 0;
    long fd =
        um_linux_syscall(SYS_openat, UM_LINUX_AT_FDCWD, path, O_RDONLY | UM_LINUX_O_CLOEXEC, 0);

    if (fd >= 0) {
        length = um_linux_syscall(SYS_read, fd, text, room - 1);
        um_linux_syscall(SYS_close, fd);
    }
    text[length > 0 ? length : 0] = '\0';
}

/* The processors that a group may keep busy, rounded up; UINT_MAX: it has no limit. path: of the
 * group, without a 0 behind it, but with room for a file's name. */
UM_LINKONCE UM_COLD unsigned um_quota_of(char *path, size_t length, bool unified)
{
    unsigned long long quota = 0, period = 0;
    char text[64];

    strcpy(path + length, unified ? "/cpu.max" : "/cpu.cfs_period_us");
    um_quota_read(path, text, sizeof(text));
    if (unified) {
        sscanf(text, "%llu %llu", &quota, &period);
    } else {
        sscanf(text, "%llu", &period);
        strcpy(path + length, "/cpu.cfs_quota_us");
        um_quota_read(path, text, sizeof(text));
        if (text[0] != '-')
            sscanf(text, "%llu", &quota);
    }
    if (quota == 0 || period == 0 || (quota - 1) / period >= UINT_MAX)
        return UINT_MAX;
    return (unsigned)((quota - 1) / period) + 1;
}

/* The least limit of a group and of those above it. group: its path, up to the end of the line. */
UM_LINKONCE UM_COLD unsigned um_quota_above(const char *mount, const char *group, bool unified)
{
    char path[UM_QUOTA_PATH];
    size_t top = (size_t)snprintf(path, sizeof(path), "%s%s", UM_QUOTA_ROOT, mount);
    size_t length = top + strcspn(group, "\n");
    unsigned least = UINT_MAX;

    if (length + UM_QUOTA_FILE > sizeof(path))
        return UINT_MAX;
    memcpy(path + top, group, length - top);
    for (;;) {
        unsigned limit = um_quota_of(path, length, unified);

        least = limit < least ? limit : least;
        if (length <= top + 1)
            return least;
        do
            length--;
        while (length > top && path[length] != '/');
    }
}

/* True if a list of controllers, which ends with a colon, names that of the processors. */
UM_LINKONCE UM_COLD bool um_quota_is_of_cpu(const char *names)
{
    size_t length = strcspn(names, ",:");

    while (names[length] == ',' && !(length == 3 && strncmp(names, "cpu", 3) == 0)) {
        names += length + 1;
        length = strcspn(names, ",:");
    }
    return length == 3 && strncmp(names, "cpu", 3) == 0;
}

UM_LINKONCE UM_COLD unsigned um_os_quota(void)
{
    char path[UM_QUOTA_PATH], text[4096];
    unsigned least = UINT_MAX;
    int saved = errno;
    const char *names;

    snprintf(path, sizeof(path), "%s/proc/self/cgroup", UM_QUOTA_ROOT);
    um_quota_read(path, text, sizeof(text));
    names = strchr(text, ':'); /* lines of "number:names:group"; version 2 has no names */
    while (names != NULL) {
        const char *group = strchr(names + 1, ':');
        unsigned limit = UINT_MAX;

        if (group == NULL)
            break;
        if (group == names + 1)
            limit = um_quota_above("/sys/fs/cgroup", group + 1, true);
        else if (um_quota_is_of_cpu(names + 1))
            limit = um_quota_above("/sys/fs/cgroup/cpu", group + 1, false);
        least = limit < least ? limit : least;
        names = strchr(group, '\n');
        names = names != NULL ? strchr(names, ':') : NULL;
    }
    errno = saved;
    return least == UINT_MAX ? 0 : least;
}
#endif /* UMBRA_IMPLEMENTATION */

#endif
