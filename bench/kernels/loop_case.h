/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The loops of the kernel loop: two parts, each a chain of multiplications on a line of its own; and many
 * indices, each a short chain. One object code for all contenders (loop_case.c). C and C++.
 */
#ifndef UMBRA_BENCH_LOOP_CASE_H
#define UMBRA_BENCH_LOOP_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOP_PARTS 2
#define LOOP_SIZES 6
#define LOOP_LINE 128
#define LOOP_INDICES 10000
#define LOOP_INDEX_STEPS 180 /* multiplications of an index: some 100 ns */

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

/* Before a batch of loops of many indices. */
void loop_indices_begin(uint64_t value[LOOP_INDICES]);

/* Executes the indices from begin to end - 1, once. */
void loop_indices(uint64_t value[LOOP_INDICES], size_t begin, size_t end);

/* True if every index of a batch has been executed once in each of so many loops. */
bool loop_indices_verified(const uint64_t value[LOOP_INDICES], uint64_t loops);

#ifdef __cplusplus
}
#endif

#endif
