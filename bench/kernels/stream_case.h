/* SPDX-License-Identifier: BSL-1.0 */
/*
 * McCalpin's four operations on three arrays, for all contenders the same object code, and his check
 * of what they leave. C and C++.
 */
#ifndef UMBRA_BENCH_STREAM_CASE_H
#define UMBRA_BENCH_STREAM_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STREAM_SCALAR 3.0
#define STREAM_LINE 64 /* ranges begin at its multiples */

enum stream_operation { STREAM_COPY, STREAM_SCALE, STREAM_ADD, STREAM_TRIAD, STREAM_OPERATIONS };

struct stream_arrays {
    double *a, *b, *c;
    size_t elements;
};

/* Names, and the bytes that an element counts: what the operation reads and writes of the arrays. */
extern const char *const stream_names[STREAM_OPERATIONS];
extern const unsigned stream_bytes[STREAM_OPERATIONS];

/* Writes what the arrays are before an operation, in [begin, end). */
void stream_fill(const struct stream_arrays *arrays, size_t begin, size_t end);

/* The operation in [begin, end). */
void stream_run(enum stream_operation operation, const struct stream_arrays *arrays, size_t begin,
                size_t end);

/* True if the arrays are what the operation leaves: the mean error is within 1e-13 of the value. */
bool stream_check(enum stream_operation operation, const struct stream_arrays *arrays);

/* Where the i-th of n equal ranges of so many elements begins; of the n-th the end. */
static inline size_t stream_begin(size_t elements, unsigned i, unsigned n)
{
    size_t in_line = STREAM_LINE / sizeof(double);
    size_t lines = (elements + in_line - 1) / in_line;
    size_t at = (lines / n * i + lines % n * i / n) * in_line;

    return at < elements ? at : elements;
}

/* A case in one number, for a child process. */
static inline uint64_t stream_problem(enum stream_operation operation, unsigned log2_elements,
                                      unsigned threads)
{
    return (uint64_t)operation | (uint64_t)log2_elements << 8 | (uint64_t)threads << 16;
}

#endif
