/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Names what omp_users.hpp has, for the texts before it, and what of a joiner's node
 * umbra/task/protocol.h names: tasks of OpenMP have none. Included inside the struct of each
 * variant, so it has no guard.
 */
struct um_omp_group;
struct um_omp_member;
struct um_omp_share;
struct um_omp_task;
struct um_omp_team;

struct um_claimed;

struct um_node {
    rl::var<uint32_t> flags;
};

enum { UM_NODE_CLAIMED = 1, UM_OFFER_TAKEN = 0 };

static int um_claimed_offer(struct um_claimed *)
{
    return UM_OFFER_TAKEN;
}

static void um_claimed_drop(struct um_claimed *)
{
}
