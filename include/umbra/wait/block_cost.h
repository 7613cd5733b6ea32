/* SPDX-License-Identifier: BSL-1.0 */
/*
 * When a wait should give up its processor: after twice what blocking costs. That cost is the time
 * from a wake-up call in one thread until the woken thread runs. It is measured once per process
 * (2 us on bare metal, 22 us on an idle virtual machine were seen). Private.
 *
 * A wait of once that cost would be the best bound in hindsight (Karlin et al.). But then two
 * threads that hand over to each other would park at every turn: the parked thread needs just that
 * long to wake up and answer, and then finds the other thread parked. After twice the cost the
 * other thread is still awake and answers at once, and both threads are back in their spin phase.
 */
#ifndef UMBRA_WAIT_BLOCK_COST_H
#define UMBRA_WAIT_BLOCK_COST_H

#include <pthread.h>
#include <stdlib.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/os/os.h>
#include <umbra/os/run_once.h>
#include <umbra/wait/monitor.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* When a wait sleeps, at the latest: between this and UM_BLOCK_LEAST_NS the measured cost of a
 * wake-up decides. The cost where one processor is allowed: a virtual machine's, since every wait
 * should sleep soon there. */
#define UM_BLOCK_MOST_NS 200000
#define UM_BLOCK_UNMEASURED_NS 20000

/* The measured cost, made once. */
struct um_block {
    struct um_run_once once;
    uint64_t ns;
};

UM_SHARED(struct um_block um_block, {{UM_RUN_NEVER}, 0});

UM_LINKONCE UM_COLD void um_block_init(void);

/* How long a wake-up through the kernel takes, ns. Any thread; the first call blocks: it
 * measures. */
UM_INLINE uint64_t um_block_ns(void)
{
    um_once_in_process(&um_block.once, um_block_init);
    return um_block.ns;
}

#ifdef UMBRA_IMPLEMENTATION

#define UM_BLOCK_TRIALS 9
#define UM_BLOCK_LEAST_NS 5000  /* when a wait sleeps, at the soonest */
#define UM_BLOCK_PAUSE_NS 10000 /* in which the partner falls asleep: 1 to 2 us are seen */

/* Two words that carry the trial's number there and back, and the result. */
struct um_block_probe {
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u32 there; /* written by the measuring thread */
    UM_ALIGNED(UMBRA_CACHE_LINE) um_atomic_u32 back;  /* written by its partner */
    uint64_t woken_ns;                                /* by the partner, before back: when it ran */
    bool apart;                                       /* by the partner: two processors exist */
    uint64_t ns;                                      /* measuring thread: the cost, 0: unknown */
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

UM_LINKONCE UM_COLD uint64_t um_block_median(uint64_t took[UM_BLOCK_TRIALS])
{
    qsort(took, UM_BLOCK_TRIALS, sizeof(took[0]), um_compare_u64);
    return took[UM_BLOCK_TRIALS / 2];
}

/* Cycles after which a wait should park, given the cost of a wake-up: twice that, 5 to 200 us. */
UM_LINKONCE UM_COLD uint64_t um_block_cycles(uint64_t cost_ns)
{
    uint64_t ns = 2 * cost_ns;

    ns = ns < UM_BLOCK_LEAST_NS ? UM_BLOCK_LEAST_NS : ns;
    return um_ns_to_cycles(ns > UM_BLOCK_MOST_NS ? UM_BLOCK_MOST_NS : ns);
}

UM_LINKONCE UM_COLD void *um_block_partner(void *arg)
{
    struct um_block_probe *probe = arg;

    probe->apart = um_os_bind_nth(1) != -ENODEV;
    for (uint32_t trial = 1; trial <= UM_BLOCK_TRIALS; trial++) {
        um_block_await(&probe->there, trial);
        probe->woken_ns = um_os_now_ns();
        um_block_send(&probe->back, trial);
    }
    return NULL;
}

/* Until the partner, which has just answered, has fallen asleep. */
UM_LINKONCE UM_COLD void um_block_pause(void)
{
    uint64_t begin = um_os_now_ns();

    while (um_os_now_ns() - begin < UM_BLOCK_PAUSE_NS) {
    }
}

/*
 * Median time from the wake-up call until the partner runs, between two threads bound to two
 * processors: unbound, the system may put both on one processor, where a wake-up costs a tenth. The
 * partner sleeps before each call: two threads that answer each other at once may both stay awake,
 * and a round trip then costs less than one wake-up.
 */
UM_LINKONCE UM_COLD void *um_block_measure(void *arg)
{
    struct um_block_probe *probe = arg;
    uint64_t took[UM_BLOCK_TRIALS];
    pthread_t partner;

    if (pthread_create(&partner, NULL, um_block_partner, probe) != 0)
        return NULL;
    um_os_bind_nth(0);
    for (uint32_t trial = 1; trial <= UM_BLOCK_TRIALS; trial++) {
        uint64_t start;

        um_block_pause();
        start = um_os_now_ns();
        um_block_send(&probe->there, trial);
        um_block_await(&probe->back, trial);
        took[trial - 1] = probe->woken_ns - start;
    }
    pthread_join(partner, NULL);
    probe->ns = probe->apart ? um_block_median(took) : 0;
    return NULL;
}

UM_LINKONCE UM_COLD void um_block_init(void)
{
    struct um_block_probe probe = {0};
    pthread_t measuring;

    if (pthread_create(&measuring, NULL, um_block_measure, &probe) == 0)
        pthread_join(measuring, NULL);
    um_block.ns = probe.ns ? probe.ns : UM_BLOCK_UNMEASURED_NS;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
