/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How a kernel and a child process that hosts another runtime speak: one page of shared memory.
 * C and C++.
 *
 *   kernel                                   child
 *   iterations = n; turn = k + 1; wake  -->  sleeps while turn == k
 *   sleeps while done == k              <--  ns, verified; done = k + 1; wake
 *
 * Both sleep in the kernel: the processors belong to the runtime while it works. The child takes
 * the time itself, so that these wake-ups are not in it.
 */
#ifndef UMBRA_BENCH_CHILD_CHANNEL_H
#define UMBRA_BENCH_CHILD_CHANNEL_H

#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CHILD_CHANNEL_BYTES 4096
#define CHILD_CHANNEL_LINE 128
#define CHILD_CHANNEL_CPUS 256
#define CHILD_CHANNEL_LIST_BYTES 2048 /* of a list of all processors, as text */
#define CHILD_CHANNEL_END UINT32_MAX  /* the turn in which the child ends */

struct child_channel {
    uint32_t turn __attribute__((aligned(CHILD_CHANNEL_LINE))); /* kernel writes */
    uint64_t iterations;                                        /* kernel writes before turn */
    uint64_t problem;                 /* likewise: which one, for a child that has several */
    uint32_t n_cpus;                  /* kernel writes at the start: how many it measures on */
    int32_t cpus[CHILD_CHANNEL_CPUS]; /* likewise: these; the first two are always there */
    uint32_t done __attribute__((aligned(CHILD_CHANNEL_LINE))); /* child writes */
    uint64_t ns;                                                /* child writes before done */
    uint64_t own_ns;    /* likewise, of a batch that took its time itself; else 0 */
    uint64_t verified;  /* likewise: functions run */
    uint64_t elsewhere; /* likewise: those not run by the thread that forked them */
};

/* Sleep while *word == old, at most for timeout_ms (negative: for ever). Returns what it is. */
static inline uint32_t child_channel_wait(uint32_t *word, uint32_t old, long timeout_ms)
{
    struct timespec timeout;
    uint32_t now = __atomic_load_n(word, __ATOMIC_ACQUIRE); /* pairs with child_channel_post */

    timeout.tv_sec = timeout_ms / 1000;
    timeout.tv_nsec = timeout_ms % 1000 * 1000000;
    while (now == old) {
        long woken =
            syscall(SYS_futex, word, FUTEX_WAIT, old, timeout_ms < 0 ? NULL : &timeout, NULL, 0);

        now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        if (woken != 0 && timeout_ms >= 0)
            break;
    }
    return now;
}

static inline void child_channel_post(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE); /* pairs with child_channel_wait */
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static inline struct child_channel *child_channel_map(int fd)
{
    void *page = mmap(NULL, CHILD_CHANNEL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return page == MAP_FAILED ? NULL : (struct child_channel *)page;
}

/* The first `count` of the processors, or all that there are, as text: "0,1". Returns text. */
static inline const char *child_channel_list(const struct child_channel *channel, unsigned count,
                                             char text[CHILD_CHANNEL_LIST_BYTES])
{
    int length = 0;

    for (unsigned i = 0; i < count && i < channel->n_cpus; i++)
        length += snprintf(text + length, (size_t)(CHILD_CHANNEL_LIST_BYTES - length), "%s%d",
                           i > 0 ? "," : "", (int)channel->cpus[i]);
    return text;
}

static inline uint64_t child_channel_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * The child's main loop. batch runs channel->iterations forks and counts them. Returns when the
 * child is to end: main returns, since runtimes remove at exit what they keep in shared memory.
 */
static inline void child_channel_serve(struct child_channel *channel,
                                       void (*batch)(struct child_channel *channel))
{
    uint32_t turn = 0;

    while ((turn = child_channel_wait(&channel->turn, turn, -1)) != CHILD_CHANNEL_END) {
        uint64_t begin = child_channel_now_ns();

        channel->own_ns = 0;
        batch(channel);
        channel->ns = channel->own_ns ? channel->own_ns : child_channel_now_ns() - begin;
        child_channel_post(&channel->done, turn);
    }
}

#endif
