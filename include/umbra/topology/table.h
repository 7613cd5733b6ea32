/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The table of hardware threads behind topology.h, and all answers that need only the table: what
 * two hardware threads share, which is nearest, where to place work. Knows nothing of hwloc.
 * Private; the public types in it are part of topology.h.
 *
 * Invariants, once filled: the hardware threads of a core are contiguous, in rank order, and of one
 * kind; the fastest kind of core comes first, and the cores of a kind are in the order of the
 * machine's tree, so that neighbours share the most. A filled table does not change: any number of
 * threads may read it.
 */
#ifndef UMBRA_TOPOLOGY_TABLE_H
#define UMBRA_TOPOLOGY_TABLE_H

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/base/base.h>
#include <umbra/base/environment.h>
#include <umbra/base/why.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* The nearest thing that two hardware threads share; smaller is nearer. Level-1 caches count as
 * part of the core: they are never shared beyond one. */
enum umbra_shared {
    UMBRA_SHARED_CORE,
    UMBRA_SHARED_L2,
    UMBRA_SHARED_L3,
    UMBRA_SHARED_NODE,
    UMBRA_SHARED_MACHINE
};

/* Which cores come first. The table in topology.h says what each policy promises. */
enum umbra_placement {
    UMBRA_PLACE_COMPACT,
    UMBRA_PLACE_SCATTER,
    UMBRA_PLACE_ONE_PER_L3,
    UMBRA_PLACE_ONE_PER_NODE
};

/* One hardware thread. All fields are written once, by umbra_topology_create. */
struct umbra_topology_cpu {
    int cpu;           /* the operating system's index: the functions of topology.h take this */
    unsigned core;     /* which core, from 0 */
    unsigned smt_rank; /* which of the core's allowed hardware threads: 0 is the first */
    int kind;          /* of the core: 0 is the fastest, 1 the next; all 0: one kind, or unknown */
    int l2;            /* hwloc's logical index (L#) of the level-2 cache, -1: none known */
    int l3;            /* the same for level 3 */
    int node;          /* the operating system's index of the nearest NUMA node, -1: none known */
    uint64_t l1_bytes; /* size of the level-1 data cache, 0: not known */
    uint64_t l2_bytes; /* size of that level-2 cache, 0: not known */
    uint64_t l3_bytes; /* size of that level-3 cache, 0: not known */
    uint64_t node_bytes; /* memory of that node, 0: not known */
};

/* One core. Written by um_cpu_table_group. */
struct um_core {
    unsigned first;  /* index of its first hardware thread in the table */
    unsigned ways;   /* how many allowed hardware threads it has */
    unsigned spread; /* its place in the scatter order */
    unsigned next;   /* while that order is computed: its place after this round */
};

struct um_cpu_table {
    unsigned cpus;                  /* entries in cpu */
    unsigned cores;                 /* entries in core */
    unsigned kinds;                 /* of core that the machine has; 1: or hwloc cannot rank them */
    struct umbra_topology_cpu *cpu; /* ordered by core, then rank */
    struct um_core *core;           /* ordered by kind, then as in the machine's tree */
};

UM_LINKONCE UM_COLD const struct umbra_topology_cpu *
um_cpu_table_get(const struct um_cpu_table *table, int cpu);
UM_LINKONCE UM_COLD unsigned um_cpu_table_distinct(const struct um_cpu_table *table, size_t field);
UM_LINKONCE UM_COLD int um_cpu_table_siblings(const struct um_cpu_table *table, int cpu, int *cpus,
                                              unsigned max);
UM_LINKONCE UM_COLD int um_cpu_table_shared(const struct um_cpu_table *table, int a, int b);
UM_LINKONCE UM_COLD int um_cpu_table_nearest(const struct um_cpu_table *table, int cpu,
                                             const int *taken, unsigned count);
UM_LINKONCE UM_COLD int um_cpu_table_place(const struct um_cpu_table *table,
                                           enum umbra_placement placement, unsigned count,
                                           int *cpus);
UM_LINKONCE UM_COLD int um_cpu_table_place_list(const struct um_cpu_table *table, const char *list,
                                                int *cpus, unsigned max);

#ifdef UMBRA_IMPLEMENTATION

/* The index of a hardware thread in the table, or -ENODEV. */
UM_LINKONCE UM_COLD int um_cpu_table_find(const struct um_cpu_table *table, int cpu)
{
    for (unsigned i = 0; i < table->cpus; i++)
        if (table->cpu[i].cpu == cpu)
            return (int)i;
    return -ENODEV;
}

UM_LINKONCE UM_COLD const struct umbra_topology_cpu *
um_cpu_table_get(const struct um_cpu_table *table, int cpu)
{
    int i = um_cpu_table_find(table, cpu);

    return i >= 0 ? &table->cpu[i] : NULL;
}

/* How many different non-negative values a field of the cpus has; field: its offset. */
UM_LINKONCE UM_COLD unsigned um_cpu_table_distinct(const struct um_cpu_table *table, size_t field)
{
    unsigned distinct = 0;

    for (unsigned i = 0; i < table->cpus; i++) {
        int own = *(const int *)((const char *)&table->cpu[i] + field);
        unsigned j = 0;

        while (j < i && *(const int *)((const char *)&table->cpu[j] + field) != own)
            j++;
        distinct += own >= 0 && j == i;
    }
    return distinct;
}

UM_LINKONCE UM_COLD int um_cpu_table_siblings(const struct um_cpu_table *table, int cpu, int *cpus,
                                              unsigned max)
{
    const struct umbra_topology_cpu *own = um_cpu_table_get(table, cpu);
    const struct um_core *core;
    unsigned found = 0;

    if (own == NULL)
        return -ENODEV;
    core = &table->core[own->core];
    for (unsigned i = 0; i < core->ways; i++) {
        int other = table->cpu[core->first + i].cpu;

        if (other == cpu)
            continue;
        if (found < max)
            cpus[found] = other;
        found++;
    }
    return (int)found;
}

/* ---- what is shared ---- */

UM_LINKONCE UM_COLD enum umbra_shared um_cpu_shared(const struct umbra_topology_cpu *a,
                                                    const struct umbra_topology_cpu *b)
{
    if (a->core == b->core)
        return UMBRA_SHARED_CORE;
    if (a->l2 >= 0 && a->l2 == b->l2)
        return UMBRA_SHARED_L2;
    if (a->l3 >= 0 && a->l3 == b->l3)
        return UMBRA_SHARED_L3;
    if (a->node >= 0 && a->node == b->node)
        return UMBRA_SHARED_NODE;
    return UMBRA_SHARED_MACHINE;
}

UM_LINKONCE UM_COLD int um_cpu_table_shared(const struct um_cpu_table *table, int a, int b)
{
    const struct umbra_topology_cpu *first = um_cpu_table_get(table, a);
    const struct umbra_topology_cpu *second = um_cpu_table_get(table, b);

    return first != NULL && second != NULL ? (int)um_cpu_shared(first, second) : -ENODEV;
}

/* The nearest thing that two cores share; a, b: their indices in the table. */
UM_LINKONCE UM_COLD enum umbra_shared um_core_shared(const struct um_cpu_table *table, unsigned a,
                                                     unsigned b)
{
    return um_cpu_shared(&table->cpu[table->core[a].first], &table->cpu[table->core[b].first]);
}

/* ---- filling in ---- */

UM_LINKONCE UM_COLD int um_core_kind(const struct um_cpu_table *table, unsigned core)
{
    return table->cpu[table->core[core].first].kind;
}

/* How many cores go before this one, of its kind and among those with which it shares `level` or
 * nearer; on the outermost level also the cores of faster kinds, which stand before it. */
UM_LINKONCE UM_COLD unsigned um_core_place_in_group(const struct um_cpu_table *table, unsigned core,
                                                    enum umbra_shared level)
{
    unsigned own = table->core[core].spread;
    unsigned before = 0;

    for (unsigned i = 0; i < table->cores; i++) {
        unsigned other = table->core[i].spread;

        if (um_core_kind(table, i) != um_core_kind(table, core))
            before += level == UMBRA_SHARED_MACHINE && i < core;
        else if (um_core_shared(table, core, i) <= level &&
                 (other < own || (other == own && i < core)))
            before++;
    }
    return before;
}

/*
 * Computes the scatter order, for each kind of core separately. Inside each L2 the cores are
 * numbered in table order. Inside each L3 they are then sorted by that number first, so that its
 * L2s take turns; then the same for nodes and for the machine.
 */
UM_LINKONCE UM_COLD void um_cpu_table_spread(struct um_cpu_table *table)
{
    for (unsigned level = UMBRA_SHARED_L2; level <= UMBRA_SHARED_MACHINE; level++) {
        for (unsigned i = 0; i < table->cores; i++)
            table->core[i].next = um_core_place_in_group(table, i, (enum umbra_shared)level);
        for (unsigned i = 0; i < table->cores; i++)
            table->core[i].spread = table->core[i].next;
    }
}

/* Fills the cores from the hardware threads' core numbers, which count up from 0, and gives every
 * hardware thread its rank. table->core has room for one core per hardware thread. */
UM_LINKONCE UM_COLD void um_cpu_table_group(struct um_cpu_table *table)
{
    for (unsigned i = 0; i < table->cpus; i++) {
        struct um_core *core = &table->core[table->cpu[i].core];

        if (core->ways == 0) {
            core->first = i;
            table->cores++;
        }
        table->cpu[i].smt_rank = core->ways++;
    }
    um_cpu_table_spread(table);
}

/* ---- choosing ---- */

UM_LINKONCE UM_COLD bool um_cpu_taken(int cpu, const int *taken, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (taken[i] == cpu)
            return true;
    return false;
}

/* The nearest other hardware thread that is not taken. Of equally near ones it is the next in table
 * order, going round, so that neighbours do not all get the same answer. */
UM_LINKONCE UM_COLD int um_cpu_table_nearest(const struct um_cpu_table *table, int cpu,
                                             const int *taken, unsigned count)
{
    int own = um_cpu_table_find(table, cpu);
    int nearest = -ENODEV;
    enum umbra_shared best = UMBRA_SHARED_MACHINE;

    if (own < 0)
        return own;
    for (unsigned i = 1; i < table->cpus; i++) {
        const struct umbra_topology_cpu *other = &table->cpu[((unsigned)own + i) % table->cpus];
        enum umbra_shared shared = um_cpu_shared(&table->cpu[own], other);

        if ((nearest >= 0 && shared >= best) || um_cpu_taken(other->cpu, taken, count))
            continue;
        nearest = other->cpu;
        best = shared;
    }
    return nearest;
}

/* True if a policy uses this core. False if it takes one core per L3 or node, and has one
 * already. */
UM_LINKONCE UM_COLD bool um_core_eligible(const struct um_cpu_table *table, unsigned core,
                                          enum umbra_placement placement)
{
    enum umbra_shared own = placement == UMBRA_PLACE_ONE_PER_L3     ? UMBRA_SHARED_L3
                            : placement == UMBRA_PLACE_ONE_PER_NODE ? UMBRA_SHARED_NODE
                                                                    : UMBRA_SHARED_CORE;

    for (unsigned i = 0; i < core; i++)
        if (um_core_shared(table, i, core) <= own)
            return false;
    return true;
}

/* How many places a policy has. */
UM_LINKONCE UM_COLD unsigned um_cpu_table_places(const struct um_cpu_table *table,
                                                 enum umbra_placement placement)
{
    unsigned places = 0;

    for (unsigned i = 0; i < table->cores; i++)
        places += um_core_eligible(table, i, placement);
    return places;
}

UM_LINKONCE UM_COLD int um_cpu_table_place(const struct um_cpu_table *table,
                                           enum umbra_placement placement, unsigned count,
                                           int *cpus)
{
    unsigned found = 0;

    if ((unsigned)placement > UMBRA_PLACE_ONE_PER_NODE)
        return um_why(-EINVAL, "placement = %d: there is no such policy", (int)placement);
    if (count > um_cpu_table_places(table, placement))
        return um_why(-ENOSPC, "%u cores, but the placement (policy %d) has %u places", count,
                      (int)placement, um_cpu_table_places(table, placement));
    for (unsigned i = 0; i < table->cores; i++) {
        unsigned place = placement == UMBRA_PLACE_SCATTER ? table->core[i].spread : found;

        if (!um_core_eligible(table, i, placement))
            continue;
        if (place < count)
            cpus[place] = table->cpu[table->core[i].first].cpu;
        found++;
    }
    return 0;
}

/* ---- lists of hardware threads in text ---- */

/* Reads digits and moves *text behind them. Returns their value or -EINVAL. */
UM_LINKONCE UM_COLD int um_list_number(const char **text)
{
    uint64_t value;

    return um_number_read(text, INT_MAX, &value) ? (int)value : -EINVAL;
}

/* One item of a list: first, last and step, as in "0-6:2". */
struct um_list_range {
    int first;
    int last;
    int step;
};

/* Reads one item and moves *text behind it and its comma. Returns 0 or -EINVAL. */
UM_LINKONCE UM_COLD int um_list_range(const char **text, struct um_list_range *range)
{
    range->first = um_list_number(text);
    range->last = range->first;
    range->step = 1;
    if (range->first >= 0 && **text == '-') {
        (*text)++;
        range->last = um_list_number(text);
        if (**text == ':') {
            (*text)++;
            range->step = um_list_number(text);
        }
    }
    if (range->first < 0 || range->last < range->first || range->step < 1)
        return -EINVAL;
    if (**text == '\0')
        return 0;
    if (**text != ',' || (*text)[1] == '\0')
        return -EINVAL;
    (*text)++;
    return 0;
}

/* Adds a range to cpus[*count ...], which has room for every hardware thread of the table. After an
 * error range->first is the hardware thread that is wrong. */
UM_LINKONCE UM_COLD int um_list_add(const struct um_cpu_table *table, struct um_list_range *range,
                                    int *cpus, unsigned *count)
{
    for (long long cpu = range->first; cpu <= range->last; cpu += range->step) {
        range->first = (int)cpu;
        if (um_cpu_table_find(table, (int)cpu) < 0)
            return -ENODEV;
        if (um_cpu_taken((int)cpu, cpus, *count))
            return -EINVAL;
        cpus[(*count)++] = (int)cpu;
    }
    return 0;
}

/* The first hardware thread of each core of the fastest kind, or of each other core. Returns how
 * many or -ENODEV. */
UM_LINKONCE UM_COLD int um_list_of_kind(const struct um_cpu_table *table, const char *word,
                                        bool fastest, int *cpus)
{
    int count = 0;

    if (table->kinds < 2)
        return um_why(-ENODEV, "cpus = \"%s\": the cores are of one kind, or cannot be ranked",
                      word);
    for (unsigned i = 0; i < table->cores; i++)
        if ((um_core_kind(table, i) == 0) == fastest)
            cpus[count++] = table->cpu[table->core[i].first].cpu;
    return count > 0 ? count
                     : um_why(-ENODEV, "cpus = \"%s\": this process may use no such core", word);
}

/* Reads the list into cpus, which has room for all of the table. Returns how many or an error. */
UM_LINKONCE UM_COLD int um_list_read(const struct um_cpu_table *table, const char *list, int *cpus)
{
    const char *whole = list;
    unsigned count = 0;

    if (strcmp(list, "performance") == 0 || strcmp(list, "efficiency") == 0)
        return um_list_of_kind(table, list, *list == 'p', cpus);
    do {
        struct um_list_range range;
        int result = um_list_range(&list, &range);

        if (result != 0)
            return um_why(result,
                          "cpus = \"%.100s\": not a list such as \"0,2-5,8-14:2\", and neither "
                          "\"performance\" nor \"efficiency\"",
                          whole);
        result = um_list_add(table, &range, cpus, &count);
        if (result != 0)
            return um_why(result, "cpus = \"%.100s\": processor %d %s", whole, range.first,
                          result == -EINVAL ? "is named twice" : "may not be used by this process");
    } while (*list != '\0');
    return (int)count;
}

UM_LINKONCE UM_COLD int um_cpu_table_place_list(const struct um_cpu_table *table, const char *list,
                                                int *cpus, unsigned max)
{
    int *named = calloc(table->cpus, sizeof *named);
    int count;

    if (named == NULL)
        return -ENOMEM;
    count = um_list_read(table, list, named);
    if (count > 0 && (unsigned)count > max)
        count = um_why(-ENOSPC, "cpus = \"%.100s\": %d processors, but there is room for %u", list,
                       count, max);
    if (count > 0)
        memcpy(cpus, named, (unsigned)count * sizeof *cpus);
    free(named);
    return count;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
