/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What it costs to block: the time from a wake-up call in one thread until the other one runs,
 * measured once per process, because it decides when a wait should give up spinning (2 us on bare
 * metal, 22 us on an idle virtual machine were seen). Private.
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
#define UM_BLOCK_UNMEASURED_NS 25000

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

/* Median of half a round trip in which both sides sleep. */
UM_LINKONCE UM_COLD uint64_t um_block_measure(void)
{
    struct um_block_probe probe = {0};
    uint64_t took[UM_BLOCK_TRIALS];
    pthread_t partner;

    if (pthread_create(&partner, NULL, um_block_partner, &probe) != 0)
        return UM_BLOCK_UNMEASURED_NS;
    for (uint32_t trial = 1; trial <= UM_BLOCK_TRIALS; trial++) {
        uint64_t start = um_os_now_ns();

        um_block_send(&probe.there, trial);
        um_block_await(&probe.back, trial);
        took[trial - 1] = (um_os_now_ns() - start) / 2;
    }
    pthread_join(partner, NULL);
    qsort(took, UM_BLOCK_TRIALS, sizeof(took[0]), um_compare_u64);
    return took[UM_BLOCK_TRIALS / 2];
}

/* The measured cost, made once. */
struct um_block {
    pthread_once_t once;
    uint64_t ns;
};

UM_LINKONCE struct um_block um_block = {PTHREAD_ONCE_INIT, 0};

UM_LINKONCE UM_COLD void um_block_init(void)
{
    uint64_t ns = um_block_measure();

    ns = ns < UM_BLOCK_LEAST_NS ? UM_BLOCK_LEAST_NS : ns;
    um_block.ns = ns > UM_BLOCK_MOST_NS ? UM_BLOCK_MOST_NS : ns;
}

/* Nanoseconds that a wake-up through the kernel takes, within 5 to 200 us. */
UM_INLINE uint64_t um_block_ns(void)
{
    pthread_once(&um_block.once, um_block_init);
    return um_block.ns;
}

#endif
