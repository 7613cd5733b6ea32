/* SPDX-License-Identifier: BSL-1.0 */
/*
 * hwloc's functions, as far as umbra/topology/hwloc.h calls them, for this library alone: Linux says
 * itself where threads may run, and which processors share what. hwloc would take every process that
 * a program starts, with regions or without, 0.2 ms to load, and its first region some ms to read
 * the machine: it reads all that there is to know of each processor, one file for each thing.
 *
 * There are processors, cores, level-3 caches and NUMA nodes, all of one kind and without sizes. What Linux does not say is as if no two processors shared it. hwloc's variables
 * mean nothing here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <hwloc.h>

#include <umbra/base/environment.h>

/* Linux's folder; tests have another. */
#ifndef SYSTEM
#define SYSTEM "/sys/devices/system/"
#endif

/* From the inside out: an object of a level is in one of the next. */
enum level { LEVEL_PU, LEVEL_CORE, LEVEL_L3, LEVEL_NODE, LEVELS };

static const hwloc_obj_type_t types[LEVELS] = {HWLOC_OBJ_PU, HWLOC_OBJ_CORE, HWLOC_OBJ_L3CACHE,
                                               HWLOC_OBJ_NUMANODE};

/* The processors that share an object of a level with a processor. */
static const char *const files[LEVELS] = {
    [LEVEL_CORE] = SYSTEM "cpu/cpu%d/topology/thread_siblings_list",
    [LEVEL_L3] = SYSTEM "cpu/cpu%d/cache/index3/shared_cpu_list",
    [LEVEL_NODE] = SYSTEM "node/node%d/cpulist", /* of a node with this number */
};

struct hwloc_bitmap_s {
    cpu_set_t set;
};

struct hwloc_topology {
    struct hwloc_bitmap_s online;
    bool lone;                        /* no core has two processors */
    struct hwloc_obj *object[LEVELS]; /* in the order of the machine's tree */
    struct hwloc_bitmap_s *set[LEVELS];
    unsigned count[LEVELS];
};

/* ---- sets ---- */

hwloc_bitmap_t hwloc_bitmap_alloc(void)
{
    return calloc(1, sizeof(struct hwloc_bitmap_s));
}

void hwloc_bitmap_free(hwloc_bitmap_t set)
{
    free(set);
}

int hwloc_bitmap_copy(hwloc_bitmap_t to, hwloc_const_bitmap_t from)
{
    *to = *from;
    return 0;
}

hwloc_bitmap_t hwloc_bitmap_dup(hwloc_const_bitmap_t set)
{
    hwloc_bitmap_t made = hwloc_bitmap_alloc();

    if (made)
        *made = *set;
    return made;
}

void hwloc_bitmap_fill(hwloc_bitmap_t set)
{
    for (int i = 0; i < CPU_SETSIZE; i++)
        CPU_SET(i, &set->set);
}

int hwloc_bitmap_only(hwloc_bitmap_t set, unsigned i)
{
    CPU_ZERO(&set->set);
    CPU_SET(i, &set->set);
    return 0;
}

int hwloc_bitmap_and(hwloc_bitmap_t to, hwloc_const_bitmap_t a, hwloc_const_bitmap_t b)
{
    CPU_AND(&to->set, &a->set, &b->set);
    return 0;
}

int hwloc_bitmap_or(hwloc_bitmap_t to, hwloc_const_bitmap_t a, hwloc_const_bitmap_t b)
{
    CPU_OR(&to->set, &a->set, &b->set);
    return 0;
}

int hwloc_bitmap_isset(hwloc_const_bitmap_t set, unsigned i)
{
    return CPU_ISSET(i, &set->set);
}

int hwloc_bitmap_isequal(hwloc_const_bitmap_t a, hwloc_const_bitmap_t b)
{
    return CPU_EQUAL(&a->set, &b->set);
}

int hwloc_bitmap_isincluded(hwloc_const_bitmap_t a, hwloc_const_bitmap_t b)
{
    cpu_set_t both;

    CPU_AND(&both, &a->set, &b->set);
    return CPU_EQUAL(&both, &a->set);
}

int hwloc_bitmap_weight(hwloc_const_bitmap_t set)
{
    return CPU_COUNT(&set->set);
}

int hwloc_bitmap_iszero(hwloc_const_bitmap_t set)
{
    return CPU_COUNT(&set->set) == 0;
}

int hwloc_bitmap_first(hwloc_const_bitmap_t set)
{
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set->set))
            return i;
    return -1;
}

int hwloc_bitmap_last(hwloc_const_bitmap_t set)
{
    int last = CPU_SETSIZE - 1;

    while (last >= 0 && !CPU_ISSET(last, &set->set))
        last--;
    return last;
}

/* ---- where threads may run ---- */

/* What the process's first thread may use, and the caller, of which the threads of regions stem
 * 0 or -1. */
static int process_get(hwloc_bitmap_t set)
{
    cpu_set_t first;

    if (sched_getaffinity(0, sizeof(set->set), &set->set) != 0)
        return -1;
    if (sched_getaffinity(getpid(), sizeof(first), &first) == 0) /* it may have ended */
        CPU_OR(&set->set, &set->set, &first);
    return 0;
}

int hwloc_get_cpubind(hwloc_topology_t hw, hwloc_bitmap_t set, int flags)
{
    (void)hw;
    return flags & HWLOC_CPUBIND_PROCESS ? process_get(set)
                                         : sched_getaffinity(0, sizeof(set->set), &set->set);
}

int hwloc_set_cpubind(hwloc_topology_t hw, hwloc_const_bitmap_t set, int flags)
{
    (void)hw;
    (void)flags; /* the calling thread */
    return sched_setaffinity(0, sizeof(set->set), &set->set);
}

int hwloc_get_last_cpu_location(hwloc_topology_t hw, hwloc_bitmap_t set, int flags)
{
    int cpu = sched_getcpu();

    (void)hw;
    (void)flags;
    return cpu < 0 ? -1 : hwloc_bitmap_only(set, (unsigned)cpu);
}

/* ---- reading the machine ---- */

/* Reads a list such as "0-3,8" from a file. False: it cannot be read. */
static bool list_read(const char *format, int number, cpu_set_t *set)
{
    char path[128], text[4096];
    const char *at = text;
    uint64_t first, last;
    ssize_t length = -1;
    int file;

    snprintf(path, sizeof(path), format, number);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        length = read(file, text, sizeof(text) - 1);
        close(file);
    }
    text[length > 0 ? length : 0] = 0;
    CPU_ZERO(set);
    while (um_number_read(&at, CPU_SETSIZE - 1, &first)) {
        last = first;
        if (*at == '-' && (at++, !um_number_read(&at, CPU_SETSIZE - 1, &last)))
            break;
        for (; first <= last; first++)
            CPU_SET(first, set);
        at += *at == ',';
    }
    return length > 0;
}

/* An object of a level, with the processors of a set that are in it. */
static hwloc_obj_t add(hwloc_topology_t hw, enum level level, unsigned number, const cpu_set_t *set,
                       hwloc_obj_t parent)
{
    static union hwloc_obj_attr_u unknown;
    unsigned at = hw->count[level]++;
    hwloc_obj_t object = &hw->object[level][at];

    hw->set[level][at].set = *set;
    object->type = types[level];
    object->os_index = number;
    object->logical_index = at;
    object->cpuset = &hw->set[level][at];
    object->attr = &unknown;
    object->parent = parent;
    return object;
}

/* Adds the objects of a level, and of those below, that the processors of a set are in. */
static void split(hwloc_topology_t hw, int level, cpu_set_t set, hwloc_obj_t parent)
{
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        cpu_set_t in;
        hwloc_obj_t object = parent;

        if (!CPU_ISSET(cpu, &set))
            continue;
        if (level == LEVEL_PU || (level == LEVEL_CORE && hw->lone) ||
            !list_read(files[level], cpu, &in) || !CPU_ISSET(cpu, &in)) {
            CPU_ZERO(&in);
            CPU_SET(cpu, &in);
        }
        CPU_AND(&in, &in, &set);
        CPU_XOR(&set, &set, &in);
        object = add(hw, level, (unsigned)cpu, &in, parent);
        if (level > LEVEL_PU)
            split(hw, level - 1, in, object);
    }
}

/* Adds the nodes, and all that is in them; then what is in none. */
static void nodes_add(hwloc_topology_t hw)
{
    cpu_set_t nodes, left = hw->online.set, in = left;
    bool one;

    list_read(SYSTEM "node/has_cpu", 0, &nodes);
    one = CPU_COUNT(&nodes) == 1;
    for (int node = 0; node < CPU_SETSIZE; node++) {
        if (!CPU_ISSET(node, &nodes) || (!one && !list_read(files[LEVEL_NODE], node, &in)))
            continue;
        CPU_AND(&in, &in, &left);
        CPU_XOR(&left, &left, &in);
        if (CPU_COUNT(&in) > 0)
            split(hw, LEVEL_L3, in, add(hw, LEVEL_NODE, (unsigned)node, &in, NULL));
    }
    split(hw, LEVEL_L3, left, NULL);
}

int hwloc_topology_init(hwloc_topology_t *hw)
{
    *hw = calloc(1, sizeof(**hw));
    return *hw ? 0 : -1;
}

void hwloc_topology_destroy(hwloc_topology_t hw)
{
    for (int level = 0; level < LEVELS; level++) {
        free(hw->object[level]);
        free(hw->set[level]);
    }
    free(hw);
}

int hwloc_topology_load(hwloc_topology_t hw)
{
    cpu_set_t active; /* which reads as a list, too: 0 or 1 */
    size_t cpus;

    if (!list_read(SYSTEM "cpu/online", 0, &hw->online.set) && process_get(&hw->online) != 0)
        return -1;
    cpus = (size_t)CPU_COUNT(&hw->online.set);
    for (int level = 0; level < LEVELS; level++) {
        hw->object[level] = calloc(cpus, sizeof(*hw->object[level]));
        hw->set[level] = calloc(cpus, sizeof(*hw->set[level]));
        if (!hw->object[level] || !hw->set[level]) {
            errno = ENOMEM;
            return -1;
        }
    }
    hw->lone = list_read(SYSTEM "cpu/smt/active", 0, &active) && CPU_ISSET(0, &active);
    nodes_add(hw);
    return 0;
}

int hwloc_topology_set_flags(hwloc_topology_t hw, unsigned long flags)
{
    (void)hw;
    (void)flags;
    return 0;
}

/* Descriptions: the library gives none. */
int hwloc_topology_set_synthetic(hwloc_topology_t hw, const char *description)
{
    (void)hw;
    (void)description;
    errno = ENOSYS;
    return -1;
}

int hwloc_topology_set_xml(hwloc_topology_t hw, const char *path)
{
    return hwloc_topology_set_synthetic(hw, path);
}

/* ---- what was read ---- */

int hwloc_topology_is_thissystem(hwloc_topology_t hw)
{
    (void)hw;
    return 1;
}

const struct hwloc_topology_support *hwloc_topology_get_support(hwloc_topology_t hw)
{
    static struct hwloc_topology_cpubind_support binds = {.set_thisthread_cpubind = 1};
    static const struct hwloc_topology_support support = {.cpubind = &binds};

    (void)hw;
    return &support;
}

hwloc_const_cpuset_t hwloc_topology_get_allowed_cpuset(hwloc_topology_t hw)
{
    return &hw->online;
}

int hwloc_get_type_depth(hwloc_topology_t hw, hwloc_obj_type_t type)
{
    (void)hw;
    for (int level = 0; level < LEVELS; level++)
        if (types[level] == type)
            return level;
    return HWLOC_TYPE_DEPTH_UNKNOWN;
}

unsigned hwloc_get_nbobjs_by_depth(hwloc_topology_t hw, int depth)
{
    return hw->count[depth];
}

hwloc_obj_t hwloc_get_obj_by_depth(hwloc_topology_t hw, int depth, unsigned at)
{
    return at < hw->count[depth] ? &hw->object[depth][at] : NULL;
}

#if HWLOC_API_VERSION >= 0x00020400
/* Kinds of cores: they are not ranked. */
int hwloc_cpukinds_get_nr(hwloc_topology_t hw, unsigned long flags)
{
    (void)hw;
    (void)flags;
    return 0;
}

int hwloc_cpukinds_get_info(hwloc_topology_t hw, unsigned kind, hwloc_bitmap_t set, int *efficiency,
                            unsigned *infos, struct hwloc_info_s **info, unsigned long flags)
{
    (void)kind;
    (void)set;
    (void)efficiency;
    (void)infos;
    (void)info;
    (void)flags;
    (void)hw;
    errno = EINVAL;
    return -1;
}

int hwloc_cpukinds_get_by_cpuset(hwloc_topology_t hw, hwloc_const_bitmap_t set, unsigned long flags)
{
    (void)set;
    return hwloc_cpukinds_get_info(hw, 0, NULL, NULL, NULL, NULL, flags);
}
#endif
