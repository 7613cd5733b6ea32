/* SPDX-License-Identifier: BSL-1.0 */
/* See adaptive.h. */
#include "adaptive.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LINE 8     /* doubles in a cache line */
#define SUBSTEPS 4 /* half the distance at the same rate: a quarter of the time */
#define HALO 4     /* fine nodes that as many steps see */

/* A coarse node's value from the fine ones, of which that is the first. */
double body_mean_of_8(const struct body *body, const double *now, size_t x, size_t y, size_t z)
{
    const double *u = now + body_at(body, x, y, z);
    const double *v = u + body->plane;
    size_t row = body->row;

    return 0.125 *
           (((u[0] + u[1]) + (u[row] + u[row + 1])) + ((v[0] + v[1]) + (v[row] + v[row + 1])));
}

static size_t extent(const struct box *box, int d)
{
    return box->end[d] - box->first[d];
}

static size_t block_at(const struct adaptive *adaptive, size_t x, size_t y, size_t z)
{
    const struct blocks *blocks = &adaptive->blocks;

    return x / blocks->edge[X] +
           blocks->count[X] * (y / blocks->edge[Y] + blocks->count[Y] * (z / blocks->edge[Z]));
}

/* ---- memory ---- */

int adaptive_create(struct adaptive *adaptive, const size_t nodes[3], const size_t edge[3],
                    double bound)
{
    size_t half[3];
    int error = body_create(&adaptive->coarse, nodes);

    if (error)
        return error;
    adaptive->bound = bound;
    adaptive->blocks = blocks_of(&adaptive->coarse, edge);
    for (int d = X; d <= Z; d++) /* an odd one is alone in its direction */
        half[d] = (adaptive->blocks.edge[d] + 1) / 2;
    adaptive->pieces = blocks_of(&adaptive->coarse, half);
    adaptive->fine = calloc(adaptive->blocks.all, sizeof(*adaptive->fine));
    if (!adaptive->fine) {
        body_destroy(&adaptive->coarse);
        return -ENOMEM;
    }
    return 0;
}

void adaptive_destroy(struct adaptive *adaptive)
{
    for (size_t number = 0; number < adaptive->blocks.all; number++) {
        free(adaptive->fine[number].now[0]);
        free(adaptive->fine[number].now[1]);
    }
    free(adaptive->fine);
    body_destroy(&adaptive->coarse);
}

static size_t fine_nodes(const struct box *block)
{
    return 8 * extent(block, X) * extent(block, Y) * extent(block, Z);
}

/* Nodes of the block at a face that looks that way. */
static size_t face_nodes(const struct box *block, int direction)
{
    return extent(block, (direction + 1) % 3) * extent(block, (direction + 2) % 3);
}

/* Where what left by a face in the last step is, a number a coarse node: behind the fine nodes. */
static size_t face_offset(const struct box *block, int direction, int side)
{
    size_t offset = fine_nodes(block);

    for (int d = X; d < direction; d++)
        offset += 2 * face_nodes(block, d);
    return direction <= Z ? offset + (size_t)side * face_nodes(block, direction) : offset;
}

/* Makes room for a block's fine nodes, if there is none, or gives it back. 0 or -ENOMEM. */
static int keep_fine(double **now, const struct box *block, bool wanted)
{
    if (!wanted) {
        free(*now);
        *now = NULL;
    } else if (!*now) {
        *now = malloc(face_offset(block, Z + 1, 0) * sizeof(double));
    }
    return wanted && !*now ? -ENOMEM : 0;
}

/* ---- blocks ---- */

/* Nodes of a row where the slope, over two nodes and squared, is so large; without branches. */
static int64_t row_steep(const double *restrict u, size_t row, size_t plane, size_t nodes,
                         double bound)
{
    const double *left = u - 1, *before = u - row, *below = u - plane;
    int64_t count = 0;

    for (size_t x = 0; x < nodes; x++) {
        double dx = u[x + 1] - left[x], dy = u[x + row] - before[x], dz = u[x + plane] - below[x];

        count += dx * dx + dy * dy + dz * dz >= bound;
    }
    return count;
}

/* Whether the temperature changes by so much from one node to the next, somewhere. */
static bool box_steep(const struct body *body, const double *now, const struct box *box,
                      double bound)
{
    for (size_t z = box->first[Z]; z < box->end[Z]; z++)
        for (size_t y = box->first[Y]; y < box->end[Y]; y++)
            if (row_steep(now + body_at(body, box->first[X], y, z), body->row, body->plane,
                          extent(box, X), 4 * bound * bound) > 0)
                return true;
    return false;
}

/* The pieces of a block, row by row in x. */
static int rows_of(const struct adaptive *adaptive, const struct box *block, struct row rows[4])
{
    const struct blocks *pieces = &adaptive->pieces;
    size_t first[3], end[3];
    int count = 0;

    for (int d = X; d <= Z; d++) {
        first[d] = block->first[d] / pieces->edge[d];
        end[d] = (block->end[d] - 1) / pieces->edge[d] + 1;
    }
    for (size_t z = first[Z]; z < end[Z]; z++)
        for (size_t y = first[Y]; y < end[Y]; y++) {
            size_t row = pieces->count[X] * (y + pieces->count[Y] * z);

            rows[count++] = (struct row){row + first[X], row + end[X]};
        }
    return count;
}

int adaptive_block(struct adaptive *adaptive, size_t step, size_t number, struct row rows[4],
                   int *count)
{
    struct fine *fine = &adaptive->fine[number];
    struct box block = blocks_box(&adaptive->blocks, number);
    double bound = fine->now[step % 2] ? adaptive->bound / 2 : adaptive->bound;
    bool wanted = box_steep(&adaptive->coarse, body_after(&adaptive->coarse, step), &block, bound);

    *count = wanted ? rows_of(adaptive, &block, rows) : 0;
    if (!wanted)
        body_sweep_block(&adaptive->coarse, &adaptive->blocks, step, number);
    return keep_fine(&fine->now[(step + 1) % 2], &block, wanted);
}

/* ---- pieces ---- */

/* A piece and a halo around it, in a worker's memory: its body's node 0 is the halo's first. */
struct view {
    struct body body;
    struct box piece, block; /* in coarse nodes */
    size_t number;           /* of the block */
};

static size_t whole_lines(size_t doubles)
{
    return (doubles + LINE - 1) / LINE * LINE;
}

size_t adaptive_scratch_bytes(const struct adaptive *adaptive)
{
    const size_t *edge = adaptive->pieces.edge;

    return 2 * sizeof(double) * whole_lines(2 * edge[X] + 2 * HALO) * (2 * edge[Y] + 2 * HALO) *
           (2 * edge[Z] + 2 * HALO);
}

static struct view view_of(const struct adaptive *adaptive, size_t number, double *scratch)
{
    struct view view = {.piece = blocks_box(&adaptive->pieces, number),
                        .body = {.rate = adaptive->coarse.rate}};

    for (int d = X; d <= Z; d++)
        view.body.nodes[d] = 2 * extent(&view.piece, d) + 2 * HALO;
    view.body.row = whole_lines(view.body.nodes[X]);
    view.body.plane = view.body.row * view.body.nodes[Y];
    view.body.array[0] = scratch;
    view.body.array[1] = scratch + view.body.plane * view.body.nodes[Z];
    view.number = block_at(adaptive, view.piece.first[X], view.piece.first[Y], view.piece.first[Z]);
    view.block = blocks_box(&adaptive->blocks, view.number);
    return view;
}

/* The fine node that is seen there, in a mirror if it is outside; nodes: coarse ones. */
static size_t seen(ptrdiff_t at, size_t nodes)
{
    ptrdiff_t all = 2 * (ptrdiff_t)nodes;

    while (at < 0 || at >= all)
        at = at < 0 ? -1 - at : 2 * all - 1 - at;
    return (size_t)at;
}

/* A fourth of the way to the next node, in each direction, by the slope between both neighbours. */
static double interpolated(const struct body *body, const double *u, size_t x, size_t y, size_t z)
{
    double dx = u[1] - *(u - 1), dy = u[body->row] - *(u - body->row);
    double dz = u[body->plane] - *(u - body->plane);

    return *u + 0.125 * ((x % 2 ? dx : -dx) + (y % 2 ? dy : -dy) + (z % 2 ? dz : -dz));
}

/* The row of a block's fine nodes as they are before the step; NULL: it is coarse. */
static const double *fine_row(const struct adaptive *adaptive, size_t step, size_t number,
                              const struct box *block, size_t y, size_t z)
{
    const double *fine = adaptive->fine[number].now[step % 2];

    return fine ? fine + 2 * extent(block, X) *
                             (y - 2 * block->first[Y] +
                              2 * extent(block, Y) * (z - 2 * block->first[Z]))
                : NULL;
}

/* As many nodes from `at` on as are straight ahead and in the block; one in a mirror. */
static size_t run_of(ptrdiff_t at, size_t x, const struct box *block, size_t most)
{
    size_t here = 2 * block->end[X] - x;

    if (at != (ptrdiff_t)x)
        return 1;
    return here < most ? here : most;
}

/* Fine nodes as they are before the step, in x from `from` on. */
static void gather_row(const struct adaptive *adaptive, size_t step, ptrdiff_t from, size_t y,
                       size_t z, double *to, size_t nodes)
{
    const struct body *coarse = &adaptive->coarse;
    const double *line = body_after(coarse, step) + body_at(coarse, 0, y / 2, z / 2);

    for (size_t i = 0, run; i < nodes; i += run) {
        ptrdiff_t at = from + (ptrdiff_t)i;
        size_t x = seen(at, coarse->nodes[X]), number = block_at(adaptive, x / 2, y / 2, z / 2);
        struct box block = blocks_box(&adaptive->blocks, number);
        const double *fine = fine_row(adaptive, step, number, &block, y, z);

        run = run_of(at, x, &block, nodes - i);
        if (fine)
            memcpy(to + i, fine + (x - 2 * block.first[X]), run * sizeof(*to));
        else
            for (size_t k = 0; k < run; k++)
                to[i + k] = interpolated(coarse, line + (x + k) / 2, x + k, y, z);
    }
}

static void gather(const struct adaptive *adaptive, size_t step, const struct view *view)
{
    const struct body *body = &view->body;
    const size_t *nodes = adaptive->coarse.nodes;
    ptrdiff_t from[3];

    for (int d = X; d <= Z; d++)
        from[d] = 2 * (ptrdiff_t)view->piece.first[d] - HALO;
    for (size_t z = 0; z < body->nodes[Z]; z++)
        for (size_t y = 0; y < body->nodes[Y]; y++)
            gather_row(adaptive, step, from[X], seen(from[Y] + (ptrdiff_t)y, nodes[Y]),
                       seen(from[Z] + (ptrdiff_t)z, nodes[Z]),
                       body->array[0] + body_at(body, 0, y, z), body->nodes[X]);
}

/* Adds what leaves a piece by a face of its block, each difference once for a fine step. */
static void add_leaving(const struct view *view, const double *now, double *face, int direction,
                        int side, bool first)
{
    const size_t stride[3] = {1, view->body.row, view->body.plane};
    int a = (direction + 1) % 3, b = (direction + 2) % 3;
    size_t across = stride[direction], last = view->body.nodes[direction] - HALO - 1;
    const double *inside = now + HALO * (stride[a] + stride[b]) + across * (side ? last : HALO);
    const double *outside = side ? inside + across : inside - across;

    for (size_t j = 0; j < extent(&view->piece, b); j++)
        for (size_t i = 0; i < extent(&view->piece, a); i++) {
            size_t n = 2 * (i * stride[a] + j * stride[b]);
            size_t na = n + stride[a], nb = n + stride[b], nab = na + stride[b];
            double leaves = (inside[n] - outside[n]) + (inside[na] - outside[na]) +
                            (inside[nb] - outside[nb]) + (inside[nab] - outside[nab]);
            double *sum =
                face + (view->piece.first[a] - view->block.first[a] + i) +
                (view->piece.first[b] - view->block.first[b] + j) * extent(&view->block, a);

            *sum = first ? leaves : *sum + leaves;
        }
}

static void note_leaving(const struct view *view, const double *now, double *fine, bool first)
{
    for (int d = X; d <= Z; d++) {
        if (view->piece.first[d] == view->block.first[d])
            add_leaving(view, now, fine + face_offset(&view->block, d, 0), d, 0, first);
        if (view->piece.end[d] == view->block.end[d])
            add_leaving(view, now, fine + face_offset(&view->block, d, 1), d, 1, first);
    }
}

/* What is still right of the halo shrinks by a node at each step. */
static void sweep_view(const struct view *view, double *fine)
{
    for (size_t s = 0; s < SUBSTEPS; s++) {
        const double *now = body_after(&view->body, s);
        struct box box;

        for (int d = X; d <= Z; d++) {
            box.first[d] = s + 1;
            box.end[d] = view->body.nodes[d] - s - 1;
        }
        note_leaving(view, now, fine, s == 0);
        body_sweep(&view->body, now, body_after(&view->body, s + 1), &box);
    }
}

/* The piece to where its block keeps it, and the means to the coarse body. */
static void scatter(const struct adaptive *adaptive, size_t step, const struct view *view,
                    double *fine)
{
    const struct body *body = &view->body, *coarse = &adaptive->coarse;
    const double *now = body_after(body, SUBSTEPS) + body_at(body, HALO, HALO, HALO);
    double *to = body_after(coarse, step + 1);
    size_t row = 2 * extent(&view->block, X), plane = row * 2 * extent(&view->block, Y);

    for (int d = X; d <= Z; d++)
        fine += 2 * (view->piece.first[d] - view->block.first[d]) *
                (d == X   ? 1
                 : d == Y ? row
                          : plane);
    for (size_t z = 0; z < 2 * extent(&view->piece, Z); z++)
        for (size_t y = 0; y < 2 * extent(&view->piece, Y); y++)
            memcpy(fine + y * row + z * plane, now + body_at(body, 0, y, z),
                   2 * extent(&view->piece, X) * sizeof(*fine));
    for (size_t z = view->piece.first[Z]; z < view->piece.end[Z]; z++)
        for (size_t y = view->piece.first[Y]; y < view->piece.end[Y]; y++)
            for (size_t x = view->piece.first[X]; x < view->piece.end[X]; x++)
                to[body_at(coarse, x, y, z)] =
                    body_mean_of_8(body, now, 2 * (x - view->piece.first[X]),
                                   2 * (y - view->piece.first[Y]), 2 * (z - view->piece.first[Z]));
}

void adaptive_piece(struct adaptive *adaptive, size_t step, size_t number, void *scratch)
{
    struct view view = view_of(adaptive, number, scratch);
    double *fine = adaptive->fine[view.number].now[(step + 1) % 2];

    gather(adaptive, step, &view);
    sweep_view(&view, fine);
    scatter(adaptive, step, &view, fine);
}

/* ---- between coarse and fine blocks ---- */

/* A coarse block's face to a fine neighbour: what that one says, not what the sweep assumed. */
static void mend_face(const struct adaptive *adaptive, size_t step, const struct box *block,
                      size_t neighbour, int direction, int side)
{
    const struct body *coarse = &adaptive->coarse;
    const size_t stride[3] = {1, coarse->row, coarse->plane};
    int a = (direction + 1) % 3, b = (direction + 2) % 3;
    struct box other = blocks_box(&adaptive->blocks, neighbour);
    const double *leaves =
        adaptive->fine[neighbour].now[(step + 1) % 2] + face_offset(&other, direction, 1 - side);
    size_t across = stride[direction];
    size_t at = (side ? block->end[direction] - 1 : block->first[direction]) * across +
                block->first[a] * stride[a] + block->first[b] * stride[b];
    const double *from = body_after(coarse, step) + at;
    const double *beyond = side ? from + across : from - across;
    double *to = body_after(coarse, step + 1) + at;

    for (size_t j = 0; j < extent(block, b); j++)
        for (size_t i = 0; i < extent(block, a); i++) {
            size_t n = i * stride[a] + j * stride[b];

            to[n] += coarse->rate * (leaves[i + j * extent(block, a)] / 8 - (beyond[n] - from[n]));
        }
}

void adaptive_mend(struct adaptive *adaptive, size_t step, size_t number)
{
    const struct blocks *blocks = &adaptive->blocks;
    const size_t stride[3] = {1, blocks->count[X], blocks->count[X] * blocks->count[Y]};
    struct box block = blocks_box(blocks, number);
    size_t next = (step + 1) % 2;

    for (int d = X; d <= Z && !adaptive->fine[number].now[next]; d++) {
        if (block.first[d] > 0 && adaptive->fine[number - stride[d]].now[next])
            mend_face(adaptive, step, &block, number - stride[d], d, 0);
        if (block.end[d] < blocks->nodes[d] && adaptive->fine[number + stride[d]].now[next])
            mend_face(adaptive, step, &block, number + stride[d], d, 1);
    }
    body_mirror(&adaptive->coarse, body_after(&adaptive->coarse, step + 1), &block);
}

static void mirror_face(const struct body *body, double *now, const struct box *box, int direction,
                        int side)
{
    const size_t stride[3] = {1, body->row, body->plane};
    int a = (direction + 1) % 3, b = (direction + 2) % 3;
    double *inside = now + (side ? box->end[direction] - 1 : 0) * stride[direction];
    double *outside = side ? inside + stride[direction] : inside - stride[direction];

    for (size_t j = box->first[b]; j < box->end[b]; j++)
        for (size_t i = box->first[a]; i < box->end[a]; i++)
            outside[i * stride[a] + j * stride[b]] = inside[i * stride[a] + j * stride[b]];
}

void body_mirror(const struct body *body, double *now, const struct box *box)
{
    for (int d = X; d <= Z; d++) {
        if (box->first[d] == 0)
            mirror_face(body, now, box, d, 0);
        if (box->end[d] == body->nodes[d])
            mirror_face(body, now, box, d, 1);
    }
}

/* ---- to begin with, and at the end ---- */

static void heat_fine(const struct box *block, const struct spot *closer, double *fine)
{
    for (size_t z = 2 * block->first[Z]; z < 2 * block->end[Z]; z++)
        for (size_t y = 2 * block->first[Y]; y < 2 * block->end[Y]; y++)
            for (size_t x = 2 * block->first[X]; x < 2 * block->end[X]; x++)
                *fine++ = spot_at(closer, x, y, z);
}

static int heat_blocks(struct adaptive *adaptive, const struct spot *closer)
{
    const double *now = adaptive->coarse.array[0];

    for (size_t number = 0; number < adaptive->blocks.all; number++) {
        struct box block = blocks_box(&adaptive->blocks, number);
        double **fine = &adaptive->fine[number].now[0];
        bool wanted = box_steep(&adaptive->coarse, now, &block, adaptive->bound);
        int error = keep_fine(fine, &block, wanted);

        if (error)
            return error;
        if (wanted)
            heat_fine(&block, closer, *fine);
    }
    return 0;
}

int adaptive_heat_spot(struct adaptive *adaptive)
{
    struct body *coarse = &adaptive->coarse;
    struct spot spot, closer;
    int error = spot_create(&spot, coarse->nodes, 1, coarse->rate, 0);

    if (error)
        return error;
    body_heat_spot(coarse, &spot);
    spot_destroy(&spot);
    error = spot_create(&closer, coarse->nodes, 2, coarse->rate, 0);
    if (error)
        return error;
    error = heat_blocks(adaptive, &closer);
    spot_destroy(&closer);
    return error;
}

size_t adaptive_fine_blocks(const struct adaptive *adaptive, size_t steps)
{
    size_t count = 0;

    for (size_t number = 0; number < adaptive->blocks.all; number++)
        count += adaptive->fine[number].now[steps % 2] != NULL;
    return count;
}

static bool same_fine(const struct adaptive *a, const struct adaptive *b, size_t steps)
{
    for (size_t number = 0; number < a->blocks.all; number++) {
        struct box block = blocks_box(&a->blocks, number);
        const double *of_a = a->fine[number].now[steps % 2];
        const double *of_b = b->fine[number].now[steps % 2];

        if (!of_a != !of_b || (of_a && memcmp(of_a, of_b, fine_nodes(&block) * sizeof(*of_a)) != 0))
            return false;
    }
    return true;
}

bool adaptive_same(const struct adaptive *a, const struct adaptive *b, size_t steps)
{
    const struct body *body = &a->coarse;

    for (size_t z = 0; z < body->nodes[Z]; z++)
        for (size_t y = 0; y < body->nodes[Y]; y++)
            if (memcmp(body_after(body, steps) + body_at(body, 0, y, z),
                       body_after(&b->coarse, steps) + body_at(body, 0, y, z),
                       body->nodes[X] * sizeof(double)) != 0)
                return false;
    return same_fine(a, b, steps);
}
