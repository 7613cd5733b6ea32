/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What threads own: shadows and teams, each with a binding of its owner. Private.
 *
 * All of it is in one list. When a thread ends, a destructor of its thread-specific data undoes the
 * bindings, and makes the words of what it owns ENDED (shadow/owner_word.h). In a child of fork(2)
 * the only thread is the one that forked, so the other owners have ended there.
 */
#ifndef UMBRA_SHADOW_OWNER_H
#define UMBRA_SHADOW_OWNER_H

#include <pthread.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/os/fork.h>
#include <umbra/os/os.h>
#include <umbra/os/run_once.h>
#include <umbra/shadow/origin.h>
#include <umbra/shadow/owner_word.h>
#include <umbra/topology.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* Something that a thread owns, with the binding of that thread: a member of it. */
struct um_owned {
    um_atomic_uptr owner;            /* shadow/owner_word.h; owner, and what takes over */
    struct um_owned *next;           /* in um_owners; under its lock */
    struct umbra_topology *topology; /* set once */
    struct umbra_affinity *saved;    /* the owner's binding before; owner only */
};

/* relaxed: a thread that is not the owner only has to see that it is not */
UM_INLINE bool um_owned_by_caller(const struct um_owned *owned)
{
    return UM_LIKELY(um_atomic_load(&owned->owner, relaxed) == um_arch_thread_id());
}

/* True if its owner has ended. relaxed: for an estimate of what is free */
UM_INLINE bool um_owned_is_left(const struct um_owned *owned)
{
    return um_atomic_load(&owned->owner, relaxed) == UM_OWNER_ENDED;
}

#ifdef UMBRA_IMPLEMENTATION

struct um_owners {
    pthread_mutex_t lock;
    struct um_owned *first;       /* under lock */
    pthread_key_t key;            /* its destructor is um_owners_thread_ends() */
    struct um_run_once init_once; /* for error, and the key */
    int error;                    /* of um_owners_init(), which runs once */
};

UM_SHARED(struct um_owners um_owners,
          {.lock = PTHREAD_MUTEX_INITIALIZER, .init_once = {UM_RUN_NEVER}});

/* um_owners_thread_ends() will be called in this thread. */
UM_SHARED(UM_THREAD_LOCAL bool um_owners_watch_it, false);

/* The calling thread ends. */
UM_LINKONCE UM_COLD void um_owners_thread_ends(void *arg)
{
    (void)arg;
    um_owners_watch_it = false;
    pthread_mutex_lock(&um_owners.lock);
    for (struct um_owned *owned = um_owners.first; owned; owned = owned->next) {
        if (!um_owned_by_caller(owned))
            continue;
        umbra_topology_unbind(owned->topology, owned->saved);
        owned->saved = NULL;
        um_owner_ends(&owned->owner);
    }
    pthread_mutex_unlock(&um_owners.lock);
}

UM_LINKONCE UM_COLD void um_owners_in_child(void)
{
    um_origin_in_child(); /* frees the bindings of the caller */
    for (struct um_owned *owned = um_owners.first; owned; owned = owned->next) {
        if (!um_owned_by_caller(owned))
            um_owner_ends(&owned->owner);
        owned->saved = NULL; /* another owner may just have freed it, so it is not freed here */
    }
}

UM_LINKONCE UM_COLD void um_owners_init(void)
{
    static const struct um_fork_locks locks = {{&um_owners.lock}, um_owners_in_child};

    um_owners.error = um_forks_enter(UM_FORK_OWNERS, &locks);
    if (um_owners.error == 0)
        um_owners.error = -pthread_key_create(&um_owners.key, um_owners_thread_ends);
    um_os_keep_loaded();
}

/* Has the calling thread's end watched. 0 or a negative errno. */
UM_INLINE int um_owners_watch(void)
{
    int error = 0;

    if (UM_UNLIKELY(!um_owners_watch_it)) {
        um_once_in_process(&um_owners.init_once, um_owners_init);
        error = um_owners.error;
        if (error == 0)
            error = -pthread_setspecific(um_owners.key, &um_owners);
        um_owners_watch_it = error == 0;
    }
    return error;
}

/* The calling thread becomes the owner. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_owned_begin(struct um_owned *owned)
{
    int error = um_owners_watch();

    if (error != 0)
        return error;
    um_atomic_store(&owned->owner, um_arch_thread_id(), relaxed); /* no other thread knows it */
    pthread_mutex_lock(&um_owners.lock);
    owned->next = um_owners.first;
    um_owners.first = owned;
    pthread_mutex_unlock(&um_owners.lock);
    return 0;
}

/* It has no owner any more, or never had. The owner. */
UM_LINKONCE UM_COLD void um_owned_end(struct um_owned *owned)
{
    struct um_owned **link = &um_owners.first;

    pthread_mutex_lock(&um_owners.lock);
    while (*link && *link != owned)
        link = &(*link)->next;
    if (*link)
        *link = owned->next;
    pthread_mutex_unlock(&um_owners.lock);
    um_atomic_store(&owned->owner, UM_OWNER_NONE, relaxed); /* only tells a refusal from another */
}

/* True if the caller may destroy it: it is the owner, or the owner has ended. */
UM_LINKONCE UM_COLD bool um_owned_may_end(struct um_owned *owned)
{
    return um_owned_by_caller(owned) || um_owner_take_over(&owned->owner, um_arch_thread_id());
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
