/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A team is a fixed set of threads that all execute one function when they are told to, the caller
 * among them. For short parallel loops and for phases with barriers between them: a run of a team
 * of two costs about what fork and join of a shadow cost (umbra/shadow.h).
 *
 *     static void add(unsigned member, unsigned members, void *arg)
 *     {
 *         struct sums *s = arg;
 *
 *         for (size_t i = s->n * member / members; i < s->n * (member + 1) / members; i++)
 *             s->a[i] += s->b[i];
 *         umbra_team_barrier(s->team, UMBRA_TEAM_SELF); // where all parts must have come this far
 *     }
 *
 *     struct umbra_team *team;
 *
 *     umbra_team_create(NULL, &team);          one member for each core; the caller is member 0
 *     umbra_team_run(team, 0, add, &sums);     all have added their part
 *     umbra_team_destroy(team);
 *
 * Which thread executes a part. A run has a part for each of its members; member 0 is the caller.
 * If a member has not begun its part when the caller has ended its own, since the system does not
 * run the member's thread, then the caller takes the part, and so do other members that are there.
 * A run so waits only for parts that were begun. A part is executed by one thread from its
 * beginning to its end, and has the number of its member: which thread executed it only shows in
 * thread-local variables. With the option `parts_stay` each part is executed by its member's own
 * thread.
 *
 * Barriers. Inside a run the parts may meet at a barrier, which each part must come to: a part that
 * waits there keeps its thread, so the run then needs each member's own thread, also one that the
 * system does not run yet. So the parts may also wait for each other by words of the program: the
 * thread of a part that has not begun does nothing else before it.
 *
 * Callers
 *
 *     call                  by                        blocks                 wrong use
 *     umbra_team_create     any thread or fiber       until all are bound    -EINVAL, -ENODEV, ...
 *     umbra_team_run        the owner                 until all parts ended  -EPERM, -EBUSY, -ESRCH
 *     umbra_team_barrier    a part of the run         until all parts come   not found
 *     umbra_team_destroy    the owner, outside a run  until all have ended   -EPERM, -EBUSY
 *
 * The owner is the thread that called umbra_team_create: it is bound to its hardware thread until
 * umbra_team_destroy, unless the option `bind` spares it; an affinity that the program sets
 * meanwhile stays. If a fiber creates a team, the thread of its core is the owner, so that all
 * fibers of the core may run it; a run or a barrier then blocks the core, and no call switches
 * fibers. When the owner has ended, no thread may run the team, also none that is created later,
 * and one call of umbra_team_destroy by any thread ends it. A member runs no fibers: a part that is
 * not on the caller's thread is a call of a thread that is no core.
 *
 * Any thread. A library is called from any thread: with the option `any_thread` the thread that
 * calls umbra_team_run is the owner during that run, as member 0 on its own thread, and is not
 * bound. A call of umbra_team_run or umbra_team_destroy beside it returns -EBUSY at once, so that
 * its caller can do the work alone. A thread that has ended leaves nothing behind, unless it ended
 * inside a run (pthread_exit): then it was the owner, as above. Parts that have begun go on, and
 * umbra_team_destroy waits for them; for ever, if one waits at a barrier for the part that ended.
 *
 * Members wait for the next run in two phases, as a shadow does: polling, then asleep in the kernel
 * (umbra/wait.h); the next run wakes them. Signals are blocked in members as in a shadow's helper.
 * After fork(2) the child has no members: a run returns -ESRCH, and umbra_team_destroy frees the
 * memory.
 *
 * Shared places. The teams of a process know of each other: without a list a team takes the places
 * with the fewest members of others, the nearest of them first; a caller that is bound to one
 * processor stays there. While a team shares a place, since it has more members than places or with
 * another team, the waits of all its threads, in mode UMBRA_WAIT_TWO_PHASE with an end, yield the
 * processor (sched_yield) to the other threads there until the time comes to sleep: a run or a
 * barrier that follows soon needs no wake-up. If a yield at a barrier or at the end of a run lasts
 * 1 ms, another process wants the processor, or parts of other members there take so long that a
 * wake-up costs little; then the team's threads sleep without yields for 100 ms. A yield does not
 * lend the processor to a thread of a lower real-time priority: such a member runs when the waiting
 * thread sleeps.
 *
 * Invariants
 *   - The call of a run is one line, read by its members; ends of parts are on lines of their own,
 *     in a run of two on the line of the call (team/protocol.h).
 *   - A run and a barrier allocate nothing (but the C library may, in a thread's first run of a team
 *     with any_thread), and make no system call unless a thread parks or has parked; both but for
 *     a look, every 0.5 ms at most, whether a caller that is not bound is on a member's place.
 */
#ifndef UMBRA_TEAM_H
#define UMBRA_TEAM_H

#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/shadow.h>
#include <umbra/team/protocol.h>
#include <umbra/topology.h>
#include <umbra/wait.h>

/* What a member executes: its number, how many members the run has, the argument of the run. */
typedef void umbra_team_fn(unsigned member, unsigned members, void *arg);

/* What a thread that the team starts calls at its beginning and end: the number of its member. */
typedef void umbra_team_hook(unsigned member, void *arg);

/*
 * What a thread of the team that waits calls between two looks: it may do other work. member: its
 * number; waiter: what it waits with. Returns true if there was work, then it is called again at
 * once, or false: the thread goes on waiting, and sleeps when its time has come. Before it sleeps
 * there is a last call, which looks at what the program keeps (seq_cst). So a thread that has
 * changed that (seq_cst) and then calls umbra_wake() with the waiter of that call does not miss it.
 * The function does not run this team, and no part meets another in it.
 */
typedef bool umbra_team_idle(unsigned member, struct umbra_waiter *waiter, void *arg);

struct umbra_team;

#define UMBRA_TEAM_MOST 1024 /* members of a team */

/* Which threads a team binds, each to its place. An unbound thread runs where the program lets its
 * creator run; it is slower where the system moves it to a processor that another one uses. */
enum umbra_team_bind {
    UMBRA_TEAM_BIND_ALL,     /* those that the team starts, and its creator without any_thread */
    UMBRA_TEAM_BIND_MEMBERS, /* those that the team starts: for a library, as threads and processes
                                that its callers start would inherit the binding. A caller that is on
                                a member's place is sent off it, now and then: a binding that another
                                thread gives it just then is lost */
    UMBRA_TEAM_BIND_NONE
};

/* Options of a team. All zero, or NULL for the whole, is a good default. */
struct umbra_team_options {
    unsigned members; /* with the caller; 0: one for each place of the list; without a list as
                             UMBRA_CORES says, else one for each place, but no more than the CPU
                             quota of the container allows. If there are fewer places, the members
                             share them */
    const char *cpus; /* the places, in this order, as a list: "0,2-5"; or "performance" or
                             "efficiency", the cores of a kind (umbra/topology.h). NULL: where the
                             caller runs, then the other cores, the nearest first, each only after
                             those with fewer members of other teams */
    bool siblings;    /* without a list: a place is a hardware thread, not a core */
    enum umbra_team_bind bind;
    bool any_thread; /* any thread may run it, one at a time, and is not bound; false: the
                             creator alone */
    bool parts_stay; /* no thread takes a part of another member, so that thread-local variables
                             are those of the part; a run then waits for threads that the system
                             does not run */
    struct umbra_wait_options wait; /* of members for the next run, and where `inside` is NULL */
    const struct umbra_wait_options *inside; /* of all at barriers and for the end of a run */
    size_t stack_bytes;     /* of the threads that the team starts; 0: the system's default */
    umbra_team_hook *begin; /* if not NULL, each of these threads calls it when it is bound, before
                             umbra_team_create returns, several at a time: names, priorities */
    umbra_team_hook *end;   /* likewise, after its last run, before umbra_team_destroy returns */
    umbra_team_idle *idle;  /* if not NULL, all threads of the team call it while they wait: for a
                               run, at a barrier, for the end of a run; members also before
                               umbra_team_create returns */
    uint64_t idle_ns;       /* how long a call of it takes, about; a wait is as old when it calls it
                               first. 0: UMBRA_SPIN_NS */
    void *hook_arg;         /* of these functions */
    struct umbra_topology *topology; /* must outlive the team; NULL: look at this machine */
};

/*
 * Makes a team and starts its threads; binds the caller, which becomes its owner, to the first
 * place, unless options say otherwise. Any thread or fiber; blocks (some milliseconds where it is
 * the first of the process to look at the machine, or between two processors of a kind, which it
 * measures). Returns 0 or an error; then nothing is kept, and umbra_last_error_text() says more:
 *   -EINVAL      more than UMBRA_TEAM_MOST members, a malformed list, no such wait mode or back
 *                end, no such `bind`, a stack that the C library refuses, a variable of the
 *                environment that is none of its values
 *   -ENODEV      a cpu that the process may not use
 *   -EOPNOTSUPP  the forced wait back end cannot execute here
 *   -ENOMEM, -EAGAIN  no memory or no thread; other negative errno from binding. hwloc may end the
 *                     process where memory ends (umbra_topology_create)
 */
UM_LINKONCE int umbra_team_create(const struct umbra_team_options *options,
                                  struct umbra_team **team);

/*
 * Executes fn(member, members, arg) once for each member from 0 to members - 1, and returns when
 * all have returned; 0: all members of the team. The other members stay asleep, or poll a line that
 * is written only when a run has more members than the one before it. What the caller wrote before
 * is visible to fn; what fn wrote, afterwards to the caller. The owner, outside a run, or with
 * options.any_thread any thread; blocks the thread. Returns 0; -EPERM: not the owner; -EBUSY:
 * inside a run, or another thread runs it; -EINVAL: no function, or more members than the team has;
 * -ESRCH: in a child of fork(2).
 */
UM_LINKONCE int umbra_team_run(struct umbra_team *team, unsigned members, umbra_team_fn *fn,
                               void *arg);

#define UMBRA_TEAM_SELF (~0u) /* the number of the part that the calling thread executes */

/*
 * Waits until all parts of the run have called it as often as the caller. What each part wrote
 * before is visible to all afterwards. All parts of a run call it equally often. Only from fn and
 * what it calls, also where other teams run in between; blocks the thread. member: the number that
 * fn was given, which another thread may use for the part, or UMBRA_TEAM_SELF.
 */
UM_INLINE void umbra_team_barrier(struct umbra_team *team, unsigned member);

/* Ends the threads, gives the owner its old binding back unless the program has set another since,
 * and frees the team; NULL is allowed. The owner, outside a run; after its end, or with
 * options.any_thread, any thread; blocks. Returns 0, -EPERM or -EBUSY. */
UM_LINKONCE int umbra_team_destroy(struct umbra_team *team);

#include <umbra/team/members.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#endif
