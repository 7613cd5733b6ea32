/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A body on a device, by OpenCL: both arrays in the device's memory, of which some planes are up to date.
 * One thread at a time. The first call that fails is the last: the device is lost, with what it holds, and
 * all calls but device_close() return false from then on.
 */
#ifndef HEAT_OPENCL_H
#define HEAT_OPENCL_H

#include "body.h"

#include <stdbool.h>
#include <stdint.h>

enum device_kind { DEVICE_ANY, DEVICE_GPU, DEVICE_CPU, DEVICE_NONE };

struct device;

/* The first device of a kind that computes with doubles; DEVICE_ANY: a GPU before an accelerator before
 * a CPU. After so many calls of OpenCL the next one is taken for failed (SIZE_MAX: none). NULL: there is
 * none, or it cannot be used, and why is told. */
struct device *device_open(enum device_kind kind, const struct body *body, size_t calls,
                           char why[128]);
void device_close(struct device *device);

bool device_is_cpu(const struct device *device); /* it computes on the processors itself */
const char *device_name(const struct device *device);
const char *device_failed(const struct device *device); /* the call and its error; empty: none */

/* Queued, in order, and done by the end of device_finish(), the planes [first, end): from an array that
 * is laid out as the body's, and to one; the memory stays as it is until then. */
bool device_write(struct device *device, const struct body *body, size_t step, size_t first,
                  size_t end);
bool device_read(struct device *device, const struct body *body, size_t step, size_t first,
                 size_t end, double *array);
/* From what they are after `step` steps to one more. */
bool device_sweep(struct device *device, const struct body *body, size_t step, size_t first,
                  size_t end);
bool device_finish(struct device *device);

/* Of a device that failed: it writes nothing any more. */
void device_wait(struct device *device);

#endif
