/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The dining philosophers, who deadlock, and the runtime that tells. Each picks up the fork to the
 * left, raises it to the others until all at the table have one (or are tired of it), and waits for
 * the fork to the right; each fork is an auto-reset event that is signaled while it lies on the table.
 * With --polite one waits behind the chairs, a semaphore, until another has eaten, and all eat.
 *
 *     philosophers [--polite] [SEATS]
 *
 * Exit status: 0 all have eaten; 3 deadlock, after the runtime printed who waits for what; 1
 * something else failed; 2 bad argument.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/sync.h>

#define SEATS_MOST 1000
#define PATIENCE_NS UINT64_C(20000000000)

static _Alignas(UMBRA_CACHE_LINE) struct umbra_semaphore chairs;
static _Alignas(UMBRA_CACHE_LINE) struct umbra_latch raised; /* until all forks are */
static _Alignas(UMBRA_CACHE_LINE) struct umbra_event fork_at[SEATS_MOST];
static unsigned long seats = 5;

static void *philosopher(void *arg)
{
    unsigned long seat = (unsigned long)(uintptr_t)arg;
    unsigned long left = seat, right = (seat + 1) % seats;
    int error = umbra_semaphore_wait(&chairs, UMBRA_NEVER);

    if (error != 0)
        return NULL;
    umbra_event_wait(&fork_at[left], UMBRA_NEVER);
    umbra_latch_count_down(&raised);
    /* not all may come: then the others go on after a while */
    error = umbra_latch_wait(&raised, umbra_deadline(PATIENCE_NS));
    if (error == 0 || error == -ETIMEDOUT) {
        umbra_event_wait(&fork_at[right], UMBRA_NEVER);
        printf("philosopher %lu eats\n", seat);
        umbra_event_signal(&fork_at[right]);
    }
    umbra_event_signal(&fork_at[left]);
    umbra_semaphore_post(&chairs, 1);
    return NULL;
}

static void *table(void *arg)
{
    unsigned cores = umbra_runtime_cores(umbra_runtime_self());

    for (unsigned long seat = 0; seat < seats; seat++) {
        char name[UMBRA_FIBER_NAME_BYTES];
        struct umbra_spawn_options options = {
            .where = UMBRA_ON_CORE, .core = seat % cores, .name = name};

        snprintf(name, sizeof(name), "philosopher %u", (unsigned)seat);
        if (umbra_spawn_with(NULL, &options, philosopher, (void *)(uintptr_t)seat, NULL) != 0)
            *(int *)arg = 1;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    bool polite = false;
    int status = 0;
    int error;

    for (int i = 1; i < argc; i++) {
        char *end;

        if (strcmp(argv[i], "--polite") == 0) {
            polite = true;
            continue;
        }
        seats = strtoul(argv[i], &end, 10);
        if (*end || seats < 2 || seats > SEATS_MOST) {
            fprintf(stderr, "philosophers: not a number of seats, 2 to %d: '%s'\n", SEATS_MOST,
                    argv[i]);
            return 2;
        }
    }
    chairs = (struct umbra_semaphore)UMBRA_SEMAPHORE_INIT(polite ? seats - 1 : seats);
    raised = (struct umbra_latch)UMBRA_LATCH_INIT(polite ? seats - 1 : seats);
    for (unsigned long i = 0; i < seats; i++) {
        fork_at[i] = (struct umbra_event)UMBRA_EVENT_INIT;
        umbra_event_signal(&fork_at[i]);
    }
    error = umbra_run(NULL, table, &status);
    if (error == -EDEADLK)
        return 3;
    if (error)
        fprintf(stderr, "philosophers: %s\n", umbra_last_error_text());
    return error ? 1 : status;
}
