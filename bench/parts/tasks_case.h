/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What dispatch, and fib, skynet, nqueens and matmul (forks.h), ask of a child process:
 * "KIND:SIZE:CORES", and how much work that is. C and C++.
 */
#ifndef UMBRA_BENCH_TASKS_CASE_H
#define UMBRA_BENCH_TASKS_CASE_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct tasks_case {
    /* for: a loop of null functions, handed out one by one; task: one task each; or the kernel */
    char kind[8];
    unsigned size;
    unsigned cores;
};

/* Whether text is such a case. */
static inline int tasks_case_read(const char *text, struct tasks_case *out)
{
    return sscanf(text, "%7[a-z]:%u:%u", out->kind, &out->size, &out->cores) == 3;
}

/* True if the functions do nothing. */
static inline int tasks_are_null(const struct tasks_case *work)
{
    return strcmp(work->kind, "for") == 0 || strcmp(work->kind, "task") == 0;
}

/* The n-th Fibonacci number, by adding up: to check what the recursion finds. */
static inline uint64_t tasks_fib(unsigned n)
{
    uint64_t now = 0;
    uint64_t next = 1;

    while (n-- > 0) {
        uint64_t sum = now + next;

        now = next;
        next = sum;
    }
    return now;
}

/* How many calls the recursion makes for n: one for each leaf, and one less for the others. */
static inline uint64_t tasks_calls(unsigned n)
{
    return 2 * tasks_fib(n + 1) - 1;
}

#endif
