/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Tasks: functions that may run beside their caller, at the cost of a call if they do not.
 *
 *     struct fib {
 *         struct umbra_task task;
 *         int n;
 *         long result;
 *     };
 *
 *     static void fib(void *arg)
 *     {
 *         struct fib *self = arg;
 *         struct fib one = {.n = self->n - 1}, two = {.n = self->n - 2};
 *
 *         if (self->n < 2) {
 *             self->result = self->n;
 *             return;
 *         }
 *         umbra_task_fork(&two.task, fib, &two);
 *         fib(&one);
 *         umbra_task_join_with(&two.task, fib, &two);
 *         self->result = one.result + two.result;
 *     }
 *
 * A task lives in the memory of who forks it, in most cases its frame: nothing is allocated. A fork
 * leaves it with the core. Then one of three things happens to it:
 *
 *   joined before anybody took it    the join runs it, as a call, where it stands
 *   taken by a core that is idle     runs there in a fiber, the oldest first; the join waits, and
 *                                    the joiner's core goes on with other work, tasks among it
 *   forked by a thread that is no    the fork runs it
 *   core
 *
 * A core offers its tasks to others when it forks and somebody is hungry, and when it has nothing
 * else to do. So fibers that go on without a fork, a join or a wait, and only yield to each other,
 * keep what their core has; a copy of the memory that a task is in must leave the task out, whose
 * state changes while others run it.
 *
 * A task may block, on an event, say, and fork and join tasks itself, to any depth. What it must
 * not do is wait for something that its forker does only after the join has begun. It runs in the
 * fiber that joins it or in one of its own: fiber-local values and umbra_self() are those of the
 * fiber that it happens to run in.
 *
 * Each task is joined once (with UMBRA_ASSERT, base/base.h, a second join is reported), before its
 * memory goes, by a fiber of the core that forked it; one that
 * was started from outside (umbra_task_start) by anybody. Tasks need not be joined in the reverse
 * order of their forks, but that is fastest. Several fibers of a core may fork and join in turns.
 *
 * What was written before the fork is visible to the task; what it wrote, after the join.
 */
#ifndef UMBRA_TASK_H
#define UMBRA_TASK_H

#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/protocol/task.h>

/* The task itself, struct umbra_task, and what it runs, umbra_task_fn, a void function of a void *,
 * are in protocol/task.h. A task needs no initial value; its fields are private. */

/*
 * Makes fn(arg) a task, which must be joined. A fiber: neither switches nor blocks. A thread that is
 * no core runs it at once.
 */
UM_ALWAYS_INLINE void umbra_task_fork(struct umbra_task *task, umbra_task_fn *fn, void *arg);

/*
 * Waits until the task has ended: runs it, if nobody has begun. Anybody, but not on an alternate
 * signal stack; a fiber may switch, a thread that is no core blocks (spins, then sleeps).
 */
UM_ALWAYS_INLINE void umbra_task_join(struct umbra_task *task);

/*
 * The same until a time stamp made by umbra_deadline(ns) at the latest; but a task that no core has
 * begun is run, and that takes as long as it takes. Returns 0: it has ended; or, with the task still to
 * be joined:
 *   -ETIMEDOUT  the deadline passed first
 *   -ECANCELED  the calling fiber is canceled (umbra_cancel)
 *   -EPERM      on an alternate signal stack
 *   -ENOMEM     no memory for the wait
 * or an error of a thread's first wait (umbra_event_wait).
 */
UM_LINKONCE int umbra_task_join_deadline(struct umbra_task *task, uint64_t deadline);

/* The same as umbra_task_join, for who knows the function and the argument that were forked: the compiler may then inline
 * the call. Not for tasks that were started from outside. */
UM_ALWAYS_INLINE void umbra_task_join_with(struct umbra_task *task, umbra_task_fn *fn, void *arg);

/*
 * Gives the runtime a task from outside: it runs in a fiber on whichever core is idle first, and
 * umbra_task_join waits for it. Anybody; neither switches nor blocks. Returns 0, or an error of
 * umbra_spawn_with (-ENOMEM), and nothing is to be joined.
 */
UM_LINKONCE int umbra_task_start(struct umbra_runtime *runtime, struct umbra_task *task,
                                 umbra_task_fn *fn, void *arg);

/* ---- ranges ---- */

/* Does what is to be done for begin, begin + 1, ... end - 1. */
typedef void umbra_range_fn(size_t begin, size_t end, void *arg);

/*
 * fn for all of [begin, end), in parts of at most `grain`, which several cores work on at once; 0:
 * parts of about a microsecond, measured as it goes. The range is halved when a core is idle and
 * asks, and not otherwise. Returns when all is done. A fiber, may switch; any other thread does all
 * of it itself.
 */
UM_LINKONCE void umbra_parallel_for(size_t begin, size_t end, size_t grain, umbra_range_fn *fn,
                                    void *arg);

/* A value that is made of a range. */
struct umbra_reduction {
    size_t bytes;                          /* of the value; at most UMBRA_REDUCTION_BYTES */
    void (*begin)(void *value, void *arg); /* makes the value of an empty range */
    void (*range)(size_t begin, size_t end, void *value, void *arg); /* adds a range to it */
    void (*join)(void *value, const void *right, void *arg); /* adds that of the range after it */
};

#define UMBRA_REDUCTION_BYTES 256

/*
 * The value of [begin, end). Parts are joined in their order, but which there are differs from run to
 * run, so `join` must be associative; it need not be commutative. Otherwise as umbra_parallel_for.
 * Returns 0, or -EINVAL: too large a value, and nothing was called.
 */
UM_LINKONCE int umbra_parallel_reduce(size_t begin, size_t end, size_t grain,
                                      const struct umbra_reduction *reduction, void *arg,
                                      void *value);

#include <umbra/impl/ranges.h>
#include <umbra/impl/task.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_ALWAYS_INLINE void umbra_task_join_with(struct umbra_task *task, umbra_task_fn *fn, void *arg)
{
    if (UM_LIKELY(um_tasks_pop(um_tasks_self, task))) {
        um_task_take_fn(task);
        fn(arg);
    } else {
        um_task_join_slow(task);
    }
}

UM_ALWAYS_INLINE void umbra_task_join(struct umbra_task *task)
{
    if (UM_LIKELY(um_tasks_pop(um_tasks_self, task)))
        um_task_take_fn(task)(task->arg);
    else
        um_task_join_slow(task);
}

#endif
