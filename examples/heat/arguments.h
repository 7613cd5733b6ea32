/* SPDX-License-Identifier: BSL-1.0 */
/* Sizes among the programs' arguments; see program.h. */
#ifndef HEAT_ARGUMENTS_H
#define HEAT_ARGUMENTS_H

#include "../program.h"
#include "size.h"

static inline void size_of(const char *what, const char *text, size_t size[3])
{
    if (!size_read(text, size)) {
        fprintf(stderr, PROGRAM ": %s: not a number from 1 to %d, or three: '%s'\n", what,
                SIZE_MOST, text);
        exit(2);
    }
}

#endif
