/* SPDX-License-Identifier: BSL-1.0 */
/* See child.h. */
#define _GNU_SOURCE
#include "child.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "child_channel.h"

#define ALIVE_CHECK_MS 1000
#define END_MS 2000        /* at most, until a child has ended */
#define SETTING_BYTES 2048 /* "{N}," for each processor, and a name */

_Static_assert(BENCH_MAX_CPUS <= CHILD_CHANNEL_CPUS, "a child is told of all processors");
_Static_assert(sizeof(struct child_channel) <= CHILD_CHANNEL_BYTES, "the channel has room");

struct child_process {
    unsigned rows;                                    /* that have it open */
    pid_t pid;                                        /* 0: has ended */
    uint32_t turn;                                    /* last one given */
    struct child_channel *channel;                    /* shared with the child */
    char path[BENCH_PATH_BYTES];                      /* of its executable */
    char settings[CHILD_MAX_SETTINGS][SETTING_BYTES]; /* its environment, processors filled in */
    unsigned n_settings;
};

/* A row's state. */
struct child {
    struct child_process *process;
    uint64_t forks;     /* of all batches */
    uint64_t elsewhere; /* how many of these another thread ran */
};

static int find_program(const struct bench_row *row, struct child_process *process)
{
    const struct child_program *program = row->arg;
    int error = bench_beside(program->file, process->path);

    if (error != 0)
        return error;
    return access(process->path, X_OK) == 0 ? 0 : -errno;
}

/* The processors that a child is told of: all of the kernel's, and two places at least. */
static unsigned told_cpus(const struct bench_row *row)
{
    return bench_cpus(row->bench) < 2 ? 2 : bench_cpus(row->bench);
}

static void write_settings(const struct bench_row *row, struct child_process *process)
{
    const struct child_program *program = row->arg;

    for (unsigned i = 0; i < CHILD_MAX_SETTINGS && program->settings[i] != NULL; i++) {
        char *text = process->settings[process->n_settings++];
        const char *from = strchr(program->settings[i], '%');
        int length = snprintf(text, SETTING_BYTES, "%s", program->settings[i]);

        if (from == NULL)
            continue;
        length = (int)(from - program->settings[i]);
        if (from[1] == 'u')
            snprintf(text + length, (size_t)(SETTING_BYTES - length), "%u", bench_cpus(row->bench));
        if (from[1] == 'u')
            continue;
        for (unsigned cpu = 0; cpu < told_cpus(row) && length < SETTING_BYTES; cpu++)
            length += snprintf(text + length, (size_t)(SETTING_BYTES - length), "%s{%d}",
                               cpu > 0 ? "," : "", bench_cpu(row->bench, cpu));
    }
}

static void state_settings(struct bench_row *row, const struct child_process *process)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < process->n_settings; i++)
        json_array_append_new(list, json_string(process->settings[i]));
    if (process->n_settings > 0)
        json_object_set(row->params, "settings", list);
    json_decref(list);
}

/* In the child: a library to preload comes before those that there are. */
static void set(char *setting)
{
    static char text[2 * SETTING_BYTES];
    const char *preloaded = getenv("LD_PRELOAD");
    int length = 0;

    if (preloaded && strncmp(setting, "LD_PRELOAD=", strlen("LD_PRELOAD=")) == 0)
        length = snprintf(text, sizeof(text), "%s:%s", setting, preloaded);
    putenv(length > 0 && (size_t)length < sizeof(text) ? text : setting);
}

/* In the child: become the program. A child does not outlive us, stopped or not. */
static void become(struct child_process *process, const char *argument, int fd)
{
    char number[16];
    char *argv[] = {process->path, number, (char *)argument, NULL};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(number, sizeof number, "%d", fd);
    for (unsigned i = 0; i < process->n_settings; i++)
        set(process->settings[i]);
    execv(process->path, argv);
    _exit(127);
}

static int launch(const struct bench_row *row, struct child_process *process)
{
    const struct child_program *program = row->arg;
    int fd = memfd_create("umbra-bench", 0);
    int error = 0;

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, CHILD_CHANNEL_BYTES) == 0)
        process->channel = child_channel_map(fd);
    if (process->channel == NULL) {
        error = -errno;
    } else {
        process->channel->n_cpus = bench_cpus(row->bench);
        for (unsigned i = 0; i < told_cpus(row); i++)
            process->channel->cpus[i] = bench_cpu(row->bench, i);
        process->pid = fork();
        if (process->pid == 0)
            become(process, program->argument, fd);
        if (process->pid < 0)
            error = -errno;
    }
    close(fd);
    return error;
}

/* A process of its own for the row, or the one that such rows share. 0 or a negative errno. */
static int join_process(struct bench_row *row, struct child *child)
{
    const struct child_program *program = row->arg;
    struct child_process *process = program->shared != NULL ? *program->shared : NULL;
    int error = 0;

    if (process == NULL) {
        process = calloc(1, sizeof *process);
        if (process == NULL)
            return -ENOMEM;
        error = find_program(row, process);
        if (error == 0) {
            write_settings(row, process);
            error = launch(row, process);
        }
        if (program->shared != NULL)
            *program->shared = process;
    }
    process->rows++;
    child->process = process;
    state_settings(row, process);
    return error;
}

/* The child ends by itself, or is killed if that takes too long. */
static void end_process(struct child_process *process)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    pid_t ended = 0;

    child_channel_post(&process->channel->turn, CHILD_CHANNEL_END);
    kill(process->pid, SIGCONT);
    for (int ms = 0; ms < END_MS && ended == 0; ms++) {
        nanosleep(&pause, NULL);
        ended = waitpid(process->pid, NULL, WNOHANG);
    }
    if (ended == 0) {
        kill(process->pid, SIGKILL);
        waitpid(process->pid, NULL, 0);
    }
}

/* The last one to leave ends it. */
static void leave_process(const struct bench_row *row, struct child_process *process)
{
    const struct child_program *program = row->arg;

    if (--process->rows > 0)
        return;
    if (process->pid > 0)
        end_process(process);
    if (process->channel != NULL)
        munmap(process->channel, CHILD_CHANNEL_BYTES);
    if (program->shared != NULL)
        *program->shared = NULL;
    free(process);
}

static int child_run(struct bench_row *row, struct bench_batch *batch)
{
    const struct child_program *program = row->arg;
    struct child *child = row->state;
    struct child_process *process = child->process;
    struct child_channel *channel = process->channel;

    channel->iterations = batch->iterations;
    channel->problem = program->problem;
    child_channel_post(&channel->turn, ++process->turn);
    while (child_channel_wait(&channel->done, process->turn - 1, ALIVE_CHECK_MS) != process->turn) {
        if (waitpid(process->pid, NULL, WNOHANG) == process->pid) {
            process->pid = 0;
            return -ECHILD;
        }
    }
    batch->ns = channel->ns;
    batch->verified = channel->verified;
    child->forks += batch->iterations;
    child->elsewhere += channel->elsewhere;
    return 0;
}

static int child_start(struct bench_row *row)
{
    const struct child_process *process = ((struct child *)row->state)->process;

    if (process->pid == 0)
        return -ECHILD;
    return kill(process->pid, SIGCONT) == 0 ? 0 : -errno;
}

/* Returns when every thread of the child has stopped. */
static void child_stop(struct bench_row *row)
{
    struct child_process *process = ((struct child *)row->state)->process;
    int status = 0;

    if (process->pid == 0 || kill(process->pid, SIGSTOP) != 0)
        return;
    if (waitpid(process->pid, &status, WUNTRACED) == process->pid && !WIFSTOPPED(status))
        process->pid = 0;
}

static void child_close(struct bench_row *row)
{
    struct child *child = row->state;

    if (child->forks > 0)
        json_object_set_new(row->params, "elsewhere",
                            json_real((double)child->elsewhere / (double)child->forks));
    if (child->process != NULL)
        leave_process(row, child->process);
    free(child);
}

/* One iteration in a process that runs already is tried after it was continued. */
static int try_once(struct bench_row *row)
{
    struct bench_batch trial = {.iterations = 1};
    int error = child_start(row);

    if (error == 0)
        error = child_run(row, &trial);
    if (error == 0)
        child_stop(row);
    return error;
}

/* Starts the child, tries one iteration and stops it. */
static int child_open(struct bench_row *row)
{
    const struct child_program *program = row->arg;
    struct child *child = calloc(1, sizeof *child);
    int error;

    if (child == NULL)
        return -ENOMEM;
    row->state = child;
    error = join_process(row, child);
    if (error == 0)
        error = try_once(row);
    if (error == 0)
        return 0;
    child_close(row);
    return bench_refuse(row, error, "%s: %s", program->file,
                        error == -ENOENT ? "not built" : "does not run here");
}

const struct bench_ops child_ops = {
    .open = child_open,
    .start = child_start,
    .run = child_run,
    .stop = child_stop,
    .close = child_close,
};
