/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What an OpenMP program does, for UMBRA_TRACE and UMBRA_STATS: docs/trace.md. Each thread has a track:
 * the constructs that it is in, counters, and in a trace a ring of its own. Off, each of them looks at
 * um_omp_settings.sees.
 *
 * A track outlives its thread; the next thread goes on with it. Where constructs begin and end they
 * nest, but for what is left early: an end ends what was begun since, up to the region's part, or task,
 * around it, and an end without a beginning is none: gcc begins some loops with the region.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <umbra/core.h>
#include <umbra/os/fork.h>

#include "library.h"

#define FRAMES 256 /* constructs that a thread may be in; what is deeper is not recorded */
#define ENTRIES 512

static const char *const names[UM_OMP_SEES] = {
    "region",   "task", "taken task",       "loop", "barrier",
    "taskwait", "turn", "critical section", "lock",
};

/* What a thread has done of one construct at one place. The thread writes; the program's end reads. */
struct entry {
    um_atomic_u64 times; /* 0: the next two are not set */
    enum um_omp_what what;
    const void *place; /* NULL: there was no room for more places */
    um_atomic_u64 inside, own,
        waited; /* cycles: in all, less what is in it, and of these in waits */
};

/* A construct that the thread is in. */
struct frame {
    enum um_omp_what what;
    const void *place;
    uint64_t since, inner, waited; /* cycles; inner: in constructs in it */
};

struct track {
    struct track *next;    /* this and the next: under the lock */
    bool taken;            /* by a thread */
    struct um_trace trace; /* ring NULL: none */
    unsigned depth;        /* of constructs; may be more than there are frames */
    struct frame frame[FRAMES];
    struct entry entry[ENTRIES]; /* the first ones have no place, then by place */
};

static struct {
    pthread_mutex_t lock;
    pthread_key_t key; /* gives a thread's track back */
    struct track *first;
} tracks = {.lock = PTHREAD_MUTEX_INITIALIZER};

static UM_OMP_THREAD struct track *here; /* NULL: none yet */

/* ---- tracks ---- */

/* A line, and nothing is recorded from now on. */
static void give_up(const char *why)
{
    fprintf(stderr, "umbra_omp: %s\n", why);
    um_omp_settings.sees = false;
}

static struct track *track_make(void)
{
    struct track *track = calloc(1, sizeof(*track));
    struct um_trace *trace = track ? &track->trace : NULL;

    if (!track || um_traces.fd == 0)
        return track;
    if (um_trace_make_area(1, trace) != 0) {
        free(track);
        return NULL;
    }
    um_trace_set_place(trace, 0);
    um_trace_tell_core(trace, 0, 0, 1);
    um_trace_tell_area(trace, 1, UM_TRACE_OF_OMP);
    return track;
}

/* The calling thread's, or NULL. */
static UM_COLD struct track *track_take(void)
{
    struct track *track;

    pthread_mutex_lock(&tracks.lock);
    for (track = tracks.first; track && track->taken;)
        track = track->next;
    if (!track && (track = track_make())) {
        track->next = tracks.first;
        tracks.first = track;
    }
    if (track)
        track->taken = true;
    pthread_mutex_unlock(&tracks.lock);
    if (!track) {
        give_up(um_traces.fd != 0 ? umbra_last_error_text() : "out of memory");
        return NULL;
    }
    track->depth = 0;
    here = track;
    pthread_setspecific(tracks.key, track); /* without memory for that it is not given back */
    return track;
}

static void track_give(void *arg)
{
    struct track *track = arg;

    here = NULL;
    pthread_mutex_lock(&tracks.lock);
    track->taken = false;
    pthread_mutex_unlock(&tracks.lock);
}

/* ---- constructs ---- */

/* The counters of a construct, where there is room. */
static struct entry *entry_find(struct track *track, enum um_omp_what what, const void *place)
{
    size_t hash = (size_t)(((uintptr_t)place + what) * UM_TRACE_MIX >> 32);

    for (size_t i = 0; i < ENTRIES - UM_OMP_SEES && place; i++) {
        struct entry *entry = &track->entry[UM_OMP_SEES + (hash + i) % (ENTRIES - UM_OMP_SEES)];

        if (um_atomic_load(&entry->times, relaxed) == 0) { /* the thread's own */
            entry->what = what;
            entry->place = place;
            return entry;
        }
        if (entry->what == what && entry->place == place)
            return entry;
    }
    track->entry[what].what = what;
    return &track->entry[what];
}

/* relaxed: only the thread writes */
static void add(um_atomic_u64 *sum, uint64_t more)
{
    um_atomic_store(sum, um_atomic_load(sum, relaxed) + more, relaxed);
}

static void record(struct track *track, enum um_trace_kind kind, const struct frame *frame,
                   uint64_t now)
{
    if (track->trace.ring)
        um_trace_construct(&track->trace, kind, now, names[frame->what], frame->place);
}

/* The innermost construct ends. */
static void leave(struct track *track)
{
    struct frame *frame = &track->frame[--track->depth];
    uint64_t now = um_arch_cycles(), inside = now - frame->since;
    struct entry *entry = entry_find(track, frame->what, frame->place);

    record(track, UM_TRACE_LEAVE, frame, now);
    if (frame->what >= UM_OMP_SEE_BARRIER)
        frame->waited += inside - frame->inner;
    if (track->depth > 0) {
        frame[-1].inner += inside;
        frame[-1].waited += frame->waited;
    }
    add(&entry->inside, inside);
    add(&entry->own, inside - frame->inner);
    add(&entry->waited, frame->waited);
    /* release: what and where, pairs with merge() */
    um_atomic_store(&entry->times, um_atomic_load(&entry->times, relaxed) + 1, release);
}

UM_COLD void um_omp_see_begin(enum um_omp_what what, const void *place)
{
    struct track *track = here ? here : track_take();

    if (!track)
        return;
    if (um_omp_here)
        place = um_omp_place(um_omp_here, place);
    if (track->depth < FRAMES) {
        struct frame *frame = &track->frame[track->depth];

        *frame = (struct frame){.what = what, .place = place, .since = um_arch_cycles()};
        record(track, UM_TRACE_ENTER, frame, frame->since);
    }
    track->depth++;
}

UM_COLD void um_omp_see_end(enum um_omp_what what)
{
    struct track *track = here;
    unsigned depth;

    if (!track)
        return;
    if (track->depth > FRAMES) {
        track->depth--;
        return;
    }
    for (depth = track->depth; depth > 0; depth--) {
        enum um_omp_what is = track->frame[depth - 1].what;

        is = is == UM_OMP_SEE_TAKEN ? UM_OMP_SEE_TASK : is;
        if (is == what)
            break;
        if (is <= UM_OMP_SEE_TASK)
            return;
    }
    while (depth > 0 && track->depth >= depth)
        leave(track);
}

/* ---- the table ---- */

struct row {
    enum um_omp_what what;
    const void *place;
    uint64_t times, inside, own, waited;
};

struct table {
    struct row *row;
    size_t rows, room;
};

static struct row *row_find(struct table *table, enum um_omp_what what, const void *place)
{
    for (size_t i = 0; i < table->rows; i++)
        if (table->row[i].what == what && table->row[i].place == place)
            return &table->row[i];
    if (table->rows == table->room) {
        size_t room = 2 * table->room + ENTRIES;
        struct row *row = realloc(table->row, room * sizeof(*row));

        if (!row)
            return NULL;
        table->row = row;
        table->room = room;
    }
    table->row[table->rows] = (struct row){.what = what, .place = place};
    return &table->row[table->rows++];
}

/* Adds what a thread has counted. It may still run: numbers. */
static void merge(struct table *table, struct track *track)
{
    for (size_t i = 0; i < ENTRIES; i++) {
        struct entry *entry = &track->entry[i];
        /* acquire: what and where; pairs with leave() */
        uint64_t times = um_atomic_load(&entry->times, acquire);
        struct row *row = times > 0 ? row_find(table, entry->what, entry->place) : NULL;

        if (!row)
            continue;
        row->times += times; /* relaxed, all: only numbers */
        row->inside += um_atomic_load(&entry->inside, relaxed);
        row->own += um_atomic_load(&entry->own, relaxed);
        row->waited += um_atomic_load(&entry->waited, relaxed);
    }
}

/* Regions, then tasks, and so on; of one kind what took longest first. */
static int compare(const void *one, const void *other)
{
    const struct row *a = one, *b = other;

    if (a->what != b->what)
        return a->what < b->what ? -1 : 1;
    return a->inside > b->inside ? -1 : a->inside < b->inside;
}

static double ms(uint64_t cycles)
{
    return (double)um_cycles_to_ns(cycles) / 1e6;
}

static void print(void)
{
    struct table table = {.row = NULL};

    for (struct track *track = tracks.first; track; track = track->next)
        merge(&table, track);
    if (table.rows > 0)
        qsort(table.row, table.rows, sizeof(*table.row), compare);
    dprintf(STDERR_FILENO, "umbra: %-16s %10s %12s %12s %12s\n", "construct", "times", "inside-ms",
            "own-ms", "waited-ms");
    for (size_t i = 0; i < table.rows; i++) {
        const struct row *row = &table.row[i];
        char place[512] = "other places";

        if (row->place)
            um_omp_place_text(place, sizeof(place), row->place);
        dprintf(STDERR_FILENO, "umbra: %-16s %10ju %12.3f %12.3f %12.3f at %s\n", names[row->what],
                (uintmax_t)row->times, ms(row->inside), ms(row->own), ms(row->waited), place);
    }
    free(table.row);
}

/* ---- begin and end ---- */

static void in_child(void)
{
    um_omp_settings.sees = false;
    um_omp_stuck_in_child();
    um_trace_in_child();
}

int um_omp_see_read(void)
{
    static const struct um_fork_locks locks = {{&tracks.lock}, in_child};
    int error = um_forks_enter(UM_FORK_OMP, &locks), other;

    if (error == 0)
        error = -pthread_key_create(&tracks.key, track_give);
    if (error != 0)
        return error;
    um_forks_hold(); /* a child finds all of this done, or nothing */
    error = um_trace_from_environment();
    other = um_omp_stuck_read();
    if (error != 0 || other != 0)
        fprintf(stderr, "umbra_omp: %s\n", umbra_last_error_text());
    um_traces.top = false; /* no view is live here */
    /* not on: a child that was made before the first member was ready reads again */
    um_omp_settings.sees = error == 0 && um_traces.on && (um_traces.fd != 0 || um_traces.stats);
    um_forks_release();
    return 0;
}

/* The program ends; before um_traces_end(). */
__attribute__((__destructor__)) static void end(void)
{
    if (!um_omp_settings.sees)
        return;
    um_omp_settings.sees = false;
    pthread_mutex_lock(&tracks.lock);
    if (um_traces.stats)
        print();
    for (struct track *track = tracks.first; track; track = track->next)
        if (track->trace.ring)
            um_trace_end_alone(&track->trace);
    pthread_mutex_unlock(&tracks.lock);
}
