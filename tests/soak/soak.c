/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The program that tools/soak runs: all modules at once, for long, on more threads than there are
 * processors, while what goes in and what comes out is counted.
 *
 *     soak SECONDS SEED       half of the seconds each, with a rest after each half
 *
 * In a rest no load runs and all that they started has ended; the runtime stays. So what is in use
 * in the second rest and not in the first has leaked. The program prints a line at a time:
 *
 *     load DONE LOST          about once a second
 *     rest STACKS BYTES       stacks that there are, and what of them is in memory; until a line comes
 *                             on standard input
 *     count NAME ROUNDS DONE REFUSED LOST
 *     wake NAME COUNT P50 P99 P99.9 MOST    nanoseconds
 */
#define _GNU_SOURCE
#include "soak.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define FIBERS_MOST 160u /* that the loads have at a time */

struct umbra_runtime *soak_runtime;
static _Atomic uint64_t end_ns; /* of this half */

void soak_count(struct load *load, const char *what, uint64_t had, uint64_t wanted)
{
    load->done += had;
    if (had == wanted)
        return;
    load->lost += had < wanted ? wanted - had : had - wanted;
    fprintf(stderr, "soak: %s: %s: %llu instead of %llu\n", load->name, what,
            (unsigned long long)had, (unsigned long long)wanted);
}

bool soak_check(struct load *load, const char *what, int error)
{
    if (error == 0)
        return true;
    load->lost++;
    fprintf(stderr, "soak: %s: %s: error %d\n", load->name, what, error);
    return false;
}

/* ---- before ---- */

static void *waits(void *arg)
{
    umbra_event_wait(arg, UMBRA_NEVER);
    return NULL;
}

/* Has more fibers at a time, on each core, than the loads ever do: stacks are kept, so that later
 * their number grows only if some are lost. */
static void have_all_stacks(void)
{
    struct umbra_event all = UMBRA_EVENT_INIT_MANUAL;

    for (unsigned i = 0; i < CORES * FIBERS_MOST; i++) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = i % CORES};

        soak_check(&soak_loads[0], "spawn",
                   umbra_spawn_with(soak_runtime, &there, waits, &all, NULL));
    }
    umbra_event_signal(&all);
    soak_check(&soak_loads[0], "end of the runtime", umbra_runtime_wait(soak_runtime));
}

/* ---- a half ---- */

static bool is_over(void)
{
    return umbra_now_ns() >= end_ns;
}

/* Between rounds cores may become idle. */
static uint64_t pause_ns(struct load *load)
{
    return soak_random(&load->random) % 4000000;
}

static void *repeat_in_fiber(void *arg)
{
    struct load *load = arg;

    for (; !is_over(); load->rounds++) {
        load->round(load);
        soak_check(load, "sleep", umbra_sleep_ns(pause_ns(load)));
    }
    return NULL;
}

static void *repeat_in_thread(void *arg)
{
    struct load *load = arg;

    for (; !is_over(); load->rounds++) {
        struct timespec pause = {.tv_nsec = (long)pause_ns(load)};

        load->round(load);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static pthread_t start_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, fn, arg) != 0) {
        fprintf(stderr, "soak: no thread\n");
        exit(1);
    }
    return thread;
}

static void *tell(void *arg)
{
    (void)arg;
    while (!is_over()) {
        unsigned long long done = 0, lost = 0;

        for (unsigned i = 0; i < soak_load_count; i++) {
            done += soak_loads[i].done;
            lost += soak_loads[i].lost;
        }
        printf("load %llu %llu\n", done, lost);
        fflush(stdout);
        nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    }
    return NULL;
}

/* Runs all loads; returns when all that they started has ended. */
static void run_half(uint64_t ns)
{
    pthread_t teller, thread[64];

    end_ns = umbra_deadline(ns);
    teller = start_thread(tell, NULL);
    for (unsigned i = 0; i < soak_load_count; i++) {
        struct load *load = &soak_loads[i];
        struct umbra_spawn_options there = {
            .where = UMBRA_ON_CORE, .core = i % CORES, .name = load->name};

        if (load->outside)
            thread[i] = start_thread(repeat_in_thread, load);
        else
            soak_check(load, "spawn",
                       umbra_spawn_with(soak_runtime, &there, repeat_in_fiber, load, NULL));
    }
    pthread_join(teller, NULL);
    for (unsigned i = 0; i < soak_load_count; i++)
        if (soak_loads[i].outside)
            pthread_join(thread[i], NULL);
    soak_check(&soak_loads[0], "end of the runtime", umbra_runtime_wait(soak_runtime));
}

/* ---- a rest ---- */

static size_t slab_bytes(const struct um_slab *slab)
{
    size_t bytes = slab->slots * slab->slot_bytes;
    size_t pages = bytes / um_os_page_bytes();
    unsigned char *in_memory = malloc(pages);
    size_t count = 0;

    if (!in_memory || mincore(slab->base, bytes, in_memory) != 0)
        exit(1);
    for (size_t i = 0; i < pages; i++)
        count += in_memory[i] & 1;
    free(in_memory);
    return count * um_os_page_bytes();
}

static void print_stacks(void)
{
    unsigned long long stacks = 0, bytes = 0;

    for (struct um_slab *slab = um_slabs.first; slab; slab = slab->listed) {
        stacks += slab->slots;
        bytes += slab_bytes(slab);
    }
    printf("rest %llu %llu\n", stacks, bytes);
    fflush(stdout);
}

static void rest(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    do
        print_stacks();
    while (poll(&input, 1, 500) <= 0);
    if (getchar() == EOF)
        exit(1);
}

static void print_counts(void)
{
    for (unsigned i = 0; i < soak_load_count; i++) {
        struct load *load = &soak_loads[i];

        printf("count %s %llu %llu %llu %llu\n", load->name, (unsigned long long)load->rounds,
               (unsigned long long)load->done, (unsigned long long)load->refused,
               (unsigned long long)load->lost);
    }
}

int main(int argc, char **argv)
{
    struct umbra_options options = {
        .cores = CORES, .oversubscribe = true, .blocking_threads = 4, .dump_signal = SIGUSR1};
    double seconds = argc == 3 ? strtod(argv[1], NULL) : 0;
    uint64_t seed = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    int error;

    if (!(seconds > 0 && seed > 0)) {
        fprintf(stderr, "soak: wanted: SECONDS SEED\n");
        return 2;
    }
    for (unsigned i = 0; i < soak_load_count; i++)
        soak_loads[i].random = seed * (2 * i + 1);
    error = umbra_runtime_create(&options, &soak_runtime);
    if (error) {
        fprintf(stderr, "soak: %s\n", umbra_last_error_text());
        return 1;
    }
    have_all_stacks();
    for (int half = 0; half < 2; half++) {
        run_half((uint64_t)(seconds / 2 * 1e9));
        rest();
    }
    print_counts();
    wakes_print();
    return umbra_runtime_destroy(soak_runtime) == 0 ? 0 : 1;
}
