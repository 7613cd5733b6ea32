/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A child's keys of thread-specific data. The process's threads outlive the child, so they must not
 * call its destructors: a thread that the child has created calls them when it ends
 * (bind_wait.c), and the keys are deleted when the child has ended.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>

#include "bind.h"

struct um_key {
    pthread_key_t key;
    void (*destroy)(void *);
};

int um_bind_pthread_key_create(unsigned *key, void (*destroy)(void *))
{
    struct umbra_child *child = um_child_self();
    int error = pthread_key_create(key, NULL);
    struct um_key *added;

    if (error != 0)
        return error;
    um_lock_take(&child->keys_lock);
    child->keys.size = sizeof(struct um_key);
    added = um_array_add(&child->keys);
    if (added)
        *added = (struct um_key){*key, destroy};
    um_lock_release(&child->keys_lock);
    if (!added)
        pthread_key_delete(*key);
    return added ? 0 : ENOMEM;
}

int um_bind_pthread_key_delete(unsigned key)
{
    struct umbra_child *child = um_child_self();

    um_lock_take(&child->keys_lock);
    for (size_t i = 0; i < child->keys.count; i++) {
        struct um_key *at = (struct um_key *)child->keys.first + i;

        if (at->key == key) {
            *at = ((struct um_key *)child->keys.first)[--child->keys.count];
            break;
        }
    }
    um_lock_release(&child->keys_lock);
    return pthread_key_delete(key);
}

int um_bind_tss_create(unsigned *key, void (*destroy)(void *))
{
    return um_bind_pthread_key_create(key, destroy) == 0 ? thrd_success : thrd_error;
}

void um_bind_tss_delete(unsigned key)
{
    um_bind_pthread_key_delete(key);
}

/* Calls the destructor of one key. False: there is no such key. */
static bool key_run(struct umbra_child *child, size_t index, bool *called)
{
    struct um_key key = {0, NULL};
    void *value = NULL;
    bool there;

    um_lock_take(&child->keys_lock);
    there = index < child->keys.count;
    if (there)
        key = ((struct um_key *)child->keys.first)[index];
    um_lock_release(&child->keys_lock);
    if (key.destroy)
        value = pthread_getspecific(key.key);
    if (value) {
        pthread_setspecific(key.key, NULL);
        key.destroy(value);
        *called = true;
    }
    return there;
}

void um_keys_run(struct umbra_child *child)
{
    bool called = true;

    for (int round = 0; called && round < PTHREAD_DESTRUCTOR_ITERATIONS; round++) {
        called = false;
        for (size_t i = 0; key_run(child, i, &called); i++)
            ;
    }
}

void um_keys_free(struct umbra_child *child)
{
    const struct um_key *key = child->keys.first;

    for (size_t i = 0; i < child->keys.count; i++)
        pthread_key_delete(key[i].key);
    um_array_free(&child->keys);
}
