/* SPDX-License-Identifier: BSL-1.0 */
/* See body.h. */
#define _DEFAULT_SOURCE /* madvise */
#include "body.h"

#include "../huge_pages.h"
#include "../memory.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINE 8 /* doubles in a cache line */
#define PI 3.14159265358979323846

static size_t whole_lines(size_t doubles)
{
    return (doubles + LINE - 1) / LINE * LINE;
}

/* Doubles of one array with the layer around it. */
static size_t array_doubles(const struct body *body)
{
    return body->plane * (body->nodes[Z] + 2);
}

size_t body_bytes(const struct body *body)
{
    return 2 * sizeof(double) * array_doubles(body);
}

/* The first node of each row inside begins a cache line. */
int body_create_part(struct body *body, const size_t nodes[3], size_t first, size_t end)
{
    size_t inside;

    *body = (struct body){.nodes = {nodes[X], nodes[Y], end - first},
                          .first = first,
                          .planes = nodes[Z],
                          .rate = BODY_RATE};
    body->row = LINE + whole_lines(nodes[X] + 1);
    body->plane = body->row * (nodes[Y] + 2);
    inside = LINE + body->row + body->plane;
    if (memory_suffices(2.0 * sizeof(double) * (double)body->row * ((double)nodes[Y] + 2) *
                        ((double)body->nodes[Z] + 2)))
        body->memory = huge_pages_alloc(body_bytes(body));
    if (!body->memory)
        return -ENOMEM;
    memset(body->memory, 0, body_bytes(body));
    body->array[0] = (double *)body->memory + inside;
    body->array[1] = body->array[0] + array_doubles(body);
    return 0;
}

int body_create(struct body *body, const size_t nodes[3])
{
    return body_create_part(body, nodes, 0, nodes[Z]);
}

void body_destroy(struct body *body)
{
    free(body->memory);
}

struct box body_box(const struct body *body)
{
    return (struct box){.end = {body->nodes[X], body->nodes[Y], body->nodes[Z]}};
}

/* ---- the mode that decays ---- */

static double half_wave(size_t at, size_t nodes)
{
    return sin(PI * ((double)at + 1) / ((double)nodes + 1));
}

static double mode(const struct body *body, size_t x, size_t y, size_t z)
{
    return half_wave(x, body->nodes[X]) * half_wave(y, body->nodes[Y]) *
           half_wave(z + body->first, body->planes);
}

void body_heat(struct body *body)
{
    for (size_t z = 0; z < body->nodes[Z]; z++)
        for (size_t y = 0; y < body->nodes[Y]; y++)
            for (size_t x = 0; x < body->nodes[X]; x++)
                body->array[0][body_at(body, x, y, z)] = mode(body, x, y, z);
}

/* What a step multiplies the mode by: sin(a - h) + sin(a + h) = 2 cos(h) sin(a), thrice. */
static double decay(const struct body *body)
{
    const size_t nodes[3] = {body->nodes[X], body->nodes[Y], body->planes};
    double sum = 0;

    for (int d = X; d <= Z; d++)
        sum += cos(PI / ((double)nodes[d] + 1)) - 1;
    return 1 + 2 * body->rate * sum;
}

double body_error(const struct body *body, size_t steps)
{
    const double *now = body_after(body, steps);
    double left = pow(decay(body), (double)steps), worst = 0;

    for (size_t z = 0; z < body->nodes[Z]; z++)
        for (size_t y = 0; y < body->nodes[Y]; y++)
            for (size_t x = 0; x < body->nodes[X]; x++) {
                double error = fabs(now[body_at(body, x, y, z)] - left * mode(body, x, y, z));

                if (isnan(error))
                    return INFINITY;
                worst = fmax(worst, error);
            }
    return worst;
}

/* ---- blocks ---- */

struct blocks blocks_of(const struct body *body, const size_t edge[3])
{
    struct blocks blocks = {.all = 1};

    for (int d = X; d <= Z; d++) {
        blocks.nodes[d] = body->nodes[d];
        blocks.edge[d] = edge[d] < body->nodes[d] ? edge[d] : body->nodes[d];
        blocks.count[d] = (body->nodes[d] + blocks.edge[d] - 1) / blocks.edge[d];
        blocks.all *= blocks.count[d];
    }
    return blocks;
}

/* ---- arithmetic: the best of those compiled that this processor can execute ---- */

body_sweep_fn body_sweep_baseline;
#ifdef __x86_64__
body_sweep_fn body_sweep_avx2;
#endif

body_sweep_fn *body_sweep = body_sweep_baseline;

__attribute__((constructor)) static void choose_body_sweep(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        body_sweep = body_sweep_avx2;
#endif
}
