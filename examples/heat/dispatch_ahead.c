/* SPDX-License-Identifier: BSL-1.0 */
/*
 * H-Dispatch without an end of each step: who has done some blocks queues those that nothing is missing
 * for any more, which are of the next step while others are still in this one. So nobody waits for a
 * worker that was held up, unless what it has is next to everything that is left.
 *
 * A box of blocks is a tile. A tile may begin a step when it and those next to it have done the one
 * before, which is also when nobody reads any more what it overwrites. Two that are next to each other
 * are never more than one step apart, so that two counts of what is missing will do, for its odd steps
 * and for the others. It is queued for who did it last, in whose caches some of it may be.
 *
 * Tiles are numbered from the end of the body: who ends one queues, mostly, the next step of the one
 * numbered before it, takes that first, as what it queued last, and so goes on in memory where it is,
 * with the planes between the two still in its caches.
 */
#include "dispatch.h"

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

#define TILES 32     /* for each processor, or fewer: so that some may be ahead of others */
#define TILE_PARTS 4 /* what is left of a tile when others have nothing, they can share */

struct tile {
    alignas(UMBRA_CACHE_LINE)
        atomic_size_t undone; /* blocks, in the step that it does, or does next */
    atomic_size_t missing[2]; /* tiles that have to end a step first; of even and odd ones */
    atomic_uint worker;       /* that did the last of it in the step before; set at a step's end */

    alignas(UMBRA_CACHE_LINE) struct box box; /* of blocks; this and what follows is fixed */
    size_t blocks;
    unsigned near; /* how many are next to it, and itself: their numbers follow */
    size_t number[7];
};

struct job {
    struct body *body;
    const struct setting *setting;
    struct blocks blocks;
    size_t edge[3];  /* of a tile, in blocks; the last in each direction may be smaller */
    size_t count[3]; /* tiles in each direction */
    size_t tiles;
    size_t part; /* blocks that are processed at once */
    size_t room; /* indices of a tile: no fewer than blocks, and a multiple of part */
    struct tile *tile;
    alignas(UMBRA_CACHE_LINE) atomic_size_t done; /* tiles and steps */
};

/* ---- tiles ---- */

/* Divides the body into layers of blocks, these into rows, and rows into blocks until there are about
 * enough: what lies together in memory stays together. */
static void choose_tiles(struct job *job)
{
    size_t wanted = TILES * job->setting->processors;

    job->tiles = job->room = 1;
    for (int d = Z; d >= X; d--) {
        size_t blocks = job->blocks.count[d];
        size_t more = job->tiles < wanted ? wanted / job->tiles : 1;

        job->edge[d] = (blocks + more - 1) / more;
        job->count[d] = (blocks + job->edge[d] - 1) / job->edge[d];
        job->tiles *= job->count[d];
        job->room *= job->edge[d];
    }
    job->part = (job->room + TILE_PARTS - 1) / TILE_PARTS;
    job->room = (job->room + job->part - 1) / job->part * job->part;
}

/* The tile is not queued yet, and nobody counts these down before it is: relaxed. */
static void set_undone(struct tile *tile)
{
    atomic_store_explicit(&tile->undone, tile->blocks, memory_order_relaxed);
}

static void set_missing(struct tile *tile, size_t step)
{
    atomic_store_explicit(&tile->missing[step % 2], tile->near, memory_order_relaxed);
}

static void make_tile(const struct job *job, size_t number)
{
    struct tile *tile = &job->tile[number];
    size_t stride = 1;

    tile->blocks = 1;
    tile->near = 0;
    tile->number[tile->near++] = number;
    for (int d = X; d <= Z; d++) {
        size_t after = number / stride % job->count[d]; /* so many tiles: counted from the end */
        size_t at = job->count[d] - 1 - after, end = (at + 1) * job->edge[d];

        tile->box.first[d] = at * job->edge[d];
        tile->box.end[d] = end < job->blocks.count[d] ? end : job->blocks.count[d];
        tile->blocks *= tile->box.end[d] - tile->box.first[d];
        if (after > 0)
            tile->number[tile->near++] = number - stride;
        if (at > 0)
            tile->number[tile->near++] = number + stride;
        stride *= job->count[d];
    }
    set_undone(tile);
    set_missing(tile, 0);
    set_missing(tile, 1);
}

/* ---- steps ---- */

static int queue(struct umbra_worker *worker, const struct job *job, size_t number, size_t step)
{
    struct tile *tile = &job->tile[number];
    size_t first = (step * job->tiles + number) * job->room;

    return umbra_worker_range(worker, first, first + tile->blocks, job->part,
                              (int)atomic_load_explicit(&tile->worker, memory_order_relaxed));
}

/* What a tile has done in a step is there: queues which lacked only that. The counts are seq_cst, of
 * which acquire and release are needed: the last to count has seen what all others have done. */
static int end_step(struct umbra_worker *worker, struct job *job, struct tile *tile, size_t step)
{
    int error = 0;

    atomic_store_explicit(&tile->worker, worker->index, memory_order_relaxed);
    if (atomic_fetch_add(&job->done, 1) + 1 == job->tiles * (job->setting->steps / 2))
        setting_step(job->setting, job->setting->steps / 2);
    if (++step == job->setting->steps)
        return 0;
    set_undone(tile);
    for (unsigned i = 0; i < tile->near && error == 0; i++) {
        struct tile *near = &job->tile[tile->number[i]];

        if (atomic_fetch_sub(&near->missing[step % 2], 1) != 1)
            continue;
        set_missing(near, step);
        error = queue(worker, job, tile->number[i], step);
    }
    return error;
}

/* Blocks of a tile from one to before another. */
static void sweep_blocks(const struct job *job, size_t step, const struct tile *tile, size_t from,
                         size_t end)
{
    const struct box *box = &tile->box;
    size_t row = box->end[X] - box->first[X], rows = box->end[Y] - box->first[Y];
    size_t at[3] = {box->first[X] + from % row, box->first[Y] + from / row % rows,
                    box->first[Z] + from / row / rows};

    body_sweep_some(job->body, &job->blocks, step, box, at, end - from);
}

/* A part of a tile: an index is a block's number in it, and its tile's and the step's. */
static int sweep_part(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    struct job *job = arg;
    size_t from = value.begin % job->room, end = from + (value.end - value.begin);
    size_t number = value.begin / job->room;
    size_t step = number / job->tiles;
    struct tile *tile = &job->tile[number % job->tiles];

    end = end < tile->blocks ? end : tile->blocks;
    if (from >= end)
        return 0;
    sweep_blocks(job, step, tile, from, end);
    if (atomic_fetch_sub(&tile->undone, end - from) != end - from)
        return 0;
    return end_step(worker, job, tile, step);
}

/* The only step of the dispatcher: all tiles' first, and what follows. */
static int begin(struct umbra_dispatch *dispatch, size_t step, void *arg)
{
    struct job *job = arg;

    (void)step;
    if (job->setting->steps == 0)
        return 0;
    setting_step(job->setting, 0);
    return umbra_dispatch_range(dispatch, 0, job->tiles * job->room, job->part);
}

int spread_dispatch_ahead(struct body *body, struct setting *setting)
{
    struct job job = {.body = body, .setting = setting, .blocks = blocks_of(body, setting->edge)};
    int error;

    choose_tiles(&job);
    job.tile = aligned_alloc(UMBRA_CACHE_LINE, job.tiles * sizeof(*job.tile));
    if (!job.tile)
        return -ENOMEM;
    for (size_t number = 0; number < job.tiles; number++)
        make_tile(&job, number);
    error = dispatch_run(setting, sweep_part, begin, &job);
    free(job.tile);
    return error;
}
