/* SPDX-License-Identifier: BSL-1.0 */
/* Communicators and groups of tasks of this process. */
#define _GNU_SOURCE
#include "library.h"

/* ---- what is known of a communicator ---- */

int MPI_Comm_rank(MPI_Comm handle, int *rank)
{
    const struct um_comm *comm = um_comm_of(um_mpi_task_self(), handle);

    if (!comm)
        return um_mpi.Comm_rank(handle, rank);
    *rank = comm->rank;
    return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm handle, int *size)
{
    const struct um_comm *comm = um_comm_of(um_mpi_task_self(), handle);

    if (!comm)
        return um_mpi.Comm_size(handle, size);
    *size = comm->local->size;
    return MPI_SUCCESS;
}

int MPI_Comm_remote_size(MPI_Comm handle, int *size)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);

    if (!comm)
        return um_mpi.Comm_remote_size(handle, size);
    if (!comm->remote)
        return um_error(task, comm, MPI_ERR_COMM, "MPI_Comm_remote_size", "no inter-communicator");
    *size = comm->remote->size;
    return MPI_SUCCESS;
}

int MPI_Comm_test_inter(MPI_Comm handle, int *flag)
{
    const struct um_comm *comm = um_comm_of(um_mpi_task_self(), handle);

    if (!comm)
        return um_mpi.Comm_test_inter(handle, flag);
    *flag = comm->remote != NULL;
    return MPI_SUCCESS;
}

int MPI_Comm_get_parent(MPI_Comm *parent)
{
    struct um_mpi_task *task = um_mpi_task_self();

    if (task == &um_host)
        return um_mpi.Comm_get_parent(parent);
    *parent = task->parent ? task->parent->handle : MPI_COMM_NULL;
    return MPI_SUCCESS;
}

/* How many tasks there may be: the cores, or one more than there are, which a fiber always can be. */
static int universe_size(void)
{
    int cores = (int)umbra_runtime_cores(um_runtime), tasks = 1;

    um_mpi.Comm_size(MPI_COMM_WORLD, &tasks);
    tasks += (int)um_atomic_load(&um_live, relaxed); /* only the number counts */
    return tasks < cores ? cores : tasks + 1;
}

/* Other attributes than these are MPI's own, which are the process's. */
int MPI_Comm_get_attr(MPI_Comm handle, int key, void *value, int *flag)
{
    static _Thread_local int universe;
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);

    if (key == MPI_UNIVERSE_SIZE && um_runtime) {
        int error = comm ? MPI_SUCCESS : um_mpi.Comm_get_attr(handle, key, value, flag);

        if (error != MPI_SUCCESS || (!comm && *flag))
            return error;
        universe = universe_size();
        *(int **)value = &universe;
        *flag = 1;
        return MPI_SUCCESS;
    }
    if (key == MPI_APPNUM && comm) {
        *(int **)value = &task->appnum;
        *flag = 1;
        return MPI_SUCCESS;
    }
    return um_mpi.Comm_get_attr(comm ? MPI_COMM_WORLD : handle, key, value, flag);
}

static const char *name_of(const struct um_mpi_task *task, const struct um_comm *comm)
{
    return comm->name             ? comm->name
           : comm == task->world  ? "MPI_COMM_WORLD"
           : comm == task->self   ? "MPI_COMM_SELF"
           : comm == task->parent ? "MPI_COMM_PARENT"
                                  : "";
}

int MPI_Comm_get_name(MPI_Comm handle, char *name, int *length)
{
    struct um_mpi_task *task = um_mpi_task_self();
    const struct um_comm *comm = um_comm_of(task, handle);

    if (!comm)
        return um_mpi.Comm_get_name(handle, name, length);
    *length = snprintf(name, MPI_MAX_OBJECT_NAME, "%s", name_of(task, comm));
    return MPI_SUCCESS;
}

int MPI_Comm_set_name(MPI_Comm handle, const char *name)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);
    char *copy;

    if (!comm)
        return um_mpi.Comm_set_name(handle, name);
    copy = strndup(name, MPI_MAX_OBJECT_NAME - 1);
    if (!copy)
        return um_error(task, comm, MPI_ERR_NO_MEM, "MPI_Comm_set_name", "no memory");
    free(comm->name);
    comm->name = copy;
    return MPI_SUCCESS;
}

int MPI_Comm_set_errhandler(MPI_Comm handle, MPI_Errhandler handler)
{
    struct um_comm *comm = um_comm_of(um_mpi_task_self(), handle);

    if (!comm)
        return um_mpi.Comm_set_errhandler(handle, handler);
    comm->handler = handler;
    return MPI_SUCCESS;
}

int MPI_Comm_get_errhandler(MPI_Comm handle, MPI_Errhandler *handler)
{
    const struct um_comm *comm = um_comm_of(um_mpi_task_self(), handle);

    if (!comm)
        return um_mpi.Comm_get_errhandler(handle, handler);
    *handler = comm->handler;
    return MPI_SUCCESS;
}

static bool same_order(const struct um_mpi_group *a, const struct um_mpi_group *b)
{
    for (int i = 0; i < a->size; i++)
        if (a->task[i] != b->task[i])
            return false;
    return true;
}

static int rank_in(const struct um_mpi_group *group, const struct um_mpi_task *task)
{
    for (int i = 0; i < group->size; i++)
        if (group->task[i] == task)
            return i;
    return MPI_UNDEFINED;
}

static int group_compare(const struct um_mpi_group *a, const struct um_mpi_group *b)
{
    if (a == b || (a->size == b->size && same_order(a, b)))
        return MPI_IDENT;
    if (a->size != b->size)
        return MPI_UNEQUAL;
    for (int i = 0; i < a->size; i++)
        if (rank_in(b, a->task[i]) == MPI_UNDEFINED)
            return MPI_UNEQUAL;
    return MPI_SIMILAR;
}

int MPI_Comm_compare(MPI_Comm first, MPI_Comm second, int *result)
{
    struct um_mpi_task *task = um_mpi_task_self();
    const struct um_comm *a = um_comm_of(task, first), *b = um_comm_of(task, second);
    int remote = MPI_IDENT;

    if (!a && !b)
        return um_mpi.Comm_compare(first, second, result);
    *result = MPI_UNEQUAL;
    if (!a || !b || !a->remote != !b->remote)
        return MPI_SUCCESS;
    *result = group_compare(a->local, b->local);
    if (a->remote)
        remote = group_compare(a->remote, b->remote);
    *result = remote > *result ? remote : *result;
    if (*result == MPI_IDENT && a->id != b->id)
        *result = MPI_CONGRUENT;
    else if (*result == MPI_CONGRUENT)
        *result = MPI_SIMILAR;
    return MPI_SUCCESS;
}

/* ---- the end of a communicator ---- */

/* Requests under way keep it. A task that has freed it does not wait for the others. */
static int drop(MPI_Comm *handle, int (*of_mpi)(MPI_Comm *), const char *call)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, *handle);

    if (!comm)
        return of_mpi(handle);
    if (comm == task->world || comm == task->self)
        return um_error(task, comm, MPI_ERR_COMM, call, "MPI_COMM_WORLD or MPI_COMM_SELF");
    if (comm == task->parent)
        task->parent = NULL;
    um_table_remove(task, &task->comms, comm->handle);
    um_comm_put(comm);
    *handle = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

int MPI_Comm_free(MPI_Comm *handle)
{
    return drop(handle, um_mpi.Comm_free, "MPI_Comm_free");
}

int MPI_Comm_disconnect(MPI_Comm *handle)
{
    return drop(handle, um_mpi.Comm_disconnect, "MPI_Comm_disconnect");
}

/* ---- new communicators: one member decides, and gives the others addresses ---- */

/* What a member gets. */
struct decided {
    uint32_t id;
    int rank;
    struct um_mpi_group *group; /* NULL: it is not a member, or no memory */
};

/* A number that all members of the communicator, on both sides, agree on. */
static int agree_id(struct um_mpi_task *task, struct um_comm *comm, uint32_t *id)
{
    struct um_collective call;
    int error = MPI_SUCCESS;

    um_collective_begin(&call, task, comm);
    if (comm->rank == 0 && (!comm->remote || comm->first)) {
        *id = um_comm_id();
        if (comm->remote)
            error = um_give(&call, UM_COLLECTIVE, id, sizeof(*id), MPI_BYTE, 0);
    } else if (comm->rank == 0) {
        error = um_get(&call, UM_COLLECTIVE, id, sizeof(*id), MPI_BYTE, 0);
    }
    if (error == MPI_SUCCESS)
        error = um_broadcast(&call, UM_LOCALLY, id, sizeof(*id), MPI_BYTE, 0);
    return error;
}

static int failed(struct um_mpi_task *task, struct um_comm *comm, int error, const char *call)
{
    return error == MPI_SUCCESS
               ? error
               : um_error(task, comm, error, call,
                          error == MPI_ERR_NO_MEM ? "no memory" : "a member has ended");
}

int MPI_Comm_dup(MPI_Comm handle, MPI_Comm *result)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle), *made = NULL;
    uint32_t id = 0;
    int error;

    if (!comm)
        return um_mpi.Comm_dup(handle, result);
    error = agree_id(task, comm, &id);
    if (error == MPI_SUCCESS) {
        made = um_comm_make(task, id, comm->rank, um_mpi_group_hold(comm->local),
                            comm->remote ? um_mpi_group_hold(comm->remote) : NULL);
        error = made ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    if (error != MPI_SUCCESS)
        return failed(task, comm, error, "MPI_Comm_dup");
    made->first = comm->first;
    made->handler = comm->handler;
    *result = made->handle;
    return MPI_SUCCESS;
}

/* What a member asks for in a split. */
struct wish {
    int color, key, rank;
};

static int by_wish(const void *a, const void *b)
{
    const struct wish *x = a, *y = b;

    if (x->color != y->color)
        return x->color < y->color ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Makes the groups of a split, of sorted wishes. */
static void split(const struct um_comm *comm, const struct wish *wish, struct decided *decided)
{
    int size = comm->local->size;

    for (int first = 0, end; first < size; first = end) {
        struct um_mpi_group *group;
        uint32_t id = um_comm_id();

        for (end = first; end < size && wish[end].color == wish[first].color; end++) {
        }
        group = wish[first].color == MPI_UNDEFINED ? NULL : um_mpi_group_make(end - first);
        if (group)
            um_atomic_store(&group->refs, (uint32_t)(end - first), relaxed); /* not yet given */
        for (int i = first; i < end; i++) {
            decided[wish[i].rank] = (struct decided){id, i - first, group};
            if (group)
                group->task[i - first] = um_mpi_task_hold(comm->local->task[wish[i].rank]);
        }
    }
}

/* The first member collects the wishes, and gives each member what was decided. */
static int split_decide(struct um_mpi_task *task, struct um_comm *comm, struct wish own,
                        struct decided *mine)
{
    int size = comm->local->size, error = MPI_SUCCESS;
    struct um_collective call;
    struct wish *wish;
    struct decided *decided;

    um_collective_begin(&call, task, comm);
    if (comm->rank != 0) {
        error = um_give(&call, UM_COLLECTIVE, &own, sizeof(own), MPI_BYTE, 0);
        return error ? error : um_get(&call, UM_COLLECTIVE, mine, sizeof(*mine), MPI_BYTE, 0);
    }
    wish = malloc((size_t)size * sizeof(*wish));
    decided = malloc((size_t)size * sizeof(*decided));
    if (!wish || !decided)
        error = MPI_ERR_NO_MEM;
    for (int i = 1; i < size && error == MPI_SUCCESS; i++)
        error = um_get(&call, UM_COLLECTIVE, &wish[i], sizeof(own), MPI_BYTE, i);
    if (error == MPI_SUCCESS) {
        wish[0] = own;
        qsort(wish, (size_t)size, sizeof(*wish), by_wish);
        split(comm, wish, decided);
        *mine = decided[0];
    }
    for (int i = 1; i < size && error == MPI_SUCCESS; i++)
        error = um_give(&call, UM_COLLECTIVE, &decided[i], sizeof(*decided), MPI_BYTE, i);
    free(wish);
    free(decided);
    return error;
}

static int split_comm(struct um_mpi_task *task, struct um_comm *comm, int color, int key,
                      MPI_Comm *result, const char *call)
{
    struct decided mine = {0, 0, NULL};
    struct um_comm *made = NULL;
    int error = comm->remote ? MPI_ERR_COMM : MPI_SUCCESS;

    *result = MPI_COMM_NULL;
    if (error != MPI_SUCCESS)
        return um_error(task, comm, error, call, "not of an inter-communicator");
    error = split_decide(task, comm, (struct wish){color, key, comm->rank}, &mine);
    if (error == MPI_SUCCESS && color != MPI_UNDEFINED) {
        made = mine.group ? um_comm_make(task, mine.id, mine.rank, mine.group, NULL) : NULL;
        error = made ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    if (made) {
        made->handler = comm->handler;
        *result = made->handle;
    }
    return failed(task, comm, error, call);
}

int MPI_Comm_split(MPI_Comm handle, int color, int key, MPI_Comm *result)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);

    return comm ? split_comm(task, comm, color, key, result, "MPI_Comm_split")
                : um_mpi.Comm_split(handle, color, key, result);
}

/* The union of both groups: those with high false first, else the first side. */
static struct um_mpi_group *merged(const struct um_comm *comm, bool high, bool remote_high)
{
    bool local_first = high == remote_high ? comm->first : !high;
    const struct um_mpi_group *low = local_first ? comm->local : comm->remote;
    const struct um_mpi_group *up = local_first ? comm->remote : comm->local;
    struct um_mpi_group *group = um_mpi_group_make(low->size + up->size);

    for (int i = 0; group && i < group->size; i++)
        group->task[i] = um_mpi_task_hold(i < low->size ? low->task[i] : up->task[i - low->size]);
    if (group)
        um_atomic_store(&group->refs, (uint32_t)group->size, relaxed); /* not yet given */
    return group;
}

int MPI_Intercomm_merge(MPI_Comm handle, int high, MPI_Comm *result)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle), *made = NULL;
    struct decided decided = {0, 0, NULL};
    struct um_collective call;
    int remote_high = 0, error = MPI_SUCCESS;

    if (!comm)
        return um_mpi.Intercomm_merge(handle, high, result);
    if (!comm->remote)
        return um_error(task, comm, MPI_ERR_COMM, "MPI_Intercomm_merge", "no inter-communicator");
    um_collective_begin(&call, task, comm);
    if (comm->rank == 0 && !comm->first) {
        error = um_give(&call, UM_COLLECTIVE, &high, 1, MPI_INT, 0);
        if (error == MPI_SUCCESS)
            error = um_get(&call, UM_COLLECTIVE, &decided, sizeof(decided), MPI_BYTE, 0);
    } else if (comm->rank == 0) {
        error = um_get(&call, UM_COLLECTIVE, &remote_high, 1, MPI_INT, 0);
        decided = (struct decided){um_comm_id(), 0, merged(comm, high != 0, remote_high != 0)};
        if (error == MPI_SUCCESS)
            error = um_give(&call, UM_COLLECTIVE, &decided, sizeof(decided), MPI_BYTE, 0);
    }
    if (error == MPI_SUCCESS)
        error = um_broadcast(&call, UM_LOCALLY, &decided, sizeof(decided), MPI_BYTE, 0);
    if (error == MPI_SUCCESS && decided.group)
        made = um_comm_make(task, decided.id, rank_in(decided.group, task), decided.group, NULL);
    if (!made)
        return failed(task, comm, error ? error : MPI_ERR_NO_MEM, "MPI_Intercomm_merge");
    made->handler = comm->handler;
    *result = made->handle;
    return MPI_SUCCESS;
}

/* ---- groups ---- */

static struct um_mpi_group *group_of(const struct um_mpi_task *task, MPI_Group handle)
{
    if (!um_is(handle, UM_IS_GROUP))
        return NULL;
    return um_table_get(&task->groups, (unsigned)handle & UM_HANDLE_BITS);
}

/* A handle of the caller's reference. */
static int group_name(struct um_mpi_task *task, struct um_mpi_group *group, MPI_Group *handle)
{
    int number = group ? um_table_add(task, &task->groups, group) : -1;

    if (number < 0) {
        um_mpi_group_put(group);
        return um_error(task, task->world, MPI_ERR_NO_MEM, "a new group", "no memory");
    }
    *handle = (MPI_Group)(UM_IS_GROUP | number);
    return MPI_SUCCESS;
}

int MPI_Comm_group(MPI_Comm handle, MPI_Group *group)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);

    return comm ? group_name(task, um_mpi_group_hold(comm->local), group)
                : um_mpi.Comm_group(handle, group);
}

int MPI_Comm_remote_group(MPI_Comm handle, MPI_Group *group)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);

    if (!comm)
        return um_mpi.Comm_remote_group(handle, group);
    if (!comm->remote)
        return um_error(task, comm, MPI_ERR_COMM, "MPI_Comm_remote_group", "no inter-communicator");
    return group_name(task, um_mpi_group_hold(comm->remote), group);
}

int MPI_Group_size(MPI_Group handle, int *size)
{
    const struct um_mpi_group *group = group_of(um_mpi_task_self(), handle);

    if (!group)
        return um_mpi.Group_size(handle, size);
    *size = group->size;
    return MPI_SUCCESS;
}

int MPI_Group_rank(MPI_Group handle, int *rank)
{
    struct um_mpi_task *task = um_mpi_task_self();
    const struct um_mpi_group *group = group_of(task, handle);

    if (!group)
        return um_mpi.Group_rank(handle, rank);
    *rank = rank_in(group, task);
    return MPI_SUCCESS;
}

int MPI_Group_free(MPI_Group *handle)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_mpi_group *group = group_of(task, *handle);

    if (!group)
        return um_mpi.Group_free(handle);
    um_table_remove(task, &task->groups, *handle);
    um_mpi_group_put(group);
    *handle = MPI_GROUP_NULL;
    return MPI_SUCCESS;
}

int MPI_Group_incl(MPI_Group handle, int count, const int *ranks, MPI_Group *result)
{
    struct um_mpi_task *task = um_mpi_task_self();
    const struct um_mpi_group *group = group_of(task, handle);
    struct um_mpi_group *made;

    if (!group)
        return um_mpi.Group_incl(handle, count, ranks, result);
    if (count < 0)
        return um_error(task, task->world, MPI_ERR_ARG, "MPI_Group_incl", "a negative count");
    if (count == 0) {
        *result = MPI_GROUP_EMPTY;
        return MPI_SUCCESS;
    }
    for (int i = 0; i < count; i++)
        if (ranks[i] < 0 || ranks[i] >= group->size)
            return um_error(task, task->world, MPI_ERR_RANK, "MPI_Group_incl", "no such rank");
    made = um_mpi_group_make(count);
    for (int i = 0; made && i < count; i++)
        made->task[i] = um_mpi_task_hold(group->task[ranks[i]]);
    return group_name(task, made, result);
}

int MPI_Group_translate_ranks(MPI_Group first, int count, const int *ranks, MPI_Group second,
                              int *result)
{
    struct um_mpi_task *task = um_mpi_task_self();
    const struct um_mpi_group *a = group_of(task, first), *b = group_of(task, second);
    int size = a ? a->size : 0;

    if ((!a && first != MPI_GROUP_EMPTY) || (!b && second != MPI_GROUP_EMPTY) || (!a && !b))
        return um_mpi.Group_translate_ranks(first, count, ranks, second, result);
    for (int i = 0; i < count; i++)
        if (ranks[i] != MPI_PROC_NULL && (ranks[i] < 0 || ranks[i] >= size))
            return um_error(task, task->world, MPI_ERR_RANK, "MPI_Group_translate_ranks",
                            "no such rank");
    for (int i = 0; i < count; i++)
        result[i] = ranks[i] == MPI_PROC_NULL ? MPI_PROC_NULL
                    : b                       ? rank_in(b, a->task[ranks[i]])
                                              : MPI_UNDEFINED;
    return MPI_SUCCESS;
}

int MPI_Group_compare(MPI_Group first, MPI_Group second, int *result)
{
    struct um_mpi_task *task = um_mpi_task_self();
    const struct um_mpi_group *a = group_of(task, first), *b = group_of(task, second);

    if (!a && !b)
        return um_mpi.Group_compare(first, second, result);
    *result = a && b ? group_compare(a, b) : MPI_UNEQUAL;
    return MPI_SUCCESS;
}

/* Members of the group get a communicator in the group's order; the others MPI_COMM_NULL. Tasks may
 * give different groups, if those have no member in common: each is known by its first member. */
int MPI_Comm_create(MPI_Comm handle, MPI_Group group_handle, MPI_Comm *result)
{
    struct um_mpi_task *task = um_mpi_task_self();
    struct um_comm *comm = um_comm_of(task, handle);
    const struct um_mpi_group *group = group_of(task, group_handle);
    int rank, first;

    if (!comm)
        return um_mpi.Comm_create(handle, group_handle, result);
    rank = group ? rank_in(group, task) : MPI_UNDEFINED;
    first = group ? rank_in(comm->local, group->task[0]) : MPI_UNDEFINED;
    if (group ? first == MPI_UNDEFINED : group_handle != MPI_GROUP_EMPTY)
        return um_error(task, comm, MPI_ERR_GROUP, "MPI_Comm_create", "no group of its members");
    return split_comm(task, comm, rank == MPI_UNDEFINED ? MPI_UNDEFINED : first, rank, result,
                      "MPI_Comm_create");
}
