/* SPDX-License-Identifier: BSL-1.0 */
/* Memory, the machine, and threads beside their owners, while calls fail. The table is in
 * scenarios.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <umbra.h>

#include "scenario.h"

/* ---- memory ---- */

static void fills(struct umbra_memory *memory)
{
    memset(memory->at, 1, memory->bytes);
    umbra_memory_destroy(memory);
}

static void *pools_buffers(void *unused)
{
    struct umbra_buffers *buffers;
    void *taken[20];

    if (!note(umbra_buffers_create(NULL, 1000, &buffers)))
        return NULL;
    for (int i = 0; i < 20; i++) {
        taken[i] = umbra_buffer_take(buffers);
        note(taken[i] ? 0 : -ENOMEM);
    }
    for (int i = 0; i < 20; i++)
        umbra_buffer_give(taken[i]);
    umbra_buffers_destroy(buffers);
    return unused;
}

static void touches(struct umbra_nodes *nodes)
{
    struct umbra_memory_report report;
    struct umbra_memory memory;
    int node[4];

    if (!note(umbra_memory_create(NULL, 100000, &memory)))
        return;
    memset(memory.at, 1, memory.bytes);
    if (note(umbra_memory_touch(nodes, &memory)))
        for (size_t i = 0; i < memory.bytes; i++)
            ALWAYS(((char *)memory.at)[i] == 0);
    note(umbra_memory_report(&memory, &report, node, 4));
    umbra_memory_destroy(&memory);
}

static void *uses_nodes(void *unused)
{
    struct umbra_nodes *nodes;
    size_t begin, end, sum = 0;

    if (!note(umbra_nodes_create(NULL, &nodes)))
        return NULL;
    touches(nodes);
    ALWAYS(umbra_nodes_loop(nodes, 0, 0, 100, 7) == 0);
    while (umbra_nodes_next(nodes, &begin, &end))
        sum += end - begin;
    ALWAYS(sum == 100);
    umbra_nodes_destroy(nodes);
    on_both(pools_buffers, NULL, NULL);
    return unused;
}

int use_memory(void)
{
    return on_two_cores(uses_nodes);
}

/* On a described machine nothing is bound, but all is asked for; on this one what it has. */
int use_bound_memory(void)
{
    static const struct umbra_topology_options two = {.synthetic = "numa:2 core:1 pu:1"};
    struct umbra_memory_options options = {.huge_pages = true, .topology = topology};
    struct umbra_topology *described = NULL;
    struct umbra_memory memory;

    note(umbra_topology_create(&two, &described));
    for (int place = UMBRA_MEMORY_TOUCHED; place <= UMBRA_MEMORY_PARTITIONED; place++) {
        options.place = place;
        options.topology = topology;
        if (note(umbra_memory_create(&options, (size_t)2 << 20, &memory)))
            fills(&memory);
        options.topology = described;
        if (described && note(umbra_memory_create(&options, (size_t)2 << 20, &memory)))
            fills(&memory);
    }
    umbra_topology_destroy(described);
    return result();
}

/* ---- the machine ---- */

int use_machine(void)
{
    struct umbra_topology *machine;
    struct umbra_affinity *saved[2] = {NULL, NULL};

    if (!note(umbra_topology_create(NULL, &machine)))
        return result();
    if (note(umbra_topology_bind(machine, umbra_topology_info(machine)->cpu[0].cpu, &saved[0])) &&
        note(umbra_topology_bind(machine, UMBRA_ANY_CPU, &saved[1])))
        note(umbra_topology_unbind(machine, saved[1]));
    note(umbra_topology_unbind(machine, saved[0]));
    umbra_topology_destroy(machine);
    return result();
}

static const char xml[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
    "<topology version=\"2.0\">\n"
    " <object type=\"Machine\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\""
    " allowed_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\" allowed_nodeset=\"0x1\">\n"
    "  <object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\""
    " nodeset=\"0x1\" complete_nodeset=\"0x1\" local_memory=\"1000000\"/>\n"
    "  <object type=\"Core\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\""
    " nodeset=\"0x1\" complete_nodeset=\"0x1\">\n"
    "   <object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\""
    " nodeset=\"0x1\" complete_nodeset=\"0x1\"/>\n"
    "  </object>\n"
    " </object>\n"
    "</topology>\n";

static void describe(const struct umbra_topology_options *options)
{
    struct umbra_topology *described;

    if (!note(umbra_topology_create(options, &described)))
        return;
    ALWAYS(umbra_topology_info(described)->cores > 0);
    umbra_topology_destroy(described);
}

int use_descriptions(void)
{
    struct umbra_topology_options words = {.synthetic = "pack:2 numa:1 l3:1 core:2 pu:2"};
    struct umbra_topology_options by_file = {.xml = NULL};
    char path[64];
    int fd = memfd_create("xml", 0);

    ALWAYS(__real_write(fd, xml, sizeof(xml) - 1) == (ssize_t)sizeof(xml) - 1);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    by_file.xml = path;
    describe(&words);
    describe(&by_file);
    __real_close(fd);
    return result();
}

/* ---- threads beside their owners ---- */

static void doubles(void *number)
{
    *(int *)number *= 2;
}

static void works_with(struct umbra_shadow *shadow)
{
    struct umbra_memcpy_limits limits;
    static char from[1 << 20], to[1 << 20];
    int number = 21;

    if (note(shadow_fork(shadow, doubles, &number)) && note(shadow_join(shadow)))
        ALWAYS(number == 42);
    memset(from, 3, sizeof(from));
    if (note(umbra_memcpy_calibrate(shadow, &limits)))
        shadow_memcpy(shadow, to, from, sizeof(from), &limits);
    MUST(memcmp(from, to, sizeof(from)) == 0);
}

int use_shadow(void)
{
    static struct umbra_shadow shadow;
    struct umbra_shadow_options options = {.topology = topology};

    if (!note(shadow_create(&shadow, &options)))
        return result();
    works_with(&shadow);
    note(shadow_destroy(&shadow));
    return result();
}

static void *forks_to_shadow(void *unused)
{
    struct umbra_core_info info = {.shadow = NULL};
    int number = 21;

    ALWAYS(umbra_core_info(umbra_runtime_self(), 0, &info) == 0 && info.shadow);
    if (note(shadow_fork(info.shadow, doubles, &number)) && note(shadow_join(info.shadow)))
        ALWAYS(number == 42);
    return unused;
}

int use_shadows_of_cores(void)
{
    struct umbra_options options = {
        .cores = 1, .shadows = true, .quiet = true, .topology = topology};

    note(umbra_run(&options, forks_to_shadow, NULL));
    return result();
}

static void meets(unsigned member, unsigned members, void *arg)
{
    struct umbra_team *team = *(struct umbra_team **)arg;
    static atomic_uint come;

    (void)members;
    come++;
    umbra_team_barrier(team, member);
    ALWAYS(come % 3 == 0);
    umbra_team_barrier(team, member);
}

int use_team(void)
{
    struct umbra_team_options options = {
        .members = 3, .topology = topology, .stack_bytes = 1 << 20};
    struct umbra_team *team;

    if (!note(umbra_team_create(&options, &team)))
        return result();
    for (int i = 0; i < 3; i++)
        note(umbra_team_run(team, 0, meets, &team));
    note(umbra_team_destroy(team));
    return result();
}
