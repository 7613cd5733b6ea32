/* SPDX-License-Identifier: BSL-1.0 */
/*
 * CTBPA: a fiber for each row of blocks, dealt to the cores in turn; the fibers of a core hand it
 * to each other directly, and only rows wait for rows.
 *
 * Row k of blocks is pivot k once pivots 0 to k - 1 have been applied to it: then its fiber closes
 * the block on the diagonal, brings its other blocks up to date with that, and signals known[k]. A
 * row's height is how many pivots have been applied to it. On each core, when pivot k is there, all
 * rows have it applied, one fiber after the other, so that the pivot row stays in the cache; first
 * the row that is the next pivot, which is then made one at once, while the other cores still have
 * something to do. There is no barrier: only the row that was the pivot has to stay as it is until
 * all others have had it applied (applied[k]), and so it is its core's last for the next pivot.
 *
 * Cores that must wait take blocks off rows of others: the blocks of a row, but for the one in the
 * pivot's column, do not depend on each other, be it that a pivot is applied to the row or that it
 * becomes one.
 */
#include "variants.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <umbra.h>

/* One fiber and its row of blocks. */
struct side {
    _Alignas(UMBRA_CACHE_LINE) struct umbra_fiber fiber;
    struct place *place;
    struct side *next; /* on the same core, in a ring */
    size_t row;
    size_t height; /* pivots applied, or begun with; its core's */
    /* What others may help with: the pivot, whether the row is becoming it, and the next block to be
     * taken; and how many are done. */
    _Alignas(UMBRA_CACHE_LINE) _Atomic uint64_t offer;
    _Atomic size_t done;
};

/* What the fibers of one core know together. */
struct place {
    _Alignas(UMBRA_CACHE_LINE) struct job *job;
    struct side *first; /* of the ring */
    size_t sides;
    size_t stage;  /* the pivot that is being applied here */
    bool entered;  /* it is there */
    char *scratch; /* a block */
};

struct job {
    struct blocks *blocks;
    struct arithmetic arithmetic;
    struct umbra_event *known;   /* pivot k is there */
    struct umbra_event *applied; /* it has been applied to all rows */
    _Atomic size_t *lacking;     /* rows that it is still to be applied to */
    struct side *side;
    struct place *place;
    char *scratch; /* of the places */
    size_t places;
    _Atomic size_t finished; /* places that have nothing left to do */
    _Atomic bool stop;       /* there is a negative cycle, or no memory */
    size_t bad;              /* a vertex on it; once, before stop */
    int error;
};

#define OFFER_SHIFT 32                  /* the pivot above, the next block below */
#define OFFER_PIVOT (UINT64_C(1) << 63) /* the row is becoming it */
#define LOOKS 10000        /* for those who help; then in naps, since they may not be running */
#define NAP_NS 50000       /* between looks for something to help with; the first */
#define NAP_MOST_NS 500000 /* and the longest */

/* ---- blocks of a row ---- */

static void relax_block(const struct job *job, size_t i, size_t j, size_t k)
{
    void *block = block_at(job->blocks, i, j);

    job->arithmetic.relax(block, block, block_at(job->blocks, i, k), block_at(job->blocks, k, j),
                          job->blocks->block);
}

/* A block of the row that becomes pivot k. */
static void make_block(const struct place *place, size_t k, size_t j)
{
    const struct job *job = place->job;
    void *block = block_at(job->blocks, k, j);

    job->arithmetic.relax(place->scratch, block, block_at(job->blocks, k, k), block,
                          job->blocks->block);
    memcpy(block, place->scratch, block_bytes(job->blocks->block));
}

/* The row's blocks are there to be taken. */
static void offer_row(struct side *side, uint64_t what, size_t k)
{
    atomic_store_explicit(&side->done, 0, memory_order_relaxed); /* published by the next line */
    /* release: the row, and the pivot row that its fiber has; pairs with take_block() */
    atomic_store_explicit(&side->offer, what | (uint64_t)k << OFFER_SHIFT, memory_order_release);
}

/* Takes the next block of what a row offers, and does it on the caller's core. Whether there was one. */
static bool take_block(const struct place *place, struct side *side)
{
    struct job *job = place->job;
    uint64_t offer = atomic_load_explicit(&side->offer, memory_order_relaxed);
    bool pivot;
    size_t j, k;

    if ((uint32_t)offer >= job->blocks->side)
        return false;
    offer = atomic_fetch_add_explicit(&side->offer, 1, memory_order_acquire); /* offer_row() */
    j = (uint32_t)offer;
    if (j >= job->blocks->side)
        return false;
    k = (size_t)((offer & ~OFFER_PIVOT) >> OFFER_SHIFT);
    pivot = offer & OFFER_PIVOT;
    if (j != k && pivot)
        make_block(place, k, j);
    else if (j != k)
        relax_block(job, side->row, j, k);
    /* release: the block; acquire: those of others, which the last one's signal publishes, too */
    if (atomic_fetch_add_explicit(&side->done, 1, memory_order_acq_rel) + 1 == job->blocks->side &&
        !pivot && atomic_fetch_sub(&job->lacking[k], 1) == 1)
        umbra_event_signal(&job->applied[k]);
    return true;
}

static bool help_somebody(const struct place *place)
{
    struct job *job = place->job;

    for (size_t row = 0; row < job->blocks->side; row++)
        if (job->side[row].place != place && take_block(place, &job->side[row]))
            return true;
    return false;
}

/* Until a pivot is there, or has been applied to all rows; helps others meanwhile. */
static void await_event(const struct place *place, struct umbra_event *event)
{
    uint64_t nap = NAP_NS;

    while (!umbra_event_try(event)) {
        if (help_somebody(place)) {
            nap = NAP_NS;
        } else {
            umbra_event_wait_deadline(event, umbra_deadline(nap));
            nap = nap < NAP_MOST_NS ? 2 * nap : nap;
        }
    }
}

/* All blocks of the row, with whoever helps. */
static void do_row(struct side *self, uint64_t what, size_t k)
{
    const struct place *place = self->place;

    offer_row(self, what, k);
    while (take_block(place, self))
        continue;
}

/* Until those who help have done theirs, too. */
static void await_helpers(const struct side *self)
{
    /* acquire: their blocks; pairs with take_block() */
    for (unsigned look = 0;
         atomic_load_explicit(&self->done, memory_order_acquire) < self->place->job->blocks->side;
         look++)
        if (look < LOOKS)
            umbra_pause();
        else
            umbra_sleep_ns(NAP_NS);
}

/* ---- one row, one pivot ---- */

/* The block in the pivot's column first: the others need it. */
static void apply_pivot(struct side *self, size_t k)
{
    struct job *job = self->place->job;

    await_helpers(self);
    if (self->row + 1 == k)
        await_event(self->place, &job->applied[self->row]);
    if (job->stop)
        return;
    job->arithmetic.relax_right(block_at(job->blocks, self->row, k), block_at(job->blocks, k, k),
                                job->blocks->block);
    do_row(self, 0, k);
    self->height = k + 1;
}

static void stop_all(struct job *job)
{
    job->stop = true;
    for (size_t k = 0; k < job->blocks->side; k++) {
        umbra_event_signal(&job->known[k]);
        umbra_event_signal(&job->applied[k]);
    }
}

/* All earlier pivots have been applied to the row: it is one itself. */
static void make_pivot(struct side *self)
{
    struct job *job = self->place->job;
    const struct blocks *blocks = job->blocks;
    size_t k = self->row, bad;

    await_helpers(self);
    bad = job->arithmetic.close(block_at(blocks, k, k), blocks->block, self->place->scratch);
    if (bad < blocks->block) {
        job->bad = k * blocks->block + bad;
        stop_all(job);
        return;
    }
    do_row(self, OFFER_PIVOT, k);
    await_helpers(self);
    self->height = k + 1;
    umbra_event_signal(&job->known[k]);
}

/* ---- whose turn it is ---- */

/* A row that lacks the core's pivot; the one that was the pivot before comes last. */
static struct side *of_stage(const struct place *place)
{
    struct side *side = place->first, *last = NULL;

    for (size_t i = 0; i < place->sides; i++, side = side->next) {
        if (side->height != place->stage)
            continue;
        if (side->row + 1 != place->stage)
            return side;
        last = side;
    }
    return last;
}

/* The next row for this core's pivot, or the first for its next one. NULL: all are finished. */
static struct side *next_side(struct place *place)
{
    struct job *job = place->job;
    struct side *side = of_stage(place);

    while (!side && ++place->stage < job->blocks->side) {
        size_t next_pivot = place->stage + 1;

        place->entered = false;
        side = of_stage(place);
        if (next_pivot < job->blocks->side && job->side[next_pivot].place == place)
            side = &job->side[next_pivot];
    }
    return side;
}

/* The core has nothing left of its own. */
static void help_to_the_end(struct place *place)
{
    struct job *job = place->job;

    atomic_fetch_add(&job->finished, 1);
    while (atomic_load(&job->finished) < job->places && !job->stop)
        if (!help_somebody(place))
            umbra_sleep_ns(NAP_NS);
}

static void *row_of_blocks(void *arg)
{
    struct side *self = arg, *next = self;
    struct place *place = self->place;
    struct job *job = place->job;

    if (self->row == 0 && !job->stop)
        make_pivot(self);
    while (!job->stop) {
        if (self->height == place->stage) {
            if (!place->entered)
                await_event(place, &job->known[place->stage]);
            place->entered = true;
            if (job->stop)
                break;
            apply_pivot(self, place->stage);
            if (self->height == self->row && !job->stop)
                make_pivot(self);
        }
        next = next_side(place);
        if (!next || self->height == job->blocks->side)
            break;
        if (next != self)
            umbra_transfer(next->fiber);
    }
    await_helpers(self);
    self->height = SIZE_MAX;
    if (job->stop) /* whoever has not ended does so now */
        for (next = self->next; next != self && next->height == SIZE_MAX;)
            next = next->next;
    if (next && next != self)
        umbra_continue(next->fiber);
    else if (!job->stop)
        help_to_the_end(place);
    return NULL;
}

/* ---- all ---- */

/* On each core: its fibers, stopped, each with nobody to join it; then the first begins. */
static void *make_sides(void *arg)
{
    static const struct umbra_spawn_options stopped = {.stopped = true};
    struct place *place = arg;
    struct side *side = place->first;
    int error = 0;

    for (size_t i = 0; i < place->sides && !error; i++, side = side->next) {
        error = umbra_spawn_with(NULL, &stopped, row_of_blocks, side, &side->fiber);
        if (!error)
            umbra_detach(side->fiber);
    }
    return (void *)(intptr_t)error;
}

static void *start(void *arg)
{
    struct job *job = arg;

    for (size_t p = 0; p < job->places && !job->error; p++) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = (unsigned)p};
        struct umbra_fiber maker;
        void *made = NULL;

        job->error = umbra_spawn_with(NULL, &there, make_sides, &job->place[p], &maker);
        if (!job->error) {
            umbra_join(maker, &made);
            job->error = (int)(intptr_t)made;
        }
    }
    if (job->error) { /* those that are there must end, too */
        stop_all(job);
        for (size_t row = 0; row < job->blocks->side; row++)
            umbra_continue(job->side[row].fiber);
        return NULL;
    }
    for (size_t p = 0; p < job->places; p++)
        umbra_continue(job->place[p].first->fiber);
    return NULL;
}

static void set_up(struct job *job)
{
    size_t side = job->blocks->side;

    for (size_t p = 0; p < job->places; p++) {
        char *scratch = job->scratch + p * block_bytes(job->blocks->block);

        job->place[p] = (struct place){.job = job, .scratch = scratch, .first = &job->side[p]};
    }
    for (size_t row = 0; row < side; row++) {
        struct place *place = &job->place[row % job->places];
        size_t next = row + job->places < side ? row + job->places : row % job->places;

        job->side[row] = (struct side){
            .place = place, .row = row, .next = &job->side[next], .offer = side, .done = side};
        place->sides++;
        umbra_event_init(&job->known[row], true);
        umbra_event_init(&job->applied[row], true);
        atomic_init(&job->lacking[row], side - 1);
    }
}

static int run(struct umbra_runtime *runtime, struct job *job)
{
    struct umbra_options options = {.cores = (unsigned)job->places, .oversubscribe = true};

    return runtime ? umbra_runtime_run(runtime, start, job) : umbra_run(&options, start, job);
}

int solve_ctbpa(struct blocks *blocks, const struct setting *setting, size_t *vertex)
{
    size_t side = blocks->side;
    size_t places = setting->processors < side ? setting->processors : side;
    struct job job = {.blocks = blocks, .arithmetic = blocks->arithmetic, .places = places};
    int error = 0;

    job.known = aligned_alloc(_Alignof(struct umbra_event), side * sizeof(*job.known));
    job.applied = aligned_alloc(_Alignof(struct umbra_event), side * sizeof(*job.applied));
    job.lacking = calloc(side, sizeof(*job.lacking));
    job.side = aligned_alloc(_Alignof(struct side), side * sizeof(*job.side));
    job.place = aligned_alloc(_Alignof(struct place), places * sizeof(*job.place));
    job.scratch = aligned_alloc(64, places * block_bytes(blocks->block));
    if (!job.known || !job.applied || !job.lacking || !job.side || !job.place || !job.scratch)
        error = -ENOMEM;
    if (!error) {
        set_up(&job);
        error = run(setting->runtime, &job);
        if (!error)
            error = job.error ? job.error : job.stop ? -EDOM : 0;
    }
    free(job.known);
    free(job.applied);
    free(job.lacking);
    free(job.side);
    free(job.place);
    free(job.scratch);
    *vertex = job.bad;
    return error;
}
