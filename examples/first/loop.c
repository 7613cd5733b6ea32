/* SPDX-License-Identifier: BSL-1.0 */
#include <stdio.h>
#include <umbra.h>

static void fill(size_t begin, size_t end, void *squares) {
    for (size_t i = begin; i < end; i++) ((double *)squares)[i] = (double)i * (double)i;
}

int main(void) {
    static double squares[10000000];
    umbra_parallel_for(0, 10000000, 0, fill, squares); /* in parts, on all processors */
    printf("%.0f\n", squares[9999999]);
}
