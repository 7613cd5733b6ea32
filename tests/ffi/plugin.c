/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A program and a plugin, both on libumbra.so: plugin PLUGIN. A fiber that the program has started
 * may wait, spawn and join in the plugin, which knows the fiber's core. A place that a shadow of the
 * program has is taken for shadows of the plugin.
 */
#include "plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *object;
static int failures;

static void *find(const char *name)
{
    void *found = dlsym(object, name);

    if (!found) {
        printf("%s\n", dlerror());
        exit(2);
    }
    return found;
}

static void check(bool ok, const char *what)
{
    printf("%s: %s\n", what, ok ? "ok" : "FAILED");
    failures += !ok;
}

/* ---- fibers ---- */

static struct umbra_event event = UMBRA_EVENT_INIT;
static struct umbra_mutex mutex = UMBRA_MUTEX_INIT;

static void *call_plugin(void *arg)
{
    check(((plugin_core_fn *)find("plugin_core"))() == umbra_core_index(), "the fiber's core");
    umbra_mutex_lock(&mutex);
    check(((plugin_wait_fn *)find("plugin_wait"))(&event) == 0, "a wait, spawn and join");
    umbra_mutex_unlock(&mutex);
    return arg;
}

static void fiber_calls_plugin(void)
{
    struct umbra_options options = {.cores = 1};

    check(umbra_run(&options, call_plugin, NULL) == 0, "a runtime");
    check(((plugin_core_fn *)find("plugin_core"))() < 0, "no core after it");
}

/* ---- shadows ---- */

static void *create_there(void *options)
{
    static int error;

    error = ((plugin_shadow_fn *)find("plugin_shadow"))(options);
    return &error;
}

/* The error of a thread that creates a shadow in the plugin. */
static int in_thread(struct umbra_shadow_options *options)
{
    pthread_t thread;
    void *error;

    if (pthread_create(&thread, NULL, create_there, options) != 0 ||
        pthread_join(thread, &error) != 0)
        exit(2);
    return *(int *)error;
}

static void shadows_know_places(void)
{
    struct umbra_topology_options machine = {.synthetic = "core:1 pu:2"};
    struct umbra_shadow_options options = {.place_owner = true, .owner_cpu = 0};
    struct umbra_shadow shadow;

    if (umbra_topology_create(&machine, &options.topology) != 0 ||
        shadow_create(&shadow, &options) != 0) {
        printf("no shadow on a described machine: %s\n", umbra_last_error_text());
        exit(2);
    }
    check(in_thread(&options) == -ENOSPC, "the program's shadow has the place");
    shadow_destroy(&shadow);
    check(in_thread(&options) == 0, "the place is free again");
    umbra_topology_destroy(options.topology);
}

int main(int argc, char **argv)
{
    object = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!object) {
        printf("usage: plugin PLUGIN; %s\n", argc == 2 ? dlerror() : "");
        return 2;
    }
    fiber_calls_plugin();
    shadows_know_places();
    return failures != 0;
}
