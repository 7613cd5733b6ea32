/* SPDX-License-Identifier: BSL-1.0 */
#include <stdio.h>
#include <umbra.h>

static void fill(size_t begin, size_t end, void *squares) {
    for (size_t i = begin; i < end; i++) ((double *)squares)[i] = (double)i * (double)i;
}

static void *run(void *squares) {
    umbra_parallel_for(0, 100000, 0, fill, squares); /* idle cores take parts of it */
    printf("%.0f\n", ((double *)squares)[99999]);
    return NULL;
}

int main(void) {
    static double squares[100000];
    return umbra_run(NULL, run, squares);
}
