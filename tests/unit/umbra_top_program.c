/* SPDX-License-Identifier: BSL-1.0 */
/* What the tests of umbra-top and umbra-trace look at: a fiber that waits, one that holds its core,
 * and one that sleeps again and again, until standard input ends. */
#include <stdio.h>

#include <umbra.h>

static struct umbra_event event = UMBRA_EVENT_INIT;
static _Atomic int over;

static void *waits(void *arg)
{
    umbra_event_wait(&event, UMBRA_NEVER);
    return arg;
}

static void *holds(void *arg)
{
    while (!over)
        umbra_pause();
    return arg;
}

static void *sleeps(void *arg)
{
    while (!over)
        umbra_sleep_ns(1000000);
    umbra_event_signal(&event);
    return arg;
}

static int spawn(struct umbra_runtime *runtime, unsigned core, umbra_fiber_fn *fn, const char *name)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = core, .name = name};

    return umbra_spawn_with(runtime, &there, fn, NULL, NULL);
}

int main(void)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};
    struct umbra_runtime *runtime;
    int error = umbra_runtime_create(&options, &runtime);

    if (error != 0) {
        fprintf(stderr, "%s\n", umbra_last_error_text());
        return 1;
    }
    error = spawn(runtime, 0, waits, "the waiter");
    error |= spawn(runtime, 0, sleeps, "the sleeper");
    error |= spawn(runtime, 1, holds, "the hog");
    umbra_hold(runtime);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    over = 1;
    umbra_release(runtime);
    error |= umbra_runtime_wait(runtime);
    umbra_runtime_destroy(runtime);
    return error != 0;
}
