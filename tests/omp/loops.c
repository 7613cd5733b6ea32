/* SPDX-License-Identifier: BSL-1.0 */
/* Loops of each schedule, kind of variable and direction; sections. */
#include <limits.h>
#include <omp.h>
#include <stdio.h>

enum { MOST = 4000 };

static int hits[MOST];

/* Says how often each of the first n was hit: once. */
static void check(const char *name, int n)
{
    int wrong = 0;

    for (int i = 0; i < MOST; i++) {
        wrong += hits[i] != (i < n);
        hits[i] = 0;
    }
    printf("%s: %d wrong\n", name, wrong);
}

#define LOOP(clauses, type, from, condition, next, index)                                          \
    _Pragma("omp parallel num_threads(3)")                                                         \
    {                                                                                              \
        PRAGMA(omp for clauses)                                                                    \
        for (type i = from; i condition; i next) {                                                 \
            _Pragma("omp atomic") hits[index]++;                                                   \
        }                                                                                          \
    }
#define PRAGMA(text) _Pragma(#text)

#define KINDS(clauses, n)                                                                          \
    LOOP(clauses, int, 0, < n, ++, i)                                                              \
    check(#clauses " up", n);                                                                      \
    LOOP(clauses, long, n - 1, >= 0, --, i)                                                        \
    check(#clauses " down", n);                                                                    \
    LOOP(clauses, int, -3 * n, < 0, += 3, i / 3 + n)                                               \
    check(#clauses " by three", n);                                                                \
    LOOP(clauses, unsigned long long, ULLONG_MAX - 2 * n, < ULLONG_MAX - 1, += 2,                  \
         (i - (ULLONG_MAX - 2 * n)) / 2)                                                           \
    check(#clauses " far up", n);                                                                  \
    LOOP(clauses, unsigned long long, ULLONG_MAX - 1, > ULLONG_MAX - 1 - 5 *n, -= 5,               \
         (ULLONG_MAX - 1 - i) / 5)                                                                 \
    check(#clauses " far down", n);

static void schedules(void)
{
    KINDS(schedule(static), 1001)
    KINDS(schedule(static, 7), 1001)
    KINDS(schedule(dynamic), 1001)
    KINDS(schedule(dynamic, 13), 1001)
    KINDS(schedule(dynamic, 5000), 1001)
    KINDS(schedule(monotonic : dynamic, 3), 1001)
    KINDS(schedule(guided), 1001)
    KINDS(schedule(guided, 9), 1001)
    KINDS(schedule(auto), 1001)
    KINDS(schedule(dynamic) nowait, 1)
    KINDS(schedule(guided) nowait, 2)
    for (int kind = omp_sched_static; kind <= omp_sched_auto; kind++)
        for (int chunk = 0; chunk < 30; chunk += 11) {
            omp_set_schedule((omp_sched_t)kind, chunk);
            KINDS(schedule(runtime), 500)
            KINDS(schedule(nonmonotonic : runtime), 500)
        }
    KINDS(schedule(dynamic), 0)
}

/* Loops that members leave at different times. */
static void apart(void)
{
    long sum = 0;

#pragma omp parallel num_threads(4) reduction(+ : sum)
    for (int round = 0; round < 300; round++) {
#pragma omp for schedule(dynamic, 2) nowait
        for (int i = 0; i < 20; i++)
            sum += i;
#pragma omp for schedule(guided) nowait
        for (int i = 0; i < 15; i++)
            sum += i;
#pragma omp sections nowait
        {
#pragma omp section
            sum += 1;
#pragma omp section
            sum += 2;
#pragma omp section
            sum += 3;
        }
    }
    printf("apart: %ld\n", sum);
}

static void ordered(void)
{
    int at = 0, wrong = 0;

#pragma omp parallel num_threads(3)
    {
#pragma omp for ordered schedule(dynamic, 3)
        for (int i = 0; i < 300; i++) {
#pragma omp ordered
            wrong += at++ != i;
        }
#pragma omp for ordered schedule(static)
        for (int i = 299; i >= 0; i--) {
#pragma omp ordered
            wrong += --at != i;
        }
#pragma omp for ordered schedule(guided, 2)
        for (unsigned long long i = 0; i < 300; i++) {
            if (i % 3 == 0) {
#pragma omp ordered
                wrong += (unsigned long long)(at += 3) != i + 3;
            }
        }
#pragma omp single
        omp_set_schedule(omp_sched_dynamic, 4);
    }
    at = 0;
#pragma omp parallel for ordered schedule(runtime) num_threads(3)
    for (int i = 0; i < 100; i++) {
#pragma omp ordered
        wrong += at++ != i;
    }
    printf("ordered: %d wrong\n", wrong);
}

static void values(void)
{
    int last = 0, recent = 0, x[100], sums[100], sum = 0;
    double product = 1;

#pragma omp parallel for lastprivate(last) schedule(dynamic) num_threads(3)
    for (int i = 0; i < 77; i++)
        last = i;
#ifdef __clang__ /* 14 forgets the condition */
#pragma omp parallel for reduction(max : recent) schedule(dynamic, 2) num_threads(3)
#else
#pragma omp parallel for lastprivate(conditional : recent) schedule(dynamic, 2) num_threads(3)
#endif
    for (int i = 0; i < 77; i++)
        if (i % 10 == 3)
            recent = i;
    for (int i = 0; i < 100; i++)
        x[i] = i;
#pragma omp parallel for reduction(inscan, + : sum) num_threads(3)
    for (int i = 0; i < 100; i++) {
        sum += x[i];
#pragma omp scan inclusive(sum)
        sums[i] = sum;
    }
#ifdef __clang__ /* 14 leaves the variable itself as it was, also with libomp */
    sum = sums[99];
#endif
#pragma omp parallel for collapse(2) reduction(* : product) schedule(guided) num_threads(4)
    for (int i = 1; i < 4; i++)
        for (int j = 1; j < 4; j++)
            product *= i * j;
    printf("last %d, conditional %d, scan %d %d, product %g\n", last, recent, sums[50], sum,
           product);
}

int main(void)
{
    schedules();
    apart();
    ordered();
    values();
    return 0;
}
