/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Chooses the gap between two polls (wait/gap.h) by measurement, and keeps what was chosen for the
 * whole process. Private, except the report, which umbra/wait.h makes public.
 *
 * What is measured is the real hand-over of a place, between the two threads that will make it:
 * shadow_create() forks to its helper, the start of a runtime makes fibers on two of its cores call
 * each other. A round has one batch of hand-overs for each gap, so that all gaps meet the same
 * moments of the machine. A round with a batch that was interrupted does not count. Of the rounds
 * that count, each gap's median is taken. The usual gap is the one that is used without a
 * measurement. It is given up only if enough rounds count and another gap is faster by a sixteenth.
 * So a machine that is busy, or that has one processor, keeps the usual gaps.
 *
 * What was chosen is kept by what the two processors share, since a line takes longer the farther
 * they are apart. Siblings are not measured: they pause, since the one's polls slow the other down.
 * The first measurement that succeeds is kept, and serves all later shadows and runtimes, in a
 * child of fork(2), too. Threads that measure at the same time use their own results. A runtime
 * that starts while another one measures may keep the usual gap of a place that the other has just
 * found.
 *
 * Callers. Any thread may call any function here, and none switches fibers. um_tune() blocks its
 * caller while it measures; the others never block. No call fails: where nothing can be measured,
 * or a result cannot be kept, the usual gap or the caller's own result is used.
 */
#ifndef UMBRA_WAIT_CHOOSE_GAP_H
#define UMBRA_WAIT_CHOOSE_GAP_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/wait/gap.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* What two processors share, as far as gaps depend on it. */
enum umbra_poll_pair { UMBRA_PAIR_CORE, UMBRA_PAIR_L3, UMBRA_PAIR_FARTHER, UMBRA_PAIRS };

/* What was measured at a place: for each gap the median of one hand-over there and back, in 1/16
 * cycles of the time stamp; 0: not measured. */
struct um_figures {
    uint32_t of[UM_GAPS];
};

/*
 * How many hand-overs are in a batch. The first two thirds are not timed: it takes some 60 until
 * the processor predicts the ends of the loops that poll. With 4 that were not timed, the gap that
 * is best in the long run was measured as the worst.
 */
struct um_tune_size {
    int warm;  /* not timed */
    int turns; /* timed, after those */
};

/* Measures a batch of hand-overs with a gap, or another candidate below UM_GAPS. Returns the time
 * of one, 1/16 cycles; 0: the batch was interrupted. */
typedef uint32_t um_tune_batch(void *trial, uint32_t gap);

/* What was measured of a place, between two processors of a kind. */
struct um_gap_report {
    const char *pair;  /* what the two share: "core", "L3", "less" */
    const char *place; /* as in UMBRA_WAIT, as the next two */
    const char *gap;   /* that was chosen */
    const char *usual;
    unsigned count; /* of those that were measured */
    struct {
        const char *gap;
        double ns; /* median of a hand-over there and back */
    } measured[UM_GAPS];
};

/*
 * True if the place was measured for this kind of pair (below UMBRA_PAIRS and UMBRA_POLL_PLACES),
 * and fills the report. A shadow or a runtime that starts measures; nothing here does. Any thread;
 * never blocks.
 */
UM_LINKONCE UM_COLD bool um_gap_report(unsigned pair, unsigned place, struct um_gap_report *report);

#define UM_TUNE_ALL UINT32_C(0x1f1f) /* a bit for each gap */
#define UM_TUNE_READ UINT32_C(0x1f)  /* of those that do not ask for the line to write */

/*
 * Measures candidates in turn until a time stamp, and chooses one. Returns `usual` if none is
 * faster by a sixteenth, or if too few rounds were left alone. figures: their medians.
 */
UM_LINKONCE UM_COLD uint32_t um_tune(um_tune_batch *batch, void *trial, uint32_t candidates,
                                     uint32_t usual, uint64_t deadline, struct um_figures *figures);

#define UM_TUNE_NS 750000 /* the most that a place may take: six of a runtime, within 5 ms */
#define UM_TUNE_ROUNDS 9
#define UM_TUNE_ROUNDS_LEAST 5
#define UM_TUNE_SIFT 3  /* after so many rounds slow gaps are left out: */
#define UM_TUNE_FAR 4   /* those slower than the fastest by one part in so many */
#define UM_TUNE_GAIN 16 /* the usual gap is given up for one part in so many */

/* A batch was interrupted if its timed part takes longer: some twenty times what that takes. */
#define UM_TUNE_MOST_NS 100000

/* Length of a batch: a scheduler's turn is far longer. It has 12 to 96 hand-overs, of which the
 * last third is timed. A shadow has fewer places to measure. */
#define UM_TUNE_BATCH_NS 12000
#define UM_TUNE_SHADOW_BATCH_NS 14000
#define UM_TUNE_TURNS_LEAST 12
#define UM_TUNE_TURNS_MOST 96

/* The size of batches that take about so many ns, if one hand-over takes so many 1/16 cycles. */
UM_LINKONCE UM_COLD struct um_tune_size um_tune_fit(uint32_t took, uint64_t ns);

/* What a batch took, for um_tune_batch; 0: it was interrupted. */
UM_LINKONCE UM_COLD uint32_t um_tune_took(uint64_t cycles, struct um_tune_size size);

/* The gap of a place that was measured for a pair, or UM_GAPS. */
UM_LINKONCE UM_COLD uint32_t um_tuned_gap(enum umbra_poll_pair pair, uint32_t place);

/* Keeps a result, unless there is one, or the machine was too busy to measure. If another thread is
 * writing one, or a thread of the parent process was at the moment of fork(2), this one is lost. */
UM_LINKONCE UM_COLD void um_tuned_keep(enum umbra_poll_pair pair, uint32_t place, uint32_t gap,
                                       const struct um_figures *figures);

#ifdef UMBRA_IMPLEMENTATION

/* ---- one choice ---- */

struct um_tune_samples {
    uint32_t of[UM_GAPS][UM_TUNE_ROUNDS];
    uint32_t count[UM_GAPS]; /* rounds that count */
    uint32_t candidates;     /* a bit for each that is still measured */
    uint32_t usual;
};

/* Median of the first `count` numbers, which it sorts. */
UM_LINKONCE UM_COLD uint32_t um_tune_median(uint32_t *of, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t j = i; j > 0 && of[j - 1] > of[j]; j--) {
            uint32_t less = of[j];

            of[j] = of[j - 1];
            of[j - 1] = less;
        }
    return of[count / 2];
}

/* One round. `turn` says with which candidate it begins. False: it does not count. */
UM_LINKONCE UM_COLD bool um_tune_round(um_tune_batch *batch, void *trial, uint32_t turn,
                                       uint64_t deadline, struct um_tune_samples *samples)
{
    uint32_t took[UM_GAPS] = {0};

    for (uint32_t i = 0; i < UM_GAPS; i++) {
        uint32_t gap = (i + turn) % UM_GAPS;

        if (!(samples->candidates >> gap & 1))
            continue;
        took[gap] = um_cycles() < deadline ? batch(trial, gap) : 0;
        if (took[gap] == 0)
            return false;
    }
    for (uint32_t gap = 0; gap < UM_GAPS; gap++)
        if (took[gap] != 0)
            samples->of[gap][samples->count[gap]++] = took[gap];
    return true;
}

/* Leaves out what is far behind, but not the usual one. */
UM_LINKONCE UM_COLD void um_tune_sift(struct um_tune_samples *samples)
{
    uint32_t median[UM_GAPS];
    uint32_t best = UINT32_MAX;

    for (uint32_t gap = 0; gap < UM_GAPS; gap++)
        if (samples->candidates >> gap & 1) {
            median[gap] = um_tune_median(samples->of[gap], samples->count[gap]);
            best = median[gap] < best ? median[gap] : best;
        }
    for (uint32_t gap = 0; gap < UM_GAPS; gap++)
        if ((samples->candidates >> gap & 1) && gap != samples->usual &&
            median[gap] > best + best / UM_TUNE_FAR)
            samples->candidates &= ~(UINT32_C(1) << gap);
}

/* The fastest of the candidates, by medians; 0 is no median. What was left out was measured at other
 * moments, so it is none. */
UM_LINKONCE UM_COLD uint32_t um_tune_pick(const struct um_figures *figures, uint32_t candidates,
                                          uint32_t usual)
{
    uint32_t best = usual;

    if (figures->of[usual] == 0)
        return usual;
    for (uint32_t gap = 0; gap < UM_GAPS; gap++)
        if ((candidates >> gap & 1) && figures->of[gap] != 0 &&
            figures->of[gap] < figures->of[best])
            best = gap;
    return figures->of[best] < figures->of[usual] - figures->of[usual] / UM_TUNE_GAIN ? best
                                                                                      : usual;
}

UM_LINKONCE UM_COLD uint32_t um_tune(um_tune_batch *batch, void *trial, uint32_t candidates,
                                     uint32_t usual, uint64_t deadline, struct um_figures *figures)
{
    struct um_tune_samples samples = {.candidates = candidates, .usual = usual};
    uint32_t rounds = 0;
    uint32_t lost = 0;

    *figures = (struct um_figures){{0}};
    while (rounds < UM_TUNE_ROUNDS && lost < UM_TUNE_ROUNDS && um_cycles() < deadline) {
        if (um_tune_round(batch, trial, rounds + lost, deadline, &samples))
            rounds++;
        else
            lost++;
        if (rounds == UM_TUNE_SIFT)
            um_tune_sift(&samples);
    }
    if (rounds < UM_TUNE_ROUNDS_LEAST || rounds <= lost)
        return usual;
    for (uint32_t gap = 0; gap < UM_GAPS; gap++)
        if (samples.count[gap] > 0)
            figures->of[gap] = um_tune_median(samples.of[gap], samples.count[gap]);
    return um_tune_pick(figures, samples.candidates, usual);
}

UM_LINKONCE UM_COLD struct um_tune_size um_tune_fit(uint32_t took, uint64_t ns)
{
    uint64_t turns = took ? um_ns_to_cycles(ns) * 16 / took : 0;

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

/* ---- what the process knows ---- */

#define UM_TUNED_NEVER 0u
#define UM_TUNED_WRITING 1u
#define UM_TUNED_READY 2u

/* Of each pair and place, the first result. */
struct um_tuned_place {
    um_atomic_u32 state; /* UM_TUNED_*: the thread that finds NEVER writes the rest */
    uint32_t gap;
    struct um_figures figures;
};

struct um_tunings {
    struct um_tuned_place of[UMBRA_PAIRS][UMBRA_POLL_PLACES];
    um_atomic_u32 pair; /* of the first runtime that could measure: threads' waits follow it */
};

UM_SHARED(struct um_tunings um_tunings, {.pair = UMBRA_PAIR_CORE});

UM_LINKONCE UM_COLD uint32_t um_tuned_gap(enum umbra_poll_pair pair, uint32_t place)
{
    struct um_tuned_place *tuned = &um_tunings.of[pair][place];

    /* acquire: pairs with um_tuned_keep() */
    return um_atomic_load(&tuned->state, acquire) == UM_TUNED_READY ? tuned->gap : UM_GAPS;
}

UM_LINKONCE UM_COLD bool um_gap_report(unsigned pair, unsigned place, struct um_gap_report *report)
{
    static const char *const pairs[UMBRA_PAIRS] = {"core", "L3", "less"};
    const struct um_figures *figures = &um_tunings.of[pair][place].figures;
    uint32_t chosen = um_tuned_gap((enum umbra_poll_pair)pair, place);

    if (chosen >= UM_GAPS)
        return false;
    *report = (struct um_gap_report){.pair = pairs[pair],
                                     .place = um_place_name(place),
                                     .gap = um_gap_name(chosen),
                                     .usual = um_gap_name(um_gap_default(place))};
    for (uint32_t gap = 0; gap < UM_GAPS; gap++)
        if (figures->of[gap] != 0) {
            report->measured[report->count].gap = um_gap_name(gap);
            report->measured[report->count++].ns =
                (double)figures->of[gap] / 16 * 1e9 / (double)um_ns_to_cycles(1000000000);
        }
    return true;
}

/* The gap of a thread that is no core: nothing is known about where it runs, so it is taken to be as
 * far away as the cores of the first runtime are from each other. */
UM_LINKONCE UM_COLD uint32_t um_thread_gap(uint32_t place)
{
    uint32_t pair = um_atomic_load(&um_tunings.pair, relaxed); /* only an index */
    uint32_t gap = um_tuned_gap((enum umbra_poll_pair)pair, place);
    struct um_gaps forced;

    if (um_gaps_forced(&forced) == 0 && forced.of[place] < UM_GAPS)
        return forced.of[place];
    return gap < UM_GAPS ? gap : um_gap_default(place);
}

UM_LINKONCE UM_COLD void um_tuned_keep(enum umbra_poll_pair pair, uint32_t place, uint32_t gap,
                                       const struct um_figures *figures)
{
    struct um_tuned_place *tuned = &um_tunings.of[pair][place];
    uint32_t never = UM_TUNED_NEVER;

    if (figures->of[um_gap_default(place)] == 0)
        return;
    /* relaxed: the release below publishes */
    if (!um_atomic_cas(&tuned->state, &never, UM_TUNED_WRITING, relaxed, relaxed))
        return;
    tuned->gap = gap;
    tuned->figures = *figures;
    um_atomic_store(&tuned->state, UM_TUNED_READY, release); /* pairs with um_tuned_gap() */
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
