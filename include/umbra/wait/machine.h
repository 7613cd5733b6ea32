/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What this process knows of the machine it runs on, as far as waits depend on it. All of it is
 * measured at most once, by wait/monitor.h (the back end) and wait/probe.h (the rest). A library that
 * must begin fast puts it off: until then waits are as where nothing can be measured. Private, but tools and reports show it.
 */
#ifndef UMBRA_WAIT_MACHINE_H
#define UMBRA_WAIT_MACHINE_H

#include <umbra/arch/backends.h>
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/os/run_once.h>
#include <umbra/wait/gap.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* What two processors share, as far as gaps depend on it. */
enum umbra_poll_pair { UMBRA_PAIR_CORE, UMBRA_PAIR_L3, UMBRA_PAIR_FARTHER, UMBRA_PAIRS };

/* For each gap the median of one hand-over there and back, in 1/16 cycles of the time stamp; 0: not
 * measured. */
struct um_figures {
    uint32_t of[UM_GAPS];
};

#define UM_PAIR_UNKNOWN 0u
#define UM_PAIR_PROBED 1u /* by the thread that set it */
#define UM_PAIR_KNOWN 2u

/* What was measured for a place between two processors of a kind. */
struct um_pair {
    um_atomic_u32 state; /* UM_PAIR_*: the thread that finds UNKNOWN writes the rest */
    uint32_t gap;
    struct um_figures figures;
};

struct um_machine {
    struct um_run_once backend_once; /* for the next */
    enum umbra_wait_backend backend; /* chosen automatically */
    um_atomic_u32 put_off;           /* 1: nothing is measured now */
    struct um_run_once wake_once;    /* for the next */
    uint64_t wake_ns;                /* what a wake-up through the kernel costs */
    struct um_pair pair[UMBRA_PAIRS][UMBRA_POLL_PLACES];
};

UM_SHARED(struct um_machine um_machine, {.backend = UMBRA_BACKEND_PAUSE});

/* True while measurements are put off. relaxed: a thread that sees it late measures, or does not */
UM_INLINE bool um_machine_is_put_off(void)
{
    return um_atomic_load(&um_machine.put_off, relaxed) != 0;
}

UM_INLINE void um_machine_put_off(bool put_off)
{
    um_atomic_store(&um_machine.put_off, put_off, relaxed); /* as the load */
}

/* What the two processors of a pair share. */
UM_INLINE const char *um_pair_name(enum umbra_poll_pair pair)
{
    static const char *const names[UMBRA_PAIRS] = {"core", "L3", "less"};

    return names[pair];
}

/* True if a place was measured for a kind of pair. acquire: pairs with um_probe_pair() */
UM_INLINE bool um_pair_known(enum umbra_poll_pair pair, uint32_t place)
{
    return um_atomic_load(&um_machine.pair[pair][place].state, acquire) == UM_PAIR_KNOWN;
}

/* The kind of pair that a thread of which nothing is known makes with another thread. */
UM_INLINE enum umbra_poll_pair um_pair_of_threads(void)
{
    return um_pair_known(UMBRA_PAIR_FARTHER, UMBRA_POLL_OTHER) ? UMBRA_PAIR_FARTHER : UMBRA_PAIR_L3;
}

/* The gap of a place: what UMBRA_WAIT forces; else a pause between siblings, since the one's polls
 * slow the other down; else what was measured, or the usual one. Any thread; never blocks. */
UM_LINKONCE UM_COLD uint32_t um_poll_gap(enum umbra_poll_pair pair, uint32_t place);

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD uint32_t um_poll_gap(enum umbra_poll_pair pair, uint32_t place)
{
    struct um_gaps forced;

    if (um_gaps_forced(&forced) == 0 && forced.of[place] < UM_GAPS)
        return forced.of[place];
    if (pair == UMBRA_PAIR_CORE)
        return UMBRA_GAP_PAUSE;
    return um_pair_known(pair, place) ? um_machine.pair[pair][place].gap
                                      : (uint32_t)UMBRA_GAP_USUAL;
}
#endif /* UMBRA_IMPLEMENTATION */

#endif
