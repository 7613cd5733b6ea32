/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Steps of time whose work is divided between processors and a device: a dispatcher has a worker for each
 * processor and one that drives the device, and each takes what it can.
 *
 *     z   0               border        nodes
 *         |---------------|-------------|
 *          processors:     the device: layers that stay in its memory
 *          blocks
 *
 * A layer is some planes. What a device computes is slow to bring there and back, and a step needs it in
 * the next one, so a layer that the device has taken stays with it, and what travels in a step is one plane
 * each way, at the border. Blocks for several steps at once would travel each time (and what borders
 * on other blocks be computed twice): a device with a memory faster than the bus would wait for them.
 *
 * A device that computes on the processors gets nothing, since what it does keeps them from doing as much.
 * Else the processors do some steps alone, and the device sweeps a part of what is in its memory, so that
 * no layer is brought for it; then all, if the part says that this takes a small share of the time. Where
 * both sides together should be faster than each alone, the work is divided; else the faster one does it.
 *
 * In a step the device's worker does its layers, which are none at first. Then it is hungry, as a worker of
 * a processor is without a block, and takes layers from the upper end, where the processors get to last: as
 * many as it can do while they do the others. When the processors have to wait for the device, it gives
 * layers back after the step. So the border comes to where both need the same time. A border that has
 * moved rests for some steps, since layers that go to and fro cost more than they save. Steps that are
 * slower than those of one side alone end it: then the faster side does what is left.
 *
 * A device may fail at any time, and then its layers are lost. So a copy of the body is kept, a new one
 * when the steps since the last took twenty times as long as a copy takes, and the processors go on from
 * there.
 *
 * Of two processors and more, one is the device's worker's: the thread that drives the device, beside a
 * worker's on the same processor, would wait a time slice for each of its calls.
 */
#ifndef HEAT_DIVIDED_H
#define HEAT_DIVIDED_H

#include "body.h"

#include <stdbool.h>

struct device;

struct divided {
    struct body *body; /* as body_heat() leaves it; becomes what it is after the steps */
    size_t steps, processors;
    struct device *device; /* NULL: none */
    bool alone;            /* the device, as long as it works; what is divided is all its */
    bool always;           /* steps are divided even where that should take longer, to try it */

    /* how it went */
    double share;      /* of the steps that count, what the device did */
    size_t failed_at;  /* the step in which the device failed, or SIZE_MAX */
    size_t again_from; /* the step from which they were then done again */
    size_t left_at;    /* the step before which the device was left, or SIZE_MAX */
    size_t alone_from; /* the step from which it went on alone, or SIZE_MAX */
};

/* All steps. 0, or a negative errno. */
int divided_run(struct divided *divided);

#endif
