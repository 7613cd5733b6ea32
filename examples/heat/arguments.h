/* SPDX-License-Identifier: BSL-1.0 */
/* Numbers that the programs' arguments give; a wrong one ends the program, with a line about it.
 * And how many processors there are when they give none. */
#ifndef HEAT_ARGUMENTS_H
#define HEAT_ARGUMENTS_H

#include "size.h"

#include <stdio.h>

#include <umbra/topology.h>

static inline size_t argument_number(const char *program, const char *what, const char *text,
                                     size_t least, size_t most)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (end == text || *end || *text == '-' || value < least || value > most) {
        fprintf(stderr, "%s: %s: not a number from %zu to %zu: '%s'\n", program, what, least, most,
                text);
        exit(2);
    }
    return (size_t)value;
}

static inline void argument_size(const char *program, const char *what, const char *text,
                                 size_t size[3])
{
    if (!size_read(text, size)) {
        fprintf(stderr, "%s: %s: not a number from 1 to %d, or three: '%s'\n", program, what,
                SIZE_MOST, text);
        exit(2);
    }
}

/* Processors that this process may use. */
static inline size_t processors_here(void)
{
    struct umbra_topology *topology;
    size_t count = 1;

    if (umbra_topology_create(NULL, &topology) == 0) {
        count = umbra_topology_cpus(topology);
        umbra_topology_destroy(topology);
    }
    return count;
}

#endif
