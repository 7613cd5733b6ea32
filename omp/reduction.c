/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Reductions of tasks: in_reduction, task_reduction, and reduction with the modifier task. The
 * program describes variables in a record of the ABI, and combines the results itself; the library
 * makes memory for the members' copies, and tells a task where its member's is.
 *
 *   record[0]          number of variables
 *   record[1]          bytes that a member's copies take, together
 *   record[2]          their alignment; then where member 0's are
 *   record[4]          another record, or 0; behind the last one the outer taskgroup's
 *   record[5]          not 0 in the first record of a taskgroup
 *   record[6]          the end of all members' copies
 *   record[7 + 3 j]    variable j: where it is, where in a member's copies, and the record
 */
#include <stdlib.h>
#include <string.h>

#include "library.h"

enum { VARIABLES, BYTES, COPIES, NEXT = 4, FIRST, END, VARIABLE, WORDS = 3 };

static void *copies_make(size_t bytes, size_t align)
{
    void *memory;

    align = align > UMBRA_CACHE_LINE ? align : UMBRA_CACHE_LINE;
    bytes = (bytes / align + 1) * align;
    memory = aligned_alloc(align, bytes);
    if (!memory)
        um_omp_fatal("out of memory");
    return memset(memory, 0, bytes);
}

/* like: NULL, or the records of another member; these use the same memory. */
static void records_begin(uintptr_t *data, const uintptr_t *like, uintptr_t *outer,
                          unsigned members)
{
    uintptr_t *record = data, *next;

    for (;; record = next) {
        if (like) {
            record[COPIES] = like[COPIES];
            like = (const uintptr_t *)like[NEXT];
        } else {
            record[COPIES] = (uintptr_t)copies_make(record[BYTES] * members, record[COPIES]);
        }
        record[END] = record[COPIES] + record[BYTES] * members;
        record[FIRST] = 0;
        for (size_t j = 0; j < record[VARIABLES]; j++)
            record[VARIABLE + WORDS * j + 2] = (uintptr_t)record;
        next = (uintptr_t *)record[NEXT];
        if (!next)
            break;
    }
    record[NEXT] = (uintptr_t)outer;
    data[FIRST] = 1;
}

void um_omp_reduce_region(uintptr_t *data, unsigned members)
{
    records_begin(data, NULL, NULL, members);
}

void um_omp_reduce_begin(struct um_omp_member *self, uintptr_t *data)
{
    struct um_omp_group *group = self->task->group;

    records_begin(data, NULL, group->reductions, self->team->members);
    group->reductions = data;
}

void um_omp_reduce_share(struct um_omp_member *self, struct um_omp_share *share, uintptr_t *data,
                         bool first)
{
    struct um_omp_group *group = self->task->group;

    records_begin(data, first ? NULL : share->reductions, group->reductions, self->team->members);
    if (first)
        share->reductions = data;
    group->share = true;
    group->first = first;
    group->reductions = data;
}

void um_omp_reduce_end(uintptr_t *data)
{
    do {
        free((void *)data[COPIES]);
        data = (uintptr_t *)data[NEXT];
    } while (data && !data[FIRST]);
}

UM_OMP_ABI void GOMP_taskgroup_reduction_register(uintptr_t *data)
{
    um_omp_reduce_begin(um_omp_self(), data);
}

UM_OMP_ABI void GOMP_taskgroup_reduction_unregister(uintptr_t *data)
{
    um_omp_reduce_end(data);
}

/* The end of a work share with reductions, at which its members meet. Tasks of all members use the
 * copies up to there, and member 0 has combined them before it comes. If the region is cancelled they do
 * not meet: then the copies stay. */
UM_OMP_ABI void GOMP_workshare_task_reduction_unregister(bool cancelled)
{
    struct um_omp_member *self = um_omp_self();
    uintptr_t *data = self->task->group->reductions;
    bool first = self->task->group->first;

    um_omp_group_end(self);
    if (!cancelled)
        um_omp_barrier_plain(self);
    if (first && !cancelled)
        um_omp_reduce_end(data);
}

/* The record that has a variable at `address`, or in a member's copies there; and where in a
 * member's copies that is. */
static uintptr_t *record_find(uintptr_t *record, uintptr_t address, uintptr_t *offset)
{
    for (uintptr_t *at = record; at; at = (uintptr_t *)at[NEXT])
        for (size_t j = 0; j < at[VARIABLES]; j++)
            if (at[VARIABLE + WORDS * j] == address) {
                *offset = at[VARIABLE + WORDS * j + 1];
                return at;
            }
    for (uintptr_t *at = record; at; at = (uintptr_t *)at[NEXT])
        if (address >= at[COPIES] && address < at[END]) {
            *offset = (address - at[COPIES]) % at[BYTES];
            return at;
        }
    um_omp_fatal("a task reduces %p, which no taskgroup does", (void *)address);
}

/* The variable itself. */
static uintptr_t variable_of(const uintptr_t *record, uintptr_t offset)
{
    for (size_t j = 0; j < record[VARIABLES]; j++)
        if (record[VARIABLE + WORDS * j + 1] == offset)
            return record[VARIABLE + WORDS * j];
    return 0;
}

/* Puts the member's copies in place of variables; behind `count` the first `wanted` variables. */
UM_OMP_ABI void GOMP_task_reduction_remap(size_t count, size_t wanted, void **pointers)
{
    struct um_omp_member *self = um_omp_self();
    struct um_omp_group *group = self->task->group;
    uintptr_t offset;

    for (size_t i = 0; i < count; i++) {
        uintptr_t *record =
            record_find(group ? group->reductions : NULL, (uintptr_t)pointers[i], &offset);

        pointers[i] = (void *)(record[COPIES] + self->number * record[BYTES] + offset);
        if (i < wanted)
            pointers[count + i] = (void *)variable_of(record, offset);
    }
}
