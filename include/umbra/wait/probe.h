/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Measures what waits depend on (wait/machine.h), between two threads of the library on two
 * processors, with words that they hand to each other. Private.
 *
 *   wake-up   once a process, on the first two processors that the caller may use: the time from a
 *             wake-up call in one thread until the woken thread runs (2 us on bare metal, 22 us on
 *             an idle virtual machine were seen)
 *   slot      once a process and kind of pair, when a shadow or a team is made: a hand-over there
 *             and back over one line, as theirs
 *   other     once a process and kind of pair, when a runtime is made: the same over two lines, one
 *             each way, as of an event, an inbox or a word
 *
 * A wait should give up its processor after twice what a wake-up costs. A wait of once that cost
 * would be the best bound in hindsight (Karlin et al.). But then two threads that hand over to each
 * other would park at every turn: the parked thread needs just that long to wake up and answer, and
 * then finds the other thread parked. After twice the cost the other thread is still awake and
 * answers at once, and both threads are back in their spin phase.
 *
 * Gaps. A round has one batch of hand-overs for each gap, so that all gaps meet the same moments of
 * the machine. A round with a batch that was interrupted does not count. After some rounds only the
 * usual gap and those that were the fastest go on: the others would take half of the time. Of the
 * rounds that count, each gap's median is taken. The usual gap is given up only if enough rounds
 * count and another gap is faster by a sixteenth. So a machine that is busy keeps the usual gaps,
 * and the next shadow, team or runtime measures again. Siblings are not measured: they pause.
 *
 * Callers. Any thread; none switches fibers. The calls block while they measure, and the caller's
 * own binding stays as it is. A caller that comes while another thread measures the same
 * place uses the usual gaps, and so does a child of fork(2) that is made meanwhile. No call fails:
 * where nothing can be measured, a default stays.
 */
#ifndef UMBRA_WAIT_PROBE_H
#define UMBRA_WAIT_PROBE_H

#include <pthread.h>
#include <sched.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/os/os.h>
#include <umbra/os/run_once.h>
#include <umbra/wait/gap.h>
#include <umbra/wait/machine.h>
#include <umbra/wait/monitor.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* When a wait sleeps, at the latest: between this and UM_BLOCK_LEAST_NS the measured cost of a
 * wake-up decides. The cost where one processor is allowed: a virtual machine's, since every wait
 * should sleep soon there. */
#define UM_BLOCK_MOST_NS 200000
#define UM_BLOCK_UNMEASURED_NS 20000

UM_LINKONCE UM_COLD void um_wake_measure(void);

/* How long a wake-up through the kernel takes, ns. Any thread; the first call blocks for about a
 * millisecond: it measures. */
UM_INLINE uint64_t um_wake_ns(void)
{
    if (um_machine_is_put_off())
        return UM_BLOCK_UNMEASURED_NS;
    um_once_in_process(&um_machine.wake_once, um_wake_measure);
    return um_machine.wake_ns;
}

/* Measures a place for a kind of pair on two processors of that kind, unless it is known or put off,
 * or UMBRA_WAIT forces its gap. Any thread; blocks for at most 1 ms, interruptions apart. */
UM_LINKONCE UM_COLD void um_probe_pair(enum umbra_poll_pair pair, uint32_t place, int cpu,
                                       int other);

/*
 * How many hand-overs are in a batch. The first two thirds are not timed: it takes some 60 until
 * the processor predicts the ends of the loops that poll. With 4 that were not timed, the gap that
 * is best in the long run was measured as the worst.
 */
struct um_tune_size {
    int warm;  /* not timed */
    int turns; /* timed, after those */
};

/* Measures a batch of hand-overs with a gap. Returns the time of one, 1/16 cycles; 0: the batch was
 * interrupted. */
typedef uint32_t um_tune_batch(void *trial, uint32_t gap);

#define UM_TUNE_NS 900000   /* the most that a choice may take; 700 to 800 us are seen */
#define UM_PROBE_NS 2000000 /* neither thread of a probe waits longer: one may begin late */
#define UM_TUNE_ROUNDS 9
#define UM_TUNE_ROUNDS_LEAST 4
#define UM_TUNE_ROUNDS_ALL 3 /* of all gaps; then the fastest go on */
#define UM_TUNE_FASTEST 3    /* so many, and the usual one */
#define UM_TUNE_GAIN 16      /* the usual gap is given up for one part in so many */

/* A batch was interrupted if its timed part takes longer: some twenty times what that takes. */
#define UM_TUNE_MOST_NS 100000

/* Length of a batch: a scheduler's turn is far longer. It has 12 to 96 hand-overs, of which the
 * last third is timed. */
#define UM_TUNE_BATCH_NS 14000
#define UM_TUNE_TURNS_LEAST 12
#define UM_TUNE_TURNS_MOST 96

/* Measures all gaps in turn until a time stamp, and chooses one. Returns `usual` if none is
 * faster by a sixteenth, or if too few rounds were left alone. figures: their medians. */
UM_LINKONCE UM_COLD uint32_t um_tune(um_tune_batch *batch, void *trial, uint32_t usual,
                                     uint64_t deadline, struct um_figures *figures);

/* The size of batches, if one hand-over takes so many 1/16 cycles. */
UM_LINKONCE UM_COLD struct um_tune_size um_tune_fit(uint32_t took);

/* What a batch took, for um_tune_batch; 0: it was interrupted. */
UM_LINKONCE UM_COLD uint32_t um_tune_took(uint64_t cycles, struct um_tune_size size);

#ifdef UMBRA_IMPLEMENTATION

/* ---- one choice ---- */

/* The measurements of a choice. */
struct um_tuning {
    uint64_t took[UM_GAPS][UM_TUNE_ROUNDS];
    struct um_figures medians; /* of the rounds that count */
    uint32_t rounds;           /* that count */
    uint32_t some;             /* the gaps that go on, a bit each */
};

/* One round. `turn` says with which gap it begins. False: it does not count. */
UM_LINKONCE UM_COLD bool um_tune_round(um_tune_batch *batch, void *trial, uint32_t turn,
                                       uint64_t deadline, struct um_tuning *tuning)
{
    for (uint32_t i = 0; i < UM_GAPS; i++) {
        uint32_t gap = (i + turn) % UM_GAPS;
        uint64_t *took = &tuning->took[gap][tuning->rounds];

        if (um_gap_name(gap) == NULL || !(tuning->some >> gap & 1))
            continue;
        *took = um_cycles() < deadline ? batch(trial, gap) : 0;
        if (*took == 0)
            return false;
    }
    tuning->rounds++;
    for (uint32_t gap = 0; gap < UM_GAPS; gap++)
        if (um_gap_name(gap) != NULL && (tuning->some >> gap & 1))
            tuning->medians.of[gap] = (uint32_t)um_median(tuning->took[gap], tuning->rounds);
    return true;
}

/* The fastest of some gaps, a bit each, of which one at least was measured. */
UM_LINKONCE UM_COLD uint32_t um_tune_fastest(const struct um_figures *figures, uint32_t some)
{
    uint32_t best = UM_GAPS;

    for (uint32_t gap = 0; gap < UM_GAPS; gap++)
        if ((some >> gap & 1) && figures->of[gap] != 0 &&
            (best == UM_GAPS || figures->of[gap] < figures->of[best]))
            best = gap;
    return best;
}

UM_LINKONCE UM_COLD uint32_t um_tune(um_tune_batch *batch, void *trial, uint32_t usual,
                                     uint64_t deadline, struct um_figures *figures)
{
    struct um_tuning tuning = {.some = UINT32_MAX};
    uint32_t lost = 0, best;

    *figures = tuning.medians;
    while (tuning.rounds < UM_TUNE_ROUNDS && lost < UM_TUNE_ROUNDS && um_cycles() < deadline) {
        if (!um_tune_round(batch, trial, tuning.rounds + lost, deadline, &tuning))
            lost++;
        if (tuning.rounds != UM_TUNE_ROUNDS_ALL)
            continue;
        tuning.some = 1u << usual;
        for (int i = 0; i < UM_TUNE_FASTEST; i++)
            tuning.some |= 1u << um_tune_fastest(&tuning.medians, ~tuning.some);
    }
    if (tuning.rounds < UM_TUNE_ROUNDS_LEAST || tuning.rounds <= lost)
        return usual;
    *figures = tuning.medians;
    best = um_tune_fastest(figures, tuning.some);
    return figures->of[best] < figures->of[usual] - figures->of[usual] / UM_TUNE_GAIN ? best
                                                                                      : usual;
}

UM_LINKONCE UM_COLD struct um_tune_size um_tune_fit(uint32_t took)
{
    uint64_t turns = took ? um_ns_to_cycles(UM_TUNE_BATCH_NS) * 16 / took : 0;

    turns = turns < UM_TUNE_TURNS_LEAST ? UM_TUNE_TURNS_LEAST : turns;
    turns = turns > UM_TUNE_TURNS_MOST ? UM_TUNE_TURNS_MOST : turns;
    return (struct um_tune_size){(int)(turns - turns / 3), (int)(turns / 3)};
}

UM_LINKONCE UM_COLD uint32_t um_tune_took(uint64_t cycles, struct um_tune_size size)
{
    if (cycles > um_ns_to_cycles(UM_TUNE_MOST_NS))
        return 0;
    return (uint32_t)(cycles * 16 / (uint64_t)size.turns) + 1; /* so it is never 0 */
}

/* ---- two threads ---- */

#define UM_WAKE_TRIALS 5
#define UM_WAKE_PAUSE_NS 10000 /* in which the partner falls asleep: 1 to 2 us are seen */
#define UM_POLLS_TIMED 4
#define UM_PROBE_LOOKS 4096 /* between two yields, which an interrupted partner may need */

/* A batch of hand-overs. */
struct um_probe_batch {
    uint32_t gap;
    um_atomic_u32 *answer;    /* `back`, or `there` for a slot */
    struct um_tune_size size; /* no turns: the partner ends */
};

/* What caller and partner, two threads that the library starts, share. */
struct um_probe {
    /* numbers that never come again */
    UM_ALIGNED(2 * UMBRA_CACHE_LINE) um_atomic_u32 there; /* caller writes; partner, too: a slot */
    UM_ALIGNED(2 * UMBRA_CACHE_LINE) um_atomic_u32 back;  /* partner writes */
    UM_ALIGNED(2 * UMBRA_CACHE_LINE) um_atomic_u32 begun; /* batches; caller counts them up */
    struct um_probe_batch batch; /* caller, before it counts up; the partner copies it after */
    struct um_probe_batch next;  /* caller: what the next batch will be */
    UM_ALIGNED(2 * UMBRA_CACHE_LINE) struct um_pair *pair; /* NULL: a wake-up is measured */
    int cpu[2];                                            /* of caller and partner */
    uint64_t deadline; /* a time stamp: neither waits longer; fixed */
    uint32_t number;   /* caller: the last one on the words */
    bool late;         /* caller: no answer came in time; the partner may still read `batch` */
    uint64_t woken_ns; /* partner, before an answer: when it ran */
    bool bound;        /* partner, before its first answer: it is bound */
    bool done;         /* caller: all was measured */
};

/* ---- a wake-up ---- */

/* The word is a trial's number; the reader sleeps until it is this one's. */
UM_LINKONCE UM_COLD void um_wake_await(um_atomic_u32 *word, uint32_t trial)
{
    /* acquire: pairs with the release in um_wake_send */
    while (um_atomic_load(word, acquire) != trial)
        um_os_futex_wait(word, trial - 1, UMBRA_NEVER);
}

UM_LINKONCE UM_COLD void um_wake_send(um_atomic_u32 *word, uint32_t trial)
{
    um_atomic_store(word, trial, release); /* release: pairs with the acquire in um_wake_await */
    um_os_futex_wake(word);
}

UM_LINKONCE UM_COLD void um_wake_answer(struct um_probe *probe)
{
    for (uint32_t trial = 1; trial <= UM_WAKE_TRIALS; trial++) {
        um_wake_await(&probe->there, trial);
        probe->woken_ns = um_os_now_ns();
        um_wake_send(&probe->back, trial);
    }
}

/*
 * Median time from the wake-up call until the partner runs. The partner sleeps before each call: it
 * has just answered, and two threads that answer each other at once may both stay awake, so that a
 * round trip costs less than one wake-up.
 */
UM_LINKONCE UM_COLD void um_wake_call(struct um_probe *probe)
{
    uint64_t took[UM_WAKE_TRIALS];

    for (uint32_t trial = 1; trial <= UM_WAKE_TRIALS; trial++) {
        uint64_t start = um_os_now_ns();
        uint64_t begin = start;

        while (start - begin < UM_WAKE_PAUSE_NS)
            start = um_os_now_ns();
        um_wake_send(&probe->there, trial);
        um_wake_await(&probe->back, trial);
        took[trial - 1] = probe->woken_ns - start;
    }
    if (probe->bound)
        um_machine.wake_ns = um_median(took, UM_WAKE_TRIALS);
}

/* ---- gaps ---- */

/* Cost of one poll with a gap, in cycles: least of nine batches on a word that no thread writes. */
UM_LINKONCE UM_COLD uint32_t um_poll_cycles(uint32_t gap)
{
    um_atomic_u32 word = 0;
    uint64_t least = UINT64_MAX;

    for (int trial = 0; trial < 9; trial++) {
        uint64_t took, start = um_arch_cycles();

        um_gap_rest(gap, &word, UM_POLLS_TIMED);
        took = um_arch_cycles() - start;
        least = took < least ? took : least;
    }
    return (uint32_t)(least / UM_POLLS_TIMED) + 1;
}

/* Until a word has a value: true; or, where the two threads seldom run at the same time, until the
 * probe has taken too long, on both sides. acquire: pairs with the stores of the other side. */
UM_LINKONCE UM_COLD bool um_probe_await(const struct um_probe *probe, const um_atomic_u32 *word,
                                        uint32_t value, uint32_t gap)
{
    for (uint32_t looks = 1; um_atomic_load(word, acquire) != value; looks++) {
        if (looks % UM_PROBE_LOOKS == 0) {
            if (um_cycles() >= probe->deadline)
                return false;
            sched_yield();
        }
        um_gap_pass(gap, word);
    }
    return true;
}

UM_LINKONCE UM_COLD void um_probe_answer(struct um_probe *probe)
{
    struct um_probe_batch batch;
    uint32_t number = 0;
    uint32_t begun = 0;

    do {
        if (!um_probe_await(probe, &probe->begun, ++begun, UMBRA_GAP_PAUSE))
            return;
        batch = probe->batch; /* after its last answer it may be the next one's */
        for (int turn = -batch.size.warm; turn < batch.size.turns; turn++) {
            if (!um_probe_await(probe, &probe->there, ++number, batch.gap))
                return;
            um_atomic_store(batch.answer, ++number, seq_cst); /* as in um_slot_run() */
        }
    } while (batch.size.turns > 0);
}

/* Has the partner answer the next batch, or end. False: the partner is late, and ends by itself.
 * release: pairs with um_probe_await(). */
UM_LINKONCE UM_COLD bool um_probe_begin(struct um_probe *probe)
{
    if (probe->late)
        return false;
    probe->batch = probe->next;
    um_atomic_store(&probe->begun, um_atomic_load(&probe->begun, relaxed) + 1, release);
    return true;
}

/* A um_tune_batch. */
UM_LINKONCE UM_COLD uint32_t um_probe_call(void *trial, uint32_t gap)
{
    struct um_probe *probe = (struct um_probe *)trial;
    struct um_probe_batch *batch = &probe->next;
    uint64_t start = 0;

    batch->gap = gap;
    if (!um_probe_begin(probe))
        return 0;
    for (int turn = -batch->size.warm; turn < batch->size.turns; turn++) {
        if (turn == 0)
            start = um_arch_cycles();
        um_atomic_store(&probe->there, ++probe->number, seq_cst); /* as in um_slot_post() */
        if (!um_probe_await(probe, batch->answer, ++probe->number, gap)) {
            probe->late = true;
            return 0;
        }
    }
    return um_tune_took(um_arch_cycles() - start, batch->size);
}

UM_LINKONCE UM_COLD void um_probe_gaps(struct um_probe *probe)
{
    struct um_figures *figures = &probe->pair->figures;

    probe->next.size = um_tune_fit(0);
    probe->next.size = um_tune_fit(um_probe_call(probe, UMBRA_GAP_USUAL));
    probe->pair->gap = um_tune(um_probe_call, probe, UMBRA_GAP_USUAL,
                               um_arch_cycles() + um_ns_to_cycles(UM_TUNE_NS), figures);
    probe->done = figures->of[UMBRA_GAP_USUAL] != 0 && probe->bound;
    probe->next.size = (struct um_tune_size){0, 0};
    um_probe_begin(probe);
}

/* ---- two threads ---- */

UM_LINKONCE UM_COLD void *um_probe_partner(void *arg)
{
    struct um_probe *probe = (struct um_probe *)arg;

    probe->bound = um_os_bind_cpu(probe->cpu[1]) == 0;
    if (probe->pair)
        um_probe_answer(probe);
    else
        um_wake_answer(probe);
    return NULL;
}

UM_LINKONCE UM_COLD void *um_probe_caller(void *arg)
{
    struct um_probe *probe = (struct um_probe *)arg;
    pthread_t partner;

    if (um_os_bind_cpu(probe->cpu[0]) != 0 ||
        pthread_create(&partner, NULL, um_probe_partner, probe) != 0)
        return NULL;
    if (probe->pair)
        um_probe_gaps(probe);
    else
        um_wake_call(probe);
    pthread_join(partner, NULL);
    return NULL;
}

/* Bound to two processors: unbound, the system may put both threads on one, where a wake-up costs a
 * tenth. A caller that is canceled meanwhile would leave its frame to them. */
UM_LINKONCE UM_COLD bool um_probe_run(struct um_pair *pair, uint32_t place, int cpu, int other)
{
    struct um_probe probe = {
        .pair = pair, .cpu = {cpu, other}, .deadline = um_cycles() + um_ns_to_cycles(UM_PROBE_NS)};
    int cancels = PTHREAD_CANCEL_ENABLE;
    uint64_t signals;
    pthread_t caller;
    bool started;

    probe.next.answer = place == UMBRA_POLL_SLOT ? &probe.there : &probe.back;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
    signals = um_os_mask_signals();
    started = pthread_create(&caller, NULL, um_probe_caller, &probe) == 0;
    um_os_unmask_signals(signals);
    if (started)
        pthread_join(caller, NULL);
    pthread_setcancelstate(cancels, &cancels);
    return probe.done;
}

UM_LINKONCE UM_COLD void um_wake_measure(void)
{
    um_machine.wake_ns = UM_BLOCK_UNMEASURED_NS;
    um_probe_run(NULL, 0, um_os_nth_cpu(0), um_os_nth_cpu(1));
}

UM_LINKONCE UM_COLD void um_probe_pair(enum umbra_poll_pair pair, uint32_t place, int cpu,
                                       int other)
{
    struct um_pair *known = &um_machine.pair[pair][place];
    uint32_t unknown = UM_PAIR_UNKNOWN;
    struct um_gaps forced;

    if (um_machine_is_put_off() || um_gaps_forced(&forced) != 0 || forced.of[place] < UM_GAPS)
        return;
    /* acquire: pairs with the release below, of a thread that could not measure */
    if (!um_atomic_cas(&known->state, &unknown, UM_PAIR_PROBED, acquire, relaxed))
        return;
    /* release: pairs with um_pair_known() */
    um_atomic_store(&known->state,
                    um_probe_run(known, place, cpu, other) ? UM_PAIR_KNOWN : UM_PAIR_UNKNOWN,
                    release);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
