/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Linked with --wrap for the functions below, so that each allocation can be made to fail, binding
 * can be refused, and what is left behind is counted.
 */
#define _GNU_SOURCE
#include "fibers.h"

#include <errno.h>
#include <hwloc.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Two nodes with a core each, which are this machine's processors 0 and 1 where binding is real. */
#define TWO_NODES "numa:2 core:1 pu:1"
#define FOUR_CORES "numa:2 core:2 pu:1"

static _Atomic long live;       /* blocks and mappings that are not freed */
static _Atomic long until_fail; /* allocations until one fails; 0: none does */
static _Atomic bool failed;
static int refuse;          /* the errno with which binding memory fails; 0: as the system says */
static _Atomic int refused; /* calls that were refused */

/* True if the allocation that is about to be made must fail. */
static bool fails(void)
{
    if (until_fail == 0 || --until_fail > 0)
        return false;
    failed = true;
    return true;
}

static void *counted(void *at)
{
    live += at != NULL;
    return at;
}

void *__real_malloc(size_t);
void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : counted(__real_malloc(bytes));
}

void *__real_calloc(size_t, size_t);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : counted(__real_calloc(count, bytes));
}

void *__real_aligned_alloc(size_t, size_t);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return fails() ? NULL : counted(__real_aligned_alloc(alignment, bytes));
}

void __real_free(void *);
void __wrap_free(void *at)
{
    live -= at != NULL;
    __real_free(at);
}

/* Reads more arguments than there are, as the real one does. */
long __real_syscall(long, ...);
long __wrap_syscall(long number, ...) __attribute__((no_sanitize("address")));
long __wrap_syscall(long number, ...)
{
    long word[6];
    va_list words;

    va_start(words, number);
    for (int i = 0; i < 6; i++)
        word[i] = va_arg(words, long);
    va_end(words);
    if (number == SYS_mmap && fails()) {
        errno = ENOMEM;
        return -1;
    }
    live += (number == SYS_mmap) - (number == SYS_munmap);
    return __real_syscall(number, word[0], word[1], word[2], word[3], word[4], word[5]);
}

int __real_hwloc_set_area_membind(hwloc_topology_t, const void *, size_t, hwloc_const_bitmap_t,
                                  hwloc_membind_policy_t, int);
int __wrap_hwloc_set_area_membind(hwloc_topology_t hw, const void *at, size_t bytes,
                                  hwloc_const_bitmap_t set, hwloc_membind_policy_t policy,
                                  int flags)
{
    if (refuse == 0)
        return __real_hwloc_set_area_membind(hw, at, bytes, set, policy, flags);
    refused++;
    errno = refuse;
    return -1;
}

static bool allow_all; /* hwloc keeps nodes that the kernel does not let this process use */

int __real_hwloc_topology_set_flags(hwloc_topology_t, unsigned long);
int __wrap_hwloc_topology_set_flags(hwloc_topology_t hw, unsigned long flags)
{
    return __real_hwloc_topology_set_flags(
        hw, allow_all ? flags & ~HWLOC_TOPOLOGY_FLAG_THISSYSTEM_ALLOWED_RESOURCES : flags);
}

static struct umbra_topology *described(const char *description)
{
    struct umbra_topology_options options = {.synthetic = description};
    struct umbra_topology *topology;

    cr_assert_eq(umbra_topology_create(&options, &topology), 0);
    return topology;
}

/* Two nodes as if this machine had them, so that memory is bound, or is tried to be. */
static struct umbra_topology *asserted(void)
{
    struct umbra_topology *topology;

    setenv("HWLOC_SYNTHETIC", TWO_NODES, 1);
    setenv("HWLOC_THISSYSTEM", "1", 1);
    allow_all = true;
    if (umbra_topology_create(NULL, &topology) != 0 || umbra_topology_info(topology)->cores < 2)
        cr_skip_test("needs processors 0 and 1");
    if (!umbra_topology_info(topology)->binds)
        cr_skip_test("nothing can be bound here");
    cr_assert_eq(umbra_topology_info(topology)->nodes, 2);
    cr_assert_eq(umbra_topology_bind(topology, UMBRA_ANY_CPU, NULL), 0); /* where "here" is known */
    return topology;
}

static struct umbra_runtime *runtime_on(struct umbra_topology *topology, unsigned cores)
{
    struct umbra_options options = {
        .topology = topology, .cores = cores, .oversubscribe = true, .quiet = true};
    struct umbra_runtime *runtime;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    return runtime;
}

/* ---- areas ---- */

Test(memory, every_place_can_be_used_and_reported)
{
    struct umbra_topology *topology;

    cr_assert_eq(umbra_topology_create(NULL, &topology), 0);
    for (int place = 0; place <= UMBRA_MEMORY_PARTITIONED; place++) {
        struct umbra_memory_options options = {.place = (enum umbra_memory_place)place,
                                               .topology = topology};
        struct umbra_memory_report report;
        struct umbra_memory memory;
        int error;

        options.node = umbra_topology_info(topology)->cpu[0].node;
        if (options.node < 0)
            cr_skip_test("no NUMA node is known");
        cr_assert_eq(umbra_memory_create(&options, 300000, &memory), 0);
        cr_assert_eq((uintptr_t)memory.at % UMBRA_CACHE_LINE, 0);
        memset(memory.at, place + 1, memory.bytes);
        error = umbra_memory_report(&memory, &report, NULL, 0);
        if (error == -ENOSYS || error == -EPERM)
            cr_skip_test("the system does not tell where pages are");
        cr_assert_eq(error, 0);
        cr_assert(report.pages >= 300000 / 65536);
        cr_assert_eq(report.present, report.pages);
        if (memory.refused == 0)
            cr_assert_eq(report.placed, report.pages);
        umbra_memory_destroy(&memory);
    }
    umbra_topology_destroy(topology);
}

Test(memory, a_caller_without_a_topology_has_the_machine_read)
{
    struct umbra_memory memory;

    cr_assert_eq(umbra_memory_create(NULL, 1, &memory), 0);
    cr_assert_eq(memory.bytes, 1);
    cr_assert_eq(memory.refused, 0);
    umbra_memory_destroy(&memory);
}

Test(memory, alignment_is_as_asked_for)
{
    struct umbra_topology *here = NULL, *two = asserted();

    unsetenv("HWLOC_SYNTHETIC");
    cr_assert_eq(umbra_topology_create(NULL, &here), 0);
    refuse = EPERM;
    for (size_t alignment = 1; alignment <= (size_t)8 << 20; alignment *= 8)
        for (int i = 0; i < 2; i++) {
            struct umbra_memory_options options = {.alignment = alignment,
                                                   .topology = i == 0 ? here : two};
            struct umbra_memory memory;

            cr_assert_eq(umbra_memory_create(&options, 100000, &memory), 0);
            cr_assert_eq((uintptr_t)memory.at % alignment, 0);
            memset(memory.at, 1, memory.bytes);
            umbra_memory_destroy(&memory);
        }
    umbra_topology_destroy(here);
    umbra_topology_destroy(two);
}

Test(memory, is_on_the_nodes_that_are_named)
{
    static const int nodes[] = {1, 0};
    struct umbra_topology *topology = described(TWO_NODES);
    struct umbra_memory memory;

    for (int place = UMBRA_MEMORY_INTERLEAVED; place <= UMBRA_MEMORY_PARTITIONED; place++)
        for (unsigned count = 1; count <= 2; count++) {
            struct umbra_memory_options options = {.topology = topology,
                                                   .place = (enum umbra_memory_place)place,
                                                   .nodes = nodes,
                                                   .node_count = count};

            cr_assert_eq(umbra_memory_create(&options, 100000, &memory), 0);
            cr_expect_eq(memory.parts, count);
            for (unsigned k = 0; k < count; k++)
                cr_expect_eq(memory.node[k], nodes[k]);
            umbra_memory_destroy(&memory);
        }
    umbra_topology_destroy(topology);
}

Test(memory, impossible_options_are_errors)
{
    static const int no_node[] = {4711};
    struct umbra_topology *topology = described(TWO_NODES);
    const struct umbra_memory_options bad[] = {
        {.alignment = 24},
        {.place = (enum umbra_memory_place)99},
        {.place = UMBRA_MEMORY_ON_NODE, .node = 2},
        {.place = UMBRA_MEMORY_ON_NODE, .node = -1},
        {.place = UMBRA_MEMORY_PARTITIONED, .nodes = no_node, .node_count = 1},
        {.place = UMBRA_MEMORY_INTERLEAVED, .nodes = no_node, .node_count = 0},
    };
    struct umbra_memory_options options = {.topology = topology};
    struct umbra_memory memory;
    long before = live;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        options = bad[i];
        options.topology = topology;
        cr_expect_eq(umbra_memory_create(&options, 100, &memory), -EINVAL, "%zu", i);
    }
    options = (struct umbra_memory_options){.topology = topology};
    cr_assert_eq(umbra_memory_create(&options, 0, &memory), -EINVAL);
    cr_assert_eq(umbra_memory_create(&options, SIZE_MAX, &memory), -ENOMEM);
    cr_assert_eq(umbra_memory_create(&options, SIZE_MAX - 4096, &memory), -ENOMEM);
    cr_assert_eq(live, before);
    umbra_topology_destroy(topology);
}

Test(memory, a_page_that_was_not_written_to_is_nowhere)
{
    struct umbra_memory_options options = {.alignment = (size_t)1 << 20};
    struct umbra_memory_report report;
    struct umbra_memory memory;
    int nodes[2] = {99, 99};
    int error;

#ifdef __GLIBC__
    mallopt(M_PERTURB, 0); /* Meson sets MALLOC_PERTURB_: allocations are filled */
#endif
    cr_assert_eq(umbra_memory_create(&options, (size_t)8 << 20, &memory), 0);
    memset((char *)memory.at + memory.bytes / 2, 1, 1);
    error = umbra_memory_report(&memory, &report, nodes, 2);
    if (error == -ENOSYS || error == -EPERM)
        cr_skip_test("the system does not tell where pages are");
    cr_assert_eq(error, 0);
    cr_assert(report.present >= 1 && report.present < report.pages);
    cr_assert_eq(nodes[1], -1);
    umbra_memory_destroy(&memory);
}

Test(memory, huge_pages_are_asked_for_and_counted)
{
    struct umbra_memory_options options = {.huge_pages = true};
    struct umbra_memory_report report;
    struct umbra_memory memory;
    int error;

    cr_assert_eq(umbra_memory_create(&options, ((size_t)4 << 20) + 1, &memory), 0);
    cr_assert_eq((uintptr_t)memory.at % ((size_t)2 << 20), 0);
    memset(memory.at, 1, memory.bytes);
    error = umbra_memory_report(&memory, &report, NULL, 0);
    if (error == -ENOSYS || error == -EPERM)
        cr_skip_test("the system does not tell where pages are");
    cr_assert_eq(error, 0);
    cr_assert(report.huge_bytes <= memory.bytes, "%zu", report.huge_bytes);
    if (memory.huge_refused != 0)
        cr_assert_eq(report.huge_bytes, 0);
    umbra_memory_destroy(&memory);
}

Test(memory, small_areas_are_not_rounded_up_to_huge_pages)
{
    struct umbra_memory_options options = {.huge_pages = true};
    struct umbra_memory memory;

    cr_assert_eq(umbra_memory_create(&options, 5000, &memory), 0);
    cr_assert_eq(memory.huge_refused, 0);
    memset(memory.at, 1, memory.bytes);
    umbra_memory_destroy(&memory);
}

Test(memory, a_described_machine_binds_nothing_and_says_so)
{
    struct umbra_topology *topology = described(TWO_NODES);
    struct umbra_memory_options options = {.place = UMBRA_MEMORY_PARTITIONED, .topology = topology};
    struct umbra_memory memory;

    cr_assert_eq(umbra_memory_create(&options, 100000, &memory), 0);
    cr_assert_eq(memory.refused, -EOPNOTSUPP);
    cr_assert_eq(memory.parts, 2);
    cr_assert(memory.part_bytes >= 50000 && memory.part_bytes % 4096 == 0);
    memset(memory.at, 1, memory.bytes);
    umbra_memory_destroy(&memory);
    umbra_topology_destroy(topology);
}

static void *nothing(void *arg)
{
    return arg;
}

Test(memory, refused_binding_is_told_and_everything_works)
{
    struct umbra_topology *topology = asserted();
    struct umbra_memory_options options = {.topology = topology};
    struct umbra_runtime *runtime;
    struct umbra_nodes *nodes;
    struct umbra_memory memory;

    refuse = EPERM;
    runtime = runtime_on(topology, 2);
    cr_assert_eq(umbra_runtime_run(runtime, nothing, NULL), 0);
    cr_assert_eq(umbra_nodes_create(runtime, &nodes), 0);
    for (int place = UMBRA_MEMORY_HERE; place <= UMBRA_MEMORY_PARTITIONED; place++) {
        options.place = (enum umbra_memory_place)place;
        cr_assert_eq(umbra_memory_create(&options, 100000, &memory), 0);
        cr_assert_eq(memory.refused, -EPERM);
        cr_assert_eq(umbra_memory_touch(nodes, &memory), 0);
        cr_assert_eq(((char *)memory.at)[99999], 0);
        umbra_memory_destroy(&memory);
    }
    cr_assert(refused > 4);
    umbra_nodes_destroy(nodes);
    umbra_runtime_destroy(runtime);
    umbra_topology_destroy(topology);
}

Test(memory, a_node_that_the_kernel_does_not_have_is_told)
{
    struct umbra_topology *topology = asserted();
    struct umbra_memory_options options = {
        .place = UMBRA_MEMORY_ON_NODE, .node = 1, .topology = topology};
    struct umbra_memory memory;

    if (access("/sys/devices/system/node/node1", F_OK) == 0)
        cr_skip_test("this kernel has a node 1");
    cr_assert_eq(umbra_memory_create(&options, 100000, &memory), 0);
    cr_assert(memory.refused < 0);
    memset(memory.at, 1, memory.bytes);
    umbra_memory_destroy(&memory);
    umbra_topology_destroy(topology);
}

/* ---- ranks and slices ---- */

Test(memory, ranks_are_dense)
{
    struct umbra_topology *topology = described(FOUR_CORES);
    struct umbra_runtime *runtime = runtime_on(topology, 4);
    struct umbra_nodes *nodes;

    cr_assert_eq(umbra_nodes_create(runtime, &nodes), 0);
    cr_assert_eq(nodes->count, 2);
    for (unsigned i = 0; i < 4; i++) {
        cr_expect_eq(nodes->rank[i].node, i / 2);
        cr_expect_eq(nodes->rank[i].core, i % 2);
        cr_expect_eq(nodes->rank[i].cores, 2);
        cr_expect_eq(nodes->node[nodes->rank[i].node], (int)(i / 2));
    }
    umbra_nodes_destroy(nodes);
    umbra_runtime_destroy(runtime);
    umbra_topology_destroy(topology);
}

Test(memory, slices_make_up_the_memory_and_lie_in_the_cores_part)
{
    struct umbra_topology *topology = described(FOUR_CORES);
    struct umbra_runtime *runtime = runtime_on(topology, 4);
    struct umbra_nodes *nodes;

    cr_assert_eq(umbra_nodes_create(runtime, &nodes), 0);
    for (int place = 0; place <= UMBRA_MEMORY_PARTITIONED; place++)
        for (size_t bytes = 1; bytes < 200000; bytes = 3 * bytes + 1) {
            struct umbra_memory_options options = {.place = (enum umbra_memory_place)place,
                                                   .topology = topology};
            struct umbra_memory memory;
            size_t sum = 0, begin, end;

            cr_assert_eq(umbra_memory_create(&options, bytes, &memory), 0);
            memset(memory.at, 0, bytes);
            for (unsigned i = 0; i < 4; i++) {
                umbra_memory_slice(nodes, &memory, i, &begin, &end);
                cr_assert(begin <= end && end <= bytes);
                if (begin < end)
                    cr_assert_eq(begin % UMBRA_CACHE_LINE, 0);
                for (size_t b = begin; b < end; b++)
                    cr_assert_eq(((char *)memory.at)[b]++, 0);
                sum += end - begin;
                if (place == UMBRA_MEMORY_PARTITIONED && begin < end) {
                    cr_assert_eq(begin / memory.part_bytes, i / 2);
                    cr_assert_eq((end - 1) / memory.part_bytes, i / 2);
                }
            }
            cr_assert_eq(sum, bytes);
            umbra_memory_destroy(&memory);
        }
    umbra_nodes_destroy(nodes);
    umbra_runtime_destroy(runtime);
    umbra_topology_destroy(topology);
}

static void *touches(void *arg)
{
    struct umbra_nodes *nodes;
    struct umbra_memory memory;

    cr_expect_eq(umbra_nodes_create(NULL, &nodes), 0);
    cr_expect_eq(umbra_memory_create(NULL, 100001, &memory), 0);
    memset(memory.at, 1, memory.bytes);
    cr_expect_eq(umbra_memory_touch(nodes, &memory), 0);
    for (size_t i = 0; i < memory.bytes; i++)
        cr_expect_eq(((char *)memory.at)[i], 0);
    umbra_memory_destroy(&memory);
    umbra_nodes_destroy(nodes);
    return arg;
}

Test(memory, touch_clears_all_from_a_fiber)
{
    struct umbra_nodes *none;

    cr_assert_eq(umbra_nodes_create(NULL, &none), -EPERM, "no runtime is the caller's");
    for (unsigned cores = 1; cores <= 3; cores++)
        cr_assert_eq(run_cores(cores, touches, NULL), 0);
}

/* ---- buffers ---- */

static void *takes_and_gives(void *arg)
{
    enum { MANY = 3000, BYTES = 100 };
    static char *taken[MANY];
    struct umbra_buffers *buffers;
    void *last;

    cr_expect_eq(umbra_buffers_create(NULL, BYTES, &buffers), 0);
    for (int i = 0; i < MANY; i++) {
        taken[i] = umbra_buffer_take(buffers);
        cr_expect_eq((uintptr_t)taken[i] % UMBRA_CACHE_LINE, 0);
        memset(taken[i], i, BYTES);
    }
    for (int i = 0; i < MANY; i++) {
        cr_expect_eq(taken[i][0], (char)i);
        cr_expect_eq(taken[i][BYTES - 1], (char)i);
        umbra_buffer_give(taken[i]);
    }
    last = umbra_buffer_take(buffers);
    cr_expect_eq(last, taken[MANY - 1], "the one that is hot");
    umbra_buffer_give(NULL);
    umbra_buffers_destroy(buffers);
    return arg;
}

Test(memory, buffers_are_apart_and_the_latest_comes_first)
{
    cr_assert_eq(run_cores(1, takes_and_gives, NULL), 0);
}

static void *gives_all(void *arg)
{
    void **taken = arg;

    for (int i = 0; taken[i]; i++)
        umbra_buffer_give(taken[i]);
    return NULL;
}

/* A buffer that went elsewhere and came back is taken again before there are new ones. */
static void *come_back(void *arg)
{
    struct umbra_spawn_options other = {.where = UMBRA_ON_CORE, .core = 1};
    struct umbra_buffers *buffers;
    struct umbra_fiber fiber;
    void *taken[4] = {NULL};
    pthread_t thread;

    cr_expect_eq(umbra_buffers_create(NULL, 300000, &buffers), 0); /* one a chunk */
    for (int round = 0; round < 2; round++) {
        long before;

        for (int i = 0; i < 3; i++)
            taken[i] = umbra_buffer_take(buffers);
        if (round == 0) {
            cr_expect_eq(umbra_spawn_with(NULL, &other, gives_all, taken, &fiber), 0);
            cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
        } else {
            cr_expect_eq(pthread_create(&thread, NULL, gives_all, taken), 0);
            cr_expect_eq(pthread_join(thread, NULL), 0);
        }
        before = live;
        for (int i = 0; i < 3; i++) {
            void *again = umbra_buffer_take(buffers);

            cr_expect(again == taken[0] || again == taken[1] || again == taken[2]);
        }
        cr_expect_eq(live, before);
        for (int i = 0; i < 3; i++)
            umbra_buffer_give(taken[i]);
    }
    umbra_buffers_destroy(buffers);
    return arg;
}

Test(memory, buffers_given_elsewhere_come_back)
{
    cr_assert_eq(run_cores(2, come_back, NULL), 0);
}

Test(memory, a_thread_that_is_no_core_takes_and_gives)
{
    struct umbra_runtime *runtime = runtime_on(NULL, 1);
    struct umbra_buffers *buffers;
    void *first, *second;

    cr_assert_eq(umbra_buffers_create(NULL, 10, &buffers), -EPERM);
    cr_assert_eq(umbra_buffers_create(runtime, 0, &buffers), -EINVAL);
    cr_assert_eq(umbra_buffers_create(runtime, SIZE_MAX, &buffers), -ENOMEM);
    cr_assert_eq(umbra_buffers_create(runtime, 10, &buffers), 0);
    first = umbra_buffer_take(buffers);
    second = umbra_buffer_take(buffers);
    cr_assert_neq(first, second);
    memset(first, 1, 10);
    umbra_buffer_give(first);
    umbra_buffer_give(second);
    cr_assert_not_null(umbra_buffer_take(buffers));
    umbra_buffers_destroy(buffers);
    umbra_runtime_destroy(runtime);
}

enum { RING = 64, PASSED = 20000 };

static struct umbra_buffers *passed;
static _Atomic(int *) ring[RING];

static void *takes(void *arg)
{
    for (int i = 0; i < PASSED; i++) {
        int *buffer = umbra_buffer_take(passed);

        *buffer = i;
        while (ring[i % RING])
            umbra_yield();
        ring[i % RING] = buffer;
    }
    return arg;
}

static void *gives(void *arg)
{
    for (int i = 0; i < PASSED; i++) {
        while (!ring[i % RING])
            umbra_yield();
        cr_expect_eq(*ring[i % RING], i);
        umbra_buffer_give(ring[i % RING]);
        ring[i % RING] = NULL;
    }
    return arg;
}

static void *pass(void *arg)
{
    struct umbra_spawn_options other = {.where = UMBRA_ON_CORE, .core = 1};
    struct umbra_fiber taker, giver;

    cr_expect_eq(umbra_buffers_create(NULL, sizeof(int), &passed), 0);
    cr_expect_eq(umbra_spawn_with(NULL, &other, takes, NULL, &taker), 0);
    cr_expect_eq(umbra_spawn(gives, NULL, &giver), 0);
    cr_expect_eq(umbra_join(taker, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(umbra_join(giver, UMBRA_NEVER, NULL), 0);
    umbra_buffers_destroy(passed);
    return arg;
}

Test(memory, what_one_core_takes_another_may_give)
{
    cr_assert_eq(run_cores(2, pass, NULL), 0);
}

/* ---- loops and barriers ---- */

enum { ITERATIONS = 10007 };

struct loops {
    struct umbra_nodes *nodes;
    _Atomic unsigned char done[ITERATIONS];
    _Atomic unsigned parts[4];  /* taken by each core */
    _Atomic unsigned before[2]; /* of a node, that have come to its barrier */
    _Atomic int wrong;          /* first parts that were not the core's node's */
    size_t share[2];            /* where the node's iterations end */
    bool first_is_near;         /* there is work for both nodes */
};

static void *iterates(void *arg)
{
    struct loops *loops = arg;
    unsigned core = (unsigned)umbra_core_index();
    unsigned node = loops->nodes->rank[core].node;
    size_t begin, end;
    bool first = true;

    loops->before[node]++;
    cr_expect(umbra_nodes_wait(loops->nodes) >= 0);
    cr_expect_eq(loops->before[node], 2, "both cores of the node have come");
    while (umbra_nodes_next(loops->nodes, &begin, &end)) {
        bool near = node == 0 ? end <= loops->share[0] : begin >= loops->share[0];

        loops->wrong += first && loops->first_is_near && !near && loops->parts[core] == 0;
        first = false;
        cr_expect(begin < end && end <= ITERATIONS);
        for (size_t i = begin; i < end; i++)
            loops->done[i]++;
        loops->parts[core]++;
        umbra_yield();
    }
    return NULL;
}

/* Iterations up to `middle` are node 0's, the others node 1's. */
static void iterate(struct umbra_nodes *nodes, size_t middle)
{
    static struct loops loops;
    struct umbra_fiber fiber[4];

    memset(&loops, 0, sizeof(loops));
    loops.nodes = nodes;
    loops.share[0] = middle;
    cr_expect_eq(umbra_nodes_loop(nodes, 0, 0, middle, 10), 0);
    cr_expect_eq(umbra_nodes_loop(nodes, 1, middle, ITERATIONS, 10), 0);
    for (unsigned i = 0; i < 4; i++) {
        struct umbra_spawn_options there = on_core(i);

        cr_expect_eq(umbra_spawn_with(nodes->runtime, &there, iterates, &loops, &fiber[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    for (size_t i = 0; i < ITERATIONS; i++)
        cr_expect_eq(loops.done[i], 1, "iteration %zu: %d times", i, loops.done[i]);
}

Test(memory, loops_of_nodes_run_each_iteration_once)
{
    struct umbra_topology *topology = described(FOUR_CORES);
    struct umbra_runtime *runtime = runtime_on(topology, 4);
    struct umbra_nodes *nodes;

    cr_assert_eq(umbra_nodes_create(runtime, &nodes), 0);
    iterate(nodes, ITERATIONS / 2);
    iterate(nodes, ITERATIONS); /* node 1 has none, and helps */
    iterate(nodes, 0);
    cr_assert_eq(umbra_nodes_loop(nodes, 2, 0, 1, 1), -EINVAL);
    cr_assert_eq(umbra_nodes_wait(nodes), -EPERM);
    umbra_nodes_destroy(nodes);
    umbra_runtime_destroy(runtime);
    umbra_topology_destroy(topology);
}

/* What a fiber on core 2, the first of node 1, takes from loops of two parts each. */
static void *takes_in_order(void *arg)
{
    static const size_t order[] = {20, 30, 0, 10};
    size_t begin = 0, end = 0;

    for (int i = 0; i < 4; i++) {
        cr_expect(umbra_nodes_next(arg, &begin, &end));
        cr_expect_eq(begin, order[i]);
        cr_expect_eq(end, order[i] + 10 < 35 ? order[i] + 10 : 35);
    }
    cr_expect_not(umbra_nodes_next(arg, &begin, &end));
    cr_expect_not(umbra_nodes_next(arg, &begin, &end));
    return NULL;
}

Test(memory, a_node_takes_its_own_iterations_first)
{
    struct umbra_topology *topology = described(FOUR_CORES);
    struct umbra_runtime *runtime = runtime_on(topology, 4);
    struct umbra_spawn_options there = on_core(2);
    struct umbra_nodes *nodes;
    struct umbra_fiber fiber;
    size_t begin = 0, end = 0;

    cr_assert_eq(umbra_nodes_create(runtime, &nodes), 0);
    cr_assert_not(umbra_nodes_next(nodes, &begin, &end), "no loop was set");
    cr_assert_eq(umbra_nodes_loop(nodes, 0, 0, 20, 10), 0);
    cr_assert_eq(umbra_nodes_loop(nodes, 1, 20, 35, 10), 0);
    cr_assert_eq(umbra_spawn_with(runtime, &there, takes_in_order, nodes, &fiber), 0);
    cr_assert_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    cr_assert_eq(umbra_nodes_loop(nodes, 0, SIZE_MAX - 1, SIZE_MAX, 0), 0);
    cr_assert(umbra_nodes_next(nodes, &begin, &end));
    cr_assert_eq(begin, SIZE_MAX - 1);
    cr_assert_eq(end, SIZE_MAX);
    cr_assert_not(umbra_nodes_next(nodes, &begin, &end));
    umbra_nodes_destroy(nodes);
    umbra_runtime_destroy(runtime);
    umbra_topology_destroy(topology);
}

/* ---- no memory ---- */

/* Everything here once. Returns the first error; frees what it got. */
static int use_all(struct umbra_runtime *runtime, const struct umbra_topology *topology)
{
    struct umbra_memory_options options = {.place = UMBRA_MEMORY_PARTITIONED, .topology = topology};
    struct umbra_buffers *buffers = NULL;
    struct umbra_nodes *nodes = NULL;
    struct umbra_memory memory;
    int error = umbra_memory_create(&options, 300000, &memory);

    if (error != 0)
        return error;
    error = umbra_nodes_create(runtime, &nodes);
    if (error == 0)
        error = umbra_memory_touch(nodes, &memory);
    if (error == 0) {
        struct umbra_memory_report report;
        int told = umbra_memory_report(&memory, &report, NULL, 0);

        error = told == -ENOMEM ? told : 0;
    }
    if (error == 0)
        error = umbra_buffers_create(runtime, 1000, &buffers);
    if (error == 0 && !umbra_buffer_take(buffers))
        error = -ENOMEM;
    umbra_buffers_destroy(buffers);
    umbra_nodes_destroy(nodes);
    umbra_memory_destroy(&memory);
    return error;
}

/* Makes one allocation after the other fail. */
static void fail_each(struct umbra_topology *topology)
{
    struct umbra_runtime *runtime = runtime_on(topology, 2);
    int sites = 0;
    long before;

    cr_assert_eq(use_all(runtime, topology), 0); /* what is kept for good is made now */
    before = live;
    do {
        int error;

        failed = false;
        until_fail = ++sites;
        error = use_all(runtime, topology);
        until_fail = 0;
        cr_assert_eq(error, failed ? -ENOMEM : 0, "site %d: %d", sites, error);
        cr_assert_eq(live, before, "site %d: %ld left behind", sites, live - before);
    } while (failed);
    cr_assert(sites > 8, "%d", sites);
    umbra_runtime_destroy(runtime);
}

Test(memory, allocations_that_fail_leave_nothing_behind)
{
    struct umbra_topology *topology;

    cr_assert_eq(umbra_topology_create(NULL, &topology), 0);
    fail_each(topology);
    umbra_topology_destroy(topology);
}

Test(memory, allocations_that_fail_leave_nothing_behind_where_memory_is_bound)
{
    struct umbra_topology *topology = asserted();

    refuse = EPERM;
    fail_each(topology);
    umbra_topology_destroy(topology);
}

static int takes_nothing(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    (void)value;
    (void)arg;
    return 0;
}

/* A dispatcher that queues more than its rings first have room for. */
static int dispatch_once(struct umbra_runtime *runtime)
{
    struct umbra_dispatch_options options = {.fn = takes_nothing, .scratch_bytes = 5000};
    struct umbra_dispatch *dispatch;
    static int value;
    int error = umbra_dispatch_create(runtime, &options, &dispatch), ended;

    if (error != 0)
        return error;
    error = umbra_dispatch_begin(dispatch);
    for (int i = 0; i < 1000 && error == 0; i++)
        error = umbra_dispatch_put(dispatch, &value, UMBRA_ANY_NODE);
    ended = umbra_dispatch_end(dispatch, UMBRA_NEVER);
    umbra_dispatch_destroy(dispatch);
    return error != 0 ? error : ended;
}

/* A runtime, fibers and a dispatcher, on two nodes. */
static int begin_all(struct umbra_topology *topology)
{
    struct umbra_options options = {.topology = topology, .cores = 2, .quiet = true};
    struct umbra_runtime *runtime;
    struct umbra_fiber fiber;
    int error = umbra_runtime_create(&options, &runtime);

    if (error != 0)
        return error;
    error = umbra_spawn_with(runtime, NULL, nothing, NULL, &fiber);
    if (error == 0)
        umbra_join(fiber, UMBRA_NEVER, NULL);
    if (error == 0)
        error = dispatch_once(runtime);
    umbra_runtime_destroy(runtime);
    return error;
}

Test(memory, a_runtime_that_finds_no_memory_leaves_nothing_behind)
{
    struct umbra_topology *topology = asserted();
    int sites = 0;
    long before;

    refuse = EPERM;
    cr_assert_eq(begin_all(topology), 0);
    before = live;
    do {
        failed = false;
        until_fail = ++sites;
        begin_all(topology);
        until_fail = 0;
        cr_assert_eq(live, before, "site %d: %ld left behind", sites, live - before);
    } while (failed);
    umbra_topology_destroy(topology);
}
