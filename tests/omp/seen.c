/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A program of which test_see.py knows what it does: 10 regions of 2 members, and one inside a region; 40
 * tasks in all; a loop a region; and, if the test wants it, a child process that must not write the trace.
 */
#include <omp.h>
#include <stdio.h>
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

int main(int argc, char **argv)
{
    int sum = 0;

    (void)argv;
    for (int i = 0; i < 10; i++)
        work(&sum);
#pragma omp parallel num_threads(1)
    inner();
    if (argc > 1) {
        fflush(stdout);
        if (fork() == 0) {
            work(&sum);
            _exit(0);
        }
        wait(NULL);
    }
    printf("%d\n", sum + inners - 2);
    return 0;
}
