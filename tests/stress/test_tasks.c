/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Trees of tasks of random shape, joined in random orders, that block, yield and nap now and then,
 * steps of a dispatcher with values that add values, and values that wait for each other. The seed is
 * printed; give it back in UMBRA_SEED. UMBRA_STRESS_MS sets the length of each test (default 1000).
 * What is lost shows as a test that does not end, or as a deadlock.
 */
#define _GNU_SOURCE
#include "random_run.h"

#include <runner.h>

#include <umbra.h>

#define CHILDREN 6
#define DEPTH 7

static uint64_t end_ns;

/* ---- trees ---- */

struct node {
    struct umbra_task task;
    uint64_t random;
    unsigned depth;
    struct umbra_event *tells; /* its parent waits for it, besides the join; or NULL */
    uint64_t size;             /* of the tree below, itself included */
};

/* What the tree's size must be, without tasks. */
static uint64_t size_of(uint64_t random, unsigned depth)
{
    uint64_t size = 1;
    uint64_t count = depth == 0 ? 0 : random_next(&random) % CHILDREN;

    for (uint64_t i = 0; i < count; i++)
        size += size_of(random + i + 1, depth - 1);
    return size;
}

static void dawdle(uint64_t random)
{
    if ((random & 63) == 0)
        umbra_yield();
    else if ((random & 1023) == 1)
        umbra_sleep_ns(random >> 10 & 0x3fff);
}

static void tree(void *arg)
{
    struct node *self = arg;
    uint64_t random = self->random;
    uint64_t count = self->depth == 0 ? 0 : random_next(&random) % CHILDREN;
    uint64_t seed = random;
    uint64_t first = random_next(&random) % CHILDREN;
    bool up = random >> 32 & 1;
    struct umbra_event told = UMBRA_EVENT_INIT;
    struct node child[CHILDREN];

    self->size = 1;
    for (uint64_t i = 0; i < count; i++) {
        child[i] = (struct node){.random = seed + i + 1, .depth = self->depth - 1};
        if (i == 0 && (random >> 20 & 15) == 0)
            child[i].tells = &told;
        umbra_task_fork(&child[i].task, tree, &child[i]);
        dawdle(random_next(&random));
    }
    if (count > 0 && child[0].tells)
        cr_expect_eq(umbra_event_wait(&told, UMBRA_NEVER), 0);
    for (uint64_t i = 0; i < count; i++) { /* any of them first, then up or down */
        uint64_t at = (up ? first + i : first + count - i) % count;

        umbra_task_join(&child[at].task, UMBRA_NEVER);
        self->size += child[at].size;
        dawdle(random_next(&random));
    }
    if (self->tells)
        umbra_event_signal(self->tells);
}

static void *grow_trees(void *arg)
{
    uint64_t random = (uintptr_t)arg;

    while (umbra_now_ns() < end_ns) {
        struct node root = {.random = random_next(&random) | 1, .depth = DEPTH};

        tree(&root);
        cr_expect_eq(root.size, size_of(root.random, DEPTH));
    }
    return NULL;
}

static void *grow_several(void *arg)
{
    struct umbra_fiber fiber[4];

    for (uintptr_t i = 0; i < 4; i++)
        cr_expect_eq(umbra_spawn(grow_trees, (void *)((uintptr_t)arg + i), &fiber[i]), 0);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    return NULL;
}

static void run(unsigned cores, enum umbra_wait_mode mode, umbra_fiber_fn *fn)
{
    struct umbra_options options = {
        .cores = cores, .oversubscribe = true, .wait = {.mode = mode}, .stack_bytes = 1 << 18};

    end_ns = end_of_run_ns();
    cr_assert_eq(umbra_run(&options, fn, (void *)(uintptr_t)(seed_of_run() | 1)), 0);
}

Test(tasks, trees_on_one_core)
{
    run(1, UMBRA_WAIT_TWO_PHASE, grow_several);
}

Test(tasks, trees_on_two_cores)
{
    run(2, UMBRA_WAIT_TWO_PHASE, grow_several);
}

Test(tasks, trees_on_cores_that_park_at_once)
{
    run(2, UMBRA_WAIT_PARK, grow_several);
}

Test(tasks, trees_on_more_cores_than_there_are)
{
    run(6, UMBRA_WAIT_TWO_PHASE, grow_several);
}

/* ---- loops ---- */

struct loop {
    uint64_t random;
    _Atomic uint64_t sum; /* of the indices */
    unsigned depth;
};

static void part_of_loop(size_t begin, size_t end, void *arg)
{
    struct loop *loop = arg;
    uint64_t random = loop->random + begin;

    for (size_t i = begin; i < end; i++)
        atomic_fetch_add_explicit(&loop->sum, i, memory_order_relaxed);
    random_next(&random);
    dawdle(random_next(&random) >> 2);
    if (loop->depth > 0 && (random & 7) == 0) {
        struct loop inner = {.random = random, .depth = loop->depth - 1};

        umbra_parallel_for(0, 5, 1, part_of_loop, &inner);
        cr_expect_eq(inner.sum, 10);
    }
}

static void add_part(size_t begin, size_t end, void *value, void *arg)
{
    part_of_loop(begin, end, arg);
    for (size_t i = begin; i < end; i++)
        *(uint64_t *)value += i;
}

static void add_begin(void *value, void *arg)
{
    (void)arg;
    *(uint64_t *)value = 0;
}

static void add_join(void *value, const void *right, void *arg)
{
    (void)arg;
    *(uint64_t *)value += *(const uint64_t *)right;
}

static void *run_loops(void *arg)
{
    static const struct umbra_reduction sum = {sizeof(uint64_t), add_begin, add_part, add_join};
    uint64_t random = (uintptr_t)arg;

    while (umbra_now_ns() < end_ns) {
        struct loop loop = {.random = random_next(&random), .depth = 2};
        uint64_t count = random >> 40 & 31;
        uint64_t grain = random >> 30 & 3;
        uint64_t value = count * (count - 1) / 2;

        if (random >> 20 & 1)
            umbra_parallel_for(0, count, grain, part_of_loop, &loop);
        else
            umbra_parallel_reduce(0, count, grain, &sum, &loop, &value);
        cr_expect_eq(loop.sum, count * (count - 1) / 2);
        cr_expect_eq(value, loop.sum);
    }
    return NULL;
}

/* One fiber alone has the other cores open their hands; two give to each other's cores. */
static void *run_some_loops(void *arg)
{
    struct umbra_spawn_options last = {.where = UMBRA_ON_CORE};
    uint64_t whole_ns = end_ns - umbra_now_ns();
    struct umbra_fiber fiber;

    last.core = umbra_runtime_cores(umbra_runtime_self()) - 1;
    end_ns -= whole_ns / 2;
    run_loops(arg);
    end_ns += whole_ns / 2;
    cr_expect_eq(umbra_spawn_with(NULL, &last, run_loops, (char *)arg + 1, &fiber), 0);
    run_loops(arg);
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    return NULL;
}

Test(tasks, loops_on_two_cores)
{
    run(2, UMBRA_WAIT_TWO_PHASE, run_some_loops);
}

Test(tasks, loops_on_cores_that_park_at_once)
{
    run(2, UMBRA_WAIT_PARK, run_some_loops);
}

Test(tasks, loops_on_more_cores_than_there_are)
{
    run(6, UMBRA_WAIT_TWO_PHASE, run_some_loops);
}

/* ---- steps ---- */

static _Atomic uint64_t processed;

static int adds_values(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    uint64_t random = (uintptr_t)arg + value.begin * 0x9e3779b97f4a7c15u;

    dawdle(random_next(&random));
    processed += value.end - value.begin;
    if (value.begin >= 1000) /* was added */
        return 0;
    if (random_next(&random) % 2)
        return umbra_worker_range(worker, 1000 + value.begin, 1000 + value.end, 1 + random % 3,
                                  UMBRA_ANY_WORKER);
    return umbra_worker_range(worker, 1000 + value.begin, 1000 + value.end, 1 + random % 3,
                              (int)(random % umbra_runtime_cores(umbra_runtime_self())));
}

static void *steps(void *arg)
{
    uint64_t random = (uintptr_t)arg;
    struct umbra_dispatch_options options = {.fn = adds_values, .arg = arg};
    struct umbra_dispatch *dispatch = NULL;

    cr_expect_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    while (dispatch && umbra_now_ns() < end_ns) {
        size_t count = random_next(&random) % 1000;

        processed = 0;
        cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
        cr_expect_eq(umbra_dispatch_range(dispatch, 0, count, 1 + random % 7), 0);
        cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
        cr_expect_eq(processed, 2 * count);
    }
    umbra_dispatch_destroy(dispatch);
    return NULL;
}

Test(tasks, steps_on_two_cores)
{
    run(2, UMBRA_WAIT_TWO_PHASE, steps);
}

Test(tasks, steps_on_more_cores_than_there_are)
{
    run(6, UMBRA_WAIT_TWO_PHASE, steps);
}

/* ---- crowds: values, no more than there are workers, of which none ends before all have begun ---- */

#define CROWD 12
#define ADDERS 2

/* A value that adds others: a range of so many parts, in one piece or two, and pointers; the first piece
 * and the pointers for another worker, perhaps. */
struct adder {
    size_t parts, first_piece, pointers;
    bool for_another;
    unsigned other;
};

static struct crowd {
    struct adder adder[ADDERS];
    size_t grain;
    bool adders_wait; /* and belong to the crowd */
    bool naps;
    unsigned wanted;
    _Atomic unsigned begun;
} crowd;

static struct adder member; /* none: of the crowd, as a part of a range is */

static int waits_for_the_crowd(void)
{
    uint64_t late = umbra_deadline(20 * UINT64_C(1000000000));

    crowd.begun++;
    while (crowd.begun < crowd.wanted) {
        if (umbra_now_ns() > late)
            return -ETIMEDOUT;
        if (crowd.naps)
            umbra_sleep_ns(20000);
        else
            umbra_yield();
    }
    return 0;
}

static int adds_to_the_crowd(struct umbra_worker *worker, const struct adder *adder)
{
    size_t cut = adder->first_piece * crowd.grain, end = adder->parts * crowd.grain;
    int error = 0;

    for (size_t i = 0; i < adder->pointers && error == 0; i++)
        error = adder->for_another ? umbra_worker_put(worker, &member, (int)adder->other)
                                   : umbra_worker_put(worker, &member, UMBRA_ANY_WORKER);
    if (error == 0)
        error = adder->for_another
                    ? umbra_worker_range(worker, 0, cut, crowd.grain, (int)adder->other)
                    : umbra_worker_range(worker, 0, cut, crowd.grain, UMBRA_ANY_WORKER);
    return error ? error : umbra_worker_range(worker, cut, end, crowd.grain, UMBRA_ANY_WORKER);
}

static int is_in_the_crowd(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    struct adder *adder = value.end == 0 ? value.pointer : NULL;
    int error;

    (void)arg;
    if (!adder || adder == &member)
        return waits_for_the_crowd();
    error = adds_to_the_crowd(worker, adder);
    return error || !crowd.adders_wait ? error : waits_for_the_crowd();
}

/* So many of what is left, at random. */
static size_t some_of(size_t *left, uint64_t *random)
{
    size_t some = random_next(random) % (*left + 1);

    *left -= some;
    return some;
}

/* A crowd for so many workers. How many of it the source queues itself, as a range. */
static size_t new_crowd(size_t workers, uint64_t *random)
{
    size_t left = workers, range;

    crowd = (struct crowd){.grain = 1 + random_next(random) % 3,
                           .adders_wait = workers > ADDERS && random_next(random) & 1,
                           .naps = random_next(random) & 1};
    if (crowd.adders_wait)
        left -= ADDERS;
    for (int i = 0; i < ADDERS; i++) {
        struct adder *adder = &crowd.adder[i];

        adder->parts = some_of(&left, random);
        adder->first_piece = random_next(random) % (adder->parts + 1);
        adder->pointers = some_of(&left, random);
        adder->for_another = random_next(random) % 2;
        adder->other = (unsigned)(random_next(random) % workers);
    }
    range = some_of(&left, random);
    crowd.wanted = (unsigned)(workers - left);
    return range;
}

/* Whether the crowd came together. */
static bool meet(struct umbra_dispatch *dispatch, uint64_t *random)
{
    unsigned workers = dispatch->workers;
    size_t range = new_crowd(workers, random);
    int error;

    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_range(dispatch, 0, range, 1), 0);
    for (int i = 0; i < ADDERS; i++)
        cr_expect_eq(umbra_dispatch_put(dispatch, &crowd.adder[i], UMBRA_ANY_NODE), 0);
    error = umbra_dispatch_end(dispatch, UMBRA_NEVER);
    cr_expect_eq(error, 0, "%u of %u, %u workers", crowd.begun, crowd.wanted, workers);
    return error == 0;
}

static void *crowds(void *arg)
{
    uint64_t random = (uintptr_t)arg;
    bool met = true;

    while (met && umbra_now_ns() < end_ns) {
        struct umbra_dispatch_options options = {.fn = is_in_the_crowd};
        struct umbra_dispatch *dispatch = NULL;

        options.workers = 2 + (unsigned)(random_next(&random) % (CROWD - 1));
        met = umbra_dispatch_create(NULL, &options, &dispatch) == 0;
        cr_expect(met);
        for (int i = 0; i < 20 && met; i++)
            met = meet(dispatch, &random);
        umbra_dispatch_destroy(dispatch);
    }
    return NULL;
}

Test(tasks, crowds_on_one_core)
{
    run(1, UMBRA_WAIT_TWO_PHASE, crowds);
}

Test(tasks, crowds_on_two_cores)
{
    run(2, UMBRA_WAIT_TWO_PHASE, crowds);
}

Test(tasks, crowds_on_cores_that_park_at_once)
{
    run(2, UMBRA_WAIT_PARK, crowds);
}
