/* SPDX-License-Identifier: BSL-1.0 */
/* omp/machine.c reads machines that are made of files in a folder of the test's own. */
#include "../../omp/machine.c"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/* Writes a file, and makes the folders that it is in. */
static void put(const char *path, const char *text)
{
    char folder[128];
    FILE *file;

    for (const char *at = strchr(path, '/'); at; at = strchr(at + 1, '/')) {
        snprintf(folder, sizeof(folder), "%.*s", (int)(at - path), path);
        mkdir(folder, 0700);
    }
    file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        exit(2);
}

static void put_of(const char *format, int number, const char *text)
{
    char path[128];

    snprintf(path, sizeof(path), format, number);
    put(path, text);
}

static int number_of(hwloc_obj_t object, hwloc_obj_type_t type)
{
    hwloc_obj_t at = hwloc_get_ancestor_obj_by_type(NULL, type, object);

    return at ? (int)at->logical_index : -1;
}

/* True if the machine's processors, in its order, are in these cores, caches and nodes. */
static bool reads(const char *expected)
{
    char text[1024] = "";
    size_t at = 0;
    hwloc_topology_t hw;

    if (hwloc_topology_init(&hw) != 0 || hwloc_topology_load(hw) != 0)
        exit(2);
    for (int i = 0; i < hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_PU); i++) {
        hwloc_obj_t pu = hwloc_get_obj_by_type(hw, HWLOC_OBJ_PU, (unsigned)i);
        hwloc_obj_t node = hwloc_get_ancestor_obj_by_type(hw, HWLOC_OBJ_NUMANODE, pu);

        at += (size_t)snprintf(text + at, sizeof(text) - at, "%u:%d,%d,%d ", pu->os_index,
                               number_of(pu, HWLOC_OBJ_CORE), number_of(pu, HWLOC_OBJ_L3CACHE),
                               node ? (int)node->os_index : -1);
    }
    hwloc_topology_destroy(hw);
    if (strcmp(text, expected) == 0)
        return true;
    printf("expected: %s\nbut:      %s\n", expected, text);
    return false;
}

/* Two nodes, of which one has two caches; cores of two processors, whose numbers are far apart. */
static bool reads_all(void)
{
    static const char *const cores[] = {"0,4\n", "1,5\n", "2,6\n", "3,7\n"};
    static const char *const caches[] = {"0,2,4,6\n", "1,5\n", "0,2,4,6\n", "3,7\n"};

    put("cpu/online", "0-7\n");
    put("cpu/smt/active", "1\n");
    put("node/has_cpu", "0,3\n");
    put("node/node0/cpulist", "0,2,4,6\n");
    put("node/node3/cpulist", "1,3,5,7\n");
    for (int cpu = 0; cpu < 8; cpu++) {
        put_of("cpu/cpu%d/topology/thread_siblings_list", cpu, cores[cpu % 4]);
        put_of("cpu/cpu%d/cache/index3/shared_cpu_list", cpu, caches[cpu % 4]);
    }
    return reads("0:0,0,0 4:0,0,0 2:1,0,0 6:1,0,0 1:2,1,3 5:2,1,3 3:3,2,3 7:3,2,3 ");
}

/* A processor that is off is nowhere, whatever the others' files say. */
static bool leaves_out_what_is_off(void)
{
    put("cpu/online", "0-3,5-7\n");
    return reads("0:0,0,0 2:1,0,0 6:1,0,0 1:2,1,3 5:2,1,3 3:3,2,3 7:3,2,3 ");
}

/* Without siblings, with one node, without caches: their files are neither read nor missed. */
static bool reads_little(void)
{
    put("cpu/online", "0,5,1023\n");
    put("cpu/smt/active", "0\n");
    put("node/has_cpu", "0\n");
    for (int cpu = 0; cpu < 8; cpu++)
        put_of("cpu/cpu%d/cache/index3/shared_cpu_list", cpu, "x\n");
    return reads("0:0,0,0 5:1,1,0 1023:2,2,0 ");
}

/* No node has a processor. */
static bool does_without_nodes(void)
{
    put("node/has_cpu", "\n");
    return reads("0:0,0,-1 5:1,1,-1 1023:2,2,-1 ");
}

/* Nothing is said: there are those that the process may use. */
static bool asks_for_affinity(void)
{
    cpu_set_t set;
    hwloc_topology_t hw;
    bool same;

    if (unlink("cpu/online") != 0 || hwloc_topology_init(&hw) != 0 || hwloc_topology_load(hw) != 0)
        exit(2);
    same = sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_EQUAL(&set, &hw->online.set);
    hwloc_topology_destroy(hw);
    return same;
}

int main(void)
{
    char folder[] = "/tmp/omp-machine-XXXXXX", remove[64];
    bool all;

    if (!mkdtemp(folder) || chdir(folder) != 0)
        return 2;
    all = reads_all();
    all = leaves_out_what_is_off() && all;
    all = reads_little() && all;
    all = does_without_nodes() && all;
    all = asks_for_affinity() && all;
    snprintf(remove, sizeof(remove), "rm -r %s", folder);
    return system(remove) == 0 && all ? 0 : 1;
}
