/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What becomes a fiber, and what a process: limits, and how many there were of each. A limit is a
 * variable of the environment, or, for one spawn, a key of its MPI_Info; both are read at each
 * spawn.
 */
#define _GNU_SOURCE
#include <sys/stat.h>

#include <umbra/base/environment.h>

#include "library.h"

/* Since the program began; only the numbers count. */
static um_atomic_u32 most_live, fibers, processes;

/* ---- limits ---- */

/* True if the key has a value; no value is too long for MPI, but those of limits are short. */
static bool has_key(MPI_Info info, const char *key, char *value, int bytes)
{
    int flag = 0, length = 0;

    if (info != MPI_INFO_NULL)
        um_mpi.Info_get_valuelen(info, key, &length, &flag);
    if (flag && length < bytes)
        um_mpi.Info_get(info, key, length, value, &flag);
    else if (flag && bytes > 0)
        snprintf(value, (size_t)bytes, "of %d bytes", length);
    return flag != 0;
}

size_t um_policy_number(const char *name, const char *text, size_t most, size_t otherwise)
{
    const char *end = text;
    uint64_t number;

    if (!text || !*text)
        return otherwise;
    if (!um_number_read(&end, most, &number) || *end) {
        fprintf(stderr, "umbra_mpi: %s '%s' is no number from 0 to %zu\n", name, text, most);
        exit(2);
    }
    return number;
}

/* A number of the MPI_Info, or else of the environment. */
static size_t limit_of(MPI_Info info, const char *key, const char *variable, size_t most,
                       size_t otherwise)
{
    char value[32];

    if (has_key(info, key, value, sizeof(value)))
        return um_policy_number(key, value, most, otherwise);
    return um_policy_number(variable, getenv(variable), most, otherwise);
}

size_t um_policy_stack_bytes(MPI_Info info)
{
    return limit_of(info, "umbra_stack_bytes", "UMBRA_MPI_STACK_BYTES", SIZE_MAX, 0);
}

/* Where a process must begin is not ours to choose. */
static bool has_place(MPI_Info info)
{
    static const char *const keys[] = {"host", "hosts", "wdir", "file", "hostfile"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (has_key(info, keys[i], NULL, 0))
            return true;
    return false;
}

/* True if it is the executable of this process. */
static bool is_own(const struct stat *file)
{
    struct stat own;

    return stat("/proc/self/exe", &own) == 0 && own.st_ino == file->st_ino &&
           own.st_dev == file->st_dev;
}

const char *um_policy_refuses(const struct stat *file, MPI_Info info)
{
    if (has_place(info))
        return "its MPI_Info names a host or folder";
    if (limit_of(info, "umbra_same_executable", "UMBRA_MPI_SAME_EXECUTABLE", 1, 0) && !is_own(file))
        return "it is another executable than this process's";
    return NULL;
}

static bool live_add(uint32_t count, size_t limit)
{
    uint32_t live = um_atomic_load(&um_live, relaxed), most; /* only the number counts */

    do
        if (live + count > limit || live + count < live)
            return false;
    while (!um_atomic_cas(&um_live, &live, live + count, relaxed, relaxed));
    most = um_atomic_load(&most_live, relaxed);
    while (most < live + count &&
           !um_atomic_cas(&most_live, &most, live + count, relaxed, relaxed)) {
    }
    um_atomic_fetch_add(&fibers, count, relaxed);
    return true;
}

const char *um_policy_admit(unsigned depth, uint32_t count, MPI_Info info)
{
    if (depth > limit_of(info, "umbra_depth", "UMBRA_MPI_DEPTH", UINT32_MAX, UINT32_MAX))
        return "children of children are too deep for this process";
    if (!live_add(count, limit_of(info, "umbra_limit", "UMBRA_MPI_LIMIT", UINT32_MAX, UINT32_MAX)))
        return "the limit of children in this process is reached";
    return NULL;
}

/* ---- counts ---- */

void um_policy_not_started(uint32_t count)
{
    um_atomic_fetch_add(&um_live, (uint32_t)-count, relaxed);
    um_atomic_fetch_add(&fibers, (uint32_t)-count, relaxed);
}

void um_policy_count_processes(uint32_t count)
{
    um_atomic_fetch_add(&processes, count, relaxed);
}

bool um_policy_verbose(void)
{
    return um_policy_number("UMBRA_MPI_VERBOSE", getenv("UMBRA_MPI_VERBOSE"), 1, 0) != 0;
}

void um_policy_report(void)
{
    uint32_t inside = um_atomic_load(&fibers, relaxed),
             outside = um_atomic_load(&processes, relaxed);

    if (um_policy_verbose() && inside + outside > 0)
        fprintf(stderr,
                "umbra_mpi: %u children in this process, at most %u at a time; %u processes\n",
                inside, um_atomic_load(&most_live, relaxed), outside);
}
