/* SPDX-License-Identifier: BSL-1.0 */
/* Iterations that wait for each other: ordered(n) with depend. libgomp takes minutes for it where
 * processors are busy: the first time each loop has one thread, and its results are compared. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

enum { N = 60, M = 23, L = 7 };

static long one[N], two[N][M], three[N][M][L];

static long expected[3]; /* by one thread */
static int threads = 1, checks, wrong;

static void check(int what, long value)
{
    if (threads == 1)
        expected[what] = value;
    checks++;
    wrong += value != expected[what];
}

static long at(const long *cell, int exists)
{
    return exists ? *cell : 1;
}

/* By a loop, a plane and a cube: each cell is made of those before it. */
#define LINE(clauses)                                                                              \
    memset(one, 0, sizeof(one));                                                                   \
    PRAGMA(omp parallel for num_threads(threads) ordered(1) clauses)                               \
    for (int i = 0; i < N; i++) {                                                                  \
        PRAGMA(omp ordered depend(sink : i - 1) depend(sink : i - 3))                              \
        one[i] = (at(&one[i - 1], i > 0) + at(&one[i - 3], i > 2)) % 1000003;                      \
        PRAGMA(omp ordered depend(source))                                                         \
    }                                                                                              \
    check(0, one[N - 1]);

#define PLANE(clauses)                                                                             \
    memset(two, 0, sizeof(two));                                                                   \
    PRAGMA(omp parallel for num_threads(threads) ordered(2) clauses)                               \
    for (long i = N - 1; i >= 0; i--)                                                              \
        for (int j = 0; j < M; j++) {                                                              \
            PRAGMA(omp ordered depend(sink : i + 1, j) depend(sink : i, j - 1))                    \
            two[i][j] = (at(&two[i + 1][j], i < N - 1) + at(&two[i][j - 1], j > 0)) % 1000003;     \
            PRAGMA(omp ordered depend(source))                                                     \
        }                                                                                          \
    check(1, two[0][M - 1]);

/* gcc 12 waits for iterations below 0, as if there were any, where an unsigned loop begins at 0. */
#define CUBE(clauses)                                                                              \
    memset(three, 0, sizeof(three));                                                               \
    PRAGMA(omp parallel for num_threads(threads) ordered(3) clauses)                               \
    for (unsigned long long i = 1; i < N; i++)                                                     \
        for (unsigned long long j = 1; j < M; j++)                                                 \
            for (unsigned long long k = 1; k < L; k++) {                                           \
                PRAGMA(omp ordered depend(sink : i - 1, j, k) depend(sink : i, j - 1, k))          \
                PRAGMA(omp ordered depend(sink : i, j, k - 1))                                     \
                three[i][j][k] =                                                                   \
                    (1 + three[i - 1][j][k] + three[i][j - 1][k] + three[i][j][k - 1]) % 1000003;  \
                PRAGMA(omp ordered depend(source))                                                 \
            }                                                                                      \
    check(2, three[N - 1][M - 1][L - 1]);
#define PRAGMA(text) _Pragma(#text)

#define ALL(clauses) LINE(clauses) PLANE(clauses) CUBE(clauses)

static void schedules(void)
{
    ALL()
    ALL(schedule(static))
    ALL(schedule(static, 1))
    ALL(schedule(static, 7))
    ALL(schedule(dynamic))
    ALL(schedule(dynamic, 4))
    ALL(schedule(dynamic, 100))
    ALL(schedule(guided))
    ALL(schedule(guided, 5))
    ALL(schedule(runtime))
}

/* Many in one region, some of them apart, one of no iterations, and fewer iterations than members. */
static long several(void)
{
    long sum = 0;
    int none = 0;

#pragma omp parallel num_threads(4) reduction(+ : sum)
    for (int round = 0; round < 200; round++) {
        long local = 0;

#pragma omp for ordered(1) schedule(dynamic) nowait
        for (int i = 0; i < round % 5; i++) {
#pragma omp ordered depend(sink : i - 1)
            local++;
#pragma omp ordered depend(source)
        }
#pragma omp for ordered(2) collapse(2) schedule(static, 1) nowait
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 2; j++) {
#pragma omp ordered depend(sink : i - 1, j)
                local++;
#pragma omp ordered depend(source)
            }
#pragma omp for ordered(1)
        for (int i = 0; i < none; i++) {
#pragma omp ordered depend(sink : i - 1)
            local += 100;
#pragma omp ordered depend(source)
        }
        sum += local;
    }
    return sum;
}

/* A member that is alone waits for none: gcc 12 has a number of its own for what this loop waits for. */
static int alone(void)
{
    int count = 0;

#pragma omp parallel for ordered(1) num_threads(1)
    for (unsigned long long i = 13; i > 5; i -= 3) {
#pragma omp ordered depend(sink : i + 3)
        count++;
#pragma omp ordered depend(source)
    }
    return count;
}

int main(void)
{
    for (int kind = omp_sched_static; kind <= omp_sched_auto; kind++)
        for (threads = 1; threads < 5; threads++) {
            omp_set_schedule((omp_sched_t)kind, kind);
            schedules();
        }
    printf("doacross: %d of %d wrong, %ld %d\n", wrong, checks, several(), alone());
    return 0;
}
