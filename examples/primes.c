/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Counts the primes up to a number. A channel of ranges goes from one fiber to the workers, one on
 * each core, and a channel of what they have found comes back. Closing a channel ends those that
 * pop from it: the last worker to end closes the second.
 *
 *     primes [LIMIT]
 *
 * Exit status: 0; 1 something failed; 2 bad argument.
 */
#include <umbra/channel.h>

#include "program.h"

const char program_name[] = "primes";

#define NUMBERS 1000 /* in a range */

struct range {
    unsigned long first, last;
};

struct found {
    unsigned long primes, largest;
};

static UMBRA_CHANNEL(struct range) ranges;
static UMBRA_CHANNEL(struct found) results;
static unsigned long limit = 1000000;
static _Atomic unsigned working; /* workers that have not ended */

static bool is_prime(unsigned long number)
{
    for (unsigned long divisor = 2; divisor * divisor <= number; divisor++)
        if (number % divisor == 0)
            return false;
    return number > 1;
}

static void *works(void *arg)
{
    struct range range;

    while (UMBRA_CHANNEL_POP(&ranges, &range, UMBRA_NEVER) == 0) {
        struct found found = {0, 0};

        for (unsigned long number = range.first; number <= range.last; number++) {
            if (is_prime(number)) {
                found.primes++;
                found.largest = number;
            }
        }
        UMBRA_CHANNEL_PUSH(&results, &found, UMBRA_NEVER);
    }
    if (--working == 0)
        UMBRA_CHANNEL_CLOSE(&results);
    return arg;
}

/* Waits while the workers have enough to do. */
static void *cuts(void *arg)
{
    for (unsigned long first = 1; first <= limit; first += NUMBERS) {
        struct range range = {first, first + NUMBERS - 1};

        if (range.last > limit)
            range.last = limit;
        UMBRA_CHANNEL_PUSH(&ranges, &range, UMBRA_NEVER);
    }
    UMBRA_CHANNEL_CLOSE(&ranges);
    return arg;
}

static void must(int error)
{
    if (error == 0)
        return;
    fprintf(stderr, "primes: %s\n", error_text(error));
    exit(1);
}

static void *run(void *total)
{
    struct found *all = total, found;
    unsigned cores = umbra_runtime_cores(umbra_runtime_self());

    must(UMBRA_CHANNEL_OPEN(&ranges, 16, UMBRA_CHANNEL_MANY));
    must(UMBRA_CHANNEL_OPEN(&results, 16, UMBRA_CHANNEL_MANY));
    working = cores;
    for (unsigned core = 0; core < cores; core++) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = core};

        must(umbra_spawn_with(NULL, &there, works, NULL, NULL));
    }
    must(umbra_spawn(cuts, NULL, NULL));
    while (UMBRA_CHANNEL_POP(&results, &found, UMBRA_NEVER) == 0) {
        all->primes += found.primes;
        if (found.largest > all->largest)
            all->largest = found.largest;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct found all = {0, 0};

    if (argc > 2)
        refuse(argv[2], "unknown argument");
    limit = argc > 1 ? number_of("LIMIT", argv[1], 2, 1000000000) : limit;
    must(umbra_run(NULL, run, &all));
    UMBRA_CHANNEL_FINI(&ranges);
    UMBRA_CHANNEL_FINI(&results);
    printf("%lu primes up to %lu; the largest is %lu\n", all.primes, limit, all.largest);
    return printed(0);
}
