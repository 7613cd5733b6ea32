/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A body that heat spreads through: a box of nodes, each a number, and a layer of nodes around it
 * that stay at zero. One step of time (Holmes et al. 2010, equation 6) makes of each node
 *
 *     next = u + rate * (the six neighbours - 6 u)
 *
 * and is done from one array into the other.
 */
#ifndef HEAT_BODY_H
#define HEAT_BODY_H

#include <stddef.h>

enum { X, Y, Z };

/* Nodes from first to end - 1 in each direction; (0, 0, 0) is the first inside. */
struct box {
    size_t first[3], end[3];
};

#define BODY_RATE 0.125

struct body {
    size_t nodes[3];
    size_t first, planes; /* in z: which of how many planes these are, of a body in parts */
    size_t row, plane;    /* doubles from a node to its neighbour in y, in z */
    double rate;          /* k dt / dx^2; at most 1/6 is stable */
    double *array[2]; /* node (0, 0, 0) of each; what is in the other is overwritten by a step */
    void *memory;
};

static inline size_t body_at(const struct body *body, size_t x, size_t y, size_t z)
{
    return x + y * body->row + z * body->plane;
}

/* Where temperatures are after so many steps. */
static inline double *body_after(const struct body *body, size_t step)
{
    return body->array[step % 2];
}

/* All nodes zero. 0, or -ENOMEM: before anything has been touched. */
int body_create(struct body *body, const size_t nodes[3]);

/* The same of some planes of a body: the layers below and above them belong to its other parts. */
int body_create_part(struct body *body, const size_t nodes[3], size_t first, size_t end);

size_t body_bytes(const struct body *body);
void body_destroy(struct body *body);
struct box body_box(const struct body *body);

/* sin(pi x) sin(pi y) sin(pi z), which every step makes smaller by the same factor. */
void body_heat(struct body *body);

/* The largest difference to what body_heat() must be after so many steps. */
double body_error(const struct body *body, size_t steps);

/* Nodes of a box, one step on. */
typedef void body_sweep_fn(const struct body *body, const double *from, double *to,
                           const struct box *box);
extern body_sweep_fn *body_sweep; /* the best of those compiled; set before main */

/* ---- blocks: the body's nodes dealt out in boxes ---- */

struct blocks {
    size_t nodes[3]; /* of the body */
    size_t edge[3];  /* of a block; the last in each direction may be smaller */
    size_t count[3], all;
};

struct blocks blocks_of(const struct body *body, const size_t edge[3]);

/* Which block a number is: x counts fastest, then y. */
static inline void blocks_at(const struct blocks *blocks, size_t number, size_t at[3])
{
    for (int d = X; d <= Z; d++) {
        at[d] = number % blocks->count[d];
        number /= blocks->count[d];
    }
}

static inline void blocks_side(const struct blocks *blocks, int d, size_t at, struct box *box)
{
    size_t end = (at + 1) * blocks->edge[d];

    box->first[d] = at * blocks->edge[d];
    box->end[d] = end < blocks->nodes[d] ? end : blocks->nodes[d];
}

/* Not as a result: gcc copies that two numbers at a time, and such a load waits for the stores of single
 * ones. A block of 64 nodes feels that, and a loop over the sides a little, too. */
static inline void blocks_box_at(const struct blocks *blocks, const size_t at[3], struct box *box)
{
    blocks_side(blocks, X, at[X], box);
    blocks_side(blocks, Y, at[Y], box);
    blocks_side(blocks, Z, at[Z], box);
}

static inline struct box blocks_box(const struct blocks *blocks, size_t number)
{
    struct box box;
    size_t at[3];

    blocks_at(blocks, number, at);
    blocks_box_at(blocks, at, &box);
    return box;
}

/* A block, from what it is after `step` steps to one more. */
static inline void body_sweep_at(const struct body *body, const struct blocks *blocks, size_t step,
                                 const size_t at[3])
{
    struct box box;

    blocks_box_at(blocks, at, &box);
    body_sweep(body, body_after(body, step), body_after(body, step + 1), &box);
}

static inline void body_sweep_block(const struct body *body, const struct blocks *blocks,
                                    size_t step, size_t number)
{
    size_t at[3];

    blocks_at(blocks, number, at);
    body_sweep_at(body, blocks, step, at);
}

/* Some blocks that follow one another, of those in a box of blocks. */
static inline void body_sweep_some(const struct body *body, const struct blocks *blocks,
                                   size_t step, const struct box *box, size_t at[3], size_t some)
{
    for (; some > 0; some--) {
        body_sweep_at(body, blocks, step, at);
        for (int d = X; ++at[d] == box->end[d] && d < Z; d++)
            at[d] = box->first[d];
    }
}

/* Blocks from one to before another. */
static inline void body_sweep_blocks(const struct body *body, const struct blocks *blocks,
                                     size_t step, size_t from, size_t end)
{
    struct box all = {{0, 0, 0}, {blocks->count[X], blocks->count[Y], blocks->count[Z]}};
    size_t at[3];

    blocks_at(blocks, from, at);
    body_sweep_some(body, blocks, step, &all, at, end - from);
}

#endif
