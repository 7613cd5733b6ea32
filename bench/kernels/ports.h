/* SPDX-License-Identifier: BSL-1.0 */
/* Messages there and back through ports: rows of the kernel `channel`. C. */
#ifndef UMBRA_BENCH_PORTS_H
#define UMBRA_BENCH_PORTS_H

#include "harness.h"

/* For declare and remark of the kernel. */
void ports_declare(struct bench *bench);
void ports_remark(const struct bench *bench, FILE *out);

#endif
