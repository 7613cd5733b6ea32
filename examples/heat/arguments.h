/* SPDX-License-Identifier: BSL-1.0 */
/* Sizes among the programs' options; see options.h. */
#ifndef HEAT_ARGUMENTS_H
#define HEAT_ARGUMENTS_H

#include "../options.h"
#include "size.h"

#define SIZE_WRONG SIZE_WRONG_OF(SIZE_MOST)
#define SIZE_WRONG_OF(most) SIZE_WRONG_TEXT(most)
#define SIZE_WRONG_TEXT(most) "not a number from 1 to " #most ", or three"

/* An option's value, as an array of three. True if it is one. */
static inline bool read_size(const char *text, void *size)
{
    return size_read(text, size);
}

#endif
