/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A body that is looked at more closely where its temperature changes steeply: blocks with a slope
 * from a bound on, somewhere, are swept with half the distance between nodes, and so four times, a
 * quarter of the time each; the coarse body gets the means.
 *
 * A node is the mean of a small cube. Nothing leaves through the body's faces: what is beyond them
 * is what is in front of them, as in a mirror.
 *
 *     adaptive_block()  decides about a block, and sweeps it if it is to be coarse
 *     adaptive_piece()  sweeps a piece, at most an eighth, of one that is to be fine: from the fine
 *                       nodes there are, and finely interpolated coarse ones, on it and two coarse
 *                       nodes around it, which is as far as four fine steps see
 *     adaptive_mend()   when all of these are done: a coarse block loses to a fine one what that one
 *                       got from it, so that no heat is lost or made (Berger and Colella, 1989)
 *
 * Each of these reads what the body was before the step, and writes what belongs to its block or
 * piece alone; so neither their order nor who executes them changes a bit of the result.
 */
#ifndef HEAT_ADAPTIVE_H
#define HEAT_ADAPTIVE_H

#include "body.h"

#include <stdbool.h>

/* What a block is made of: 8 nodes for each coarse one, x fastest, and what leaves by its faces. */
struct fine {
    double *now[2]; /* as body.array; NULL: the block is coarse */
};

struct adaptive {
    struct body coarse;   /* with the means of the blocks that are fine */
    struct blocks blocks; /* of the coarse nodes */
    struct blocks pieces; /* the same, with half their edge */
    double bound;         /* a block is fine from here on, and until it is below a half */
    struct fine *fine;    /* one a block */
};

/* Numbers of pieces, from begin to end - 1. */
struct row {
    size_t begin, end;
};

/* edge: even. 0 or -ENOMEM. */
int adaptive_create(struct adaptive *adaptive, const size_t nodes[3], const size_t edge[3],
                    double bound);
void adaptive_destroy(struct adaptive *adaptive);

/* 0, or -ENOMEM; if it is to be fine, the pieces in its rows (how many it has) are to be swept. */
int adaptive_block(struct adaptive *adaptive, size_t step, size_t number, struct row rows[4],
                   int *count);

/* scratch: adaptive_scratch_bytes(), in whole cache lines. */
void adaptive_piece(struct adaptive *adaptive, size_t step, size_t number, void *scratch);
size_t adaptive_scratch_bytes(const struct adaptive *adaptive);

void adaptive_mend(struct adaptive *adaptive, size_t step, size_t number);

/* Blocks that are fine after so many steps. */
size_t adaptive_fine_blocks(const struct adaptive *adaptive, size_t steps);

/* Whether two that were created alike are alike, bit for bit, after so many steps. */
bool adaptive_same(const struct adaptive *a, const struct adaptive *b, size_t steps);

/* The layer around the body, where the box touches it. */
void body_mirror(const struct body *body, double *now, const struct box *box);

/* The mean of a small cube of 8 nodes, of which (x, y, z) is the first. */
double body_mean_of_8(const struct body *body, const double *now, size_t x, size_t y, size_t z);

/* ---- a hot spot that spreads ---- */

/*
 * The means over the cubes of a body `closer` times as fine as one of coarse[] nodes, after so many
 * of the coarse body's steps, as the mathematics has it: a product of a factor for each direction.
 */
struct spot {
    double *factor[3];
};

int spot_create(struct spot *spot, const size_t coarse[3], size_t closer, double rate,
                size_t steps);
void spot_destroy(struct spot *spot);

static inline double spot_at(const struct spot *spot, size_t x, size_t y, size_t z)
{
    return spot->factor[X][x] * spot->factor[Y][y] * spot->factor[Z][z];
}

void body_heat_spot(struct body *body, const struct spot *spot);

/* Both levels; blocks that are steep are fine. 0 or -ENOMEM. */
int adaptive_heat_spot(struct adaptive *adaptive);

#endif
