/* SPDX-License-Identifier: BSL-1.0 */
/* See child.h. */
#define _GNU_SOURCE
#include "child.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "child_channel.h"

#define ALIVE_CHECK_MS 1000

struct child {
    pid_t pid;                             /* 0: has ended */
    uint32_t turn;                         /* last one given */
    struct child_channel *channel;         /* shared with the child */
    char path[PATH_MAX];                   /* of its executable */
    char settings[CHILD_MAX_SETTINGS][96]; /* its environment, processors filled in */
    unsigned n_settings;
    uint64_t forks;     /* of all batches */
    uint64_t elsewhere; /* how many of these another thread ran */
};

/* The executable beside our own. */
static int find_program(const struct bench_row *row, struct child *child)
{
    const struct child_program *program = row->arg;
    ssize_t length = readlink("/proc/self/exe", child->path, sizeof child->path - 1);
    char *slash;
    size_t room;

    if (length < 0)
        return -errno;
    child->path[length] = '\0';
    slash = strrchr(child->path, '/');
    room = sizeof child->path - (size_t)(slash + 1 - child->path);
    if (snprintf(slash + 1, room, "%s", program->file) >= (int)room)
        return -ENAMETOOLONG;
    return access(child->path, X_OK) == 0 ? 0 : -errno;
}

static void write_settings(struct bench_row *row, struct child *child)
{
    const struct child_program *program = row->arg;
    json_t *list = json_array();

    for (unsigned i = 0; i < CHILD_MAX_SETTINGS && program->settings[i] != NULL; i++) {
        char *text = child->settings[child->n_settings++];
        const char *from = strstr(program->settings[i], "%d");

        if (from == NULL)
            snprintf(text, sizeof child->settings[0], "%s", program->settings[i]);
        else
            snprintf(text, sizeof child->settings[0], "%.*s{%d},{%d}",
                     (int)(from - program->settings[i]), program->settings[i],
                     bench_cpu(row->bench, 0), bench_cpu(row->bench, 1));
        json_array_append_new(list, json_string(text));
    }
    if (child->n_settings > 0)
        json_object_set(row->params, "settings", list);
    json_decref(list);
}

/* In the child: become the program. A child does not outlive us, stopped or not. */
static void become(struct child *child, const char *argument, int fd)
{
    char number[16];
    char *argv[] = {child->path, number, (char *)argument, NULL};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(number, sizeof number, "%d", fd);
    for (unsigned i = 0; i < child->n_settings; i++)
        putenv(child->settings[i]);
    execv(child->path, argv);
    _exit(127);
}

static int launch(const struct bench_row *row, struct child *child)
{
    const struct child_program *program = row->arg;
    int fd = memfd_create("umbra-bench", 0);
    int error = 0;

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, CHILD_CHANNEL_BYTES) == 0)
        child->channel = child_channel_map(fd);
    if (child->channel == NULL) {
        error = -errno;
    } else {
        child->channel->cpus[0] = bench_cpu(row->bench, 0);
        child->channel->cpus[1] = bench_cpu(row->bench, 1);
        child->pid = fork();
        if (child->pid == 0)
            become(child, program->argument, fd);
        if (child->pid < 0)
            error = -errno;
    }
    close(fd);
    return error;
}

static int run_in_child(struct child *child, struct bench_batch *batch)
{
    struct child_channel *channel = child->channel;

    channel->iterations = batch->iterations;
    child_channel_post(&channel->turn, ++child->turn);
    while (child_channel_wait(&channel->done, child->turn - 1, ALIVE_CHECK_MS) != child->turn) {
        if (waitpid(child->pid, NULL, WNOHANG) == child->pid) {
            child->pid = 0;
            return -ECHILD;
        }
    }
    batch->ns = channel->ns;
    batch->verified = channel->verified;
    child->forks += batch->iterations;
    child->elsewhere += channel->elsewhere;
    return 0;
}

static int child_run(struct bench_row *row, struct bench_batch *batch)
{
    return run_in_child(row->state, batch);
}

static int child_start(struct bench_row *row)
{
    struct child *child = row->state;

    return kill(child->pid, SIGCONT) == 0 ? 0 : -errno;
}

/* Returns when every thread of the child has stopped. */
static void child_stop(struct bench_row *row)
{
    struct child *child = row->state;
    int status = 0;

    if (child->pid == 0 || kill(child->pid, SIGSTOP) != 0)
        return;
    if (waitpid(child->pid, &status, WUNTRACED) == child->pid && !WIFSTOPPED(status))
        child->pid = 0;
}

static void child_close(struct bench_row *row)
{
    struct child *child = row->state;

    if (child->pid > 0) {
        kill(child->pid, SIGKILL);
        waitpid(child->pid, NULL, 0);
    }
    if (child->forks > 0)
        json_object_set_new(row->params, "elsewhere",
                            json_real((double)child->elsewhere / (double)child->forks));
    if (child->channel != NULL)
        munmap(child->channel, CHILD_CHANNEL_BYTES);
    free(child);
}

/* Starts the child, tries one iteration and stops it. */
static int child_open(struct bench_row *row)
{
    const struct child_program *program = row->arg;
    struct child *child = calloc(1, sizeof *child);
    struct bench_batch trial = {.iterations = 1};
    int error;

    if (child == NULL)
        return -ENOMEM;
    row->state = child;
    error = find_program(row, child);
    if (error == 0) {
        write_settings(row, child);
        error = launch(row, child);
    }
    if (error == 0)
        error = run_in_child(child, &trial);
    if (error == 0) {
        child_stop(row);
        return 0;
    }
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
