/* SPDX-License-Identifier: BSL-1.0 */
/* Tasks: made by one and by many, waited for in each way, with reductions and dependences. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#define PRAGMA(text) _Pragma(#text)
#ifdef __clang__                          /* 14 has no scope: a loop of an iteration a member */
#define GRAINSIZE(count) grainsize(count) /* nor strict */
#define SCOPE(clauses)                                                                             \
    PRAGMA(omp for schedule(static, 1) clauses)                                                    \
    for (int once = 0; once < omp_get_num_threads(); once++)
#else
#define GRAINSIZE(count) grainsize(strict : count)
#define SCOPE(clauses) PRAGMA(omp scope clauses)
#endif

static long fib(int n)
{
    long a, b;

    if (n < 2)
        return n;
#pragma omp task shared(a)
    a = fib(n - 1);
#pragma omp task shared(b) untied
    b = fib(n - 2);
#pragma omp taskwait
    return a + b;
}

/* Trees in which tasks outlive their parents. */
static void leaves(int depth, long *count)
{
    if (depth == 0) {
#pragma omp atomic
        ++*count;
        return;
    }
    for (int i = 0; i < 3; i++) {
#pragma omp task
        leaves(depth - 1, count);
    }
}

static void trees(void)
{
    long f = 0, count = 0, grouped = 0, after = 0;

#pragma omp parallel num_threads(3)
    {
#pragma omp single
        f = fib(16);
#pragma omp single
        leaves(8, &count);
#pragma omp single
        after = count; /* after a barrier: all have ended */
#pragma omp single
        {
#pragma omp taskgroup
            leaves(7, &count);
            grouped = count;
        }
        leaves(5, &count); /* each member */
    }
    printf("fib %ld, leaves %ld %ld %ld\n", f, after, grouped, count);
}

static void producer(void)
{
    static char big[400];
    long sum = 0;
    int wrong = 0;

    memset(big, 3, sizeof(big));
#pragma omp parallel num_threads(4)
#pragma omp master
    for (int i = 0; i < 20000; i++) {
#pragma omp task firstprivate(i) priority(i % 5)
        {
#pragma omp atomic
            sum += i;
        }
        if (i % 100 == 0) {
#pragma omp task firstprivate(big) shared(wrong)
            for (size_t j = 0; j < sizeof(big); j++)
                if (big[j] != 3) {
#pragma omp atomic
                    wrong++;
                }
        }
        if (i % 1000 == 0) {
#pragma omp taskyield
        }
    }
    printf("producer: %ld, %d wrong\n", sum, wrong);
}

/* More tasks than members keep: some are executed when they are made. Their own tasks outlive them, and
 * are in their taskgroup. */
static void crowd(void)
{
    static long hits[3000];
    long inner = 0, grouped = 0, loop = 0;

#pragma omp parallel num_threads(3)
#pragma omp single
    {
#pragma omp taskgroup
        for (int i = 0; i < 3000; i++) {
#pragma omp task firstprivate(i) shared(inner)
            {
                hits[i] += i;
#pragma omp task firstprivate(i) shared(inner)
                {
#pragma omp atomic
                    inner += i;
                }
            }
        }
        grouped = inner;
#pragma omp taskloop grainsize(1) firstprivate(loop) shared(inner)
        for (int i = 0; i < 3000; i++) {
            loop += hits[i];
#pragma omp atomic
            inner += loop;
        }
    }
    printf("crowd: %ld %ld\n", grouped, inner);
}

static void clauses(void)
{
    int finals = 0, undeferred = 0, merged = 1, order[6], at = 0;

#pragma omp parallel num_threads(2)
#pragma omp single
    {
        int here = omp_get_thread_num();

#pragma omp task if (0) shared(undeferred)
        undeferred = omp_get_thread_num() == here;
#pragma omp task final(1) shared(finals)
        {
#pragma omp task shared(finals)
            finals = omp_in_final();
        }
#pragma omp task mergeable if (0)
        merged = 2;
#pragma omp taskwait
        for (int i = 0; i < 6; i++) {
#pragma omp task depend(inout : at) shared(at, order)
            order[at++] = i;
        }
#pragma omp taskwait depend(in : at)
    }
    printf("final %d, if(0) %d, merged %d, order", finals, undeferred, merged);
    for (int i = 0; i < 6; i++)
        printf(" %d", order[i]);
    printf("\n");
}

static void taskloops(void)
{
    static int hits[3000];
    int wrong = 0;
    long sum = 0;

#pragma omp parallel num_threads(3)
#pragma omp single
    {
#pragma omp taskloop grainsize(7)
        for (int i = 0; i < 1000; i++)
            hits[i]++;
#pragma omp taskloop num_tasks(11)
        for (int i = 1999; i >= 1000; i--)
            hits[i]++;
        PRAGMA(omp taskloop GRAINSIZE(13) nogroup)
        for (unsigned long long i = 2000; i < 3000; i += 2)
            hits[i]++;
#pragma omp taskloop
        for (unsigned long long i = 2999; i > 2000; i -= 2)
            hits[i]++;
#pragma omp taskloop reduction(+ : sum)
        for (int i = 0; i < 500; i++)
            sum += i;
#pragma omp taskloop reduction(+ : sum)
        for (int i = 0; i < 0; i++)
            sum += i;
    }
    for (int i = 0; i < 3000; i++)
        wrong += hits[i] != 1;
    printf("taskloop: %d wrong, %ld\n", wrong, sum);
}

static void reductions(void)
{
    long a = 0, b = 1, c = 0, d = 0, v[3] = {0};

#pragma omp parallel num_threads(3) reduction(task, + : a)
#pragma omp single
    for (int i = 0; i < 50; i++) {
#pragma omp task in_reduction(+ : a)
        a += i;
    }
#pragma omp parallel num_threads(3)
    {
#pragma omp single
#pragma omp taskgroup task_reduction(* : b) task_reduction(+ : v)
        for (int i = 0; i < 12; i++) {
#pragma omp task in_reduction(* : b) in_reduction(+ : v)
            {
                b *= 2;
                v[i % 3] += i;
            }
        }
        for (int round = 0; round < 20; round++) {
#pragma omp for reduction(task, + : c) schedule(dynamic)
            for (int i = 0; i < 40; i++) {
#pragma omp task in_reduction(+ : c)
                c += i;
            }
            SCOPE(reduction(task, + : d))
            {
#pragma omp task in_reduction(+ : d)
                d += 2;
            }
        }
    }
    printf("reductions: %ld %ld %ld %ld, %ld %ld %ld\n", a, b, c, d, v[0], v[1], v[2]);
}

/* A lock that is held over a taskwait: no other task that takes it may run there. */
static void constraint(void)
{
    omp_lock_t lock;
    long sum = 0;

    omp_init_lock(&lock);
#pragma omp parallel num_threads(3)
#pragma omp single
    for (int i = 0; i < 300; i++) {
#pragma omp task
        {
            omp_set_lock(&lock);
#pragma omp task
            {
#pragma omp atomic
                sum++;
            }
#pragma omp taskwait
            omp_unset_lock(&lock);
        }
    }
    omp_destroy_lock(&lock);
    printf("constraint: %ld\n", sum);
}

/* Tasks outside regions, and regions in tasks. */
static void inside(void)
{
    int sum = 0, outside = 0;

#pragma omp task shared(outside)
    outside = 3;
#pragma omp taskwait
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < 20; i++) {
#pragma omp task shared(sum)
        {
            int own = 0;

#pragma omp parallel num_threads(2) reduction(+ : own)
            {
#pragma omp task shared(own)
                ;
                own += omp_get_num_threads();
            }
#pragma omp atomic
            sum += own;
        }
    }
    printf("inside: %d %d\n", sum, outside);
}

struct line {
    _Alignas(64) long number[8];
};

/* volatile: else the compiler knows what it is */
static int is_aligned(const void *volatile line)
{
    return (unsigned long)line % 64 == 0;
}

/* Variables of tasks on 64 bytes, among few and many bytes of them. */
static void lines(void)
{
    struct line line = {{1, 2, 3}}, more[5] = {line};
    long __attribute__((vector_size(16))) pair = {4, 5}; /* loaded from its aligned copy */
    int wrong = 0, sum = 0;

#pragma omp parallel num_threads(3)
#pragma omp single
    for (int i = 0; i < 50; i++) {
#pragma omp task firstprivate(line) shared(wrong, sum)
        {
#pragma omp atomic
            wrong += !is_aligned(&line);
#pragma omp atomic
            sum += line.number[1];
        }
#pragma omp task firstprivate(line, more, i) shared(wrong, sum) if (i % 3 > 0)
        {
#pragma omp atomic
            wrong += !is_aligned(&line) + !is_aligned(more);
#pragma omp atomic
            sum += line.number[2] + more[0].number[0] + i;
        }
#pragma omp task firstprivate(pair) shared(sum)
#pragma omp atomic
        sum += pair[i % 2];
#pragma omp taskloop firstprivate(line) shared(wrong)
        for (int k = 0; k < 3; k++) {
#pragma omp atomic
            wrong += !is_aligned(&line);
        }
    }
    printf("%d not aligned, %d\n", wrong, sum);
}

int main(void)
{
    trees();
    producer();
    crowd();
    clauses();
    taskloops();
    reductions();
    constraint();
    inside();
    lines();
    return 0;
}
