/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Loops of pthreadpool on a team (pthreadpool_team.c), which this program is linked with, and on
 * the library's own threads, which it loads: checks both, and prints what a loop takes.
 */
#include "beside.h"

#include <dlfcn.h>
#include <stdbool.h>

#include <pthreadpool.h>

#define THREADS 2
#define EMPTY 2 /* items of the loop that does nothing */
#define ITEMS 1000

const char program_name[] = "pthreadpool";

/* One of the two. */
struct pools {
    pthreadpool_t pool;
    pthreadpool_t (*create)(size_t threads);
    void (*loop)(pthreadpool_t pool, pthreadpool_task_1d_t task, void *context, size_t range,
                 uint32_t flags);
    void (*destroy)(pthreadpool_t pool);
};

static void nothing(void *context, size_t i)
{
    (void)context;
    (void)i;
}

static void square(void *context, size_t i)
{
    ((double *)context)[i] = (double)i * (double)i;
}

static void empty_loop(void *arg)
{
    const struct pools *pools = arg;

    pools->loop(pools->pool, nothing, NULL, EMPTY, 0);
}

static void square_loop(void *arg)
{
    static double squares[ITEMS];
    const struct pools *pools = arg;

    pools->loop(pools->pool, square, squares, ITEMS, 0);
}

/* True if each item of a loop is done. */
static bool is_right(const struct pools *pools)
{
    double squares[ITEMS] = {0};
    bool right = true;

    pools->loop(pools->pool, square, squares, ITEMS, 0);
    for (size_t i = 0; i < ITEMS; i++)
        right = right && squares[i] == (double)i * (double)i;
    return right;
}

/* The library's own, which this program's functions of the same names hide. */
static bool load(struct pools *own)
{
    void *library = dlopen("libpthreadpool.so.0", RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return false;
    *(void **)&own->create = dlsym(library, "pthreadpool_create");
    *(void **)&own->loop = dlsym(library, "pthreadpool_parallelize_1d");
    *(void **)&own->destroy = dlsym(library, "pthreadpool_destroy");
    return own->create && own->loop && own->destroy;
}

int main(void)
{
    struct pools own = {0};
    struct pools team = {NULL, pthreadpool_create, pthreadpool_parallelize_1d, pthreadpool_destroy};
    int status = 1;

    if (!load(&own)) {
        fprintf(stderr, "pthreadpool: %s\n", dlerror());
        return 1;
    }
    own.pool = own.create(THREADS);
    team.pool = team.create(THREADS);
    if (own.pool && team.pool && is_right(&own) && is_right(&team)) {
        beside("a loop that is empty", &(struct side){NULL, empty_loop, &own},
               &(struct side){NULL, empty_loop, &team});
        beside("a loop of 1000 squares", &(struct side){NULL, square_loop, &own},
               &(struct side){NULL, square_loop, &team});
        status = 0;
    } else {
        fprintf(stderr, "pthreadpool: no pool, or a loop is wrong: %s\n", umbra_last_error_text());
    }
    own.destroy(own.pool);
    team.destroy(team.pool);
    return printed(status);
}
