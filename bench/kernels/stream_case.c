/* SPDX-License-Identifier: BSL-1.0 */
/* See stream_case.h. */
#include "stream_case.h"

#define FIRST_A 1.0
#define FIRST_B 2.0
#define FIRST_C 0.5
#define ERROR_MOST 1e-13

const char *const stream_names[STREAM_OPERATIONS] = {"copy", "scale", "add", "triad"};
const unsigned stream_bytes[STREAM_OPERATIONS] = {16, 16, 24, 24};

void stream_fill(const struct stream_arrays *arrays, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        arrays->a[i] = FIRST_A;
        arrays->b[i] = FIRST_B;
        arrays->c[i] = FIRST_C;
    }
}

void stream_run(enum stream_operation operation, const struct stream_arrays *arrays, size_t begin,
                size_t end)
{
    double *restrict a = arrays->a, *restrict b = arrays->b, *restrict c = arrays->c;

    switch (operation) {
    case STREAM_COPY:
        for (size_t i = begin; i < end; i++)
            c[i] = a[i];
        break;
    case STREAM_SCALE:
        for (size_t i = begin; i < end; i++)
            b[i] = STREAM_SCALAR * c[i];
        break;
    case STREAM_ADD:
        for (size_t i = begin; i < end; i++)
            c[i] = a[i] + b[i];
        break;
    default:
        for (size_t i = begin; i < end; i++)
            a[i] = b[i] + STREAM_SCALAR * c[i];
    }
}

static bool is_near(const double *array, size_t elements, double value)
{
    double error = 0;

    for (size_t i = 0; i < elements; i++)
        error += array[i] < value ? value - array[i] : array[i] - value;
    return error / (double)elements <= ERROR_MOST * value;
}

/* No operation reads what it writes, so that it does not matter how often it was done. */
bool stream_check(enum stream_operation operation, const struct stream_arrays *arrays)
{
    double a = FIRST_A, b = FIRST_B, c = FIRST_C;

    switch (operation) {
    case STREAM_COPY:
        c = a;
        break;
    case STREAM_SCALE:
        b = STREAM_SCALAR * c;
        break;
    case STREAM_ADD:
        c = a + b;
        break;
    default:
        a = b + STREAM_SCALAR * c;
    }
    return is_near(arrays->a, arrays->elements, a) && is_near(arrays->b, arrays->elements, b) &&
           is_near(arrays->c, arrays->elements, c);
}
