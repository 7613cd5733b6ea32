/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The physical limit of a hand-over and its way back: a cache line that travels to another
 * processor and returns, with nothing around it.
 *
 * Variants: one line used both ways or one line each way; between two looks a pause, nothing, or a
 * fence that keeps loads from piling up; a plain store or an exchange.
 *
 * Which form is fastest differs from processor to processor, and from hour to hour on a virtual
 * one, so the limit of a round is the best of its variants in that round.
 */
#ifndef UMBRA_BENCH_PING_PONG_H
#define UMBRA_BENCH_PING_PONG_H

#include "harness.h"

/* Adds the row "ping-pong" and its variants, between the first two processors. Returns the row. */
struct bench_row *ping_pong_add(struct bench *bench);

/* The same between two others (bench_place); the variants have no lines in the output. */
struct bench_row *ping_pong_add_between(struct bench *bench, int from, int to);

#endif
