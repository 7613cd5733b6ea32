/* SPDX-License-Identifier: BSL-1.0 */
/* What is found with UMBRA_ASSERT only, which is defined for this file. */
#define _GNU_SOURCE
#include "child.h"
#include "fibers.h"

#include <signal.h>
#include <stdatomic.h>

static struct umbra_mutex mutex = UMBRA_MUTEX_INIT;
static struct umbra_condition condition = UMBRA_CONDITION_INIT;

static void *keeps(void *arg)
{
    umbra_mutex_lock(&mutex);
    return arg;
}

static void *spawns_keeper(void *arg)
{
    struct umbra_spawn_options options = {.name = "keeper"};
    struct umbra_fiber fiber;

    umbra_spawn_with(NULL, &options, keeps, NULL, &fiber);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    return arg;
}

static int keeps_a_mutex(void)
{
    return run_cores(1, spawns_keeper, NULL);
}

Test(assert, a_fiber_that_ends_holding_a_mutex_is_reported)
{
    struct child child = in_child(keeps_a_mutex);

    cr_assert(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
    cr_assert(says(&child, "umbra: misuse: fiber \"keeper\" 0x"));
    cr_assert(says(&child, "has ended and still holds mutexes: 1\n"));
}

/* Each way to get a mutex, and to give it up. */
static void *locks_and_unlocks(void *arg)
{
    umbra_mutex_lock(&mutex);
    umbra_yield();
    umbra_mutex_unlock(&mutex);
    while (umbra_mutex_lock_deadline(&mutex, 0) != 0)
        umbra_yield();
    umbra_condition_notify(&condition, false);
    cr_expect_neq(umbra_condition_wait(&condition, &mutex, umbra_deadline(MS)), -EPERM);
    umbra_mutex_unlock(&mutex);
    return arg;
}

static void *spawns_two(void *arg)
{
    struct umbra_fiber fiber[2];

    for (int i = 0; i < 2; i++)
        umbra_spawn(locks_and_unlocks, NULL, &fiber[i]);
    for (int i = 0; i < 2; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    return arg;
}

Test(assert, a_fiber_that_has_unlocked_all_ends)
{
    cr_assert_eq(run_cores(1, spawns_two, NULL), 0);
}

static void does_nothing(void *arg)
{
    (void)arg;
}

static void *joins_twice(void *arg)
{
    struct umbra_task task;

    umbra_task_fork(&task, does_nothing, NULL);
    umbra_task_join(&task, UMBRA_NEVER);
    umbra_task_join(&task, UMBRA_NEVER);
    return arg;
}

static int joins_a_task_twice(void)
{
    return run_cores(1, joins_twice, NULL);
}

Test(assert, a_task_that_is_joined_twice_is_reported)
{
    struct child child = in_child(joins_a_task_twice);

    cr_assert(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
    cr_assert(says(&child, "umbra: misuse: task 0x"));
    cr_assert(says(&child, "has been joined, and is joined again"));
}

/* forks: how many tasks it has forked and not joined. */
static void *forgets_tasks(void *forks)
{
    struct umbra_task task[2];

    for (int i = 0; i < *(int *)forks; i++)
        umbra_task_fork(&task[i], does_nothing, NULL);
    if (*(int *)forks > 1)
        umbra_task_join(&task[0], UMBRA_NEVER); /* not the newest: both go to the old list before */
    return NULL;
}

static int forgets_the_newest_task(void)
{
    int forks = 1;

    return run_cores(1, forgets_tasks, &forks);
}

static int forgets_an_older_task(void)
{
    int forks = 2;

    return run_cores(1, forgets_tasks, &forks);
}

static atomic_int busy;

static void *keeps_a_core_busy(void *arg)
{
    atomic_store(&busy, 1);
    while (atomic_load(&busy))
        ;
    return arg;
}

/* The other core has asked for tasks when it was idle, so the task is shared; and takes none. */
static void *forgets_a_shared_task(void *arg)
{
    struct umbra_spawn_options other = on_core(1);
    int forks = 1;

    umbra_spawn_with(NULL, &other, keeps_a_core_busy, NULL, NULL);
    while (!atomic_load(&busy))
        ;
    return forgets_tasks(&forks) ? NULL : arg;
}

static int forgets_an_offered_task(void)
{
    return run_cores(2, forgets_a_shared_task, NULL);
}

Test(assert, a_fiber_that_ends_without_joining_a_shared_task_is_reported)
{
    struct child child = in_child(forgets_an_offered_task);

    cr_assert(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
    cr_assert(says(&child, "has ended and has not joined the task in its frames at 0x"));
}

Test(assert, a_fiber_that_ends_without_joining_its_task_is_reported)
{
    struct child child = in_child(forgets_the_newest_task);

    cr_assert(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
    cr_assert(says(&child, "umbra: misuse: fiber \"main\" 0x"));
    cr_assert(says(&child, "has ended and has not joined the task in its frames at 0x"));
    child = in_child(forgets_an_older_task);
    cr_assert(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
    cr_assert(says(&child, "has ended and has not joined the task in its frames at 0x"));
}

static void *joins_zeros(void *arg)
{
    struct umbra_task task = {.fn = NULL};

    umbra_task_join(&task, UMBRA_NEVER);
    return arg;
}

static int joins_a_task_of_zeros(void)
{
    return run_cores(1, joins_zeros, NULL);
}

Test(assert, a_task_that_was_never_started_and_is_joined_is_reported)
{
    struct child child = in_child(joins_a_task_of_zeros);

    cr_assert(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
    cr_assert(says(&child, "umbra: misuse: task 0x"));
    cr_assert(says(&child, "was never started, and is joined"));
}

/* Each way to join one. */
static void *joins_once(void *arg)
{
    struct umbra_task task[3];

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++)
            umbra_task_fork(&task[i], does_nothing, NULL);
        umbra_task_join(&task[0], UMBRA_NEVER);
        cr_expect_eq(umbra_task_join(&task[1], 0), 0);
        umbra_task_join_with(&task[2], does_nothing, NULL);
    }
    return arg;
}

Test(assert, a_task_may_be_forked_again_once_it_was_joined)
{
    cr_assert_eq(run_cores(1, joins_once, NULL), 0);
    joins_once(NULL);
}

/* ---- counts that only a begin makes ---- */

static void *releases_unheld(void *arg)
{
    umbra_hold(umbra_runtime_self());
    umbra_release(umbra_runtime_self());
    umbra_release(umbra_runtime_self());
    return arg;
}

static int a_release_too_many(void)
{
    return run_cores(1, releases_unheld, NULL);
}

Test(assert, a_release_without_a_hold_is_reported)
{
    struct child child = in_child(a_release_too_many);

    cr_assert(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
    cr_assert(says(&child, "umbra: misuse: runtime 0x"));
    cr_assert(says(&child, " is not held, and is released at "));
}

static int ignores(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    (void)value;
    (void)arg;
    return 0;
}

static void *closes_unopened(void *arg)
{
    struct umbra_dispatch_options options = {.fn = ignores};
    struct umbra_dispatch *dispatch;

    if (umbra_dispatch_create(NULL, &options, &dispatch) != 0 ||
        umbra_dispatch_begin(dispatch) != 0)
        return arg;
    umbra_source_open(dispatch);
    umbra_source_close(dispatch);
    umbra_source_close(dispatch);
    return arg;
}

static int a_close_too_many(void)
{
    return run_cores(1, closes_unopened, NULL);
}

Test(assert, a_close_without_a_source_is_reported)
{
    struct child child = in_child(a_close_too_many);

    cr_assert(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
    cr_assert(says(&child, "umbra: misuse: dispatcher 0x"));
    cr_assert(says(&child, " has no open source, and one is closed at "));
}

static int a_lock_too_many(void)
{
    umbra_mutex_lock(&mutex);
    umbra_mutex_lock(&mutex);
    return 0;
}

Test(assert, a_lock_by_the_holder_is_reported)
{
    struct child child = in_child(a_lock_too_many);

    cr_assert(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
    cr_assert(says(&child, "umbra: misuse: mutex 0x"));
    cr_assert(says(&child, " is locked by its holder at "));
}

/* ---- what is given twice, and functions that are none ---- */

static struct umbra_port port = UMBRA_PORT_INIT, full = UMBRA_PORT_INIT_BOUNDED(1);
static struct umbra_message message, other;
static struct umbra_task shared_task;

static void *posts_twice(void *arg)
{
    umbra_port_post(&port, &message, 0);
    umbra_port_post(&port, &message, 0);
    return arg;
}

static void *posts_twice_without_the_lock(void *arg)
{
    struct umbra_message *received;

    umbra_port_receive(&port, &received, umbra_deadline(MS)); /* it polls: posts take no lock */
    return posts_twice(arg);
}

static void *posts_to_two_ports(void *arg)
{
    umbra_port_post(&port, &message, 0);
    umbra_port_post(&full, &message, 0);
    return arg;
}

static void *waits_for_room(void *arg)
{
    umbra_port_post(&full, &message, UMBRA_NEVER);
    return arg;
}

static void *posts_what_waits_for_room(void *arg)
{
    umbra_port_post(&full, &other, 0);
    umbra_spawn(waits_for_room, NULL, NULL);
    umbra_yield();
    umbra_port_post(&port, &message, 0);
    return arg;
}

static void handles(struct umbra_message *messages, void *arg)
{
    (void)messages;
    (void)arg;
}

static void *waits_with_a_branch_of_an_arbiter(void *arg)
{
    struct umbra_branch branch = {UMBRA_RECEIVE(&port), .handler = handles};
    struct umbra_arbiter arbiter;

    if (umbra_arbiter_start(&arbiter, &branch, 1, NULL) != 0)
        return arg;
    umbra_choose(&branch, 1, 0, NULL, NULL);
    return arg;
}

static void *starts_an_arbiter_twice(void *arg)
{
    struct umbra_branch branch = {UMBRA_RECEIVE(&port), .handler = handles};
    struct umbra_arbiter arbiter;

    umbra_arbiter_start(&arbiter, &branch, 1, NULL);
    umbra_arbiter_start(&arbiter, &branch, 1, NULL);
    return arg;
}

static void *forks_twice(void *arg)
{
    umbra_task_fork(&shared_task, does_nothing, NULL);
    umbra_task_fork(&shared_task, does_nothing, NULL);
    return arg;
}

static void *starts_twice(void *arg)
{
    umbra_task_start(NULL, &shared_task, does_nothing, NULL);
    umbra_task_start(NULL, &shared_task, does_nothing, NULL);
    return arg;
}

static void *forks_no_function(void *arg)
{
    umbra_task_fork(&shared_task, NULL, NULL);
    return arg;
}

static void *joins_with_no_function(void *arg)
{
    umbra_task_fork(&shared_task, does_nothing, NULL);
    umbra_task_join_with(&shared_task, NULL, NULL);
    return arg;
}

static void *loops_without_a_function(void *arg)
{
    umbra_parallel_for(0, 2, 1, NULL, NULL);
    return arg;
}

static void *gives_a_buffer_back_twice(void *arg)
{
    struct umbra_buffers *buffers;
    void *buffer;

    if (umbra_buffers_create(umbra_runtime_self(), 64, &buffers) != 0)
        return arg;
    buffer = umbra_buffer_take(buffers);
    umbra_buffer_give(buffer);
    buffer = umbra_buffer_take(buffers);
    umbra_buffer_give(buffer);
    umbra_buffer_give(buffer);
    return arg;
}

static const struct given {
    umbra_fiber_fn *fn;
    const char *what, *how;
} givens[] = {
    {posts_twice, "message 0x", " was posted and not received, and is posted again at "},
    {posts_twice_without_the_lock, "message 0x", " was posted and not received"},
    {posts_to_two_ports, "message 0x", " was posted and not received"},
    {posts_what_waits_for_room, "message 0x", " was posted and not received"},
    {waits_with_a_branch_of_an_arbiter, "branch 0x",
     " is in use, and is given to another call at "},
    {starts_an_arbiter_twice, "branch 0x", " is in use"},
    {forks_twice, "task 0x", " was forked and not joined, and is forked again at "},
    {starts_twice, "task 0x", " was started and not joined, and is started again at "},
    {forks_no_function, "task 0x", " has no function at "},
    {joins_with_no_function, "task 0x", " has no function at "},
    {gives_a_buffer_back_twice, "buffer 0x", " is not taken, and is given back at "},
    {loops_without_a_function, "loop with argument 0x", " has no function at "},
};

static const struct given *given;

static int gives(void)
{
    return run_cores(1, given->fn, NULL);
}

Test(assert, what_is_given_twice_and_functions_that_are_none_are_reported)
{
    for (size_t i = 0; i < sizeof(givens) / sizeof(givens[0]); i++) {
        struct child child;

        given = &givens[i];
        child = in_child(gives);
        cr_expect(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT, "row %zu", i);
        cr_expect(says(&child, "umbra: misuse: "), "row %zu", i);
        cr_expect(says(&child, given->what), "row %zu", i);
        cr_expect(says(&child, given->how), "row %zu", i);
    }
}

/* All of it once more, one after the other. */
static void *gives_again(void *arg)
{
    struct umbra_branch branch = {UMBRA_RECEIVE(&port), .handler = handles, .once = true};
    struct umbra_message *received = NULL;
    struct umbra_arbiter arbiter;

    for (int i = 0; i < 3; i++) {
        cr_expect_eq(umbra_port_post(&port, &message, 0), 0);
        cr_expect_eq(umbra_port_receive(&port, &received, 0), 0);
        cr_expect_eq(umbra_port_post(&full, &message, 0), 0);
        cr_expect_eq(umbra_port_post(&full, &other, 0), -ETIMEDOUT);
        cr_expect_eq(umbra_port_receive_some(&full, 2, 0, &received), 0);
        cr_expect_eq(umbra_port_post(&port, &other, 0), 0);
        cr_expect_eq(umbra_choose(&branch, 1, 0, NULL, &received), 0);
        cr_expect_eq(umbra_choose(&branch, 1, 0, NULL, &received), -ETIMEDOUT);
        cr_expect_eq(umbra_arbiter_start(&arbiter, &branch, 1, NULL), 0);
        umbra_yield();
        cr_expect_eq(umbra_port_post(&port, &other, 0), 0);
        cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), 0);
        umbra_task_fork(&shared_task, does_nothing, NULL);
        umbra_task_join(&shared_task, UMBRA_NEVER);
        cr_expect_eq(umbra_task_start(NULL, &shared_task, does_nothing, NULL), 0);
        umbra_task_join(&shared_task, UMBRA_NEVER);
    }
    return arg;
}

Test(assert, what_is_given_again_after_its_use_is_not_reported)
{
    cr_assert_eq(run_cores(1, gives_again, NULL), 0);
}
