/* SPDX-License-Identifier: BSL-1.0 */
/* Children in this process: how they start, and how they end. */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "library.h"

/* ---- ends ---- */

/* The first member from `from` on that has not ended; size: none. */
static uint32_t first_live(const struct um_mpi_group *group, uint32_t from)
{
    /* seq_cst: of two that end at once, one sees that all have; pairs with task_end() */
    while (from < (uint32_t)group->size && um_atomic_load(&group->task[from]->ended, seq_cst) != 0)
        from++;
    return from;
}

/* True if no member is left but one. The members before `live` have ended: each end looks at few. */
static bool all_ended(struct um_mpi_group *group, const struct um_mpi_task *but)
{
    /* relaxed: an older number only takes longer */
    uint32_t live = first_live(group, um_atomic_load(&group->live, relaxed));

    um_atomic_store(&group->live, live, relaxed);
    if (live < (uint32_t)group->size && group->task[live] == but)
        live = first_live(group, live + 1);
    return live == (uint32_t)group->size;
}

/* Ends the receives of one peer, in some uses, that only the ending task could have sent to. */
static void peer_fail(struct um_comm *comm, struct um_mpi_task *peer, enum um_use first,
                      uint32_t uses)
{
    bool all = all_ended(comm->local, peer), probed;
    struct um_receive *receive;

    while ((receive = um_box_orphan(&peer->box, comm->id * UM_USES + first, uses, comm->rank, all,
                                    &probed))) {
        um_side_end(&receive->done, UM_FAILED);
        um_mpi_task_ring(peer);
    }
    if (probed) /* it looks whether a source is left */
        um_mpi_task_ring(peer);
}

static void group_fail(struct um_mpi_task *task, struct um_comm *comm,
                       const struct um_mpi_group *peers, enum um_use first, uint32_t uses)
{
    for (int i = 0; i < peers->size; i++)
        /* acquire: its box is closed, then nothing waits there */
        if (peers->task[i] != task && um_atomic_load(&peers->task[i]->ended, acquire) == 0)
            peer_fail(comm, peers->task[i], first, uses);
}

/* What is used between the members of a group is not between two groups: ranks mean others there. */
static void peers_fail(struct um_mpi_task *task, struct um_comm *comm)
{
    if (!comm->remote) {
        group_fail(task, comm, comm->local, UM_POINT, UM_USES);
        return;
    }
    group_fail(task, comm, comm->remote, UM_POINT, UM_LOCALLY);
    group_fail(task, comm, comm->local, UM_LOCALLY, 1);
}

static void requests_free(struct um_mpi_task *task)
{
    for (unsigned i = 0; i < task->requests.count; i++) {
        struct um_request *request = um_table_get(&task->requests, i);

        if (!request)
            continue;
        um_request_withdraw(task, request);
        um_request_discard(request);
        um_comm_put(request->comm);
        free(request);
    }
}

static void task_end(struct um_mpi_task *task)
{
    requests_free(task);
    um_atomic_store(&task->ended, 1, seq_cst); /* before the looks at peers; see all_ended() */
    um_messages_drop(um_box_close(&task->box));
    for (unsigned i = 0; i < task->comms.count; i++) {
        struct um_comm *comm = um_table_get(&task->comms, i);

        if (!comm)
            continue;
        peers_fail(task, comm);
        um_comm_put(comm);
    }
    for (unsigned i = 0; i < task->groups.count; i++)
        if (um_table_get(&task->groups, i))
            um_mpi_group_put(um_table_get(&task->groups, i));
    um_launch_put(task->launch);
    um_mpi_task_put(task);
}

/* In the child's fiber. */
static void child_ended(void *arg, int status)
{
    struct um_mpi_task *task = arg;

    if (WIFSIGNALED(status))
        fprintf(stderr, "umbra_mpi: a child ended by signal %d: %s\n", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    task_end(task);
    /* release: all that the child did; pairs with no_child() */
    um_atomic_fetch_add(&um_live, (uint32_t)-1, release);
    um_mpi_task_ring(&um_host);
}

/* ---- starts ---- */

/* The communicators that a child begins with. False: no memory. */
static bool comms_make(const struct um_spawn *spawn, struct um_mpi_task *task, int rank)
{
    struct um_mpi_group *self = um_mpi_group_make(1), *children = spawn->told.children;

    if (!self)
        return false;
    self->task[0] = um_mpi_task_hold(task);
    task->world = um_comm_make(task, spawn->world, rank, um_mpi_group_hold(children), NULL);
    task->self = um_comm_make(task, um_comm_id(), 0, self, NULL);
    task->parent = um_comm_make(task, spawn->told.between, rank, um_mpi_group_hold(children),
                                um_mpi_group_hold(spawn->parents));
    return task->world && task->self && task->parent;
}

/* The tasks of a command, behind those that the group has. False: no memory. */
static bool tasks_make(const struct um_asked *asked, int command, unsigned depth,
                       struct um_mpi_group *children)
{
    int count = asked->count[command];
    char *const *argv = asked->argv ? asked->argv[command] : NULL;
    struct um_launch *launch = count > 0 ? um_launch_make(asked->command[command], argv) : NULL;

    for (; launch && count > 0; count--) {
        struct um_mpi_task *task = um_mpi_task_make(launch, command, depth);

        if (!task)
            break;
        children->task[children->size++] = um_mpi_task_hold(task);
    }
    um_launch_put(launch); /* the tasks hold it */
    return count == 0;
}

/* NULL, or why it cannot be started. */
static const char *child_start(const struct um_spawn *spawn, int command, int rank)
{
    const struct um_held *held = &spawn->held[command];
    struct um_mpi_task *task = spawn->told.children->task[rank];
    struct umbra_child_options options = {
        .argv = task->launch->argv,
        .ended = child_ended,
        .arg = task,
        .spawn = {.where = um_with_threads() ? UMBRA_ANYWHERE : UMBRA_ON_CORE,
                  .stack_bytes = held->stack_bytes}};

    if (!comms_make(spawn, task, rank))
        return "no memory";
    task->started = umbra_child_start(um_runtime, held->image, &options, NULL) == 0;
    return task->started ? NULL : umbra_last_error_text();
}

/* False: the first child cannot be started, and no other has been. Others that cannot have ended:
 * those before them run. */
static bool all_start(const struct um_asked *asked, struct um_spawn *spawn)
{
    int rank = 0;

    for (int i = 0; i < asked->commands; i++)
        for (int k = 0; k < asked->count[i]; k++, rank++) {
            const char *why = child_start(spawn, i, rank);

            if (!why)
                continue;
            if (rank == 0) {
                snprintf(spawn->text, sizeof(spawn->text), "%.159s", why);
                return false;
            }
            task_end(spawn->told.children->task[rank]);
            um_policy_not_started(1);
            spawn->told.error = MPI_ERR_SPAWN;
        }
    return true;
}

const char *um_children_start(const struct um_asked *asked, struct um_spawn *spawn)
{
    struct um_mpi_group *children = um_mpi_group_make(spawn->told.total);
    bool made = children != NULL;

    if (children)
        children->size = 0; /* until it has tasks */
    for (int i = 0; made && i < asked->commands; i++)
        made = tasks_make(asked, i, spawn->task->depth + 1, children);
    spawn->told.children = children;
    spawn->told.between = um_comm_id();
    spawn->world = um_comm_id();
    if (made && all_start(asked, spawn))
        return NULL;
    for (int i = 0; children && i < children->size; i++)
        task_end(children->task[i]);
    um_mpi_group_put(children);
    spawn->told.children = NULL;
    um_policy_not_started((uint32_t)spawn->told.total);
    um_reserve_give_up();
    return spawn->text[0] ? spawn->text : "no memory";
}
