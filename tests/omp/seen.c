/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A program of which test_see.py knows what it does: 10 regions of 2 members, and one inside a region; 40
 * tasks in all; a loop a region; and, if the test wants it, a child process that must not write the trace:
 * child, made after the regions; early: another thread has begun fork(2) before the first one.
 */
#include <omp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int inners;

static void inner(void)
{
#pragma omp parallel num_threads(2)
#pragma omp critical
    inners++;
}

static void work(int *sum)
{
#pragma omp parallel num_threads(2)
    {
#pragma omp single
        {
            for (int i = 0; i < 4; i++) {
#pragma omp task
                {
#pragma omp atomic
                    ++*sum;
                }
            }
#pragma omp taskwait
        }
#pragma omp for schedule(dynamic, 10)
        for (int i = 0; i < 100; i++) {
#pragma omp atomic
            ++*sum;
        }
    }
}

/* ---- a child ---- */

static sem_t forks, goes_on; /* early: the thread forks; the regions have ended */

static void before_fork(void)
{
    sem_post(&forks);
    sem_wait(&goes_on);
}

/* The child has regions of its own. */
static void *child(void *unused)
{
    int sum = 0;

    fflush(stdout);
    if (fork() == 0) {
        work(&sum);
        _exit(0);
    }
    wait(NULL);
    return unused;
}

int main(int argc, char **argv)
{
    bool early = argc > 1 && strcmp(argv[1], "early") == 0;
    pthread_t thread;
    int sum = 0;

    if (early) {
        sem_init(&forks, 0, 0);
        sem_init(&goes_on, 0, 0);
        pthread_atfork(before_fork, NULL, NULL);
        pthread_create(&thread, NULL, child, NULL);
        sem_wait(&forks);
    }
    for (int i = 0; i < 10; i++)
        work(&sum);
#pragma omp parallel num_threads(1)
    inner();
    if (early) {
        sem_post(&goes_on);
        pthread_join(thread, NULL);
    } else if (argc > 1) {
        child(NULL);
    }
    printf("%d\n", sum + inners - 2);
    return 0;
}
