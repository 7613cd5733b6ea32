/* SPDX-License-Identifier: BSL-1.0 */
/* See taker.h. */
#define _GNU_SOURCE
#include "taker.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The child: a copy of one thread of a process that may have had more, so system calls alone. */
static _Noreturn void take(const int go[2])
{
    char word;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(go[1]);
    if (read(go[0], &word, 1) != 1)
        _exit(0); /* there is nobody who could let it begin */
    for (volatile unsigned rounds = 0;; rounds++)
        ;
}

int taker_create(struct taker *taker, int processor)
{
    cpu_set_t set;
    int go[2], error;

    if (pipe2(go, O_CLOEXEC) != 0)
        return -errno;
    taker->process = fork();
    if (taker->process == 0)
        take(go);
    error = taker->process < 0 ? -errno : 0;
    close(go[0]);
    taker->go = go[1];
    if (error) {
        close(taker->go);
        return error;
    }
    CPU_ZERO(&set);
    CPU_SET((size_t)processor, &set);
    if (sched_setaffinity(taker->process, sizeof(set), &set) != 0)
        error = -errno;
    if (!error)
        error = -clock_getcpuclockid(taker->process, &taker->clock);
    if (error)
        taker_destroy(taker);
    return error;
}

void taker_begin(struct taker *taker)
{
    ssize_t written;

    do
        written = write(taker->go, "", 1);
    while (written < 0 && errno == EINTR);
}

double taker_ms(const struct taker *taker)
{
    struct timespec used;

    clock_gettime(taker->clock, &used);
    return (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6;
}

void taker_destroy(struct taker *taker)
{
    close(taker->go);
    kill(taker->process, SIGKILL);
    while (waitpid(taker->process, NULL, 0) < 0 && errno == EINTR)
        ;
}
