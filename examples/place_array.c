/* SPDX-License-Identifier: BSL-1.0 */
/*
 * An array cut into a part for each NUMA node: each core writes and adds up a slice that lies on its
 * own node. Then the kernel is asked where the pages are, and a loop for each node does the same
 * work again, in parts that the node's cores take first.
 *
 *     place_array [ELEMENTS] [--cpus LIST]
 *
 * Exit status: 0; 1 something failed; 2 bad argument.
 */
#include <umbra.h>

#include "options.h"
#include "program.h"

const char program_name[] = "place_array";

#define GRAIN 4096 /* elements that a core takes at once */

static size_t elements = 1000000;

struct work {
    struct umbra_nodes *nodes;
    struct umbra_memory memory;
    _Atomic unsigned long sum;
};

/* On each core: fills its slice and adds it up. */
static void *fill_slice(void *arg)
{
    struct work *work = arg;
    unsigned long *array = work->memory.at, sum = 0;
    size_t begin, end;

    umbra_memory_slice(work->nodes, &work->memory, (unsigned)umbra_core_index(), &begin, &end);
    for (size_t i = begin / sizeof(*array); i < end / sizeof(*array); i++)
        sum += array[i] = i;
    work->sum += sum;
    return NULL;
}

/* On each core: adds up what it takes, of its own node first. */
static void *add_parts(void *arg)
{
    struct work *work = arg;
    const unsigned long *array = work->memory.at;
    unsigned long sum = 0;
    size_t begin, end;

    while (umbra_nodes_next(work->nodes, &begin, &end))
        for (size_t i = begin; i < end; i++)
            sum += array[i];
    work->sum += sum;
    return NULL;
}

static unsigned long sum_of_all(void)
{
    return elements % 2 == 0 ? elements / 2 * (elements - 1) : (elements - 1) / 2 * elements;
}

/* Runs fn on each core, and checks the sum. 0 or a negative errno. */
static int on_all_cores(struct work *work, umbra_fiber_fn *fn)
{
    unsigned cores = umbra_runtime_cores(umbra_runtime_self());
    struct umbra_fiber *fiber = malloc(cores * sizeof(*fiber));
    unsigned started = 0;
    int error = fiber ? 0 : -ENOMEM;

    work->sum = 0;
    while (started < cores && error == 0) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = started};

        error = umbra_spawn_with(NULL, &there, fn, work, &fiber[started]);
        started += error == 0;
    }
    while (started > 0)
        umbra_join(fiber[--started], UMBRA_NEVER, NULL);
    free(fiber);
    if (error == 0 && work->sum != sum_of_all())
        error = -EILSEQ;
    return error;
}

/* Gives each node the loop over its part. */
static void set_loops(const struct work *work)
{
    size_t part =
        work->memory.part_bytes > 0 ? work->memory.part_bytes / sizeof(unsigned long) : elements;

    for (unsigned k = 0; k < work->nodes->count; k++) {
        size_t begin = k * part < elements ? k * part : elements;
        size_t end = begin + part < elements ? begin + part : elements;

        umbra_nodes_loop(work->nodes, k, begin, end, GRAIN);
    }
}

static void print_pages(const struct work *work)
{
    struct umbra_memory_report report;
    int error = umbra_memory_report(&work->memory, &report, NULL, 0);

    if (work->memory.refused)
        printf("the system binds no memory: %s\n", strerror(-work->memory.refused));
    if (error)
        printf("the system does not tell where pages are: %s\n", strerror(-error));
    else
        printf("%u nodes; %zu pages, %zu of them in memory, %zu on the node asked for\n",
               work->nodes->count, report.pages, report.present, report.placed);
}

static void *run(void *arg)
{
    struct work work = {.sum = 0};
    struct umbra_memory_options options = {.place = UMBRA_MEMORY_PARTITIONED};
    int *error = arg;

    *error = umbra_nodes_create(NULL, &work.nodes);
    if (*error)
        return NULL;
    options.nodes = work.nodes->node;
    options.node_count = work.nodes->node[0] >= 0 ? work.nodes->count : 0;
    options.place = options.node_count > 0 ? UMBRA_MEMORY_PARTITIONED : UMBRA_MEMORY_TOUCHED;
    *error = umbra_memory_create(&options, elements * sizeof(unsigned long), &work.memory);
    if (*error == 0) {
        *error = on_all_cores(&work, fill_slice);
        print_pages(&work);
        set_loops(&work);
        if (*error == 0)
            *error = on_all_cores(&work, add_parts);
        umbra_memory_destroy(&work.memory);
    }
    umbra_nodes_destroy(work.nodes);
    return NULL;
}

static void read_options(int argc, char **argv)
{
    const struct option_row rows[] = {
        {"ELEMENTS", NULL, "of the array, 1000000 by default",
         .number = {&elements, 1, (size_t)1 << 32}},
        {.name = NULL},
    };
    const struct options_table table = {
        .usage = "usage: place_array [ELEMENTS] [--cpus LIST]\n", .column = 16, .rows = rows};

    options_read(&table, argc, argv);
}

int main(int argc, char **argv)
{
    int error = 0, failed;

    read_options(argc, argv);
    failed = umbra_run(NULL, run, &error);
    if (failed || error) {
        fprintf(stderr, "place_array: %s\n", error_text(failed ? failed : error));
        return 1;
    }
    return printed(0);
}
