/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The machine as this process may use it: cores, their SMT siblings, the caches and NUMA nodes that
 * they share; where to place work on it; binding of threads. Memory is placed by umbra/memory.h.
 * Only this header and topology/hwloc.h name hwloc.
 *
 * Words. A *cpu* is a hardware thread and is named by the operating system's index, as taskset and
 * /proc do. A *core* is a physical core; the cpus of one core are *siblings*. A core can have one
 * *shadow* (helper thread) on each cpu but one. Cores are numbered as they stand in the machine's
 * tree, so that neighbours share the most; where there are big and little cores, the big ones come
 * first.
 *
 * A topology shows only what the process may use: processors that are online and in the process's
 * cpuset (hwloc's allowed set), and of those the ones that the process is bound to at creation.
 * That is the union over its threads (hwloc's process binding), not the caller's own binding: a
 * thread that is bound to one cpu can still ask for the sibling of that cpu. umbra_topology_bind
 * does not narrow the view either. A program with one thread that binds itself by other means
 * should create its topology first.
 *
 * Siblings are the cpus of one Core object of hwloc. Caches do not decide it, since virtual
 * machines report a level-1 cache for each cpu. Where there are no Core objects each cpu is a core.
 * Two cpus share an L2 or L3 if the cache object above both is the same; the node of a cpu is the
 * smallest NUMA node that contains it.
 *
 * Placement (`placement` and `cpus` of the runtime's options, umbra/core.h) gives one cpu (the
 * first allowed) of each of n cores, never two of a core:
 *
 *   policy         the first n of                              for
 *   compact        the cores in tree order                     work that shares data
 *   scatter        the cores, nodes taking turns, then the     work that wants bandwidth and
 *                  L3s of a node, then the L2s of an L3        cache of its own
 *   one per L3     the first core of each L3, or L2            one worker a cache
 *   one per node   the first core of each NUMA node, or L3     one worker a memory
 *   list           what the user wrote: "0,2-5,8-14:2"         anything else
 *   performance    (instead of a list) the cores of the        work that waits for its slowest part
 *                  fastest kind
 *   efficiency     (likewise) all other cores                  what may take its time
 *   ("or": an L2 where there is no L3; an L3 that spans nodes.)
 *
 * Big and little cores. Each policy but the list gives the cores of the fastest kind first, then
 * those of the next kind: n cores are the n fastest that the policy has. One per L3 gives the
 * fastest core of each L3. The allowed cores include all kinds. hwloc 2.4 or later ranks the kinds
 * (by what the system says, else by type and frequency); cores that it cannot rank are of one kind,
 * and then the words "performance" and "efficiency" are refused (-ENODEV).
 *
 * A described machine. The options, or hwloc's environment (HWLOC_SYNTHETIC, HWLOC_XMLFILE), put a
 * description in the machine's place. Then a call that binds succeeds and does nothing, and `binds`
 * of umbra_topology_info() is false. HWLOC_THISSYSTEM=1 asserts that the description is this
 * machine's own, and binding is real again. (hwloc ignores most environment values that it cannot
 * read.)
 *
 * Callers. Any thread may call any function between creation and destruction. Threads are bound by
 * themselves: a call that binds acts on the calling thread. No function switches fibers, and only
 * creation takes long: it reads files (some ms).
 *
 * Runtimes, shadows, teams and memory that no topology is given to have one together: the first of
 * them reads the machine, and the next after the process was bound to other processors (taskset, a
 * changed cpuset, a processor that goes offline) reads it again. It is kept until the process ends.
 */
#ifndef UMBRA_TOPOLOGY_H
#define UMBRA_TOPOLOGY_H

#include <umbra/base/base.h>
#include <umbra/topology/table.h>

struct umbra_affinity;

/* What the process may use. Written once, by umbra_topology_create. */
struct umbra_topology_info {
    unsigned cores;
    unsigned cpus;  /* hardware threads */
    unsigned l3s;   /* level-3 caches */
    unsigned nodes; /* NUMA nodes */
    bool binds;     /* it is this machine, and threads can be bound */
    /* All cpus. Those of a core, which are siblings, stand one after the other. A core can have one
     * shadow less than it has cpus here. */
    const struct umbra_topology_cpu *cpu;
    /* How many processors the CPU quota of its control groups (containers) lets this process keep
     * busy, rounded up; 0: there is no limit, or none that can be read, or it is a description. */
    unsigned quota;
};

/* Private; written once, by umbra_topology_create, but for `users`. The first types are hwloc's:
 * only the implementation includes its header. */
struct umbra_topology {
    struct hwloc_topology *hw;     /* hwloc's own, loaded and unchanged since */
    struct hwloc_bitmap_s *usable; /* the cpus that the process may use */
    struct hwloc_bitmap_s *bound;  /* those that it was bound to; NULL: the topology cannot bind */
    unsigned users;                /* calls of umbra_topology_destroy to come; under a lock */
    struct um_cpu_table table;     /* these cpus, described */
    struct umbra_topology_info info; /* the same for umbra_topology_info() */
};

/* Where the topology comes from. All NULL: hwloc's environment, else this machine. */
struct umbra_topology_options {
    const char *synthetic; /* hwloc's description, such as "pack:2 numa:1 l3:1 core:2 pu:2" */
    const char *xml;       /* name of a file that hwloc (lstopo) exported */
};

/*
 * Reads the topology. options may be NULL. Any thread; blocks for some milliseconds. Returns 0;
 * -EINVAL: both options, or a description that cannot be read; -ENOENT, -EACCES ...: no such file;
 * -ENODEV: no cpu is left that the process may use; -ENOMEM. umbra_last_error_text() says more.
 * A fork(2) of another thread waits meanwhile, so that the child can read its topology, too.
 * hwloc, which reads it, does not look at the result of all its allocations: where memory ends, it
 * may end the process instead. It may crash on a damaged xml file, too.
 */
UM_LINKONCE int umbra_topology_create(const struct umbra_topology_options *options,
                                      struct umbra_topology **topology);

/* Frees the topology; NULL is allowed. Saved affinities stay valid, to be undone with another one.
 * Any thread, when no thread uses the topology any more; blocks while another one is read. */
UM_LINKONCE void umbra_topology_destroy(struct umbra_topology *topology);

/* What the process may use. It lives as long as the topology. Any thread; never blocks. */
UM_INLINE const struct umbra_topology_info *
umbra_topology_info(const struct umbra_topology *topology);

/* The cpu with this operating system's index; NULL: the process may not use it. It lives as long as
 * the topology. Any thread; never blocks. */
UM_INLINE const struct umbra_topology_cpu *
umbra_topology_cpu_of(const struct umbra_topology *topology, int cpu);

/* The nearest thing that two cpus share (enum umbra_shared), or -ENODEV. A cpu shares its core with
 * itself. umbra_topology_shared_name() gives the word for it. Any thread; never blocks. */
UM_INLINE int umbra_topology_shared(const struct umbra_topology *topology, int a, int b);

/*
 * The cpu nearest to this one, except itself and the `count` cpus in taken (which may be NULL if
 * count is 0): a sibling first, then by L2, L3, node, machine. Of cpus that are equally near it is
 * the next in table order. Returns its index, or -ENODEV: the process may not use cpu, or no other
 * is left. Any thread; never blocks.
 */
UM_INLINE int umbra_topology_nearest(const struct umbra_topology *topology, int cpu,
                                     const int *taken, unsigned count);

#define UMBRA_ANY_CPU (-1)

/*
 * Binds the calling thread to one cpu, or with UMBRA_ANY_CPU to all cpus of the topology: it may
 * then run on any of them, and so may the threads that it creates from now on. saved may be NULL;
 * else it receives what undoes the binding, for umbra_topology_unbind in the same thread, or NULL
 * if nothing was bound. Any thread; a fiber moves its whole core. Returns 0; -ENODEV: the process
 * may not use the cpu, or it went offline or out of the cpuset since; -ENOMEM; else the system's
 * error. After a failure the thread is bound as before.
 */
UM_LINKONCE int umbra_topology_bind(const struct umbra_topology *topology, int cpu,
                                    struct umbra_affinity **saved);

/*
 * Undoes a binding and frees saved; NULL is allowed and does nothing. Only the thread that was
 * bound. It may undo its bindings in any order: it stays where the latest binding that is left put
 * it, and gets its first affinity back when none is left. Returns 0; -EPERM (saved is another
 * thread's) or -EINVAL (this topology cannot bind), both with nothing done; else the system's
 * error, with saved freed.
 */
UM_LINKONCE int umbra_topology_unbind(const struct umbra_topology *topology,
                                      struct umbra_affinity *saved);

/* "core", "L2", "L3", "node" or "machine". Any thread; never blocks; never fails. */
UM_LINKONCE const char *umbra_topology_shared_name(enum umbra_shared shared);

#include <umbra/base/why.h>
#include <umbra/topology/hwloc.h>
#include <umbra/topology/near_memory.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_INLINE const struct umbra_topology_info *
umbra_topology_info(const struct umbra_topology *topology)
{
    return &topology->info;
}

UM_INLINE const struct umbra_topology_cpu *
umbra_topology_cpu_of(const struct umbra_topology *topology, int cpu)
{
    return um_cpu_table_get(&topology->table, cpu);
}

UM_INLINE int umbra_topology_shared(const struct umbra_topology *topology, int a, int b)
{
    return um_cpu_table_shared(&topology->table, a, b);
}

UM_INLINE int umbra_topology_nearest(const struct umbra_topology *topology, int cpu,
                                     const int *taken, unsigned count)
{
    return um_cpu_table_nearest(&topology->table, cpu, taken, count);
}

#endif
