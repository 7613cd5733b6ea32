/* SPDX-License-Identifier: BSL-1.0 */
/* A plugin on libumbra.so. */
#include "plugin.h"

plugin_wait_fn plugin_wait;
plugin_core_fn plugin_core;
plugin_shadow_fn plugin_shadow;

static void *signal_event(void *event)
{
    umbra_yield();
    umbra_event_signal(event);
    return NULL;
}

int plugin_wait(struct umbra_event *event)
{
    struct umbra_fiber fiber;
    int error = umbra_spawn(signal_event, event, &fiber);

    if (error == 0)
        error = umbra_event_wait(event, UMBRA_NEVER);
    return error == 0 ? umbra_join(fiber, UMBRA_NEVER, NULL) : error;
}

int plugin_core(void)
{
    return umbra_core_index();
}

int plugin_shadow(const struct umbra_shadow_options *options)
{
    struct umbra_shadow shadow;
    int error = shadow_create(&shadow, options);

    return error == 0 ? shadow_destroy(&shadow) : error;
}
