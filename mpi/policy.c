/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What becomes a fiber, and what a process: executables, limits, and how many there were of each. A
 * limit is a variable of the environment, or, for one spawn, a key of its MPI_Info; both are read
 * at each spawn.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <umbra/base/environment.h>

#include "library.h"

/* Since the program began; only the numbers count. */
static um_atomic_u32 most_live, fibers, processes;

/* ---- executables ---- */

struct program {
    char *command;
    char *path;
    struct stat was;
    struct umbra_image *image; /* NULL: cannot be held */
    char why[256];
    struct program *next;
};

static pthread_mutex_t programs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct program *programs;

/* Where a command is: itself, or in a folder of PATH, or in this folder. The caller frees. */
static char *path_of(const char *command)
{
    const char *folders = getenv("PATH");
    char *path = NULL;

    if (strchr(command, '/'))
        return strdup(command);
    while (folders && *folders) {
        size_t length = strcspn(folders, ":");

        if (asprintf(&path, "%.*s/%s", (int)length, folders, command) < 0)
            return NULL;
        if (access(path, X_OK) == 0)
            return path;
        free(path);
        folders += length + (folders[length] == ':');
    }
    return strdup(command);
}

static bool same_file(const struct program *program)
{
    struct stat is;

    return stat(program->path, &is) == 0 && is.st_ino == program->was.st_ino &&
           is.st_dev == program->was.st_dev && is.st_mtim.tv_sec == program->was.st_mtim.tv_sec &&
           is.st_mtim.tv_nsec == program->was.st_mtim.tv_nsec && is.st_size == program->was.st_size;
}

static struct program *program_read(const char *command)
{
    struct program *program = calloc(1, sizeof(*program));

    if (!program)
        return NULL;
    program->command = strdup(command);
    program->path = path_of(command);
    if (!program->command || !program->path) {
        free(program->command);
        free(program->path);
        free(program);
        return NULL;
    }
    if (stat(program->path, &program->was) != 0 ||
        umbra_image_open(program->path, &program->image) != 0) {
        program->image = NULL;
        snprintf(program->why, sizeof(program->why), "%.255s", umbra_last_error_text());
    }
    program->next = programs;
    programs = program;
    return program;
}

/* A file that has changed is read anew; children of the old one may still run. */
static struct program *program_of(const char *command)
{
    struct program *program;

    pthread_mutex_lock(&programs_lock);
    for (program = programs; program && strcmp(program->command, command) != 0;
         program = program->next) {
    }
    if (!program || !same_file(program))
        program = program_read(command);
    pthread_mutex_unlock(&programs_lock);
    return program;
}

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

/* Why children of this executable cannot be in this process; NULL: they can. */
static const char *refuses(const struct program *program, MPI_Info info)
{
    if (!program)
        return "no memory";
    if (!program->image)
        return program->why;
    if (has_place(info))
        return "its MPI_Info names a host or folder";
    if (limit_of(info, "umbra_same_executable", "UMBRA_MPI_SAME_EXECUTABLE", 1, 0) &&
        !is_own(&program->was))
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

/* Counts the children as live; else returns why they must be processes. */
static const char *admit(const struct um_spawn *spawn, MPI_Info info)
{
    if (spawn->task->depth + 1 >
        limit_of(info, "umbra_depth", "UMBRA_MPI_DEPTH", UINT32_MAX, UINT32_MAX))
        return "children of children are too deep for this process";
    if (!live_add((uint32_t)spawn->told.total,
                  limit_of(info, "umbra_limit", "UMBRA_MPI_LIMIT", UINT32_MAX, UINT32_MAX)))
        return "the limit of children in this process is reached";
    return NULL;
}

const char *um_policy_admit(const struct um_asked *asked, struct um_spawn *spawn)
{
    const char *why = NULL;

    spawn->held = calloc((size_t)asked->commands, sizeof(spawn->held[0]));
    if (!spawn->held)
        return "no memory";
    for (int i = 0; i < asked->commands && !why; i++) {
        struct program *program = program_of(asked->command[i]);

        why = refuses(program, asked->info[i]);
        if (!why)
            spawn->held[i].image = program->image;
    }
    if (!why && !um_reserve_has())
        why = "no memory, address space or mappings are left";
    if (!why)
        why = admit(spawn, asked->info[0]);
    for (int i = 0; i < asked->commands && !why; i++)
        spawn->held[i].stack_bytes =
            limit_of(asked->info[i], "umbra_stack_bytes", "UMBRA_MPI_STACK_BYTES", SIZE_MAX, 0);
    return why;
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
