/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What waiting for the kernel costs: the caller, and the others on its core.
 *
 *   umbra-blocking    a function that does nothing, on a helper thread (umbra/blocking.h)
 *   io-uring, epoll   a byte through a pipe to another fiber of the core (umbra/io.h)
 *   ping-pong-alone   two fibers of a core that signal each other in turns
 *   ping-pong-beside  the same while `blocked` fibers of the core wait, each other one in a read and
 *                     in a sleep
 */
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <umbra/io.h>

#define ROUNDS 101
#define ROUNDS_QUICK 31
#define BLOCKED 10000
#define BLOCKED_TINY 20
#define STACK_BYTES 32768
#define HOUR_NS (UINT64_C(3600) * 1000000000)

struct scene {
    umbra_fiber_fn *work; /* does batch->iterations, and counts batch->verified */
    const char *way;      /* of umbra/io.h */
    unsigned blocked;
    struct umbra_runtime *runtime;
    struct umbra_fiber *fiber; /* those that are blocked */
    int pipe[2];
    struct umbra_event there, back;
    struct bench_batch *batch;
    int error;
};

/* ---- work: in a fiber of the only core ---- */

static void nothing(void *verified)
{
    ++*(uint64_t *)verified;
}

static void *call_blocking(void *arg)
{
    struct scene *scene = arg;
    uint64_t begin = bench_now_ns();

    for (uint64_t i = 0; i < scene->batch->iterations; i++)
        scene->error |= umbra_blocking(nothing, &scene->batch->verified);
    scene->batch->ns = bench_now_ns() - begin;
    return NULL;
}

static void *read_bytes(void *arg)
{
    struct scene *scene = arg;
    char byte;
    size_t got;

    for (uint64_t i = 0; i < scene->batch->iterations; i++)
        if (umbra_io_read(scene->pipe[0], &byte, 1, UMBRA_IO_HERE, UMBRA_NEVER, &got) == 0)
            scene->batch->verified += got;
    return NULL;
}

static void *pass_bytes(void *arg)
{
    struct scene *scene = arg;
    struct umbra_fiber reader;
    uint64_t begin = bench_now_ns();
    size_t put;

    scene->error |= umbra_spawn(read_bytes, scene, &reader);
    for (uint64_t i = 0; i < scene->batch->iterations; i++)
        scene->error |= umbra_io_write(scene->pipe[1], "x", 1, UMBRA_IO_HERE, UMBRA_NEVER, &put);
    umbra_join(reader, UMBRA_NEVER, NULL);
    scene->batch->ns = bench_now_ns() - begin;
    return NULL;
}

static void *answer(void *arg)
{
    struct scene *scene = arg;

    for (uint64_t i = 0; i < scene->batch->iterations; i++) {
        umbra_event_wait(&scene->there, UMBRA_NEVER);
        scene->batch->verified++;
        umbra_event_signal(&scene->back);
    }
    return NULL;
}

static void *ping_pong(void *arg)
{
    struct scene *scene = arg;
    struct umbra_fiber partner;
    uint64_t begin;

    scene->error |= umbra_spawn(answer, scene, &partner);
    begin = bench_now_ns();
    for (uint64_t i = 0; i < scene->batch->iterations; i++) {
        umbra_event_signal(&scene->there);
        umbra_event_wait(&scene->back, UMBRA_NEVER);
    }
    scene->batch->ns = bench_now_ns() - begin;
    umbra_join(partner, UMBRA_NEVER, NULL);
    return NULL;
}

/* ---- the fibers that are blocked ---- */

static void *reads(void *arg)
{
    struct scene *scene = arg;
    size_t got;
    char byte;

    umbra_io_read(scene->pipe[0], &byte, 1, UMBRA_IO_HERE, UMBRA_NEVER, &got);
    return NULL;
}

static void *sleeps(void *unused)
{
    (void)unused;
    umbra_sleep_ns(HOUR_NS);
    return NULL;
}

/* ---- rows ---- */

static int start(struct bench_row *row)
{
    struct umbra_spawn_options spawn = {.where = UMBRA_ON_CORE, .stack_bytes = STACK_BYTES};
    struct scene *scene = row->state;
    struct umbra_options options = {.topology = bench_topology(row->bench), .quiet = true};
    char cpu[16];
    int error;

    snprintf(cpu, sizeof cpu, "%d", bench_cpu(row->bench, 0));
    options.cpus = cpu;
    setenv("UMBRA_IO", scene->way, 1);
    if (pipe(scene->pipe) != 0)
        return -errno;
    error = umbra_runtime_create(&options, &scene->runtime);
    for (unsigned i = 0; i < scene->blocked && error == 0; i++)
        error = umbra_spawn_with(scene->runtime, &spawn, i % 2 ? reads : sleeps, scene,
                                 &scene->fiber[i]);
    for (unsigned i = 0; i < scene->blocked && error == 0; i++)
        while (umbra_fiber_info(scene->fiber[i], NULL) < UMBRA_FIBER_BLOCKED)
            usleep(100);
    return error;
}

static void stop(struct bench_row *row)
{
    struct scene *scene = row->state;

    for (unsigned i = 0; i < scene->blocked; i++) {
        umbra_cancel(scene->fiber[i]);
        umbra_join(scene->fiber[i], UMBRA_NEVER, NULL);
    }
    umbra_runtime_destroy(scene->runtime);
    close(scene->pipe[0]);
    close(scene->pipe[1]);
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct scene *scene = row->state;
    struct umbra_spawn_options spawn = {.where = UMBRA_ON_CORE};
    struct umbra_fiber fiber;
    int error;

    scene->batch = batch;
    scene->error = 0;
    error = umbra_spawn_with(scene->runtime, &spawn, scene->work, scene, &fiber);
    if (error == 0)
        error = umbra_join(fiber, UMBRA_NEVER, NULL);
    return error != 0 ? error : scene->error;
}

static int open_row(struct bench_row *row)
{
    const struct scene *scene = row->state;

    (void)scene;
#ifndef UMBRA_URING
    if (strcmp(scene->way, "uring") == 0)
        return bench_refuse(row, -ENOSYS, "built without liburing");
#endif
    return 0;
}

static void close_row(struct bench_row *row)
{
    struct scene *scene = row->state;

    free(scene->fiber);
    free(scene);
}

static const struct bench_ops ops = {
    .open = open_row, .start = start, .run = run, .stop = stop, .close = close_row};

static struct bench_row *add(struct bench *bench, const char *name, umbra_fiber_fn *work,
                             const char *way, unsigned blocked)
{
    struct bench_row *row = bench_add(bench, name, &ops, NULL);
    struct scene *scene = aligned_alloc(UMBRA_CACHE_LINE, sizeof *scene);

    if (!scene)
        abort();
    *scene = (struct scene){.work = work, .way = way, .blocked = blocked};
    scene->fiber = calloc(blocked + 1, sizeof *scene->fiber);
    if (!scene->fiber)
        abort();
    row->state = scene;
    json_object_set_new(row->params, "blocked", json_integer(blocked));
    return row;
}

static int declare(struct bench *bench)
{
    unsigned blocked = bench_tiny(bench) ? BLOCKED_TINY : BLOCKED;
    struct bench_row *alone = add(bench, "ping-pong-alone", ping_pong, "uring", 0);

    add(bench, "ping-pong-beside", ping_pong, "uring", blocked)->limit = alone;
    add(bench, "umbra-blocking", call_blocking, "pool", 0);
    add(bench, "io-uring", pass_bytes, "uring", 0);
    add(bench, "epoll", pass_bytes, "pool", 0);
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "blocking",
    .about = "waiting for the kernel: what it costs the caller, and the others on its core",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
