/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Shadows and schedulers on the hardware threads of real cores, compared with what Linux says of
 * them. Whatever the machine is like, each test says what must hold, or skips: tools/emulated has
 * machines for all of them.
 */
#define _GNU_SOURCE
#include "fibers.h"
#include "siblings.h"

#include <dirent.h>
#include <hwloc.h>
#include <hwloc/linux.h>
#include <pthread.h>

#define SHADOWS_MOST 64

static struct machine machine;

static struct umbra_shadow_options beside(int cpu)
{
    return (struct umbra_shadow_options){
        .topology = machine.topology, .place_owner = true, .owner_cpu = cpu};
}

/* The next allowed processor from `cpu` on whose core has at least so many of them, or -1. */
static int next_with(int cpu, int least)
{
    for (; cpu < CPU_SETSIZE; cpu++)
        if (ways(&machine, cpu) >= least)
            return cpu;
    return -1;
}

static void need_siblings(void)
{
    look(&machine);
    if (next_with(0, 2) < 0)
        cr_skip_test("no core here has a second hardware thread that may be used");
}

/* Linux, by the thread's own status, and hwloc agree that it is bound to this processor. */
static void check_bound(int tid, int cpu)
{
    cpu_set_t wanted = just(cpu), allowed = allowed_to(tid);
    hwloc_bitmap_t set = hwloc_bitmap_alloc();

    cr_assert(CPU_EQUAL(&allowed, &wanted), "thread %d is not bound to %d", tid, cpu);
    cr_assert_eq(hwloc_linux_get_tid_cpubind(machine.topology->hw, tid, set), 0);
    cr_assert_eq(hwloc_bitmap_weight(set), 1);
    cr_assert(hwloc_bitmap_isset(set, (unsigned)cpu));
    hwloc_bitmap_free(set);
}

/* hwloc finds both under the same Core object. */
static bool in_one_core(int a, int b)
{
    hwloc_topology_t hw = machine.topology->hw;
    hwloc_obj_t ancestor =
        hwloc_get_common_ancestor_obj(hw, hwloc_get_pu_obj_by_os_index(hw, (unsigned)a),
                                      hwloc_get_pu_obj_by_os_index(hw, (unsigned)b));

    return ancestor->type == HWLOC_OBJ_CORE;
}

Test(siblings, are_those_that_the_kernel_lists)
{
    look(&machine);
    cr_assert_eq(umbra_topology_info(machine.topology)->cpus,
                 (unsigned)CPU_COUNT(&machine.allowed));
    for (int cpu = next_with(0, 1); cpu >= 0; cpu = next_with(cpu + 1, 1)) {
        int sibling[CPU_SETSIZE];
        int count = um_cpu_table_siblings(&machine.topology->table, cpu, sibling, CPU_SETSIZE);
        cpu_set_t core = just(cpu);

        for (int i = 0; i < count; i++)
            CPU_SET(sibling[i], &core);
        cr_assert(CPU_EQUAL(&core, &machine.core[cpu]), "of processor %d", cpu);
        cr_assert_eq(um_cpu_table_siblings(&machine.topology->table, cpu, NULL, 0),
                     ways(&machine, cpu) - 1);
    }
    umbra_topology_destroy(machine.topology);
}

Test(siblings, shadow_sits_on_one_whichever_thread_the_owner_is_on)
{
    need_siblings();
    for (int cpu = next_with(0, 2); cpu >= 0; cpu = next_with(cpu + 1, 2)) {
        struct umbra_shadow_options options = beside(cpu);
        struct umbra_shadow_info info;
        struct umbra_shadow shadow;
        struct whereabouts found;

        cr_assert_eq(shadow_create(&shadow, &options), 0);
        info = shadow.info;
        found = whereabouts_of(&shadow);
        cr_assert_eq(info.owner_cpu, cpu);
        cr_assert_eq(info.shared, UMBRA_SHARED_CORE);
        cr_assert(info.bound);
        cr_assert_neq(info.shadow_cpu, cpu);
        cr_assert(CPU_ISSET(info.shadow_cpu, &machine.core[cpu]));
        cr_assert(in_one_core(cpu, info.shadow_cpu));
        cr_assert_eq(found.cpu, info.shadow_cpu);
        cr_assert_eq(sched_getcpu(), cpu);
        check_bound(found.tid, info.shadow_cpu);
        check_bound(gettid(), cpu);
        cr_assert_eq(shadow_destroy(&shadow), 0);
    }
    umbra_topology_destroy(machine.topology);
}

Test(siblings, shadow_by_default_sits_beside_where_its_owner_runs)
{
    struct umbra_shadow shadow;
    struct umbra_shadow_info info;

    need_siblings();
    cr_assert_eq(shadow_create(&shadow, NULL), 0);
    info = shadow.info;
    check_bound(gettid(), info.owner_cpu);
    cr_assert(CPU_ISSET(info.owner_cpu, &machine.allowed));
    if (ways(&machine, info.owner_cpu) > 1)
        cr_assert(CPU_ISSET(info.shadow_cpu, &machine.core[info.owner_cpu]));
    cr_assert_eq(shadow_destroy(&shadow), 0);
    umbra_topology_destroy(machine.topology);
}

Test(siblings, each_can_hold_a_shadow_and_no_core_takes_more)
{
    need_siblings();
    for (int cpu = next_with(0, 2); cpu >= 0; cpu = next_with(cpu + 1, 2)) {
        static struct umbra_shadow shadow[SHADOWS_MOST];
        struct umbra_shadow_options options = beside(cpu);
        cpu_set_t taken = just(cpu);
        int count = 0, error;

        while ((error = shadow_create(&shadow[count], &options)) == 0) {
            CPU_SET(shadow[count].info.shadow_cpu, &taken);
            count++;
        }
        cr_assert_eq(error, -ENOSPC);
        cr_assert_eq(count, ways(&machine, cpu) - 1);
        cr_assert(CPU_EQUAL(&taken, &machine.core[cpu]));
        while (count > 0)
            cr_assert_eq(shadow_destroy(&shadow[--count]), 0);
    }
    umbra_topology_destroy(machine.topology);
}

/* One owner a core, all at the same time. */
struct owner {
    pthread_t thread;
    pthread_barrier_t *all_there;
    struct whereabouts shadow;
    int cpu;
};

static void *own(void *arg)
{
    struct owner *owner = arg;
    struct umbra_shadow_options options = beside(owner->cpu);
    struct umbra_shadow shadow;

    cr_assert_eq(shadow_create(&shadow, &options), 0);
    owner->shadow = whereabouts_of(&shadow);
    check_bound(owner->shadow.tid, owner->shadow.cpu);
    pthread_barrier_wait(owner->all_there);
    cr_assert_eq(shadow_destroy(&shadow), 0);
    return NULL;
}

Test(siblings, owners_on_all_cores_have_their_shadows_on_their_own)
{
    static struct owner owner[CPU_SETSIZE];
    pthread_barrier_t all_there;
    cpu_set_t cores;
    unsigned count = 0;

    need_siblings();
    CPU_ZERO(&cores);
    for (int cpu = next_with(0, 2); cpu >= 0; cpu = next_with(cpu + 1, 2)) {
        if (CPU_ISSET(cpu, &cores))
            continue;
        CPU_OR(&cores, &cores, &machine.core[cpu]);
        owner[count++] = (struct owner){.cpu = cpu, .all_there = &all_there};
    }
    pthread_barrier_init(&all_there, NULL, count);
    for (unsigned i = 0; i < count; i++)
        cr_assert_eq(pthread_create(&owner[i].thread, NULL, own, &owner[i]), 0);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(owner[i].thread, NULL);
        cr_assert_neq(owner[i].shadow.cpu, owner[i].cpu);
        cr_assert(CPU_ISSET(owner[i].shadow.cpu, &machine.core[owner[i].cpu]));
    }
    pthread_barrier_destroy(&all_there);
    umbra_topology_destroy(machine.topology);
}

Test(siblings, core_without_one_has_its_shadow_on_another_and_says_so)
{
    int checked = 0;

    look(&machine);
    for (int cpu = next_with(0, 1); cpu >= 0; cpu = next_with(cpu + 1, 1)) {
        struct umbra_shadow_options options = beside(cpu);
        struct umbra_shadow_info info;
        struct umbra_shadow shadow;

        if (ways(&machine, cpu) > 1 || CPU_COUNT(&machine.allowed) < 2)
            continue;
        cr_assert_eq(shadow_create(&shadow, &options), 0);
        info = shadow.info;
        cr_assert_neq(info.shadow_cpu, cpu);
        cr_assert(CPU_ISSET(info.shadow_cpu, &machine.allowed));
        cr_assert_not(CPU_ISSET(info.shadow_cpu, &machine.core[cpu]));
        cr_assert_neq(info.shared, UMBRA_SHARED_CORE);
        check_bound(whereabouts_of(&shadow).tid, info.shadow_cpu);
        cr_assert_eq(shadow_destroy(&shadow), 0);
        checked++;
    }
    umbra_topology_destroy(machine.topology);
    if (checked == 0)
        cr_skip_test("every core has siblings, or there is one processor only");
}

/* What taskset and control groups do: some processors of the machine are not for this process. */
static void keep_only(const cpu_set_t *set)
{
    DIR *threads = opendir("/proc/self/task");
    struct dirent *entry;

    umbra_topology_destroy(machine.topology);
    while ((entry = readdir(threads)) != NULL)
        if (entry->d_name[0] != '.')
            cr_assert_eq(sched_setaffinity(atoi(entry->d_name), sizeof(*set), set), 0);
    closedir(threads);
    look(&machine);
    cr_assert(CPU_EQUAL(&machine.allowed, set));
}

/* Leaves one hardware thread of each core, and tells which. */
static cpu_set_t hide_siblings(void)
{
    cpu_set_t seen = just(0);

    need_siblings();
    CPU_ZERO(&seen);
    for (int cpu = next_with(0, 1); cpu >= 0; cpu = next_with(cpu + 1, 1)) {
        cpu_set_t of_core;

        CPU_AND(&of_core, &seen, &machine.core[cpu]);
        if (CPU_COUNT(&of_core) == 0)
            CPU_SET(cpu, &seen);
    }
    if (CPU_COUNT(&seen) < 2)
        cr_skip_test("a single core");
    keep_only(&seen);
    return seen;
}

Test(siblings, one_that_is_hidden_is_not_used)
{
    cpu_set_t seen = hide_siblings();
    int owner = -1;

    while ((owner = next_with(owner + 1, 1)) >= 0) {
        struct umbra_shadow_options options = beside(owner);
        struct umbra_shadow shadow;

        cr_assert_eq(um_cpu_table_siblings(&machine.topology->table, owner, NULL, 0), 0);
        cr_assert_eq(shadow_create(&shadow, &options), 0);
        cr_assert(CPU_ISSET(shadow.info.shadow_cpu, &seen));
        cr_assert_neq(shadow.info.shared, UMBRA_SHARED_CORE);
        cr_assert_eq(shadow_destroy(&shadow), 0);
    }
    umbra_topology_destroy(machine.topology);
}

Test(siblings, single_processor_has_no_place_for_a_shadow)
{
    struct umbra_shadow shadow;
    cpu_set_t alone;

    look(&machine);
    alone = just(next_with(0, 1));
    keep_only(&alone);
    cr_assert_eq(shadow_create(&shadow, NULL), -ENODEV);
    cr_assert_eq(shadow_destroy(&shadow), -ESRCH);
    umbra_topology_destroy(machine.topology);
}

/* ---- schedulers ---- */

/* What the fibers of a runtime with shadows find, one a core. */
struct found {
    int cpu;
    struct umbra_shadow_info info;
    struct whereabouts shadow;
};

static void *look_around(void *arg)
{
    struct found *found = arg;
    struct umbra_shadow *shadow = own_shadow();

    found->cpu = sched_getcpu();
    if (shadow) {
        found->info = shadow->info;
        cr_expect_eq(shadow_fork(shadow, tell_whereabouts, &found->shadow), 0);
        cr_expect_eq(shadow_join(shadow), 0);
    }
    return NULL;
}

struct survey {
    unsigned cores;
    struct found found[CPU_SETSIZE];
};

static void *survey_cores(void *arg)
{
    struct survey *survey = arg;

    for (unsigned i = 0; i < survey->cores; i++) {
        struct umbra_spawn_options there = on_core(i);
        struct umbra_fiber fiber;

        cr_expect_eq(umbra_spawn_with(NULL, &there, look_around, &survey->found[i], &fiber), 0);
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    }
    return NULL;
}

static struct survey survey;

static int make_survey(unsigned cores, bool shadows)
{
    struct umbra_options options = {
        .topology = machine.topology, .cores = cores, .shadows = shadows, .quiet = true};

    survey.cores = cores;
    return umbra_run(&options, survey_cores, &survey);
}

static void check_one_scheduler_a_core(void)
{
    cpu_set_t seen;

    CPU_ZERO(&seen);
    cr_assert_eq(make_survey(umbra_topology_info(machine.topology)->cores, false), 0);
    for (unsigned i = 0; i < survey.cores; i++) {
        const cpu_set_t *core = &machine.core[survey.found[i].cpu];
        cpu_set_t both;

        CPU_AND(&both, &seen, core);
        cr_assert_eq(CPU_COUNT(&both), 0, "two on the core of %d", survey.found[i].cpu);
        CPU_OR(&seen, &seen, core);
    }
    cr_assert(CPU_EQUAL(&seen, &machine.allowed), "none on some core");
}

Test(siblings, a_runtime_has_one_scheduler_a_core)
{
    look(&machine);
    check_one_scheduler_a_core();
    umbra_topology_destroy(machine.topology);
}

static void check_shadows_keep_off(void)
{
    unsigned cores, cpus;
    cpu_set_t taken;

    CPU_ZERO(&taken);
    cores = umbra_topology_info(machine.topology)->cores;
    cpus = umbra_topology_info(machine.topology)->cpus;
    if (cpus < 2)
        cr_skip_test("a single hardware thread");
    /* as many as there is room for */
    cr_assert_eq(make_survey(cores < cpus / 2 ? cores : cpus / 2, true), 0);
    for (unsigned i = 0; i < survey.cores; i++) {
        const struct found *found = &survey.found[i];

        cr_assert_eq(found->info.owner_cpu, found->cpu);
        cr_assert_eq(found->info.shadow_cpu, found->shadow.cpu);
        if (ways(&machine, found->cpu) > 1)
            cr_assert(CPU_ISSET(found->shadow.cpu, &machine.core[found->cpu]));
        cr_assert_not(CPU_ISSET(found->cpu, &taken));
        CPU_SET(found->cpu, &taken);
        cr_assert_not(CPU_ISSET(found->shadow.cpu, &taken));
        CPU_SET(found->shadow.cpu, &taken);
    }
}

Test(siblings, shadows_of_a_runtime_keep_off_each_other_and_its_schedulers)
{
    look(&machine);
    check_shadows_keep_off();
    umbra_topology_destroy(machine.topology);
}

Test(siblings, that_are_hidden_are_used_by_no_scheduler_and_no_shadow)
{
    cpu_set_t seen = hide_siblings();

    check_one_scheduler_a_core();
    check_shadows_keep_off();
    for (unsigned i = 0; i < survey.cores; i++)
        cr_assert(CPU_ISSET(survey.found[i].shadow.cpu, &seen));
    umbra_topology_destroy(machine.topology);
}
