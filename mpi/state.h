/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What libumbra_mpi has: tasks, groups, communicators and requests, their handles, and the counts
 * that keep them. It knows nothing of what is done with them. Private.
 *
 * A task is the program's main (the host) or a child. A communicator whose members are all tasks of
 * this process is "inside"; its handle has bits that MPICH uses for no handle. All calls with other
 * communicators go to MPI, by names that are looked up at run time (PMPI_...), so that one library
 * serves all versions that have MPICH's binary interface. In a child MPI_COMM_WORLD and
 * MPI_COMM_SELF are inside.
 *
 * Lifetimes. A group counts the communicators that name it, and holds its tasks. A communicator
 * counts its handle and its requests. So a task stays while any peer can send to it.
 */
#ifndef UMBRA_MPI_STATE_H
#define UMBRA_MPI_STATE_H

/* MPI's names are all that the library exports, but for what start.c and bind_start.c replace. */
#pragma GCC visibility push(default)
#include <mpi.h>
#pragma GCC visibility pop

#include <stdio.h>
#include <stdlib.h>

#include "image/seat.h"
#include "match.h"

/* MPI's functions that this library calls. */
#define UM_MPI_FUNCTIONS(X)                                                                        \
    X(Init_thread)                                                                                 \
    X(Initialized)                                                                                 \
    X(Finalized)                                                                                   \
    X(Finalize)                                                                                    \
    X(Abort)                                                                                       \
    X(Comm_spawn)                                                                                  \
    X(Comm_spawn_multiple)                                                                         \
    X(Comm_get_parent)                                                                             \
    X(Comm_rank)                                                                                   \
    X(Comm_size)                                                                                   \
    X(Comm_remote_size)                                                                            \
    X(Comm_test_inter)                                                                             \
    X(Comm_free)                                                                                   \
    X(Comm_disconnect)                                                                             \
    X(Comm_dup)                                                                                    \
    X(Comm_split)                                                                                  \
    X(Comm_create)                                                                                 \
    X(Comm_compare)                                                                                \
    X(Comm_group)                                                                                  \
    X(Comm_remote_group)                                                                           \
    X(Comm_set_errhandler)                                                                         \
    X(Comm_get_errhandler)                                                                         \
    X(Comm_create_errhandler)                                                                      \
    X(Comm_call_errhandler)                                                                        \
    X(Errhandler_free)                                                                             \
    X(Comm_get_name)                                                                               \
    X(Comm_set_name)                                                                               \
    X(Comm_get_attr)                                                                               \
    X(Intercomm_merge)                                                                             \
    X(Group_size)                                                                                  \
    X(Group_rank)                                                                                  \
    X(Group_free)                                                                                  \
    X(Group_incl)                                                                                  \
    X(Group_translate_ranks)                                                                       \
    X(Group_compare)                                                                               \
    X(Isend)                                                                                       \
    X(Issend)                                                                                      \
    X(Irecv)                                                                                       \
    X(Iprobe)                                                                                      \
    X(Wait)                                                                                        \
    X(Test)                                                                                        \
    X(Request_get_status)                                                                          \
    X(Request_free)                                                                                \
    X(Cancel)                                                                                      \
    X(Ibarrier)                                                                                    \
    X(Ibcast)                                                                                      \
    X(Ireduce)                                                                                     \
    X(Iallreduce)                                                                                  \
    X(Igather)                                                                                     \
    X(Iscatter)                                                                                    \
    X(Iallgather)                                                                                  \
    X(Ialltoall)                                                                                   \
    X(Iscan)                                                                                       \
    X(Iexscan)                                                                                     \
    X(Ireduce_scatter)                                                                             \
    X(Ireduce_scatter_block)                                                                       \
    X(Igatherv)                                                                                    \
    X(Iscatterv)                                                                                   \
    X(Iallgatherv)                                                                                 \
    X(Ialltoallv)                                                                                  \
    X(Improbe)                                                                                     \
    X(Imrecv)                                                                                      \
    X(Type_dup)                                                                                    \
    X(Type_free)                                                                                   \
    X(Op_free)                                                                                     \
    X(Reduce_local)                                                                                \
    X(Pack)                                                                                        \
    X(Pack_size)                                                                                   \
    X(Unpack)                                                                                      \
    X(Type_get_extent)                                                                             \
    X(Type_get_true_extent)                                                                        \
    X(Info_get)                                                                                    \
    X(Info_get_valuelen)

struct um_mpi {
#define UM_MPI_FIELD(name) __typeof__(PMPI_##name) *name;
    UM_MPI_FUNCTIONS(UM_MPI_FIELD)
#undef UM_MPI_FIELD
};
extern struct um_mpi um_mpi UM_HIDE;
extern int um_provided UM_HIDE; /* the level of threads that MPI has */

/* Handles: a number in a table of the task's. Entries never move, so a look needs no lock. */
#define UM_CHUNKS 22
struct um_table {
    void **chunk[UM_CHUNKS]; /* chunk k has 16 << k entries */
    uint32_t count;          /* entries ever used */
    uintptr_t unused;        /* the first unused entry + 1; in it 2 * the next + 1; 0: none */
};

#define UM_HANDLE_BITS 0x01ffffff
#define UM_IS_COMM 0x06000000
#define UM_IS_GROUP 0x0a000000
#define UM_IS_REQUEST 0x2e000000
#define um_is(handle, kind) (((unsigned)(handle) & ~(unsigned)UM_HANDLE_BITS) == (unsigned)(kind))

/* The arguments of children that were started by one call. */
struct um_launch {
    um_atomic_u32 refs;
    char **argv;
};

struct um_mpi_task {
    struct umbra_event bell; /* rung when something that the task may wait for has happened */
    struct um_box box;
    um_atomic_u32 refs;     /* groups, and 1 while it runs */
    um_atomic_u32 ended;    /* 1: its box is closed, or about to be */
    um_atomic_u32 aborted;  /* code + 1: it must end at its next call */
    um_atomic_u32 threaded; /* 1: a thread that is no core has waited for the bell */
    struct um_lock lock;    /* of changes of the tables */
    struct um_table comms, groups, requests;
    struct um_comm *world, *self, *parent; /* NULL: MPI's own; none */
    struct um_launch *launch;
    int appnum;
    int level;      /* of threads, that MPI_Init_thread() has provided */
    unsigned depth; /* of the program's main 0, of its children 1 */
    bool initialized, finalized;
    bool started; /* by the member that spawned it, which tells the others */
};

struct um_mpi_group {
    um_atomic_u32 refs;
    um_atomic_u32 live; /* members before this one have ended */
    int size;
    struct um_mpi_task *task[];
};

/* A communicator, as one member has it. */
struct um_comm {
    um_atomic_u32 refs; /* its handle, and requests */
    uint32_t id;        /* the same in all members */
    int rank;
    bool first; /* of an inter-communicator: this side is the first in what both agree on */
    struct um_mpi_group *local, *remote; /* remote NULL: an intra-communicator */
    MPI_Errhandler handler;
    MPI_Comm handle;
    char *name;     /* that the program gave it, or NULL */
    uint32_t calls; /* collective ones so far, the same number in all members */
};

/* What a message's context is used for. */
enum um_use { UM_POINT, UM_COLLECTIVE, UM_LOCALLY, UM_USES = 4 };

/* A send or receive under way; or a collective call that a fiber does; or, between MPI_Mprobe and
 * MPI_Mrecv, a message. */
struct um_request {
    bool sends;
    bool background;          /* a collective call: receive.done, and error, are its end */
    bool cancelled;           /* and so it has ended */
    int error;                /* of a collective call */
    struct um_message *taken; /* by MPI_Mprobe, or NULL */
    struct um_comm *comm;
    struct um_mpi_task *to; /* of a send */
    const void *user;       /* the buffer, if it is not contiguous: unpacked at the end */
    int count;
    MPI_Datatype type;
    void *packed;
    union {
        struct um_message message;
        struct um_receive receive;
    };
};

extern struct um_mpi_task um_host UM_HIDE;
extern struct umbra_runtime *um_runtime UM_HIDE; /* NULL: there are no fibers */
extern um_atomic_u32 um_live UM_HIDE;            /* children that have not ended */

/* True if MPI may be called on all cores. */
UM_INLINE bool um_with_threads(void)
{
    return um_provided == MPI_THREAD_MULTIPLE;
}

UM_INLINE struct um_mpi_task *um_mpi_task_self(void)
{
    struct umbra_child *child = um_seat.running;

    return child ? um_child_arg(child) : &um_host;
}

/* In a table of the task's: the item's number; -1: no memory. */
UM_HIDE int um_table_add(struct um_mpi_task *task, struct um_table *table, void *item);
UM_HIDE void um_table_remove(struct um_mpi_task *task, struct um_table *table, int handle);

UM_INLINE void *um_table_get(const struct um_table *table, unsigned number)
{
    unsigned from = number + 16, k = 27 - (unsigned)__builtin_clz(from);
    void **chunk = k < UM_CHUNKS ? table->chunk[k] : NULL;
    uintptr_t item = chunk ? (uintptr_t)chunk[from - (16u << k)] : 1;

    return item & 1 ? NULL : (void *)item;
}

/* The communicator, if it is inside; NULL: MPI's. */
UM_INLINE struct um_comm *um_comm_of(const struct um_mpi_task *task, MPI_Comm comm)
{
    if (um_is(comm, UM_IS_COMM))
        return um_table_get(&task->comms, (unsigned)comm & UM_HANDLE_BITS);
    return comm == MPI_COMM_WORLD ? task->world : comm == MPI_COMM_SELF ? task->self : NULL;
}

UM_INLINE void um_mpi_task_ring(struct um_mpi_task *task)
{
    umbra_event_signal(&task->bell);
}

UM_INLINE struct um_mpi_task *um_mpi_task_hold(struct um_mpi_task *task)
{
    um_atomic_fetch_add(&task->refs, 1, relaxed); /* the caller has a reference */
    return task;
}

/* argv[0] is the command, and argv (NULL: none) follows. NULL: no memory. */
UM_HIDE struct um_launch *um_launch_make(const char *command, char *const *argv);
UM_HIDE void um_launch_put(struct um_launch *launch);
UM_HIDE struct um_mpi_task *um_mpi_task_make(struct um_launch *launch, int appnum, unsigned depth);
UM_HIDE void um_mpi_task_put(struct um_mpi_task *task);

UM_HIDE struct um_mpi_group *um_mpi_group_make(int size);
UM_HIDE void um_mpi_group_put(struct um_mpi_group *group);
UM_HIDE uint32_t um_comm_id(void); /* a new one */
/* A communicator with a handle in the task's table; takes over the references to the groups. NULL:
 * no memory, and the groups have been put. */
UM_HIDE struct um_comm *um_comm_make(struct um_mpi_task *task, uint32_t id, int rank,
                                     struct um_mpi_group *local, struct um_mpi_group *remote);
UM_HIDE void um_comm_put(struct um_comm *comm);

UM_INLINE struct um_mpi_group *um_mpi_group_hold(struct um_mpi_group *group)
{
    um_atomic_fetch_add(&group->refs, 1, relaxed); /* the caller has a reference */
    return group;
}

/* A request with a handle; NULL: no memory. */
UM_HIDE struct um_request *um_request_make(struct um_mpi_task *task, struct um_comm *comm,
                                           MPI_Request *handle);
/* The request of a handle that is inside; NULL: MPI's. */
UM_HIDE struct um_request *um_request_of(const struct um_mpi_task *task, MPI_Request handle);
/* The end of a handle and of its request. */
UM_HIDE void um_request_free(struct um_mpi_task *task, struct um_request *request,
                             MPI_Request *handle);

#endif
