/* SPDX-License-Identifier: BSL-1.0 */
#ifndef HEAT_PICTURE_H
#define HEAT_PICTURE_H

#include "body.h"

#include <stdio.h>

/*
 * Writes the plane in the middle of the body, as it is after so many steps, as a PNG: a pixel a
 * node, from black (zero) to yellow (the hottest). 0 or a negative errno.
 */
int picture_write(const struct body *body, size_t steps, FILE *to);

#endif
