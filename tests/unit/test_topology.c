/* SPDX-License-Identifier: BSL-1.0 */
/*
 * umbra/topology.h on described machines and on this one. Linked with --wrap for what the header
 * allocates and for hwloc_set_cpubind (the list is at "injected failures"), so that every
 * allocation can be made to fail, what is left over can be counted, and a processor can go offline.
 */
#define _GNU_SOURCE
#include <umbra/core.h>
#include <umbra/memory.h>
#include <umbra/team.h>
#include <umbra/topology.h>

#include <runner.h>

#include "described.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- injected failures ---- */

static atomic_long fail_at; /* which counted call from now on fails; 0: none */
static atomic_long live;    /* what the header has allocated and not freed */
static int refusal;         /* what binding fails with; 0: it works */

static bool fails(void)
{
    return fail_at > 0 && --fail_at == 0;
}

#define COUNTED(type, name, params, args)                                                          \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params                                                                      \
    {                                                                                              \
        type result = fails() ? NULL : __real_##name args;                                         \
                                                                                                   \
        live += result != NULL;                                                                    \
        return result;                                                                             \
    }

#define RELEASED(name, type)                                                                       \
    void __real_##name(type object);                                                               \
    void __wrap_##name(type object);                                                               \
    void __wrap_##name(type object)                                                                \
    {                                                                                              \
        live -= object != NULL;                                                                    \
        __real_##name(object);                                                                     \
    }

#define FALLIBLE(name, params, args)                                                               \
    int __real_##name params;                                                                      \
    int __wrap_##name params;                                                                      \
    int __wrap_##name params                                                                       \
    {                                                                                              \
        if (!fails())                                                                              \
            return __real_##name args;                                                             \
        errno = ENOMEM;                                                                            \
        return -1;                                                                                 \
    }

COUNTED(void *, malloc, (size_t size), (size))
COUNTED(void *, calloc, (size_t count, size_t size), (count, size))
RELEASED(free, void *)
COUNTED(hwloc_bitmap_t, hwloc_bitmap_alloc, (void), ())
COUNTED(hwloc_bitmap_t, hwloc_bitmap_dup, (hwloc_const_bitmap_t set), (set))
RELEASED(hwloc_bitmap_free, hwloc_bitmap_t)
RELEASED(hwloc_topology_destroy, hwloc_topology_t)
FALLIBLE(hwloc_bitmap_only, (hwloc_bitmap_t set, unsigned id), (set, id))
FALLIBLE(hwloc_bitmap_or, (hwloc_bitmap_t out, hwloc_const_bitmap_t a, hwloc_const_bitmap_t b),
         (out, a, b))
FALLIBLE(hwloc_bitmap_and, (hwloc_bitmap_t out, hwloc_const_bitmap_t a, hwloc_const_bitmap_t b),
         (out, a, b))

static atomic_uint loads; /* how often hwloc was to read a machine */

static void (*at_load)(void); /* what hwloc loads may do, or NULL */

int __real_hwloc_topology_load(hwloc_topology_t topology);
int __wrap_hwloc_topology_load(hwloc_topology_t topology);
int __wrap_hwloc_topology_load(hwloc_topology_t topology)
{
    loads++;
    if (at_load)
        at_load();
    errno = ENOMEM;
    return fails() ? -1 : __real_hwloc_topology_load(topology);
}

int __real_hwloc_topology_init(hwloc_topology_t *topology);
int __wrap_hwloc_topology_init(hwloc_topology_t *topology);
int __wrap_hwloc_topology_init(hwloc_topology_t *topology)
{
    errno = ENOMEM;
    if (fails() || __real_hwloc_topology_init(topology) != 0)
        return -1;
    live++;
    return 0;
}

int __real_hwloc_set_cpubind(hwloc_topology_t topology, hwloc_const_bitmap_t set, int flags);
int __wrap_hwloc_set_cpubind(hwloc_topology_t topology, hwloc_const_bitmap_t set, int flags);
int __wrap_hwloc_set_cpubind(hwloc_topology_t topology, hwloc_const_bitmap_t set, int flags)
{
    if (refusal == 0)
        return __real_hwloc_set_cpubind(topology, set, flags);
    errno = refusal;
    return -1;
}

/* ---- described machines ---- */

#define TWO_NODES "pack:2 numa:1 l3:1 core:2 pu:2"
#define EIGHT_L3S "numa:2 l3:2 l2:2 core:2 pu:2" /* 2 nodes, 4 L3s, 8 L2s, 16 cores, 32 cpus */

static struct umbra_topology *this_machine(void)
{
    struct umbra_topology *topology = NULL;
    int result = umbra_topology_create(NULL, &topology);

    cr_assert_eq(result, 0, "%d", result);
    return topology;
}

/* Whether got[0 ... count - 1] are these numbers. */
static bool same(const int *got, unsigned count, const int *wanted)
{
    for (unsigned i = 0; i < count; i++)
        if (got[i] != wanted[i])
            return false;
    return true;
}
#define cr_assert_cpus(got, ...)                                                                   \
    cr_assert(same(got, sizeof((int[]){__VA_ARGS__}) / sizeof(int), (int[]){__VA_ARGS__}))

/* Every core of a machine with so many cores and hardware threads a core. */
static void check_smt(const char *synthetic, unsigned cores, int ways)
{
    struct umbra_topology *t = described(synthetic);

    cr_assert_eq(umbra_topology_info(t)->cores, cores);
    cr_assert_eq(umbra_topology_info(t)->cpus, cores * (unsigned)ways);
    for (unsigned i = 0; i < umbra_topology_info(t)->cpus; i++) {
        const struct umbra_topology_cpu *cpu = &umbra_topology_info(t)->cpu[i];
        int siblings[16];

        cr_assert_eq(cpu->core, i / (unsigned)ways);
        cr_assert_eq(cpu->smt_rank, i % (unsigned)ways);
        cr_assert_eq(um_cpu_table_siblings(&t->table, cpu->cpu, NULL, 0), ways - 1);
        cr_assert_eq(um_cpu_table_siblings(&t->table, cpu->cpu, siblings, 16), ways - 1);
        for (int j = 0; j < ways - 1; j++) {
            cr_assert_neq(siblings[j], cpu->cpu);
            cr_assert_eq(umbra_topology_cpu_of(t, siblings[j])->core, cpu->core);
        }
    }
    umbra_topology_destroy(t);
}

Test(topology, one_hardware_thread_a_core_has_no_sibling)
{
    check_smt("pack:1 core:6 pu:1", 6, 1);
}

Test(topology, two_hardware_threads_a_core_are_siblings)
{
    check_smt("pack:2 core:3 pu:2", 6, 2);
}

Test(topology, four_hardware_threads_a_core_are_siblings)
{
    check_smt("pack:2 l3:1 core:2 pu:4", 4, 4);
}

Test(topology, eight_hardware_threads_a_core_are_siblings)
{
    check_smt("pack:1 core:3 pu:8", 3, 8);
}

Test(topology, a_machine_without_core_objects_has_a_core_for_each_cpu)
{
    check_smt("pu:4", 4, 1);
}

Test(topology, a_level_1_cache_for_each_cpu_does_not_hide_siblings)
{
    check_smt("pack:2 core:2 l1:2 pu:1", 4, 2);
}

Test(topology, a_level_1_cache_over_two_cores_does_not_make_siblings)
{
    check_smt("pack:1 l2:2 l1:1 core:2 pu:1", 4, 1);
}

Test(topology, interleaved_numbering_keeps_siblings_together)
{
    struct umbra_topology *t = described("core:4 pu:2(indexes=0,4,1,5,2,6,3,7)");
    int sibling[1];

    cr_assert_eq(um_cpu_table_siblings(&t->table, 1, sibling, 1), 1);
    cr_assert_eq(sibling[0], 5);
    cr_assert_eq(umbra_topology_info(t)->cpu[2].cpu, 1);
    cr_assert_eq(umbra_topology_info(t)->cpu[3].cpu, 5);
    umbra_topology_destroy(t);
}

Test(topology, siblings_are_counted_beyond_the_room_for_them)
{
    struct umbra_topology *t = described("core:2 pu:4");
    int siblings[2] = {-1, -1};

    cr_assert_eq(um_cpu_table_siblings(&t->table, 5, siblings, 1), 3);
    cr_assert_cpus(siblings, 4, -1);
    umbra_topology_destroy(t);
}

Test(topology, l3s_and_nodes_are_counted)
{
    struct umbra_topology *t = described(EIGHT_L3S);

    cr_assert_eq(umbra_topology_info(t)->l3s, 4);
    cr_assert_eq(umbra_topology_info(t)->nodes, 2);
    cr_assert_eq(umbra_topology_info(t)->cores, 16);
    umbra_topology_destroy(t);
}

Test(topology, sizes_of_caches_and_nodes_are_told)
{
    struct umbra_topology *t = described(
        "numa:2(memory=4000) l3:1(size=3000) l2:2(size=2000) l1d:1(size=1000) core:1 pu:1");

    cr_assert_eq(umbra_topology_info(t)->cpu[0].l1_bytes, 1000);
    cr_assert_eq(umbra_topology_info(t)->cpu[0].l2_bytes, 2000);
    cr_assert_eq(umbra_topology_info(t)->cpu[0].l3_bytes, 3000);
    cr_assert_eq(umbra_topology_info(t)->cpu[0].node_bytes, 4000);
    umbra_topology_destroy(t);
}

Test(topology, caches_that_are_not_there_are_minus_one_and_shared_by_nobody)
{
    struct umbra_topology *t = described("numa:1 core:2 pu:1");

    cr_assert_eq(umbra_topology_info(t)->cpu[0].l2, -1);
    cr_assert_eq(umbra_topology_info(t)->cpu[0].l3, -1);
    cr_assert_eq(umbra_topology_info(t)->l3s, 0);
    cr_assert_eq(umbra_topology_shared(t, 0, 1), UMBRA_SHARED_NODE);
    umbra_topology_destroy(t);
}

Test(topology, the_nearest_shared_thing_is_found_at_every_level)
{
    struct umbra_topology *t = described(EIGHT_L3S);

    cr_assert_eq(umbra_topology_shared(t, 0, 0), UMBRA_SHARED_CORE);
    cr_assert_eq(umbra_topology_shared(t, 0, 1), UMBRA_SHARED_CORE);
    cr_assert_eq(umbra_topology_shared(t, 0, 3), UMBRA_SHARED_L2);
    cr_assert_eq(umbra_topology_shared(t, 7, 0), UMBRA_SHARED_L3);
    cr_assert_eq(umbra_topology_shared(t, 0, 8), UMBRA_SHARED_NODE);
    cr_assert_eq(umbra_topology_shared(t, 31, 0), UMBRA_SHARED_MACHINE);
    cr_assert_eq(umbra_topology_shared(t, 0, 32), -ENODEV);
    cr_assert_eq(umbra_topology_shared(t, -1, 0), -ENODEV);
    umbra_topology_destroy(t);
}

Test(topology, a_cpu_belongs_to_its_own_node_where_another_spans_the_machine)
{
    /* A slow memory beside the whole machine, a fast one in each package. */
    struct umbra_topology *t = described("[numa(memory=64GB)] pack:2 [numa] core:2 pu:1");

    cr_assert_eq(umbra_topology_info(t)->nodes, 2);
    cr_assert_eq(umbra_topology_shared(t, 0, 1), UMBRA_SHARED_NODE);
    cr_assert_eq(umbra_topology_shared(t, 0, 2), UMBRA_SHARED_MACHINE);
    umbra_topology_destroy(t);
}

Test(topology, every_shared_thing_has_a_name)
{
    cr_assert_str_eq(umbra_topology_shared_name(UMBRA_SHARED_CORE), "core");
    cr_assert_str_eq(umbra_topology_shared_name(UMBRA_SHARED_L2), "L2");
    cr_assert_str_eq(umbra_topology_shared_name(UMBRA_SHARED_L3), "L3");
    cr_assert_str_eq(umbra_topology_shared_name(UMBRA_SHARED_NODE), "node");
    cr_assert_str_eq(umbra_topology_shared_name(UMBRA_SHARED_MACHINE), "machine");
    cr_assert_str_eq(umbra_topology_shared_name((enum umbra_shared)99), "machine");
}

Test(topology, nearest_goes_from_sibling_outwards_as_cpus_are_taken)
{
    static const int wanted[] = {UMBRA_SHARED_CORE, UMBRA_SHARED_L2, UMBRA_SHARED_L2,
                                 UMBRA_SHARED_L3};
    struct umbra_topology *t = described(EIGHT_L3S);
    int taken[32];

    for (unsigned i = 0; i < 31; i++) {
        enum umbra_shared expected = i < 4    ? (enum umbra_shared)wanted[i]
                                     : i < 7  ? UMBRA_SHARED_L3
                                     : i < 15 ? UMBRA_SHARED_NODE
                                              : UMBRA_SHARED_MACHINE;

        taken[i] = umbra_topology_nearest(t, 5, taken, i);
        cr_assert_eq(umbra_topology_shared(t, 5, taken[i]), (int)expected, "choice %u: %d", i,
                     taken[i]);
    }
    cr_assert_eq(umbra_topology_nearest(t, 5, taken, 31), -ENODEV);
    umbra_topology_destroy(t);
}

Test(topology, neighbours_without_siblings_get_different_nearest_cpus)
{
    struct umbra_topology *t = described("l3:1 core:4 pu:1");

    cr_assert_eq(umbra_topology_nearest(t, 0, NULL, 0), 1);
    cr_assert_eq(umbra_topology_nearest(t, 2, NULL, 0), 3);
    cr_assert_eq(umbra_topology_nearest(t, 3, NULL, 0), 0);
    umbra_topology_destroy(t);
}

Test(topology, nearest_on_a_single_cpu_is_nobody)
{
    struct umbra_topology *t = described("core:1 pu:1");

    cr_assert_eq(umbra_topology_nearest(t, 0, NULL, 0), -ENODEV);
    cr_assert_eq(umbra_topology_nearest(t, 7, NULL, 0), -ENODEV);
    umbra_topology_destroy(t);
}

/* ---- placement ---- */

Test(topology, compact_takes_neighbouring_cores_and_never_two_cpus_of_one)
{
    struct umbra_topology *t = described(EIGHT_L3S);
    int cpus[16];

    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_COMPACT, 16, cpus), 0);
    for (int i = 0; i < 16; i++)
        cr_assert_eq(cpus[i], 2 * i);
    umbra_topology_destroy(t);
}

Test(topology, scatter_alternates_nodes_then_l3s_then_l2s)
{
    struct umbra_topology *t = described(EIGHT_L3S);
    int cpus[16];

    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_SCATTER, 16, cpus), 0);
    cr_assert_cpus(cpus, 0, 16, 8, 24, 4, 20, 12, 28, 2, 18, 10, 26, 6, 22, 14, 30);
    umbra_topology_destroy(t);
}

Test(topology, scatter_of_few_is_the_beginning_of_scatter_of_many)
{
    struct umbra_topology *t = described(TWO_NODES);
    int cpus[4] = {-1, -1, -1, -1};

    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_SCATTER, 3, cpus), 0);
    cr_assert_cpus(cpus, 0, 4, 2, -1);
    umbra_topology_destroy(t);
}

Test(topology, one_per_l3_takes_the_first_core_of_each)
{
    struct umbra_topology *t = described(EIGHT_L3S);
    int cpus[4];

    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_ONE_PER_L3, 4, cpus), 0);
    cr_assert_cpus(cpus, 0, 8, 16, 24);
    umbra_topology_destroy(t);
}

Test(topology, one_per_l3_without_l3s_takes_the_first_core_of_each_l2)
{
    struct umbra_topology *t = described("numa:1 l2:2 core:2 pu:1");
    int cpus[2];

    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_ONE_PER_L3, 2, cpus), 0);
    cr_assert_cpus(cpus, 0, 2);
    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_ONE_PER_L3, 3, cpus), -ENOSPC);
    umbra_topology_destroy(t);
}

Test(topology, one_per_node_takes_the_first_core_of_each)
{
    struct umbra_topology *t = described(EIGHT_L3S);
    int cpus[2];

    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_ONE_PER_NODE, 2, cpus), 0);
    cr_assert_cpus(cpus, 0, 16);
    umbra_topology_destroy(t);
}

Test(topology, an_impossible_placement_is_refused_and_writes_nothing)
{
    static const unsigned too_many[] = {17, 17, 5, 3};
    struct umbra_topology *t = described(EIGHT_L3S);

    for (unsigned p = UMBRA_PLACE_COMPACT; p <= UMBRA_PLACE_ONE_PER_NODE; p++) {
        int cpus[17] = {-1, -1};

        cr_assert_eq(um_topology_place(t, (enum umbra_placement)p, too_many[p], cpus), -ENOSPC);
        cr_assert_cpus(cpus, -1, -1);
        cr_assert_eq(um_topology_place(t, (enum umbra_placement)p, 0, cpus), 0);
    }
    umbra_topology_destroy(t);
}

Test(topology, an_unknown_placement_is_refused)
{
    struct umbra_topology *t = described(TWO_NODES);
    int cpu = -1;

    cr_assert_eq(um_topology_place(t, (enum umbra_placement)4, 1, &cpu), -EINVAL);
    cr_assert_eq(cpu, -1);
    umbra_topology_destroy(t);
}

Test(topology, a_list_is_read_in_its_own_order)
{
    struct umbra_topology *t = described(EIGHT_L3S);
    int cpus[32];

    cr_assert_eq(um_topology_place_list(t, "7", cpus, 1), 1);
    cr_assert_cpus(cpus, 7);
    cr_assert_eq(um_topology_place_list(t, "9,2-5,0,10-16:3,31-31", cpus, 32), 10);
    cr_assert_cpus(cpus, 9, 2, 3, 4, 5, 0, 10, 13, 16, 31);
    cr_assert_eq(um_topology_place_list(t, "0-31", cpus, 32), 32);
    umbra_topology_destroy(t);
}

Test(topology, a_malformed_list_is_refused_and_writes_nothing)
{
    static const char *const bad[] = {"",           ",",
                                      "1,",         ",1",
                                      "1,,2",       "a",
                                      "1a",         "-1",
                                      "1-",         "5-2",
                                      "1-3:",       "1-3:0",
                                      "1:2",        " 1",
                                      "1 ",         "1, 2",
                                      "+1",         "0x1",
                                      "1-2-3",      "1;2",
                                      "3,3",        "2-5,4",
                                      "1--2",       "99999999999",
                                      "2147483648", "1-2:99999999999",
                                      "1-2:-1",     "1\n"};
    struct umbra_topology *t = described(EIGHT_L3S);

    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        int cpus[32] = {-1};

        cr_assert_eq(um_topology_place_list(t, bad[i], cpus, 32), -EINVAL, "'%s'", bad[i]);
        cr_assert_eq(cpus[0], -1);
    }
    umbra_topology_destroy(t);
}

Test(topology, a_list_with_a_cpu_that_is_not_allowed_is_refused)
{
    struct umbra_topology *t = described(TWO_NODES);
    int cpus[8] = {-1};

    cr_assert_eq(um_topology_place_list(t, "0,8", cpus, 8), -ENODEV);
    cr_assert_eq(um_topology_place_list(t, "0-2147483647", cpus, 8), -ENODEV);
    cr_assert_eq(um_topology_place_list(t, "7-2147483647:2147483647", cpus, 8), 1);
    umbra_topology_destroy(t);
}

Test(topology, a_list_longer_than_its_room_is_refused_and_writes_nothing)
{
    struct umbra_topology *t = described(TWO_NODES);
    int cpus[3] = {-1, -1, -1};

    cr_assert_eq(um_topology_place_list(t, "0-3", cpus, 3), -ENOSPC);
    cr_assert_cpus(cpus, -1, -1, -1);
    umbra_topology_destroy(t);
}

/* ---- offline and disallowed processors ---- */

/* TWO_NODES of which only some processors are allowed, as in a cpuset. */
static struct umbra_topology *with_allowed(const char *allowed)
{
    return described_with(TWO_NODES, allowed, NULL);
}

Test(topology, disallowed_cpus_are_not_seen)
{
    struct umbra_topology *t = with_allowed("1,4-6");

    cr_assert_eq(umbra_topology_info(t)->cpus, 4);
    cr_assert_eq(umbra_topology_info(t)->cores, 3);
    cr_assert_null(umbra_topology_cpu_of(t, 0));
    cr_assert_eq(um_cpu_table_siblings(&t->table, 0, NULL, 0), -ENODEV);
    cr_assert_eq(um_cpu_table_siblings(&t->table, 0, NULL, 0), -ENODEV);
    cr_assert_eq(umbra_topology_nearest(t, 0, NULL, 0), -ENODEV);
    cr_assert_eq(umbra_topology_bind(t, 0, NULL), -ENODEV);
    umbra_topology_destroy(t);
}

Test(topology, a_core_with_a_disallowed_sibling_has_fewer_shadows)
{
    struct umbra_topology *t = with_allowed("1,4-6");

    cr_assert_eq(um_cpu_table_siblings(&t->table, 1, NULL, 0), 0);
    cr_assert_eq(umbra_topology_cpu_of(t, 1)->smt_rank, 0);
    cr_assert_eq(um_cpu_table_siblings(&t->table, 4, NULL, 0), 1);
    cr_assert_eq(um_cpu_table_siblings(&t->table, 6, NULL, 0), 0);
    cr_assert_eq(umbra_topology_nearest(t, 6, NULL, 0), 4);
    umbra_topology_destroy(t);
}

Test(topology, placement_uses_only_allowed_cpus)
{
    struct umbra_topology *t = with_allowed("1,4-6");
    int cpus[4];

    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_COMPACT, 3, cpus), 0);
    cr_assert_cpus(cpus, 1, 4, 6);
    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_SCATTER, 3, cpus), 0);
    cr_assert_cpus(cpus, 1, 4, 6);
    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_COMPACT, 4, cpus), -ENOSPC);
    cr_assert_eq(um_topology_place_list(t, "0", cpus, 4), -ENODEV);
    umbra_topology_destroy(t);
}

Test(topology, scatter_on_uneven_nodes_uses_every_core_once)
{
    struct umbra_topology *t = with_allowed("2,4-7");
    int cpus[3];

    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_SCATTER, 3, cpus), 0);
    cr_assert_cpus(cpus, 2, 4, 6);
    umbra_topology_destroy(t);
    t = with_allowed("0-5");
    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_SCATTER, 3, cpus), 0);
    cr_assert_cpus(cpus, 0, 4, 2);
    umbra_topology_destroy(t);
}

Test(topology, one_cpu_of_each_core_allowed_has_all_cores_and_no_siblings)
{
    struct umbra_topology *t = with_allowed("0,2,5,7");
    int cpus[5];

    cr_assert_eq(umbra_topology_info(t)->cores, 4);
    cr_assert_eq(umbra_topology_info(t)->cpus, 4);
    for (unsigned i = 0; i < 4; i++) {
        int cpu = umbra_topology_info(t)->cpu[i].cpu;
        int nearest = umbra_topology_nearest(t, cpu, NULL, 0);

        cr_assert_eq(um_cpu_table_siblings(&t->table, cpu, NULL, 0), 0);
        cr_assert_eq(umbra_topology_shared(t, cpu, nearest), UMBRA_SHARED_L3);
    }
    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_COMPACT, 4, cpus), 0);
    cr_assert_cpus(cpus, 0, 2, 5, 7);
    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_SCATTER, 4, cpus), 0);
    cr_assert_cpus(cpus, 0, 5, 2, 7);
    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_COMPACT, 5, cpus), -ENOSPC);
    umbra_topology_destroy(t);
}

/* Two cores of two hardware threads; cpu 3 is offline: in the complete set only. */
static const char offline_xml[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
    "<topology version=\"2.0\">\n"
    "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x7\" complete_cpuset=\"0xf\""
    " allowed_cpuset=\"0x7\" nodeset=\"0x1\" complete_nodeset=\"0x1\" allowed_nodeset=\"0x1\">\n"
    "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x7\" complete_cpuset=\"0xf\""
    " nodeset=\"0x1\" complete_nodeset=\"0x1\" local_memory=\"1073741824\"/>\n"
    "<object type=\"Core\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\""
    " nodeset=\"0x1\" complete_nodeset=\"0x1\">\n"
    "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\""
    " nodeset=\"0x1\" complete_nodeset=\"0x1\"/>\n"
    "<object type=\"PU\" os_index=\"1\" cpuset=\"0x2\" complete_cpuset=\"0x2\""
    " nodeset=\"0x1\" complete_nodeset=\"0x1\"/>\n"
    "</object>\n"
    "<object type=\"Core\" os_index=\"1\" cpuset=\"0x4\" complete_cpuset=\"0xc\""
    " nodeset=\"0x1\" complete_nodeset=\"0x1\">\n"
    "<object type=\"PU\" os_index=\"2\" cpuset=\"0x4\" complete_cpuset=\"0x4\""
    " nodeset=\"0x1\" complete_nodeset=\"0x1\"/>\n"
    "</object>\n"
    "</object>\n"
    "</topology>\n";

Test(topology, offline_cpus_are_not_seen)
{
    struct umbra_topology *t = from_xml(offline_xml);
    int cpus[4];

    cr_assert_eq(umbra_topology_info(t)->cpus, 3);
    cr_assert_eq(um_cpu_table_siblings(&t->table, 0, NULL, 0), 1);
    cr_assert_eq(um_cpu_table_siblings(&t->table, 2, NULL, 0), 0);
    cr_assert_eq(um_cpu_table_siblings(&t->table, 3, NULL, 0), -ENODEV);
    cr_assert_eq(umbra_topology_bind(t, 3, NULL), -ENODEV);
    cr_assert_eq(um_topology_place_list(t, "0-3", cpus, 4), -ENODEV);
    umbra_topology_destroy(t);
}

/* ---- big and little cores ---- */

/* Little cores before the big one, which has two hardware threads, as the system numbers them. */
#define LITTLE_FIRST "l3:1 core:6 pu:2"

Test(topology, big_cores_come_first_in_every_policy)
{
    struct umbra_topology *t = described_with(LITTLE_FIRST, "0,2,4,6,8-11", "0-7");
    int cpus[6];

    cr_assert_eq(umbra_topology_info(t)->cores, 6);
    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_COMPACT, 6, cpus), 0);
    cr_assert_cpus(cpus, 8, 10, 0, 2, 4, 6);
    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_SCATTER, 6, cpus), 0);
    cr_assert_cpus(cpus, 8, 10, 0, 2, 4, 6);
    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_ONE_PER_L3, 1, cpus), 0);
    cr_assert_cpus(cpus, 8);
    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_ONE_PER_NODE, 1, cpus), 0);
    cr_assert_cpus(cpus, 8);
    umbra_topology_destroy(t);
}

Test(topology, scatter_alternates_nodes_among_big_cores_and_then_among_little_ones)
{
    /* cpus 0-7 on one node, 8-15 on the other; each with a little core, two big, a little one */
    struct umbra_topology *t =
        described_with("numa:2 l3:1 core:4 pu:2", "0-15", "0-1,6-7,8-9,14-15");
    int cpus[8];

    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_SCATTER, 8, cpus), 0);
    cr_assert_cpus(cpus, 2, 10, 4, 12, 0, 8, 6, 14);
    cr_assert_eq(um_topology_place(t, UMBRA_PLACE_ONE_PER_NODE, 2, cpus), 0);
    cr_assert_cpus(cpus, 2, 10);
    umbra_topology_destroy(t);
}

Test(topology, siblings_of_big_cores_beside_little_ones_without_siblings)
{
    struct umbra_topology *t = described_with(LITTLE_FIRST, "0,2,4,6,8-11", "0-7");
    int taken[] = {8, 9, 10, 11};
    int sibling;

    cr_assert_eq(umbra_topology_cpu_of(t, 8)->kind, 0);
    cr_assert_eq(umbra_topology_cpu_of(t, 0)->kind, 1);
    cr_assert_eq(umbra_topology_cpu_of(t, 8)->core, 0);
    cr_assert_eq(umbra_topology_cpu_of(t, 0)->core, 2);
    cr_assert_eq(um_cpu_table_siblings(&t->table, 10, &sibling, 1), 1);
    cr_assert_eq(sibling, 11);
    cr_assert_eq(umbra_topology_cpu_of(t, 11)->smt_rank, 1);
    cr_assert_eq(umbra_topology_nearest(t, 9, NULL, 0), 8);
    cr_assert_eq(um_cpu_table_siblings(&t->table, 6, NULL, 0), 0);
    cr_assert_eq(umbra_topology_nearest(t, 6, taken, 4), 0);
    cr_assert_eq(umbra_topology_shared(t, 6, 0), UMBRA_SHARED_L3);
    umbra_topology_destroy(t);
}

/* What a list names, or -ENODEV with a text that names the list. */
static int named(const struct umbra_topology *t, const char *list, int *cpus)
{
    int count = um_topology_place_list(t, list, cpus, 8);

    cr_expect(count > 0 || strstr(umbra_last_error_text(), list), "'%s'", umbra_last_error_text());
    return count;
}

Test(topology, words_stand_for_the_cores_of_a_kind)
{
    struct umbra_topology *t = described_with(LITTLE_FIRST, "0,2,4,6,8-11", "0-7");
    int cpus[8];

    cr_assert_eq(named(t, "performance", cpus), 2);
    cr_assert_cpus(cpus, 8, 10);
    cr_assert_eq(named(t, "efficiency", cpus), 4);
    cr_assert_cpus(cpus, 0, 2, 4, 6);
    cr_assert_eq(um_topology_place_list(t, "efficiency", cpus, 3), -ENOSPC);
    cr_assert_eq(named(t, "performance,0", cpus), -EINVAL);
    cr_assert_eq(named(t, "Performance", cpus), -EINVAL);
    cr_assert_eq(named(t, "efficiency ", cpus), -EINVAL);
    umbra_topology_destroy(t);
}

Test(topology, runtimes_and_teams_take_words_for_kinds)
{
    struct umbra_topology *t = described_with(LITTLE_FIRST, "0,2,4,6,8-11", "0-7");
    struct umbra_options options = {.topology = t, .cpus = "efficiency"};
    struct umbra_team_options team_options = {.topology = t, .cpus = "performance"};
    struct umbra_runtime *runtime;
    struct umbra_team *team;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_expect_eq(umbra_runtime_cores(runtime), 4);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
    cr_assert_eq(umbra_team_create(&team_options, &team), 0);
    cr_expect_eq(team->members, 2);
    cr_assert_eq(umbra_team_destroy(team), 0);
    options.cpus = "big";
    cr_expect_eq(umbra_runtime_create(&options, &runtime), -EINVAL);
    cr_expect_not_null(strstr(umbra_last_error_text(), "cpus = \"big\""));
    umbra_topology_destroy(t);
}

Test(topology, words_for_kinds_are_refused_where_there_is_one_kind)
{
    struct umbra_topology *t = described("core:4 pu:1");
    int cpus[8];

    cr_assert_eq(named(t, "performance", cpus), -ENODEV);
    cr_assert_eq(named(t, "efficiency", cpus), -ENODEV);
    umbra_topology_destroy(t);
    t = described_with("core:4 pu:1", "0-3", "unranked 0-1");
    cr_assert_eq(named(t, "performance", cpus), -ENODEV);
    umbra_topology_destroy(t);
}

Test(topology, kinds_that_cannot_be_ranked_are_one)
{
    struct umbra_topology *t = described("core:4 pu:1");

    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(umbra_topology_info(t)->cpu[i].kind, 0);
    umbra_topology_destroy(t);
    t = described_with("core:4 pu:1", "0-3", "unranked 0-1");
    for (unsigned i = 0; i < 4; i++) {
        cr_assert_eq(umbra_topology_info(t)->cpu[i].kind, 0);
        cr_assert_eq(umbra_topology_info(t)->cpu[i].cpu, (int)i);
    }
    umbra_topology_destroy(t);
}

/* ---- where the topology comes from ---- */

static int create(const char *synthetic, const char *xml, struct umbra_topology **topology)
{
    struct umbra_topology_options options = {.synthetic = synthetic, .xml = xml};

    return umbra_topology_create(&options, topology);
}

Test(topology, a_bad_description_is_refused_and_nothing_is_left)
{
    static const char *const bad[] = {"", "nonsense", "core:2 pu:0", "pack:two pu:2", "core:2 ("};
    struct umbra_topology *t = NULL;

    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_eq(create(bad[i], NULL, &t), -EINVAL, "'%s'", bad[i]);
    cr_assert_null(t);
    cr_assert_eq(live, 0);
}

Test(topology, a_missing_or_broken_xml_file_is_refused_and_nothing_is_left)
{
    struct umbra_topology *t = NULL;
    char path[32];

    cr_assert_eq(create(NULL, "/nonexistent/topology.xml", &t), -ENOENT);
    write_file(path, "<?xml version=\"1.0\"?><topology><object type=\"Mach");
    cr_assert_lt(create(NULL, path, &t), 0);
    unlink(path);
    cr_assert_null(t);
    cr_assert_eq(live, 0);
}

Test(topology, two_sources_at_once_are_refused)
{
    struct umbra_topology *t = NULL;

    cr_assert_eq(create("pu:2", "/dev/null", &t), -EINVAL);
    cr_assert_null(t);
    cr_assert_eq(live, 0);
}

Test(topology, the_environment_describes_a_machine_unless_the_options_do)
{
    struct umbra_topology *t;

    setenv("HWLOC_SYNTHETIC", "core:3 pu:4", 1);
    t = this_machine();
    cr_assert_eq(umbra_topology_info(t)->cores, 3);
    cr_assert_eq(um_cpu_table_siblings(&t->table, 0, NULL, 0), 3);
    cr_assert_not(umbra_topology_info(t)->binds);
    umbra_topology_destroy(t);
    t = described("core:5 pu:1");
    cr_assert_eq(umbra_topology_info(t)->cores, 5);
    umbra_topology_destroy(t);
    unsetenv("HWLOC_SYNTHETIC");
}

Test(topology, the_environment_names_an_xml_file)
{
    struct umbra_topology *t;
    char path[32];

    write_file(path, offline_xml);
    setenv("HWLOC_XMLFILE", path, 1);
    t = this_machine();
    unsetenv("HWLOC_XMLFILE");
    unlink(path);
    cr_assert_eq(umbra_topology_info(t)->cpus, 3);
    cr_assert_not(umbra_topology_info(t)->binds);
    umbra_topology_destroy(t);
}

Test(topology, destroying_nothing_is_allowed)
{
    umbra_topology_destroy(NULL);
}

/* ---- binding ---- */

static cpu_set_t affinity(void)
{
    cpu_set_t set;

    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    return set;
}

static bool bound_to(int cpu)
{
    cpu_set_t set = affinity();

    return CPU_COUNT(&set) == 1 && CPU_ISSET((size_t)cpu, &set);
}

static bool has_affinity(const cpu_set_t *set)
{
    cpu_set_t now = affinity();

    return CPU_EQUAL(set, &now);
}

/* What taskset -a does: to all threads, since a sanitizer may have one of its own. */
static void bind_process(const cpu_set_t *set)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;

    cr_assert_not_null(tasks);
    while ((task = readdir(tasks)) != NULL)
        if (task->d_name[0] != '.')
            sched_setaffinity(atoi(task->d_name), sizeof *set, set);
    closedir(tasks);
}

Test(topology, a_described_machine_binds_nothing)
{
    struct umbra_topology *t = described(TWO_NODES);
    struct umbra_affinity *saved = (struct umbra_affinity *)t;
    cpu_set_t before = affinity();

    cr_assert_not(umbra_topology_info(t)->binds);
    cr_assert_eq(um_topology_current_cpu(t), 0);
    cr_assert_eq(umbra_topology_bind(t, 7, &saved), 0);
    cr_assert_null(saved);
    cr_assert_eq(umbra_topology_unbind(t, saved), 0);
    cr_assert(has_affinity(&before));
    umbra_topology_destroy(t);
}

Test(topology, this_machine_has_the_cpus_of_the_affinity_mask)
{
    struct umbra_topology *t = this_machine();
    cpu_set_t set = affinity();

    cr_assert(umbra_topology_info(t)->binds);
    cr_assert_eq(umbra_topology_info(t)->cpus, (unsigned)CPU_COUNT(&set));
    for (unsigned i = 0; i < umbra_topology_info(t)->cpus; i++)
        cr_assert(CPU_ISSET((size_t)umbra_topology_info(t)->cpu[i].cpu, &set));
    cr_assert_not_null(umbra_topology_cpu_of(t, um_topology_current_cpu(t)));
    umbra_topology_destroy(t);
}

Test(topology, taskset_leaves_one_cpu)
{
    struct umbra_topology *t = this_machine();
    unsigned cpus = umbra_topology_info(t)->cpus;
    int last = umbra_topology_info(t)->cpu[cpus - 1].cpu;
    int first = umbra_topology_info(t)->cpu[0].cpu;
    cpu_set_t before = affinity();
    cpu_set_t one;

    umbra_topology_destroy(t);
    if (cpus < 2)
        cr_skip_test("only one processor may be used");
    CPU_ZERO(&one);
    CPU_SET((size_t)last, &one);
    bind_process(&one);
    t = this_machine();
    bind_process(&before);
    cr_assert_eq(umbra_topology_info(t)->cpus, 1);
    cr_assert_eq(umbra_topology_info(t)->cpu[0].cpu, last);
    cr_assert_eq(umbra_topology_nearest(t, last, NULL, 0), -ENODEV);
    cr_assert_eq(umbra_topology_bind(t, first, NULL), -ENODEV);
    umbra_topology_destroy(t);
}

/* Pins itself, as OpenMP does with its workers; returns how many cpus a new topology then has. */
static void *count_as_pinned_worker(void *cpus)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0) {
        struct umbra_topology *t = this_machine();

        *(unsigned *)cpus = umbra_topology_info(t)->cpus;
        umbra_topology_destroy(t);
    }
    return NULL;
}

Test(topology, a_pinned_worker_sees_what_the_process_may_use)
{
    cpu_set_t before = affinity();
    unsigned cpus = 0;
    pthread_t worker;

    cr_assert_eq(pthread_create(&worker, NULL, count_as_pinned_worker, &cpus), 0);
    pthread_join(worker, NULL);
    cr_assert_eq(cpus, (unsigned)CPU_COUNT(&before));
}

Test(topology, taskset_applies_to_a_description_of_this_machine)
{
    struct umbra_topology *t = this_machine();
    int cpu = umbra_topology_info(t)->cpu[0].cpu;
    cpu_set_t before = affinity();
    cpu_set_t one;

    umbra_topology_destroy(t);
    if (cpu >= 64)
        cr_skip_test("the described machine has no such processor");
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    bind_process(&one);
    setenv("HWLOC_THISSYSTEM", "1", 1);
    t = described("core:32 pu:2");
    unsetenv("HWLOC_THISSYSTEM");
    bind_process(&before);
    cr_assert(umbra_topology_info(t)->binds);
    cr_assert_eq(umbra_topology_info(t)->cpus, 1);
    cr_assert_eq(umbra_topology_info(t)->cpu[0].cpu, cpu);
    umbra_topology_destroy(t);
}

Test(topology, bind_moves_the_thread_and_unbind_restores_its_affinity)
{
    struct umbra_topology *t = this_machine();
    cpu_set_t before = affinity();

    for (unsigned i = 0; i < umbra_topology_info(t)->cpus; i++) {
        int cpu = umbra_topology_info(t)->cpu[i].cpu;
        struct umbra_affinity *saved;

        cr_assert_eq(umbra_topology_bind(t, cpu, &saved), 0);
        cr_assert(bound_to(cpu));
        cr_assert_eq(um_topology_current_cpu(t), cpu);
        cr_assert_eq(umbra_topology_unbind(t, saved), 0);
        cr_assert(has_affinity(&before));
    }
    umbra_topology_destroy(t);
    cr_assert_eq(live, 0);
}

Test(topology, bind_without_saving_stays)
{
    struct umbra_topology *t = this_machine();
    int cpu = umbra_topology_info(t)->cpu[umbra_topology_info(t)->cpus - 1].cpu;
    cpu_set_t before = affinity();

    cr_assert_eq(umbra_topology_bind(t, cpu, NULL), 0);
    cr_assert(bound_to(cpu));
    cr_assert_eq(umbra_topology_unbind(t, NULL), 0);
    cr_assert(bound_to(cpu));
    sched_setaffinity(0, sizeof before, &before);
    umbra_topology_destroy(t);
}

Test(topology, bindings_are_undone_in_any_order)
{
    struct umbra_topology *t = this_machine();
    int first = umbra_topology_info(t)->cpu[0].cpu;
    int last = umbra_topology_info(t)->cpu[umbra_topology_info(t)->cpus - 1].cpu;
    cpu_set_t before = affinity();
    struct umbra_affinity *saved[3];

    cr_assert_eq(umbra_topology_bind(t, first, &saved[0]), 0);
    cr_assert_eq(umbra_topology_bind(t, first, &saved[1]), 0);
    cr_assert_eq(umbra_topology_bind(t, last, &saved[2]), 0);
    cr_assert_eq(umbra_topology_unbind(t, saved[0]), 0);
    cr_assert(bound_to(last));
    cr_assert_eq(umbra_topology_unbind(t, saved[2]), 0);
    cr_assert(bound_to(first));
    cr_assert_eq(umbra_topology_unbind(t, saved[1]), 0);
    cr_assert(has_affinity(&before));
    umbra_topology_destroy(t);
    cr_assert_eq(live, 0);
}

Test(topology, a_bound_thread_may_use_all_cpus_for_a_time)
{
    struct umbra_topology *t = this_machine();
    int cpu = umbra_topology_info(t)->cpu[0].cpu;
    struct umbra_affinity *bound, *all, *again;
    cpu_set_t before = affinity();
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    cr_assert_eq(umbra_topology_bind(t, cpu, &bound), 0);
    cr_assert_eq(umbra_topology_bind(t, UMBRA_ANY_CPU, &all), 0);
    cr_assert(has_affinity(&before));
    cr_assert_eq(umbra_topology_bind(t, UMBRA_ANY_CPU, &again), 0);
    cr_assert_eq(umbra_topology_unbind(t, all), 0);
    cr_assert(has_affinity(&before));
    cr_assert_eq(umbra_topology_unbind(t, again), 0);
    cr_assert(has_affinity(&one));
    cr_assert_eq(umbra_topology_unbind(t, bound), 0);
    cr_assert(has_affinity(&before));
    umbra_topology_destroy(t);
    cr_assert_eq(live, 0);
}

Test(topology, a_bound_thread_still_sees_the_whole_machine)
{
    struct umbra_topology *t = this_machine();
    struct umbra_topology *second;
    struct umbra_affinity *saved;

    cr_assert_eq(umbra_topology_bind(t, umbra_topology_info(t)->cpu[0].cpu, &saved), 0);
    second = this_machine();
    cr_assert_eq(umbra_topology_info(second)->cpus, umbra_topology_info(t)->cpus);
    umbra_topology_destroy(t);
    cr_assert_eq(umbra_topology_unbind(second, saved), 0);
    umbra_topology_destroy(second);
}

Test(topology, what_another_thread_saved_or_a_described_machine_is_given_is_refused)
{
    struct umbra_topology *described_one = described(TWO_NODES);
    struct umbra_topology *t = this_machine();
    struct umbra_affinity other = {.before = NULL};
    struct umbra_affinity *saved;

    cr_assert_eq(umbra_topology_unbind(t, &other), -EPERM);
    cr_assert_eq(umbra_topology_bind(t, umbra_topology_info(t)->cpu[0].cpu, &saved), 0);
    cr_assert_eq(umbra_topology_unbind(t, &other), -EPERM);
    cr_assert_eq(umbra_topology_unbind(described_one, saved), -EINVAL);
    cr_assert_eq(umbra_topology_unbind(t, saved), 0);
    umbra_topology_destroy(described_one);
    umbra_topology_destroy(t);
}

/* Binding fails as if the system had said `error`; nothing may change or be left over. */
static void check_refusal(int error, int wanted)
{
    struct umbra_topology *t = this_machine();
    struct umbra_affinity *saved = NULL;
    cpu_set_t before = affinity();
    long had = live;

    refusal = error;
    cr_assert_eq(umbra_topology_bind(t, umbra_topology_info(t)->cpu[0].cpu, &saved), wanted);
    cr_assert_eq(umbra_topology_bind(t, umbra_topology_info(t)->cpu[0].cpu, NULL), wanted);
    refusal = 0;
    cr_assert_null(saved);
    cr_assert_null(um_affinity_latest);
    cr_assert_eq(live, had);
    cr_assert(has_affinity(&before));
    umbra_topology_destroy(t);
    cr_assert_eq(live, 0);
}

Test(topology, binding_to_a_cpu_that_went_offline_is_no_such_device)
{
    check_refusal(EINVAL, -ENODEV);
}

Test(topology, a_refused_binding_tells_the_systems_reason)
{
    check_refusal(EPERM, -EPERM);
    check_refusal(ENOSYS, -ENOSYS);
}

static void does_not_run(void *arg)
{
    *(bool *)arg = true;
}

static void *is_not_unbound(void *arg)
{
    bool ran = false;

    refusal = EINVAL;
    cr_expect_eq(umbra_core_unbound(does_not_run, &ran), -ENODEV);
    cr_expect_not_null(strstr(umbra_last_error_text(), "they have gone"));
    refusal = EPERM;
    cr_expect_eq(umbra_core_unbound(does_not_run, &ran), -EPERM);
    refusal = 0;
    cr_expect_not(ran);
    return arg;
}

Test(topology, a_fiber_whose_core_cannot_be_unbound_calls_nothing)
{
    struct umbra_options options = {.cores = 1};

    cr_assert_eq(umbra_run(&options, is_not_unbound, NULL), 0);
}

Test(topology, a_refused_unbinding_tells_and_leaves_nothing)
{
    struct umbra_topology *t = this_machine();
    struct umbra_affinity *saved;
    cpu_set_t before = affinity();

    cr_assert_eq(umbra_topology_bind(t, umbra_topology_info(t)->cpu[0].cpu, &saved), 0);
    refusal = EINVAL;
    cr_assert_eq(umbra_topology_unbind(t, saved), -EINVAL);
    refusal = 0;
    sched_setaffinity(0, sizeof before, &before);
    umbra_topology_destroy(t);
    cr_assert_eq(live, 0);
}

/* ---- one topology a process ---- */

static void *nothing(void *arg)
{
    return arg;
}

static bool makes_a_runtime(void)
{
    return umbra_run(&(struct umbra_options){.cores = 1}, nothing, NULL) == 0;
}

static bool makes_a_team(void)
{
    struct umbra_team *team;

    return umbra_team_create(&(struct umbra_team_options){.members = 2}, &team) == 0 &&
           umbra_team_destroy(team) == 0;
}

/* Where there is one processor, the shadow is refused after the look at the machine. */
static bool makes_a_shadow(void)
{
    struct umbra_shadow shadow;
    int error = shadow_create(&shadow, NULL);

    return error == 0 ? shadow_destroy(&shadow) == 0 : error == -ENODEV;
}

static bool makes_memory(void)
{
    struct umbra_memory memory;
    bool made = umbra_memory_create(NULL, 10000, &memory) == 0;

    if (made)
        umbra_memory_destroy(&memory);
    return made;
}

static bool (*const needs_a_topology[])(void) = {makes_a_runtime, makes_a_team, makes_a_shadow,
                                                 makes_memory};

/* How often the machine is read while each of these is made twice. */
static unsigned loads_of_all(void)
{
    unsigned before = loads;

    for (unsigned i = 0; i < 2 * sizeof needs_a_topology / sizeof *needs_a_topology; i++)
        cr_expect(needs_a_topology[i / 2](), "%u: %s", i, umbra_last_error_text());
    return loads - before;
}

Test(topology, all_that_are_given_none_read_the_machine_once)
{
    cr_assert_eq(loads_of_all(), 1);
    cr_assert_eq(loads_of_all(), 0);
}

Test(topology, what_was_read_is_the_childs_too)
{
    int status = -1;
    pid_t child;

    cr_assert_eq(loads_of_all(), 1);
    child = fork();
    if (child == 0)
        _exit(loads_of_all() != 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
}

static void forks_and_reads(void)
{
    int status = -1;
    pid_t child;

    at_load = NULL;
    child = fork();
    if (child == 0) {
        alarm(20);
        _exit(loads_of_all() != 1);
    }
    cr_expect_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
}

Test(topology, what_hwloc_loads_may_fork)
{
    alarm(20);
    at_load = forks_and_reads;
    cr_expect_eq(loads_of_all(), 1);
    cr_expect_eq(loads_of_all(), 0);
}

Test(topology, the_machine_is_read_again_when_the_process_is_bound_to_other_processors)
{
    struct umbra_topology *first, *second, *third;
    cpu_set_t before = affinity(), one;

    if (CPU_COUNT(&before) < 2)
        cr_skip_test("only one processor may be used");
    cr_assert_eq(um_topology_share(&first), 0);
    CPU_ZERO(&one);
    CPU_SET((size_t)umbra_topology_info(first)->cpu[0].cpu, &one);
    bind_process(&one);
    cr_assert_eq(um_topology_share(&second), 0);
    bind_process(&before);
    cr_assert_eq(um_topology_share(&third), 0);
    cr_expect_eq(umbra_topology_info(first)->cpus, (unsigned)CPU_COUNT(&before));
    cr_expect_eq(umbra_topology_info(second)->cpus, 1);
    cr_expect_eq(umbra_topology_info(third)->cpus, (unsigned)CPU_COUNT(&before));
    umbra_topology_destroy(first);
    umbra_topology_destroy(second);
    umbra_topology_destroy(third);
    cr_expect_eq(loads, 3);
}

/* What the library has bound by itself is not another machine. */
static void *is_read_once_in_a_core(void *arg)
{
    *(unsigned *)arg = loads;
    cr_expect(makes_a_team());
    cr_expect(makes_memory());
    *(unsigned *)arg = loads - *(unsigned *)arg;
    return NULL;
}

Test(topology, threads_that_the_library_has_bound_read_nothing_again)
{
    struct umbra_team *team;
    unsigned more = 1;

    cr_assert_eq(umbra_team_create(&(struct umbra_team_options){.members = 2}, &team), 0);
    cr_expect_eq(loads_of_all(), 0);
    cr_assert_eq(umbra_team_destroy(team), 0);
    cr_assert_eq(umbra_run(NULL, is_read_once_in_a_core, &more), 0);
    cr_expect_eq(more, 0);
}

Test(topology, a_description_by_the_environment_is_not_shared)
{
    struct umbra_topology *real, *one, *other;
    long had;

    cr_assert_eq(um_topology_share(&real), 0);
    had = live;
    for (int binds = 0; binds < 2; binds++) {
        setenv("HWLOC_SYNTHETIC", "core:512 pu:2", 1);
        if (binds)
            setenv("HWLOC_THISSYSTEM", "1", 1);
        cr_assert_eq(um_topology_share(&one), 0);
        cr_assert_eq(um_topology_share(&other), 0);
        unsetenv("HWLOC_SYNTHETIC");
        unsetenv("HWLOC_THISSYSTEM");
        cr_expect(one != other && one != real && other != real);
        cr_expect_eq(umbra_topology_info(other)->binds, binds);
        umbra_topology_destroy(one);
        umbra_topology_destroy(other);
        cr_expect_eq(live, had);
    }
    cr_assert_eq(um_topology_share(&one), 0);
    cr_expect_eq(one, real);
    umbra_topology_destroy(one);
    umbra_topology_destroy(real);
}

/* While the machine is read, and while it was read already. */
Test(topology, sharing_survives_every_failing_allocation)
{
    struct umbra_topology *topology;

    for (int known = 0; known < 2; known++) {
        long had = live, failing = 0;
        int error;

        do {
            fail_at = ++failing;
            error = um_topology_share(&topology);
            fail_at = 0;
            cr_assert(error == 0 || error == -ENOMEM, "allocation %ld: %d", failing, error);
            cr_assert(error == 0 || live == had);
        } while (error != 0);
        cr_expect_eq(umbra_topology_info(topology)->binds, true);
        umbra_topology_destroy(topology);
    }
}

/* ---- processors that are taken away ---- */

enum { ROUNDS = 100 };

/* The last processor of the machine, of two at least. */
static cpu_set_t last_alone(void)
{
    struct umbra_topology *t = this_machine();
    unsigned cpus = umbra_topology_info(t)->cpus;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET((size_t)umbra_topology_info(t)->cpu[cpus - 1].cpu, &one);
    umbra_topology_destroy(t);
    if (cpus < 2)
        cr_skip_test("only one processor may be used");
    return one;
}

static void *has_affinity_of(void *set)
{
    return has_affinity(set) ? set : NULL;
}

static void *loses_processors(void *left)
{
    for (unsigned i = 0; i < 2 * ROUNDS; i++) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = i % 2};
        struct umbra_fiber fiber;
        void *found = NULL;

        if (i == ROUNDS)
            bind_process(left);
        cr_expect_eq(umbra_spawn_with(NULL, &there, has_affinity_of, left, &fiber), 0);
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, &found), 0);
        cr_expect(i < ROUNDS || found == left, "%u", i);
    }
    return NULL;
}

Test(topology, cores_whose_processors_taskset_takes_away_go_on)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};
    cpu_set_t before = affinity(), left = last_alone();

    cr_assert_eq(umbra_run(&options, loses_processors, &left), 0);
    cr_expect(has_affinity(&left));
    bind_process(&before);
}

static void adds(unsigned member, unsigned members, void *sums)
{
    ((unsigned *)sums)[member] += members;
}

Test(topology, members_whose_processors_taskset_takes_away_go_on)
{
    struct umbra_team_options options = {.members = 2};
    cpu_set_t before = affinity(), left = last_alone();
    unsigned sums[2] = {0, 0};
    struct umbra_team *team;

    cr_assert_eq(umbra_team_create(&options, &team), 0);
    for (unsigned i = 0; i < 2 * ROUNDS; i++) {
        if (i == ROUNDS)
            bind_process(&left);
        cr_expect_eq(umbra_team_run(team, 0, adds, sums), 0);
    }
    cr_expect(has_affinity(&left));
    cr_assert_eq(umbra_team_destroy(team), 0);
    /* left stays, unless the owner was bound to just that by the library */
    cr_expect(has_affinity(&left) || has_affinity(&before));
    bind_process(&before);
    cr_expect_eq(sums[0], 4 * ROUNDS);
    cr_expect_eq(sums[1], 4 * ROUNDS);
}

static void adds_one(void *sum)
{
    ++*(unsigned *)sum;
}

Test(topology, a_shadow_whose_processor_taskset_takes_away_goes_on)
{
    cpu_set_t before = affinity(), left = last_alone();
    struct umbra_shadow shadow;
    unsigned sum = 0;

    cr_assert_eq(shadow_create(&shadow, NULL), 0);
    for (unsigned i = 0; i < 2 * ROUNDS; i++) {
        if (i == ROUNDS)
            bind_process(&left);
        cr_expect_eq(shadow_fork(&shadow, adds_one, &sum), 0);
        cr_expect_eq(shadow_join(&shadow), 0);
    }
    cr_assert_eq(shadow_destroy(&shadow), 0);
    /* left stays, unless the owner was bound to just that by the library */
    cr_expect(has_affinity(&left) || has_affinity(&before));
    bind_process(&before);
    cr_expect_eq(sum, 2 * ROUNDS);
}

/* ---- memory ---- */

/* Makes the first, second, ... allocation of a creation fail, until it succeeds. */
static long check_failing_creation(const struct umbra_topology_options *options)
{
    struct umbra_topology *topology = NULL;
    long had = live;
    long failures = 0;
    int result;

    do {
        fail_at = failures + 1;
        result = umbra_topology_create(options, &topology);
        fail_at = 0;
        if (result != 0) {
            cr_assert_eq(result, -ENOMEM, "allocation %ld: %d", failures, result);
            cr_assert_null(topology);
            cr_assert_eq(live, had, "allocation %ld: %ld left", failures, live - had);
            failures++;
        }
    } while (result != 0);
    umbra_topology_destroy(topology);
    cr_assert_eq(live, had);
    return failures;
}

Test(topology, creation_survives_every_failing_allocation)
{
    struct umbra_topology_options options = {.synthetic = TWO_NODES};

    cr_assert_eq(check_failing_creation(&options), 6);
}

Test(topology, creation_on_this_machine_survives_every_failing_allocation)
{
    struct umbra_topology *t = this_machine();
    struct umbra_affinity *saved;

    umbra_topology_bind(t, umbra_topology_info(t)->cpu[0].cpu, &saved);
    cr_assert_eq(check_failing_creation(NULL), 9);
    umbra_topology_unbind(t, saved);
    umbra_topology_destroy(t);
}

Test(topology, binding_survives_every_failing_allocation)
{
    struct umbra_topology *t = this_machine();
    int cpu = umbra_topology_info(t)->cpu[0].cpu;
    cpu_set_t before = affinity();
    long had = live;

    for (long failing = 1; failing <= 4; failing++) {
        struct umbra_affinity *saved = NULL;

        fail_at = failing;
        cr_assert_eq(umbra_topology_bind(t, cpu, &saved), -ENOMEM, "allocation %ld", failing);
        fail_at = 0;
        cr_assert_null(saved);
        cr_assert_eq(live, had);
        cr_assert(has_affinity(&before));
    }
    for (long failing = 1; failing <= 2; failing++) {
        struct umbra_affinity *saved = NULL;

        fail_at = failing;
        cr_assert_eq(umbra_topology_bind(t, UMBRA_ANY_CPU, &saved), -ENOMEM, "allocation %ld",
                     failing);
        fail_at = 0;
        cr_assert_null(saved);
        cr_assert_eq(live, had);
    }
    fail_at = 1;
    cr_assert_eq(um_topology_current_cpu(t), -ENOMEM);
    fail_at = 0;
    umbra_topology_destroy(t);
}

Test(topology, reading_a_list_survives_a_failing_allocation)
{
    struct umbra_topology *t = described(TWO_NODES);
    int cpu = -1;

    fail_at = 1;
    cr_assert_eq(um_topology_place_list(t, "0", &cpu, 1), -ENOMEM);
    fail_at = 0;
    cr_assert_eq(cpu, -1);
    umbra_topology_destroy(t);
    cr_assert_eq(live, 0);
}
