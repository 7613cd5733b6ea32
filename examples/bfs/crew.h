/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A crew: one fiber on each core of a runtime, its members, which do the steps of a job together. A
 * step ends at a barrier. Within a step the members take parts of a range from a common counter.
 *
 *     static void step(struct member *member, void *arg)
 *     {
 *         size_t begin, end;
 *
 *         while (member_take(member, 1000, 64, &begin, &end))
 *             ...
 *         member_barrier(member);  // then the next step, with a range of its own
 *     }
 *
 *     ns = crew_run(&crew, step, arg);
 */
#ifndef BFS_CREW_H
#define BFS_CREW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <umbra.h>

#define CREW_MOST 1024 /* members */
#define CREW_COUNTERS                                                                              \
    3 /* of this step, of the last, which a member may still look at, and the next */
#define CREW_PARTS_MOST 64 /* parts of a graph, each with members of its own */

struct crew;

struct member {
    struct crew *crew;
    unsigned index;
    unsigned step; /* barriers so far */
    struct umbra_fiber fiber;
};

typedef void crew_fn(struct member *member, void *arg);

/* A counter that several members change, in lines of its own. */
struct crew_counter {
    _Alignas(UMBRA_CACHE_LINE) _Atomic size_t next;
};

struct crew {
    struct umbra_runtime *runtime;
    unsigned members;
    struct member *member;
    crew_fn *fn;
    void *arg;
    uint64_t ns;           /* of the last run; member 0's */
    int error;             /* of a spawn */
    struct umbra_event go; /* all are spawned, or there is an error */
    struct umbra_barrier barrier;
    struct crew_counter counter[CREW_COUNTERS][CREW_PARTS_MOST];
};

/* A member for each core of the runtime. 0 or -ENOMEM. A thread that is no core. */
int crew_init(struct crew *crew, struct umbra_runtime *runtime);
void crew_fini(struct crew *crew);

/*
 * Calls fn in all members and waits until all calls have returned. *ns, unless ns is NULL, becomes
 * the time from when all members are ready until then. 0 or a negative errno. A thread that is no
 * core; blocks it.
 */
int crew_run(struct crew *crew, crew_fn *fn, void *arg, uint64_t *ns);

/* Waits until all members have come: what each wrote before is visible to all after. Blocks the
 * member's fiber. */
void member_barrier(struct member *member);

/*
 * The next part of a range from 0 to `all` that no member has taken in this step, at most `grain`
 * long. False if there is none left. Never blocks. Of several ranges in a step each has a number,
 * below CREW_PARTS_MOST.
 */
static inline bool member_take_of(struct member *member, unsigned range, size_t all, size_t grain,
                                  size_t *begin, size_t *end)
{
    struct crew_counter *counter = &member->crew->counter[member->step % CREW_COUNTERS][range];
    /* relaxed: a number is taken once; the barriers order what is done with it */
    size_t at = atomic_load_explicit(&counter->next, memory_order_relaxed);

    if (at >= all)
        return false;
    at = atomic_fetch_add_explicit(&counter->next, grain, memory_order_relaxed);
    if (at >= all)
        return false;
    *begin = at;
    *end = at + grain < all ? at + grain : all;
    return true;
}

static inline bool member_take(struct member *member, size_t all, size_t grain, size_t *begin,
                               size_t *end)
{
    return member_take_of(member, 0, all, grain, begin, end);
}

/* The member's own of `members` equal parts of a range. */
static inline void member_share(const struct member *member, size_t all, size_t *begin, size_t *end)
{
    size_t members = member->crew->members;

    *begin = all / members * member->index + all % members * member->index / members;
    *end = all / members * (member->index + 1) + all % members * (member->index + 1) / members;
}

#endif
