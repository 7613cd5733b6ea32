/* SPDX-License-Identifier: BSL-1.0 */
/* The searches of examples/bfs, and the five rules that their results are checked by. */
#include "runner.h"

#include <errno.h>
#include <string.h>

#include <crew.h>
#include <statistics.h>
#include <validate.h>
#include <versions.h>

#define SCALE 9
#define SCALE_OF_PAGES 15
#define EDGE_FACTOR 8
#define ROOTS 3

static const bool all_forms[REPRESENTATIONS] = {true, true, true, true};

/* ---- allocations that fail ---- */

#define LIVE_MOST 256

static __thread bool watching;    /* in the thread that allocates large arrays, from now on */
static unsigned allocations_left; /* before one fails */
static void *live[LIVE_MOST];     /* what aligned_alloc() has given */

void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);
void __wrap_free(void *memory);

static void **live_place(const void *memory)
{
    for (size_t i = 0; i < LIVE_MOST; i++)
        if (live[i] == memory)
            return &live[i];
    return NULL;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    void *memory =
        !watching || allocations_left-- > 0 ? __real_aligned_alloc(alignment, bytes) : NULL;
    void **place = watching && memory ? live_place(NULL) : NULL;

    if (place)
        *place = memory;
    return memory;
}

void __wrap_free(void *memory)
{
    void **place = watching && memory ? live_place(memory) : NULL;

    if (place)
        *place = NULL;
    __real_free(memory);
}

static size_t live_count(void)
{
    size_t count = 0;

    for (size_t i = 0; i < LIVE_MOST; i++)
        count += live[i] != NULL;
    return count;
}

/* ---- */

/* A runtime, a graph, and a tree in it. */
struct fixture {
    struct umbra_runtime *runtime;
    struct crew crew;
    struct graph graph;
    struct validation validation;
    uint32_t root[ROOTS], *parent;
};

static void begin_at(struct fixture *fixture, unsigned scale, unsigned members, unsigned parts)
{
    struct umbra_options options = {.cores = members, .oversubscribe = true};

    memset(fixture, 0, sizeof(*fixture));
    fixture->graph.crew = &fixture->crew;
    cr_assert_eq(umbra_runtime_create(&options, &fixture->runtime), 0);
    cr_assert_eq(crew_init(&fixture->crew, fixture->runtime), 0);
    cr_assert_eq(edges_generate(&fixture->graph.edges, &fixture->crew, scale, EDGE_FACTOR, 3), 0);
    cr_assert_eq(graph_build(&fixture->graph, all_forms, parts), 0);
    cr_assert_eq(validation_create(&fixture->validation, &fixture->crew, &fixture->graph.edges), 0);
    cr_assert_eq(graph_roots(&fixture->graph, 1, fixture->root, ROOTS), ROOTS);
    fixture->parent = calloc(fixture->graph.csr.vertices, sizeof(*fixture->parent));
    cr_assert(fixture->parent != NULL);
}

static void begin(struct fixture *fixture, unsigned members, unsigned parts)
{
    begin_at(fixture, SCALE, members, parts);
}

static void end(struct fixture *fixture)
{
    validation_destroy(&fixture->validation);
    graph_destroy(&fixture->graph);
    crew_fini(&fixture->crew);
    umbra_runtime_destroy(fixture->runtime);
    free(fixture->parent);
}

static void search_with(struct fixture *fixture, const struct version *version, unsigned root)
{
    struct search search = graph_search(&fixture->graph, version, 2);
    uint64_t ns;

    cr_assert_eq(version->create(&search), 0);
    cr_assert_eq(version->search(&search, fixture->root[root], fixture->parent, &ns), 0);
    version->destroy(&search);
}

static enum rule tree_rule(struct fixture *fixture)
{
    enum rule rule;
    uint32_t vertex;

    cr_assert_eq(
        validate_tree(&fixture->validation, fixture->root[0], fixture->parent, &rule, &vertex), 0);
    return rule;
}

static enum rule levels_rule(struct fixture *fixture)
{
    enum rule rule;
    uint32_t vertex;

    cr_assert_eq(
        validate_levels(&fixture->validation, fixture->root[0], fixture->parent, &rule, &vertex),
        0);
    return rule;
}

static const struct version versions[] = {
    {{.name = "umbra-bfs"}, ORDERED, HYBRID, ordered_create, ordered_destroy, ordered_search},
    {{.name = "umbra-partitioned"}, PARTS, HYBRID, parts_create, parts_destroy, parts_search},
    {{.name = "top-down"}, ONE_PART, TOP_DOWN, parts_create, parts_destroy, parts_search},
    {{.name = "bottom-up"}, ONE_PART, BOTTOM_UP, parts_create, parts_destroy, parts_search},
#ifdef BFS_OPENMP
    {{.name = "openmp-hybrid"}, PLAIN, HYBRID, openmp_create, openmp_destroy, openmp_search},
    {{.name = "openmp-hybrid-relabelled"},
     ORDERED,
     HYBRID,
     openmp_ordered_create,
     openmp_destroy,
     openmp_ordered_search},
#endif
};

/* The first rule that is broken of all five, by a tree from this root. */
static enum rule rule_from(struct fixture *fixture, unsigned root)
{
    uint32_t first = fixture->root[0];
    enum rule rule;

    fixture->root[0] = fixture->root[root];
    rule = tree_rule(fixture);
    if (rule == RULES_KEPT)
        rule = levels_rule(fixture);
    fixture->root[0] = first;
    return rule;
}

/* A valid tree from root 0, and its levels. */
static void grow(struct fixture *fixture)
{
    begin(fixture, 2, 2);
    search_with(fixture, &versions[0], 0);
    cr_assert_eq(tree_rule(fixture), RULES_KEPT);
    cr_assert_eq(levels_rule(fixture), RULES_KEPT);
}

/* A vertex of this level. */
static uint32_t of_level(const struct fixture *fixture, uint32_t level)
{
    uint32_t vertex = 0;

    while (vertex < fixture->graph.csr.vertices && fixture->validation.level[vertex] != level)
        vertex++;
    cr_assert_lt(vertex, fixture->graph.csr.vertices);
    return vertex;
}

Test(bfs, every_version_finds_a_valid_tree_with_any_number_of_members_and_parts)
{
    static const struct {
        unsigned members, parts;
    } crews[] = {{1, 1}, {1, 3}, {2, 1}, {2, 2}, {3, 2}, {2, 5}};
    static struct fixture fixture;

    for (size_t c = 0; c < sizeof(crews) / sizeof(crews[0]); c++) {
        begin(&fixture, crews[c].members, crews[c].parts);
        for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++)
            for (unsigned root = 0; root < ROOTS; root++) {
                search_with(&fixture, &versions[v], root);
                cr_assert_eq(rule_from(&fixture, root), RULES_KEPT, "%s", versions[v].way.name);
            }
        end(&fixture);
    }
}

Test(bfs, rule_1_catches_a_cycle)
{
    static struct fixture fixture;
    uint32_t below, above;

    grow(&fixture);
    below = of_level(&fixture, 2);
    above = fixture.parent[below];
    fixture.parent[above] = below;
    cr_assert_eq(tree_rule(&fixture), RULE_TREE);
    end(&fixture);
}

Test(bfs, rule_1_catches_a_parent_that_is_no_vertex_or_not_in_the_tree)
{
    static struct fixture fixture;
    uint32_t vertex;

    grow(&fixture);
    vertex = of_level(&fixture, 2);
    fixture.parent[vertex] = (uint32_t)fixture.graph.csr.vertices;
    cr_assert_eq(tree_rule(&fixture), RULE_TREE);
    fixture.parent[vertex] = of_level(&fixture, NO_VERTEX);
    cr_assert_eq(tree_rule(&fixture), RULE_TREE);
    end(&fixture);
}

Test(bfs, rule_1_catches_a_root_that_has_a_parent)
{
    static struct fixture fixture;

    grow(&fixture);
    fixture.parent[fixture.root[0]] = of_level(&fixture, 1);
    cr_assert_eq(tree_rule(&fixture), RULE_TREE);
    end(&fixture);
}

Test(bfs, rule_2_catches_a_level_that_is_not_its_parents_and_one)
{
    static struct fixture fixture;
    uint32_t vertex;

    grow(&fixture);
    vertex = of_level(&fixture, 2);
    fixture.validation.level[vertex] = 1;
    cr_assert_eq(levels_rule(&fixture), RULE_LEVELS);
    end(&fixture);
}

Test(bfs, rule_3_catches_an_edge_between_levels_that_are_far_apart)
{
    static struct fixture fixture;
    struct edges *edges = &fixture.graph.edges;
    uint32_t far;

    grow(&fixture);
    far = of_level(&fixture, 2);
    edges->edge[edges->count - 1] = (struct edge){{fixture.root[0], far}};
    cr_assert_eq(levels_rule(&fixture), RULE_NEAR);
    end(&fixture);
}

Test(bfs, rule_4_catches_an_edge_that_leads_out_of_the_tree)
{
    static struct fixture fixture;
    struct edges *edges = &fixture.graph.edges;
    uint32_t outside;

    grow(&fixture);
    outside = of_level(&fixture, NO_VERTEX);
    edges->edge[0] = (struct edge){{fixture.root[0], outside}};
    cr_assert_eq(levels_rule(&fixture), RULE_COMPONENT);
    end(&fixture);
}

Test(bfs, rule_4_catches_a_vertex_that_was_left_out)
{
    static struct fixture fixture;
    uint32_t leaf, last = 0;

    grow(&fixture);
    for (size_t v = 0; v < fixture.graph.csr.vertices; v++)
        if (fixture.validation.level[v] != NO_VERTEX && fixture.validation.level[v] > last)
            last = fixture.validation.level[v];
    leaf = of_level(&fixture, last);
    fixture.parent[leaf] = NO_VERTEX;
    cr_assert_eq(tree_rule(&fixture), RULES_KEPT); /* it is a tree */
    cr_assert_eq(levels_rule(&fixture), RULE_COMPONENT);
    end(&fixture);
}

/* True if the plain graph has an edge between two vertices. */
static bool joined(const struct csr *csr, uint32_t a, uint32_t b)
{
    for (uint64_t i = csr->row[a]; i < csr->row[a + 1]; i++)
        if (csr->to[i] == b)
            return true;
    return false;
}

Test(bfs, rule_5_catches_a_parent_that_is_no_neighbour)
{
    static struct fixture fixture;
    uint32_t vertex, other = 0, n;

    grow(&fixture);
    n = (uint32_t)fixture.graph.csr.vertices;
    vertex = of_level(&fixture, 2);
    while (other < n &&
           (fixture.validation.level[other] != 1 || joined(&fixture.graph.csr, vertex, other)))
        other++;
    cr_assert_lt(other, n);
    fixture.parent[vertex] = other;
    cr_assert_eq(tree_rule(&fixture), RULES_KEPT);
    cr_assert_eq(levels_rule(&fixture), RULE_EDGES);
    end(&fixture);
}

Test(bfs, a_graph_is_the_same_for_any_number_of_members)
{
    static struct fixture one, three;
    size_t entries;

    begin(&one, 1, 1);
    begin(&three, 3, 1);
    entries = one.graph.csr.row[one.graph.csr.vertices];
    cr_assert_eq(memcmp(one.graph.edges.edge, three.graph.edges.edge,
                        one.graph.edges.count * sizeof(struct edge)),
                 0);
    cr_assert_eq(three.graph.csr.row[three.graph.csr.vertices], entries);
    cr_assert_eq(memcmp(one.graph.csr.to, three.graph.csr.to, entries * sizeof(uint32_t)), 0);
    cr_assert_eq(
        memcmp(one.graph.ordered.csr.to, three.graph.ordered.csr.to, entries * sizeof(uint32_t)),
        0);
    end(&one);
    end(&three);
}

Test(bfs, edges_are_counted_with_copies_and_loops)
{
    static struct fixture fixture;
    uint64_t inside = 0;

    grow(&fixture);
    for (size_t i = 0; i < fixture.graph.edges.count; i++)
        inside += fixture.parent[fixture.graph.edges.edge[i].end[0]] != NO_VERTEX;
    cr_assert_eq(graph_edges_of(&fixture.graph, fixture.parent), inside);
    end(&fixture);
}

Test(bfs, the_mean_of_rates_is_harmonic)
{
    double rates[] = {4, 1, 2, 4};
    struct statistics statistics = statistics_of_rates(rates, 4);

    cr_assert_float_eq(statistics.mean, 2, 1e-12);
    cr_assert_float_eq(statistics.first_quartile, 1.75, 1e-12);
    cr_assert_float_eq(statistics.median, 3, 1e-12);
    cr_assert_float_eq(statistics.third_quartile, 4, 1e-12);
    /* deviations of 1/4, 1, 1/2, 1/4 from 1/2: squares 6/16; root / (n - 1) * mean^2 */
    cr_assert_float_eq(statistics.deviation, 0.8164965809277260, 1e-12);
}

/* All that allocates, with one allocation that fails after so many. */
static int make_all(struct fixture *fixture, unsigned allocations)
{
    struct graph graph = {.crew = &fixture->crew};
    struct validation validation;
    int error;

    watching = true;
    allocations_left = allocations;
    error = edges_generate(&graph.edges, &fixture->crew, 6, 4, 1);
    if (!error)
        error = graph_build(&graph, all_forms, 3);
    if (!error) {
        error = validation_create(&validation, &fixture->crew, &graph.edges);
        if (!error)
            validation_destroy(&validation);
    }
    for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]) && !error; v++) {
        struct search search = graph_search(&graph, &versions[v], 2);

        error = versions[v].create(&search);
        versions[v].destroy(&search);
    }
    graph_destroy(&graph);
    watching = false;
    return error;
}

/* How many of the array's whole pages are on the node. */
static size_t pages_on(const void *array, size_t bytes, int node, size_t *pages)
{
    size_t page = um_os_page_bytes(), count = 0;
    const char *first = (const char *)array + (page - (uintptr_t)array % page) % page;
    int *nodes;

    *pages = (size_t)((const char *)array + bytes - first) / page;
    nodes = calloc(*pages, sizeof(*nodes));
    cr_assert(nodes != NULL && *pages > 0);
    cr_assert_eq(um_os_page_nodes(first, *pages, nodes), 0);
    for (size_t i = 0; i < *pages; i++)
        count += nodes[i] == node;
    free(nodes);
    return count;
}

/* An array of 128 KiB or more has pages of its own. In tools/emulated. */
Test(bfs, the_graphs_of_a_part_are_on_the_node_of_its_members)
{
    static struct fixture fixture;
    struct umbra_topology *topology;
    unsigned cores, nodes;

    cr_assert_eq(umbra_topology_create(NULL, &topology), 0);
    cores = umbra_topology_info(topology)->cores;
    nodes = umbra_topology_info(topology)->nodes;
    if (nodes < 2 || cores % nodes != 0 || !umbra_topology_info(topology)->binds)
        cr_skip_test("this machine has one NUMA node, or cores that its nodes do not share alike");
    begin_at(&fixture, SCALE_OF_PAGES, cores, nodes);
    for (unsigned k = 0; k < nodes; k++) {
        const struct part *part = &fixture.graph.parts.part[k];
        struct umbra_core_info info;
        size_t pages, on;

        cr_assert_eq(umbra_core_info(fixture.runtime, k * (cores / nodes), &info), 0);
        on = pages_on(part->forward.row, (part->forward.vertices + 1) * sizeof(*part->forward.row),
                      umbra_topology_cpu_of(topology, info.cpu)->node, &pages);
        cr_expect(on >= pages - pages / 8, "part %u: %zu of %zu pages", k, on, pages);
    }
    end(&fixture);
    umbra_topology_destroy(topology);
}

Test(bfs, an_allocation_that_fails_leaves_nothing_behind)
{
    static struct fixture fixture;
    unsigned allocations = 0;
    int error;

    begin(&fixture, 1, 1);
    do {
        error = make_all(&fixture, allocations++);
        cr_assert(error == 0 || error == -ENOMEM);
        cr_assert_eq(live_count(), 0);
    } while (error);
    cr_assert_gt(allocations, 40);
    end(&fixture);
}
