/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A tree of tasks that has ten children a node: a leaf is its number, a node the sum of its children.
 * It shows what a task costs that does nothing, where one node forks several, and what a fiber costs
 * that is spawned without a place. A sample is the time of a whole tree. Contenders: forks_rows.h.
 */
#include <stdlib.h>

#include <umbra/task.h>

#include "forks_rows.h"

#define ROUNDS 31
#define ROUNDS_QUICK 13

/* The barrier keeps the compiler from summing a node's leaves without calls. */
__attribute__((noinline)) static uint64_t serial(uint64_t first, uint64_t leaves)
{
    uint64_t each = leaves / FORKS_WAYS;
    uint64_t sum = 0;

    if (leaves == 1)
        return first;
    for (unsigned i = 0; i < FORKS_WAYS; i++) {
        sum += serial(first + i * each, each);
        __asm__ volatile("" : "+r"(sum));
    }
    return sum;
}

struct node {
    struct umbra_task task;
    uint64_t first, leaves, sum;
};

static inline uint64_t skynet(uint64_t first, uint64_t leaves);

static void skynet_task(void *arg)
{
    struct node *node = arg;

    node->sum = skynet(node->first, node->leaves);
}

static inline uint64_t skynet(uint64_t first, uint64_t leaves)
{
    struct node child[FORKS_WAYS - 1];
    uint64_t each = leaves / FORKS_WAYS;
    uint64_t sum;

    if (leaves == 1)
        return first;
    for (unsigned i = 0; i < FORKS_WAYS - 1; i++) {
        child[i].first = first + i * each;
        child[i].leaves = each;
        umbra_task_fork(&child[i].task, skynet_task, &child[i]);
    }
    sum = skynet(first + (FORKS_WAYS - 1) * each, each);
    for (unsigned i = FORKS_WAYS - 1; i-- > 0;) {
        umbra_task_join_with(&child[i].task, skynet_task, &child[i]);
        sum += child[i].sum;
    }
    return sum;
}

/* The same by fibers: each node is one, and begins on whichever core takes it. */
static inline uint64_t skynet_fibers(uint64_t first, uint64_t leaves);

static void *skynet_fiber(void *arg)
{
    struct node *node = arg;

    node->sum = skynet_fibers(node->first, node->leaves);
    return NULL;
}

static inline uint64_t skynet_fibers(uint64_t first, uint64_t leaves)
{
    static const struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};
    struct umbra_fiber fiber[FORKS_WAYS];
    struct node child[FORKS_WAYS];
    uint64_t each = leaves / FORKS_WAYS;
    uint64_t sum = 0;

    if (leaves == 1)
        return first;
    for (unsigned i = 0; i < FORKS_WAYS; i++) {
        child[i].first = first + i * each;
        child[i].leaves = each;
        if (umbra_spawn_with(NULL, &anywhere, skynet_fiber, &child[i], &fiber[i]) != 0)
            abort();
    }
    for (unsigned i = 0; i < FORKS_WAYS; i++) {
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
        sum += child[i].sum;
    }
    return sum;
}

static int declare(struct bench *bench)
{
    static const struct forks_sizes leaves = {1000, 1000000, 100000000};
    static const struct forks_contender calls = {.skynet = serial}, tasks = {.skynet = skynet};
    static const struct forks_contender fibers = {.skynet = skynet_fibers};

    forks_declare(bench, "skynet", &leaves, &calls, &tasks, &fibers);
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "skynet",
    .about = "a tree of tasks, ten a node, that do nothing but sum up",
    .cpus = 2,
    .all_cpus = true,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .batch = 1,
    .declare = declare,
    .remark = forks_remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
