/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stands in for the parts of wait.h and team.h that are not checked. Included inside the struct of
 * each variant, so it has no guard and includes nothing but the stand-ins of a wait.
 */

#include "users.hpp"

struct um_owned {
    um_atomic_uptr owner;
};

struct um_member {
    struct um_team_part part;
    struct umbra_waiter waiter;
    struct umbra_waiter at_barrier;
    uint64_t barriers;
    um_atomic_u64 taken;
    unsigned number;
    pthread_t thread;
    struct umbra_team *team;
};

struct umbra_team {
    struct um_team_call call;
    um_atomic_u64 run;
    bool running;
    bool any_thread;
    bool parts_stay;
    bool roams; /* never: where the caller runs is nothing to the others; like the next */
    unsigned roam_runs;
    unsigned last;
    struct um_owned owned;
    unsigned members;
    unsigned started;
    struct um_member member[UM_MODEL_MEMBERS];
    um_atomic_u64 flag[2 * UM_MODEL_MEMBERS];
    unsigned flag_stride;
    struct umbra_waiter waiter;
};

static inline um_member *heres[UM_THREADS_MOST]; /* um_team_here of each thread */

static int um_wait_until_equal64(struct umbra_waiter *waiter, const um_atomic_u64 *word,
                                 uint64_t value, uint64_t mask, uint64_t deadline)
{
    struct um_wait_cond cond = {word, value, mask, true, true};

    return um_wait_run(waiter, cond, deadline);
}

static int um_wait_while_equal64(struct umbra_waiter *waiter, const um_atomic_u64 *word,
                                 uint64_t value, uint64_t mask, uint64_t deadline)
{
    struct um_wait_cond cond = {word, value, mask, true, false};

    return um_wait_run(waiter, cond, deadline);
}

/* A number that no thread uses. */
static void um_count(um_atomic_u64 *, uint64_t)
{
}

static bool um_owned_by_caller(const struct um_owned *owned)
{
    return um_atomic_load(&owned->owner, relaxed) == um_arch_thread_id();
}

static void um_owners_watch()
{
}

static int um_team_refusal(const struct umbra_team *)
{
    return -EBUSY;
}

static void um_team_leave_place(struct umbra_team *, unsigned)
{
}

static bool um_team_is_here(const struct umbra_team *)
{
    return true;
}

/* The owner's short wait: one look, early or late. */
static bool um_team_ends_soon(struct umbra_team *, const um_atomic_u64 *end, uint64_t run)
{
    return um_team_ended(end, run);
}

static void *um_member_main(void *arg)
{
    um_team_here = (struct um_member *)arg;
    um_member_serve(um_team_here);
    return NULL;
}
