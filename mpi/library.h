/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the files of libumbra_mpi do for each other. Private. Each calls those below it only:
 *
 *   start.c        the program's main as a fiber; Init and Finalize; MPI's own functions
 *   spawn.c        Comm_spawn: children in this process, or real processes
 *   policy.c       which of the two: executables, limits, and counts of what became what
 *   children.c     children: their start, and their end
 *   process.c      processes
 *   reserve.c      what a process needs that is spawned since there is no room for a child
 *   comm.c         communicators and groups
 *   collective.c   collective calls, blocking and not
 *   collect.c      how they are done
 *   message.c      sends, receives and probes
 *   request.c      requests: their end; Wait and Test
 *   task.c         waits and errors of a task
 *   state.c        what there is: state.h
 *   match.h        which receive gets which message
 */
#ifndef UMBRA_MPI_LIBRARY_H
#define UMBRA_MPI_LIBRARY_H

#include "state.h"

/* Messages up to this size are copied if no receive waits, and the sender goes on. */
#define UM_EAGER_BYTES 16384

/* How often and since when a task has asked MPI in vain; begins as zeros. */
struct um_patience {
    unsigned asked;
    uint64_t since_ns;
};

/* ---- task.c ---- */

/* Waits until holds(arg), or the task was aborted, with other fibers running. */
UM_HIDE void um_mpi_task_wait(struct um_mpi_task *task, bool (*holds)(void *), void *arg);
UM_HIDE void um_mpi_task_step(void);                      /* lets other fibers run */
UM_HIDE void um_mpi_task_yield(struct um_mpi_task *task); /* the same, and it may end here */
/* The same between two questions to MPI. After some of them the task sleeps, for a part of the time
 * that it has waited, so that other processes get the processor. */
UM_HIDE void um_mpi_task_pause(struct um_mpi_task *task, struct um_patience *patience);
/* Waits for a request of MPI's own; the core runs other fibers. */
UM_HIDE int um_mpi_await(struct um_mpi_task *task, MPI_Request *request, MPI_Status *status);
/* A task that was aborted ends here. */
UM_HIDE void um_mpi_task_check(struct um_mpi_task *task);
UM_HIDE _Noreturn void um_mpi_task_leave(int code);
/* Calls the communicator's error handler. Returns the class, if the handler returns. */
UM_HIDE int um_error(struct um_mpi_task *task, struct um_comm *comm, int class, const char *call,
                     const char *what);

/* ---- request.c: the end of a call ---- */

UM_HIDE bool um_request_ended(void *request);
/* Takes back a request that has not ended, or lets the peer that has taken it end it. */
UM_HIDE void um_request_withdraw(struct um_mpi_task *task, struct um_request *request);
/* Frees what it has, ended or withdrawn. */
UM_HIDE void um_request_discard(struct um_request *request);
/* After it has ended: an MPI error class, and what it received; discards it. It may be called
 * again. */
UM_HIDE int um_request_end(struct um_request *request, MPI_Status *status);
UM_HIDE int um_request_run(struct um_mpi_task *task, struct um_request *request,
                           MPI_Status *status);

/* Takes back a request that no peer has matched, which so has ended; else that goes on. */
UM_HIDE void um_request_cancel(struct um_mpi_task *task, struct um_request *request);
/* A request that neither sends nor receives, and has not ended. */
UM_HIDE void um_request_blank(struct um_request *request, struct um_comm *comm);
/* Ends a list of messages that nothing will receive. */
UM_HIDE void um_messages_drop(struct um_message *message);
/* One to MPI_PROC_NULL or from there, which so has ended. */
UM_HIDE void um_request_nowhere(struct um_request *request, struct um_comm *comm);

/* MPICH keeps the number of bytes in two words; the lowest bit of the second is "cancelled". */
UM_INLINE void um_status_set(MPI_Status *status, int source, int tag, size_t bytes)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    status->count_lo = (int)(uint32_t)bytes;
    status->count_hi_and_cancelled = (int)(bytes >> 32 << 1);
    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
}

/* ---- message.c: its begin ---- */

UM_HIDE int um_send_begin(struct um_mpi_task *task, struct um_request *request,
                          struct um_comm *comm, enum um_use use, const void *buffer, int count,
                          MPI_Datatype type, int to, int tag, bool synchronous);
UM_HIDE int um_receive_begin(struct um_mpi_task *task, struct um_request *request,
                             struct um_comm *comm, enum um_use use, void *buffer, int count,
                             MPI_Datatype type, int from, int tag);
/* The error class of a buffer that a program gives. */
UM_HIDE int um_data_check(const void *buffer, int count, MPI_Datatype type);
/* A datatype that the program may free before the end; and its end. */
UM_HIDE int um_type_keep(MPI_Datatype *type);
UM_HIDE void um_type_drop(MPI_Datatype *type);

/* ---- collect.c ---- */

/* An argument of a collective call: equal blocks, or as counts and places say; in elements. */
struct um_blocks {
    const void *memory;
    int count;
    const int *counts, *at; /* NULL: all have count, one behind the other */
    MPI_Datatype type;
};

/* A collective call of one member. */
struct um_collective {
    int (*run)(const struct um_collective *call); /* returns an error class */
    const char *name;
    struct um_blocks out, in;
    MPI_Op op;
    int root;
    bool exclusive; /* a scan without the own element */
    bool between;   /* valid for inter-communicators, too */
    /* Set by um_collective_begin(): */
    struct um_mpi_task *task;
    struct um_comm *comm;
    int tag;
    struct umbra_child *behind; /* NULL, or the child for which a fiber or thread executes it */
    /* Of collective.c, by which the call begins: */
    MPI_Request *begun;        /* by a call that does not block, or NULL */
    MPI_Request *request, own; /* MPI's, if it executes the call: the caller's, or own */
};

/* The next collective call on the communicator: once in each member, in the same order. */
UM_HIDE void um_collective_begin(struct um_collective *call, struct um_mpi_task *task,
                                 struct um_comm *comm);
/* Whole messages of a collective call; they wait. */
UM_HIDE int um_give(const struct um_collective *call, enum um_use use, const void *buffer,
                    int count, MPI_Datatype type, int to);
UM_HIDE int um_get(const struct um_collective *call, enum um_use use, void *buffer, int count,
                   MPI_Datatype type, int from);
UM_HIDE int um_broadcast(const struct um_collective *call, enum um_use use, void *buffer, int count,
                         MPI_Datatype type, int root);

UM_HIDE int um_collect_barrier(const struct um_collective *call);
UM_HIDE int um_collect_broadcast(const struct um_collective *call);
UM_HIDE int um_collect_reduce(const struct um_collective *call);
UM_HIDE int um_collect_allreduce(const struct um_collective *call);
UM_HIDE int um_collect_reduce_scatter(const struct um_collective *call);
UM_HIDE int um_collect_scan(const struct um_collective *call);
UM_HIDE int um_collect_gather(const struct um_collective *call);
UM_HIDE int um_collect_allgather(const struct um_collective *call);
UM_HIDE int um_collect_scatter(const struct um_collective *call);
UM_HIDE int um_collect_all_to_all(const struct um_collective *call);

/* ---- spawning ---- */

/* What a spawn asks for: of MPI_Comm_spawn() a single command. Only the root's says something. */
struct um_asked {
    const char *call;
    bool multiple; /* MPI_Comm_spawn_multiple() */
    int commands;
    char **command;
    char ***argv; /* MPI_ARGVS_NULL: none has any */
    const int *count;
    const MPI_Info *info;
};

/* How a command's children are held in this process. */
struct um_held {
    struct umbra_image *image;
    size_t stack_bytes; /* 0: not said */
};

/* A spawn, from its call to its end: each file on the way fills in what the next ones need. */
struct um_spawn {
    /* spawn.c: */
    int root;
    MPI_Comm handle, *result;
    int *codes;
    struct um_mpi_task *task;
    struct um_comm *comm; /* NULL: MPI's */
    struct um_mpi_group *parents;
    bool is_root;
    const char *why; /* it becomes processes */

    /* What the root tells the other members. */
    struct {
        int error, total;
        uint32_t between;              /* the communicator's number of parents and children */
        struct um_mpi_group *children; /* NULL: there are none in this process */
    } told;

    struct um_held *held; /* policy.c: one a command */
    uint32_t world;       /* children.c: the number of the children's communicator */
    char text[160];       /* and why the first cannot be started, or empty */

    /* process.c: */
    const struct um_asked *asked;
    bool created; /* the thread */
    int error;    /* MPI's */
    struct umbra_event ended;
};

/* ---- children.c ---- */

/* Starts the children in this process: all, or all but those that are not `started`. Otherwise
 * returns why they become processes. */
UM_HIDE const char *um_children_start(const struct um_asked *asked, struct um_spawn *spawn);

/* ---- process.c ---- */

/* True if only this process is in MPI's communicator. */
UM_HIDE bool um_mpi_is_alone(MPI_Comm comm);
/* Spawns the children as processes, by MPI. */
UM_HIDE int um_processes_spawn(const struct um_asked *asked, struct um_spawn *spawn);

/* ---- policy.c ---- */

/* Counts the children as live, if they can be in this process; else returns why they cannot. */
UM_HIDE const char *um_policy_admit(const struct um_asked *asked, struct um_spawn *spawn);
/* Of admitted children so many could not be started. */
UM_HIDE void um_policy_not_started(uint32_t count);
UM_HIDE void um_policy_count_processes(uint32_t count);
UM_HIDE bool um_policy_verbose(void);
UM_HIDE void um_policy_report(void); /* the counts, if verbose */
/* The number in a text of this name; otherwise: there is no text. What is no number from 0 to most
 * ends the program. */
UM_HIDE size_t um_policy_number(const char *name, const char *text, size_t most, size_t otherwise);

/* ---- reserve.c ---- */

/* True if the reserve is there; makes it, unless a process is being spawned. */
UM_HIDE bool um_reserve_has(void);
UM_HIDE void um_reserve_give_up(void);
/* more: 1 before a process is spawned, -1 afterwards. */
UM_HIDE void um_reserve_spawning(int more);

#endif
