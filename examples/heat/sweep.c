/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The arithmetic of a step, compiled once for each level of the processor's instructions: SWEEP is
 * the function's name. body.c chooses.
 */
#include "body.h"

body_sweep_fn SWEEP;

/* Three planes of a box stay in a second-level cache; rows of all lengths, often short ones. */
void SWEEP(const struct body *body, const double *from, double *to, const struct box *box)
{
    size_t row = body->row, plane = body->plane, length = box->end[X] - box->first[X];
    double rate = body->rate, keep = 1 - 6 * rate;

    for (size_t z = box->first[Z]; z < box->end[Z]; z++)
        for (size_t y = box->first[Y]; y < box->end[Y]; y++) {
            const double *u = from + body_at(body, box->first[X], y, z);
            const double *left = u - 1, *right = u + 1;
            const double *before = u - row, *behind = u + row;
            const double *below = u - plane, *above = u + plane;
            double *restrict next = to + (u - from);

            for (size_t x = 0; x < length; x++)
                next[x] = keep * u[x] + rate * ((left[x] + right[x]) + (before[x] + behind[x]) +
                                                (below[x] + above[x]));
        }
}
