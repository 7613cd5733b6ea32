/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The loop of the kernel loop: two parts, each a chain of multiplications on a line of its own. One
 * object code for all contenders (loop_case.c). C and C++.
 */
#ifndef UMBRA_BENCH_LOOP_CASE_H
#define UMBRA_BENCH_LOOP_CASE_H

#include <stddef.h>
#include <stdint.h>

#define LOOP_PARTS 2
#define LOOP_SIZES 6
#define LOOP_LINE 128

#ifdef __cplusplus
extern "C" {
#endif

/* Multiplications of a part. */
extern const uint32_t loop_sizes[LOOP_SIZES];

struct loop_side {
    uint64_t value __attribute__((aligned(LOOP_LINE)));
    uint64_t runs;
};

struct loop_case {
    uint32_t steps;
    struct loop_side side[LOOP_PARTS];
};

/* Before a batch of loops of this size. */
void loop_begin(struct loop_case *loop, unsigned size);

/* Executes one part, once. */
void loop_part(struct loop_case *loop, size_t part);

/* How many loops the batch has executed; 0: the parts differ, or a value is wrong. */
uint64_t loop_verified(const struct loop_case *loop);

#ifdef __cplusplus
}
#endif

#endif
