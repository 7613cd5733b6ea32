/* SPDX-License-Identifier: BSL-1.0 */
/* What a program reaches for that belongs to the process: its argument says what. Status 0: it was
 * as in a process of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void leave(void); /* reaches_library.c */

static int mistake;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what) && mistake == 0) {                                                             \
            mistake = __LINE__;                                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                             \
        }                                                                                          \
    } while (0)

/* ---- processes ---- */

/* Between vfork and its end nothing may happen here, so the process has an end of its own. */
static int vforks(void)
{
    int status = 0;
    pid_t pid = vfork();

    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "exit 14", NULL);
        _exit(9);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 14);
    return mistake & 127;
}

static void *executes(void *arg)
{
    CHECK(execl("/bin/true", "true", NULL) == -1 && errno == ENOTSUP);
    CHECK(fexecve(0, (char *[]){arg, NULL}, environ) == -1 && errno == ENOTSUP);
    CHECK(daemon(1, 1) == -1 && errno == ENOTSUP);
    return arg;
}

static void *forks(void *arg)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        exit(13);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 13);
    return arg;
}

static int in_a_thread(void *(*fn)(void *))
{
    char name[] = "reaches";
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, fn, name) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return mistake & 127;
}

/* The forked process has standard streams of its own. */
static int redirects(void)
{
    char text[50] = "";
    int ends[2], status;
    pid_t pid;

    CHECK(pipe(ends) == 0);
    pid = fork();
    if (pid == 0) {
        close(STDOUT_FILENO);
        if (dup(ends[1]) != STDOUT_FILENO)
            _exit(1);
        execl("/bin/echo", "echo", "into the pipe", NULL);
        _exit(1);
    }
    close(ends[1]);
    CHECK(read(ends[0], text, sizeof(text) - 1) > 0 && strcmp(text, "into the pipe\n") == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    close(ends[0]);
    return mistake & 127;
}

/* ---- what would point into a child that has ended ---- */

static int buffers(void)
{
    static char large[8192];

    CHECK(setvbuf(stderr, large, _IOFBF, sizeof(large)) == 0);
    setbuf(stdin, large);
    return mistake & 127;
}

static void on_signal(int number)
{
    _exit(number);
}

static int handles(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    return mistake & 127;
}

static int hides_faults(void)
{
    stack_t none = {.ss_flags = SS_DISABLE};
    sigset_t all;

    sigfillset(&all);
    CHECK(sigaltstack(&none, NULL) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &all, NULL) == 0);
    return mistake & 127;
}

static int random_numbers(void)
{
    static char state[128], other[128];
    unsigned short start[3] = {1, 2, 3};
    struct random_data data = {.state = NULL};
    int32_t expected;

    CHECK(initstate(7, state, sizeof(state)) && initstate_r(7, other, sizeof(other), &data) == 0);
    for (int i = 0; i < 5; i++) {
        random_r(&data, &expected);
        CHECK(random() == expected);
    }
    seed48(start);
    for (int i = 0; i < 5; i++)
        CHECK(lrand48() == nrand48(start));
    return mistake & 127;
}

/* ---- threads ---- */

static pthread_key_t key;
static int destroyed;

static void destroy(void *value)
{
    destroyed += *(int *)value;
    usleep(1);
}

static void *sets(void *arg)
{
    static int seven = 7;

    CHECK(pthread_setspecific(key, &seven) == 0);
    return arg;
}

static int keys(void)
{
    static int one = 1;

    CHECK(pthread_key_create(&key, destroy) == 0);
    CHECK(in_a_thread(sets) == 0 && destroyed == 7);
    CHECK(pthread_setspecific(key, &one) == 0); /* main's return destroys none */
    return mistake & 127;
}

static int one_key(void)
{
    return pthread_key_create(&key, destroy);
}

static void *returns(void *arg)
{
    return arg;
}

/* Ends before its thread does. */
static int detaches(void)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, returns, NULL) == 0);
    CHECK(pthread_detach(thread) == 0);
    return mistake & 127;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*fn)(void);
    } reached[] = {{"vfork", vforks},     {"redirect", redirects},  {"buffers", buffers},
                   {"handlers", handles}, {"faults", hides_faults}, {"random", random_numbers},
                   {"keys", keys},        {"key", one_key},         {"detached", detaches}};
    const char *how = argc > 1 ? argv[1] : "";

    if (strcmp(how, "exec in a thread") == 0)
        return in_a_thread(executes);
    if (strcmp(how, "fork in a thread") == 0)
        return in_a_thread(forks);
    if (strcmp(how, "library") == 0)
        leave();
    for (size_t i = 0; i < sizeof(reached) / sizeof(reached[0]); i++)
        if (strcmp(how, reached[i].name) == 0)
            return reached[i].fn();
    return 1;
}
