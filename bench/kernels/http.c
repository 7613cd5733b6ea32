/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The server of examples/http in its three ways, loaded by wrk over the loopback interface: the
 * server on one processor, wrk on another. A sample is the time of a run over the requests that it
 * answered; "p99_us" and "p999_us" are medians over the rounds of what wrk says of the latencies,
 * and "lost" counts the times, in all rounds, that wrk could not connect, waited too long, or saw a
 * connection end. A run without any answer counts as one request.
 *
 * Each turn has a server of its own, so that none inherits connections of another.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 15
#define ROUNDS_QUICK 5
#define MAX_SAMPLES 256
#define OTHER_DESCRIPTORS 50 /* of either process, besides a connection each */

struct load {
    const char *way;
    unsigned connections;
    unsigned seconds;
    pid_t server;
    unsigned port;
    unsigned samples;
    double p99[MAX_SAMPLES], p999[MAX_SAMPLES];
    uint64_t lost;
};

/* What wrk said: see http.lua. */
struct said {
    unsigned long long requests, us, wrong, lost, p50, p99, p999;
};

/* ---- processes ---- */

/* Starts a program on one processor; *from is its standard output. Its process id, or a negative
 * errno. */
static pid_t start_program(char *const *words, int cpu, FILE **from)
{
    int ends[2];
    cpu_set_t only;
    pid_t pid;

    if (pipe(ends) != 0)
        return -errno;
    pid = fork();
    if (pid == 0) {
        CPU_ZERO(&only);
        CPU_SET((unsigned)cpu, &only);
        sched_setaffinity(0, sizeof only, &only);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execvp(words[0], words);
        _exit(127);
    }
    close(ends[1]);
    *from = pid > 0 ? fdopen(ends[0], "r") : NULL;
    return pid > 0 ? pid : -errno;
}

/* 0, or -ECHILD: the program failed. */
static int end_program(pid_t pid)
{
    int status = 1;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status == 0 ? 0 : -ECHILD;
}

static int start(struct bench_row *row)
{
    struct load *load = row->state;
    char path[BENCH_PATH_BYTES];
    char *words[] = {path, "--way", (char *)load->way, "--cores", "1", NULL};
    FILE *from = NULL;
    int found, error = bench_beside(HTTP_SERVER, path);

    if (error != 0)
        return error;
    load->server = start_program(words, bench_cpu(row->bench, 0), &from);
    if (load->server < 0)
        return (int)load->server;
    found = fscanf(from, "port %u", &load->port);
    fclose(from);
    return found == 1 ? 0 : -ECHILD;
}

static void stop(struct bench_row *row)
{
    struct load *load = row->state;

    kill(load->server, SIGTERM);
    end_program(load->server);
}

/* ---- a run ---- */

static int run_wrk(const struct load *load, int cpu, struct said *said)
{
    char connections[32], seconds[32], url[64];
    char *words[] = {"wrk", "-t1", connections, seconds, "-s", HTTP_SCRIPT, url, NULL};
    char line[256];
    FILE *from = NULL;
    bool found = false;
    pid_t pid;
    int error;

    snprintf(connections, sizeof connections, "-c%u", load->connections);
    snprintf(seconds, sizeof seconds, "-d%us", load->seconds);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", load->port);
    pid = start_program(words, cpu, &from);
    if (pid < 0)
        return (int)pid;
    while (fgets(line, sizeof line, from))
        found |=
            sscanf(line, "umbra %llu %llu %llu %llu %llu %llu %llu", &said->requests, &said->us,
                   &said->wrong, &said->lost, &said->p50, &said->p99, &said->p999) == 7;
    fclose(from);
    error = end_program(pid);
    return error == 0 && !found ? -ECHILD : error;
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct load *load = row->state;

    for (uint64_t i = 0; i < batch->iterations; i++) {
        struct said said = {0};
        int error = run_wrk(load, bench_cpu(row->bench, 1), &said);

        if (error != 0)
            return error;
        batch->ns += said.us * 1000 / (said.requests > 0 ? said.requests : 1);
        batch->verified += said.wrong == 0;
        load->lost += said.lost;
        if (load->samples < MAX_SAMPLES) {
            load->p99[load->samples] = (double)said.p99;
            load->p999[load->samples++] = (double)said.p999;
        }
    }
    bench_state_median(row, "p99_us", load->p99, load->samples);
    bench_state_median(row, "p999_us", load->p999, load->samples);
    json_object_set_new(row->params, "lost", json_integer((json_int_t)load->lost));
    return 0;
}

/* ---- rows ---- */

static int open_row(struct bench_row *row)
{
    const struct load *load = row->state;
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    if (system("command -v wrk >/dev/null 2>&1") != 0)
        return bench_refuse(row, -ENOENT, "no program wrk here (Debian: wrk)");
    if (limit.rlim_max < load->connections + OTHER_DESCRIPTORS)
        return bench_refuse(row, -EMFILE, "the limit of descriptors is %llu",
                            (unsigned long long)limit.rlim_max);
    limit.rlim_cur = limit.rlim_max; /* wrk inherits it */
    setrlimit(RLIMIT_NOFILE, &limit);
    return 0;
}

static void close_row(struct bench_row *row)
{
    free(row->state);
}

static const struct bench_ops ops = {
    .open = open_row, .start = start, .run = run, .stop = stop, .close = close_row};

static struct bench_row *add(struct bench *bench, const char *name, const char *way,
                             unsigned connections)
{
    struct bench_row *row = bench_add(bench, name, &ops, NULL);
    struct load *load = calloc(1, sizeof *load);

    if (!load)
        abort();
    load->way = way;
    load->connections = connections;
    load->seconds = connections > 1000 ? 2 : 1; /* of which connecting takes a part */
    row->state = load;
    row->batch = 1;
    row->cold = true;
    json_object_set_new(row->params, "connections", json_integer(connections));
    return row;
}

static int declare(struct bench *bench)
{
    static const unsigned connections[] = {64, 1000, 10000};

    for (size_t i = 0; i < (bench_tiny(bench) ? 1 : 3); i++) {
        struct bench_row *epoll = add(bench, "epoll", "epoll", connections[i]);

        add(bench, "umbra-http", "fibers", connections[i])->limit = epoll;
        add(bench, "threads", "threads", connections[i])->limit = epoll;
    }
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "http",
    .about = "a server of HTTP/1.1: a fiber a connection, beside epoll and threads",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
