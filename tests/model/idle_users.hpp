/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stands in for fibers and cores, beside the text of the functions that take and cancel a fiber
 * without a place. Included inside the struct of each variant, so it has no guard.
 */
#include "users.hpp"

struct umbra_core {
    struct um_unplaced spawned;
    um_atomic_u64 *unplaced;
};

struct um_slab {
    struct umbra_core *owner;
};

struct um_fiber {
    struct um_unplaced_link unplaced; /* the first: see um_fiber_of_unplaced() */
    struct {
        um_atomic_uptr home;
    } node;
    um_atomic_u32 flags;
    um_atomic_u64 generation;
    struct um_slab *slab;
};

struct umbra_fiber {
    struct um_fiber *block;
    uint64_t generation;
};

enum { UM_FIBER_CANCELED = 4 };

static struct um_fiber *um_fiber_of_unplaced(struct um_unplaced_link *link)
{
    return (struct um_fiber *)link;
}

static struct umbra_core *um_fiber_home(const struct um_fiber *fiber)
{
    return (struct umbra_core *)um_atomic_load(&fiber->node.home, relaxed);
}

static uint64_t um_fiber_generation(const struct um_fiber *fiber)
{
    return um_atomic_load(&fiber->generation, relaxed);
}

static uint32_t um_fiber_flags(const struct um_fiber *fiber)
{
    return um_atomic_load(&fiber->flags, relaxed);
}

static void um_fiber_set_barred(struct um_fiber *fiber, uint32_t flags)
{
    um_atomic_store(&fiber->flags, flags, relaxed);
}
