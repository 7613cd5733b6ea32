/* SPDX-License-Identifier: BSL-1.0 */
/* A shared object with a copy of the library: test_plugin.c opens and closes it. */
#include "plugin.h"

#include <pthread.h>

#include <umbra.h>

plugin_start_fn plugin_start;
plugin_stop_fn plugin_stop;
plugin_wait_fn plugin_wait;
plugin_hire_fn plugin_hire;

enum { SOON_NS = 1000 };

static struct umbra_runtime *runtime;
static struct umbra_event asked, answered, never;

static void *answer(void *arg)
{
    while (umbra_event_wait(&asked, UMBRA_NEVER) == 0)
        umbra_event_signal(&answered);
    return arg;
}

int plugin_start(void)
{
    struct umbra_options options = {.cores = 1, .quiet = true};
    struct umbra_spawn_options on_core = {.where = UMBRA_ON_CORE};
    int error = umbra_runtime_create(&options, &runtime);

    asked = answered = never = (struct umbra_event)UMBRA_EVENT_INIT; /* it may be opened again */
    return error == 0 ? umbra_spawn_with(runtime, &on_core, answer, NULL, NULL) : error;
}

int plugin_stop(void)
{
    return umbra_runtime_destroy(runtime);
}

int plugin_wait(void)
{
    struct umbra_event *neither[] = {&never, &answered};
    int error;

    umbra_event_signal(&asked);
    error = umbra_event_wait(&answered, UMBRA_NEVER);
    if (error == 0) {
        umbra_event_signal(&asked);
        error = umbra_event_wait(&answered, UMBRA_NEVER - 1);
    }
    if (error == 0)
        error = umbra_sleep_ns(SOON_NS);
    if (error == 0 && umbra_event_wait(&never, umbra_deadline(SOON_NS)) != -ETIMEDOUT)
        error = -EINVAL;
    if (error == 0 && umbra_event_wait_any(neither, 2, umbra_deadline(SOON_NS), NULL) != -ETIMEDOUT)
        error = -EINVAL;
    return error;
}

/* ---- a thread that is ended by a destructor ---- */

static struct umbra_event dismissed = UMBRA_EVENT_INIT, ready = UMBRA_EVENT_INIT;
static pthread_t hired;
static bool is_hired;

static void *work(void *arg)
{
    umbra_sleep_ns(SOON_NS);
    umbra_event_signal(&ready);
    umbra_event_wait(&dismissed, UMBRA_NEVER);
    return arg;
}

int plugin_hire(void)
{
    int error = -pthread_create(&hired, NULL, work, NULL);

    is_hired = error == 0;
    return error == 0 ? umbra_event_wait(&ready, UMBRA_NEVER) : error;
}

static __attribute__((__destructor__)) void dismiss(void)
{
    if (!is_hired)
        return;
    umbra_event_signal(&dismissed);
    pthread_join(hired, NULL);
}
