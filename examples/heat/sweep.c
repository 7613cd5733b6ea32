/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The arithmetic of a step, compiled once for each level of the processor's instructions: SWEEP is
 * the function's name. body.c chooses.
 *
 * Blocks are small and rows short, so what counts is what a row costs besides its nodes. Vectors are
 * written out: a compiler that finds them itself asks at each row whether the arrays overlap, and does
 * what is left over one by one. All nodes are reached from one pointer, by distances that stay the same.
 */
#include "body.h"

#define LINE 8       /* doubles in a cache line */
#define SHORT_ROW 64 /* doubles: the processor does not see soon enough where the next row begins */
#define FAR_ROWS 8   /* while so many are done, a line comes from a third-level cache */
#define FOUR 4

/* Nodes that follow one another, the first of them anywhere. */
typedef double four_nodes
    __attribute__((vector_size(FOUR * sizeof(double)), aligned(sizeof(double)), may_alias));

/* In doubles: from a node to those in the next row and plane, and to what it becomes. */
struct stencil {
    ptrdiff_t row, plane, next;
    double keep, rate;
};

body_sweep_fn SWEEP;

/* One node, or four, as the type says. */
#define AT(type, u, distance) (*(type *)((u) + (distance)))
#define SWEEP_NODES(type, u, s)                                                                    \
    (AT(type, u, (s)->next) =                                                                      \
         (s)->keep * AT(type, u, 0) +                                                              \
         (s)->rate * ((AT(type, u, -1) + AT(type, u, 1)) +                                         \
                      (AT(type, u, -(s)->row) + AT(type, u, (s)->row)) +                           \
                      (AT(type, u, -(s)->plane) + AT(type, u, (s)->plane))))

/* Functions, so that the place itself is what all distances are counted from. */
static inline void sweep_four(double *u, const struct stencil *s)
{
    SWEEP_NODES(four_nodes, u, s);
}

static inline void sweep_one(double *u, const struct stencil *s)
{
    SWEEP_NODES(double, u, s);
}

/* Three planes of a box stay in a second-level cache; rows of all lengths, often short ones. */
void SWEEP(const struct body *body, const double *from, double *to, const struct box *box)
{
    struct stencil s = {(ptrdiff_t)body->row, (ptrdiff_t)body->plane, to - from,
                        1 - 6 * body->rate, body->rate};
    size_t length = box->end[X] - box->first[X], rows = box->end[Y] - box->first[Y];
    size_t last = length < FOUR ? 0 : length - FOUR; /* of these four some may have been done */
    size_t fetched = length <= SHORT_ROW && rows > FAR_ROWS ? length + LINE - 1 : 0;

    for (size_t z = box->first[Z]; z < box->end[Z]; z++) {
        double *u = to - s.next + body_at(body, box->first[X], box->first[Y], z);
        double *end = u + rows * body->row;

        for (; u < end; u += body->row) {
            ptrdiff_t ahead = FAR_ROWS * s.row; /* after the last row: in the next plane */

            if (u + ahead >= end)
                ahead += s.plane - (ptrdiff_t)rows * s.row;
            for (size_t x = 0; x < fetched; x += LINE) {
                __builtin_prefetch(u + ahead + s.plane + x);
                __builtin_prefetch(u + ahead + s.next + x, 1);
            }
            if (length < LINE) { /* the next block in the row */
                __builtin_prefetch(u + s.plane + LINE);
                __builtin_prefetch(u + s.next + LINE, 1);
            }
            if (length >= FOUR) {
                for (size_t x = 0; x < last; x += FOUR)
                    sweep_four(u + x, &s);
                sweep_four(u + last, &s);
            } else {
                for (size_t x = 0; x < length; x++)
                    sweep_one(u + x, &s);
            }
        }
    }
}
