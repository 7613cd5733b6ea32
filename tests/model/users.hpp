/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stands in for the parts of wait.h and shadow.h that are not checked, beside the text of those
 * that are. Included inside the struct of each variant, so it has no guard and includes nothing.
 */

struct umbra_waiter {
    struct um_park park;
    int how; /* UM_MODEL_* */
    bool (*idle)(void *arg);
    void *idle_arg;
};

static void um_waiter_init(struct umbra_waiter *waiter, int how)
{
    um_atomic_store(&waiter->park.parked, 0, relaxed);
    waiter->how = how;
}

static bool um_wait_idle(struct umbra_waiter *waiter, void *)
{
    return waiter->idle(waiter->idle_arg);
}

/* As um_wait: a look, then either looks only, or a park and a last look. */
static int um_wait_run(struct umbra_waiter *waiter, struct um_wait_cond cond, uint64_t deadline)
{
    while (!um_wait_look(&cond)) {
        if (waiter->how == UM_MODEL_PARK) {
            if (um_park_until(&waiter->park, um_wait_look_parked, &cond, deadline) == 0)
                return 0;
            return um_wait_look(&cond) ? 0 : -ETIMEDOUT;
        }
        if (deadline != UMBRA_NEVER && rl::rand(2) == 0)
            return -ETIMEDOUT;
        rl::yield(1, $);
    }
    return 0;
}

#ifdef UM_MODEL_SHADOW
UM_MODEL_SHADOW

/* The checker has no clock: only 0, UMBRA_NEVER and any other deadline differ. */
static uint64_t um_deadline_cycles(uint64_t deadline)
{
    return deadline;
}

/* Nothing is traced there. */
enum { UM_TRACE_FORK, UM_TRACE_JOIN };

static void um_trace_say(int kind, uint64_t a, uint64_t b)
{
}

static int um_wait_while_equal32(struct umbra_waiter *waiter, const um_atomic_u32 *word,
                                 uint32_t value, uint32_t mask, uint64_t deadline)
{
    struct um_wait_cond cond = {word, value, mask, false, false};

    return um_wait_run(waiter, cond, deadline);
}

static bool um_owned_by_caller(const struct um_owned *owned)
{
    return um_atomic_load(&owned->owner, relaxed) == um_arch_thread_id();
}

static bool um_owned_may_end(struct um_owned *owned)
{
    return um_owned_by_caller(owned) || um_owner_take_over(&owned->owner, um_arch_thread_id());
}

static void um_shadow_leave(struct umbra_shadow *)
{
}

static void um_shadow_clear(struct umbra_shadow *shadow)
{
    um_atomic_store(&shadow->owned.owner, UM_OWNER_NONE, relaxed);
}
#endif
