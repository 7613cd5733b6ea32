/* SPDX-License-Identifier: BSL-1.0 */
/* An OpenMP region in a fiber: its team may use all processors; then the core is bound again. */
#include <stdio.h>

#include <umbra/core.h>

#define TERMS 1000000

static void sum_of_squares(void *sum) /* plain OpenMP; it calls nothing of Umbra */
{
    double squares = 0;

#pragma omp parallel for reduction(+ : squares)
    for (int i = 1; i <= TERMS; i++)
        squares += (double)i * i;
    *(double *)sum = squares;
}

static void *first(void *sum)
{
    int error = umbra_core_unbound(sum_of_squares, sum);

    if (error)
        fprintf(stderr, "openmp_region: %s\n", umbra_last_error_text());
    return NULL;
}

int main(void)
{
    double sum = 0;
    int error = umbra_run(NULL, first, &sum);

    if (error)
        fprintf(stderr, "openmp_region: %s\n", umbra_last_error_text());
    else
        printf("the sum of %d squares is %.6g\n", TERMS, sum);
    return error || sum == 0 ? 1 : 0;
}
