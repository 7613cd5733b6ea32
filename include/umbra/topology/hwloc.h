/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/topology.h: reading the machine through hwloc, and binding threads and
 * memory. Private; included by that header, after its declarations.
 */
#ifndef UMBRA_TOPOLOGY_HWLOC_H
#define UMBRA_TOPOLOGY_HWLOC_H

#include <umbra/base/base.h>
#include <umbra/base/environment.h>
#include <umbra/base/why.h>
#include <umbra/os/fork.h>
#include <umbra/topology/table.h>

#ifdef UMBRA_IMPLEMENTATION
#include <hwloc.h>
#include <pthread.h>
#if HWLOC_API_VERSION < 0x00020000
#error "Umbra needs hwloc 2.0 or later"
#endif
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/*
 * Writes `count` cpus, one a core, by a policy. Returns 0, -ENOSPC (the policy has fewer places) or
 * -EINVAL (no such policy). Any thread; never blocks.
 */
UM_INLINE int um_topology_place(const struct umbra_topology *topology,
                                enum umbra_placement placement, unsigned count, int *cpus)
{
    um_why_begin();
    return um_cpu_table_place(&topology->table, placement, count, cpus);
}

/*
 * Writes the cpus of a list, in its order: numbers, ranges and ranges with a step, separated by
 * commas, no spaces; or one word for the cores of a kind (umbra/topology.h). Returns how many;
 * -EINVAL: malformed, empty, or a cpu named twice; -ENODEV: a cpu that the process may not use, or
 * no such kind; -ENOSPC: more than max; -ENOMEM. Any thread; never blocks.
 */
UM_INLINE int um_topology_place_list(const struct umbra_topology *topology, const char *list,
                                     int *cpus, unsigned max)
{
    um_why_begin();
    return um_why_returned(um_cpu_table_place_list(&topology->table, list, cpus, max));
}

/* ---- bodies ---- */

/* One binding of one thread, which can be undone. */
struct umbra_affinity {
    struct hwloc_bitmap_s *before; /* the thread's affinity before the binding */
    struct hwloc_bitmap_s *after;  /* if `own`: and after it; NULL: unknown */
    struct umbra_affinity *outer;  /* the thread's binding before this one; NULL: there is none */
    const struct umbra_topology *own; /* the library made it, in this topology; NULL: the program */
};

/* The calling thread's latest binding that can be undone. */
UM_SHARED(UM_THREAD_LOCAL struct umbra_affinity *um_affinity_latest, NULL);

UM_LINKONCE UM_COLD int um_topology_current_cpu(const struct umbra_topology *topology);

/*
 * The process's topology of this machine: as umbra_topology_create(NULL), but read at the first
 * call only, and again when the process is bound to other processors than then.
 * umbra_topology_destroy() gives it back. With a variable of hwloc's that describes a machine it is
 * one of the caller's own.
 */
UM_LINKONCE UM_COLD int um_topology_share(struct umbra_topology **topology);

/*
 * How many threads to use for work if no option says it: UMBRA_CORES, from 1 to most; else as many
 * as there are places, or as the quota allows if that is less. Returns 0 or -EINVAL.
 */
UM_LINKONCE UM_COLD int um_topology_usual(const struct umbra_topology *topology, unsigned places,
                                          unsigned most, unsigned *count);

#ifdef UMBRA_IMPLEMENTATION

/* ---- fork(2) ---- */

/* hwloc begins and ends a topology under a lock of its own, which fork(2) does not take along: in a
 * child that was forked meanwhile it would stay locked. So such calls hold forks off; but what hwloc
 * loads may fork. */

/* What um_topology_share() read last, or NULL. Only while forks are held off; kept until the process
 * ends. */
UM_SHARED(struct umbra_topology *um_topology_shared, NULL);

/* ---- the machine ---- */

/* The error that hwloc has just left in errno, negative. */
UM_LINKONCE UM_COLD int um_hwloc_error(void)
{
    return errno > 0 ? -errno : -EINVAL;
}

/* Sets the error text: the source cannot be read. Returns the error. */
UM_LINKONCE UM_COLD int um_topology_why(const struct umbra_topology_options *options, int error)
{
    if (options != NULL && options->synthetic != NULL)
        return um_why(error, "synthetic = \"%.100s\": %s", options->synthetic, strerror(-error));
    if (options != NULL && options->xml != NULL)
        return um_why(error, "xml = \"%.100s\": %s", options->xml, strerror(-error));
    return um_why(error, "hwloc cannot read the topology: %s", strerror(-error));
}

/* Gives hwloc the source, and reads it. Returns 0 or an error. */
UM_LINKONCE UM_COLD int um_topology_load(hwloc_topology_t hw,
                                         const struct umbra_topology_options *options)
{
    unsigned long flags = HWLOC_TOPOLOGY_FLAG_THISSYSTEM_ALLOWED_RESOURCES;
    int result = 0;

#if defined(__linux__) && HWLOC_API_VERSION >= 0x00020500
    /* Linux tells all that is needed: hwloc must not move the caller over all processors for
     * CPUID */
    flags |= HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#endif
    errno = 0;
    if (options != NULL && options->synthetic != NULL)
        result = hwloc_topology_set_synthetic(hw, options->synthetic);
    if (options != NULL && options->xml != NULL)
        result = hwloc_topology_set_xml(hw, options->xml);
    if (result == 0)
        result = hwloc_topology_set_flags(hw, flags);
    if (result == 0)
        result = hwloc_topology_load(hw);
    return result == 0 ? 0 : um_topology_why(options, um_hwloc_error());
}

/* The processors that the process is bound to; NULL: no memory is left. */
UM_LINKONCE UM_COLD hwloc_bitmap_t um_topology_bound(hwloc_topology_t hw)
{
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    int result = 0;

    if (bound == NULL)
        return NULL;
    /* The thread's binding is the next best where the process's cannot be read (no /proc). */
    if (hwloc_get_cpubind(hw, bound, HWLOC_CPUBIND_PROCESS) != 0 &&
        hwloc_get_cpubind(hw, bound, HWLOC_CPUBIND_THREAD) != 0)
        hwloc_bitmap_fill(bound);
    for (struct umbra_affinity *a = um_affinity_latest; a != NULL && result == 0; a = a->outer)
        result = hwloc_bitmap_or(bound, bound, a->before);
    if (result == 0)
        return bound;
    hwloc_bitmap_free(bound);
    return NULL;
}

/* The nearest NUMA node: of those with this processor, the one with the fewest processors; NULL:
 * there is none. */
UM_LINKONCE UM_COLD hwloc_obj_t um_topology_node(hwloc_topology_t hw, hwloc_obj_t pu)
{
    unsigned nodes = (unsigned)hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_NUMANODE);
    hwloc_obj_t nearest = NULL;
    int fewest = INT_MAX;

    for (unsigned i = 0; i < nodes; i++) {
        hwloc_obj_t node = hwloc_get_obj_by_type(hw, HWLOC_OBJ_NUMANODE, i);
        int weight = node != NULL ? hwloc_bitmap_weight(node->cpuset) : INT_MAX;

        if (weight < fewest && hwloc_bitmap_isset(node->cpuset, pu->os_index)) {
            nearest = node;
            fewest = weight;
        }
    }
    return nearest;
}

/* Describes one processor, except its core, kind and rank. */
UM_LINKONCE UM_COLD void um_topology_describe(hwloc_topology_t hw, hwloc_obj_t pu,
                                              struct umbra_topology_cpu *cpu)
{
    hwloc_obj_t l1 = hwloc_get_ancestor_obj_by_type(hw, HWLOC_OBJ_L1CACHE, pu);
    hwloc_obj_t l2 = hwloc_get_ancestor_obj_by_type(hw, HWLOC_OBJ_L2CACHE, pu);
    hwloc_obj_t l3 = hwloc_get_ancestor_obj_by_type(hw, HWLOC_OBJ_L3CACHE, pu);
    hwloc_obj_t node = um_topology_node(hw, pu);

    cpu->cpu = (int)pu->os_index;
    cpu->l2 = l2 != NULL ? (int)l2->logical_index : -1;
    cpu->l3 = l3 != NULL ? (int)l3->logical_index : -1;
    cpu->node = node != NULL ? (int)node->os_index : -1;
    cpu->l1_bytes = l1 != NULL ? l1->attr->cache.size : 0;
    cpu->l2_bytes = l2 != NULL ? l2->attr->cache.size : 0;
    cpu->l3_bytes = l3 != NULL ? l3->attr->cache.size : 0;
    cpu->node_bytes = node != NULL ? node->attr->numanode.local_memory : 0;
}

/* How many kinds of cores hwloc can rank; 1: all count as one kind. */
UM_LINKONCE UM_COLD int um_topology_kinds(hwloc_topology_t hw)
{
    int kinds = 1;

#if HWLOC_API_VERSION >= 0x00020400
    int efficiency = -1;

    kinds = hwloc_cpukinds_get_nr(hw, 0);
    if (kinds < 1 || hwloc_cpukinds_get_info(hw, 0, NULL, &efficiency, NULL, NULL, 0) != 0 ||
        efficiency < 0)
        kinds = 1;
#endif
    return kinds;
}

/* The kind of a core, which is that of its first processor. hwloc counts kinds from the slowest; a
 * core that hwloc leaves out counts as one of the slowest. */
UM_LINKONCE UM_COLD int um_topology_kind(hwloc_topology_t hw, hwloc_obj_t core, int kinds)
{
    int index = 0;

#if HWLOC_API_VERSION >= 0x00020400
    hwloc_obj_t pu = hwloc_get_obj_inside_cpuset_by_type(hw, core->cpuset, HWLOC_OBJ_PU, 0);

    if (kinds > 1 && pu != NULL)
        index = hwloc_cpukinds_get_by_cpuset(hw, pu->cpuset, 0);
#endif
    return kinds - 1 - (index > 0 ? index : 0);
}

/* Adds the usable processors of all cores of one kind. */
UM_LINKONCE UM_COLD void um_topology_add(struct umbra_topology *topology, int kind, int kinds)
{
    struct um_cpu_table *table = &topology->table;
    unsigned most = (unsigned)hwloc_get_nbobjs_by_type(topology->hw, HWLOC_OBJ_PU);
    hwloc_obj_t previous = NULL; /* the Core, or the lone PU, of the last entry */

    for (unsigned i = 0; i < most; i++) {
        hwloc_obj_t pu = hwloc_get_obj_by_type(topology->hw, HWLOC_OBJ_PU, i);
        hwloc_obj_t core;
        struct umbra_topology_cpu *cpu = &table->cpu[table->cpus];

        if (pu == NULL || !hwloc_bitmap_isset(topology->usable, pu->os_index))
            continue;
        core = hwloc_get_ancestor_obj_by_type(topology->hw, HWLOC_OBJ_CORE, pu);
        core = core != NULL ? core : pu;
        if (um_topology_kind(topology->hw, core, kinds) != kind)
            continue;
        um_topology_describe(topology->hw, pu, cpu);
        cpu->kind = kind;
        cpu->core = table->cpus == 0 ? 0 : cpu[-1].core + (core != previous);
        previous = core;
        table->cpus++;
    }
}

/* Fills the table with the usable processors. Returns 0 or an error. */
UM_LINKONCE UM_COLD int um_topology_fill(struct umbra_topology *topology)
{
    struct um_cpu_table *table = &topology->table;
    unsigned most = (unsigned)hwloc_get_nbobjs_by_type(topology->hw, HWLOC_OBJ_PU);
    int kinds = um_topology_kinds(topology->hw);

    table->kinds = (unsigned)kinds;
    table->cpu = calloc(most, sizeof *table->cpu);
    table->core = calloc(most, sizeof *table->core);
    if (table->cpu == NULL || table->core == NULL)
        return -ENOMEM;
    for (int kind = 0; kind < kinds; kind++)
        um_topology_add(topology, kind, kinds);
    um_cpu_table_group(table);
    topology->info.cores = table->cores;
    topology->info.cpus = table->cpus;
    topology->info.l3s = um_cpu_table_distinct(table, offsetof(struct umbra_topology_cpu, l3));
    topology->info.nodes = um_cpu_table_distinct(table, offsetof(struct umbra_topology_cpu, node));
    topology->info.cpu = table->cpu;
    if (table->cpus == 0)
        return um_why(-ENODEV, "no processor is left that this process may use (cpuset, binding)");
    return 0;
}

/* Reads the machine into a topology; its hw is initialised already. Returns 0 or an error. */
UM_LINKONCE UM_COLD int um_topology_read(struct umbra_topology *topology,
                                         const struct umbra_topology_options *options)
{
    int result = um_topology_load(topology->hw, options);

    if (result != 0)
        return result;
    topology->info.binds =
        hwloc_topology_is_thissystem(topology->hw) &&
        hwloc_topology_get_support(topology->hw)->cpubind->set_thisthread_cpubind;
    topology->usable = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology->hw));
    if (topology->usable == NULL)
        return -ENOMEM;
    if (topology->info.binds) {
        topology->info.quota = um_os_quota();
        topology->bound = um_topology_bound(topology->hw);
        if (topology->bound == NULL ||
            hwloc_bitmap_and(topology->usable, topology->usable, topology->bound) != 0)
            return -ENOMEM;
    }
    return um_topology_fill(topology);
}

/* Reads a topology. Under the lock, as the next two. Returns 0 or an error. */
UM_LINKONCE UM_COLD int um_topology_make(const struct umbra_topology_options *options,
                                         struct umbra_topology **topology)
{
    struct umbra_topology *t = calloc(1, sizeof *t);
    int result;

    if (t == NULL || hwloc_topology_init(&t->hw) != 0) {
        free(t);
        return -ENOMEM;
    }
    t->users = 1;
    result = um_topology_read(t, options);
    if (result != 0)
        umbra_topology_destroy(t);
    else
        *topology = t;
    return result;
}

/* True if hwloc's environment may put a description in the machine's place. */
UM_LINKONCE UM_COLD bool um_topology_is_described(void)
{
    static const char *const by[] = {"HWLOC_SYNTHETIC", "HWLOC_XMLFILE", "HWLOC_FSROOT",
                                     "HWLOC_COMPONENTS", "HWLOC_THISSYSTEM"};
    unsigned i = 0;

    while (i < sizeof by / sizeof *by && getenv(by[i]) == NULL)
        i++;
    return i < sizeof by / sizeof *by;
}

/* True if the process is bound as it was when the topology was read. */
UM_LINKONCE UM_COLD bool um_topology_holds(const struct umbra_topology *topology)
{
    hwloc_bitmap_t bound = um_topology_bound(topology->hw);
    bool same = bound != NULL && hwloc_bitmap_isequal(bound, topology->bound);

    hwloc_bitmap_free(bound);
    return same;
}

/* The shared topology, with one user more. */
UM_LINKONCE UM_COLD int um_topology_find(const struct umbra_topology_options *none,
                                         struct umbra_topology **topology)
{
    bool described = um_topology_is_described();

    if (described || um_topology_shared == NULL || !um_topology_holds(um_topology_shared)) {
        int result = um_topology_make(none, topology);

        if (result != 0 || described || !(*topology)->info.binds)
            return result;
        umbra_topology_destroy(um_topology_shared);
        um_topology_shared = *topology;
    }
    um_topology_shared->users++;
    *topology = um_topology_shared;
    return 0;
}

/* Calls fn while forks are held off, without cancellation points. */
UM_LINKONCE UM_COLD int
um_topology_get(int (*fn)(const struct umbra_topology_options *, struct umbra_topology **),
                const struct umbra_topology_options *options, struct umbra_topology **topology)
{
    int cancels, result = um_forks_watch();

    if (result != 0)
        return um_why_returned(result);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
    um_forks_hold();
    result = fn(options, topology);
    um_forks_release();
    pthread_setcancelstate(cancels, &cancels);
    return um_why_returned(result);
}

UM_LINKONCE UM_COLD int umbra_topology_create(const struct umbra_topology_options *options,
                                              struct umbra_topology **topology)
{
    um_why_begin();
    if (options != NULL && options->synthetic != NULL && options->xml != NULL)
        return um_why(-EINVAL, "both synthetic and xml are given");
    return um_topology_get(um_topology_make, options, topology);
}

UM_LINKONCE UM_COLD int um_topology_share(struct umbra_topology **topology)
{
    um_why_begin();
    return um_topology_get(um_topology_find, NULL, topology);
}

UM_LINKONCE UM_COLD void umbra_topology_destroy(struct umbra_topology *topology)
{
    if (topology == NULL)
        return;
    um_forks_hold();
    if (--topology->users == 0) {
        free(topology->table.cpu);
        free(topology->table.core);
        hwloc_bitmap_free(topology->usable);
        hwloc_bitmap_free(topology->bound);
        hwloc_topology_destroy(topology->hw);
        free(topology);
    }
    um_forks_release();
}

UM_LINKONCE UM_COLD int um_topology_usual(const struct umbra_topology *topology, unsigned places,
                                          unsigned most, unsigned *count)
{
    unsigned quota = topology->info.quota;
    uint64_t usual = quota != 0 && quota < places ? quota : places;
    int error = um_environment_number("UMBRA_CORES", 1, most, usual, &usual);

    if (error == 0)
        *count = (unsigned)usual;
    return error;
}

/* Frees a record; NULL is allowed. */
UM_LINKONCE UM_COLD void um_affinity_free(struct umbra_affinity *affinity)
{
    if (affinity != NULL) {
        hwloc_bitmap_free(affinity->before);
        hwloc_bitmap_free(affinity->after);
    }
    free(affinity);
}

/* The calling thread's affinity, or NULL. */
UM_LINKONCE UM_COLD hwloc_bitmap_t um_affinity_now(hwloc_topology_t hw)
{
    hwloc_bitmap_t now = hwloc_bitmap_alloc();

    if (now == NULL || hwloc_get_cpubind(hw, now, HWLOC_CPUBIND_THREAD) == 0)
        return now;
    hwloc_bitmap_free(now);
    return NULL;
}

/* Stores the calling thread's affinity in a new record. Returns 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_affinity_note(hwloc_topology_t hw, struct umbra_affinity **affinity)
{
    struct umbra_affinity *note = calloc(1, sizeof *note);
    int result = -ENOMEM;

    if (note != NULL)
        note->before = hwloc_bitmap_alloc();
    if (note != NULL && note->before != NULL)
        result = hwloc_get_cpubind(hw, note->before, HWLOC_CPUBIND_THREAD) ? um_hwloc_error() : 0;
    if (result != 0) {
        um_affinity_free(note);
        return result;
    }
    note->outer = um_affinity_latest;
    *affinity = note;
    return 0;
}

#define UM_HWLOC_MASK_BYTES(last) (((size_t)(last) / 64 + 1) * 8) /* as CPU_ALLOC_SIZE(3) */

/* hwloc_set_cpubind() for the calling thread. hwloc (2.9) allocates a mask of the system's and does not
 * look whether it got one: what is freed here is what it gets. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_hwloc_bind(hwloc_topology_t hw, hwloc_const_bitmap_t set)
{
    int last = hwloc_bitmap_last(set);
    void *volatile mask = malloc(UM_HWLOC_MASK_BYTES(last < 0 ? 0 : last));

    if (!mask)
        return -ENOMEM;
    free(mask);
    return hwloc_set_cpubind(hw, set, HWLOC_CPUBIND_THREAD) == 0 ? 0 : um_hwloc_error();
}

/* Binds the calling thread to the processors in `set`; saved as in umbra_topology_bind. */
UM_LINKONCE UM_COLD int um_topology_bind_set(const struct umbra_topology *topology,
                                             hwloc_const_bitmap_t set,
                                             struct umbra_affinity **saved)
{
    struct umbra_affinity *note = NULL;
    int result = 0;

    if (topology->info.binds) {
        result = saved != NULL ? um_affinity_note(topology->hw, &note) : 0;
        if (result == 0)
            result = um_hwloc_bind(topology->hw, set);
        if (result != 0) {
            um_affinity_free(note);
            /* The processors existed at creation; Linux reports EINVAL when they have gone. */
            return result == -EINVAL ? -ENODEV : result;
        }
    }
    if (note != NULL)
        um_affinity_latest = note;
    if (saved != NULL)
        *saved = note;
    return 0;
}

/* As umbra_topology_bind, to all cpus. */
UM_LINKONCE UM_COLD int um_topology_bind_any(const struct umbra_topology *topology,
                                             struct umbra_affinity **saved)
{
    int result = um_topology_bind_set(topology, topology->usable, saved);

    if (result != 0)
        um_why(result, "binding to all processors: %s",
               result == -ENODEV ? "they have gone" : strerror(-result));
    return result;
}

UM_LINKONCE UM_COLD int umbra_topology_bind(const struct umbra_topology *topology, int cpu,
                                            struct umbra_affinity **saved)
{
    int result = um_cpu_table_find(&topology->table, cpu);
    hwloc_bitmap_t set;

    um_why_begin();
    if (cpu == UMBRA_ANY_CPU)
        return um_topology_bind_any(topology, saved);
    if (result < 0)
        return um_why(result, "processor %d may not be used by this process", cpu);
    set = hwloc_bitmap_alloc();
    result = -ENOMEM;
    if (set != NULL && hwloc_bitmap_only(set, (unsigned)cpu) == 0)
        result = um_topology_bind_set(topology, set, saved);
    hwloc_bitmap_free(set);
    if (result != 0)
        um_why(result, "binding to processor %d: %s", cpu,
               result == -ENODEV ? "it has gone" : strerror(-result));
    return result;
}

/* True if the library made the binding, and `then`, what the thread had later, is not it: the
 * program has set an affinity by other means. `then` may be NULL: unknown. */
UM_LINKONCE UM_COLD bool um_affinity_was_set(const struct umbra_affinity *affinity,
                                             hwloc_const_bitmap_t then)
{
    return then != NULL && affinity->after != NULL && !hwloc_bitmap_isequal(affinity->after, then);
}

/* The calling thread's bindings by the library above the latest by the program, by other means, too:
 * the earliest of them, or NULL. What the thread had before that one is what a child process gets. */
UM_LINKONCE UM_COLD const struct umbra_affinity *um_affinity_origin(void)
{
    const struct umbra_affinity *earliest = NULL;
    const struct umbra_affinity *a = um_affinity_latest;
    hwloc_bitmap_t now = a != NULL && a->own ? um_affinity_now(a->own->hw) : NULL;
    hwloc_const_bitmap_t then = now;

    for (; a != NULL && a->own && !um_affinity_was_set(a, then); a = a->outer) {
        earliest = a;
        then = a->before;
    }
    hwloc_bitmap_free(now);
    return earliest;
}

/* A copy of what um_affinity_origin() says, or else of the thread's affinity; NULL where threads are
 * not bound. For um_affinity_free(). Returns 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_affinity_keep(const struct umbra_topology *topology,
                                         struct umbra_affinity **kept)
{
    const struct umbra_affinity *origin = um_affinity_origin();
    struct umbra_affinity *note = NULL;
    int result = topology->info.binds ? um_affinity_note(topology->hw, &note) : 0;

    if (note != NULL && origin != NULL && hwloc_bitmap_copy(note->before, origin->before) != 0) {
        um_affinity_free(note);
        return -ENOMEM;
    }
    if (result == 0)
        *kept = note;
    return result;
}

/*
 * As umbra_topology_bind, for a thread that the library binds by itself: um_affinities_end() undoes
 * it. An affinity that the program sets by other means stays when it is undone. origin: what counts
 * as the thread's affinity before, or NULL: what it is.
 */
UM_LINKONCE UM_COLD int um_topology_bind_own(const struct umbra_topology *topology, int cpu,
                                             const struct umbra_affinity *origin,
                                             struct umbra_affinity **saved)
{
    int result = umbra_topology_bind(topology, cpu, saved);

    if (result != 0 || *saved == NULL)
        return result;
    (*saved)->own = topology;
    (*saved)->after = um_affinity_now(topology->hw);
    if (origin != NULL && hwloc_bitmap_copy((*saved)->before, origin->before) != 0) {
        umbra_topology_unbind(topology, *saved);
        *saved = NULL;
        result = -ENOMEM;
    }
    return result;
}

/* Gives the calling thread the processors of another thread. Best effort. */
UM_LINKONCE UM_COLD void um_topology_bind_as(const struct umbra_topology *topology,
                                             const struct umbra_affinity *origin)
{
    if (origin != NULL)
        um_topology_bind_set(topology, origin->before, NULL);
}

/* Undoes all bindings of the calling thread that the library made by itself, and frees them. */
UM_LINKONCE UM_COLD void um_affinities_end(void)
{
    struct umbra_affinity *affinity = um_affinity_latest;

    while (affinity != NULL) {
        struct umbra_affinity *outer = affinity->outer;

        if (affinity->own != NULL)
            umbra_topology_unbind(affinity->own, affinity);
        affinity = outer;
    }
}

/* How many NUMA nodes memory can be bound to; 0: it cannot be bound. */
UM_LINKONCE UM_COLD unsigned um_topology_memories(const struct umbra_topology *topology)
{
    return topology->info.binds
               ? (unsigned)hwloc_get_nbobjs_by_type(topology->hw, HWLOC_OBJ_NUMANODE)
               : 0;
}

/* True if the machine has a NUMA node with this operating system's index. */
UM_LINKONCE UM_COLD bool um_topology_has_node(const struct umbra_topology *topology, int node)
{
    return node >= 0 && hwloc_get_numanode_obj_by_os_index(topology->hw, (unsigned)node) != NULL;
}

/*
 * Binds whole pages that were not touched yet to NUMA nodes: page by page in turns, or to one node,
 * or elsewhere if that is full. Returns 0 or the system's error; then the thread that first touches
 * a page decides.
 */
UM_LINKONCE UM_COLD int um_topology_bind_memory(const struct umbra_topology *topology, void *at,
                                                size_t bytes, const int *nodes, unsigned count)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    int saved = errno;
    int result = set ? 0 : -ENOMEM;

    for (unsigned i = 0; i < count && result == 0; i++)
        if (hwloc_bitmap_set(set, (unsigned)nodes[i]) != 0)
            result = -ENOMEM;
    if (result == 0 &&
        hwloc_set_area_membind(topology->hw, at, bytes, set,
                               count > 1 ? HWLOC_MEMBIND_INTERLEAVE : HWLOC_MEMBIND_BIND,
                               HWLOC_MEMBIND_BYNODESET) != 0)
        result = um_hwloc_error();
    hwloc_bitmap_free(set);
    errno = saved;
    return result;
}

/* The calling thread's next binding after this one, NULL if there is none. */
UM_LINKONCE UM_COLD struct umbra_affinity *um_affinity_later(const struct umbra_affinity *affinity)
{
    struct umbra_affinity *later = um_affinity_latest;

    while (later != NULL && later->outer != affinity)
        later = later->outer;
    return later;
}

/* Undoes the calling thread's latest binding. */
UM_LINKONCE UM_COLD int um_affinity_undo(hwloc_topology_t hw, const struct umbra_affinity *saved)
{
    hwloc_bitmap_t now = saved->after != NULL ? um_affinity_now(hw) : NULL;
    int result = 0;

    um_affinity_latest = saved->outer;
    if (!um_affinity_was_set(saved, now))
        result = um_hwloc_bind(hw, saved->before);
    hwloc_bitmap_free(now);
    return result;
}

/* Undoes the one before `later`: when that is undone, the thread gets back what it had before the
 * two, unless the program has set an affinity between them. */
UM_LINKONCE UM_COLD void um_affinity_skip(struct umbra_affinity *later,
                                          struct umbra_affinity *saved)
{
    hwloc_bitmap_t before = later->before;

    later->outer = saved->outer;
    if (um_affinity_was_set(saved, before))
        return;
    later->before = saved->before;
    saved->before = before;
}

UM_LINKONCE UM_COLD int umbra_topology_unbind(const struct umbra_topology *topology,
                                              struct umbra_affinity *saved)
{
    struct umbra_affinity *later = um_affinity_later(saved);
    int result = 0;

    if (saved == NULL)
        return 0;
    if (!topology->info.binds)
        return um_why(-EINVAL, "the topology is a described one, and cannot bind");
    if (later == NULL && saved != um_affinity_latest)
        return um_why(-EPERM, "the binding is another thread's");
    if (later == NULL)
        result = um_affinity_undo(topology->hw, saved);
    else
        um_affinity_skip(later, saved);
    um_affinity_free(saved);
    return um_why_none(result);
}

/* The cpu that the caller runs on; on a described machine the first cpu. -ENODEV: the topology does
 * not have that cpu; -ENOMEM. Any thread; never blocks. */
UM_LINKONCE UM_COLD int um_topology_current_cpu(const struct umbra_topology *topology)
{
    hwloc_bitmap_t set;
    int cpu = -ENODEV;

    if (!topology->info.binds)
        return topology->table.cpu[0].cpu;
    set = hwloc_bitmap_alloc();
    if (set == NULL)
        return -ENOMEM;
    if (hwloc_get_last_cpu_location(topology->hw, set, HWLOC_CPUBIND_THREAD) == 0)
        cpu = hwloc_bitmap_first(set);
    hwloc_bitmap_free(set);
    return um_cpu_table_find(&topology->table, cpu) >= 0 ? cpu : -ENODEV;
}

/* True if the caller may run on one processor only. Any thread; never blocks. */
UM_LINKONCE UM_COLD bool um_topology_is_bound(const struct umbra_topology *topology)
{
    hwloc_bitmap_t now = topology->info.binds ? um_affinity_now(topology->hw) : NULL;
    bool bound = now != NULL && hwloc_bitmap_weight(now) == 1;

    hwloc_bitmap_free(now);
    return bound;
}

UM_LINKONCE UM_COLD const char *umbra_topology_shared_name(enum umbra_shared shared)
{
    static const char *const names[] = {"core", "L2", "L3", "node", "machine"};

    return names[shared <= UMBRA_SHARED_MACHINE ? shared : UMBRA_SHARED_MACHINE];
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
