/* SPDX-License-Identifier: BSL-1.0 */
/*
 * When a wait should give up its processor: after twice what blocking costs, that is, the time from
 * a wake-up call in one thread until the other one runs. Measured once per process (2 us on bare
 * metal, 22 us on an idle virtual machine were seen). Private.
 *
 * Once that cost would be the best bound in hindsight (Karlin et al.), but two threads that hand
 * over to each other would then never leave the kernel again: the one that has parked needs just
 * that long to wake up and answer, and finds the other one parked. Twice, and the other still waits
 * awake, answers at once, and both are back in their spin phase.
 */
#ifndef UMBRA_DETAIL_BLOCK_H
#define UMBRA_DETAIL_BLOCK_H

#include <pthread.h>
#include <stdlib.h>

#include <umbra/cpu.h>
#include <umbra/detail/atomic.h>
#include <umbra/detail/backend.h>
#include <umbra/detail/base.h>
#include <umbra/detail/os.h>

#define UM_BLOCK_TRIALS 9
#define UM_BLOCK_LEAST_NS 5000
#define UM_BLOCK_MOST_NS 200000
#define UM_BLOCK_UNMEASURED_NS 20000

/* Two words that carry the trial's number there and back. */
struct um_block_probe {
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u32 there; /* written by the measuring thread */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u32 back;  /* written by its partner */
};

UM_LINKONCE UM_COLD void um_block_await(um_atomic_u32 *word, uint32_t trial)
{
    /* acquire: pairs with the release in um_block_send */
    while (um_atomic_load(word, acquire) != trial)
        um_os_futex_wait(word, trial - 1, UMBRA_NEVER);
}

UM_LINKONCE UM_COLD void um_block_send(um_atomic_u32 *word, uint32_t trial)
{
    um_atomic_store(word, trial, release); /* release: pairs with the acquire in um_block_await */
    um_os_futex_wake(word);
}

UM_LINKONCE UM_COLD void *um_block_partner(void *arg)
{
    struct um_block_probe *probe = arg;

    for (uint32_t trial = 1; trial <= UM_BLOCK_TRIALS; trial++) {
        um_block_await(&probe->there, trial);
        um_block_send(&probe->back, trial);
    }
    return NULL;
}

UM_LINKONCE UM_COLD uint64_t um_block_median(uint64_t took[UM_BLOCK_TRIALS])
{
    qsort(took, UM_BLOCK_TRIALS, sizeof(took[0]), um_compare_u64);
    return took[UM_BLOCK_TRIALS / 2];
}

/* Cycles after which a wait should park, of what a wake-up costs: within 5 to 200 us. */
UM_LINKONCE UM_COLD uint64_t um_block_cycles(uint64_t cost_ns)
{
    uint64_t ns = 2 * cost_ns;

    ns = ns < UM_BLOCK_LEAST_NS ? UM_BLOCK_LEAST_NS : ns;
    return umbra_ns_to_cycles(ns > UM_BLOCK_MOST_NS ? UM_BLOCK_MOST_NS : ns);
}

/*
 * Median of half a round trip in which both sides sleep. Not where the caller is bound to a single
 * processor: its partner would be bound there too, and wake up ten times as fast as elsewhere.
 */
UM_LINKONCE UM_COLD uint64_t um_block_measure(void)
{
    struct um_block_probe probe = {0};
    uint64_t took[UM_BLOCK_TRIALS];
    pthread_t partner;

    if (um_os_pinned() || pthread_create(&partner, NULL, um_block_partner, &probe) != 0)
        return UM_BLOCK_UNMEASURED_NS;
    for (uint32_t trial = 1; trial <= UM_BLOCK_TRIALS; trial++) {
        uint64_t start = um_os_now_ns();

        um_block_send(&probe.there, trial);
        um_block_await(&probe.back, trial);
        took[trial - 1] = (um_os_now_ns() - start) / 2;
    }
    pthread_join(partner, NULL);
    return um_block_median(took);
}

/* The measured cost, made once. */
struct um_block {
    pthread_once_t once;
    uint64_t ns;
};

UM_LINKONCE struct um_block um_block = {PTHREAD_ONCE_INIT, 0};

UM_LINKONCE UM_COLD void um_block_init(void)
{
    um_block.ns = um_block_measure();
}

/* Nanoseconds that a wake-up through the kernel takes in this process. */
UM_INLINE uint64_t um_block_ns(void)
{
    pthread_once(&um_block.once, um_block_init);
    return um_block.ns;
}

#endif
