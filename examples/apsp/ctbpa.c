/* SPDX-License-Identifier: BSL-1.0 */
/*
 * CTBPA: a fiber for each row of blocks, dealt to the cores in turn; the fibers of a core hand it
 * to each other directly, and only rows wait for rows.
 *
 * Row k of blocks is pivot k once pivots 0 to k - 1 have been applied to it: then its fiber closes
 * the block on the diagonal, brings its other blocks up to date with that, and signals event k. A
 * row's height is how many pivots have been applied to it. On each core, when pivot k is there, all
 * rows have it applied, one fiber after the other, so that the pivot row stays in the cache; first
 * the row that is the next pivot, which is then made one at once, while the other cores still have
 * something to do. There is no barrier: who reads a pivot row reads a copy, which stays as it was
 * while its row goes on, until all rows have had it applied: then a later pivot takes its place.
 *
 * Cores that are through with a pivot before the next one is there take blocks off rows of others:
 * the blocks of a row, but for the one in the pivot's column, do not depend on each other, be it that
 * a pivot is applied to the row or that it becomes one.
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
    bool helped;   /* others may still be at work on the last of them; its core's */
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
    size_t stage; /* the pivot that is being applied here */
    bool entered; /* it is there */
    char *copy;   /* a block */
};

struct job {
    struct blocks *blocks;
    char *pivots; /* copies of so many rows: row k as it was as pivot k, in the place k % COPIES */
    struct arithmetic arithmetic;
    struct umbra_event *known;   /* pivot k is there */
    struct umbra_event *applied; /* it has been applied to all rows */
    _Atomic size_t *lacking;     /* rows that it is still to be applied to */
    struct side *side;
    struct place *place;
    char *copies; /* of the places */
    size_t places;
    _Atomic size_t finished; /* places that have nothing left to do */
    _Atomic bool stop;       /* there is a negative cycle, or no memory */
    size_t bad;              /* a vertex on it; once, before stop */
    int error;
};

#define COPIES 4       /* of pivot rows: that being made, that in use, and those of stragglers */
#define OFFER_SHIFT 32 /* the pivot above, the next block below */
#define OFFER_PIVOT (UINT64_C(1) << 63) /* the row is becoming it */
#define NAP_NS 20000 /* between looks for something to help with, at the very end */

/* ---- blocks of a row ---- */

static void *pivot_at(const struct job *job, size_t k, size_t j)
{
    return job->pivots + (k % COPIES * job->blocks->side + j) * block_bytes(job->blocks->block);
}

static void relax_block(const struct job *job, size_t i, size_t j, size_t k)
{
    job->arithmetic.relax(block_at(job->blocks, i, j), block_at(job->blocks, i, k),
                          pivot_at(job, k, j), job->blocks->block);
}

/* A block of the row that becomes pivot k, and its copy. */
static void make_block(const struct job *job, size_t k, size_t j)
{
    size_t bytes = block_bytes(job->blocks->block);
    void *block = block_at(job->blocks, k, j), *copy = pivot_at(job, k, j);

    memcpy(copy, block, bytes);
    job->arithmetic.relax(copy, pivot_at(job, k, k), block, job->blocks->block);
    memcpy(block, copy, bytes);
}

/* Takes the next block of what a row offers, and does it. Whether there was one. */
static bool take_block(const struct job *job, struct side *side)
{
    uint64_t offer = atomic_load_explicit(&side->offer, memory_order_relaxed);
    size_t j, k;

    if ((uint32_t)offer >= job->blocks->side)
        return false;
    /* acquire: the row, and the pivot row that its fiber has; pairs with do_row() */
    offer = atomic_fetch_add_explicit(&side->offer, 1, memory_order_acquire);
    j = (uint32_t)offer;
    if (j >= job->blocks->side)
        return false;
    k = (size_t)((offer & ~OFFER_PIVOT) >> OFFER_SHIFT);
    if (j != k && offer & OFFER_PIVOT)
        make_block(job, k, j);
    else if (j != k)
        relax_block(job, side->row, j, k);
    /* release: the block; pairs with await_done() */
    atomic_fetch_add_explicit(&side->done, 1, memory_order_release);
    return true;
}

/* All of the row's blocks, with whoever helps; some may still be at work on theirs afterwards. */
static void do_row(const struct job *job, struct side *side, uint64_t what, size_t k)
{
    atomic_store_explicit(&side->done, 0, memory_order_relaxed); /* published by the next line */
    atomic_store_explicit(&side->offer, what | (uint64_t)k << OFFER_SHIFT, memory_order_release);
    while (take_block(job, side))
        continue;
}

static void await_done(const struct job *job, const struct side *side)
{
    while (atomic_load_explicit(&side->done, memory_order_acquire) < job->blocks->side)
        umbra_pause();
}

/* Until all blocks of the row have had its last pivot. */
static void await_helpers(const struct job *job, struct side *side)
{
    size_t k = side->height - 1;

    if (!side->helped)
        return;
    await_done(job, side);
    side->helped = false;
    if (atomic_fetch_sub(&job->lacking[k], 1) == 1)
        umbra_event_signal(&job->applied[k]);
}

static bool help_somebody(struct place *place)
{
    struct job *job = place->job;

    for (size_t row = 0; row < job->blocks->side; row++)
        if (job->side[row].place != place && take_block(job, &job->side[row]))
            return true;
    return false;
}

/* ---- one row, one pivot ---- */

static void apply_pivot(struct side *self, size_t k)
{
    struct job *job = self->place->job;
    size_t bytes = block_bytes(job->blocks->block);
    void *first = block_at(job->blocks, self->row, k);

    await_helpers(job, self);
    memcpy(self->place->copy, first, bytes);
    job->arithmetic.relax(first, self->place->copy, pivot_at(job, k, k), job->blocks->block);
    do_row(job, self, 0, k);
    self->height = k + 1;
    self->helped = true;
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
    void *closed = block_at(blocks, k, k);

    await_helpers(job, self);
    if (k >= COPIES)
        umbra_event_wait(&job->applied[k - COPIES]);
    if (job->stop)
        return;
    bad = job->arithmetic.close(closed, blocks->block);
    if (bad < blocks->block) {
        job->bad = k * blocks->block + bad;
        stop_all(job);
        return;
    }
    memcpy(pivot_at(job, k, k), closed, block_bytes(blocks->block));
    do_row(job, self, OFFER_PIVOT, k);
    await_done(job, self);
    self->height = k + 1;
    umbra_event_signal(&job->known[k]);
}

/* ---- whose turn it is ---- */

static struct side *of_height(const struct place *place, size_t height)
{
    struct side *side = place->first;

    for (size_t i = 0; i < place->sides; i++, side = side->next)
        if (side->height == height)
            return side;
    return NULL;
}

/* The next row for this core's pivot, or the first for its next one. NULL: all are finished. */
static struct side *next_side(struct place *place)
{
    struct job *job = place->job;
    struct side *side = of_height(place, place->stage);

    while (!side && ++place->stage < job->blocks->side) {
        size_t next_pivot = place->stage + 1;

        place->entered = false;
        side = of_height(place, place->stage);
        if (next_pivot < job->blocks->side && job->side[next_pivot].place == place)
            side = &job->side[next_pivot];
    }
    return side;
}

/* Until the core's pivot is there; helps others meanwhile. */
static void enter_stage(struct place *place)
{
    struct umbra_event *known = &place->job->known[place->stage];

    while (!umbra_event_try(known))
        if (!help_somebody(place))
            umbra_event_wait(known);
    place->entered = true;
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
                enter_stage(place);
            if (job->stop)
                break;
            apply_pivot(self, place->stage);
            if (self->height == self->row)
                make_pivot(self);
        }
        next = next_side(place);
        if (!next || self->height == job->blocks->side)
            break;
        if (next != self)
            umbra_transfer(next->fiber);
    }
    await_helpers(job, self);
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
        char *copy = job->copies + p * block_bytes(job->blocks->block);

        job->place[p] = (struct place){.job = job, .copy = copy, .first = &job->side[p]};
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
    struct umbra_spawn_options on_first = {.where = UMBRA_ON_CORE};
    int error;

    if (!runtime)
        return umbra_run(&options, start, job);
    error = umbra_spawn_with(runtime, &on_first, start, job, NULL);
    return error ? error : umbra_runtime_wait(runtime);
}

int solve_ctbpa(struct blocks *blocks, const struct setting *setting, size_t *vertex)
{
    size_t side = blocks->side;
    size_t places = setting->processors < side ? setting->processors : side;
    struct job job = {.blocks = blocks, .arithmetic = blocks->arithmetic, .places = places};
    int error = 0;

    job.pivots = aligned_alloc(64, COPIES * side * block_bytes(blocks->block));
    job.known = aligned_alloc(_Alignof(struct umbra_event), side * sizeof(*job.known));
    job.applied = aligned_alloc(_Alignof(struct umbra_event), side * sizeof(*job.applied));
    job.lacking = calloc(side, sizeof(*job.lacking));
    job.side = aligned_alloc(_Alignof(struct side), side * sizeof(*job.side));
    job.place = aligned_alloc(_Alignof(struct place), places * sizeof(*job.place));
    job.copies = aligned_alloc(64, places * block_bytes(blocks->block));
    if (!job.pivots || !job.known || !job.applied || !job.lacking || !job.side || !job.place ||
        !job.copies)
        error = -ENOMEM;
    if (!error) {
        set_up(&job);
        error = run(setting->runtime, &job);
        if (!error)
            error = job.error ? job.error : job.stop ? -EDOM : 0;
    }
    free(job.pivots);
    free(job.known);
    free(job.applied);
    free(job.lacking);
    free(job.side);
    free(job.place);
    free(job.copies);
    *vertex = job.bad;
    return error;
}
