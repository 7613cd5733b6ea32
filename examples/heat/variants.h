/* SPDX-License-Identifier: BSL-1.0 */
/* The ways to share out a step: the same blocks, and the same arithmetic (body.h). */
#ifndef HEAT_VARIANTS_H
#define HEAT_VARIANTS_H

#include "body.h"

struct umbra_runtime;

/* Of a run, for whoever measures its parts. */
enum moment { BEGUN, HALF_WAY, DONE, MOMENTS };

struct setting {
    size_t processors; /* to use */
    size_t steps;
    size_t edge[3];                /* of a block */
    struct umbra_runtime *runtime; /* with so many processors, or NULL: Umbra makes one each time */

    /* Of a way that measures itself: all steps' time, the largest error, bytes of all arrays. */
    double ms, error;
    size_t bytes;

    /* Called at the moments, or NULL. A way of this process reports HALF_WAY alone. */
    void (*at)(enum moment moment, void *arg);
    void *at_arg;
};

static inline void setting_at(const struct setting *setting, enum moment moment)
{
    if (setting->at)
        setting->at(moment, setting->at_arg);
}

/* One thread is about to begin a step, or has: the first half is behind it when it should be. */
static inline void setting_step(const struct setting *setting, size_t step)
{
    if (step == setting->steps / 2)
        setting_at(setting, HALF_WAY);
}

/* So many steps, from array 0 on (body_after()). 0 or a negative errno. */
typedef int spread_fn(struct body *body, struct setting *setting);

spread_fn spread_serial; /* one processor, the whole body at a time */

spread_fn spread_dispatch;      /* a dispatcher's workers pull blocks */
spread_fn spread_dispatch_pure; /* the same by the paper's own H-Dispatch, on ports */
spread_fn
    spread_dispatch_ahead; /* the same, of a next step when those next to them have done this one */
spread_fn spread_scatter_gather; /* ports: a message and a task a block and step */

/* OpenMP: blocks are the iterations of a loop, or tasks. */
spread_fn spread_openmp_static;
spread_fn spread_openmp_dynamic; /* one block at a time */
spread_fn spread_openmp_guided;
spread_fn spread_openmp_tasks;
spread_fn spread_openmp_depend; /* tasks that wait for those next to them */

spread_fn spread_tbb; /* oneTBB: a loop that remembers who had which blocks */

/* MPI: a program of its own, which measures itself; the body here stays as it is. */
spread_fn spread_mpi;

#endif
