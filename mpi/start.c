/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The program's main as a fiber of a runtime, begin and end of MPI, and MPI's own functions. The
 * library defines __libc_start_main, which the program's first instructions call with its main.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

#include <umbra/base/environment.h>

#include "library.h"

#define MAIN_STACK_MOST (UINT64_C(64) << 20)

typedef int main_fn(int argc, char **argv, char **envp);
typedef int start_fn(main_fn *fn, int argc, char **argv, void (*init)(void), void (*fini)(void),
                     void (*rtld_fini)(void), void *stack_end);

/* ---- MPI's functions ---- */

static void mpi_find(void)
{
#define UM_MPI_FIND(name)                                                                          \
    {                                                                                              \
        void *found = dlsym(RTLD_DEFAULT, "PMPI_" #name);                                          \
        memcpy(&um_mpi.name, &found, sizeof(found));                                               \
    }
    UM_MPI_FUNCTIONS(UM_MPI_FIND)
#undef UM_MPI_FIND
}

/* ---- main ---- */

static struct {
    main_fn *fn;
    int argc;
    char **argv, **envp;
} program;

/* Another main stack's size, but not without an end: address space. */
static size_t main_stack(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur > MAIN_STACK_MOST)
        return MAIN_STACK_MOST;
    return limit.rlim_cur < UMBRA_STACK_BYTES ? UMBRA_STACK_BYTES : (size_t)limit.rlim_cur;
}

static void *main_fiber(void *arg)
{
    (void)arg;
    um_host_begin();
    exit(program.fn(program.argc, program.argv, program.envp));
}

/* The number in a variable of MPI's launcher; otherwise: there is none, or it is none. */
static unsigned number_of(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    uint64_t value;

    return text && um_number_read(&text, INT32_MAX, &value) && !*text ? (unsigned)value : otherwise;
}

/* Processes of one machine that mpiexec started together share its processors: the r-th of n takes
 * the r-th part. The text is a list for umbra_options.cpus. */
static const char *cpus_of(char *text, size_t bytes)
{
    unsigned processes = number_of("MPI_LOCALNRANKS", 1), rank = number_of("MPI_LOCALRANKID", 0);
    unsigned all, first, last, seen = 0;
    size_t at = 0;
    cpu_set_t set;

    if (processes < 2 || rank >= processes || sched_getaffinity(0, sizeof(set), &set) != 0)
        return NULL;
    all = (unsigned)CPU_COUNT(&set);
    first = all >= processes ? rank * all / processes : rank % all;
    last = all >= processes ? (rank + 1) * all / processes : first + 1;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE && at + 8 < bytes; cpu++) {
        if (!CPU_ISSET(cpu, &set))
            continue;
        if (seen >= first && seen < last)
            at += (size_t)snprintf(text + at, bytes - at, "%s%u", at > 0 ? "," : "", cpu);
        seen++;
    }
    return at > 0 ? text : NULL;
}

/* Runs main in a fiber, which exits. Comes back if no fiber can go on, or there is no runtime. */
static int main_run(int argc, char **argv, char **envp)
{
    char cpus[1024];
    unsigned cores =
        (unsigned)um_policy_number("UMBRA_MPI_CORES", getenv("UMBRA_MPI_CORES"), INT32_MAX, 0);
    struct umbra_options options = {.cores = cores};
    struct umbra_spawn_options spawn = {
        .where = UMBRA_ON_CORE, .name = "main", .stack_bytes = main_stack()};
    int error;

    program.argc = argc;
    program.argv = argv;
    program.envp = envp;
    if (cores == 0)
        options.cpus = cpus_of(cpus, sizeof(cpus));
    error = umbra_runtime_create(&options, &um_runtime);
    if (error == -ENOSPC) { /* more cores than there are: all */
        options.cores = 0;
        error = umbra_runtime_create(&options, &um_runtime);
    }
    if (error == 0)
        error = umbra_spawn_with(um_runtime, &spawn, main_fiber, NULL, NULL);
    if (error != 0) {
        um_runtime = NULL;
        fprintf(stderr, "umbra_mpi: children become processes: %s\n", umbra_last_error_text());
        return program.fn(argc, argv, envp);
    }
    umbra_runtime_wait(um_runtime); /* it prints the fibers */
    fputs("umbra_mpi: no task can go on: each waits for another\n", stderr);
    fflush(NULL);
    _Exit(1);
}

__attribute__((__visibility__("default"))) int
__libc_start_main(main_fn *fn, int argc, char **argv, void (*init)(void), void (*fini)(void),
                  void (*rtld_fini)(void), void *stack_end)
{
    void *found = dlsym(RTLD_NEXT, "__libc_start_main");
    start_fn *of_system;

    memcpy(&of_system, &found, sizeof(found));
    mpi_find();
    if (!um_mpi.Init_thread) /* no MPI program */
        return of_system(fn, argc, argv, init, fini, rtld_fini, stack_end);
    program.fn = fn;
    return of_system(main_run, argc, argv, init, fini, rtld_fini, stack_end);
}

/* ---- begin and end ---- */

static int init(int *argc, char ***argv, int wanted, int *level)
{
    struct um_mpi_task *task = um_mpi_task_self();
    int error;

    if (task != &um_host) {
        task->initialized = true;
        error = MPI_SUCCESS;
    } else {
        if (!um_mpi.Init_thread)
            mpi_find();
        /* Children call MPI on all cores. */
        error = um_mpi.Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &um_provided);
    }
    *level = task->level = wanted < um_provided ? wanted : um_provided;
    return error;
}

int MPI_Init(int *argc, char ***argv)
{
    int level;

    return init(argc, argv, MPI_THREAD_SINGLE, &level);
}

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *level)
{
    return init(argc, argv, wanted, level);
}

int MPI_Query_thread(int *level)
{
    *level = um_mpi_task_self()->level;
    return MPI_SUCCESS;
}

int MPI_Initialized(int *flag)
{
    const struct um_mpi_task *task = um_mpi_task_self();

    if (!um_mpi.Initialized)
        mpi_find();
    if (task == &um_host)
        return um_mpi.Initialized(flag);
    *flag = task->initialized;
    return MPI_SUCCESS;
}

int MPI_Finalized(int *flag)
{
    const struct um_mpi_task *task = um_mpi_task_self();

    if (!um_mpi.Finalized)
        mpi_find();
    if (task == &um_host)
        return um_mpi.Finalized(flag);
    *flag = task->finalized;
    return MPI_SUCCESS;
}

static bool no_child(void *arg)
{
    (void)arg;
    return um_atomic_load(&um_live, acquire) == 0; /* what they did; pairs with child_ended() */
}

/* The program's main waits for its children; with processes MPI does. */
int MPI_Finalize(void)
{
    struct um_mpi_task *task = um_mpi_task_self();

    if (task != &um_host) {
        task->finalized = true;
        return MPI_SUCCESS;
    }
    um_mpi_task_wait(task, no_child, NULL);
    um_policy_report();
    return um_mpi.Finalize();
}

/* Ends the tasks of the communicator: the caller now, each other at its next call. */
int MPI_Abort(MPI_Comm handle, int code)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);

    if (!comm)
        return um_mpi.Abort(handle, code);
    for (int i = 0; i < comm->local->size; i++) {
        struct um_mpi_task *member = comm->local->task[i];

        if (member == task)
            continue;
        /* 8 bits are what an exit has, and -1 must not become 0. release: pairs with wait_over() */
        um_atomic_store(&member->aborted, ((uint32_t)code & 0xff) + 1, release);
        um_mpi_task_ring(member);
    }
    um_mpi_task_leave(code);
}
