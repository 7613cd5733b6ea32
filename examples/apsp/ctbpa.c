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
 * A core whose row has to wait does others meanwhile, whosever they are, as far as they can be done,
 * first those that are pivots soonest: it begins with one, or takes blocks of one that was begun with,
 * since the blocks of a row, but for the one in the pivot's column, do not depend on each other, be it
 * that a pivot is applied to the row or that it becomes one. So nobody waits while there is work, and
 * yet rows stay on their cores as long as these are equally fast.
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
    size_t height; /* pivots that its core has seen to; its core's */
    /* The row's height, whether the last pivot's block is still being made ready, and the block to be
     * taken next (below); and how many of the last pivot's blocks are done. */
    _Alignas(UMBRA_CACHE_LINE) _Atomic uint64_t work;
    _Atomic size_t done;
};

/* What the fibers of one core know together. */
struct place {
    _Alignas(UMBRA_CACHE_LINE) struct job *job;
    struct side *first; /* of the ring */
    size_t sides;
    size_t left;   /* pure: fibers that have not had the pivot yet */
    size_t stage;  /* the pivot that is being applied here */
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
    bool alone; /* as the setting has it */
    umbra_fiber_fn *body;
    _Atomic bool stop; /* there is a negative cycle, or no memory */
    size_t bad;        /* a vertex on it; once, before stop */
    int error;
};

#define WORK_HEIGHT 32                  /* the height above, the next block below */
#define WORK_BEGINS (UINT64_C(1) << 31) /* and between them: no block can be taken yet */
#define LOOK_NS 50000 /* for something to help with; then in naps, since nobody may be running */
#define PAUSES 16     /* between two looks */
#define NAP_NS 50000  /* the first */
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

static size_t height_of(uint64_t work)
{
    return work >> WORK_HEIGHT;
}

static size_t next_block(uint64_t work)
{
    return work & (WORK_BEGINS - 1);
}

/* A row's last block is done: pivot k is there, or has been applied to one row more. */
static void row_is_done(struct job *job, size_t row, size_t k)
{
    if (row == k)
        umbra_event_signal(&job->known[k]);
    else if (atomic_fetch_sub(&job->lacking[k], 1) == 1)
        umbra_event_signal(&job->applied[k]);
}

/* Takes a row's next block, and does it on the caller's core. Whether there was one. */
static bool take_block(const struct place *place, struct side *side)
{
    struct job *job = place->job;
    size_t blocks = job->blocks->side, j, k;
    /* relaxed: it is read again if there is a block */
    uint64_t work = atomic_load_explicit(&side->work, memory_order_relaxed);

    if (next_block(work) >= blocks)
        return false;
    work = atomic_fetch_add_explicit(&side->work, 1, memory_order_acquire); /* begin_row() */
    j = next_block(work);
    if (j >= blocks)
        return false;
    k = height_of(work) - 1;
    if (j != k && side->row == k)
        make_block(place, k, j);
    else if (j != k)
        relax_block(job, side->row, j, k);
    /* release: the block, with may_begin(); acquire: those of others, which row_is_done() publishes */
    if (atomic_fetch_add_explicit(&side->done, 1, memory_order_acq_rel) + 1 == blocks)
        row_is_done(job, side->row, k);
    return true;
}

/* ---- one row, one pivot ---- */

static void stop_all(struct job *job)
{
    job->stop = true;
    for (size_t k = 0; k < job->blocks->side; k++) {
        umbra_event_signal(&job->known[k]);
        umbra_event_signal(&job->applied[k]);
    }
}

/* What has not happened yet that a row of this height waits for, but for its own blocks; or NULL. */
static struct umbra_event *lacked(const struct side *side, size_t height)
{
    struct job *job = side->place->job;

    if (height != side->row && umbra_event_wait(&job->known[height], 0) != 0)
        return &job->known[height];
    if (height == side->row + 1 && umbra_event_wait(&job->applied[side->row], 0) != 0)
        return &job->applied[side->row];
    return NULL;
}

/* Whether the row's next pivot can be applied, or the row become it. */
static bool may_begin(const struct side *side, uint64_t work)
{
    const struct job *job = side->place->job;
    size_t blocks = job->blocks->side;

    return height_of(work) < blocks && !(work & WORK_BEGINS) && next_block(work) >= blocks &&
           /* acquire: the blocks; pairs with take_block() */
           atomic_load_explicit(&side->done, memory_order_acquire) == blocks &&
           !lacked(side, height_of(work)) && !job->stop;
}

/* The diagonal's block of the row that becomes pivot k. */
static bool close_pivot(const struct place *place, size_t k)
{
    struct job *job = place->job;
    size_t block = job->blocks->block;
    size_t bad = job->arithmetic.close(block_at(job->blocks, k, k), block, place->scratch);

    if (bad == block)
        return true;
    job->bad = k * block + bad;
    stop_all(job);
    return false;
}

/*
 * Begins with the row's next pivot, if that can be: the block in the pivot's column, which the others
 * need; then these can be taken. Whether it was begun with here.
 */
static bool begin_row(const struct place *place, struct side *side)
{
    const struct job *job = place->job;
    const struct blocks *blocks = job->blocks;
    /* acquire: done as it was set back below */
    uint64_t work = atomic_load_explicit(&side->work, memory_order_acquire);
    uint64_t begun = (uint64_t)(height_of(work) + 1) << WORK_HEIGHT;
    size_t k = height_of(work);

    /* relaxed: it publishes nothing, and may_begin() has acquired all */
    if (!may_begin(side, work) || !atomic_compare_exchange_strong_explicit(
                                      &side->work, &work, begun | WORK_BEGINS | blocks->side,
                                      memory_order_relaxed, memory_order_relaxed))
        return false;
    atomic_store_explicit(&side->done, 0, memory_order_relaxed); /* published by the last line */
    if (k != side->row)
        job->arithmetic.relax_right(block_at(blocks, side->row, k), block_at(blocks, k, k),
                                    blocks->block);
    else if (!close_pivot(place, k))
        return false;
    /* release: the row, and the pivot row; pairs with take_block() and the load above */
    atomic_store_explicit(&side->work, begun, memory_order_release);
    return true;
}

/* Whether somebody has begun, and the blocks can be taken. */
static bool is_begun(uint64_t work, size_t k)
{
    return height_of(work) > k + 1 || (height_of(work) == k + 1 && !(work & WORK_BEGINS));
}

/* ---- waiting ---- */

/*
 * Begins or goes on with a row, whosever it is, first those that are pivots soonest; until there is
 * nothing left to be taken of it, or the caller need not wait for its own row. Whether there was one.
 */
static bool help_somebody(const struct place *place, const struct side *awaited)
{
    struct job *job = place->job;
    size_t rows = job->blocks->side;

    for (size_t i = 0; i < rows; i++) {
        struct side *side = &job->side[(place->stage + i) % rows];
        bool any = begin_row(place, side);

        while (take_block(place, side)) {
            uint64_t work =
                awaited ? atomic_load_explicit(&awaited->work, memory_order_acquire) : 0;

            any = true;
            if (awaited && (is_begun(work, awaited->height) || may_begin(awaited, work)))
                break;
        }
        if (any)
            return true;
    }
    return false;
}

/* How long somebody has found nothing to do. */
struct patience {
    uint64_t until; /* of umbra_now_ns(): looks; 0: has just begun */
    uint64_t nap;
};

/* Some time passes; no more than it takes until the event, if there is one. */
static void be_patient(struct patience *patience, struct umbra_event *event)
{
    if (patience->until == 0)
        *patience = (struct patience){.until = umbra_deadline(LOOK_NS), .nap = NAP_NS};
    if (umbra_now_ns() < patience->until) {
        for (unsigned i = 0; i < PAUSES; i++)
            umbra_pause();
        return;
    }
    if (event)
        umbra_event_wait(event, umbra_deadline(patience->nap));
    else
        umbra_sleep_ns(patience->nap);
    patience->nap = patience->nap < NAP_MOST_NS ? 2 * patience->nap : patience->nap;
}

/* The row's next pivot: all blocks that nobody else takes. Helps others until it can begin. */
static void bring_up(struct side *self)
{
    const struct place *place = self->place;
    const struct job *job = place->job;
    struct patience patience = {0};

    /* acquire: begin_row() of somebody else */
    while (!is_begun(atomic_load_explicit(&self->work, memory_order_acquire), self->height) &&
           !begin_row(place, self) && !job->stop)
        if (!job->alone && help_somebody(place, self))
            patience.until = 0;
        else
            be_patient(&patience, lacked(self, self->height));
    while (take_block(place, self))
        continue;
    self->height++;
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

        side = of_stage(place);
        if (next_pivot < job->blocks->side && job->side[next_pivot].place == place)
            side = &job->side[next_pivot];
    }
    return side;
}

/* The core has nothing left of its own. All are done when the last pivot has been applied to all. */
static void help_to_the_end(const struct place *place)
{
    struct job *job = place->job;
    struct umbra_event *end = &job->applied[job->blocks->side - 1];
    struct patience patience = {0};

    while (job->places > 1 && !job->alone && umbra_event_wait(end, 0) != 0)
        if (help_somebody(place, NULL))
            patience.until = 0;
        else
            be_patient(&patience, end);
}

static void *row_of_blocks(void *arg)
{
    struct side *self = arg, *next = self;
    struct place *place = self->place;
    struct job *job = place->job;

    while (!job->stop) {
        while ((self->height == place->stage || self->height == self->row) && !job->stop)
            bring_up(self);
        next = next_side(place);
        if (!next || self->height == job->blocks->side)
            break;
        if (next != self)
            umbra_transfer(next->fiber);
    }
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

/* ---- as the paper has it ---- */

/* Pivot k of the fiber's row: the row becomes it, or has it applied once it is there. */
static void pure_step(const struct side *self, size_t k)
{
    struct job *job = self->place->job;
    const struct blocks *blocks = job->blocks;

    if (k == self->row) {
        if (!close_pivot(self->place, k))
            return;
    } else {
        umbra_event_wait(&job->known[k], UMBRA_NEVER);
        if (k == self->row + 1) /* the others need the row as it is */
            umbra_event_wait(&job->applied[self->row], UMBRA_NEVER);
        if (job->stop)
            return;
        job->arithmetic.relax_right(block_at(blocks, self->row, k), block_at(blocks, k, k),
                                    blocks->block);
    }
    for (size_t j = 0; j < blocks->side; j++)
        if (j != k && k == self->row)
            make_block(self->place, k, j);
        else if (j != k)
            relax_block(job, self->row, j, k);
    row_is_done(job, self->row, k);
}

/* The next fiber in the ring, for the same pivot; or, when all have had it, the first for the next
 * pivot: the fiber of the pivot's row, if it is here, since the others would wait for it. */
static struct side *pure_next(struct side *self)
{
    struct place *place = self->place;
    const struct job *job = place->job;

    if (--place->left > 0)
        return self->next;
    place->left = place->sides;
    place->stage++;
    return place->stage < job->blocks->side && job->side[place->stage].place == place
               ? &job->side[place->stage]
               : self->next;
}

/* The fibers of a core take turns, one pivot each; the core waits when one of them does. */
static void *pure_row_of_blocks(void *arg)
{
    struct side *self = arg;
    struct place *place = self->place;
    const struct job *job = place->job;

    while (place->stage < job->blocks->side && !job->stop) {
        struct side *next;

        pure_step(self, place->stage);
        next = pure_next(self);
        if (place->stage < job->blocks->side && next != self && !job->stop)
            umbra_transfer(next->fiber);
    }
    self->height = SIZE_MAX;
    if (self->next->height != SIZE_MAX)
        umbra_continue(self->next->fiber);
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
        error = umbra_spawn_with(NULL, &stopped, place->job->body, side, &side->fiber);
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
            umbra_join(maker, UMBRA_NEVER, &made);
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
            .place = place, .row = row, .next = &job->side[next], .work = side, .done = side};
        place->left = ++place->sides;
        job->known[row] = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
        job->applied[row] = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
        atomic_init(&job->lacking[row], side - 1);
    }
}

static int run(struct umbra_runtime *runtime, struct job *job)
{
    struct umbra_options options = {.cores = (unsigned)job->places, .oversubscribe = true};

    return runtime ? umbra_runtime_run(runtime, start, job) : umbra_run(&options, start, job);
}

static int solve(struct blocks *blocks, const struct setting *setting, umbra_fiber_fn *body,
                 size_t *vertex)
{
    size_t side = blocks->side;
    size_t places = setting->processors < side ? setting->processors : side;
    struct job job = {.blocks = blocks,
                      .arithmetic = blocks->arithmetic,
                      .places = places,
                      .alone = setting->alone,
                      .body = body};
    int error = 0;

    job.known = aligned_alloc(UMBRA_CACHE_LINE, side * sizeof(*job.known));
    job.applied = aligned_alloc(UMBRA_CACHE_LINE, side * sizeof(*job.applied));
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

int solve_ctbpa(struct blocks *blocks, const struct setting *setting, size_t *vertex)
{
    return solve(blocks, setting, row_of_blocks, vertex);
}

int solve_ctbpa_pure(struct blocks *blocks, const struct setting *setting, size_t *vertex)
{
    return solve(blocks, setting, pure_row_of_blocks, vertex);
}
