/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The arithmetic of a step, compiled once for each level of the processor's instructions: SWEEP is
 * the function's name. body.c chooses.
 */
#include "body.h"

#define LINE 8       /* doubles in a cache line */
#define SHORT_ROW 64 /* doubles: the processor does not see soon enough where the next row begins */
#define FAR_ROWS 8   /* while so many are done, a line comes from a third-level cache */

body_sweep_fn SWEEP;

/* Three planes of a box stay in a second-level cache; rows of all lengths, often short ones. */
void SWEEP(const struct body *body, const double *from, double *to, const struct box *box)
{
    size_t row = body->row, plane = body->plane, length = box->end[X] - box->first[X];
    size_t rows = box->end[Y] - box->first[Y];
    size_t fetched = length <= SHORT_ROW ? length + LINE - 1 : 0;
    double rate = body->rate, keep = 1 - 6 * rate;

    for (size_t z = box->first[Z]; z < box->end[Z]; z++)
        for (size_t y = box->first[Y]; y < box->end[Y]; y++) {
            const double *u = from + body_at(body, box->first[X], y, z);
            const double *left = u - 1, *right = u + 1;
            const double *before = u - row, *behind = u + row;
            const double *below = u - plane, *above = u + plane;
            double *restrict next = to + (u - from);
            size_t ahead = FAR_ROWS * row; /* after the last row: in the next plane */

            if (y + FAR_ROWS >= box->end[Y])
                ahead += plane - rows * row;
            for (size_t x = 0; x < fetched; x += LINE) {
                __builtin_prefetch(above + ahead + x);
                __builtin_prefetch(next + ahead + x, 1);
            }
            for (size_t x = 0; x < length; x++)
                next[x] = keep * u[x] + rate * ((left[x] + right[x]) + (before[x] + behind[x]) +
                                                (below[x] + above[x]));
        }
}
