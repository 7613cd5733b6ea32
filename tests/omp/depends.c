/* SPDX-License-Identifier: BSL-1.0 */
/* Dependences of tasks: what is in order, and what may overlap. Programs written with OpenMP's own
 * words; graphs.c has graphs that are drawn. */
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ADDRESSES = 3, BLOCKS = 12, EDGE = 8, SIZE = BLOCKS * EDGE };

/* ---- what may overlap does: each of two tasks waits a while for the other one to begin. Where
 * processors are busy they may miss each other, so that there are many tries ---- */

enum { TRIES = 100 };

static int met, together;
int a, b; /* only their addresses count */

static void meet(void)
{
    int now;

#pragma omp atomic
    met++;
    for (int i = 0; i < 200; i++) {
#pragma omp atomic read
        now = met;
        if (now == 2) {
#pragma omp atomic
            together++;
            return;
        }
        usleep(100);
    }
}

#define PAIR(name, first, second)                                                                  \
    together = 0;                                                                                  \
    for (int i = 0; i < TRIES && together < 2; i++) {                                              \
        met = together = 0;                                                                        \
        _Pragma("omp parallel num_threads(3)") _Pragma("omp single")                               \
        {                                                                                          \
            usleep(1000); /* the others want tasks by now */                                       \
            PRAGMA(omp task first)                                                                 \
            meet();                                                                                \
            PRAGMA(omp task second)                                                                \
            meet();                                                                                \
            _Pragma("omp taskwait")                                                                \
        }                                                                                          \
    }                                                                                              \
    printf("%s: %d\n", name, together);
#define PRAGMA(text) _Pragma(#text)

static void overlaps(void)
{
    PAIR("two addresses", depend(inout : a), depend(inout : b))
    PAIR("two that read", depend(in : a), depend(in : a))
    PAIR("behind one", depend(in : a) depend(in : b), depend(in : b) depend(in : a))
}

/* The same behind a task that both wait for: one of them gets its turn on another member than the
 * one that waits for them. True: they met. */
static bool fork_and_join(void)
{
    int from = 0, left = 0, right = 0;
    bool seen = false;

    met = together = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task depend(out : from) shared(from)
        {
            usleep(2000);
            from = 1;
        }
#pragma omp task depend(in : from) depend(out : left) shared(from, left)
        {
            meet();
            left = from + 1;
        }
#pragma omp task depend(in : from) depend(out : right) shared(from, right)
        {
            meet();
            right = from + 2;
        }
#pragma omp task depend(in : left, right) shared(left, right, seen)
        seen = left == 2 && right == 3;
#pragma omp taskwait
    }
    if (!seen)
        printf("fork and join: %d %d\n", left, right);
    return together == 2;
}

/* ---- what is waited for ---- */

static void waits(void)
{
    int a = 0, b = 0, seen[6] = {0};

#pragma omp parallel num_threads(3)
#pragma omp single
    {
#pragma omp task depend(out : a) shared(a)
        {
            usleep(3000);
            a = 1;
        }
#pragma omp task if (0) depend(in : a) shared(a, seen)
        seen[0] = a;
#pragma omp task depend(inout : a) shared(a)
        {
            usleep(3000);
            a = 2;
        }
#pragma omp task depend(out : b) shared(b)
        b = 7;
#pragma omp taskwait depend(in : a)
        seen[1] = a;
#pragma omp taskgroup
        {
#pragma omp task depend(inout : a, b) shared(a, b)
            {
                usleep(1000);
                a = 3;
                b = 8;
            }
#pragma omp task depend(in : b) shared(b, seen)
            seen[2] = b;
        }
        seen[3] = a;
#pragma omp task depend(out : a) shared(a)
        {
            usleep(3000);
            a = 4;
        }
#pragma omp target depend(in : a) map(tofrom : a, seen)
        seen[4] = a;
#pragma omp task depend(out : b) shared(b)
        {
            usleep(3000);
            b = 9;
        }
#ifdef __clang__ /* which leaves an update out */
#pragma omp taskwait depend(in : b)
#else
#pragma omp target update to(b) depend(in : b)
#endif
        seen[5] = b;
    }
    for (int i = 0; i < 6; i++)
        printf("waits %d: %d\n", i, seen[i]);
}

/* ---- mutexinoutset, depend objects, iterators ---- */

static void kinds(void)
{
    int sum = 0, inside = 0, most = 0, cell[8] = {0}, wrong = 0, none = 0;
    omp_depend_t object;

#pragma omp depobj(object) depend(inout : cell[3])
#pragma omp parallel num_threads(4)
#pragma omp single
    {
#pragma omp task depend(out : sum) shared(sum)
        sum = 1;
        for (int i = 0; i < 20; i++) {
#pragma omp task depend(mutexinoutset : sum) shared(sum, inside, most)
            {
                int now;

#pragma omp atomic capture
                now = ++inside;
                most = now > most ? now : most;
                sum++;
#pragma omp atomic
                inside--;
            }
        }
#pragma omp task depend(in : sum) shared(sum, wrong)
        wrong += sum != 21;
#pragma omp task depend(iterator(i = 0 : 8), out : cell[i]) shared(cell)
        for (int i = 0; i < 8; i++)
            cell[i] = i;
#pragma omp task depend(depobj : object) shared(cell)
        {
            usleep(2000);
            cell[3] = 30;
        }
#pragma omp task depend(iterator(i = 2 : 5), in : cell[i]) shared(cell, wrong)
        wrong += cell[3] != 30 || cell[4] != 4;
#pragma omp task depend(iterator(i = 0 : none), in : cell[i]) shared(none)
        none++;
#pragma omp taskwait
        wrong += none != 1;
    }
#pragma omp depobj(object) destroy
    printf("kinds: %d wrong, %d at once, sum %d\n", wrong, most, sum);
}

/* Many addresses, and many that read one: nothing that has ended is kept for long. */
static void many(void)
{
    static char cell[50000];
    long sum = 0, wrong = 0;

#pragma omp parallel num_threads(3)
#pragma omp single
    {
        for (int i = 0; i < 50000; i++) {
#pragma omp task depend(out : cell[i]) shared(cell)
            cell[i]++;
        }
        for (int i = 0; i < 50000; i += 7) {
#pragma omp task depend(in : cell[i]) depend(inout : sum) shared(cell, sum)
            sum += cell[i];
#pragma omp task depend(in : cell[0], cell[i]) shared(cell, wrong)
            if (cell[0] != 1) {
#pragma omp atomic
                wrong++;
            }
        }
    }
    printf("many: %ld, %ld wrong\n", sum, wrong);
}

/* Dependences of tasks that tasks make: each has its own. */
static void nested(int depth, long *count)
{
    int a = 0, b = 0;

    if (depth == 0) {
#pragma omp atomic
        ++*count;
        return;
    }
#pragma omp task depend(out : a) shared(a)
    {
        nested(depth - 1, count);
        a = 1;
    }
#pragma omp task depend(in : a) depend(out : b) shared(a, b)
    {
        nested(depth - 1, count);
        b = a + 1;
    }
#pragma omp task depend(inout : b) depend(in : a) shared(b)
    if (b != 2) {
#pragma omp atomic
        *count += 1000;
    }
#pragma omp taskwait
}

/* ---- Cholesky, by blocks ---- */

static double matrix[SIZE][SIZE], factor[SIZE][SIZE];

static void block_factor(int k)
{
    for (int j = k; j < k + EDGE; j++)
        for (int i = j; i < k + EDGE; i++) {
            double sum = factor[i][j];

            for (int m = k; m < j; m++)
                sum -= factor[i][m] * factor[j][m];
            if (i > j) {
                factor[i][j] = sum / factor[j][j];
                continue;
            }
            factor[j][j] = 1; /* the root, by Newton's steps: no library */
            for (int step = 0; step < 30; step++)
                factor[j][j] = (factor[j][j] + sum / factor[j][j]) / 2;
        }
}

static void block_solve(int i0, int k)
{
    for (int i = i0; i < i0 + EDGE; i++)
        for (int j = k; j < k + EDGE; j++) {
            double sum = factor[i][j];

            for (int m = k; m < j; m++)
                sum -= factor[i][m] * factor[j][m];
            factor[i][j] = sum / factor[j][j];
        }
}

static void block_update(int i0, int j0, int k)
{
    for (int i = i0; i < i0 + EDGE; i++)
        for (int j = j0; j < j0 + EDGE && j <= i; j++)
            for (int m = k; m < k + EDGE; m++)
                factor[i][j] -= factor[i][m] * factor[j][m];
}

static void cholesky(void)
{
    int wrong = 0;

    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++)
            matrix[i][j] = (i == j ? 2 * SIZE : 0) + (double)((i * 7 + j * 7) % 10) / 10;
    memcpy(factor, matrix, sizeof(factor));
#pragma omp parallel num_threads(3)
#pragma omp single
    for (int k = 0; k < SIZE; k += EDGE) {
#pragma omp task depend(inout : factor[k][k])
        block_factor(k);
        for (int i = k + EDGE; i < SIZE; i += EDGE) {
#pragma omp task depend(in : factor[k][k]) depend(inout : factor[i][k])
            block_solve(i, k);
        }
        for (int i = k + EDGE; i < SIZE; i += EDGE)
            for (int j = k + EDGE; j <= i; j += EDGE) {
#pragma omp task depend(in : factor[i][k], factor[j][k]) depend(inout : factor[i][j])
                block_update(i, j, k);
            }
    }
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j <= i; j++) {
            double sum = -matrix[i][j];

            for (int m = 0; m <= j; m++)
                sum += factor[i][m] * factor[j][m];
            wrong += sum > 1e-9 || sum < -1e-9;
        }
    printf("cholesky: %d wrong\n", wrong);
}

int main(void)
{
    long count = 0;
    int tries = 0;

    overlaps();
    while (tries < TRIES && !fork_and_join())
        tries++;
    printf("fork and join: %s\n", tries < TRIES ? "together" : "apart");
    waits();
    kinds();
    many();
#pragma omp parallel num_threads(3)
#pragma omp single
    nested(7, &count);
    printf("nested: %ld\n", count);
    for (int round = 0; round < 10; round++)
        cholesky();
    return 0;
}
