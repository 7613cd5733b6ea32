/* SPDX-License-Identifier: BSL-1.0 */
/* What the arithmetic could reach if all processors always had blocks in their caches. */
#ifndef APSP_ROOFLINE_H
#define APSP_ROOFLINE_H

#include "blocks.h"

/*
 * Relaxations a second (c = min(c, a + b) for one triple of vertices) of so many threads, each with
 * three blocks of its own, of the size and with the arithmetic of those given, measured for some
 * 20 ms, each on its processor. 0 or a negative errno.
 */
int roofline(const struct blocks *like, const int *cpus, size_t threads, double *relaxations);

#endif
