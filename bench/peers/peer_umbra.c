/* SPDX-License-Identifier: BSL-1.0 */
/* Umbra's rows. A batch runs in a fiber of a runtime on the kernel's processors: in_fiber.h. */
#define _GNU_SOURCE
#include "peers.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <umbra.h>

#include "in_fiber.h"

/* ---- switch and spawn on one core ---- */

static struct umbra_runtime *one_core; /* of all rows that use one */
static unsigned one_core_users;

static int one_core_open(void)
{
    struct umbra_options options = {.cores = 1, .quiet = true};
    char cpu[16];
    int error;

    if (one_core_users > 0) {
        one_core_users++;
        return 0;
    }
    snprintf(cpu, sizeof cpu, "%d", sched_getcpu());
    options.cpus = cpu;
    error = umbra_runtime_create(&options, &one_core);
    one_core_users = error == 0;
    return error;
}

static void one_core_close(void)
{
    if (--one_core_users == 0)
        umbra_runtime_destroy(one_core);
}

static struct umbra_fiber sides[2];

/* Inlined, as a program has it: a return after the switch would be mispredicted. */
#define LEAVE static inline __attribute__((always_inline)) void

LEAVE leave_by_transfer(void *to)
{
    umbra_transfer(*(struct umbra_fiber *)to);
}

/* Each has the other's handle in a variable of its own, as the bare loop has the context. */
static void *second_transfers(void *turns)
{
    struct umbra_fiber first = sides[0];

    turns_second(turns, leave_by_transfer, &first);
    umbra_continue(first);
    return NULL;
}

static void *first_transfers(void *turns)
{
    struct umbra_fiber second;

    sides[0] = umbra_self();
    if (umbra_spawn(second_transfers, turns, &second) != 0)
        return NULL;
    turns_first(turns, leave_by_transfer, &second);
    umbra_transfer(second); /* to its end */
    umbra_join(second, UMBRA_NEVER, NULL);
    return NULL;
}

static int run_transfer(struct turns *turns)
{
    return in_fiber(one_core, first_transfers, turns);
}

LEAVE leave_by_yield(void *unused)
{
    (void)unused;
    umbra_yield();
}

static void *second_yields(void *turns)
{
    turns_second(turns, leave_by_yield, NULL);
    return NULL;
}

static void *first_yields(void *turns)
{
    if (umbra_spawn(second_yields, turns, &sides[1]) != 0)
        return NULL;
    turns_first(turns, leave_by_yield, NULL);
    umbra_join(sides[1], UMBRA_NEVER, NULL);
    return NULL;
}

static int run_yield(struct turns *turns)
{
    return in_fiber(one_core, first_yields, turns);
}

const struct switch_way umbra_transfer_switch = {one_core_open, run_transfer, one_core_close};
const struct switch_way umbra_yield_switch = {one_core_open, run_yield, one_core_close};

static void *null_fiber(void *ran)
{
    ++*(uint64_t *)ran;
    return NULL;
}

static void *spawns(void *arg)
{
    struct spawned *spawned = arg;
    uint64_t begin = bench_now_ns();

    if (spawned->each == 1) {
        for (uint64_t i = 0; i < spawned->iterations; i++) {
            struct umbra_fiber fiber;

            umbra_spawn(null_fiber, &spawned->ran, &fiber);
            umbra_join(fiber, UMBRA_NEVER, NULL);
        }
    } else {
        struct umbra_fiber *fibers = calloc(spawned->each, sizeof *fibers);

        for (uint64_t i = 0; i < spawned->iterations && fibers != NULL; i++) {
            for (uint64_t n = 0; n < spawned->each; n++)
                umbra_spawn(null_fiber, &spawned->ran, &fibers[n]);
            for (uint64_t n = 0; n < spawned->each; n++)
                umbra_join(fibers[n], UMBRA_NEVER, NULL);
        }
        free(fibers);
    }
    spawned->ns = bench_now_ns() - begin;
    return NULL;
}

static int run_spawns(struct spawned *spawned)
{
    return in_fiber(one_core, spawns, spawned);
}

const struct spawn_way umbra_spawns = {one_core_open, run_spawns, one_core_close};

/* ---- two cores ---- */

enum two_cores_kind { RUNS, REMOTE_SPAWN, EVENT, EVENT_IN_PLACE, EVENT_BUSY, EVENT_THREAD };

struct two_cores {
    struct umbra_runtime *runtime;
    struct bench_batch *batch;
    enum two_cores_kind kind;
    int error;
    struct meeting *meeting; /* on lines of the harness */
};

/* What the two sides share, each on lines of its own. */
struct meeting {
    EVENT_ALIGNED struct umbra_event there;
    EVENT_ALIGNED struct umbra_event back;
    EVENT_ALIGNED uint64_t answered; /* by the other side */
    EVENT_ALIGNED bool quit;         /* written before `there` is signaled */
    _Atomic bool over;               /* for the fibers that keep a core busy */
};

_Static_assert(sizeof(struct meeting) <= BENCH_LINES_BYTES, "fits the harness's lines");

static int two_cores_open(struct bench_row *row)
{
    struct two_cores *two = calloc(1, sizeof *two);

    if (two == NULL)
        return -ENOMEM;
    two->kind = *(const enum two_cores_kind *)row->arg;
    row->state = two;
    return 0;
}

/* How long a fiber looks at an event before it leaves its core is not for programs to set. */
static int two_cores_start(struct bench_row *row)
{
    struct two_cores *two = row->state;
    int error = in_fiber_cores(row->bench, 2, &two->runtime);

    for (unsigned i = 0; i < 2 && error == 0 && two->kind == EVENT; i++)
        two->runtime->core[i]->in_place_cycles = 0;
    return error;
}

static void two_cores_stop(struct bench_row *row)
{
    umbra_runtime_destroy(((struct two_cores *)row->state)->runtime);
}

static void two_cores_close(struct bench_row *row)
{
    free(row->state);
}

/* The harness's thread, which shares the first core's processor. */
static int runs(struct two_cores *two)
{
    uint64_t iterations = two->batch->iterations;
    uint64_t begin = bench_now_ns();
    int error = 0;

    for (uint64_t i = 0; i < iterations && error == 0; i++)
        error = umbra_runtime_run(two->runtime, null_fiber, &two->meeting->answered);
    two->batch->ns = bench_now_ns() - begin;
    return error;
}

static void *spawns_remotely(void *arg)
{
    static const struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = 1};
    struct two_cores *two = arg;
    uint64_t iterations = two->batch->iterations;
    uint64_t *answered = &two->meeting->answered;
    uint64_t begin = bench_now_ns();

    for (uint64_t i = 0; i < iterations; i++) {
        struct umbra_fiber fiber;

        if (umbra_spawn_with(NULL, &there, null_fiber, answered, &fiber) != 0)
            break;
        umbra_join(fiber, UMBRA_NEVER, NULL);
    }
    two->batch->ns = bench_now_ns() - begin;
    return NULL;
}

static void *answers(void *arg)
{
    struct meeting *meeting = arg;

    for (;;) {
        umbra_event_wait(&meeting->there, UMBRA_NEVER);
        if (meeting->quit)
            return NULL;
        meeting->answered++;
        umbra_event_signal(&meeting->back);
    }
}

static void *keeps_busy(void *arg)
{
    while (!atomic_load_explicit(&((struct meeting *)arg)->over, memory_order_relaxed))
        umbra_yield();
    return NULL;
}

/* The other side: a fiber on core 1, or a thread. */
static int answers_start(struct two_cores *two, struct umbra_fiber *fiber, pthread_t *thread)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = 1};
    struct umbra_core_info far;
    int error = umbra_core_info(two->runtime, 1, &far);

    if (error != 0)
        return error;
    if (two->kind == EVENT_THREAD)
        return bench_thread(thread, far.cpu, answers, two->meeting);
    error = umbra_spawn_with(NULL, &there, answers, two->meeting, fiber);
    for (there.core = 0; there.core < 2 && two->kind == EVENT_BUSY && error == 0; there.core++)
        error = umbra_spawn_with(NULL, &there, keeps_busy, two->meeting, NULL);
    return error;
}

static void *calls(void *arg)
{
    struct two_cores *two = arg;
    struct umbra_fiber fiber;
    struct meeting *meeting = two->meeting;
    uint64_t iterations = two->batch->iterations;
    pthread_t thread;
    uint64_t begin;

    two->error = answers_start(two, &fiber, &thread);
    if (two->error != 0)
        return NULL;
    begin = bench_now_ns();
    for (uint64_t i = 0; i < iterations; i++) {
        umbra_event_signal(&meeting->there);
        umbra_event_wait(&meeting->back, UMBRA_NEVER);
    }
    two->batch->ns = bench_now_ns() - begin;
    meeting->quit = true;
    atomic_store(&meeting->over, true);
    umbra_event_signal(&meeting->there);
    if (two->kind == EVENT_THREAD)
        pthread_join(thread, NULL);
    else
        umbra_join(fiber, UMBRA_NEVER, NULL);
    return NULL;
}

static int two_cores_run(struct bench_row *row, struct bench_batch *batch)
{
    struct two_cores *two = row->state;
    int error;

    two->batch = batch;
    two->meeting = bench_lines(row->bench);
    two->meeting->answered = 0;
    two->meeting->quit = false;
    atomic_store(&two->meeting->over, false);
    two->meeting->there = (struct umbra_event)UMBRA_EVENT_INIT;
    two->meeting->back = (struct umbra_event)UMBRA_EVENT_INIT;
    if (two->kind == RUNS)
        error = runs(two);
    else
        error = in_fiber(two->runtime, two->kind == REMOTE_SPAWN ? spawns_remotely : calls, two);
    batch->verified = row->parts * two->meeting->answered;
    return error != 0 ? error : two->error;
}

static const enum two_cores_kind kinds[] = {RUNS,           REMOTE_SPAWN, EVENT,
                                            EVENT_IN_PLACE, EVENT_BUSY,   EVENT_THREAD};
const void *const umbra_runtime_runs = &kinds[RUNS];
const void *const umbra_remote_spawn = &kinds[REMOTE_SPAWN];
const void *const umbra_event_left = &kinds[EVENT];
const void *const umbra_event_in_place = &kinds[EVENT_IN_PLACE];
const void *const umbra_event_busy = &kinds[EVENT_BUSY];
const void *const umbra_event_thread = &kinds[EVENT_THREAD];

const struct bench_ops umbra_two_cores_ops = {.open = two_cores_open,
                                              .start = two_cores_start,
                                              .run = two_cores_run,
                                              .stop = two_cores_stop,
                                              .close = two_cores_close};

/* ---- footprint ---- */

#define BLOCKED_SMALL_BYTES 16384 /* of a stack */

struct blocked {
    struct umbra_runtime *runtime;
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_event gate; /* signaled to let all end */
};

static void *blocks(void *arg)
{
    struct population *population = arg;
    struct blocked *blocked = population->state;
    uint64_t number =
        __atomic_load_n(&population->blocked, __ATOMIC_RELAXED); /* one core: its own */

    population_enter(population);
    umbra_event_wait(&blocked->gate, UMBRA_NEVER);
    population_leave(population, number);
    return NULL;
}

static int blocked_open_of(struct population *population, size_t stack_bytes)
{
    struct umbra_options options = {.cores = 1, .stack_bytes = stack_bytes, .quiet = true};
    struct blocked *blocked = aligned_alloc(UMBRA_CACHE_LINE, sizeof *blocked);

    if (blocked == NULL)
        return -ENOMEM;
    blocked->gate = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
    population->state = blocked;
    return umbra_runtime_create(&options, &blocked->runtime);
}

static int blocked_open(struct population *population)
{
    return blocked_open_of(population, UMBRA_STACK_BYTES);
}

static int blocked_open_small(struct population *population)
{
    return blocked_open_of(population, BLOCKED_SMALL_BYTES);
}

struct growth {
    struct population *population;
    uint64_t n;
    int error;
};

static void *grows(void *arg)
{
    struct growth *growth = arg;
    struct population *population = growth->population;

    while (population->made < growth->n && growth->error == 0) {
        growth->error = umbra_spawn(blocks, population, NULL);
        if (growth->error == 0)
            population->made++;
        umbra_yield();
    }
    return NULL;
}

static int blocked_grow(struct population *population, uint64_t n)
{
    struct blocked *blocked = population->state;
    struct growth growth = {population, n, 0};
    int error = in_fiber(blocked->runtime, grows, &growth);

    return error != 0 ? error : growth.error;
}

static int blocked_release(struct population *population)
{
    struct blocked *blocked = population->state;
    int error;

    umbra_event_signal(&blocked->gate);
    error = umbra_runtime_wait(blocked->runtime);
    umbra_runtime_destroy(blocked->runtime);
    return error;
}

const struct population_way umbra_population = {.stack_bytes = UMBRA_STACK_BYTES,
                                                .guarded = true,
                                                .open = blocked_open,
                                                .grow = blocked_grow,
                                                .release = blocked_release};

const struct population_way umbra_small_population = {.stack_bytes = BLOCKED_SMALL_BYTES,
                                                      .guarded = true,
                                                      .open = blocked_open_small,
                                                      .grow = blocked_grow,
                                                      .release = blocked_release};
