/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a task is for: quicksort, with the right part of each array as a task beside the left one.
 * Sorts numbers on one core and on all there are, and says how long that took, and in how many fibers:
 * a task becomes one only where another core takes it. A fiber that is counted has a value of its own.
 *
 *     quicksort [COUNT]        how many numbers; 5000000
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <umbra.h>

#define INSERTED 24 /* so many numbers or fewer are sorted by insertion */

struct part {
    struct umbra_task task;
    uint64_t *numbers;
    size_t count;
};

static unsigned counted; /* the key of a fiber-local value: not NULL in a fiber that is counted */
static _Atomic unsigned fibers;

static void count_fiber(void)
{
    if (!umbra_local_get(counted) && umbra_local_set(counted, &fibers) == 0)
        fibers++;
}

static void insertion_sort(uint64_t *numbers, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint64_t number = numbers[i];
        size_t at = i;

        for (; at > 0 && numbers[at - 1] > number; at--)
            numbers[at] = numbers[at - 1];
        numbers[at] = number;
    }
}

static void swap(uint64_t *a, uint64_t *b)
{
    uint64_t was = *a;

    *a = *b;
    *b = was;
}

/* Puts what is not above the median of three before the rest. How many those are: 1 to count - 1. */
static size_t divide(uint64_t *numbers, size_t count)
{
    size_t low = 0;
    size_t high = count - 1;
    uint64_t pivot;

    if (numbers[high] < numbers[0])
        swap(&numbers[high], &numbers[0]);
    if (numbers[count / 2] < numbers[0])
        swap(&numbers[count / 2], &numbers[0]);
    if (numbers[high] < numbers[count / 2])
        swap(&numbers[high], &numbers[count / 2]);
    pivot = numbers[count / 2];
    for (;;) {
        while (numbers[low] < pivot)
            low++;
        while (numbers[high] > pivot)
            high--;
        if (low >= high)
            return high + 1;
        swap(&numbers[low++], &numbers[high--]);
    }
}

static void quicksort(void *arg)
{
    struct part *self = arg;
    struct part left = {.numbers = self->numbers, .count = self->count}; /* not its task */
    struct part right;

    if (self->count <= INSERTED) {
        insertion_sort(self->numbers, self->count);
        return;
    }
    count_fiber();
    left.count = divide(self->numbers, self->count);
    right.numbers = self->numbers + left.count;
    right.count = self->count - left.count;
    umbra_task_fork(&right.task, quicksort, &right);
    quicksort(&left);
    umbra_task_join_with(&right.task, quicksort, &right);
}

static void *sorts(void *arg)
{
    quicksort(arg);
    return NULL;
}

/* Numbers in no order, the same each time. */
static void scatter(uint64_t *numbers, size_t count)
{
    uint64_t state = 1;

    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        numbers[i] = state >> 20;
    }
}

static int in_order(const uint64_t *numbers, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (numbers[i - 1] > numbers[i])
            return 0;
    return 1;
}

/* Sorts on so many cores; 0: all. An exit status. */
static int sort_on(unsigned cores, uint64_t *numbers, size_t count)
{
    /* deep recursion: numbers that are in a bad order take a level for every few of them */
    struct umbra_options options = {.cores = cores, .stack_bytes = 8 << 20};
    struct part all = {.numbers = numbers, .count = count};
    struct umbra_runtime *runtime;
    uint64_t sum[2] = {0, 0};
    uint64_t begin;
    int error;

    scatter(numbers, count);
    for (size_t i = 0; i < count; i++)
        sum[0] += numbers[i];
    error = umbra_runtime_create(&options, &runtime);
    if (error != 0) {
        fprintf(stderr, "quicksort: %s\n", umbra_last_error_text());
        return 1;
    }
    fibers = 0;
    begin = umbra_now_ns();
    error = umbra_runtime_run(runtime, sorts, &all);
    printf("%zu numbers on %u core%s: %.1f ms, %u fiber%s\n", count, umbra_runtime_cores(runtime),
           umbra_runtime_cores(runtime) == 1 ? "" : "s", (double)(umbra_now_ns() - begin) / 1e6,
           fibers, fibers == 1 ? "" : "s");
    umbra_runtime_destroy(runtime);
    for (size_t i = 0; i < count; i++)
        sum[1] += numbers[i];
    if (error == 0 && in_order(numbers, count) && sum[0] == sum[1])
        return 0;
    fprintf(stderr, "quicksort: the numbers are not in order\n");
    return 1;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    size_t count = argc > 1 ? strtoull(argv[1], &end, 10) : 5000000;
    uint64_t *numbers;
    int status;

    if (argc > 2 || (end && (end == argv[1] || *end != '\0')) || count == 0 || count > 1000000000) {
        fprintf(stderr, "quicksort: '%s' is no count from 1 to 1000000000\n",
                argv[argc > 2 ? 2 : 1]);
        return 2;
    }
    numbers = malloc(count * sizeof(*numbers));
    if (!numbers || umbra_local_create(NULL, &counted) != 0) {
        fprintf(stderr, "quicksort: no memory for %zu numbers\n", count);
        return 1;
    }
    status = sort_on(1, numbers, count);
    if (status == 0)
        status = sort_on(0, numbers, count);
    free(numbers);
    return status;
}
