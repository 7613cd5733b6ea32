/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Where the kernel says that pages are, on a machine with several NUMA nodes: arrays in each place,
 * and what belongs to a core. Skips where there is one node; tools/emulated has machines with two.
 */
#include "fibers.h"

#include <string.h>

#define ARRAY_BYTES ((size_t)1 << 20)
#define PAGES_MOST 1024
#define CORES_MOST 64

static struct umbra_topology *topology;

static void need_nodes(void)
{
    int node;
    char page = 0;

    cr_assert_eq(umbra_topology_create(NULL, &topology), 0);
    if (umbra_topology_info(topology)->nodes < 2 || !umbra_topology_info(topology)->binds)
        cr_skip_test("this machine has one NUMA node");
    if (um_os_page_nodes(&page - (uintptr_t)&page % um_os_page_bytes(), 1, &node) != 0)
        cr_skip_test("the system does not tell where pages are");
}

static void done(void)
{
    umbra_topology_destroy(topology);
}

/* The node of the page at this address, -1: nowhere. */
static int node_at(const void *at)
{
    const char *page = (const char *)at - (uintptr_t)at % um_os_page_bytes();
    int node = -1;

    cr_expect_eq(um_os_page_nodes(page, 1, &node), 0);
    return node;
}

static int node_of_core(struct umbra_runtime *runtime, unsigned core)
{
    struct umbra_core_info info;

    cr_assert_eq(umbra_core_info(runtime, core, &info), 0);
    return umbra_topology_cpu_of(topology, info.cpu)->node;
}

/* ---- arrays ---- */

/* The thread that writes is on the first node; so only binding puts pages elsewhere. */
static void write_from_the_first_node(const struct umbra_memory *memory)
{
    struct umbra_affinity *saved;

    cr_assert_eq(umbra_topology_bind(topology, umbra_topology_info(topology)->cpu[0].cpu, &saved),
                 0);
    memset(memory->at, 1, memory->bytes);
    cr_assert_eq(umbra_topology_unbind(topology, saved), 0);
}

/* Makes the array, writes it, asks where its pages are, and frees it. */
static struct umbra_memory_report look_at(struct umbra_memory_options options, int *node)
{
    struct umbra_memory_report report;
    struct umbra_memory memory;

    options.topology = topology;
    cr_assert_eq(umbra_memory_create(&options, ARRAY_BYTES, &memory), 0);
    cr_assert_eq(memory.refused, 0);
    write_from_the_first_node(&memory);
    cr_assert_eq(umbra_memory_report(&memory, &report, node, PAGES_MOST), 0);
    cr_assert_eq(report.present, report.pages);
    cr_assert_eq(report.placed, report.pages);
    umbra_memory_destroy(&memory);
    return report;
}

Test(nodes, a_named_node_has_all_pages, .init = need_nodes, .fini = done)
{
    static int node[PAGES_MOST];

    for (unsigned i = 0; i < umbra_topology_info(topology)->cpus; i++) {
        struct umbra_memory_options options = {.place = UMBRA_MEMORY_ON_NODE};
        struct umbra_memory_report report;

        options.node = umbra_topology_info(topology)->cpu[i].node;
        report = look_at(options, node);
        for (size_t page = 0; page < report.pages; page++)
            cr_assert_eq(node[page], options.node);
    }
}

Test(nodes, here_is_the_node_of_the_caller, .init = need_nodes, .fini = done)
{
    static int node[PAGES_MOST];
    const struct umbra_topology_cpu *last =
        &umbra_topology_info(topology)->cpu[umbra_topology_info(topology)->cpus - 1];
    struct umbra_affinity *saved;
    struct umbra_memory_report report;

    cr_assert_eq(umbra_topology_bind(topology, last->cpu, &saved), 0);
    report = look_at((struct umbra_memory_options){.place = UMBRA_MEMORY_HERE}, node);
    for (size_t page = 0; page < report.pages; page++)
        cr_assert_eq(node[page], last->node);
    cr_assert_eq(umbra_topology_unbind(topology, saved), 0);
}

Test(nodes, interleaved_pages_are_on_all_nodes_alike, .init = need_nodes, .fini = done)
{
    static int node[PAGES_MOST];
    struct umbra_memory_report report =
        look_at((struct umbra_memory_options){.place = UMBRA_MEMORY_INTERLEAVED}, node);
    size_t fair = report.pages / umbra_topology_info(topology)->nodes;

    for (unsigned i = 0; i < umbra_topology_info(topology)->cpus; i++) {
        size_t count = 0;

        for (size_t page = 0; page < report.pages; page++)
            count += node[page] == umbra_topology_info(topology)->cpu[i].node;
        cr_assert(count >= fair - 1 && count <= fair + 1, "%zu of %zu pages", count, report.pages);
    }
}

Test(nodes, each_part_is_on_its_node, .init = need_nodes, .fini = done)
{
    static int node[PAGES_MOST];
    struct umbra_memory_report report =
        look_at((struct umbra_memory_options){.place = UMBRA_MEMORY_PARTITIONED}, node);
    size_t part = report.pages / umbra_topology_info(topology)->nodes;

    for (size_t page = 0; page + 1 < report.pages; page++)
        cr_assert(node[page] == node[page + 1] || (page + 1) % part == 0, "page %zu", page);
    cr_assert_neq(node[0], node[report.pages - 1]);
}

/* ---- what belongs to a core ---- */

struct belongings {
    struct umbra_buffers *buffers;
    struct umbra_nodes *nodes;
};

/* On each core. */
static void *looks_at_itself(void *arg)
{
    const struct belongings *all = arg;
    const struct umbra_core *core = um_core_self;
    int node = node_of_core(core->runtime, core->index);
    char *buffer = umbra_buffer_take(all->buffers);
    int on_stack = 0;

    *buffer = 1;
    cr_expect_eq(node_at(core), node, "the core");
    cr_expect_eq(node_at(core->more), node, "its seldom used part");
    cr_expect_eq(node_at(core->elsewhere), node, "its lists");
    cr_expect_eq(node_at(um_core_current(core)), node, "the fiber");
    cr_expect_eq(node_at(&on_stack), node, "its stack");
    cr_expect_eq(node_at(buffer), node, "a buffer");
    cr_expect_eq(node_at(all->nodes->of[all->nodes->rank[core->index].node]), node, "the loop");
    umbra_buffer_give(buffer);
    return NULL;
}

static void *looks_on_all_cores(void *arg)
{
    struct umbra_runtime *runtime = umbra_runtime_self();
    struct umbra_fiber fiber[CORES_MOST];
    struct belongings all;

    cr_expect_eq(umbra_buffers_create(NULL, 100, &all.buffers), 0);
    cr_expect_eq(umbra_nodes_create(NULL, &all.nodes), 0);
    for (unsigned i = 0; i < umbra_runtime_cores(runtime); i++) {
        struct umbra_spawn_options there = on_core(i);

        cr_expect_eq(umbra_spawn_with(NULL, &there, looks_at_itself, &all, &fiber[i]), 0);
    }
    for (unsigned i = 0; i < umbra_runtime_cores(runtime); i++)
        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    umbra_nodes_destroy(all.nodes);
    umbra_buffers_destroy(all.buffers);
    return arg;
}

static unsigned cores_here(void)
{
    unsigned cores = umbra_topology_info(topology)->cores;

    return cores < CORES_MOST ? cores : CORES_MOST;
}

Test(nodes, what_belongs_to_a_core_is_on_its_node, .init = need_nodes, .fini = done)
{
    struct umbra_options options = {.topology = topology, .cores = cores_here(), .quiet = true};

    cr_assert_eq(umbra_run(&options, looks_on_all_cores, NULL), 0);
}

static int looks_at_its_worker(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    int node = node_of_core(um_core_self->runtime, um_core_self->index);

    (void)value;
    (void)arg;
    cr_expect_eq(node_at(worker), node, "the worker");
    cr_expect_eq(node_at(worker->scratch), node, "its scratch buffer");
    if (worker->queue.items)
        cr_expect_eq(node_at(worker->queue.items), node, "its queue");
    return 0;
}

static void *dispatches(void *arg)
{
    struct umbra_dispatch_options options = {.fn = looks_at_its_worker, .scratch_bytes = 10000};
    struct umbra_dispatch *dispatch;

    cr_expect_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_range(dispatch, 0, 100, 1), 0);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    umbra_dispatch_destroy(dispatch);
    return arg;
}

Test(nodes, workers_queues_and_scratch_buffers_are_on_their_node, .init = need_nodes, .fini = done)
{
    struct umbra_options options = {.topology = topology, .cores = cores_here(), .quiet = true};

    cr_assert_eq(umbra_run(&options, dispatches, NULL), 0);
}

/* ---- touched by its own cores only ---- */

/* Nothing is bound, so a page is where the core that touched it is. */
static void *touches(void *arg)
{
    static int node[PAGES_MOST];
    struct umbra_memory_report report;
    struct umbra_memory memory;
    struct umbra_nodes *nodes;
    size_t begin, end, page = um_os_page_bytes();
    struct umbra_memory_options options = {.alignment = page};

    cr_expect_eq(umbra_nodes_create(NULL, &nodes), 0);
    cr_expect_eq(umbra_memory_create(&options, ARRAY_BYTES, &memory), 0);
    cr_expect_eq(umbra_memory_touch(nodes, &memory), 0);
    cr_expect_eq(umbra_memory_report(&memory, &report, node, PAGES_MOST), 0);
    cr_expect_eq(report.present, report.pages);
    for (unsigned core = 0; core < nodes->runtime->cores; core++) {
        umbra_memory_slice(nodes, &memory, core, &begin, &end);
        for (size_t at = begin; at < end; at += page)
            cr_expect_eq(node[at / page], node_of_core(nodes->runtime, core), "page %zu",
                         at / page);
    }
    umbra_memory_destroy(&memory);
    umbra_nodes_destroy(nodes);
    return arg;
}

Test(nodes, each_slice_is_touched_by_its_own_core, .init = need_nodes, .fini = done)
{
    struct umbra_options options = {.topology = topology, .cores = cores_here(), .quiet = true};

    cr_assert_eq(umbra_run(&options, touches, NULL), 0);
}

/* Of a partitioned array, too, each core's slice is on its own node. */
static void *slices_parts(void *arg)
{
    struct umbra_memory_options options = {.place = UMBRA_MEMORY_PARTITIONED};
    struct umbra_memory memory;
    struct umbra_nodes *nodes;
    size_t begin, end;

    cr_expect_eq(umbra_nodes_create(NULL, &nodes), 0);
    cr_expect_eq(umbra_memory_create(&options, ARRAY_BYTES, &memory), 0);
    cr_expect_eq(umbra_memory_touch(nodes, &memory), 0);
    for (unsigned core = 0; core < nodes->runtime->cores; core++) {
        umbra_memory_slice(nodes, &memory, core, &begin, &end);
        cr_expect(begin < end);
        for (size_t at = begin; at < end; at += um_os_page_bytes())
            cr_expect_eq(node_at((char *)memory.at + at), node_of_core(nodes->runtime, core));
    }
    umbra_memory_destroy(&memory);
    umbra_nodes_destroy(nodes);
    return arg;
}

Test(nodes, slices_of_a_part_are_on_the_cores_node, .init = need_nodes, .fini = done)
{
    struct umbra_options options = {.topology = topology, .cores = cores_here(), .quiet = true};

    cr_assert_eq(umbra_run(&options, slices_parts, NULL), 0);
}

/* ---- loops ---- */

static void *takes_parts(void *arg)
{
    struct umbra_nodes *nodes = arg;
    size_t begin, end, taken = 0;

    while (umbra_nodes_next(nodes, &begin, &end)) {
        taken += end - begin;
        umbra_yield();
    }
    return (void *)taken;
}

/* Only the first node has iterations: all cores end, and all iterations are run. */
static void *loops(void *arg)
{
    struct umbra_runtime *runtime = umbra_runtime_self();
    struct umbra_fiber fiber[CORES_MOST];
    struct umbra_nodes *nodes;
    size_t all = 0;
    void *taken;

    cr_expect_eq(umbra_nodes_create(NULL, &nodes), 0);
    cr_expect_geq(nodes->count, 2);
    cr_expect_eq(umbra_nodes_loop(nodes, 0, 0, 5000, 7), 0);
    for (unsigned i = 0; i < umbra_runtime_cores(runtime); i++) {
        struct umbra_spawn_options there = on_core(i);

        cr_expect_eq(umbra_spawn_with(NULL, &there, takes_parts, nodes, &fiber[i]), 0);
    }
    for (unsigned i = 0; i < umbra_runtime_cores(runtime); i++) {
        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, &taken), 0);
        all += (size_t)taken;
    }
    cr_expect_eq(all, 5000);
    umbra_nodes_destroy(nodes);
    return arg;
}

Test(nodes, a_node_without_work_helps_and_ends, .init = need_nodes, .fini = done)
{
    struct umbra_options options = {.topology = topology, .cores = cores_here(), .quiet = true};

    cr_assert_eq(umbra_run(&options, loops, NULL), 0);
}
