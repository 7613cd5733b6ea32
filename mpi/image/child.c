/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Children. The fiber's function builds what the kernel would put on a new program's stack, enters
 * the copy, and comes back when the child has left it. Only then is the copy given to the next.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bind.h"

#define UM_AUXILIARY 8 /* pairs */

_Static_assert(offsetof(struct umbra_child, options) == 0, "as in um_child_arg()");

struct um_children um_children;

/* ---- the vector ---- */

static size_t count_of(char *const *strings, size_t *bytes)
{
    size_t count = 0;

    for (; strings && strings[count]; count++)
        *bytes += strlen(strings[count]) + 1;
    return count;
}

/* Copies strings to *to, and stores their addresses, and a final 0. Returns the next place. */
static uint64_t *strings_put(uint64_t *vector, char *const *strings, size_t count, char **to)
{
    for (size_t i = 0; i < count; i++) {
        *vector++ = (uintptr_t)*to;
        *to = stpcpy(*to, strings[i]) + 1;
    }
    *vector++ = 0;
    return vector;
}

static void auxiliary_put(const struct umbra_child *child, uint64_t *vector)
{
    const struct umbra_image *image = child->image;
    uint64_t base = (uintptr_t)child->copy->base;
    const uint64_t pairs[UM_AUXILIARY][2] = {
        {AT_PHDR, base + image->headers}, {AT_PHENT, sizeof(Elf64_Phdr)},
        {AT_PHNUM, image->headers_count}, {AT_PAGESZ, getauxval(AT_PAGESZ)},
        {AT_ENTRY, base + image->entry},  {AT_RANDOM, getauxval(AT_RANDOM)},
        {AT_HWCAP, getauxval(AT_HWCAP)},  {AT_NULL, 0},
    };

    memcpy(vector, pairs, sizeof(pairs));
}

static char *const *arguments_of(const struct umbra_child *child, char *const alone[2])
{
    return child->options.argv ? child->options.argv : alone;
}

/* Runs the child's code, from its first instruction until it leaves. */
static void child_enter(struct umbra_child *child)
{
    char *const alone[2] = {child->image->path, NULL};
    char *const *argv = arguments_of(child, alone);
    char *const *envp = child->options.envp ? child->options.envp : environ;
    size_t bytes = 0, argc = count_of(argv, &bytes), envc = count_of(envp, &bytes);
    size_t words = (1 + argc + 1 + envc + 1 + (size_t)UM_AUXILIARY * 2 + 1) & ~(size_t)1;
    char *strings = alloca(bytes);
    uint64_t *vector = alloca(words * sizeof(*vector)), *at = vector;

    *at++ = argc;
    at = strings_put(at, argv, argc, &strings);
    at = strings_put(at, envp, envc, &strings);
    auxiliary_put(child, at);
    um_image_enter(&child->saved, child->copy->base + child->image->entry, vector, words);
}

/* ---- begin and end ---- */

static void child_list(struct umbra_child *child)
{
    um_lock_take(&um_children.lock);
    child->next = um_children.first;
    child->link = &um_children.first;
    if (child->next)
        child->next->link = &child->next;
    um_children.first = child;
    um_lock_release(&um_children.lock);
}

static void child_unlist(struct umbra_child *child)
{
    um_lock_take(&um_children.lock);
    *child->link = child->next;
    if (child->next)
        child->next->link = child->link;
    um_lock_release(&um_children.lock);
}

static void child_begin(struct umbra_child *child)
{
    const struct um_fiber *fiber = um_core_current(um_core_self);

    child->runtime = um_core_self->runtime;
    if (child->options.ended)
        child->fiber = umbra_self();
    child->thread_ended = (struct umbra_event)UMBRA_EVENT_INIT;
    atomic_init(&child->threads, 1);
    child->stack_low = (const char *)fiber - fiber->context.stack_bytes;
    child->stack_high = (const char *)fiber;
    um_image_copy_fill(child->image, child->copy);
    if (child->tls)
        um_room_begin(child, child->tls);
    child->fini_left = child->image->dynamic.fini_bytes / 8;
    child_list(child);
    um_child_resumed(child);
    errno = 0;
}

/* The child's code has ended, in whatever state. Nothing of it stays on the thread. */
static void child_end(struct umbra_child *child)
{
    int left;

    if (!um_core_self)
        um_process_end(child);
    if (um_seat.running == child)
        um_seat.running = NULL;
    if (um_exceptions_of_thread) /* not by way of the core: see fiber/own_state.h */
        *um_exceptions_of_thread() = (struct um_exceptions){NULL, 0};
    um_threads_await(child);
    left = atomic_load_explicit(&child->left, memory_order_relaxed); /* as in um_child_leave() */
    if (left)
        child->status = left & 0xffff;
    if (child->options.ended)
        child->options.ended(child->options.arg, child->status);
    if (um_seat.in_room == child) /* not before: a call to MPI may still have combined for it */
        um_seat.in_room = NULL;
    um_signals_forget(child);
    um_bindings_free(child);
    child_unlist(child);
    um_image_copy_put(child->image, child->copy);
    child->copy = NULL;
}

static void child_free(struct umbra_child *child)
{
    struct umbra_image *image = child->image;

    if (child->copy)
        um_image_copy_put(image, child->copy);
    um_lock_take(&image->lock);
    image->children--;
    um_lock_release(&image->lock);
    free(child);
}

static void *child_run(void *arg)
{
    struct umbra_child *child = arg;

    child_begin(child);
    child_enter(child);
    child_end(child);
    if (child->options.ended)
        child_free(child);
    return NULL;
}

/* ---- the interface ---- */

/* A child with its copy, or NULL: no memory. */
static struct umbra_child *child_make(struct umbra_image *image,
                                      const struct umbra_child_options *options)
{
    struct umbra_child *child = calloc(1, sizeof(*child) + image->tls_bytes);

    if (!child)
        return NULL;
    child->image = image;
    if (options)
        child->options = *options;
    if (child->options.spawn.stack_bytes == 0)
        child->options.spawn.stack_bytes = UMBRA_CHILD_STACK_BYTES;
    if (!child->options.spawn.name)
        child->options.spawn.name = image->short_name;
    if (image->tls_bytes > 0)
        child->tls = (char *)(child + 1);
    um_lock_take(&image->lock);
    image->children++;
    um_lock_release(&image->lock);
    child->copy = um_image_copy_take(image);
    if (child->copy)
        return child;
    child_free(child);
    return NULL;
}

/* Arguments and environment take at most a quarter of the stack. */
static int check_size(const struct umbra_child *child)
{
    char *const alone[2] = {child->image->path, NULL};
    size_t bytes = 0, count = count_of(arguments_of(child, alone), &bytes);

    count += count_of(child->options.envp ? child->options.envp : environ, &bytes);
    if (bytes + count * sizeof(char *) <= child->options.spawn.stack_bytes / 4)
        return 0;
    return um_why(-E2BIG,
                  "arguments and environment take %zu bytes, more than a quarter of the stack",
                  bytes + count * sizeof(char *));
}

int umbra_child_start(struct umbra_runtime *runtime, struct umbra_image *image,
                      const struct umbra_child_options *options, struct umbra_child **result)
{
    struct umbra_child *child;
    int error;

    um_why_begin();
    child = child_make(image, options);
    if (!child)
        return um_why_returned(-ENOMEM);
    error = check_size(child);
    if (error == 0)
        error = umbra_spawn_with(runtime, &child->options.spawn, child_run, child,
                                 child->options.ended ? NULL : &child->fiber);
    if (error != 0) {
        child_free(child);
        return um_why_returned(error);
    }
    if (result)
        *result = child;
    return 0;
}

int umbra_child_wait(struct umbra_child *child, int *status)
{
    int error = umbra_join(child->fiber, UMBRA_NEVER, NULL);

    if (error != 0)
        return error;
    if (status)
        *status = child->status;
    child_free(child);
    return 0;
}

struct umbra_fiber umbra_child_fiber(const struct umbra_child *child)
{
    return child->fiber;
}
