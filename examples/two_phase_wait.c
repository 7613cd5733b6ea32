/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The two-phase wait without shadows or fibers: a producer and a consumer, plain pthreads, hand
 * numbers to each other through one cache line. The producer works for a while on each number;
 * the consumer waits for it. Printed are how the consumer's waits ended and how much of the time it
 * waited it burned a processor: short waits spin, long ones sleep.
 *
 *     two_phase_wait [--items N] [--work-us N[,N...]] [--wait two-phase|spin|monitor|park]
 *
 * Exit status: 0; 1 wrong sum or no thread; 2 bad argument.
 */
#define _GNU_SOURCE
#include "options.h"
#include "program.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <umbra/wait.h>

const char program_name[] = "two_phase_wait";

#define MOST_WORK_US 1000000

enum mailbox_state { EMPTY, FULL };

/* State and number share a line, so that one transfer of the line brings both. */
struct mailbox {
    _Alignas(UMBRA_CACHE_LINE) _Atomic uint32_t state; /* both threads */
    uint64_t number; /* the producer's while EMPTY, the consumer's while FULL */

    _Alignas(UMBRA_CACHE_LINE) struct umbra_waiter producer; /* waits for EMPTY */
    _Alignas(UMBRA_CACHE_LINE) struct umbra_waiter consumer; /* waits for FULL */
};

struct options {
    size_t items;
    struct numbers works_us; /* the producer's time for one number */
    enum umbra_wait_mode mode;
};

static const char *const mode_names[] = {[UMBRA_WAIT_TWO_PHASE] = "two-phase",
                                         [UMBRA_WAIT_SPIN] = "spin",
                                         [UMBRA_WAIT_MONITOR] = "monitor",
                                         [UMBRA_WAIT_PARK] = "park"};

/* ---- places ---- */

/*
 * Each thread on a processor of its own. Left alone the system may put both on one, where each
 * waits in vain until it parks.
 */
static cpu_set_t usable;

static void place(int nth)
{
    cpu_set_t place;

    CPU_ZERO(&place);
    nth %= CPU_COUNT(&usable);
    for (int cpu = 0; nth >= 0; cpu++)
        if (CPU_ISSET((size_t)cpu, &usable) && nth-- == 0)
            CPU_SET((size_t)cpu, &place);
    pthread_setaffinity_np(pthread_self(), sizeof(place), &place);
}

/* ---- the two threads ---- */

struct producer {
    struct mailbox *mailbox;
    unsigned long items;
    unsigned long work_us;
};

static void work_for(unsigned long us)
{
    uint64_t end = umbra_deadline(us * UINT64_C(1000));

    while (us > 0 && umbra_now_ns() < end)
        umbra_pause();
}

static void *produce(void *arg)
{
    const struct producer *self = arg;
    struct mailbox *mailbox = self->mailbox;

    place(1);
    for (unsigned long i = 1; i <= self->items; i++) {
        work_for(self->work_us);
        umbra_wait_until_equal(&mailbox->producer, &mailbox->state, EMPTY, UINT32_MAX, UMBRA_NEVER);
        mailbox->number = i;
        umbra_signal(&mailbox->state, FULL, &mailbox->consumer);
    }
    return NULL;
}

static uint64_t consume(struct mailbox *mailbox, unsigned long items)
{
    uint64_t sum = 0;

    for (unsigned long i = 0; i < items; i++) {
        umbra_wait_until_equal(&mailbox->consumer, &mailbox->state, FULL, UINT32_MAX, UMBRA_NEVER);
        sum += mailbox->number;
        umbra_signal(&mailbox->state, EMPTY, &mailbox->producer);
    }
    return sum;
}

/* ---- measuring ---- */

static uint64_t processor_time_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void report(const struct producer *producer, const struct umbra_wait_stats *stats,
                   uint64_t elapsed_ns, uint64_t burned_ns)
{
    printf("%10lu %8llu %8llu %8llu %12.1f %10.2f %8.1f %%\n", producer->work_us,
           (unsigned long long)stats->ended[UMBRA_ENDED_SPIN],
           (unsigned long long)stats->ended[UMBRA_ENDED_MONITOR],
           (unsigned long long)stats->ended[UMBRA_ENDED_PARK],
           (double)elapsed_ns / (double)producer->items / 1000, (double)burned_ns / 1e6,
           100.0 * (double)burned_ns / (double)elapsed_ns);
    fflush(stdout);
}

/* All items once; the caller is the consumer. An exit status. */
static int run(const struct umbra_wait_policy *policy, unsigned long items, unsigned long work_us)
{
    struct mailbox mailbox = {.state = EMPTY};
    struct producer producer = {&mailbox, items, work_us};
    struct umbra_wait_stats stats;
    uint64_t start, burned, elapsed, sum;
    pthread_t thread;
    int error;

    mailbox.producer = (struct umbra_waiter)UMBRA_WAITER_INIT(policy);
    mailbox.consumer = (struct umbra_waiter)UMBRA_WAITER_INIT(policy);
    error = pthread_create(&thread, NULL, produce, &producer);
    if (error) {
        fprintf(stderr, "two_phase_wait: no thread: %s\n", strerror(error));
        return 1;
    }
    start = umbra_now_ns();
    burned = processor_time_ns();
    sum = consume(&mailbox, items);
    burned = processor_time_ns() - burned;
    elapsed = umbra_now_ns() - start;
    pthread_join(thread, NULL);
    stats = umbra_waiter_stats(&mailbox.consumer);
    report(&producer, &stats, elapsed, burned);
    if (sum == (uint64_t)items * (items + 1) / 2)
        return 0;
    fprintf(stderr, "two_phase_wait: wrong sum %llu\n", (unsigned long long)sum);
    return 1;
}

/* ---- options ---- */

static bool read_mode(const char *name, void *mode)
{
    for (size_t i = 0; i < sizeof mode_names / sizeof *mode_names; i++)
        if (strcmp(name, mode_names[i]) == 0) {
            *(enum umbra_wait_mode *)mode = (enum umbra_wait_mode)i;
            return true;
        }
    return false;
}

static void read_options(int argc, char **argv, struct options *options)
{
    const struct option_row rows[] = {
        {"--items", "N", "numbers to hand over (default: 200)",
         .number = {&options->items, 1, 1000000000}, .wrong = "not a number of items"},
        {"--work-us", "N[,N...]", "the producer's work on each, in us (default: 0,1,20,200,5000)",
         .number = {options->works_us.number, 0, MOST_WORK_US}, .count = &options->works_us.count,
         .wrong = "not a list of microseconds, 16 at most, 1000000 each"},
        {"--wait", "MODE", "two-phase (default), spin, monitor or park",
         .by = {read_mode, &options->mode},
         .wrong = "no such way to wait (two-phase, spin, monitor, park)"},
        {.name = NULL},
    };
    const struct options_table table = {
        .usage = "two_phase_wait: how waits end, and what they burn\n\n",
        .column = 23,
        .surplus = "unknown argument",
        .rows = rows,
    };

    options_read(&table, argc, argv);
}

int main(int argc, char **argv)
{
    struct options options = {.items = 200, .works_us = {{0, 1, 20, 200, 5000}, .count = 5}};
    struct umbra_wait_policy policy;
    int status = 0, error;

    read_options(argc, argv, &options);
    error = umbra_wait_policy_init(&policy, &(struct umbra_wait_options){.mode = options.mode});
    if (error) {
        const char *forced = getenv("UMBRA_WAIT");

        refuse(forced ? forced : "", "UMBRA_WAIT cannot be used here");
    }
    printf("%zu numbers each, %s\n\n%10s %8s %8s %8s %12s %10s %10s\n", options.items,
           mode_names[options.mode], "work, us", "spin", "monitor", "park", "us a number",
           "burned, ms", "of elapsed");
    sched_getaffinity(0, sizeof(usable), &usable);
    place(0);
    for (size_t i = 0; i < options.works_us.count; i++)
        status |= run(&policy, options.items, options.works_us.number[i]);
    return status;
}
