/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The Graph500 specification's five rules of a correct result, checked on the list of edges, with code
 * that shares nothing with the searches.
 */
#ifndef BFS_VALIDATE_H
#define BFS_VALIDATE_H

#include <stdint.h>

#include "crew.h"
#include "edges.h"

enum rule {
    RULES_KEPT,
    RULE_TREE,   /* 1: the parents are a tree, with no cycle */
    RULE_LEVELS, /* 2: an edge of the tree leads from one level to the next */
    RULE_NEAR,   /* 3: the levels of an edge's ends differ by one at most, or neither end is in the
                          tree */
    RULE_COMPONENT, /* 4: the tree has all vertices of a connected component */
    RULE_EDGES      /* 5: a vertex and its parent are joined by an edge of the list */
};

/* What a rule asks for, in words. */
const char *rule_text(enum rule rule);

struct validation {
    struct crew *crew;
    const struct edges *edges;
    uint32_t *level; /* of each vertex; NO_VERTEX: not in the tree */
    uint8_t *joined; /* 1: to its parent, by an edge of the list */
};

/* 0 or -ENOMEM, with nothing left behind. */
int validation_create(struct validation *validation, struct crew *crew, const struct edges *edges);
void validation_destroy(struct validation *validation);

/*
 * Levels from parents, by rule 1; or the other four rules, of parents and levels. *broken becomes the
 * first rule that is broken, and *vertex a vertex where it is, or RULES_KEPT. 0 or a negative errno. A
 * thread that is no core; blocks it.
 */
int validate_tree(struct validation *validation, uint32_t root, const uint32_t *parent,
                  enum rule *broken, uint32_t *vertex);
int validate_levels(struct validation *validation, uint32_t root, const uint32_t *parent,
                    enum rule *broken, uint32_t *vertex);

#endif
