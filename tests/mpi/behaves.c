/* SPDX-License-Identifier: BSL-1.0 */
/*
 * An ordinary program, which test_image.c runs as a child: it knows nothing of Umbra. Its first
 * argument says what it does. "private SEED": everything that should be its own is written, and is
 * still the same after other children have run. The exit status is the line of the first mistake.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <err.h>
#include <errno.h>
#include <error.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int mistake;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what) && mistake == 0) {                                                             \
            mistake = __LINE__;                                                                    \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, errno);           \
        }                                                                                          \
    } while (0)

int counter = 41;
static int cleared[3000];
static double words[] = {1.5, 2.5};
static int *pointer = &counter;
static const char *const names[] = {"zero", "one", "two"};
static _Thread_local int filled_local = 17;
static _Thread_local int cleared_local[20];
static _Thread_local int *local_pointer = &counter;
_Thread_local long visible_local = 3;
static int constructed;
static int destructors_seen;

static int add(int a, int b)
{
    return a + b;
}

static int subtract(int a, int b)
{
    return a - b;
}

static int (*operation)(int, int) = add;

typedef int choice_fn(int);

static int chosen_now(int x)
{
    return x * 3;
}

__attribute__((used)) static choice_fn *choose(void)
{
    return chosen_now;
}

int chosen(int x) __attribute__((ifunc("choose")));

static choice_fn *const chosen_address = chosen;

__attribute__((constructor)) static void construct(int argc, char **argv)
{
    constructed += argc > 0 && argv[0] != NULL;
}

/* Runs last: the exit status must be right by now. */
__attribute__((destructor)) static void destruct(void)
{
    if (destructors_seen == 1)
        destructors_seen = 2;
}

static void at_exit(void)
{
    if (destructors_seen++ != 0)
        _exit(99);
}

static void others(void)
{
    sched_yield();
}

static void check_initial(void)
{
    CHECK(constructed == 1 && destructors_seen == 0);
    CHECK(counter == 41 && *pointer == 41 && *local_pointer == 41);
    CHECK(words[0] == 1.5 && words[1] == 2.5 && strcmp(names[2], "two") == 0);
    for (int i = 0; i < 3000; i++)
        CHECK(cleared[i] == 0);
    CHECK(filled_local == 17 && visible_local == 3);
    for (int i = 0; i < 20; i++)
        CHECK(cleared_local[i] == 0);
    CHECK(operation(5, 3) == 8 && chosen(7) == 21 && chosen_address(5) == 15);
    CHECK(optind == 1 && opterr == 1 && optopt == '?' && !optarg);
    CHECK(getenv("CHILD") == NULL && errno == 0);
}

static void check_variables(int seed)
{
    counter = seed;
    operation = seed % 2 ? subtract : add;
    words[1] = seed / 2.0;
    for (int i = 0; i < 20; i++)
        cleared_local[i] = cleared[i * 100] = seed + i;
    filled_local = seed * 2;
    visible_local = seed * 3;
    errno = seed + 1;
    for (int turn = 0; turn < 3; turn++) {
        others();
        CHECK(errno == seed + 1);
        CHECK(counter == seed && *pointer == seed && *local_pointer == seed);
        CHECK(operation(9, 4) == (seed % 2 ? 5 : 13) && words[1] == seed / 2.0);
        CHECK(filled_local == seed * 2 && visible_local == seed * 3);
        for (int i = 0; i < 20; i++)
            CHECK(cleared_local[i] == seed + i && cleared[i * 100] == seed + i);
    }
}

static void check_options(int seed)
{
    static const struct option longs[] = {{"number", required_argument, NULL, 'n'},
                                          {"plain", no_argument, NULL, 'p'},
                                          {NULL, 0, NULL, 0}};
    char number[20], joined[40];
    char *argv[] = {"behaves", "first", "-ab", "-n", number, "--plain", joined, "--", "-x", NULL};
    int seen[128] = {0}, letter;

    snprintf(number, sizeof(number), "%d", seed);
    snprintf(joined, sizeof(joined), "--number=%d", seed + 1);
    while ((letter = getopt_long(9, argv, "abn:p", longs, NULL)) != -1) {
        CHECK(letter > 0 && letter < 128);
        if (letter == 'n')
            CHECK(atoi(optarg) == seed + seen['n']);
        seen[letter]++;
        others();
    }
    CHECK(seen['a'] == 1 && seen['b'] == 1 && seen['n'] == 2 && seen['p'] == 1 && !seen['?']);
    CHECK(optind == 7 && strcmp(argv[7], "first") == 0 && strcmp(argv[8], "-x") == 0);
}

static void check_library(int seed)
{
    char text[] = "a,b,c", value[20], *at;
    int numbers[4];

    srand((unsigned)seed);
    srand48(seed);
    for (int i = 0; i < 4; i++)
        numbers[i] = rand();
    srand((unsigned)seed);
    snprintf(value, sizeof(value), "%d", seed);
    CHECK(setenv("CHILD", value, 1) == 0);
    at = strtok(text, ",");
    for (int i = 0; i < 4; i++) {
        others();
        CHECK(rand() == numbers[i]);
        CHECK(getenv("CHILD") && atoi(getenv("CHILD")) == seed);
        if (at)
            CHECK(at[0] == 'a' + i && at[1] == 0);
        at = strtok(NULL, ",");
    }
    CHECK(!at && environ && getenv("PATH"));
    CHECK(putenv("CHILD=other") == 0 && strcmp(getenv("CHILD"), "other") == 0);
    CHECK(unsetenv("CHILD") == 0 && !getenv("CHILD"));
    CHECK(strcmp(program_invocation_short_name, "behaves") == 0);
}

static int private_parts(int seed)
{
    check_initial();
    atexit(at_exit);
    for (int i = 0; i < 3; i++)
        check_variables(seed + i);
    check_options(seed);
    check_library(seed);
    return mistake ? mistake & 127 : 0;
}

/* ---- ways to end ---- */

static volatile int zero;

static int deep(volatile int depth)
{
    volatile char room[200];

    room[0] = (char)depth;
    return depth < 0 ? 0 : deep(depth + 1) + room[0];
}

static void after_exit(void)
{
    fputs("atexit\n", stderr);
}

static int end_early(const char *how)
{
    if (strcmp(how, "exit") == 0) {
        atexit(after_exit);
        exit(7);
    }
    if (strcmp(how, "_exit") == 0) {
        atexit(after_exit);
        _exit(8);
    }
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "assert") == 0)
        assert(zero);
    if (strcmp(how, "err") == 0)
        err(9, "nothing is wrong");
    if (strcmp(how, "errx") == 0)
        errx(10, "nothing is wrong");
    if (strcmp(how, "error") == 0)
        error(11, 0, "nothing is wrong");
    if (strcmp(how, "raise") == 0)
        raise(SIGTERM);
    if (strcmp(how, "pthread_exit") == 0)
        pthread_exit(NULL);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(12);
    return 1;
}

static int fault(const char *how)
{
    if (strcmp(how, "null") == 0)
        *(volatile int *)(uintptr_t)zero = 1;
    if (strcmp(how, "call") == 0)
        ((void (*)(void))(uintptr_t)zero)();
    if (strcmp(how, "strlen") == 0)
        return (int)strlen((const char *)(uintptr_t)(zero + 8));
    if (strcmp(how, "divide") == 0)
        return 100 / zero;
    if (strcmp(how, "trap") == 0)
        __builtin_trap();
    if (strcmp(how, "in a library") == 0)
        return printf("%s %d\n", (const char *)(uintptr_t)(zero + 8), ++counter);
    if (strcmp(how, "overflow") == 0)
        return deep(0);
    return end_early(how);
}

/* ---- threads, processes, files ---- */

static void *thread_of_its_own(void *arg)
{
    if (filled_local != 17 || cleared_local[3] != 0)
        return NULL;
    filled_local = 1;
    return arg;
}

static int threads(void)
{
    pthread_t thread[3];
    void *result;

    filled_local = 5;
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&thread[i], NULL, thread_of_its_own, &counter) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(thread[i], &result) == 0 && result == &counter);
    CHECK(filled_local == 5);
    return mistake & 127;
}

static void *exits(void *arg)
{
    exit(*(int *)arg);
}

static int thread_exits(void)
{
    static int code = 15;
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, exits, &code) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return 1;
}

static int processes(void)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0)
        exit(13);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 13);
    pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "exit 14", NULL);
        _exit(1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 14);
    CHECK(execl("/bin/true", "true", NULL) == -1 && errno == ENOTSUP);
    return mistake & 127;
}

static int files(const char *path)
{
    FILE *file = fopen(path, "w");

    CHECK(file && fprintf(file, "left open by %s", program_invocation_short_name) > 0);
    CHECK(fclose(stdin) == 0 && close(0) == 0); /* its own only */
    return mistake & 127;
}

static int stay(const char *seconds)
{
    struct timespec time = {atoi(seconds), 1000};

    counter = 43;
    visible_local = 44;
    nanosleep(&time, NULL);
    return counter == 43 && visible_local == 44 ? 0 : 1;
}

/* Lives, in the middle of its work, until the file is gone. */
static int while_there(const char *path)
{
    counter = cleared_local[3] = getppid();
    while (access(path, F_OK) == 0)
        others();
    return counter == getppid() && cleared_local[3] == getppid() ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";

    if (strcmp(how, "private") == 0)
        return private_parts(argc > 2 ? atoi(argv[2]) : 1);
    if (strcmp(how, "return") == 0)
        return argc > 2 ? atoi(argv[2]) : 0;
    if (strcmp(how, "print") == 0)
        return printf("%s", argv[2]) < 0;
    if (strcmp(how, "threads") == 0)
        return threads();
    if (strcmp(how, "thread exits") == 0)
        return thread_exits();
    if (strcmp(how, "processes") == 0)
        return processes();
    if (strcmp(how, "files") == 0)
        return files(argv[2]);
    if (strcmp(how, "stay") == 0)
        return stay(argv[2]);
    if (strcmp(how, "while") == 0)
        return while_there(argv[2]);
    return fault(how);
}
