/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Processors that go offline, and come back, after the library has looked at the machine. Takes
 * processors offline: for a machine that is there for that, never for the one at hand.
 */
#define _GNU_SOURCE
#include "fibers.h"
#include "siblings.h"

#include <dirent.h>

#define PROCESSORS_MOST 256

static struct machine machine;
static bool in_cpuset;     /* the kernel withholds processors from this process */
static int owner, sibling; /* two of a core, neither of them 0 */

static bool set_online(int cpu, bool online)
{
    char path[100];
    FILE *file;
    bool written;

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
    file = fopen(path, "w");
    if (!file)
        return false;
    written = fputs(online ? "1" : "0", file) >= 0;
    return fclose(file) == 0 && written;
}

/* Undoes what a test that failed has left. */
static void all_online(void)
{
    for (int cpu = 1; cpu < PROCESSORS_MOST; cpu++)
        set_online(cpu, true);
}

/* The last core with a sibling, all of it online. */
static void choose(void)
{
    all_online();
    look(&machine);
    in_cpuset = CPU_COUNT(&machine.allowed) < sysconf(_SC_NPROCESSORS_ONLN);
    for (int cpu = 1; cpu < PROCESSORS_MOST; cpu++) {
        if (ways(&machine, cpu) > 1 && !CPU_ISSET(0, &machine.core[cpu])) {
            owner = sibling;
            sibling = cpu;
        }
    }
    if (owner == 0 || !CPU_ISSET(owner, &machine.core[sibling]))
        cr_skip_test("no core but the first has siblings");
}

static void leave(void)
{
    umbra_topology_destroy(machine.topology);
    all_online();
}

static int threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;

    while (readdir(tasks))
        count++;
    closedir(tasks);
    return count - 2; /* . and .. */
}

/* Until the others are gone: one that was joined is listed for a moment longer. */
static void wait_for_threads(int wanted)
{
    while (threads() != wanted)
        sched_yield();
}

/*
 * The shadow answers from its processor, or the kernel has undone its binding: before Linux 6.2
 * (8f9ea86fdf99, "sched: Always preserve the user requested cpumask") each processor that goes or
 * comes makes the kernel give all threads of a control group with a cpuset the whole of that set,
 * bound ones too, some milliseconds later. What the thread may use is read after it has answered:
 * nobody binds it again.
 */
static void answers_in_place(struct umbra_shadow *shadow)
{
    struct whereabouts found = whereabouts_of(shadow);
    int place = shadow->info.shadow_cpu;
    cpu_set_t left;

    if (found.cpu == place)
        return;
    left = allowed_to(found.tid);
    cr_assert(in_cpuset, "on %d, not on %d", found.cpu, place);
    cr_assert(CPU_ISSET(place, &left) && CPU_COUNT(&left) > 1, "on %d, though bound to %d",
              found.cpu, place);
}

Test(hotplug, shadow_outlives_its_processor, .init = choose, .fini = leave)
{
    struct umbra_shadow_options options = {
        .topology = machine.topology, .place_owner = true, .owner_cpu = owner};
    struct umbra_shadow shadow;

    cr_assert_eq(shadow_create(&shadow, &options), 0);
    cr_assert_eq(shadow.info.shared, UMBRA_SHARED_CORE);
    cr_assert(set_online(shadow.info.shadow_cpu, false));
    for (int i = 0; i < 100; i++)
        cr_assert_neq(whereabouts_of(&shadow).cpu, shadow.info.shadow_cpu);
    cr_assert_eq(shadow_destroy(&shadow), 0);
}

Test(hotplug, shadow_outlives_its_owners_processor, .init = choose, .fini = leave)
{
    struct umbra_shadow_options options = {
        .topology = machine.topology, .place_owner = true, .owner_cpu = owner};
    struct umbra_shadow shadow;

    cr_assert_eq(shadow_create(&shadow, &options), 0);
    cr_assert(set_online(owner, false));
    for (int i = 0; i < 100; i++)
        answers_in_place(&shadow);
    cr_assert_eq(shadow_destroy(&shadow), 0);
    cr_assert_neq(sched_getcpu(), owner);
}

Test(hotplug, place_that_has_gone_is_an_error_and_leaves_nothing, .init = choose, .fini = leave)
{
    struct umbra_shadow_options options = {.topology = machine.topology,
                                           .place_owner = true,
                                           .place_shadow = true,
                                           .owner_cpu = owner,
                                           .shadow_cpu = sibling};
    struct umbra_shadow shadow;
    cpu_set_t before, after;
    int count = threads();

    cr_assert(set_online(sibling, false));
    cr_assert_eq(sched_getaffinity(0, sizeof(before), &before), 0);
    cr_assert_eq(shadow_create(&shadow, &options), -ENODEV);
    options.owner_cpu = sibling;
    options.shadow_cpu = owner;
    cr_assert_eq(shadow_create(&shadow, &options), -ENODEV);
    cr_assert_eq(sched_getaffinity(0, sizeof(after), &after), 0);
    cr_assert(CPU_EQUAL(&before, &after), "the owner's binding is undone");
    wait_for_threads(count);
    cr_assert(set_online(sibling, true));
    cr_assert_eq(shadow_create(&shadow, &options), 0, "it is back");
    cr_assert_eq(shadow.info.shadow_cpu, owner);
    answers_in_place(&shadow);
    cr_assert_eq(shadow_destroy(&shadow), 0);
}

Test(hotplug, new_topology_sees_what_there_is, .init = choose, .fini = leave)
{
    struct umbra_topology *topology;

    cr_assert(set_online(sibling, false));
    cr_assert_eq(umbra_topology_create(NULL, &topology), 0);
    cr_assert_null(umbra_topology_cpu_of(topology, sibling));
    cr_assert_eq(um_cpu_table_siblings(&topology->table, owner, NULL, 0),
                 um_cpu_table_siblings(&machine.topology->table, owner, NULL, 0) - 1);
    cr_assert_eq(umbra_topology_info(topology)->cpus,
                 umbra_topology_info(machine.topology)->cpus - 1);
    umbra_topology_destroy(topology);
}

static void *nothing(void *arg)
{
    return arg;
}

Test(hotplug, runtime_on_what_has_gone_is_an_error, .init = choose, .fini = leave)
{
    struct umbra_options options = {
        .topology = machine.topology, .hardware_threads = true, .quiet = true};
    int count = threads();

    cr_assert(set_online(sibling, false));
    cr_assert_eq(umbra_run(&options, nothing, NULL), -ENODEV);
    wait_for_threads(count);
    options.topology = NULL;
    cr_assert_eq(umbra_run(&options, nothing, NULL), 0);
}

/* Counts rounds with yields between, so that fibers on all cores take part while a processor goes. */
static void *many_yields(void *arg)
{
    _Atomic int *rounds = arg;

    for (int i = 0; i < 1000; i++) {
        umbra_yield();
        ++*rounds;
    }
    return NULL;
}

static _Atomic int rounds;

static void *goes_on(void *arg)
{
    struct umbra_fiber fiber[PROCESSORS_MOST];
    unsigned cores = umbra_topology_info(machine.topology)->cores;

    for (int pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < cores; i++) {
            struct umbra_spawn_options there = on_core(i);

            cr_expect_eq(umbra_spawn_with(NULL, &there, many_yields, &rounds, &fiber[i]), 0);
        }
        if (pass == 0)
            cr_expect(set_online(owner, false));
        for (unsigned i = 0; i < cores; i++)
            cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    }
    return arg;
}

Test(hotplug, runtime_outlives_a_schedulers_processor, .init = choose, .fini = leave)
{
    struct umbra_options options = {.topology = machine.topology, .quiet = true};

    cr_assert_eq(umbra_run(&options, goes_on, NULL), 0);
    cr_assert_eq(rounds, 2000 * (int)umbra_topology_info(machine.topology)->cores);
}
