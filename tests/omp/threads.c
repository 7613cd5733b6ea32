/* SPDX-License-Identifier: BSL-1.0 */
/* Threads of the program's own: each may begin regions, fork and end. threads.c WHAT */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __has_feature /* clang's */
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
enum { SANITIZER_THREADS = 1 };
#else
enum { SANITIZER_THREADS = 0 };
#endif

static int region(int members)
{
    int sum = 0;

#pragma omp parallel num_threads(members) reduction(+ : sum)
    {
#pragma omp single
        for (int i = 0; i < 10; i++) {
#pragma omp task
#pragma omp atomic
            sum++;
        }
        sum += omp_get_thread_num() + 1;
    }
    return sum;
}

static void *one_region(void *arg)
{
    return (void *)(long)region((int)(long)arg);
}

static void *many_regions(void *arg)
{
    long sum = 0;

    for (int i = 0; i < 500; i++)
        sum += region((int)(long)arg);
    return (void *)sum;
}

/* The threads of this process, but for the thread sanitizer's own. */
static int threads(void)
{
    int count = 0;
    char line[100];
    FILE *status = fopen("/proc/self/status", "r");

    while (fgets(line, sizeof(line), status))
        sscanf(line, "Threads: %d", &count);
    fclose(status);
    count -= SANITIZER_THREADS;
    return count;
}

/* The same when those that end have ended. */
static int threads_left(void)
{
    for (int i = 0; i < 5000 && threads() > 1; i++)
        usleep(1000);
    return threads();
}

/* Threads that end after a region leave no threads behind. */
static void ends(void)
{
    long sum = 0;

    for (int i = 0; i < 1000; i++) {
        pthread_t thread;
        void *result;

        if (pthread_create(&thread, NULL, one_region, (void *)2L) != 0)
            exit(1);
        pthread_join(thread, &result);
        sum += (long)result;
    }
    printf("ends: %ld, %d threads\n", sum, threads_left());
}

/* So do regions, and regions inside, before omp_pause_resource(). */
static void pauses(void)
{
    int sum = region(4), paused[2], left;

    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2) reduction(+ : sum)
    sum += region(2);
#pragma omp parallel num_threads(2)
#pragma omp single
    paused[0] = omp_pause_resource_all(omp_pause_soft);
    paused[1] = omp_pause_resource(omp_pause_hard, omp_get_initial_device());
    left = threads_left();
    printf("pauses: %d %d %d, %d thread, %d\n", sum, paused[0], paused[1], left, region(4));
}

static void two(void)
{
    pthread_t thread[2];
    void *result;
    long sum = 0;

    for (int i = 0; i < 2; i++)
        if (pthread_create(&thread[i], NULL, many_regions, (void *)(2L + i)) != 0)
            exit(1);
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], &result);
        sum += (long)result;
    }
    printf("two: %ld\n", sum);
}

/* What the child's status says. */
static int child(int members)
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(members > 0 ? region(members) : 5);
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void forks(void)
{
    int status[4] = {0};

    setbuf(stdout, NULL);
    printf("before %d\n", region(2));
    status[0] = child(0);
#pragma omp parallel num_threads(3)
    {
#pragma omp masked
        status[1] = child(0);
#pragma omp barrier
        if (omp_get_thread_num() == 1)
            status[2] = child(0);
    }
    status[3] = region(3);
    printf("forks: %d %d %d %d\n", status[0], status[1], status[2], status[3]);
}

/* libgomp's children have no regions: this library's have. */
static void child_regions(void)
{
    printf("child: %d", region(3));
    fflush(stdout);
    printf(" %d %d\n", child(3), child(2));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (!strcmp(what, "ends"))
        ends();
    else if (!strcmp(what, "pauses"))
        pauses();
    else if (!strcmp(what, "two"))
        two();
    else if (!strcmp(what, "forks"))
        forks();
    else if (!strcmp(what, "child"))
        child_regions();
    else if (!strcmp(what, "exit")) {
#pragma omp parallel num_threads(3)
        {
#pragma omp single
            printf("exit in a region\n");
            if (omp_get_thread_num() == 2)
                exit(3);
            for (;;)
                pause();
        }
    } else
        return 2;
    return 0;
}
