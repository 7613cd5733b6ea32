/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Dependences of tasks. Each task that makes others with dependences has a table, which only the
 * thread that executes it reads and writes. It has, by address, the latest of these tasks:
 *
 *     address   last     tasks of one kind, in any order among each other: in, inoutset; or one: out
 *               before   those that each of them waits for
 *
 * A task of the same kind joins `last` and waits for `before`; another waits for `last`, which
 * becomes `before`. inout and mutexinoutset are as out, which is an order of theirs that the
 * standard allows. A task with omp_all_memory waits for all in the table and takes the place of
 * them. turn.h says how tasks wait for each other.
 *
 * What has ended is taken from the table when it grows: a list, or the table itself, is swept when it
 * is twice as long as after the last time.
 */
#include <stdlib.h>

#include "library.h"
#include "turn.h"

#define LEAST 16 /* entries of a table; tasks of a list before it is swept */

enum kind { IN = 1, OUT, INOUT, MUTEX, SET }; /* the ABI's numbers, in depend objects */

/* A task with dependences, or the end of a wait for such tasks. */
struct um_omp_node {
    struct um_turn turn;
    struct um_omp_task *task;     /* to be executed; or NULL: */
    struct um_omp_member *member; /* waits until turn.waits is 0 */
    size_t edges, room;           /* to predecessors; how many are in `use`; the maker's */
    /* its places in the table, by clause, and as many edges, of any predecessors */
    struct use {
        struct use *next; /* in an entry's list */
        struct um_omp_node *node;
        struct edge {
            struct um_turn_edge is;
            bool alone; /* memory of its own */
        } edge;
    } use[];
};

struct entry {
    void *address;
    enum kind kind;           /* of last */
    struct use *last;         /* NULL: an entry that is free */
    struct use *before;       /* may be NULL */
    unsigned count, sweep_at; /* of last */
};

struct um_omp_depends {
    struct entry *entry;
    size_t entries, count;   /* a power of two; in use */
    struct um_omp_node *all; /* the latest task with omp_all_memory, or NULL */
};

/* ---- what the program says ---- */

/* An array of the ABI: n, n of out, addresses of out and in; or 0, n, n of out, of mutexinoutset, of
 * in, addresses, and depend objects: each an address and a kind. */
struct clauses {
    size_t count, outs, addresses;
    void **item;
};

static struct clauses clauses_of(void **depend)
{
    size_t outs;

    if (depend[0] || !depend[1]) /* none: of an iterator */
        return (struct clauses){(size_t)depend[0], (size_t)depend[1], (size_t)depend[0],
                                depend + 2};
    outs = (size_t)depend[2] + (size_t)depend[3];
    return (struct clauses){(size_t)depend[1], outs, outs + (size_t)depend[4], depend + 5};
}

static enum kind clause_of(const struct clauses *clauses, size_t i, void **address)
{
    void **object = clauses->item[i];

    *address = object;
    if (i < clauses->addresses)
        return i < clauses->outs ? OUT : IN;
    *address = object[0];
    switch ((uintptr_t)object[1]) {
    case IN:
    case SET:
        return (enum kind)(uintptr_t)object[1];
    case OUT:
    case INOUT:
    case MUTEX:
        return OUT;
    default:
        um_omp_fatal("a depend object has the kind %ju", (uintmax_t)(uintptr_t)object[1]);
    }
}

/* ---- nodes ---- */

static void node_drop(struct um_omp_node *node)
{
    if (um_turn_drop(&node->turn))
        free(node);
}

static bool use_ended(struct use *use)
{
    return um_turn_ended(&use->node->turn);
}

static void list_drop(struct use *use)
{
    while (use) {
        struct use *next = use->next;

        node_drop(use->node);
        use = next;
    }
}

/* Takes those out of the list that have ended; returns how many are left. */
static unsigned list_sweep(struct use **at)
{
    unsigned left = 0;

    while (*at) {
        struct use *use = *at;

        if (!use_ended(use)) {
            left++;
            at = &use->next;
            continue;
        }
        *at = use->next;
        node_drop(use->node);
    }
    return left;
}

/* The task waits for that of another node. */
static void follow(struct um_omp_node *node, struct um_omp_node *before)
{
    struct edge *edge;
    bool alone = node->edges >= node->room;

    if (um_turn_ended(&before->turn))
        return;
    edge = alone ? malloc(sizeof(*edge)) : &node->use[node->edges].edge;
    if (!edge)
        um_omp_fatal("out of memory");
    edge->alone = alone;
    if (um_turn_follow(&before->turn, &node->turn, &edge->is))
        node->edges++;
    else if (alone)
        free(edge);
}

static void follow_list(struct um_omp_node *node, const struct use *use)
{
    for (; use; use = use->next)
        follow(node, use->node);
}

/* ---- the table ---- */

/* The address's entry, or the free one where it would be. */
static struct entry *entry_find(const struct um_omp_depends *table, const void *address)
{
    size_t at = (size_t)(((uintptr_t)address >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 32);

    for (;; at++) {
        struct entry *entry = &table->entry[at & (table->entries - 1)];

        if (!entry->last || entry->address == address)
            return entry;
    }
}

static void table_size(struct um_omp_depends *table, size_t entries)
{
    table->entry = calloc(entries, sizeof(*table->entry));
    if (!table->entry)
        um_omp_fatal("out of memory");
    table->entries = entries;
    table->count = 0;
}

/* Before one more is used: at most half of the entries are. */
static void table_grow(struct um_omp_depends *table)
{
    struct um_omp_depends old = *table;
    size_t live = 0, entries = LEAST;

    if (2 * table->count < table->entries)
        return;
    for (size_t i = 0; i < old.entries; i++) {
        struct entry *entry = &old.entry[i];

        entry->count = list_sweep(&entry->last);
        list_sweep(&entry->before); /* later: if all of `last` had ended, it finds that these had */
        live += entry->last != NULL;
    }
    while (entries < 4 * live)
        entries *= 2;
    table_size(table, entries);
    table->count = live;
    for (size_t i = 0; i < old.entries; i++)
        if (old.entry[i].last)
            *entry_find(table, old.entry[i].address) = old.entry[i];
    free(old.entry);
}

static void table_clear(struct um_omp_depends *table)
{
    for (size_t i = 0; i < table->entries; i++) {
        list_drop(table->entry[i].last);
        list_drop(table->entry[i].before);
    }
    free(table->entry);
}

/* ---- a task comes ---- */

/* Waits for those that come before a task of the kind. */
static void entry_follow(struct um_omp_node *node, const struct entry *entry, enum kind kind)
{
    follow_list(node, kind == OUT || kind != entry->kind ? entry->last : entry->before);
}

static void entry_add(struct um_omp_depends *table, struct use *use, void *address, enum kind kind)
{
    struct entry *entry = entry_find(table, address);

    if (!entry->last) {
        *entry = (struct entry){.address = address, .kind = kind, .sweep_at = LEAST};
        table->count++;
    } else if (entry->last->node == use->node) { /* the address is in several clauses of the task */
        if (entry->kind == OUT || entry->kind == kind)
            return;
        use = entry->last;
        kind = OUT; /* both ways */
        entry->last = use->next;
        node_drop(use->node);
    }
    if (entry->last) {
        entry_follow(use->node, entry, kind);
        if (kind == OUT || kind != entry->kind) {
            list_drop(entry->before);
            entry->before = entry->last;
            entry->last = NULL;
            entry->count = 0;
        }
    }
    entry->kind = kind;
    use->next = entry->last;
    entry->last = use;
    um_turn_keep(&use->node->turn);
    if (++entry->count > entry->sweep_at) {
        entry->count = list_sweep(&entry->last);
        entry->sweep_at = 2 * entry->count > LEAST ? 2 * entry->count : LEAST;
    }
}

static void follow_table(struct um_omp_node *node, const struct um_omp_depends *table)
{
    for (size_t i = 0; i < table->entries; i++)
        follow_list(node, table->entry[i].last);
}

/* A task with omp_all_memory, or without: waits for the latest one with it, and takes its place. */
static void all_follow(struct um_omp_node *node, struct um_omp_depends *table)
{
    if (!table->all)
        return;
    follow(node, table->all);
    if (um_turn_ended(&table->all->turn)) {
        node_drop(table->all);
        table->all = NULL;
    }
}

static void all_replace(struct um_omp_node *node, struct um_omp_depends *table)
{
    follow_table(node, table);
    table_clear(table);
    table_size(table, LEAST);
    if (table->all)
        node_drop(table->all);
    table->all = node;
    um_turn_keep(&node->turn);
}

static bool all_memory(const struct clauses *clauses)
{
    for (size_t i = 0; i < clauses->count; i++) {
        void *address;

        if (clause_of(clauses, i, &address) == OUT && !address)
            return true;
    }
    return false;
}

static struct um_omp_node *node_make(struct um_omp_task *task, size_t room)
{
    struct um_omp_node *node = malloc(sizeof(*node) + room * sizeof(node->use[0]));

    if (!node)
        um_omp_fatal("out of memory");
    um_turn_init(&node->turn);
    node->task = task;
    node->member = NULL;
    node->edges = 0;
    node->room = room;
    for (size_t i = 0; i < room; i++)
        node->use[i].node = node;
    return node;
}

/* The task's turn has come. */
static void begin(struct um_omp_member *self, struct um_omp_task *task)
{
    if (UM_UNLIKELY(task->priority > 0))
        um_omp_task_urge(self, task);
    else
        um_omp_task_defer(self, task);
}

void um_omp_depend_defer(struct um_omp_member *self, struct um_omp_task *task, void **depend)
{
    struct clauses clauses = clauses_of(depend);
    struct um_omp_node *node = task->node = node_make(task, clauses.count);
    struct um_omp_depends *table = self->task->depends;

    if (!table) {
        table = self->task->depends = um_omp_memory(sizeof(*table));
        table_size(table, LEAST);
    }
    all_follow(node, table);
    if (all_memory(&clauses))
        all_replace(node, table);
    else
        for (size_t i = 0; i < clauses.count; i++) {
            void *address;
            enum kind kind = clause_of(&clauses, i, &address);

            table_grow(table);
            entry_add(table, &node->use[i], address, kind);
        }
    if (um_turn_made(&node->turn, node->edges))
        begin(self, task);
}

void um_omp_depend_await(struct um_omp_member *self, void **depend)
{
    struct um_omp_depends *table = self->task->depends;
    struct um_omp_node node = {.member = self};
    struct um_omp_end end = {&node.turn.waits, UINT64_MAX, 0, false};
    struct clauses clauses;

    if (!table)
        return;
    clauses = clauses_of(depend);
    um_turn_init(&node.turn);
    all_follow(&node, table);
    if (all_memory(&clauses))
        follow_table(&node, table);
    else
        for (size_t i = 0; i < clauses.count; i++) {
            void *address;
            enum kind kind = clause_of(&clauses, i, &address);
            struct entry *entry = entry_find(table, address);

            if (entry->last)
                entry_follow(&node, entry, kind);
        }
    if (!um_turn_made(&node.turn, node.edges))
        um_omp_await(self, &end, UM_OMP_DESCEND);
}

/* ---- a task ends ---- */

void um_omp_depend_end(struct um_omp_member *self, struct um_omp_task *task)
{
    struct um_omp_node *node = task->node;
    struct um_turn_edge *at = um_turn_end(&node->turn);

    while (at) {
        struct edge *edge = (struct edge *)at;
        struct um_omp_node *to = (struct um_omp_node *)at->to;
        struct um_omp_task *next = to->task;
        struct um_omp_member *member = to->member;
        bool alone = edge->alone;

        at = at->next;
        if (alone)
            free(edge);
        if (!um_turn_step(&to->turn)) /* from now on it may be freed */
            continue;
        if (next)
            begin(self, next);
        else
            um_omp_wake(member);
    }
    um_omp_offer(self, um_atomic_load(&task->parent, relaxed)->member); /* relaxed: task_end() */
    task->node = NULL;
    node_drop(node);
}

void um_omp_depends_free(struct um_omp_depends *table)
{
    table_clear(table);
    if (table->all)
        node_drop(table->all);
    free(table);
}

UM_OMP_ABI void GOMP_taskwait_depend(void **depend)
{
    um_omp_depend_await(um_omp_self(), depend);
}
