/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Deadlocks. A thread that has slept for UMBRA_WATCHDOG, or a second, enters its wait in a list, and
 * judges: if all threads of the process wait there, and none of the waits is over, nothing in the
 * process can end them. The last thread to fall asleep finds the others in the list; each looks again
 * after twice the time. A thread that sleeps for less pays nothing but a time limit.
 *
 * All threads are known if there are as many as the kernel says:
 *
 *   known = waits in the list + threads of pools - those of regions in which a wait is
 *
 * since a thread of a pool that is in no region waits for one. A region in which no member waits
 * counts as none, so that its threads seem to wait for regions; but then the thread that began the
 * region, or the region around it, and so on, is in no list and no pool, and is missing. A pool's
 * threads count after they have been made and until before they end. So no thread counts that the
 * kernel does not, if pools do not change from before the kernel is asked until after it.
 *
 * A wait is over if its word says so, or if its thread has been woken and has not run since; or, of a
 * lock, if the thread looks at it. Waits are looked at after the kernel has been asked: a thread that
 * has ended one before, and is no more, has left that one over.
 * A child of fork(2), which has the list of its parent, does not judge.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <umbra/base/environment.h>
#include <umbra/os/os.h>

#include "library.h"

um_atomic_u64 um_omp_pool_threads;

static struct {
    pthread_mutex_t lock;       /* of the rest, but for the next three */
    uint64_t limit_ns;          /* this and the next: fixed */
    bool tells;                 /* each wait that lasts so long, also if others go on */
    bool child;                 /* of fork(2) */
    struct um_omp_stuck *first; /* threads that wait */
    uint64_t judgements;
    bool told; /* of a deadlock that is not over */
} stuck = {.lock = PTHREAD_MUTEX_INITIALIZER};

int um_omp_stuck_read(void)
{
    uint64_t ms = 0;
    int error = um_environment_number("UMBRA_WATCHDOG", 0, UINT32_MAX, 0, &ms);

    stuck.tells = ms > 0;
    stuck.limit_ns = (ms > 0 ? ms : 1000) * 1000000;
    return error;
}

void um_omp_stuck_in_child(void)
{
    stuck.child = true;
}

extern UM_HIDE const char __ehdr_start[],
    _etext[]; /* where this library begins, and its code ends */

const void *um_omp_place(const struct um_omp_member *member, const void *place)
{
    const struct um_omp_task *task = member->task;
    um_omp_fn *fn;

    if ((uintptr_t)place - (uintptr_t)__ehdr_start >= (uintptr_t)_etext - (uintptr_t)__ehdr_start)
        return place;
    if (task == &member->implicit)
        fn = um_omp_fn_of(member->team->fn, member->team->data);
    else
        fn = um_omp_fn_of(task->link.fn, task->link.arg);
    return fn ? UM_OMP_PLACE(fn) : place;
}

void um_omp_place_text(char *text, size_t bytes, const void *place)
{
    Dl_info object;

    if (dladdr(place, &object) == 0)
        snprintf(text, bytes, "%p", place);
    else
        snprintf(text, bytes, "%s+%#tx", object.dli_fname,
                 (const char *)place - (const char *)object.dli_fbase);
}

/* ---- the judgement; under the lock ---- */

/* True if the wait is over, or its thread is about to look. */
static bool is_over(const struct um_omp_stuck *wait)
{
    if (wait->lock) /* acquire: then `awake` of a thread that has taken it; pairs with its exchange */
        return um_atomic_load(&wait->lock->word, acquire) == UM_LOCK_FREE ||
               um_atomic_load(&wait->awake, relaxed) != 0;
    /* seq_cst: after the word; W3 of wait.c */
    return um_omp_ended(wait->member, wait->end) ||
           um_atomic_load(&wait->member->bell, seq_cst) != wait->bell;
}

/* The threads of pools in the regions around a wait that have not been counted. */
static uint64_t regions_of(const struct um_omp_stuck *wait)
{
    uint64_t threads = 0;

    for (struct um_omp_team *team = wait->member->team; team && team->judged != stuck.judgements;
         team = team->outer ? team->outer : team->around) {
        team->judged = stuck.judgements;
        threads += team->members - 1;
    }
    return threads;
}

/* How many threads the process has; 0: not known. */
static uint64_t threads_now(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    unsigned long threads = 0;
    char line[128];

    while (status && fgets(line, sizeof(line), status))
        if (sscanf(line, "Threads: %lu", &threads) == 1)
            break;
    if (status)
        fclose(status);
    return threads;
}

static bool is_deadlock(void)
{
    /* seq_cst, both: pair with pool.c */
    uint64_t pools = um_atomic_load(&um_omp_pool_threads, seq_cst),
             known = pools % UM_OMP_POOL_CHANGE;
    uint64_t threads = threads_now();

    if (um_atomic_load(&um_omp_pool_threads, seq_cst) != pools)
        return false;
    stuck.judgements++;
    for (const struct um_omp_stuck *wait = stuck.first; wait; wait = wait->next) {
        if (is_over(wait))
            return false;
        known += 1 - regions_of(wait);
    }
    return known == threads;
}

/* ---- what is told ---- */

static void tell(const struct um_omp_stuck *wait, const char *how)
{
    char place[512], lock[32] = "";

    um_omp_place_text(place, sizeof(place), um_omp_place(wait->member, wait->place));
    if (wait->lock)
        snprintf(lock, sizeof(lock), " %p", (const void *)wait->lock);
    dprintf(STDERR_FILENO, "umbra: %s thread %u, member %u of %u, waits %s%s at %s\n", how,
            wait->thread, wait->member->number, wait->member->team->members, wait->what, lock,
            place);
}

static void judge(struct um_omp_stuck *wait)
{
    pthread_mutex_lock(&stuck.lock);
    if (!stuck.told && is_deadlock()) {
        stuck.told = true;
        dprintf(STDERR_FILENO, "umbra: deadlock: all threads wait, and nothing can end these waits "
                               "(but a signal handler or another process):\n");
        for (wait = stuck.first; wait; wait = wait->next)
            tell(wait, " ");
    } else if (!stuck.told && stuck.tells && !wait->told) {
        wait->told = true;
        tell(wait, "a long wait:");
    }
    pthread_mutex_unlock(&stuck.lock);
}

/* ---- a wait ---- */

uint64_t um_omp_stuck_limit_ns(struct um_omp_stuck *wait)
{
    if (wait->limit_ns == 0)
        wait->limit_ns = stuck.limit_ns;
    return wait->limit_ns;
}

void um_omp_stuck(struct um_omp_stuck *wait)
{
    if (stuck.child)
        return;
    wait->limit_ns *= 2;
    if (wait->thread == 0) {
        wait->thread = um_os_thread();
        pthread_mutex_lock(&stuck.lock);
        wait->next = stuck.first;
        stuck.first = wait;
        pthread_mutex_unlock(&stuck.lock);
    }
    judge(wait);
}

void um_omp_stuck_end(struct um_omp_stuck *wait)
{
    struct um_omp_stuck **at = &stuck.first;

    if (wait->thread == 0)
        return;
    pthread_mutex_lock(&stuck.lock);
    while (*at != wait)
        at = &(*at)->next;
    *at = wait->next;
    stuck.told = false;
    pthread_mutex_unlock(&stuck.lock);
}

void um_omp_sleep(struct um_omp_member *self, const struct um_omp_end *end, enum um_omp_help help,
                  uint64_t bell)
{
    static const char *const what[] = {"for its turn", "for tasks", "for tasks", "for a barrier",
                                       "for tasks at a barrier"};
    struct um_omp_stuck wait = {
        .member = self, .end = end, .bell = bell, .what = what[help], .place = self->at};

    while (um_wait_while_equal64(&self->waiter, &self->bell, bell, UINT64_MAX,
                                 um_cycles_after(um_omp_stuck_limit_ns(&wait))) == -ETIMEDOUT)
        um_omp_stuck(&wait);
    um_omp_stuck_end(&wait);
}
