/* SPDX-License-Identifier: BSL-1.0 */
/* See parts.h. */
#define _DEFAULT_SOURCE
#include "parts.h"

#include <errno.h>
#include <string.h>

#include "bits.h"
#include "placed.h"

struct parting {
    struct parts *parts;
    const struct csr *csr;
};

double parts_bytes(double vertices, double edges, unsigned count)
{
    return count == 1 ? 0
                      : (count + 1) * vertices * sizeof(uint64_t) + edges * 4 * sizeof(uint32_t);
}

/* A row's neighbours from `least` on: where they begin. Rows are sorted. */
static uint64_t row_from(const struct csr *csr, size_t vertex, size_t least)
{
    uint64_t low = csr->row[vertex], high = csr->row[vertex + 1];

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (csr->to[middle] < least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void fill_forward(const struct csr *csr, struct part *part)
{
    uint64_t place = 0;

    for (size_t v = 0; v < csr->vertices; v++) {
        uint64_t begin = row_from(csr, v, part->begin),
                 length = row_from(csr, v, part->end) - begin;

        part->forward.row[v] = place;
        memcpy(part->forward.to + place, csr->to + begin, length * sizeof(*csr->to));
        place += length;
    }
    part->forward.row[csr->vertices] = place;
}

static void fill_backward(const struct csr *csr, struct part *part)
{
    uint64_t first = csr->row[part->begin];

    memcpy(part->backward.to, csr->to + first, (csr->row[part->end] - first) * sizeof(*csr->to));
    for (size_t v = part->begin; v <= part->end; v++)
        part->backward.row[v - part->begin] = csr->row[v] - first;
}

/* The first member of each part. */
static void fill_parts(struct member *member, void *arg)
{
    struct parting *parting = arg;
    unsigned first, end, members;

    if (parts_of(parting->parts, member, &first, &end, &members) != 0)
        return;
    for (unsigned k = first; k < end; k++) {
        fill_backward(parting->csr, &parting->parts->part[k]);
        fill_forward(parting->csr, &parting->parts->part[k]);
    }
}

/* As many neighbours lead into a part as out of it. */
static int allocate(struct csr *csr, size_t vertices, size_t neighbours, unsigned part)
{
    csr->vertices = vertices;
    csr->row = placed_alloc((vertices + 1) * sizeof(*csr->row), part);
    csr->to = placed_alloc(neighbours * sizeof(*csr->to), part);
    return csr->row && csr->to ? 0 : -ENOMEM;
}

static int allocate_parts(struct parts *parts, const struct csr *csr)
{
    size_t words = bits_words(csr->vertices);
    int error = 0;

    for (unsigned k = 0; k < parts->count && !error; k++) {
        struct part *part = &parts->part[k];
        size_t neighbours;

        part->begin = words * k / parts->count * BITS;
        part->end = k + 1 == parts->count ? csr->vertices : words * (k + 1) / parts->count * BITS;
        neighbours = csr->row[part->end] - csr->row[part->begin];
        error = allocate(&part->forward, csr->vertices, neighbours, k);
        if (!error)
            error = allocate(&part->backward, part->end - part->begin, neighbours, k);
    }
    return error;
}

int parts_build(struct parts *parts, const struct csr *csr, unsigned count, struct crew *crew)
{
    struct parting parting = {parts, csr};
    int error;

    memset(parts, 0, sizeof(*parts));
    parts->count = count;
    parts->vertices = csr->vertices;
    if (count == 1) {
        parts->part[0] = (struct part){.end = csr->vertices, .forward = *csr, .backward = *csr};
        return 0;
    }
    error = allocate_parts(parts, csr);
    if (!error)
        error = crew_run(crew, fill_parts, &parting, NULL);
    if (error)
        parts_free(parts);
    return error;
}

void parts_free(struct parts *parts)
{
    for (unsigned k = 0; k < parts->count && parts->count > 1; k++) {
        csr_destroy(&parts->part[k].forward);
        csr_destroy(&parts->part[k].backward);
    }
    parts->count = 0;
}
