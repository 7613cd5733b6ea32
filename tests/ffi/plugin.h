/* SPDX-License-Identifier: BSL-1.0 */
/* What plugin.c and own_copy.c find in their shared object, which is on libumbra.so, by name. */
#ifndef UMBRA_TESTS_FFI_PLUGIN_H
#define UMBRA_TESTS_FFI_PLUGIN_H

#include <umbra.h>

/* Called by a fiber: spawns one that signals the event, waits for it, and joins. 0 or an error. */
typedef int plugin_wait_fn(struct umbra_event *event);

/* The core that the caller is, or a negative number. */
typedef int plugin_core_fn(void);

/* Tries to create a shadow with the options. 0, then it has been destroyed, or an error. */
typedef int plugin_shadow_fn(const struct umbra_shadow_options *options);

#endif
