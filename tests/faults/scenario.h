/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What scenarios share. They say what their calls return, and go on: a scenario without an error
 * has done all that it is for, and one with an error leaves nothing behind. Their own calls of the
 * system are not failed: __real_NAME, or calls that Umbra does not make.
 */
#ifndef UMBRA_TESTS_FAULTS_SCENARIO_H
#define UMBRA_TESTS_FAULTS_SCENARIO_H

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <umbra.h>

#include "faults.h"

#define MS UINT64_C(1000000)
#define LONG (2000 * MS) /* for what comes soon, unless something has failed */

extern int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                 void *(*fn)(void *), void *arg);
extern int __real_pthread_join(pthread_t thread, void **result);
extern int __real_close(int fd);
extern ssize_t __real_write(int fd, const void *at, size_t bytes);

extern atomic_int first_error, first_wrong; /* a negative errno; a line */

/* Says what a call has returned. True if it is 0. The text of a failure is its own, or empty, and
 * not that of an earlier one, which each note leaves behind. */
static inline bool note(int error)
{
    static const char earlier[] = "an earlier failure";
    int none = 0;

    if (error != 0)
        atomic_compare_exchange_strong(&first_error, &none, error);
    if (error != 0 && error != -ETIMEDOUT && error != -ECANCELED && error != -EPIPE &&
        strcmp(umbra_last_error_text(), earlier) == 0)
        first_wrong = __LINE__;
    um_why(0, "%s", earlier);
    return error == 0;
}

/* What must be true if no call has returned an error. */
#define MUST(condition) must(condition, __LINE__)
static inline bool must(bool holds, int line)
{
    int none = 0;

    if (!holds && first_error == 0)
        atomic_compare_exchange_strong(&first_wrong, &none, line);
    return holds;
}

/* What must be true in any case. */
#define ALWAYS(condition) always(condition, __LINE__)
static inline bool always(bool holds, int line)
{
    if (!holds)
        first_wrong = line;
    return holds;
}

static inline int result(void)
{
    return first_wrong != 0 ? first_wrong : first_error;
}

/* Runs fn in a fiber of a runtime with two cores, and returns the scenario's result. */
static inline int on_two_cores_with(struct umbra_options options, umbra_fiber_fn *fn)
{
    int error;

    options.cores = 2;
    options.oversubscribe = true;
    options.quiet = true;
    options.topology = topology;
    error = umbra_run(&options, fn, NULL);
    MUST(error != -EDEADLK); /* only after an error */
    note(error);
    return result();
}

static inline int on_two_cores(umbra_fiber_fn *fn)
{
    return on_two_cores_with((struct umbra_options){.cores = 2}, fn);
}

/* Runs fn(arg) in a thread that is no core, and waits for its end. */
static inline void in_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;

    if (__real_pthread_create(&thread, NULL, fn, arg) == 0)
        __real_pthread_join(thread, NULL);
}

/* In a fiber: runs fn(one) here and fn(other) in a fiber of the other core. */
static inline void on_both(umbra_fiber_fn *fn, void *one, void *other)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = 1};
    struct umbra_fiber fiber;

    if (!note(umbra_spawn_with(NULL, &there, fn, other, &fiber)))
        return;
    fn(one);
    note(umbra_join(fiber, UMBRA_NEVER, NULL));
}

int use_pipes(void);
int use_sockets(void);
int use_files(void);
int use_local_connections(void);
int use_connections(void);
int use_left_calls(void);
int use_io_in_a_thread(void);
int use_memory(void);
int use_bound_memory(void);
int use_machine(void);
int use_descriptions(void);
int use_shadow(void);
int use_shadows_of_cores(void);
int use_team(void);

#endif
