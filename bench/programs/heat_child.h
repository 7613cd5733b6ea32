/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the child processes of the kernel heat have in common: the body, what it is heated to, and the
 * check of what became of it, by mathematics that shares nothing with examples/heat. Each child has
 * its own runtime and runs the ways of examples/heat in it. C and C++.
 */
#ifndef UMBRA_BENCH_HEAT_CHILD_H
#define UMBRA_BENCH_HEAT_CHILD_H

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <sys/mman.h>
#include <unistd.h>

#include "child_channel.h"
#include "heat_case.h"

#ifdef __cplusplus
extern "C" {
#endif
#include <size.h>
#include <variants.h>
#ifdef __cplusplus
}
#endif

#define HEAT_WARM 2 /* steps before those that are timed; even, so that all begin in array 0 */
#define HEAT_ERROR_MOST 1e-12

struct heat_child {
    struct body body;
    double *wave[3]; /* the mode is their product */
    double keeps;    /* what a step leaves of it */
};

/* Half a wave over all nodes of the body in one direction; `first` is the first that is here. */
static inline double *heat_child_wave(size_t first, size_t count, size_t all)
{
    const double pi = 3.14159265358979323846;
    double *wave = (double *)malloc(count * sizeof(*wave));

    for (size_t i = 0; wave != NULL && i < count; i++)
        wave[i] = sin(pi * (double)(first + i + 1) / (double)(all + 1));
    return wave;
}

/* A body that exists. 0 or -ENOMEM. */
static inline int heat_child_begin(struct heat_child *child)
{
    const struct body *body = &child->body;
    const size_t all[3] = {body->nodes[X], body->nodes[Y], body->planes};
    double lost = 0;

    for (int d = X; d <= Z; d++) {
        double half = 3.14159265358979323846 / (2 * ((double)all[d] + 1));

        child->wave[d] = heat_child_wave(d == Z ? body->first : 0, body->nodes[d], all[d]);
        if (child->wave[d] == NULL)
            return -ENOMEM;
        lost += sin(half) * sin(half);
    }
    child->keeps = 1 - 4 * body->rate * lost; /* the mode's eigenvalue */
    return 0;
}

/* The body that argument says, whole. Whether there is one. */
static inline int heat_child_create(struct heat_child *child, const char *argument)
{
    size_t nodes[3];

    return size_read(argument, nodes) && body_create(&child->body, nodes) == 0 &&
           heat_child_begin(child) == 0;
}

static inline void heat_child_fill(struct heat_child *child)
{
    struct body *body = &child->body;

    memset(body->memory, 0, body_bytes(body)); /* it is given anew */
    for (size_t z = 0; z < body->nodes[Z]; z++)
        for (size_t y = 0; y < body->nodes[Y]; y++) {
            double *row = body->array[0] + body_at(body, 0, y, z);
            double high = child->wave[Z][z] * child->wave[Y][y];

            for (size_t x = 0; x < body->nodes[X]; x++)
                row[x] = high * child->wave[X][x];
        }
}

/* Whether so many steps left of the mode what they must. */
static inline int heat_child_right(const struct heat_child *child, size_t steps)
{
    const struct body *body = &child->body;
    double left = pow(child->keeps, (double)steps);
    size_t right = 0;

    for (size_t z = 0; z < body->nodes[Z]; z++)
        for (size_t y = 0; y < body->nodes[Y]; y++) {
            const double *row = body_after(body, steps) + body_at(body, 0, y, z);
            double high = left * child->wave[Z][z] * child->wave[Y][y];

            for (size_t x = 0; x < body->nodes[X]; x++)
                right += fabs(row[x] - high * child->wave[X][x]) < HEAT_ERROR_MOST;
        }
    return right == body->nodes[X] * body->nodes[Y] * body->nodes[Z];
}

/*
 * Gives back what the body lies in, whole pages. Where that is makes up to 2 % of a step, and stays so
 * for as long as a process lives: so whoever has the next turn gets it, and none has a place of its own.
 */
static inline void heat_child_release(struct heat_child *child)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    madvise(child->body.memory, body_bytes(&child->body) / page * page, MADV_DONTNEED);
}

/* A batch: channel->iterations steps, timed, after some that are not. */
static inline void heat_child_batch(struct child_channel *channel, struct heat_child *child,
                                    spread_fn *spread, struct setting *setting)
{
    struct heat_case heat = heat_case_unpack(channel->problem);
    uint64_t begin;
    int error;

    memcpy(setting->edge, heat.edge, sizeof(setting->edge));
    setting->processors = heat.cores;
    setting->steps = HEAT_WARM;
    heat_child_fill(child);
    error = spread(&child->body, setting);
    setting->steps = channel->iterations;
    begin = child_channel_now_ns();
    if (error == 0)
        error = spread(&child->body, setting);
    channel->own_ns = child_channel_now_ns() - begin;
    channel->elsewhere = 0;
    channel->verified =
        error == 0 && heat_child_right(child, HEAT_WARM + setting->steps) ? setting->steps : 0;
    if (!heat.resident)
        heat_child_release(child);
}

#endif
