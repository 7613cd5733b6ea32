/* SPDX-License-Identifier: BSL-1.0 */
/* What a program asks for, and sets: the calling task's variables, and where it is. */
#include <time.h>

#include "api.h"
#include "library.h"

static struct um_omp_icv *icv(void)
{
    return &um_omp_self()->task->icv;
}

/* ---- regions ---- */

int omp_get_num_threads(void)
{
    return (int)um_omp_self()->team->members;
}

int omp_get_thread_num(void)
{
    return (int)um_omp_self()->number;
}

int omp_get_max_threads(void)
{
    return icv()->threads;
}

void omp_set_num_threads(int value)
{
    icv()->threads = value > 0 ? value : 1;
}

int omp_get_num_procs(void)
{
    return um_omp_settings.processors;
}

int omp_in_parallel(void)
{
    return um_omp_self()->team->active > 0;
}

int omp_get_dynamic(void)
{
    return icv()->dynamic;
}

void omp_set_dynamic(int value)
{
    icv()->dynamic = value != 0;
}

int omp_get_max_active_levels(void)
{
    return icv()->levels;
}

void omp_set_max_active_levels(int value)
{
    if (value >= 0)
        icv()->levels = (uint8_t)(value < UM_OMP_LEVELS ? value : UM_OMP_LEVELS);
}

int omp_get_supported_active_levels(void)
{
    return UM_OMP_LEVELS;
}

int omp_get_nested(void)
{
    return icv()->levels > 1;
}

void omp_set_nested(int value)
{
    struct um_omp_icv *own = icv();

    if (!value && own->levels > 1)
        own->levels = 1;
    else if (value && own->levels <= 1)
        own->levels = UM_OMP_LEVELS;
}

int omp_get_thread_limit(void)
{
    return icv()->limit;
}

int omp_get_level(void)
{
    return (int)um_omp_self()->team->level;
}

int omp_get_active_level(void)
{
    return (int)um_omp_self()->team->active;
}

/* The team around the caller at a level, and the caller's member there; NULL: there is none. */
static const struct um_omp_team *team_at(int level, unsigned *number)
{
    const struct um_omp_member *self = um_omp_self();
    const struct um_omp_team *team = self->team;

    *number = self->number;
    if (level < 0 || level > (int)team->level)
        return NULL;
    while ((int)team->level > level) {
        *number = team->outer_number;
        team = team->outer;
    }
    return team;
}

int omp_get_ancestor_thread_num(int level)
{
    unsigned number;

    return team_at(level, &number) ? (int)number : -1;
}

int omp_get_team_size(int level)
{
    unsigned number;
    const struct um_omp_team *team = team_at(level, &number);

    return team ? (int)team->members : -1;
}

/* ---- loops and tasks ---- */

void omp_get_schedule(unsigned *kind, int *chunk)
{
    *kind = icv()->schedule;
    *chunk = icv()->chunk;
}

void omp_set_schedule(unsigned kind, int chunk)
{
    struct um_omp_icv *own = icv();
    unsigned plain = kind & ~UM_OMP_MONOTONIC;

    if (plain < UM_OMP_STATIC || plain > UM_OMP_AUTO)
        return;
    own->schedule = kind;
    if (plain == UM_OMP_STATIC)
        own->chunk = chunk > 0 ? chunk : 0;
    else if (plain != UM_OMP_AUTO)
        own->chunk = chunk > 0 ? chunk : 1;
}

int omp_in_final(void)
{
    return (um_omp_self()->task->kind & UM_OMP_FINAL) != 0;
}

int omp_get_max_task_priority(void)
{
    return um_omp_settings.priority;
}

/* ---- places ---- */

int omp_get_proc_bind(void)
{
    const struct um_omp_settings *set = &um_omp_settings;
    unsigned level = um_omp_self()->team->level;

    if (set->bind_levels == 0)
        return 0;
    return set->bind[level < set->bind_levels ? level : set->bind_levels - 1];
}

int omp_get_num_places(void)
{
    return (int)um_omp_settings.places;
}

int omp_get_place_num(void)
{
    const struct um_omp_settings *set = &um_omp_settings;
    unsigned number;

    if (set->places == 0 || set->bind_levels == 0 || set->bind[0] == 0)
        return -1;
    (void)team_at(um_omp_self()->team->level > 0 ? 1 : 0, &number);
    return (int)(number % set->places);
}

int omp_get_place_num_procs(int place)
{
    return place >= 0 && place < omp_get_num_places();
}

void omp_get_place_proc_ids(int place, int *ids)
{
    if (omp_get_place_num_procs(place))
        ids[0] = um_omp_settings.place[place];
}

int omp_get_partition_num_places(void)
{
    return omp_get_num_places();
}

void omp_get_partition_place_nums(int *places)
{
    for (int i = 0; i < omp_get_num_places(); i++)
        places[i] = i;
}

/* ---- the rest ---- */

double omp_get_wtime(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double omp_get_wtick(void)
{
    struct timespec tick;

    clock_getres(CLOCK_MONOTONIC, &tick);
    return (double)tick.tv_sec + (double)tick.tv_nsec / 1e9;
}

/* Ends the threads of the calling one's regions. */
int omp_pause_resource(int kind, int device)
{
    struct um_omp_member *self = um_omp_self();

    if (self->team->level > 0 || device != omp_get_initial_device() || (kind != 1 && kind != 2))
        return -1;
    um_omp_pool_pause(self);
    return 0;
}

int omp_pause_resource_all(int kind)
{
    return omp_pause_resource(kind, 0);
}
