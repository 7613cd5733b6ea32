/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Calls that let other fibers of the core run while the child waits, and the child's threads. A
 * thread that a child creates is a thread of the process, with thread-locals of the child's
 * executable in its room. It may use all processors. The child ends when its own code and all its
 * threads have ended.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "bind.h"

#define SECOND UINT64_C(1000000000)

/* Between two looks whether a thread has ended. */
#define JOIN_LEAST_NS 5000
#define JOIN_MOST_NS 1000000

/* ---- waits ---- */

int um_bind_sched_yield(void)
{
    struct umbra_child *child = um_child_self();
    int saved = errno;

    umbra_yield();
    um_child_resumed(child);
    errno = saved;
    return 0;
}

void um_bind_thrd_yield(void)
{
    um_bind_sched_yield();
}

static void sleep_ns(uint64_t ns)
{
    struct umbra_child *child = um_child_self();
    int saved = errno;

    umbra_sleep_ns(ns);
    um_child_resumed(child);
    errno = saved;
}

unsigned um_bind_sleep(unsigned seconds)
{
    sleep_ns(seconds * SECOND);
    return 0;
}

int um_bind_usleep(useconds_t us)
{
    sleep_ns(us * UINT64_C(1000));
    return 0;
}

static bool is_time(const struct timespec *time)
{
    return time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < (long)SECOND;
}

/* At most 36 years: so programs sleep for ever, and that is no deadlock. */
static uint64_t ns_of(const struct timespec *time)
{
    if (time->tv_sec >= INT64_MAX / 8 / (int64_t)SECOND)
        return INT64_MAX / 8;
    return (uint64_t)time->tv_sec * SECOND + (uint64_t)time->tv_nsec;
}

int um_bind_nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left; /* no signal ends the sleep */
    if (!is_time(time)) {
        errno = EINVAL;
        return -1;
    }
    sleep_ns(ns_of(time));
    return 0;
}

int um_bind_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                            struct timespec *left)
{
    struct timespec now = {0, 0};

    (void)left;
    if (!is_time(time) || ((flags & TIMER_ABSTIME) && clock_gettime(clock, &now) != 0))
        return EINVAL;
    if (ns_of(time) > ns_of(&now))
        sleep_ns(ns_of(time) - ns_of(&now));
    return 0;
}

/* ---- threads ---- */

void um_child_thread_begin(struct um_child_thread *thread)
{
    um_seat = (struct um_seat){.running = thread->child, .thread = thread};
    um_room_begin(thread->child, um_thread_pointer() - thread->child->image->tls_bytes);
}

void um_child_thread_end(struct um_child_thread *thread)
{
    um_endings_run(&thread->endings, 0);
    um_keys_run(thread->child);
    um_seat = (struct um_seat){.running = NULL};
}

static void thread_ended(void *arg)
{
    struct um_child_thread *thread = arg;
    struct umbra_child *child = thread->child;
    struct umbra_runtime *runtime = child->runtime;

    um_child_thread_end(thread);
    free(thread);
    /* acq_rel: what the threads wrote; pairs with um_threads_await(). The last one signals, and the
     * child stays until then. */
    if (atomic_fetch_sub_explicit(&child->threads, 1, memory_order_acq_rel) == 1)
        umbra_event_signal(&child->thread_ended);
    umbra_release(runtime);
}

static void *thread_run(void *arg)
{
    struct um_child_thread *thread = arg;
    void *result;

    um_child_thread_begin(thread);
    pthread_cleanup_push(thread_ended, thread);
    result = thread->fn(thread->arg);
    pthread_cleanup_pop(1);
    return result;
}

/* The arguments of create(). */
struct creation {
    pthread_t *thread;
    const pthread_attr_t *attributes;
    struct um_child_thread *with;
    int error;
};

static void create(void *arg)
{
    struct creation *creation = arg;

    creation->error =
        pthread_create(creation->thread, creation->attributes, thread_run, creation->with);
}

int um_bind_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                           void *arg)
{
    struct umbra_child *child = um_child_self();
    struct um_child_thread *with = malloc(sizeof(*with));
    struct creation creation = {thread, attributes, with, EAGAIN};

    if (!with)
        return EAGAIN;
    *with = (struct um_child_thread){.child = child, .fn = fn, .arg = arg, .process = getpid()};
    /* relaxed: the number is not 0, since the creator is counted */
    atomic_fetch_add_explicit(&child->threads, 1, memory_order_relaxed);
    umbra_hold(child->runtime);
    if (um_seat.thread)
        create(&creation);
    else
        umbra_core_unbound(create, &creation);
    um_child_resumed(child);
    if (creation.error != 0) {
        atomic_fetch_sub_explicit(&child->threads, 1, memory_order_relaxed);
        umbra_release(child->runtime);
        free(with);
    }
    return creation.error;
}

/* The thread may need other fibers of this core. Asked for in growing intervals: C libraries tell of a
 * thread's end only those that stop for it. */
int um_bind_pthread_join(pthread_t thread, void **result)
{
    int error;

    if (um_seat.thread || um_forked())
        return pthread_join(thread, result);
    error = pthread_tryjoin_np(thread, result);
    for (uint64_t ns = JOIN_LEAST_NS; error == EBUSY; ns = ns < JOIN_MOST_NS ? 2 * ns : ns) {
        sleep_ns(ns);
        error = pthread_tryjoin_np(thread, result);
    }
    return error;
}

static void throw_error(int error)
{
    void (*fail)(int);
    void *found = dlsym(RTLD_DEFAULT, "_ZSt20__throw_system_errori");

    memcpy(&fail, &found, sizeof(fail));
    fail(error);
}

/* std::thread::join(): an object is nothing but the thread, 0 if it has none. */
void um_bind_std_join(pthread_t *thread)
{
    int error = *thread ? um_bind_pthread_join(*thread, NULL) : EINVAL;

    if (error != 0)
        throw_error(error);
    *thread = 0;
}

/* std::thread: the C++ library would create a thread of the process. The state has a table of
 * functions: two destructors, the second of which frees it, and what the thread runs. */
typedef void state_fn(void *state);

static void state_free(void *state)
{
    (*(state_fn ***)state)[1](state);
}

static void *state_run(void *state)
{
    pthread_cleanup_push(state_free, state);
    (*(state_fn ***)state)[2](state);
    pthread_cleanup_pop(1);
    return NULL;
}

void um_bind_std_thread(pthread_t *thread, void **state, void (*unused)(void))
{
    int error = um_bind_pthread_create(thread, NULL, state_run, *state);

    (void)unused;
    if (error != 0)
        throw_error(error);
    *state = NULL;
}

/* Threads of <threads.h> are seldom used, and refused. */
int um_bind_thrd_create(thrd_t *thread, thrd_start_t fn, void *arg)
{
    (void)thread;
    (void)fn;
    (void)arg;
    return thrd_error;
}

void um_bind_pthread_exit(void *result)
{
    struct umbra_child *child = um_child_self();

    if (um_seat.thread)
        pthread_exit(result);
    um_keys_run(child);
    if (!um_forked())
        um_threads_await(child);
    um_child_resumed(child);
    um_child_exit(child, 0);
}

void um_threads_await(struct umbra_child *child)
{
    /* acq_rel: what the threads wrote; pairs with thread_ended() */
    if (atomic_fetch_sub_explicit(&child->threads, 1, memory_order_acq_rel) != 1)
        umbra_event_wait(&child->thread_ended, UMBRA_NEVER);
    /* relaxed: no thread is left */
    atomic_store_explicit(&child->threads, 1, memory_order_relaxed);
}
