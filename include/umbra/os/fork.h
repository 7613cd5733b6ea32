/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Locks of modules, and fork(2). Private.
 *
 * The child has one thread, so a lock that another thread of the parent has would stay locked there.
 * A module enters its locks at its first use; fork(2) takes them, and gives them up in the parent
 * and in the child. The handlers that do so (pthread_atfork) are registered once, by a constructor:
 * fork(2) leaves out handlers that another thread registers meanwhile. For the same reason locks are
 * entered under a lock that fork(2) takes first and gives up last.
 *
 *   fork(2):  hold off forks ---> locks, from the last rank to the first
 *             ---> in_child, and give up the locks, from the first rank to the last ---> release
 *
 * A thread that has a module's lock must not enter locks, or hold forks off: fork(2) takes both.
 */
#ifndef UMBRA_OS_FORK_H
#define UMBRA_OS_FORK_H

#include <pthread.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/os/run_once.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* The modules, in the order in which their locks are given up. */
enum um_fork_rank {
    UM_FORK_OWNERS,
    UM_FORK_SHADOWS, /* in_child takes the lock of owners */
    UM_FORK_TEAMS,
    UM_FORK_RUNTIMES,
    UM_FORK_OMP, /* libumbra_omp's traces; with its lock a thread takes that of runtimes */
    UM_FORK_RANKS
};

#define UM_FORK_LOCKS 4 /* of a module, at most */

struct um_fork_locks {
    pthread_mutex_t *lock[UM_FORK_LOCKS]; /* in the order in which they are taken; then NULL */
    void (*in_child)(void);               /* called in the child under them */
};

/* Enters a module's locks, if they are not yet. 0 or a negative errno. Blocks while a thread forks. */
UM_LINKONCE UM_COLD int um_forks_enter(enum um_fork_rank rank, const struct um_fork_locks *locks);
/* No other thread forks until um_forks_release(). Blocks while one does. */
UM_LINKONCE UM_COLD void um_forks_hold(void);
UM_LINKONCE UM_COLD void um_forks_release(void);

#ifdef UMBRA_IMPLEMENTATION

struct um_forks {
    pthread_mutex_t lock;
    struct um_run_once once; /* for error */
    int error;               /* of pthread_atfork */
    unsigned taken;          /* a bit for each rank whose locks fork(2) has taken; under lock */
    bool child;              /* this process has begun since they were taken; under lock */
    /* By rank; NULL: not entered. Written under lock, once. */
    um_atomic_ptr(const struct um_fork_locks) of[UM_FORK_RANKS];
};

UM_SHARED(struct um_forks um_forks, {.lock = PTHREAD_MUTEX_INITIALIZER, .once = {UM_RUN_NEVER}});

/* How often the calling thread holds forks off: a call may be in another, and in a fork. */
UM_SHARED(UM_THREAD_LOCAL unsigned um_forks_held, 0);

/*
 * Handlers that the calling thread has executed before fork(2), less those after it. The first and
 * the last count: without the constructor a child may register them again, or fork(2) call only
 * those after it (musl); and another handler may fork, whose child goes on in its parent's fork(2).
 */
UM_SHARED(UM_THREAD_LOCAL unsigned um_forks_begun, 0);

UM_LINKONCE UM_COLD void um_forks_hold(void)
{
    if (um_forks_held++ == 0)
        pthread_mutex_lock(&um_forks.lock);
}

UM_LINKONCE UM_COLD void um_forks_release(void)
{
    if (--um_forks_held == 0)
        pthread_mutex_unlock(&um_forks.lock);
}

UM_LINKONCE UM_COLD void um_forks_before(void)
{
    if (um_forks_begun++ != 0)
        return;
    um_forks_hold();
    um_forks.taken = 0;
    um_forks.child = false;
    for (unsigned rank = UM_FORK_RANKS; rank-- > 0;) {
        /* relaxed: under the lock */
        const struct um_fork_locks *locks = um_atomic_load(&um_forks.of[rank], relaxed);

        if (!locks)
            continue;
        for (unsigned i = 0; i < UM_FORK_LOCKS && locks->lock[i]; i++)
            pthread_mutex_lock(locks->lock[i]);
        um_forks.taken |= 1u << rank;
    }
}

UM_LINKONCE UM_COLD void um_forks_after(bool child)
{
    if (um_forks_begun == 0)
        return;
    um_forks.child = um_forks.child || child;
    if (--um_forks_begun != 0)
        return;
    for (unsigned rank = 0; rank < UM_FORK_RANKS; rank++) {
        /* relaxed: under the lock */
        const struct um_fork_locks *locks = um_atomic_load(&um_forks.of[rank], relaxed);

        if ((um_forks.taken >> rank & 1) == 0)
            continue;
        if (um_forks.child)
            locks->in_child();
        for (unsigned i = UM_FORK_LOCKS; i-- > 0;)
            if (locks->lock[i])
                pthread_mutex_unlock(locks->lock[i]);
    }
    um_forks_release();
}

UM_LINKONCE UM_COLD void um_forks_in_parent(void)
{
    um_forks_after(false);
}

UM_LINKONCE UM_COLD void um_forks_in_child(void)
{
    um_forks_after(true);
}

UM_LINKONCE UM_COLD void um_forks_init(void)
{
    um_forks.error = -pthread_atfork(um_forks_before, um_forks_in_parent, um_forks_in_child);
}

/* 0, or the error of pthread_atfork. Registers the handlers where constructors do not run. */
UM_LINKONCE UM_COLD int um_forks_watch(void)
{
    um_once_in_process(&um_forks.once, um_forks_init);
    return um_forks.error;
}

/* Before other constructors, which may start threads, but after that of os/posix.h: of one priority,
 * gcc -flto calls the last first. */
UM_LINKONCE UM_COLD __attribute__((__constructor__(102))) void um_forks_at_load(void)
{
    um_forks_watch();
}

UM_LINKONCE UM_COLD int um_forks_enter(enum um_fork_rank rank, const struct um_fork_locks *locks)
{
    int error;

    /* acquire: before the caller takes such a lock; pairs with the release below */
    if (um_atomic_load(&um_forks.of[rank], acquire) != NULL)
        return 0;
    error = um_forks_watch();
    if (error != 0)
        return error;
    um_forks_hold();
    um_atomic_store(&um_forks.of[rank], locks, release);
    um_forks_release();
    return 0;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
