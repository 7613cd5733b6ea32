/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A product of two matrices of integers by quarters: a task for each, in two steps of four, down to
 * 32 x 32. A sample is the time of a whole product. Contenders: forks_rows.h.
 */
#include <umbra/task.h>

#include "forks_rows.h"

#define ROUNDS 21
#define ROUNDS_QUICK 13
#define QUARTERS 4

static void serial(const struct forks_product *whole)
{
    if (whole->n <= FORKS_LEAF) {
        forks_multiply(whole);
        return;
    }
    for (unsigned i = 0; i < 2 * QUARTERS; i++) {
        struct forks_product part = forks_quarter(whole, i);

        serial(&part);
    }
}

struct quarter {
    struct umbra_task task;
    struct forks_product product;
};

static void matmul(const struct forks_product *whole);

static void matmul_task(void *arg)
{
    const struct quarter *quarter = arg;

    matmul(&quarter->product);
}

static void matmul(const struct forks_product *whole)
{
    struct quarter part[QUARTERS];

    if (whole->n <= FORKS_LEAF) {
        forks_multiply(whole);
        return;
    }
    for (unsigned step = 0; step < 2 * QUARTERS; step += QUARTERS) {
        for (unsigned i = 0; i < QUARTERS; i++) {
            part[i].product = forks_quarter(whole, step + i);
            if (i < QUARTERS - 1)
                umbra_task_fork(&part[i].task, matmul_task, &part[i]);
        }
        matmul(&part[QUARTERS - 1].product);
        for (unsigned i = QUARTERS - 1; i-- > 0;)
            umbra_task_join_with(&part[i].task, matmul_task, &part[i]);
    }
}

static int declare(struct bench *bench)
{
    static const struct forks_sizes rows = {64, 512, 2048};
    static const struct forks_contender calls = {.matmul = serial}, tasks = {.matmul = matmul};

    forks_declare(bench, "matmul", &rows, &calls, &tasks, NULL);
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "matmul",
    .about = "multiply matrices by quarters, a task for each",
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
