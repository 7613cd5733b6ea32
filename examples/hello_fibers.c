/* SPDX-License-Identifier: BSL-1.0 */
/* Fibers: a greeting from each core of this machine, and one that was asked for its result. */
#include <stdio.h>

#include <umbra/core.h>

static void *greet(void *name)
{
    printf("hello, %s, from core %d\n", (const char *)name, umbra_core_index());
    return name;
}

static void *first(void *arg)
{
    unsigned cores = umbra_runtime_cores(umbra_runtime_self());
    struct umbra_fiber fiber;
    void *result;

    (void)arg;
    for (unsigned core = 0; core < cores; core++) {
        struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = core};

        if (umbra_spawn_with(NULL, &there, greet, "world", &fiber) == 0)
            umbra_join(fiber, UMBRA_NEVER, NULL); /* this core runs other fibers meanwhile */
    }
    if (umbra_spawn(greet, "neighbour", &fiber) == 0 &&
        umbra_join(fiber, UMBRA_NEVER, &result) == 0)
        printf("it returned \"%s\"\n", (const char *)result);
    return NULL;
}

int main(void)
{
    int error = umbra_run(NULL, first, NULL);

    if (error)
        fprintf(stderr, "hello_fibers: %s\n", umbra_last_error_text());
    return error ? 1 : 0;
}
