/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A program of gcc's with a library of clang's, from this file with LIBRARY: they share regions, loops,
 * tasks, dependences and locks. mixed LIBRARY
 */
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>

enum { MEMBERS = 4, N = 1000 };

struct shared {
    long loops, singles, tasks, inner;
    int chain;
    omp_lock_t *lock; /* this and the next: of one size with gcc, of another with clang */
    omp_nest_lock_t *nested;
};

typedef void work_fn(struct shared *shared);

#ifdef LIBRARY
/* Each member of a region of the program. */
__attribute__((visibility("default"))) void work(struct shared *shared)
#else
static void work(struct shared *shared)
#endif
{
    long sum = 0;

#pragma omp for schedule(dynamic, 3) nowait
    for (int i = 0; i < N; i++)
        sum += i;
#pragma omp for schedule(static)
    for (int i = 0; i < N; i++)
        sum += i;
#pragma omp atomic
    shared->loops += sum;
#pragma omp single
    for (int i = 0; i < N; i++) {
        shared->singles++;
#pragma omp task
        {
            omp_set_lock(shared->lock);
            omp_set_nest_lock(shared->nested);
            shared->tasks++;
            omp_unset_nest_lock(shared->nested);
            omp_unset_lock(shared->lock);
        }
#pragma omp task depend(inout : shared->chain)
        shared->chain = (shared->chain * 3 + i) % 10007;
    }
#pragma omp parallel num_threads(2)
#pragma omp atomic
    shared->inner += omp_get_level() * 10 + omp_get_num_threads();
}

#ifndef LIBRARY
int main(int argc, char **argv)
{
    omp_lock_t lock;
    omp_nest_lock_t nested;
    struct shared shared = {.lock = &lock, .nested = &nested};
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    work_fn *other = library ? (work_fn *)dlsym(library, "work") : NULL;

    if (!other)
        return 2;
    omp_init_lock(&lock);
    omp_init_nest_lock(&nested);
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(MEMBERS)
    for (int i = 0; i < 20; i++) {
        work(&shared);
        other(&shared);
#pragma omp masked
        {
#pragma omp task depend(inout : shared.chain)
            shared.chain++;
        }
    }
    other(&shared);
    omp_destroy_nest_lock(&nested);
    omp_destroy_lock(&lock);
    printf("mixed: %ld %ld %ld %ld %d\n", shared.loops, shared.singles, shared.tasks, shared.inner,
           shared.chain);
    return 0;
}
#endif
