/* SPDX-License-Identifier: BSL-1.0 */
/* A run in the workers of a dispatcher, for the ways that are one. */
#ifndef HEAT_DISPATCH_H
#define HEAT_DISPATCH_H

#include "variants.h"

#include <umbra/dispatch.h>

/* Makes a dispatcher whose workers process with fn, and lets it go through the steps that `begin`
 * begins; both are given arg. 0 or a negative errno. */
int dispatch_run(const struct setting *setting, umbra_dispatch_fn *fn, umbra_step_fn *begin,
                 void *arg);

#endif
