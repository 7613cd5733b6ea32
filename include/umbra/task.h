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
 * A loop over a range, in as many parts as there are cores for:
 *
 *     static void rows(size_t begin, size_t end, void *image)
 *     {
 *         for (size_t y = begin; y < end; y++)
 *             filter(image, y);
 *     }
 *
 *     umbra_parallel_for(0, height, 0, rows, &image);
 *
 * A task lives in its forker's memory, mostly in its frame: nothing is allocated. A fork leaves the
 * task in a list of its core. Then one of three things happens to it:
 *
 *   joined before a core took it     the join runs it, as a call, in the joiner
 *   taken by a core that is idle     runs there in a fiber, the oldest task first; the join waits,
 *                                    and the joiner's core goes on with other work, tasks among it
 *   forked by a thread that is no    the fork runs it
 *   core
 *
 * A core shares its tasks with a thief when it forks and a thief has asked, and when it has nothing
 * else to do. So fibers that only compute or yield to each other, without a fork, a join or a wait,
 * keep the tasks of their core. While a task is shared other cores change its state: a program that
 * copies the memory around a task must leave the task out.
 *
 * So by default a task is a call while all cores are busy, and becomes a fiber when a core is
 * hungry. A program may want fewer: umbra_task_set_limits(), or UMBRA_TASK_LIVE in the
 * environment, make a fork run what they do not allow.
 *
 * A task may block, on an event, say, and fork and join tasks itself, to any depth. It must not
 * wait for something that its forker does only after the join has begun. It runs in the fiber that
 * joins it or in a fiber of its own: fiber-local values and umbra_self() are those of that fiber.
 *
 * Each task is joined once, before its memory is freed, by a fiber of the core that forked it, or
 * by the thread outside a runtime that forked it; any thread or fiber may join a task that was
 * started from outside (umbra_task_start). A task that is not joined stays in the list of its core
 * when its memory has gone, and the program crashes later. UMBRA_ASSERT (base/base.h) reports that,
 * unless another core has begun the task, and a second join. Tasks need not be joined in the
 * reverse order of their forks, but that is fastest. Several fibers of a core may fork and join in
 * turns. Signal handlers may do neither.
 *
 * What was written before the fork is visible to the task; what it wrote, after the join.
 */
#ifndef UMBRA_TASK_H
#define UMBRA_TASK_H

#include <umbra/base/base.h>
#include <umbra/core.h>
#include <umbra/task/protocol.h>

/* struct umbra_task, and the type of its function, umbra_task_fn, a void function of a void *, are
 * in task/protocol.h. A task needs no initial value; its fields are private. */

/*
 * Makes fn(arg) a task, which must be joined, and not forked again before. A fiber: neither
 * switches nor blocks. In a thread that is no core the call runs fn(arg).
 */
UM_ALWAYS_INLINE void umbra_task_fork(struct umbra_task *task, umbra_task_fn *fn, void *arg);

/*
 * Waits until the task has ended, until a time of umbra_now_ns() at the latest; runs it, to its
 * end, if no core has begun it. If it was started from outside, runs it only if no core has memory
 * for a fiber. A fiber (may switch), not on an alternate signal stack; or a thread that is no core
 * (blocks: spins, then sleeps). Returns 0: it has ended. With UMBRA_NEVER nothing else; with
 * another deadline it may return, with the task still to be joined:
 *   -ETIMEDOUT  the deadline passed first
 *   -ECANCELED  the calling fiber is canceled (umbra_cancel)
 *   -EPERM      on an alternate signal stack
 *   -ENOMEM     no memory for the wait
 * or an error of a thread's first wait (umbra_event_wait).
 */
UM_ALWAYS_INLINE int umbra_task_join(struct umbra_task *task, uint64_t deadline);

/* As umbra_task_join without a deadline, for callers that know the forked function and argument: the compiler may
 * inline the call of fn. Not for tasks that were started from outside. */
UM_ALWAYS_INLINE void umbra_task_join_with(struct umbra_task *task, umbra_task_fn *fn, void *arg);

/*
 * Gives the runtime a task from outside (NULL: the calling fiber's runtime): it runs in a fiber on
 * the core that is idle first, and umbra_task_join waits for it. The fiber is made by that core, or
 * is one that has just run another task: a row of starts allocates nothing, and wakes each core
 * once. While no core has memory for a fiber, the task waits until there is some, or until it is
 * joined: then it runs in its joiner, be that a thread that is no core; umbra_runtime_wait does not
 * join. Any thread or fiber, but no signal handler; never switches, and blocks no longer than for
 * the lock of a list. Returns 0; -EPERM (no runtime, or one of the parent process) or -EINVAL (no
 * function): then there is nothing to join.
 */
UM_LINKONCE int umbra_task_start(struct umbra_runtime *runtime, struct umbra_task *task,
                                 umbra_task_fn *fn, void *arg);

/* ---- limits ---- */

/*
 * Which forks leave a task for other cores; all others run it, as a call. 0, or NULL: no limit.
 * Limits hold for tasks that are forked from then on, not for those that are started from outside.
 */
struct umbra_task_limits {
    uint64_t live;  /* tasks that are left for other cores and have not ended, at most */
    uint64_t depth; /* tasks within tasks, at most: with 1, those forked by no task */
    umbra_task_choose_fn *choose; /* asked about what the others allow; fiber/task_limits.h */
    void *choose_arg;
};

/*
 * Sets limits, or with NULL removes them; a core obeys from its next fork on. Without limits a fork
 * has the instructions that it has anyway; with limits fork and join take the long way, and a fork
 * allocates memory. The environment sets them when a runtime is created:
 *
 *     UMBRA_TASK_LIVE=100 UMBRA_TASK_DEPTH=3     each as the member of that name
 *
 * Any thread or fiber, but no signal handler; never switches. Each call keeps some bytes until the
 * runtime is destroyed. Returns 0, -ENOMEM, or -EPERM in a child process.
 */
UM_LINKONCE int umbra_task_set_limits(struct umbra_runtime *runtime,
                                      const struct umbra_task_limits *limits);

/* What became of forks while there were limits. (struct umbra_task_limits of zeros has them
 * counted.) */
struct umbra_task_counts {
    uint64_t inlined; /* run by the fork: a limit, or no memory */
    uint64_t called;  /* run by the join */
    uint64_t fibers;  /* run in a fiber, by a core that was idle */
    uint64_t live;    /* that have not ended */
    uint64_t loops;   /* loops of threads that are no cores, run by the process's team */
};

/* runtime NULL: only `loops`, which no runtime has. Any thread or fiber; the numbers are of different
 * moments while cores run. */
UM_LINKONCE void umbra_task_get_counts(struct umbra_runtime *runtime,
                                       struct umbra_task_counts *counts);

/* ---- ranges ---- */

/* Processes the indices begin, begin + 1, ... end - 1. */
typedef void umbra_range_fn(size_t begin, size_t end, void *arg);

/*
 * Calls fn for all of [begin, end), in parts of at most `grain` indices, on several cores at once.
 * grain 0: parts of about a microsecond, measured while they run; but a loop that is so short that
 * other cores are of no use runs whole, by what calls with the same function and about as many
 * indices took on this core before (task/ranges.h). The range is halved only when an
 * idle core has asked for work. Returns when all parts are done. A fiber: may switch; a canceled
 * fiber waits, too.
 *
 * Any other thread: blocks; a team of the process (umbra/team.h), made when loops have taken 2 ms,
 * runs it, its caller as one member, which is not bound. The caller alone runs a loop that is
 * short, that comes while the team runs another thread's loop, or that is within a part of one, in
 * a thread that the library has started, or within a parallel region of OpenMP; all loops, where no
 * thread can be had, or where the environment has UMBRA_THREADS=0 (N: N threads; not set: one for
 * each place). fn may not leave by an exception, longjmp or pthread_exit: a part may be another
 * thread's. umbra_task_get_counts() counts what the team has run.
 */
UM_LINKONCE void umbra_parallel_for(size_t begin, size_t end, size_t grain, umbra_range_fn *fn,
                                    void *arg);

/* How a value is made from a range. */
struct umbra_reduction {
    size_t bytes;                          /* of the value; at most UMBRA_REDUCTION_BYTES */
    void (*begin)(void *value, void *arg); /* makes the value of an empty range */
    void (*range)(size_t begin, size_t end, void *value, void *arg); /* adds a range to it */
    void (*join)(void *value, const void *right, void *arg); /* adds the value of the range after
                                                                it */
};

#define UMBRA_REDUCTION_BYTES 256

/*
 * Makes the value of [begin, end) in *value. Parts are joined in their order, but the division into
 * parts differs from run to run, so `join` must be associative; it need not be commutative. Callers
 * and grain as umbra_parallel_for. Returns 0; -EINVAL: the value is too large, or a
 * function is missing, and nothing was called.
 */
UM_LINKONCE int umbra_parallel_reduce(size_t begin, size_t end, size_t grain,
                                      const struct umbra_reduction *reduction, void *arg,
                                      void *value);

#include <umbra/task/loop_team.h>
#include <umbra/task/ranges.h>
#include <umbra/task/start.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_ALWAYS_INLINE void umbra_task_join_with(struct umbra_task *task, umbra_task_fn *fn, void *arg)
{
    if (UMBRA_ASSERT && !fn)
        um_task_check_fork(task, fn);
    if (UM_LIKELY(um_tasks_pop(um_tasks_self, task))) {
        um_task_take_fn(task);
        fn(arg);
    } else {
        um_task_join_slow(task, UMBRA_NEVER);
    }
}

UM_ALWAYS_INLINE int umbra_task_join(struct umbra_task *task, uint64_t deadline)
{
    if (UM_UNLIKELY(!um_tasks_pop(um_tasks_self, task)))
        return um_task_join_slow(task, deadline);
    um_task_take_fn(task)(task->arg);
    return 0;
}

#endif
