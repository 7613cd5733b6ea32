/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Waits that do not end. The program's argument says which: the report is in what test_stuck.sh
 * expects, and then the program is killed.
 *
 *   locks      two tasks take two locks in opposite order
 *   nested     the same of critical sections, by members of regions inside regions
 *   tasks      a task waits for a lock that the thread has which waits for the task
 *   helped     a long wait, but another thread of the program ends it
 *   target     the same in a target region, and another member ends it
 */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static omp_lock_t lock[2];
static int here;

static void both_come(void)
{
    __atomic_fetch_add(&here, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&here, __ATOMIC_SEQ_CST) < 2)
        usleep(1000);
}

static void take(int first)
{
    omp_set_lock(&lock[first]);
    both_come();
    omp_set_lock(&lock[!first]); /* place */
    puts("both");
}

static void locks(void)
{
#pragma omp parallel num_threads(2)
    {
        int first = omp_get_thread_num();

#pragma omp task firstprivate(first)
        take(first);
    }
}

__attribute__((__noipa__)) static void one_in_other(void)
{
#pragma omp critical(one)
    {
        both_come();
#pragma omp critical(other) /* place */
        puts("both");
    }
}

__attribute__((__noipa__)) static void other_in_one(void)
{
#pragma omp critical(other)
    {
        both_come();
#pragma omp critical(one) /* place */
        puts("both");
    }
}

static void nested(void)
{
#pragma omp parallel num_threads(2)
    {
        int outer = omp_get_thread_num();

#pragma omp parallel num_threads(2)
        if (omp_get_thread_num() == 1 && outer == 0)
            one_in_other();
        else if (omp_get_thread_num() == 1)
            other_in_one();
    }
}

static void tasks(void)
{
#pragma omp parallel num_threads(2)
#pragma omp master
    {
        omp_set_lock(&lock[0]);
#pragma omp task
        {
            omp_set_lock(&lock[0]); /* place */
            puts("both");
        }
#pragma omp taskwait
        omp_unset_lock(&lock[0]);
    }
}

static void *release(void *arg)
{
    (void)arg;
    sleep(2);
    omp_unset_lock(&lock[0]);
    return NULL;
}

static void helped(void)
{
    pthread_t thread;

    omp_set_lock(&lock[0]);
    pthread_create(&thread, NULL, release, NULL);
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 1) {
            omp_set_lock(&lock[0]); /* place */
            puts("released");
        }
    }
    pthread_join(thread, NULL);
}

static void target(void)
{
    omp_set_lock(&lock[0]);
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
#pragma omp target
        omp_set_lock(&lock[0]); /* place */
        puts("released");
    } else {
        release(NULL);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"locks", locks},
                {"nested", nested},
                {"tasks", tasks},
                {"helped", helped},
                {"target", target}};

    omp_set_max_active_levels(2);
    omp_init_lock(&lock[0]);
    omp_init_lock(&lock[1]);
    for (unsigned i = 0; i < sizeof(ways) / sizeof(*ways); i++)
        if (argc == 2 && strcmp(argv[1], ways[i].name) == 0)
            ways[i].run();
    return 0;
}
