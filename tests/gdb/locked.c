/* SPDX-License-Identifier: BSL-1.0 */
/* For gdb, and for tools/umbra-report: a deadlock of what has holders, counts, or several events. */
#include <umbra.h>

static struct umbra_mutex held = UMBRA_MUTEX_INIT, left = UMBRA_MUTEX_INIT;
static struct umbra_mutex outside = UMBRA_MUTEX_INIT;
static struct umbra_semaphore semaphore = UMBRA_SEMAPHORE_INIT(0);
static struct umbra_rwlock rwlock = UMBRA_RWLOCK_INIT;
static struct umbra_event one = UMBRA_EVENT_INIT, two = UMBRA_EVENT_INIT;

static void *takes_held(void *arg)
{
    umbra_mutex_lock(&held);
    return arg;
}

static void *takes_left(void *arg)
{
    umbra_mutex_lock(&left);
    return arg;
}

static void *takes_outside(void *arg)
{
    umbra_mutex_lock(&outside);
    return arg;
}

static void *takes_semaphore(void *arg)
{
    if (umbra_semaphore_wait(&semaphore, UMBRA_NEVER) != 0)
        return NULL;
    return arg;
}

static void *writes(void *arg)
{
    umbra_rwlock_write(&rwlock);
    return arg;
}

static void *holds(void *arg)
{
    struct umbra_event *events[] = {&one, &two};

    umbra_mutex_lock(&held);
    umbra_event_wait_any(events, 2, UMBRA_NEVER, NULL);
    return arg;
}

static void spawn(const char *name, umbra_fiber_fn *fn)
{
    struct umbra_spawn_options options = {.name = name};

    umbra_spawn_with(NULL, &options, fn, NULL, NULL);
    umbra_yield();
}

static void *body(void *arg)
{
    umbra_rwlock_read(&rwlock);
    spawn("holder", holds);
    spawn("taker", takes_held);
    spawn("ends", takes_left);
    spawn("late", takes_left);
    spawn("locked out", takes_outside);
    spawn("poor", takes_semaphore);
    spawn("writer", writes);
    return arg;
}

int main(void)
{
    struct umbra_options options = {.cores = 1};

    umbra_mutex_lock(&outside);
    return umbra_run(&options, body, NULL) == -EDEADLK ? 3 : 1;
}
