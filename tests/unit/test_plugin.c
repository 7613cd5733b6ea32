/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A shared object that uses the library is opened and closed, again and again: it stays, and takes no
 * more, and threads that have waited in it end when it is closed. The program itself does not use the
 * library.
 */
#define _GNU_SOURCE
#include "child.h"
#include "plugin.h"

#include <dlfcn.h>
#include <limits.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(UMBRA_UNDER_ASAN) || defined(UMBRA_UNDER_TSAN) || defined(UMBRA_UNDER_COVERAGE)
enum { MEASURES = false }; /* the sanitizer's own memory grows */
#else
enum { MEASURES = true };
#endif

/* A mapping, a page, a key or 82 bytes that each round leaves are more than what may be left. */
enum { ROUNDS = 300, WARM_UP = 100, EVERY = 10, FREE_KEYS = 100 };
enum { MORE_MAPPINGS = 8, MORE_PAGES = 64, MORE_BYTES = 16384 };

static void *object;

static void *function(const char *name)
{
    void *found = dlsym(object, name);

    cr_assert_not_null(found);
    return found;
}

static void open_object(void)
{
    object = dlopen(PLUGIN_OBJECT, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(object, "%s", dlerror());
    cr_assert_eq(((plugin_start_fn *)function("plugin_start"))(), 0);
}

static int wait_there(void)
{
    return ((plugin_wait_fn *)function("plugin_wait"))();
}

static void stop(void)
{
    cr_assert_eq(((plugin_stop_fn *)function("plugin_stop"))(), 0);
}

static void close_object(void)
{
    stop();
    cr_assert_eq(dlclose(object), 0);
}

/* ---- threads that wait once in the object ---- */

struct visitor {
    pthread_t thread;
    int error;
    bool waited; /* under lock, as the next */
    bool may_end;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void set(bool *flag)
{
    pthread_mutex_lock(&lock);
    *flag = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void until(const bool *flag)
{
    pthread_mutex_lock(&lock);
    while (!*flag)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void *visit(void *arg)
{
    struct visitor *visitor = arg;

    visitor->error = wait_there();
    set(&visitor->waited);
    until(&visitor->may_end);
    return NULL;
}

/* It has waited, and goes on. */
static void visitor_begin(struct visitor *visitor)
{
    *visitor = (struct visitor){.error = 0};
    cr_assert_eq(pthread_create(&visitor->thread, NULL, visit, visitor), 0);
    until(&visitor->waited);
    cr_assert_eq(visitor->error, 0);
}

static void visitor_end(struct visitor *visitor)
{
    set(&visitor->may_end);
    cr_assert_eq(pthread_join(visitor->thread, NULL), 0);
}

/* ---- what the process holds ---- */

struct held {
    long pages, mappings;
    size_t bytes; /* of malloc() */
};

/* What is free in malloc's heap is no loss: it goes back first, so that pages do not count it. */
static size_t bytes_held(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
    return mallinfo2().uordblks;
#else
    return 0;
#endif
}

static struct held held(void)
{
    struct held held = {0, 0, bytes_held()};
    FILE *file = fopen("/proc/self/statm", "r");
    int c;

    if (!file || fscanf(file, "%*d %ld", &held.pages) != 1)
        cr_skip_test("no /proc");
    fclose(file);
    file = fopen("/proc/self/maps", "r");
    cr_assert_not_null(file);
    while ((c = getc(file)) != EOF)
        held.mappings += c == '\n';
    fclose(file);
    return held;
}

/* ---- tests ---- */

Test(plugin, a_thread_may_end_after_the_object_is_closed)
{
    struct visitor stays, ends;

    open_object();
    visitor_begin(&stays);
    visitor_begin(&ends);
    visitor_end(&ends);
    close_object();
    visitor_end(&stays);
}

Test(plugin, a_thread_may_wait_in_it_each_time_it_is_opened)
{
    open_object();
    cr_assert_eq(wait_there(), 0);
    close_object();
    open_object();
    cr_assert_eq(wait_there(), 0);
    close_object();
}

/* A pointer into it is good, and it is found by its name. */
Test(plugin, it_stays_when_it_is_closed)
{
    plugin_wait_fn *wait;
    void *first, *again;

    open_object();
    first = object;
    wait = (plugin_wait_fn *)function("plugin_wait");
    close_object();
    again = dlopen(PLUGIN_OBJECT, RTLD_NOW | RTLD_NOLOAD);
    cr_assert_eq(again, first);
    cr_assert_eq(((plugin_start_fn *)function("plugin_start"))(), 0);
    cr_assert_eq(wait(), 0);
    stop();
    cr_assert_eq(dlclose(again), 0);
}

static int exit_with_a_thread_that_waits(void)
{
    for (int i = 0; i < 3; i++) {
        open_object();
        cr_assert_eq(wait_there(), 0);
        close_object();
    }
    if (((plugin_hire_fn *)function("plugin_hire"))() != 0)
        return 1;
    exit(42);
}

Test(plugin, its_destructor_may_end_a_thread_that_waits)
{
    struct child child = in_child(exit_with_a_thread_that_waits);

    cr_assert(WIFEXITED(child.status));
    cr_assert_eq(WEXITSTATUS(child.status), 42);
}

static int leave(void)
{
    return 42;
}

Test(plugin, the_process_may_fork_when_the_object_is_closed)
{
    struct child child;

    open_object();
    cr_assert_eq(wait_there(), 0);
    close_object();
    child = in_child(leave);
    cr_assert(WIFEXITED(child.status));
    cr_assert_eq(WEXITSTATUS(child.status), 42);
}

static void *wait_on(void *arg)
{
    for (bool began = false; wait_there() == 0; began = true)
        if (!began)
            set(arg);
    set(arg);
    return NULL;
}

/* Another thread goes on waiting in it while its destructors run. */
static int exit_while_another_waits(void)
{
    bool began = false;
    pthread_t thread;

    open_object();
    cr_assert_eq(pthread_create(&thread, NULL, wait_on, &began), 0);
    until(&began);
    exit(42);
}

Test(plugin, the_program_may_exit_while_it_is_open)
{
    struct child child = in_child(exit_while_another_waits);

    cr_assert(WIFEXITED(child.status));
    cr_assert_eq(WEXITSTATUS(child.status), 42);
}

/* Of the process's keys leaves FREE_KEYS. */
static void take_keys(void)
{
    pthread_key_t key[PTHREAD_KEYS_MAX];
    int taken = 0;

    while (taken < PTHREAD_KEYS_MAX && pthread_key_create(&key[taken], NULL) == 0)
        taken++;
    for (int i = 0; i < FREE_KEYS; i++)
        cr_assert_eq(pthread_key_delete(key[--taken]), 0);
}

Test(plugin, nothing_more_is_left_after_300_rounds)
{
    struct held before = {0, 0, 0}, after;
    struct visitor stays, ends, outlives;

    take_keys();
    for (int i = 0; i < ROUNDS; i++) {
        if (i == WARM_UP)
            before = held();
        open_object();
        cr_assert_eq(wait_there(), 0);
        if (i == 0)
            visitor_begin(&stays);
        if (i > 0 && i % EVERY == 0)
            visitor_end(&outlives);
        if (i % EVERY == 0)
            visitor_begin(&outlives);
        visitor_begin(&ends);
        visitor_end(&ends);
        close_object();
    }
    after = held();
    visitor_end(&outlives);
    visitor_end(&stays);
    cr_assert(!MEASURES || after.mappings <= before.mappings + MORE_MAPPINGS);
    cr_assert(!MEASURES || after.pages <= before.pages + MORE_PAGES);
    cr_assert(!MEASURES || after.bytes <= before.bytes + MORE_BYTES);
}
