/* SPDX-License-Identifier: BSL-1.0 */
/* Locks, critical sections and atomics that no instruction does. */
#include <omp.h>
#include <stdio.h>

#ifndef __clang__ /* gcc 12 has no such functions */
#define omp_init_lock_with_hint(lock, hint) omp_init_lock(lock)
#define omp_init_nest_lock_with_hint(lock, hint) omp_init_nest_lock(lock)
#endif

/* How often locks that are made with a hint were taken. */
static int hinted(void)
{
    int count = 0;
    omp_lock_t lock;
    omp_nest_lock_t nest;

    omp_init_lock_with_hint(&lock, omp_sync_hint_uncontended);
    omp_init_nest_lock_with_hint(&nest, omp_sync_hint_contended);
#pragma omp parallel num_threads(4)
    for (int i = 0; i < 100; i++) {
        omp_set_lock(&lock);
        omp_set_nest_lock(&nest);
        count += omp_test_nest_lock(&nest);
        omp_unset_nest_lock(&nest);
        omp_unset_nest_lock(&nest);
        omp_unset_lock(&lock);
    }
    omp_destroy_nest_lock(&nest);
    omp_destroy_lock(&lock);
    return count;
}

static void nested(omp_nest_lock_t *lock, int depth, int *count)
{
    omp_set_nest_lock(lock);
    ++*count;
    if (depth > 0)
        nested(lock, depth - 1, count);
    omp_unset_nest_lock(lock);
}

int main(void)
{
    int a = 0, b = 0, c = 0, d = 0, e = 0, tested = 0, wrong = 0;
    long double x = 0;
    omp_lock_t lock;
    omp_nest_lock_t nest;

    omp_init_lock(&lock);
    omp_init_nest_lock(&nest);
#pragma omp parallel num_threads(4)
    for (int i = 0; i < 3000; i++) {
#pragma omp critical
        a++;
#pragma omp critical(name)
        b++;
        omp_set_lock(&lock);
        c++;
        omp_unset_lock(&lock);
        while (!omp_test_lock(&lock))
            ;
        d++;
        omp_unset_lock(&lock);
        nested(&nest, 3, &e);
#pragma omp atomic
        x += 1;
    }
    tested = omp_test_nest_lock(&nest);
    tested += 10 * omp_test_nest_lock(&nest);
#pragma omp parallel num_threads(2) reduction(+ : wrong)
    if (omp_get_thread_num() == 1)
        wrong += omp_test_nest_lock(&nest);
    omp_unset_nest_lock(&nest);
    omp_unset_nest_lock(&nest);
    omp_destroy_nest_lock(&nest);
    omp_destroy_lock(&lock);
    printf("%d %d %d %d %d %g, %d, %d wrong, %d\n", a, b, c, d, e, (double)x, tested, wrong,
           hinted());
    return 0;
}
