/* SPDX-License-Identifier: BSL-1.0 */
/* How much memory of a process is resident, exactly. C. */
#ifndef UMBRA_BENCH_RESIDENT_H
#define UMBRA_BENCH_RESIDENT_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Pages in memory that are the caller's process's alone: what it has written since it was forked, for
 * one. Page by page: the sums in /proc/self/status are off by some pages a processor. 0 where there
 * is no such file.
 */
static inline uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    unsigned long clean = 0, dirty = 0;
    char line[256];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        sscanf(line, "Private_Clean: %lu", &clean);
        sscanf(line, "Private_Dirty: %lu", &dirty);
    }
    if (file != NULL)
        fclose(file);
    return 1024 * (uint64_t)(clean + dirty);
}

/* What measure() finds in a process that is made for it. */
static inline uint64_t resident_elsewhere(uint64_t (*measure)(void *arg), void *arg)
{
    uint64_t *found = (uint64_t *)mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t bytes;
    pid_t pid;

    if (found == MAP_FAILED)
        return 0;
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        *found = measure(arg);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, NULL, 0) != pid)
        *found = 0;
    bytes = *found;
    munmap(found, sizeof(*found));
    return bytes;
}

#endif
