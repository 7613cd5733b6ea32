/* SPDX-License-Identifier: BSL-1.0 */
/*
 * mu1k and mu2k: the data flow of mu1 and mu2 with fibers. Those of a core hand it to each other
 * directly, in a ring; a core waits for another only when none of its fibers can go on, and in mu1k
 * not as long as it can help: it applies the pivots that there are to groups that lack them, whosever
 * these are.
 */
#include "rows.h"
#include "variants.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <umbra.h>

#define RUN_ROWS 16 /* consecutive rows on one core, at least, where there are enough */
#define HELP_ROWS                                                                                  \
    8 /* of a group that others help with: fewer are done sooner than they are found */
#define NAP_NS 20000 /* until another look at a group that somebody has taken */

/* One fiber. In a line. */
struct side {
    _Alignas(UMBRA_CACHE_LINE) struct umbra_fiber fiber;
    struct share *share;
    struct place *place;
    struct side *next, *prev; /* on the same core, in a ring */
    size_t level;             /* mu1k: all its rows have had the pivots up to there applied */
};

/* What the fibers of one core know together; only they touch it. */
struct place {
    _Alignas(UMBRA_CACHE_LINE) struct job *job;
    struct side *first, *last; /* of the ring */
    size_t sides;
    size_t stuck;        /* pure: fibers one after the other that could do nothing */
    struct side *turn;   /* mu1k: who goes on when no row has to be finished first */
    size_t known;        /* pivots 0 to known - 1 are finished */
    size_t step;         /* all rows of the core have had pivots 0 to step - 1 applied */
    struct side **owner; /* whose the core's groups are, from top to bottom */
    size_t front;        /* the first of them that is not finished */
    size_t groups;
};

struct job {
    const struct system *system;
    const struct setting *setting;
    struct umbra_event *pivot; /* mu1k: row k is finished. mu2k: all may begin with pivot k */
    struct share *share;
    struct side *side;
    struct place *place;
    umbra_fiber_fn *body;
    size_t places;
    bool pure;              /* as the paper has it */
    int error;              /* of making the fibers: then they do nothing */
    _Atomic size_t arrived; /* mu2k: cores that are through, over all pivots */
};

/* Inlined: a switch comes back by a jump, so the processor would guess wrong where a return after it
 * leads to. */
static inline __attribute__((always_inline)) void hand_on(struct side *self, struct side *to)
{
    if (to != self)
        umbra_transfer(to->fiber);
}

static void leave_ring(struct side *self)
{
    struct place *place = self->place;

    self->prev->next = self->next;
    self->next->prev = self->prev;
    if (place->last == self)
        place->last = self->prev;
    if (place->first == self)
        place->first = self->next;
    if (place->turn == self)
        place->turn = self->next;
    place->sides--;
}

/* ---- mu1k ---- */

static void tell(size_t row, void *arg)
{
    struct place *place = arg;

    place->known = row + 1;
    umbra_event_signal(&place->job->pivot[row]);
}

static void look_around(struct place *place)
{
    while (place->known < place->job->system->n &&
           umbra_event_wait(&place->job->pivot[place->known], 0) == 0)
        place->known++;
}

/* Whoever owns the row that others wait for, if it can be finished now. */
static struct side *who_is_next(const struct place *place)
{
    struct side *owner = place->front < place->groups ? place->owner[place->front] : NULL;

    return owner && share_front_ready(owner->share, place->step, place->known) ? owner
                                                                               : place->turn;
}

/* A step for a group, whosever it is, first for those that are pivots soonest. Whether one lacked it. */
static bool help_somebody(struct place *place)
{
    const struct job *job = place->job;
    size_t sides = job->setting->sides, rows = job->setting->group_rows;

    if (rows < HELP_ROWS || job->setting->without & MU_HELP)
        return false;
    for (size_t g = place->known / rows; g * rows < job->system->n; g++)
        if (group_help(&job->share[g % sides].group[g / sides], job->system, place->known))
            return true;
    return false;
}

/* Somebody else has taken the group that the caller needs next. */
static void do_something_else(struct place *place)
{
    if (!help_somebody(place))
        umbra_event_wait(&place->job->pivot[place->known], umbra_deadline(NAP_NS));
}

/* Until the next pivot is finished. When there is nothing to help with, there is nothing before that. */
static void wait_for_pivot(struct place *place)
{
    struct umbra_event *pivot = &place->job->pivot[place->known];

    while (umbra_event_wait(pivot, 0) != 0)
        if (!help_somebody(place)) {
            umbra_event_wait(pivot, UMBRA_NEVER);
            return;
        }
}

/* One group of rows, or the turn goes to the next fiber: in the next step, or when it can go on. */
static void take_turn(struct side *self)
{
    struct place *place = self->place;
    size_t goal = share_goal(place->step, place->known);
    enum share_result result = share_advance(self->share, place->job->system, goal);

    if (result == SHARE_TAKEN)
        do_something_else(place);
    if (result != SHARE_LACKS_NONE)
        return;
    self->level = goal;
    if (self->next->level < goal)
        place->turn = self->next;
    else if (goal == place->step + SHARE_STEP)
        place->step = goal;
    else
        wait_for_pivot(place);
}

static void *mu1k_side(void *arg)
{
    struct side *self = arg;
    struct place *place = self->place;
    const struct system *system = place->job->system;

    if (place->job->error)
        return NULL;
    while (!share_finished(self->share)) {
        if (!share_front_ready(self->share, place->step, place->known))
            take_turn(self);
        else if (share_finish_front(self->share, system, tell, place))
            place->front++;
        else
            do_something_else(place);
        look_around(place);
        if (!share_finished(self->share))
            hand_on(self, who_is_next(place));
    }
    leave_ring(self);
    if (place->sides > 0)
        umbra_continue(who_is_next(place)->fiber);
    return NULL;
}

/* ---- mu1k as its paper has it: what mu1's threads do, with fibers that hand the core on ---- */

static void tell_all(size_t row, void *job)
{
    umbra_event_signal(&((struct job *)job)->pivot[row]);
}

/* The fiber can do nothing before pivot `known`: the next one has its turn; the core waits when none of
 * its fibers can go on. */
static void pure_hand_on(struct side *self, size_t known)
{
    struct place *place = self->place;

    if (known > place->known) /* others may go on that could not before */
        place->stuck = 0;
    place->known = known;
    if (++place->stuck < place->sides) {
        hand_on(self, self->next);
        return;
    }
    umbra_event_wait(&place->job->pivot[known], UMBRA_NEVER);
    place->stuck = 0;
}

static void *mu1k_pure_side(void *arg)
{
    struct side *self = arg, *next;
    struct place *place = self->place;
    struct job *job = place->job;
    size_t known = 0, step = 0;

    while (!share_finished(self->share) && !job->error) {
        while (known < job->system->n && umbra_event_wait(&job->pivot[known], 0) == 0)
            known++;
        if (share_front_ready(self->share, step, known))
            share_finish_front(self->share, job->system, tell_all, job);
        else if (share_advance(self->share, job->system, share_goal(step, known)) !=
                 SHARE_ADVANCED) {
            if (known >= step + SHARE_STEP)
                step += SHARE_STEP;
            else {
                pure_hand_on(self, known);
                continue;
            }
        }
        place->stuck = 0;
    }
    next = self->next;
    leave_ring(self);
    place->stuck = 0;
    if (place->sides > 0)
        umbra_continue(next->fiber);
    return NULL;
}

/* ---- mu2k ---- */

static bool has_turns(const struct place *place)
{
    return !place->job->pure && !(place->job->setting->without & MU_TURNS);
}

/* A core's fibers take turns back and forth, as their rows do (rows_in_turn). */
static struct side *first_in_turn(const struct place *place, size_t k)
{
    return k % 2 == 0 || !has_turns(place) ? place->first : place->last;
}

static struct side *last_in_turn(const struct place *place, size_t k)
{
    return k % 2 == 0 || !has_turns(place) ? place->last : place->first;
}

static struct side *next_in_turn(const struct side *side, size_t k)
{
    return k % 2 == 0 || !has_turns(side->place) ? side->next : side->prev;
}

/*
 * A core's fibers have more lines than its nearest cache: those of the next one come while this one
 * computes. What is read here to know them came when the one before computed.
 */
static void fetch_next(const struct side *self, size_t k)
{
    const struct side *next = next_in_turn(self, k), *after = next_in_turn(next, k);
    const struct share *share = next->share;

    umbra_fetch_ahead(next->fiber);
    if (share->count > 0) /* there may be more fibers than rows */
        umbra_prefetch_write(
            system_row(self->place->job->system, share->group[share->count - 1].first) + k);
    __builtin_prefetch(after);
    __builtin_prefetch(after->share);
}

/* The last of a core's fibers has applied pivot k: on to the next when all cores are. */
static void meet(struct job *job, size_t k)
{
    if (atomic_fetch_add(&job->arrived, 1) + 1 == job->places * (k + 1))
        umbra_event_signal(&job->pivot[k + 1]);
    else
        umbra_event_wait(&job->pivot[k + 1], UMBRA_NEVER);
}

static void *mu2k_side(void *arg)
{
    struct side *self = arg, *next = self;
    struct place *place = self->place;
    size_t k = 0;

    for (; k + 1 < place->job->system->n && !place->job->error; k++) {
        if (!place->job->pure && !(place->job->setting->without & MU_FETCH))
            fetch_next(self, k);
        share_apply(self->share, place->job->system, k, has_turns(place));
        next = next_in_turn(self, k);
        if (self == last_in_turn(place, k)) {
            meet(place->job, k);
            next = first_in_turn(place, k + 1);
        }
        if (share_is_above(self->share, k + 2) && place->sides > 1)
            break; /* one stays, to meet the other cores */
        hand_on(self, next);
    }
    leave_ring(self);
    if (next == self)
        next = first_in_turn(place, k + 1);
    if (place->sides > 0 && !place->job->error)
        umbra_continue(next->fiber);
    return NULL;
}

/* ---- both ---- */

/*
 * Sides go to the cores in runs of about the same length, so that a core has some consecutive rows,
 * and each as many runs; if several, in every second round in the other direction, because the lower rows
 * are more work: of two cores that take turns, the second has 3 r / 2 n more of it, where a run has r of
 * n rows.
 */
static struct place *place_of(const struct job *job, size_t side)
{
    bool in_turn = job->pure || job->setting->without & MU_RUNS;
    size_t least = (RUN_ROWS + job->setting->group_rows - 1) / job->setting->group_rows;
    size_t runs = job->setting->sides / (least * job->places); /* of each core */
    size_t run, place;

    if (in_turn) /* the paper's cores have a row each in turn */
        return &job->place[side % job->places];
    if (runs == 0)
        runs = 1;
    run = side * runs * job->places / job->setting->sides;
    place = run % job->places;
    return &job->place[run / job->places % 2 == 0 ? place : job->places - 1 - place];
}

static int set_up(struct job *job)
{
    size_t n = job->system->n, sides = job->setting->sides;
    size_t groups = (n + job->setting->group_rows - 1) / job->setting->group_rows;
    int error = 0;

    for (size_t p = 0; p < job->places; p++) {
        job->place[p] = (struct place){.job = job};
        job->place[p].owner = calloc(groups, sizeof(struct side *));
        if (!job->place[p].owner)
            error = -ENOMEM;
    }
    if (error)
        return error;
    for (size_t s = 0; s < sides; s++) {
        struct side *side = &job->side[s];
        struct place *place = place_of(job, s);

        *side = (struct side){.share = &job->share[s], .place = place};
        if (place->last)
            place->last->next = side;
        else
            place->first = side;
        side->prev = place->last;
        side->next = place->first;
        place->first->prev = place->last = side;
        place->turn = place->first;
        place->sides++;
    }
    for (size_t g = 0; g < groups; g++) {
        struct place *place = job->side[g % sides].place;

        place->owner[place->groups++] = &job->side[g % sides];
    }
    for (size_t k = 0; k < n; k++)
        job->pivot[k] = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
    return 0;
}

/* On each core: its fibers, stopped, each with nobody to join it. */
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
        for (size_t s = 0; s < job->setting->sides; s++)
            umbra_continue(job->side[s].fiber);
        return NULL;
    }
    for (size_t p = 0; p < job->places; p++)
        umbra_continue(job->place[p].first->fiber);
    return NULL;
}

static int eliminate(const struct system *system, const struct setting *setting,
                     umbra_fiber_fn *body, bool pure)
{
    size_t places = setting->processors < setting->sides ? setting->processors : setting->sides;
    struct umbra_options options = {.cores = (unsigned)places, .oversubscribe = true};
    struct job job = {
        .system = system, .setting = setting, .body = body, .places = places, .pure = pure};
    int error = shares_create(&job.share, setting->sides, system->n, setting->group_rows);

    job.pivot = aligned_alloc(UMBRA_CACHE_LINE, system->n * sizeof(*job.pivot));
    job.side = aligned_alloc(_Alignof(struct side), setting->sides * sizeof(*job.side));
    job.place = aligned_alloc(_Alignof(struct place), places * sizeof(*job.place));
    if (!error && job.pivot && job.side && job.place) {
        error = set_up(&job);
        if (!error)
            error = setting->runtime ? umbra_runtime_run(setting->runtime, start, &job)
                                     : umbra_run(&options, start, &job);
        for (size_t p = 0; p < places; p++)
            free(job.place[p].owner);
    } else {
        error = -ENOMEM;
    }
    shares_destroy(job.share);
    free(job.pivot);
    free(job.side);
    free(job.place);
    return error ? error : job.error;
}

int eliminate_mu1k(const struct system *system, const struct setting *setting)
{
    return eliminate(system, setting, mu1k_side, false);
}

int eliminate_mu2k(const struct system *system, const struct setting *setting)
{
    return eliminate(system, setting, mu2k_side, false);
}

int eliminate_mu1k_pure(const struct system *system, const struct setting *setting)
{
    return eliminate(system, setting, mu1k_pure_side, true);
}

int eliminate_mu2k_pure(const struct system *system, const struct setting *setting)
{
    return eliminate(system, setting, mu2k_side, true);
}
