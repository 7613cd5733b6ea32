/* SPDX-License-Identifier: BSL-1.0 */
/* See divided.h. */
#define _DEFAULT_SOURCE /* madvise */
#include "divided.h"

#include "../huge_pages.h"
#include "../program.h"
#include "opencl.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/blocking.h>
#include <umbra/dispatch.h>

#define LAYER 4              /* planes */
#define BLOCK_NODES 16384    /* about so many: some of a layer's rows */
#define TRIED 5              /* steps that the processors do alone first, for their speed */
#define PART 8               /* a device sweeps one in so many layers first, for its speed */
#define TRY_SHARE 25         /* of the steps' time, one in so many is for it to sweep all */
#define AHEAD 20             /* steps in which a layer that is brought to a device should pay */
#define REST 5               /* steps after the border moved, in which it does not */
#define JUDGED 20            /* so many steps are compared with those of the faster side alone */
#define RECENT 4             /* steps: of the mean */
#define QUEUED 32            /* steps of a device that has all, between two looks at it */
#define KEEP_SHARE 20        /* of the time, one in so many is for copies */
#define KEEP_NS_PER_DOUBLE 2 /* of the first copy, about */

/* What a worker has as its state, for blocks. */
struct unit {
    _Alignas(UMBRA_CACHE_LINE) uint64_t end; /* of its last block */
    uint64_t busy_ns;                        /* with blocks, in the step */
};

struct job {
    struct divided *divided;
    struct body *body;
    struct device *device; /* NULL: it is not there any more */
    struct unit *units;    /* the workers' */
    size_t processors,
        sweepers; /* sweepers: workers beside the device's; as many: it shares a core */
    size_t taken; /* layers that the device takes */
    size_t layers, blocks, rows; /* of the body; of a layer; of a block */
    size_t step, until;          /* under way; where the dispatcher is to end */
    bool divided_now;            /* it does */
    int error;

    /* From `low` blocks on and below `high` layers nothing is taken: low << 32 | high. */
    _Alignas(UMBRA_CACHE_LINE) atomic_uint_least64_t left;

    _Alignas(UMBRA_CACHE_LINE) size_t border; /* in layers, when the step began */
    atomic_size_t driven;                     /* steps: the device has begun their layers */
    uint64_t begun, device_end;               /* of the step; when the device had done all */
    double block_ns;                          /* of a block, by all processors together */
    double sweep_ns, bring_ns;                /* the device: to do a layer, and to bring it there */
    double late_ns;           /* by which the device was later than the processors, of late */
    size_t moved;             /* the step in which the border moved */
    double processors_ns;     /* a step of the processors alone */
    double alone_ns, best_ns; /* a step of the device alone; and of the faster side */
    size_t from, judged;      /* the first divided step; steps since some were compared, */
    double judged_ns;         /* and their time */

    double done;  /* layers and steps that the device did */
    double *kept; /* node (0, 0, 0) of a copy of the body; NULL: none */
    void *kept_memory;
    size_t kept_step; /* 0 without a copy: as it was heated */
    double kept_done; /* `done` by then */
    uint64_t kept_at; /* when it was made; and how long that took */
    double keep_ns;
};

/* A mean of the last times, mostly. */
static void follow(double *mean_ns, double ns)
{
    *mean_ns += (ns - *mean_ns) / (*mean_ns == 0 ? 1 : RECENT);
}

/* ---- layers ---- */

static size_t plane_of(const struct job *job, size_t layer)
{
    size_t planes = job->body->nodes[Z];

    return layer * LAYER < planes ? layer * LAYER : planes;
}

static uint64_t packed(size_t low, size_t high)
{
    return (uint64_t)low << 32 | (uint64_t)high;
}

/* The first block from below that is left. False: there is none. What was computed in the step before is
 * there by the dispatcher's order, so relaxed, as in take_layers(). */
static bool take_block(struct job *job, size_t *block)
{
    uint64_t left = atomic_load_explicit(&job->left, memory_order_relaxed);

    do {
        *block = left >> 32;
        if (*block >= (uint32_t)left * job->blocks)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&job->left, &left, left + packed(1, 0),
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* What one more layer costs the device in this step: to bring it counts for the steps to come, too. */
static double layer_cost(const struct job *job)
{
    size_t steps = job->divided->steps - job->step;

    return job->sweep_ns + job->bring_ns / (double)(steps < AHEAD ? steps : AHEAD);
}

/* As many layers from above as the device can do while the processors do the others. */
static size_t take_layers(struct job *job)
{
    uint64_t left = atomic_load_explicit(&job->left, memory_order_relaxed);
    double layer_ns = job->block_ns * (double)job->blocks, cost = layer_cost(job);
    bool at_least_one = job->divided->always && job->border == job->layers;
    size_t some, whole;

    if (job->step < job->moved + REST)
        return 0;
    do {
        whole = (uint32_t)left - ((left >> 32) + job->blocks - 1) / job->blocks;
        some = (size_t)((double)whole * layer_ns / (layer_ns + cost));
        if (some == 0 && at_least_one)
            some = whole > 0;
        if (some == 0)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&job->left, &left, left - some,
                                                    memory_order_relaxed, memory_order_relaxed));
    return some;
}

/* ---- workers ---- */

static void sweep_block(struct job *job, struct unit *unit)
{
    const struct body *body = job->body;
    struct box box = body_box(body);
    size_t block, end;
    uint64_t begin = umbra_now_ns();

    if (!take_block(job, &block))
        return;
    end = (block % job->blocks + 1) * job->rows;
    box.first[Y] = block % job->blocks * job->rows;
    box.end[Y] = end < box.end[Y] ? end : box.end[Y];
    box.first[Z] = plane_of(job, block / job->blocks);
    box.end[Z] = plane_of(job, block / job->blocks + 1);
    body_sweep(body, body_after(body, job->step), body_after(body, job->step + 1), &box);
    unit->end = umbra_now_ns();
    unit->busy_ns += unit->end - begin;
}

/* The device's worker sets it; another that sees an old one asks that worker once more: relaxed. */
static bool is_driven(const struct job *job)
{
    return atomic_load_explicit(&job->driven, memory_order_relaxed) > job->step;
}

/* A value is a leave to take a block, or asks the device's worker to begin the step. */
static int on_processor(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    struct job *job = arg;

    if (value.end == 0 && is_driven(job))
        return 0;
    if (value.end == 0)
        return umbra_worker_put(worker, value.pointer, (int)job->sweepers);
    for (size_t some = value.end - value.begin; some > 0; some--)
        sweep_block(job, worker->state);
    return 0;
}

/* The layers that the device has, with a plane each way at the border. */
static void drive(void *arg)
{
    struct job *job = arg;
    const struct body *body = job->body;
    size_t first = plane_of(job, job->border), step = job->step;

    if ((first == 0 || device_write(job->device, body, step, first - 1, first)) &&
        device_sweep(job->device, body, step, first, body->nodes[Z]) &&
        (first == 0 ||
         device_read(job->device, body, step + 1, first, first + 1, body_after(body, step + 1))) &&
        device_finish(job->device))
        job->done += (double)(job->layers - job->border);
    job->device_end = umbra_now_ns();
}

/* Layers below the border, which are with the device from then on. */
static void drive_taken(void *arg)
{
    struct job *job = arg;
    const struct body *body = job->body;
    size_t high = (uint32_t)atomic_load_explicit(&job->left, memory_order_relaxed);
    size_t first = plane_of(job, high), end = plane_of(job, high + job->taken);
    size_t step = job->step;
    uint64_t begin = umbra_now_ns();
    bool ok = device_write(job->device, body, step, first ? first - 1 : 0, end) &&
              device_finish(job->device);

    follow(&job->bring_ns, (double)(umbra_now_ns() - begin) / (double)job->taken);
    if (ok && device_sweep(job->device, body, step, first, end) &&
        (first == 0 ||
         device_read(job->device, body, step + 1, first, first + 1, body_after(body, step + 1))) &&
        device_finish(job->device))
        job->done += (double)job->taken;
    job->device_end = umbra_now_ns();
}

/* The device's worker waits for it on its core, if that is its own; else the core's other worker goes on. */
static int with_device(struct job *job, void (*fn)(void *arg))
{
    if (job->sweepers == job->processors)
        return umbra_blocking(fn, job);
    fn(job);
    return 0;
}

/* The device's own layers first, and others may take the value meanwhile; then more layers or, where those
 * that are left are too few, a block on this core. */
static int on_device(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    struct job *job = arg;
    int error = 0;

    job->taken = 0;
    if (!is_driven(job) && job->border < job->layers) {
        atomic_store_explicit(&job->driven, job->step + 1, memory_order_relaxed);
        if (value.end != 0)
            error = umbra_worker_range(worker, value.begin, value.end, 1, UMBRA_ANY_WORKER);
        return error ? error : with_device(job, drive);
    }
    if (value.end != 0 && !*device_failed(job->device))
        job->taken = take_layers(job);
    if (job->taken > 0)
        return with_device(job, drive_taken);
    return on_processor(worker, value, arg);
}

/* ---- between steps ---- */

/* All that the device has, into an array that is laid out as the body's. */
static bool bring(struct job *job, double *array)
{
    return job->border == job->layers ||
           (device_read(job->device, job->body, job->step, plane_of(job, job->border),
                        job->body->nodes[Z], array) &&
            device_finish(job->device));
}

static double *plane_in(const struct job *job, double *array, size_t layer)
{
    return array + plane_of(job, layer) * job->body->plane - job->body->row;
}

/* Keeps a copy of the body as it is before the step, if it is time for one and there is memory. */
static void keep(struct job *job)
{
    const struct body *body = job->body;
    size_t before = body->plane + body->row;
    uint64_t begin = umbra_now_ns();

    if ((double)(begin - job->kept_at) < KEEP_SHARE * job->keep_ns)
        return;
    if (!job->kept_memory)
        job->kept_memory = huge_pages_alloc(body_bytes(body) / 2 + UMBRA_CACHE_LINE);
    job->kept = job->kept_memory ? (double *)job->kept_memory + before : NULL;
    if (job->kept) {
        double *from = plane_in(job, body_after(body, job->step), 0);

        memcpy(plane_in(job, job->kept, 0), from,
               plane_of(job, job->border) * body->plane * sizeof(double));
        if (!bring(job, job->kept))
            job->kept = NULL; /* neither this copy nor the one before */
    }
    job->kept_step = job->kept ? job->step : 0;
    job->kept_done = job->kept ? job->done : 0;
    job->kept_at = umbra_now_ns();
    job->keep_ns = (double)(job->kept_at - begin);
}

/* What the device has below a border that moves up to `end`, and the plane next to that. */
static bool give(struct job *job, size_t end)
{
    size_t first = plane_of(job, job->border), last = plane_of(job, end);

    last = last < job->body->nodes[Z] ? last + 1 : last;
    if (!device_read(job->device, job->body, job->step, first, last,
                     body_after(job->body, job->step)) ||
        !device_finish(job->device))
        return false;
    job->border = end;
    return true;
}

/* What the processors have to wait for the device, as layers that it gives back: so many that both would
 * need the same time. */
static void give_back(struct job *job, uint64_t processors_end)
{
    size_t has = job->layers - job->border;
    double layers;

    follow(&job->late_ns, (double)job->device_end - (double)processors_end);
    layers = job->late_ns / (job->block_ns * (double)job->blocks + job->sweep_ns);
    if (job->step < job->moved + REST || has == 0 || layers < 1)
        return;
    give(job, job->border + (layers < (double)has ? (size_t)layers : has));
    job->moved = job->step;
    job->late_ns = 0;
}

/* After every so many steps, but the first, in which layers move: true if they were slower than those of
 * one side alone. */
static bool too_slow(struct job *job, double ns)
{
    double mean_ns;

    job->judged_ns += ns;
    if (++job->judged < JUDGED)
        return false;
    mean_ns = job->judged_ns / JUDGED;
    job->judged_ns = 0;
    job->judged = 0;
    return job->step > job->from + JUDGED && mean_ns > job->best_ns && !job->divided->always;
}

/* When a step is over: the speeds that it shows, and what they come to. */
static void end_step(struct job *job)
{
    uint64_t left = atomic_load_explicit(&job->left, memory_order_relaxed);
    size_t low = left >> 32, high = (uint32_t)left, begin = job->border;
    size_t sweepers = job->divided_now ? job->sweepers : job->processors;
    uint64_t now = umbra_now_ns(), end = job->begun, busy_ns = 0;
    double ns = (double)(now - job->begun);

    if (job->divided_now && *device_failed(job->device))
        return;
    for (size_t u = 0; u <= job->processors; u++) {
        end = job->units[u].end > end ? job->units[u].end : end;
        busy_ns += job->units[u].busy_ns;
        job->units[u].busy_ns = 0;
    }
    if (low > 0)
        follow(&job->block_ns, (double)busy_ns / (double)(low * sweepers));
    if (job->step < TRIED && (job->step == 0 || ns < job->processors_ns))
        job->processors_ns = ns;
    job->border = high;
    job->step++;
    if (!job->divided_now)
        return;
    if (high == begin) {
        give_back(job, end);
    } else {
        job->moved = job->step;
        job->late_ns = 0;
    }
    if (too_slow(job, ns))
        job->until = job->step;
}

static int begin_step(struct umbra_dispatch *dispatch, size_t number, void *arg)
{
    struct job *job = arg;
    int error;

    if (number > 0)
        end_step(job);
    if (job->divided_now)
        keep(job);
    if (job->step >= job->until || (job->divided_now && *device_failed(job->device)))
        return 0;
    atomic_store_explicit(&job->left, packed(0, job->border), memory_order_relaxed);
    job->begun = umbra_now_ns();
    error = umbra_dispatch_range(dispatch, 0, job->border * job->blocks, 1);
    if (error == 0 && job->border < job->layers)
        error = umbra_dispatch_put(dispatch, job, UMBRA_ANY_NODE);
    return error ? error : 1;
}

/* ---- runs ---- */

/* Steps up to one, by the processors' workers, and the device's if it takes part. */
static int run_workers(struct job *job, bool divided, size_t until)
{
    size_t workers = divided ? job->sweepers + 1 : job->processors;
    umbra_dispatch_fn **fns = calloc(workers, sizeof(*fns));
    void **states = calloc(workers, sizeof(*states));
    struct umbra_dispatch_options options = {
        .fns = fns, .states = states, .arg = job, .workers = (unsigned)workers};
    struct umbra_dispatch *dispatch;
    int error = fns && states ? 0 : -ENOMEM;

    for (size_t i = 0; i < workers && error == 0; i++) {
        fns[i] = divided && i == job->sweepers ? on_device : on_processor;

        states[i] = &job->units[i];
    }
    job->divided_now = divided;
    job->until = until < job->divided->steps ? until : job->divided->steps;
    if (error == 0)
        error = umbra_dispatch_create(NULL, &options, &dispatch);
    if (error == 0) {
        error = umbra_dispatch_steps(dispatch, begin_step, job);
        umbra_dispatch_destroy(dispatch);
    }
    free(fns);
    free(states);
    return error;
}

/* The other steps, all on the device. */
static void run_alone(struct job *job)
{
    const struct body *body = job->body;
    size_t first = job->step, steps = job->divided->steps, end = plane_of(job, job->border);
    bool ok = end == 0 ||
              (device_write(job->device, body, job->step, 0, end) && device_finish(job->device));

    job->border = 0;
    while (ok && job->step < steps) {
        end = steps - job->step < QUEUED ? steps : job->step + QUEUED;
        while (ok && job->step < end) {
            ok = device_sweep(job->device, body, job->step, 0, body->nodes[Z]);
            job->step += ok;
        }
        ok = ok && device_finish(job->device);
        if (ok)
            keep(job);
    }
    job->done += (double)(job->step - first) * (double)job->layers;
}

static bool works(const struct job *job)
{
    return !*device_failed(job->device);
}

/* How long the device takes for so many layers: a sweep of no step, of what is in its memory. */
static double try_sweep(const struct job *job, size_t layers)
{
    uint64_t begin = umbra_now_ns();

    if (device_sweep(job->device, job->body, job->step, 0, plane_of(job, layers)))
        device_finish(job->device);
    return (double)(umbra_now_ns() - begin);
}

/* What a step takes each side alone. True if it should take less when divided. */
static bool try_device(struct job *job)
{
    double processors_ns = job->processors_ns, both_ns;
    double most_ns = (double)job->divided->steps * processors_ns / TRY_SHARE;
    size_t part = (job->layers + PART - 1) / PART;

    try_sweep(job, part); /* a device that had nothing to do may take longer */
    job->alone_ns = PART * try_sweep(job, part);
    if (job->alone_ns < most_ns)
        job->alone_ns = try_sweep(job, job->layers);
    job->sweep_ns = job->alone_ns / (double)job->layers;
    job->best_ns = job->alone_ns < processors_ns ? job->alone_ns : processors_ns;
    both_ns =
        1 / ((double)job->sweepers / (double)job->processors / processors_ns + 1 / job->alone_ns);
    return works(job) && (both_ns < job->best_ns || job->divided->always);
}

/* Steps that are divided, as long as that is faster than each side alone; then the faster one. */
static int run_divided(struct job *job)
{
    size_t steps = job->divided->steps;
    int error;

    if (device_is_cpu(job->device) && !job->divided->always) {
        job->divided->left_at = 0;
        return 0;
    }
    error = run_workers(job, false, TRIED);
    if (error || steps <= 3 * TRIED)
        return error;
    if (try_device(job)) {
        job->from = job->step;
        error = run_workers(job, true, steps);
    }
    if (error || !works(job) || job->step == steps)
        return error;
    if (job->best_ns == job->alone_ns) {
        job->divided->alone_from = job->step;
        run_alone(job);
    } else {
        job->divided->left_at = job->step;
    }
    return 0;
}

/* The body is with the processors again, as it is now, or, if the device failed, was at a step before. */
static void leave_device(struct job *job)
{
    struct body *body = job->body;
    size_t doubles = body->nodes[Z] * body->plane;

    if (!bring(job, body_after(body, job->step)) || *device_failed(job->device)) {
        job->divided->failed_at = job->step;
        job->divided->again_from = job->step = job->kept_step;
        job->done = job->kept_done;
        device_wait(job->device);
        if (job->kept)
            memcpy(body_after(body, job->step) - body->row, job->kept - body->row,
                   doubles * sizeof(double));
        else
            body_heat(body);
    }
    job->border = job->layers;
}

static void *run(void *arg)
{
    struct job *job = arg;

    if (job->device && job->divided->alone) {
        run_alone(job);
    } else if (job->device) {
        job->error = run_divided(job);
    }
    if (job->device && job->error == 0)
        leave_device(job);
    if (job->error == 0)
        job->error = run_workers(job, false, job->divided->steps);
    return NULL;
}

static void divide(struct job *job)
{
    const struct body *body = job->body;
    size_t rows = BLOCK_NODES / (body->nodes[X] * LAYER);

    job->layers = (body->nodes[Z] + LAYER - 1) / LAYER;
    job->rows = rows ? rows : 1;
    job->blocks = (body->nodes[Y] + job->rows - 1) / job->rows;
    job->border = job->layers;
    job->sweepers = job->processors;
    if (job->device && job->processors > 1)
        job->sweepers--;
    job->kept_at = umbra_now_ns();
    job->keep_ns = (double)body_bytes(body) / (2 * sizeof(double)) * KEEP_NS_PER_DOUBLE;
}

int divided_run(struct divided *divided)
{
    struct umbra_options options = {.cores = (unsigned)divided->processors, .oversubscribe = true};
    struct job *job = aligned_alloc(UMBRA_CACHE_LINE, sizeof(*job));
    int error = -ENOMEM;

    divided->failed_at = divided->left_at = divided->alone_from = SIZE_MAX;
    if (!job)
        return error;
    *job = (struct job){.divided = divided,
                        .body = divided->body,
                        .device = divided->device,
                        .processors = divided->processors};
    job->units = aligned_alloc(UMBRA_CACHE_LINE, (divided->processors + 1) * sizeof(*job->units));
    divide(job);
    if (job->units) {
        memset(job->units, 0, (divided->processors + 1) * sizeof(*job->units));
        error = umbra_run(&options, run, job);
        error = error ? error : job->error;
        divided->share = job->done / ((double)divided->steps * (double)job->layers);
    }
    free(job->units);
    free(job->kept_memory);
    free(job);
    return error;
}
