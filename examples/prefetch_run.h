/* SPDX-License-Identifier: BSL-1.0 */
/* What prefetch_list.c and prefetch_hash.c have in common: options, measuring, the table. */
#ifndef EXAMPLES_PREFETCH_RUN_H
#define EXAMPLES_PREFETCH_RUN_H

#include <umbra/prefetch.h>
#include <umbra/shadow.h>

#define WORDS 6 /* of a record, which has a line to itself */

struct record {
    _Alignas(UMBRA_CACHE_LINE) uint64_t words[WORDS];
};

/* Some items in a row, visited once. */
struct stretch {
    void *data;                  /* the program's */
    uint64_t first;              /* item */
    uint64_t count;              /* items */
    unsigned long rounds;        /* of work on each */
    uint64_t sum;                /* of the work's results: the visit adds */
    struct umbra_shadow *shadow; /* or NULL: alone */
    _Alignas(UMBRA_CACHE_LINE) struct umbra_prefetch ahead; /* the two's; prepared */
};

/* A program, which also defines program_name (program.h). */
struct subject {
    const char *usage;                        /* the first lines of --help */
    const char *items;                        /* what they are, in a few words */
    void *(*make)(size_t bytes, size_t *out); /* data and number of items; NULL: no memory */
    void (*visit)(struct stretch *stretch);
    void (*destroy)(void *data);
};

/* main() of the program: an exit status. */
int prefetch_main(const struct subject *subject, int argc, char **argv);

/* The work on an item: several independent chains of arithmetic, `rounds` steps long. */
uint64_t prefetch_work(const struct record *record, unsigned long rounds);

/* Numbers without an order. The state is not 0. */
uint64_t prefetch_random(uint64_t *state);

/* 0 .. count-1 in random order; NULL: no memory. */
size_t *prefetch_shuffled(size_t count, uint64_t *random);

void prefetch_fill(struct record *record, uint64_t *random);

#endif
