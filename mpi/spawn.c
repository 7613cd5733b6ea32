/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Spawning. A group of children becomes fibers if its communicator is inside, or has only this
 * process; if all executables can be held (image.h); and if the limit allows all of them. Else the
 * whole group becomes processes, spawned on a thread of its own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "library.h"

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

/* ---- ends ---- */

/* The first member from `from` on that has not ended; size: none. */
static uint32_t first_live(const struct um_mpi_group *group, uint32_t from)
{
    /* seq_cst: of two that end at once, one sees that all have; pairs with task_end() */
    while (from < (uint32_t)group->size && um_atomic_load(&group->task[from]->ended, seq_cst) != 0)
        from++;
    return from;
}

/* True if no member is left but one. The members before `live` have ended: each end looks at few. */
static bool all_ended(struct um_mpi_group *group, const struct um_mpi_task *but)
{
    /* relaxed: an older number only takes longer */
    uint32_t live = first_live(group, um_atomic_load(&group->live, relaxed));

    um_atomic_store(&group->live, live, relaxed);
    if (live < (uint32_t)group->size && group->task[live] == but)
        live = first_live(group, live + 1);
    return live == (uint32_t)group->size;
}

/* Ends the receives of one peer, in some uses, that only the ending task could have sent to. */
static void peer_fail(struct um_comm *comm, struct um_mpi_task *peer, enum um_use first,
                      uint32_t uses)
{
    bool all = all_ended(comm->local, peer), probed;
    struct um_receive *receive;

    while ((receive = um_box_orphan(&peer->box, comm->id * UM_USES + first, uses, comm->rank, all,
                                    &probed))) {
        um_side_end(&receive->done, UM_FAILED);
        um_mpi_task_ring(peer);
    }
    if (probed) /* it looks whether a source is left */
        um_mpi_task_ring(peer);
}

static void group_fail(struct um_mpi_task *task, struct um_comm *comm,
                       const struct um_mpi_group *peers, enum um_use first, uint32_t uses)
{
    for (int i = 0; i < peers->size; i++)
        /* acquire: its box is closed, then nothing waits there */
        if (peers->task[i] != task && um_atomic_load(&peers->task[i]->ended, acquire) == 0)
            peer_fail(comm, peers->task[i], first, uses);
}

/* What is used between the members of a group is not between two groups: ranks mean others there. */
static void peers_fail(struct um_mpi_task *task, struct um_comm *comm)
{
    if (!comm->remote) {
        group_fail(task, comm, comm->local, UM_POINT, UM_USES);
        return;
    }
    group_fail(task, comm, comm->remote, UM_POINT, UM_LOCALLY);
    group_fail(task, comm, comm->local, UM_LOCALLY, 1);
}

static void requests_free(struct um_mpi_task *task)
{
    for (unsigned i = 0; i < task->requests.count; i++) {
        struct um_request *request = um_table_get(&task->requests, i);

        if (!request)
            continue;
        um_request_withdraw(task, request);
        um_request_discard(request);
        um_comm_put(request->comm);
        free(request);
    }
}

static void task_end(struct um_mpi_task *task)
{
    requests_free(task);
    um_atomic_store(&task->ended, 1, seq_cst); /* before the looks at peers; see all_ended() */
    um_messages_drop(um_box_close(&task->box));
    for (unsigned i = 0; i < task->comms.count; i++) {
        struct um_comm *comm = um_table_get(&task->comms, i);

        if (comm)
            peers_fail(task, comm);
    }
    for (unsigned i = 0; i < task->comms.count; i++) {
        struct um_comm *comm = um_table_get(&task->comms, i);

        if (comm)
            um_comm_put(comm);
    }
    for (unsigned i = 0; i < task->groups.count; i++)
        if (um_table_get(&task->groups, i))
            um_mpi_group_put(um_table_get(&task->groups, i));
    um_launch_put(task->launch);
    um_mpi_task_put(task);
}

/* In the child's fiber. */
static void child_ended(void *arg, int status)
{
    struct um_mpi_task *task = arg;

    if (WIFSIGNALED(status))
        fprintf(stderr, "umbra_mpi: a child ended by signal %d: %s\n", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    task_end(task);
    /* release: all that the child did; pairs with no_child() */
    um_atomic_fetch_add(&um_live, (uint32_t)-1, release);
    um_mpi_task_ring(&um_host);
}

/* ---- children in this process ---- */

/* One call's arguments: of MPI_Comm_spawn() a single command. Only the root's say what is spawned. */
struct spawn {
    bool multiple; /* MPI_Comm_spawn_multiple() */
    int commands;
    char **command;
    char ***argv; /* MPI_ARGVS_NULL: none has any */
    const int *count;
    const MPI_Info *info;
    int total;
    unsigned depth;  /* of the children */
    const char *why; /* it becomes processes */
    char text[160];  /* or empty: the reason, if only the start has it */
};

static struct um_launch *launch_make(const char *command, char *const *argv)
{
    struct um_launch *launch = malloc(sizeof(*launch));
    size_t count = 0, made = 0;

    while (argv && argv[count])
        count++;
    if (launch)
        launch->argv = calloc(count + 2, sizeof(char *));
    if (!launch || !launch->argv) {
        free(launch);
        return NULL;
    }
    um_atomic_store(&launch->refs, 1, relaxed);
    for (; made <= count; made++) {
        launch->argv[made] = strdup(made == 0 ? command : argv[made - 1]);
        if (!launch->argv[made])
            break;
    }
    if (made > count)
        return launch;
    um_launch_put(launch);
    return NULL;
}

static struct um_mpi_task *task_make(struct um_launch *launch, int appnum, unsigned depth)
{
    struct um_mpi_task *task = aligned_alloc(UMBRA_CACHE_LINE, (sizeof(*task) + 63) / 64 * 64);

    if (!task)
        return NULL;
    memset(task, 0, sizeof(*task));
    task->bell = (struct umbra_event)UMBRA_EVENT_INIT;
    um_atomic_store(&task->refs, 1, relaxed);
    um_atomic_fetch_add(&launch->refs, 1, relaxed);
    task->launch = launch;
    task->appnum = appnum;
    task->depth = depth;
    return task;
}

/* What the new children have in common. */
struct family {
    struct um_mpi_group *parents, *children;
    uint32_t world, between;
};

/* The communicators that a child begins with. False: no memory. */
static bool child_comms(struct um_mpi_task *task, int rank, const struct family *family)
{
    struct um_mpi_group *self = um_mpi_group_make(1);

    if (!self)
        return false;
    self->task[0] = task;
    um_atomic_fetch_add(&task->refs, 1, relaxed);
    task->world =
        um_comm_make(task, family->world, rank, um_mpi_group_hold(family->children), NULL);
    task->self = um_comm_make(task, um_comm_id(), 0, self, NULL);
    task->parent = um_comm_make(task, family->between, rank, um_mpi_group_hold(family->children),
                                um_mpi_group_hold(family->parents));
    return task->world && task->self && task->parent;
}

static bool tasks_make(const struct spawn *spawn, struct um_mpi_group *children)
{
    int made = 0;

    for (int i = 0; i < spawn->commands; i++) {
        char *const *argv = spawn->argv ? spawn->argv[i] : NULL;
        struct um_launch *launch =
            spawn->count[i] > 0 ? launch_make(spawn->command[i], argv) : NULL;

        if (!launch && spawn->count[i] > 0)
            break;
        for (int k = 0; k < spawn->count[i]; k++, made++) {
            children->task[made] = task_make(launch, i, spawn->depth);
            if (!children->task[made])
                break;
            um_atomic_fetch_add(&children->task[made]->refs, 1, relaxed); /* the group's */
        }
        if (launch)
            um_launch_put(launch); /* the tasks hold it */
    }
    children->size = made;
    return made == spawn->total;
}

static int start(struct um_mpi_task *task, struct umbra_image *image, size_t stack_bytes)
{
    struct umbra_child_options options = {
        .argv = task->launch->argv,
        .ended = child_ended,
        .arg = task,
        .spawn = {.where = UMBRA_ANYWHERE, .stack_bytes = stack_bytes}};

    if (!um_with_threads())
        options.spawn.where = UMBRA_ON_CORE;
    return umbra_child_start(um_runtime, image, &options, NULL);
}

/* What the root tells the other members. */
struct told {
    int error;
    uint32_t between;
    struct um_mpi_group *children;
    struct outcome *outcome;
};

/* What became of each child; each member of the spawning group has a reference. */
struct outcome {
    um_atomic_u32 refs;
    int count, code[];
};

static struct outcome *outcome_make(int count, int members)
{
    struct outcome *outcome = malloc(sizeof(*outcome) + (size_t)count * sizeof(outcome->code[0]));

    if (!outcome)
        return NULL;
    um_atomic_store(&outcome->refs, (uint32_t)members, relaxed); /* before the others know it */
    outcome->count = count;
    for (int i = 0; i < count; i++)
        outcome->code[i] = MPI_ERR_SPAWN;
    return outcome;
}

/* The member's own copy. */
static void outcome_put(struct outcome *outcome, int *codes)
{
    if (outcome && codes != MPI_ERRCODES_IGNORE)
        memcpy(codes, outcome->code, (size_t)outcome->count * sizeof(codes[0]));
    /* acq_rel: the reads of the others; the last one frees */
    if (outcome && um_atomic_fetch_add(&outcome->refs, (uint32_t)-1, acq_rel) == 1)
        free(outcome);
}

/* False: the first child cannot be started, and no other has been. Others that cannot have ended:
 * those before them run. */
static bool all_start(struct spawn *spawn, struct umbra_image *const *image,
                      const struct family *family, struct told *told)
{
    int rank = 0;

    for (int i = 0; i < spawn->commands; i++) {
        size_t stack_bytes = um_policy_stack_bytes(spawn->info[i]);

        for (int k = 0; k < spawn->count[i]; k++, rank++) {
            struct um_mpi_task *task = family->children->task[rank];
            bool room = child_comms(task, rank, family);
            bool good = room && start(task, image[i], stack_bytes) == 0;

            if (!good && rank == 0) {
                snprintf(spawn->text, sizeof(spawn->text), "%.159s",
                         room ? umbra_last_error_text() : "no memory");
                return false;
            }
            if (!good) {
                task_end(task);
                um_policy_not_started(1);
                told->error = MPI_ERR_SPAWN;
            }
            told->outcome->code[rank] = good ? MPI_SUCCESS : MPI_ERR_SPAWN;
        }
    }
    return true;
}

/* Reasons for processes; NULL: none. */
static const char *find_images(struct spawn *spawn, struct umbra_image **image)
{
    for (int i = 0; i < spawn->commands; i++) {
        struct program *program = program_of(spawn->command[i]);
        const char *why;

        if (!program)
            return "no memory";
        if (!program->image)
            return program->why;
        why = um_policy_refuses(&program->was, spawn->info[i]);
        if (why)
            return why;
        image[i] = program->image;
    }
    if (!um_reserve_has())
        return "no memory, address space or mappings are left";
    return um_policy_admit(spawn->depth, (uint32_t)spawn->total, spawn->info[0]);
}

/* The root's part. NULL in children: processes. */
static struct told root_spawn(struct spawn *spawn, struct um_mpi_group *parents)
{
    struct umbra_image **image = calloc((size_t)spawn->commands, sizeof(struct umbra_image *));
    struct um_mpi_group *children = um_mpi_group_make(spawn->total);
    struct family family = {parents, children, um_comm_id(), um_comm_id()};
    struct told told = {MPI_SUCCESS, family.between, NULL,
                        outcome_make(spawn->total, parents->size)};

    if (children)
        children->size = 0; /* until it has tasks */
    spawn->why = image && children && told.outcome ? find_images(spawn, image) : "no memory";
    if (!spawn->why && tasks_make(spawn, children) && all_start(spawn, image, &family, &told)) {
        told.children = children;
    } else if (!spawn->why) {
        spawn->why = spawn->text[0] ? spawn->text : "no memory";
        for (int i = 0; i < children->size; i++)
            task_end(children->task[i]);
        um_policy_not_started((uint32_t)spawn->total);
        um_reserve_give_up();
    }
    if (!told.children)
        um_mpi_group_put(children);
    free(image);
    return told;
}

/* ---- real processes ---- */

struct real {
    struct spawn *spawn;
    MPI_Comm comm, *result;
    int root, *codes, error;
    bool is_root;
    bool created; /* the thread */
    struct umbra_event ended;
};

/* True if only this process is in MPI's communicator. */
static bool is_alone(MPI_Comm comm)
{
    int size = 0, inter = 1;

    return um_mpi.Comm_test_inter(comm, &inter) == MPI_SUCCESS && !inter &&
           um_mpi.Comm_size(comm, &size) == MPI_SUCCESS && size == 1;
}

/* Of spawns that only this process makes, one at a time. With others no turn can be kept: of two
 * spawns each process might begin another, and wait for the other process in it. */
static pthread_mutex_t real_lock = PTHREAD_MUTEX_INITIALIZER;

/* The error handler of the communicator is MPI's own, and may be that of other tasks' spawns, too. */
static void *real_run(void *arg)
{
    struct real *real = arg;
    struct spawn *spawn = real->spawn;
    MPI_Errhandler handler = MPI_ERRORS_ARE_FATAL;
    bool alone = is_alone(real->comm);

    if (alone)
        pthread_mutex_lock(&real_lock);
    um_mpi.Comm_get_errhandler(real->comm, &handler);
    um_mpi.Comm_set_errhandler(real->comm, MPI_ERRORS_RETURN);
    if (!spawn->multiple)
        real->error = um_mpi.Comm_spawn(spawn->command[0], spawn->argv ? spawn->argv[0] : NULL,
                                        spawn->count[0], spawn->info[0], real->root, real->comm,
                                        real->result, real->codes);
    else
        real->error = um_mpi.Comm_spawn_multiple(spawn->commands, spawn->command, spawn->argv,
                                                 spawn->count, spawn->info, real->root, real->comm,
                                                 real->result, real->codes);
    um_mpi.Comm_set_errhandler(real->comm, handler);
    if (alone)
        pthread_mutex_unlock(&real_lock);
    umbra_event_signal(&real->ended);
    return NULL;
}

static void thread_start(void *arg)
{
    struct real *real = arg;
    pthread_t thread;

    real->created = pthread_create(&thread, NULL, real_run, real) == 0;
    if (real->created)
        pthread_detach(thread);
}

static bool real_ended(void *arg)
{
    return umbra_event_wait(arg, 0) == 0;
}

/* The core runs other fibers meanwhile. The caller asks again and again, and so is no fiber that
 * waits: the runtime needs no hold. */
static int real_spawn(struct um_mpi_task *task, struct real *real)
{
    struct um_patience patience = {0, 0};

    real->ended = (struct umbra_event)UMBRA_EVENT_INIT;
    if (!umbra_runtime_self() || !um_with_threads()) { /* MPI may be called on this thread only */
        real_run(real);
        return real->error;
    }
    if (umbra_core_unbound(thread_start, real) != 0 || !real->created)
        return MPI_ERR_NO_MEM;
    while (!real_ended(&real->ended))
        um_mpi_task_pause(task, &patience);
    return real->error;
}

static int become_processes(struct um_mpi_task *task, struct real *real)
{
    int error;

    if (um_policy_verbose() && real->is_root)
        fprintf(stderr, "umbra_mpi: %s becomes a process: %s\n", real->spawn->command[0],
                real->spawn->why);
    um_reserve_spawning(1);
    error = real_spawn(task, real);
    um_reserve_spawning(-1);
    if (!real->is_root)
        return error;
    if (error != MPI_SUCCESS)
        fprintf(stderr,
                "umbra_mpi: %s cannot run in this process (%s), and MPI could not spawn it\n",
                real->spawn->command[0], real->spawn->why ? real->spawn->why : "asked for");
    else
        um_policy_count_processes((uint32_t)real->spawn->total);
    return error;
}

/* ---- MPI's calls ---- */

static int spawn_inside(struct um_mpi_task *task, struct um_comm *comm,
                        struct um_mpi_group *parents, struct spawn *spawn, int root,
                        struct um_comm **made, int *codes)
{
    struct told told = {MPI_SUCCESS, 0, NULL, NULL};
    struct um_collective call;
    int error = MPI_SUCCESS, rank = comm ? comm->rank : 0, size = parents->size;

    if (rank == root && spawn->total < 0) {
        spawn->why = "the number of children is negative, or too large";
    } else if (rank == root) {
        told = root_spawn(spawn, parents);
        if (told.children)
            um_atomic_fetch_add(&told.children->refs, (uint32_t)size - 1, relaxed);
    }
    if (size > 1) {
        um_collective_begin(&call, task, comm);
        error = um_broadcast(&call, UM_COLLECTIVE, &told, sizeof(told), MPI_BYTE, root);
    }
    outcome_put(told.outcome, codes);
    if (error != MPI_SUCCESS || !told.children)
        return error;
    *made = um_comm_make(task, told.between, rank, um_mpi_group_hold(parents), told.children);
    if (!*made)
        return MPI_ERR_NO_MEM;
    (*made)->first = true;
    (*made)->handler = comm ? comm->handler : MPI_ERRORS_ARE_FATAL;
    return told.error;
}

/* The host alone: its group, made once. */
static struct um_mpi_group *host_group(void)
{
    static struct um_mpi_group *group;
    static struct um_lock lock;

    um_lock_take(&lock);
    if (!group) {
        group = um_mpi_group_make(1);
        if (group) {
            group->task[0] = &um_host;
            um_atomic_fetch_add(&um_host.refs, 1, relaxed);
        }
    }
    um_lock_release(&lock);
    return group;
}

/* How many; -1: MPI must refuse that. In members other than the root the arguments may be anything. */
static int total_of(const struct spawn *spawn)
{
    int total = 0;

    for (int i = 0; i < spawn->commands; i++) {
        if (spawn->count[i] < 0 || spawn->count[i] > INT32_MAX - total)
            return -1;
        total += spawn->count[i];
    }
    return total;
}

static bool is_root(const struct um_comm *comm, MPI_Comm handle, int root)
{
    int rank = 0;

    if (comm)
        return comm->rank == root;
    return um_mpi.Comm_rank(handle, &rank) == MPI_SUCCESS && rank == root;
}

static int spawn_run(struct spawn *spawn, int root, MPI_Comm handle, MPI_Comm *result, int *codes,
                     const char *call)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle), *made = NULL;
    struct um_mpi_group *parents = comm ? comm->local : host_group();
    struct real real = {.spawn = spawn,
                        .comm = comm ? MPI_COMM_SELF : handle,
                        .result = result,
                        .root = comm ? 0 : root,
                        .codes = codes,
                        .is_root = is_root(comm, handle, root)};
    int error = MPI_SUCCESS;

    um_mpi_task_check(task);
    if (real.is_root)
        spawn->total = total_of(spawn);
    spawn->depth = task->depth + 1;
    *result = MPI_COMM_NULL;
    if (!um_runtime)
        spawn->why = "the program was not started by the library";
    else if (!comm && !is_alone(handle))
        spawn->why = "several processes spawn together";
    else if (!parents)
        return MPI_ERR_NO_MEM;
    else
        error = spawn_inside(task, comm, parents, spawn, root, &made, codes);
    if (made)
        *result = made->handle;
    if (error == MPI_SUCCESS && !made && comm && comm->local->size > 1)
        error = MPI_ERR_SPAWN;
    else if (error == MPI_SUCCESS && !made)
        error = become_processes(task, &real);
    if (error == MPI_SUCCESS || made)
        return error == MPI_SUCCESS ? error : um_error(task, made, error, call, "no child started");
    if (comm)
        return um_error(task, comm, error, call, "the children cannot become fibers");
    return um_mpi.Comm_call_errhandler(handle, error) ? error : error;
}

int MPI_Comm_spawn(const char *command, char *argv[], int count, MPI_Info info, int root,
                   MPI_Comm comm, MPI_Comm *result, int codes[])
{
    char *name = (char *)(uintptr_t)command;
    struct spawn spawn = {.commands = 1,
                          .command = &name,
                          .argv = argv ? &argv : NULL,
                          .count = &count,
                          .info = &info};

    return spawn_run(&spawn, root, comm, result, codes, "MPI_Comm_spawn");
}

int MPI_Comm_spawn_multiple(int commands, char *command[], char **argv[], const int count[],
                            const MPI_Info info[], int root, MPI_Comm comm, MPI_Comm *result,
                            int codes[])
{
    struct spawn spawn = {.multiple = true,
                          .commands = commands,
                          .command = command,
                          .argv = argv,
                          .count = count,
                          .info = info};

    return spawn_run(&spawn, root, comm, result, codes, "MPI_Comm_spawn_multiple");
}
