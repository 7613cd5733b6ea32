/* SPDX-License-Identifier: BSL-1.0 */
/* A normal distribution that becomes wider: see adaptive.h. */
#include "adaptive.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define WIDTH 2.0 /* its standard deviation to begin with, in coarse nodes */
#define SQRT_HALF 0.70710678118654752440
#define SQRT_HALF_PI 1.25331413731550025121
#define MIRRORED 3 /* bodies seen in a mirror's mirror, on each side */

static const double place[3] = {0.42, 0.5, 0.61}; /* of the body's length */

/* Of a distribution around `middle`, what is between two places. */
static double between(double from, double to, double middle, double deviation)
{
    return erf((to - middle) / deviation * SQRT_HALF) -
           erf((from - middle) / deviation * SQRT_HALF);
}

static double mean(double from, double to, double length, double part, double deviation)
{
    double sum = 0;

    for (int m = -MIRRORED; m <= MIRRORED; m++)
        sum += between(from, to, (2 * m + part) * length, deviation) +
               between(from, to, (2 * m - part) * length, deviation);
    return WIDTH * SQRT_HALF_PI * sum / (to - from);
}

int spot_create(struct spot *spot, const size_t coarse[3], size_t closer, double rate, size_t steps)
{
    double deviation = sqrt(WIDTH * WIDTH + 2 * rate * (double)steps);

    *spot = (struct spot){.factor = {NULL}};
    for (int d = X; d <= Z; d++) {
        size_t nodes = coarse[d] * closer;

        spot->factor[d] = malloc(nodes * sizeof(double));
        if (!spot->factor[d]) {
            spot_destroy(spot);
            return -ENOMEM;
        }
        for (size_t i = 0; i < nodes; i++)
            spot->factor[d][i] = mean((double)i / (double)closer, (double)(i + 1) / (double)closer,
                                      (double)coarse[d], place[d], deviation);
    }
    return 0;
}

void spot_destroy(struct spot *spot)
{
    for (int d = X; d <= Z; d++)
        free(spot->factor[d]);
}

void body_heat_spot(struct body *body, const struct spot *spot)
{
    struct box all = body_box(body);

    for (size_t z = 0; z < body->nodes[Z]; z++)
        for (size_t y = 0; y < body->nodes[Y]; y++)
            for (size_t x = 0; x < body->nodes[X]; x++)
                body->array[0][body_at(body, x, y, z)] = spot_at(spot, x, y, z);
    body_mirror(body, body->array[0], &all);
}
