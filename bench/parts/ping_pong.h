/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The physical limit of a hand-over and its way back: a cache line that travels to another
 * processor and returns, with nothing around it.
 *
 * Variants: between two looks nothing, one pause, two, a fence that keeps loads from piling up, or a
 * look at the clock; each without and with a request for the line to write, with a plain store and
 * with an exchange. These are all the gaps that a wait of Umbra may have (umbra/wait/gap.h), so that none
 * is faster than the limit but by chance. "ping-pong-pause" is the paper's form.
 *
 * Which form is fastest differs from processor to processor, and from hour to hour on a virtual
 * one, so the limit of a round is the best of its variants in that round.
 *
 * With two lines, one each way, no side writes the line that it waits on. That is the limit of
 * what must move two lines in a round trip, as two events do.
 */
#ifndef UMBRA_BENCH_PING_PONG_H
#define UMBRA_BENCH_PING_PONG_H

#include "harness.h"

/* Adds the row "ping-pong" and its variants, between the first two processors. Returns the row. */
struct bench_row *ping_pong_add(struct bench *bench);

/* Adds the row "ping-pong-two-lines", the best of those variants, which have no lines in the output. */
struct bench_row *ping_pong_add_two_lines(struct bench *bench, struct bench_row *limit);

/* The row "ping-pong" between two others (bench_place); the variants have no lines in the output. */
struct bench_row *ping_pong_add_between(struct bench *bench, int from, int to);

#endif
