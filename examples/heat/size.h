/* SPDX-License-Identifier: BSL-1.0 */
/* Numbers of nodes as the programs' arguments give them. */
#ifndef HEAT_SIZE_H
#define HEAT_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define SIZE_MOST 100000
#define RANKS_SIZE_MOST 30000 /* of the first two directions with MPI: a plane's nodes fit an int */

/* One number, for all three directions, or three: 100 or 200x100x50. Whether it was that. */
static inline bool size_read(const char *text, size_t size[3])
{
    for (int d = 0; d < 3; d++) {
        char *end;
        unsigned long value = strtoul(text, &end, 10);

        if (end == text || *text < '0' || *text > '9' || value < 1 || value > SIZE_MOST)
            return false;
        size[d] = value;
        if (*end == '\0' && d == 0)
            size[1] = size[2] = value;
        if (*end == '\0')
            return d != 1;
        if (*end != 'x')
            return false;
        text = end + 1;
    }
    return false;
}

#endif
