/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Spawn null fibers and join them: one at a time, or 1000 or 100,000 and then all of them; on the
 * caller's processor, where the limit is a bare context (made, entered and left, its stack used
 * again), or on the other one, where it is the ping-pong. A sample is one fiber.
 */
#define _GNU_SOURCE
#include "boost_context.h"
#include "child.h"
#include "context_fork.h"
#include "harness.h"
#include "os_handover.h"
#include "peers.h"
#include "ping_pong.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#define ROUNDS 501
#define ROUNDS_QUICK 25
#define MANY 1000
#define MANY_TINY 10
#define VERY_MANY 100000

static const struct child_program tbb_elsewhere = {.file = "tbb-child", .argument = "elsewhere"};

/* ---- any way to spawn on the caller's processor ---- */

static int open_row(struct bench_row *row)
{
    const struct spawn_way *way = row->arg;
    int error = way->open != NULL ? way->open() : 0;

    if (error != 0)
        return error;
    row->state = calloc(row->parts, sizeof(void *));
    return row->state != NULL ? 0 : -ENOMEM;
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    const struct spawn_way *way = row->arg;
    struct spawned spawned = {
        .iterations = batch->iterations, .each = row->parts, .handles = row->state};
    uint64_t begin = bench_now_ns();
    int error = way->run(&spawned);

    batch->ns = spawned.ns != 0 ? spawned.ns : bench_now_ns() - begin;
    batch->verified = spawned.ran;
    return error;
}

static void close_row(struct bench_row *row)
{
    const struct spawn_way *way = row->arg;

    if (way->close != NULL)
        way->close();
    free(row->state);
}

static const struct bench_ops spawn_ops = {.open = open_row, .run = run, .close = close_row};

/* ---- bare contexts, many at a time: what the stacks themselves cost ---- */

#define CONTEXT_SLOT ((size_t)BENCH_STACK_BYTES)
#define CONTEXT_COLOURS 16 /* tops at different places in their pages, as good practice has it */

static char *context_stacks;

static void null_context(struct fcontext_transfer transfer)
{
    ++*(uint64_t *)transfer.data;
    jump_fcontext(transfer.from, NULL);
}

static int open_contexts(void)
{
    if (context_stacks == NULL)
        context_stacks = mmap(NULL, VERY_MANY * CONTEXT_SLOT, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return context_stacks != MAP_FAILED ? 0 : -ENOMEM;
}

static int run_contexts(struct spawned *spawned)
{
    for (uint64_t i = 0; i < spawned->iterations; i++) {
        for (uint64_t n = 0; n < spawned->each; n++)
            spawned->handles[n] =
                make_fcontext(context_stacks + (n + 1) * CONTEXT_SLOT - n % CONTEXT_COLOURS * 64,
                              CONTEXT_SLOT - 4096, null_context);
        for (uint64_t n = 0; n < spawned->each; n++)
            jump_fcontext(spawned->handles[n], &spawned->ran);
    }
    return 0;
}

static const struct spawn_way context_spawn = {.open = open_contexts, .run = run_contexts};

/* ---- threads on the caller's processor ---- */

static pthread_attr_t here; /* binds to the caller's processor */

static void *null_thread(void *counter)
{
    atomic_fetch_add_explicit((_Atomic uint64_t *)counter, 1, memory_order_relaxed); /* joined */
    return NULL;
}

static int create_and_join(struct spawned *spawned, _Atomic uint64_t *ran)
{
    uint64_t n = 0;
    int error = 0;

    _Static_assert(sizeof(pthread_t) <= sizeof(void *), "handles hold threads");
    for (; n < spawned->each && error == 0; n++)
        error = pthread_create((pthread_t *)&spawned->handles[n], &here, null_thread, ran);
    if (error != 0)
        n--;
    while (n > 0)
        pthread_join(*(pthread_t *)&spawned->handles[--n], NULL);
    return -error;
}

static int run_threads(struct spawned *spawned)
{
    _Atomic uint64_t ran = 0;
    cpu_set_t set;
    int error;

    CPU_ZERO(&set);
    CPU_SET((size_t)sched_getcpu(), &set);
    error = pthread_attr_init(&here);
    if (error == 0)
        error = -pthread_attr_setaffinity_np(&here, sizeof set, &set);
    for (uint64_t i = 0; i < spawned->iterations && error == 0; i++)
        error = create_and_join(spawned, &ran);
    pthread_attr_destroy(&here);
    spawned->ran = ran;
    return error;
}

static const struct spawn_way pthread_spawn = {.run = run_threads};

/* ---- rows ---- */

static struct bench_row *limited(struct bench_row *row, struct bench_row *limit, const char *timed)
{
    row->limit = limit;
    bench_state_timed(row, timed);
    return row;
}

static void add_many(struct bench *bench, const char *name, const struct spawn_way *way,
                     uint64_t count, struct bench_row *limit, const char *timed)
{
    limited(bench_add_peer(bench, name, &spawn_ops, way), limit, timed)->parts =
        bench_tiny(bench) ? MANY_TINY : count;
}

/* A row for one fiber at a time, and one for many. */
static void add(struct bench *bench, const char *names[2], const struct spawn_way *way,
                struct bench_row *limit, const char *timed)
{
    limited(bench_add_peer(bench, names[0], &spawn_ops, way), limit, timed);
    add_many(bench, names[1], way, MANY, limit, timed);
}

#define NAMES(name) ((const char *[]){name, name "-1000"})

static void add_here(struct bench *bench)
{
    struct bench_row *limit = bench_add(bench, "boost-context", &boost_context_ops, NULL);

    bench_state_timed(limit, "make_fcontext, jump_fcontext, jump_fcontext");
    add_many(bench, "boost-context-1000", &context_spawn, MANY, limit, "the same");
    add_many(bench, "boost-context-100000", &context_spawn, VERY_MANY, limit, "the same");
    limited(bench_add(bench, "ucontext", &ucontext_ops, NULL), limit,
            "makecontext, swapcontext, end of the function");
    add(bench, NAMES("umbra-spawn"), &umbra_spawns, limit, "umbra_spawn, umbra_join");
    add_many(bench, "umbra-spawn-100000", &umbra_spawns, VERY_MANY, limit,
             "umbra_spawn, umbra_join");
    add(bench, NAMES("boost-fiber"), &boost_fiber_spawn, limit,
        "construct, join; pooled stacks; launch::dispatch, of many launch::post");
    add(bench, NAMES("argobots"), &argobots_spawn, limit,
        "ABT_thread_create_to, of many ABT_thread_create; ABT_thread_free");
    add(bench, NAMES("qthreads"), &qthreads_spawn, limit, "qthread_fork, qthread_readFF");
    add(bench, NAMES("photon"), &photon_spawn, limit,
        "thread_create, thread_enable_join, thread_join; pooled stacks");
    add(bench, NAMES("pthread-create-here"), &pthread_spawn, limit,
        "pthread_create, pthread_join; all on one processor");
}

static void add_elsewhere(struct bench *bench)
{
    struct bench_row *limit = ping_pong_add(bench);

    limited(bench_add(bench, "umbra-spawn-remote", &umbra_two_cores_ops, umbra_remote_spawn), limit,
            "umbra_spawn_with on the other core, umbra_join");
    limited(bench_add(bench, "umbra-runtime-run", &umbra_two_cores_ops, umbra_runtime_runs), limit,
            "umbra_runtime_run on two cores, from a thread that shares a processor with one");
    limited(bench_add(bench, "pthread-create", &pthread_create_ops, NULL), limit,
            "pthread_create, pthread_join; on the other processor");
    limited(bench_add(bench, "tbb-elsewhere", &child_ops, &tbb_elsewhere), limit,
            "task_group run, spin until it has run, wait; arena of two bound threads");
}

static int declare(struct bench *bench)
{
    add_here(bench);
    add_elsewhere(bench);
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "spawn",
    .about = "spawn null fibers and join them",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
