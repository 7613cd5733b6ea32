/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The small tasks of the kernel fine-grained. They are compiled once, and that object is linked into
 * the kernel and into every child process, so that all contenders run the same instructions. Two
 * equal tasks make a pair; they read the same input and write to a side each. C and C++.
 */
#ifndef UMBRA_BENCH_FINE_TASKS_H
#define UMBRA_BENCH_FINE_TASKS_H

#include <stddef.h>
#include <stdint.h>

#define FINE_ALIGN 128 /* two lines: some processors fetch them in pairs */

#ifdef __cplusplus
extern "C" {
#endif

/* An undirected graph: the neighbours of v are to[from[v]] up to to[from[v + 1]], ascending. */
struct fine_graph {
    uint32_t vertices;
    uint32_t *from;
    uint32_t *to;
};

/* Where the memory of a pair comes from: at the same addresses in every process, if they are free. */
struct fine_arena {
    char *begin, *next, *end;
};

/* What a task reads; its kind says which of these. Nobody writes it while tasks run. */
struct fine_input {
    uint32_t count; /* elements of a dot product, vertices of a graph, records of a text */
    double *x, *y;
    struct fine_graph graph;
    uint64_t *share; /* of its rank, that a vertex gives each neighbour; in units of 2^-40 */
    char *text;
    struct fine_arena arena;
};

/* One task of a pair. The thread that runs it writes; the forker reads when it has joined it. */
struct fine_side {
    const struct fine_input *input;
    uint32_t *words;    /* room for 2 * count numbers */
    const void *home;   /* fine_here() in the forking thread */
    uint64_t runs;      /* how often it was run */
    uint64_t elsewhere; /* how often not in the forking thread */
    uint64_t sum;       /* of the results, modulo 2^64 */
} __attribute__((aligned(FINE_ALIGN)));

/* side: a struct fine_side. */
typedef void fine_fn(void *side);

/* Two vectors multiplied; they hold small whole numbers, so that the order does not matter. */
fine_fn fine_dot;
/* Breadth first from vertex 0; the result is the sum of v + 1 times the depth of v + 1, or 0. */
fine_fn fine_bfs;
/* One step of PageRank by pulling, in fixed point; the result is the sum of v + 1 times its rank. */
fine_fn fine_pagerank;
/* Triangles, by intersecting lists of neighbours. */
fine_fn fine_triangles;
/* Connected components by union and find; the sum of v + 1 times the least vertex of v's. */
fine_fn fine_components;
/* JSON taken apart: numbers are added, other values and names counted with weights. */
fine_fn fine_parse;

/* The result of fine_parse is the sum of the numbers and of one of these for every other part. */
enum fine_weight {
    FINE_OBJECT = 1 << 20,
    FINE_ARRAY = 1 << 22,
    FINE_STRING = 1 << 24,
    FINE_LITERAL = 1 << 26,
    FINE_CHARACTER = 1 << 10 /* of a string */
};

/* Tells the calling thread from others. */
const void *fine_here(void);

#ifdef __cplusplus
}
#endif

#endif
