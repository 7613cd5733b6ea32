/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A member waits for a word of any other thread: for a barrier's flag, for the end of tasks, for
 * its turn. It polls first, and executes tasks where it may; then it sleeps on a word of its own,
 * the bell, so that one way of waking it serves all that it may wait for.
 *
 *   member                                          thread that changes the word, or shares a task
 *   P1  b = bell                         acquire    W1  change the word                  seq_cst
 *   P2  asleep = 1, or 2                 seq_cst    W2  look at asleep                   seq_cst
 *   P3  look at the word, and at tasks   seq_cst    W3  asleep: bell + 1, wake           seq_cst
 *   P4  sleep while the bell is b
 *
 * If P3 does not see W1, then P2 < P3 < W1 < W2 in the one order of these, so W2 sees P2, and W3
 * ends the sleep. If W3 comes before P1, for an earlier sleep, then P1 reads it, and P3 sees W1.
 * 2: the member takes tasks of others. One that shares a task wakes only such a one.
 *
 * Checked by tests/model/omp_wait.
 */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "library.h"

#define CROWDED_NS 200 /* polls in a crowded team before it yields */
#define LOOKS 32       /* polls between two looks at the clock */
#define PACE 16        /* so many tasks of others are timed together */
#define TINY_NS 150    /* what one of them takes at most if it had better stay with its maker */
#define REST_NS 8000

_Noreturn void um_omp_fatal(const char *format, ...)
{
    static um_atomic_u32 ending;
    char text[512];
    va_list list;

    if (um_atomic_exchange(&ending, 1, relaxed) != 0) { /* another member has said why */
        sleep(1);
        _exit(2);
    }
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    fprintf(stderr, "umbra_omp: %s\n", text);
    exit(2);
}

void *um_omp_memory(size_t bytes)
{
    size_t whole = (bytes + UMBRA_CACHE_LINE - 1) / UMBRA_CACHE_LINE * UMBRA_CACHE_LINE;
    void *memory = aligned_alloc(UMBRA_CACHE_LINE, whole);

    if (!memory)
        um_omp_fatal("out of memory");
    return memset(memory, 0, whole);
}

/* W3 */
void um_omp_ring(struct um_omp_member *member)
{
    um_atomic_fetch_add(&member->bell, 1, seq_cst); /* as umbra_wake() wants; pairs with P1 */
    umbra_wake(&member->waiter);
}

void um_omp_ring_all(struct um_omp_team *team)
{
    for (unsigned i = 0; i < team->members; i++)
        um_omp_wake(&team->member[i]);
}

/* P3: the look after which the member may sleep. */
static bool ended_for_sleep(const struct um_omp_member *self, const struct um_omp_end *end)
{
    uint64_t is = um_atomic_load(end->word, seq_cst); /* after P2; pairs with W1 */

    if (!end->least)
        return (is & end->mask) == end->value;
    /* seq_cst: as above */
    return is >= end->value ||
           (end->least == UM_OMP_LEAVE && um_atomic_load(&self->team->cancelled, seq_cst) != 0);
}

/* Sleeps until it is woken, unless there is something to do. Returns a task to be executed, or
 * NULL. */
static struct um_omp_task *fall_asleep(struct um_omp_member *self, const struct um_omp_end *end,
                                       enum um_omp_help help)
{
    uint64_t bell = um_atomic_load(&self->bell, acquire); /* P1; pairs with W3 */
    struct um_omp_task *task = NULL;

    um_atomic_fetch_add(&self->team->sleepers, 1, seq_cst);              /* P2, of wakers of all */
    um_atomic_store(&self->asleep, help >= UM_OMP_ANY ? 2 : 1, seq_cst); /* P2 */
    if (!ended_for_sleep(self, end)) {
        task = help != UM_OMP_IDLE ? um_omp_next_task(self, help) : NULL;
        if (!task)
            um_omp_sleep(self, end, help, bell);
    }
    um_atomic_store(&self->asleep, 0, relaxed); /* one that still sees it rings in vain */
    um_atomic_fetch_add(&self->team->sleepers, (uint32_t)-1, relaxed); /* likewise */
    return task;
}

/* One poll that found nothing. False: it is time to sleep. */
static bool polls_on(const struct um_omp_member *self, uint64_t *since, unsigned *polls)
{
    uint64_t passed;

    if (um_omp_settings.wait == UMBRA_WAIT_PARK)
        return false;
    if (++*polls % LOOKS != 0 && !(self->team->crowded && *polls > LOOKS)) {
        umbra_pause();
        return true;
    }
    if (*since == 0)
        *since = um_cycles();
    passed = um_cycles() - *since;
    if (self->team->crowded && passed > um_ns_to_cycles(CROWDED_NS))
        sched_yield();
    if (um_omp_settings.wait == UMBRA_WAIT_SPIN && !self->team->crowded && self->team->level == 1)
        return true;
    return passed < um_atomic_load(&um_omp_poll_cycles, relaxed); /* a number */
}

/* Tasks of others that a member takes while it waits. Taking one costs its maker and this member some
 * lines each. If they take no longer than that, the maker is faster alone, and this member rests. */
struct pace {
    unsigned taken;
    uint64_t since, rests; /* when it took the first of the last PACE; it rests until then, or 0 */
};

static bool rests(struct pace *pace)
{
    if (UM_LIKELY(pace->rests == 0))
        return false;
    if (um_cycles() < pace->rests)
        return true;
    pace->rests = 0;
    return false;
}

static void take_count(struct pace *pace)
{
    uint64_t now;

    if (pace->taken++ % PACE != 0)
        return;
    now = um_cycles();
    if (pace->taken > 1 && now - pace->since < um_ns_to_cycles(PACE * TINY_NS)) {
        now += um_ns_to_cycles(REST_NS);
        pace->rests = now;
    }
    pace->since = now;
}

void um_omp_await_slow(struct um_omp_member *self, const struct um_omp_end *end,
                       enum um_omp_help help)
{
    bool dry = false; /* it has looked for quiet since its last task */
    struct pace pace = {0};
    uint64_t since = 0;
    unsigned polls = 0;

    if (help <= UM_OMP_DESCEND) /* else um_omp_barrier() */
        um_omp_see(help == UM_OMP_IDLE ? UM_OMP_SEE_TURN : UM_OMP_SEE_TASKS, self->at);
    while (!um_omp_ended(self, end)) {
        struct um_omp_task *task = NULL;

        /* relaxed: a hint; before it sleeps, the member looks at the tasks themselves */
        if (help != UM_OMP_IDLE && um_atomic_load(&self->team->tasked, relaxed) &&
            !(help == UM_OMP_ANY && rests(&pace)))
            task = um_omp_next_task(self, help);
        if (!task && help == UM_OMP_QUIET && !dry) {
            um_omp_look_for_quiet(self);
            dry = true;
            continue;
        }
        if (!task && !polls_on(self, &since, &polls)) {
            task = fall_asleep(self, end, help);
            since = 0;
        }
        if (task) {
            if (task->home != self)
                take_count(&pace);
            um_omp_task_take(self, task);
            dry = false;
            since = 0;
            polls = 0;
        }
    }
    if (help <= UM_OMP_DESCEND)
        um_omp_seen(help == UM_OMP_IDLE ? UM_OMP_SEE_TURN : UM_OMP_SEE_TASKS);
}
