/* SPDX-License-Identifier: BSL-1.0 */
/* See validate.h. */
#define _DEFAULT_SOURCE
#include "validate.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "placed.h"

#define GRAIN 8192 /* vertices or edges */
#define RULES 6

struct check {
    struct validation *validation;
    const uint32_t *parent;
    uint32_t root;
    _Atomic uint32_t at[RULES]; /* where a rule is broken; NO_VERTEX: nowhere */
};

const char *rule_text(enum rule rule)
{
    static const char *const texts[RULES] = {
        [RULES_KEPT] = "no rule is broken",
        [RULE_TREE] = "rule 1, the parents are no tree",
        [RULE_LEVELS] = "rule 2, an edge of the tree does not lead from one level to the next",
        [RULE_NEAR] = "rule 3, an edge has ends whose levels differ by more than one",
        [RULE_COMPONENT] = "rule 4, the tree does not have a whole connected component",
        [RULE_EDGES] = "rule 5, no edge joins a vertex and its parent",
    };

    return texts[rule];
}

/* relaxed, here and below: only the barrier at the end orders */
static void broken(struct check *check, enum rule rule, uint32_t vertex)
{
    atomic_store_explicit(&check->at[rule], vertex, memory_order_relaxed);
}

/* Members may find the same levels at a time; they find the same numbers. */
static uint32_t level_of(const struct check *check, uint32_t vertex)
{
    return __atomic_load_n(&check->validation->level[vertex], __ATOMIC_RELAXED);
}

static void set_level(const struct check *check, uint32_t vertex, uint32_t level)
{
    __atomic_store_n(&check->validation->level[vertex], level, __ATOMIC_RELAXED);
}

/* ---- rule 1 ---- */

/* Goes up from the vertex to one with a known level, and sets the levels of all on the way. False:
 * no way leads to the root. */
static bool climb(const struct check *check, uint32_t vertex)
{
    size_t n = check->validation->edges->vertices, steps = 0;
    uint32_t at = vertex, level;

    while (level_of(check, at) == NO_VERTEX) {
        at = check->parent[at];
        if (at >= n || ++steps >= n) /* NO_VERTEX too */
            return false;
    }
    level = level_of(check, at) + (uint32_t)steps;
    for (at = vertex; steps > 0; steps--, at = check->parent[at])
        set_level(check, at, level--);
    return true;
}

static void find_levels(struct member *member, void *arg)
{
    struct check *check = arg;
    size_t n = check->validation->edges->vertices, begin, end;

    while (member_take(member, n, GRAIN, &begin, &end))
        memset(check->validation->level + begin, 0xff,
               (end - begin) * sizeof(*check->validation->level)); /* NO_VERTEX */
    member_barrier(member);
    if (member->index == 0)
        set_level(check, check->root, 0);
    member_barrier(member);
    if (check->parent[check->root] != check->root) {
        broken(check, RULE_TREE, check->root);
        return;
    }
    while (member_take(member, n, GRAIN, &begin, &end))
        for (size_t v = begin; v < end; v++)
            if (check->parent[v] != NO_VERTEX && !climb(check, (uint32_t)v)) {
                broken(check, RULE_TREE, (uint32_t)v);
                return;
            }
}

/* ---- the other rules ---- */

static void check_edge(struct check *check, struct edge edge)
{
    const uint32_t *level = check->validation->level, *parent = check->parent;
    uint32_t a = edge.end[0], b = edge.end[1];

    if ((level[a] == NO_VERTEX) != (level[b] == NO_VERTEX))
        broken(check, RULE_COMPONENT, level[a] == NO_VERTEX ? a : b);
    else if (level[a] != NO_VERTEX && (level[a] > level[b] + 1 || level[b] > level[a] + 1))
        broken(check, RULE_NEAR, a);
    for (unsigned side = 0; side < 2; side++)
        if (parent[edge.end[side]] == edge.end[1 - side])
            __atomic_store_n(&check->validation->joined[edge.end[side]], 1, __ATOMIC_RELAXED);
}

static void check_vertex(struct check *check, uint32_t vertex)
{
    const uint32_t *level = check->validation->level;
    uint32_t parent = check->parent[vertex];

    if ((parent == NO_VERTEX) != (level[vertex] == NO_VERTEX))
        broken(check, RULE_TREE, vertex);
    else if (parent == NO_VERTEX)
        return;
    else if (vertex == check->root && parent == vertex && level[vertex] == 0)
        return;
    else if (parent >= check->validation->edges->vertices)
        broken(check, RULE_TREE, vertex);
    else if (level[vertex] != level[parent] + 1)
        broken(check, RULE_LEVELS, vertex);
    else if (!check->validation->joined[vertex])
        broken(check, RULE_EDGES, vertex);
}

static void check_levels(struct member *member, void *arg)
{
    struct check *check = arg;
    const struct edges *edges = check->validation->edges;
    size_t begin, end;

    while (member_take(member, edges->vertices, GRAIN, &begin, &end))
        memset(check->validation->joined + begin, 0, end - begin);
    member_barrier(member);
    while (member_take(member, edges->count, GRAIN, &begin, &end))
        for (size_t i = begin; i < end; i++)
            check_edge(check, edges->edge[i]);
    member_barrier(member);
    while (member_take(member, edges->vertices, GRAIN, &begin, &end))
        for (size_t v = begin; v < end; v++)
            check_vertex(check, (uint32_t)v);
}

/* ---- for the caller ---- */

static int run(struct validation *validation, uint32_t root, const uint32_t *parent, crew_fn *fn,
               enum rule *rule, uint32_t *vertex)
{
    struct check check = {.validation = validation, .parent = parent, .root = root};
    int error;

    for (unsigned r = 0; r < RULES; r++)
        atomic_init(&check.at[r], NO_VERTEX);
    error = crew_run(validation->crew, fn, &check, NULL);
    *rule = RULES_KEPT;
    for (unsigned r = 1; r < RULES && *rule == RULES_KEPT; r++) {
        *vertex = atomic_load_explicit(&check.at[r], memory_order_relaxed);
        if (*vertex != NO_VERTEX)
            *rule = (enum rule)r;
    }
    return error;
}

int validate_tree(struct validation *validation, uint32_t root, const uint32_t *parent,
                  enum rule *rule, uint32_t *vertex)
{
    return run(validation, root, parent, find_levels, rule, vertex);
}

int validate_levels(struct validation *validation, uint32_t root, const uint32_t *parent,
                    enum rule *rule, uint32_t *vertex)
{
    return run(validation, root, parent, check_levels, rule, vertex);
}

int validation_create(struct validation *validation, struct crew *crew, const struct edges *edges)
{
    *validation = (struct validation){.crew = crew, .edges = edges};
    validation->level = placed_alloc(edges->vertices * sizeof(*validation->level), 0);
    validation->joined = placed_alloc(edges->vertices, 0);
    if (validation->level && validation->joined)
        return 0;
    validation_destroy(validation);
    return -ENOMEM;
}

void validation_destroy(struct validation *validation)
{
    placed_free(validation->level);
    placed_free(validation->joined);
}
