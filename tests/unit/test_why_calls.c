/* SPDX-License-Identifier: BSL-1.0 */
/*
 * umbra_last_error_text() after each call that fails: the text says which of the call's reasons it
 * was, or is empty, and is never that of an earlier failure, since each row begins after one.
 */
#define _GNU_SOURCE
#include "child.h"
#include "fibers.h"

#include <umbra/io.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* A call, what it returns, and a part of its text; "": the text is empty. */
struct row {
    const char *name;
    int (*call)(void);
    int error;
    const char *words;
};

/* Leaves the text of another failure. */
static void fail_otherwise(void)
{
    struct umbra_channel channel;

    umbra_channel_init(&channel, 0, 4, UMBRA_CHANNEL_MANY);
}

static bool row_holds(const struct row *row)
{
    int error;
    const char *text;

    fail_otherwise();
    error = row->call();
    text = umbra_last_error_text();
    if (error == row->error && (*row->words ? strstr(text, row->words) != NULL : *text == 0))
        return true;
    fprintf(stderr, "%s: %d, \"%s\"\n", row->name, error, text);
    return false;
}

static int wrong_rows(const struct row *row, size_t count)
{
    int wrong = 0;

    for (size_t i = 0; i < count; i++)
        wrong += !row_holds(&row[i]);
    return wrong;
}

#define WRONG(rows) wrong_rows(rows, sizeof(rows) / sizeof((rows)[0]))

/* ---- what the rows use ---- */

static struct umbra_topology *topology, *live;
static struct umbra_runtime *runtime; /* of one core */
static const struct umbra_fiber no_fiber;
static struct umbra_fiber own, far, ended, waiting, joined;
static struct umbra_event never = UMBRA_EVENT_INIT, over = UMBRA_EVENT_INIT;
static struct umbra_mutex mutex = UMBRA_MUTEX_INIT, taken = UMBRA_MUTEX_INIT;
static struct umbra_dispatch *dispatch;
static struct umbra_shadow shadow;
static struct umbra_team *team;
static struct umbra_nodes *nodes;
static struct umbra_affinity *affinity;
static struct umbra_task task;

static void *nothing(void *arg)
{
    return arg;
}

static void does_nothing(void *arg)
{
    (void)arg;
}

static void is_no_part(unsigned member, unsigned members, void *arg)
{
    (void)member, (void)members, (void)arg;
}

static void *waits(void *event)
{
    umbra_event_wait(event, UMBRA_NEVER);
    return NULL;
}

static int in_another_thread(void *(*fn)(void *))
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, fn, NULL), 0);
    return pthread_join(thread, NULL);
}

/* ---- in a thread ---- */

static int spawn_outside(void)
{
    return umbra_spawn(nothing, NULL, NULL);
}

static int spawn_nowhere(void)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = 9};

    return umbra_spawn_with(runtime, &there, nothing, NULL, NULL);
}

static int start_nothing(void)
{
    return umbra_task_start(runtime, &task, NULL, NULL);
}

static int join_none(void)
{
    return umbra_join(no_fiber, UMBRA_NEVER, NULL);
}

static int detach_none(void)
{
    return umbra_detach(no_fiber);
}

static int cancel_none(void)
{
    return umbra_cancel(no_fiber);
}

static int continue_none(void)
{
    return umbra_continue(no_fiber);
}

static int info_of_none(void)
{
    return umbra_fiber_info(no_fiber, NULL);
}

static int transfer_outside(void)
{
    return umbra_transfer(no_fiber);
}

static int set_outside(void)
{
    return umbra_local_set(0, NULL);
}

static int info_of_no_runtime(void)
{
    struct umbra_core_info info;

    return umbra_core_info(NULL, 0, &info);
}

static int info_of_no_core(void)
{
    struct umbra_core_info info;

    return umbra_core_info(runtime, 9, &info);
}

static int join_deadlocked(void)
{
    struct umbra_fiber fiber;
    int error = umbra_spawn_with(runtime, NULL, waits, &never, &fiber);

    fail_otherwise();
    return error == 0 ? umbra_join(fiber, UMBRA_NEVER, NULL) : error;
}

static int wait_deadlocked(void)
{
    return umbra_runtime_wait(runtime);
}

static int unlock_free(void)
{
    return umbra_mutex_unlock(&mutex);
}

static int unlock_anothers(void)
{
    return umbra_mutex_unlock(&taken);
}

static int wait_without(void)
{
    struct umbra_condition condition = UMBRA_CONDITION_INIT;

    return umbra_condition_wait(&condition, &mutex, UMBRA_NEVER);
}

static int wait_with_anothers(void)
{
    struct umbra_condition condition = UMBRA_CONDITION_INIT;

    return umbra_condition_wait(&condition, &taken, UMBRA_NEVER);
}

static int lock_again(void)
{
    int error;

    umbra_mutex_lock(&mutex);
    error = umbra_mutex_lock_deadline(&mutex, UMBRA_NEVER);
    umbra_mutex_unlock(&mutex);
    return error;
}

static int end_no_read(void)
{
    struct umbra_rwlock lock = UMBRA_RWLOCK_INIT;

    return umbra_rwlock_unlock(&lock);
}

static int count_below_zero(void)
{
    struct umbra_latch latch = UMBRA_LATCH_INIT(0);

    return umbra_latch_count_down(&latch);
}

static int add_to_open(void)
{
    struct umbra_latch latch = UMBRA_LATCH_INIT(0);

    return umbra_latch_add(&latch, 1);
}

static int add_too_much(void)
{
    struct umbra_latch latch = UMBRA_LATCH_INIT(1);

    return umbra_latch_add(&latch, UINT64_MAX);
}

static int meet_none(void)
{
    struct umbra_barrier barrier = UMBRA_BARRIER_INIT(0);

    return umbra_barrier_wait(&barrier, UMBRA_NEVER);
}

static int receive_none(void)
{
    struct umbra_port port = UMBRA_PORT_INIT;
    struct umbra_message *message;

    return umbra_port_receive_some(&port, 0, UMBRA_NEVER, &message);
}

static int block_on_nothing(void)
{
    return umbra_blocking(NULL, NULL);
}

static int read_no_file(void)
{
    size_t got;
    char byte;

    return umbra_io_read(-1, &byte, 1, UMBRA_IO_HERE, UMBRA_NEVER, &got);
}

/* More memory than there is is an error then, as everywhere, and not the program's end. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static int make_huge_channel(void)
{
    struct umbra_channel channel;

    return umbra_channel_init(&channel, 4, SIZE_MAX / 16, UMBRA_CHANNEL_MANY);
}

static int make_huge_memory(void)
{
    struct umbra_memory memory;

    return umbra_memory_create(NULL, SIZE_MAX / 4, &memory);
}

static int make_buffers_outside(void)
{
    struct umbra_buffers *buffers;

    return umbra_buffers_create(NULL, 64, &buffers);
}

static int make_buffers_of_nothing(void)
{
    struct umbra_buffers *buffers;

    return umbra_buffers_create(runtime, 0, &buffers);
}

static int make_huge_buffers(void)
{
    struct umbra_buffers *buffers;

    return umbra_buffers_create(runtime, SIZE_MAX, &buffers);
}

static int make_nodes_outside(void)
{
    struct umbra_nodes *made;

    return umbra_nodes_create(NULL, &made);
}

static int meet_outside(void)
{
    return umbra_nodes_wait(nodes);
}

static int loop_on_no_node(void)
{
    return umbra_nodes_loop(nodes, 99, 0, 1, 1);
}

static int prefetch_too_little(void)
{
    struct umbra_prefetch_options options = {.window = 1};
    struct umbra_prefetch prefetch;

    return umbra_prefetch_init(&prefetch, &options);
}

static int unbind_it(void)
{
    return umbra_topology_unbind(live, affinity);
}

static int unbind_described(void)
{
    return umbra_topology_unbind(topology, affinity);
}

static int wrong_elsewhere;

static void *unbinds(void *arg)
{
    static const struct row row = {"topology_unbind, another's", unbind_it, -EPERM,
                                   "another thread"};

    wrong_elsewhere = wrong_rows(&row, 1);
    return arg;
}

static const struct row in_a_thread[] = {
    {"spawn", spawn_outside, -EPERM, "no fiber"},
    {"spawn_with, no core", spawn_nowhere, -EINVAL, "core = 9"},
    {"task_start, no function", start_nothing, -EINVAL, "no function"},
    {"join, no fiber", join_none, -ESRCH, "handle is of no fiber"},
    {"detach, no fiber", detach_none, -ESRCH, "handle is of no fiber"},
    {"cancel", cancel_none, -ESRCH, "ended"},
    {"continue", continue_none, -ESRCH, "ended"},
    {"fiber_info", info_of_none, -ESRCH, "ended"},
    {"transfer, outside", transfer_outside, -EPERM, "no fiber"},
    {"local_set, outside", set_outside, -EPERM, "no fiber"},
    {"core_info, no runtime", info_of_no_runtime, -EINVAL, "no runtime"},
    {"core_info, no core", info_of_no_core, -EINVAL, "core = 9: the runtime has 1"},
    {"join, deadlock", join_deadlocked, -EDEADLK, "deadlock"},
    {"runtime_wait, deadlock", wait_deadlocked, -EDEADLK, "deadlock"},
    {"mutex_unlock, free", unlock_free, -EPERM, "not locked"},
    {"mutex_unlock, another's", unlock_anothers, -EPERM, "another caller"},
    {"condition_wait, free", wait_without, -EPERM, "not locked"},
    {"condition_wait, another's", wait_with_anothers, -EPERM, "another caller"},
    {"mutex_lock_deadline, own", lock_again, -EDEADLK, "the caller holds"},
    {"rwlock_unlock", end_no_read, -EPERM, "free"},
    {"latch_count_down", count_below_zero, -EINVAL, "open"},
    {"latch_add, open", add_to_open, -EINVAL, "open"},
    {"latch_add, too much", add_too_much, -EOVERFLOW, "2^64"},
    {"barrier_wait", meet_none, -EINVAL, "0 parties"},
    {"port_receive_some", receive_none, -EINVAL, "most = 0"},
    {"blocking, no function", block_on_nothing, -EINVAL, "no function"},
    {"io_read", read_no_file, -EBADF, ""},
    {"channel_init, no memory", make_huge_channel, -ENOMEM, ""},
    {"memory_create, no memory", make_huge_memory, -ENOMEM, ""},
    {"buffers_create, outside", make_buffers_outside, -EPERM, "no fiber"},
    {"buffers_create, no bytes", make_buffers_of_nothing, -EINVAL, "bytes = 0"},
    {"buffers_create, no memory", make_huge_buffers, -ENOMEM, ""},
    {"nodes_create, outside", make_nodes_outside, -EPERM, "no fiber"},
    {"nodes_wait, outside", meet_outside, -EPERM, "no fiber"},
    {"nodes_loop", loop_on_no_node, -EINVAL, "node = 99"},
    {"prefetch_init", prefetch_too_little, -EINVAL, "window = 1,"},
    {"topology_unbind", unbind_described, -EINVAL, "described"},
};

static void *takes_for_good(void *arg)
{
    umbra_mutex_lock(&taken);
    return arg;
}

static void setup(void)
{
    struct umbra_topology_options described = {.synthetic = "core:2 pu:2"};
    struct umbra_options one = {.cores = 1, .quiet = true};

    cr_assert_eq(umbra_topology_create(&described, &topology), 0);
    cr_assert_eq(umbra_runtime_create(&one, &runtime), 0);
}

static void teardown(void)
{
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
    umbra_topology_destroy(topology);
}

Test(why_calls, of_a_thread_tell_their_reasons_apart, .init = setup, .fini = teardown)
{
    cr_assert_eq(umbra_nodes_create(runtime, &nodes), 0);
    cr_assert_eq(umbra_topology_create(NULL, &live), 0);
    cr_assert_eq(umbra_topology_bind(live, umbra_topology_info(live)->cpu[0].cpu, &affinity), 0);
    cr_assert_eq(in_another_thread(takes_for_good), 0);
    cr_expect_eq(WRONG(in_a_thread), 0);
    cr_assert_eq(in_another_thread(unbinds), 0);
    cr_expect_eq(wrong_elsewhere, 0);
    cr_expect_eq(umbra_topology_unbind(live, affinity), 0);
    umbra_topology_destroy(live);
    umbra_nodes_destroy(nodes);
}

/* ---- shadows and teams ---- */

static int fork_nothing(void)
{
    return shadow_fork(&shadow, NULL, NULL);
}

static int fork_twice(void)
{
    int error = shadow_fork(&shadow, does_nothing, NULL);

    error = error == 0 ? shadow_fork(&shadow, does_nothing, NULL) : 0;
    shadow_join(&shadow);
    return error;
}

static int fork_it(void)
{
    return shadow_fork(&shadow, does_nothing, NULL);
}

static int join_nothing(void)
{
    return shadow_join(&shadow);
}

static int destroy_shadow(void)
{
    return shadow_destroy(&shadow);
}

static int run_nothing(void)
{
    return umbra_team_run(team, 0, NULL, NULL);
}

static int run_team(void)
{
    return umbra_team_run(team, 0, is_no_part, NULL);
}

static int destroy_team(void)
{
    return umbra_team_destroy(team);
}

static const struct row of_the_owner[] = {
    {"shadow_fork, no function", fork_nothing, -EINVAL, "no function"},
    {"shadow_fork, twice", fork_twice, -EBUSY, "last fork"},
    {"shadow_join", join_nothing, -EINVAL, "nothing was forked"},
    {"team_run, no function", run_nothing, -EINVAL, "no function"},
};

static const struct row of_another[] = {
    {"shadow_fork, another's", fork_it, -EPERM, "another thread owns"},
    {"shadow_join, another's", join_nothing, -EPERM, "another thread owns"},
    {"shadow_destroy, another's", destroy_shadow, -EPERM, "another thread owns"},
    {"team_run, another's", run_team, -EPERM, "does not own"},
    {"team_destroy, another's", destroy_team, -EPERM, "does not own"},
};

static const struct row inside_a_run[] = {
    {"team_run, inside", run_team, -EBUSY, "inside a run"},
    {"team_destroy, inside", destroy_team, -EBUSY, "inside a run"},
};

static const struct row beside_a_run[] = {
    {"team_run, beside a run", run_team, -EBUSY, "another thread runs"},
    {"team_destroy, beside a run", destroy_team, -EBUSY, "another thread runs"},
};

static const struct row of_a_destroyed_shadow[] = {
    {"shadow_fork, destroyed", fork_it, -ESRCH, "destroyed"},
    {"shadow_join, destroyed", join_nothing, -ESRCH, "destroyed"},
    {"shadow_destroy, destroyed", destroy_shadow, -ESRCH, "destroyed"},
};

static void *is_no_owner(void *arg)
{
    wrong_elsewhere = WRONG(of_another);
    return arg;
}

static void runs_again(unsigned member, unsigned members, void *arg)
{
    (void)members, (void)arg;
    if (member == 0)
        wrong_elsewhere = WRONG(inside_a_run);
}

static void *runs_beside(void *arg)
{
    wrong_elsewhere += WRONG(beside_a_run);
    return arg;
}

static void sends_another(unsigned member, unsigned members, void *arg)
{
    (void)members, (void)arg;
    if (member == 0 && in_another_thread(runs_beside) != 0)
        wrong_elsewhere++;
}

Test(why_calls, of_a_team_for_any_thread_tell_their_reasons, .init = setup, .fini = teardown)
{
    struct umbra_team_options any = {.topology = topology, .members = 2, .any_thread = true};

    cr_assert_eq(umbra_team_create(&any, &team), 0);
    wrong_elsewhere = 0;
    cr_assert_eq(umbra_team_run(team, 0, sends_another, NULL), 0);
    cr_expect_eq(wrong_elsewhere, 0);
    cr_assert_eq(umbra_team_destroy(team), 0);
}

Test(why_calls, of_shadows_and_teams_tell_their_reasons_apart, .init = setup, .fini = teardown)
{
    struct umbra_shadow_options at = {.topology = topology, .place_owner = true};
    struct umbra_team_options two = {.topology = topology, .members = 2};

    cr_assert_eq(shadow_create(&shadow, &at), 0);
    cr_assert_eq(umbra_team_create(&two, &team), 0);
    cr_expect_eq(WRONG(of_the_owner), 0);
    cr_assert_eq(in_another_thread(is_no_owner), 0);
    cr_expect_eq(wrong_elsewhere, 0);
    cr_assert_eq(umbra_team_run(team, 0, runs_again, NULL), 0);
    cr_expect_eq(wrong_elsewhere, 0);
    cr_assert_eq(umbra_team_destroy(team), 0);
    cr_assert_eq(shadow_destroy(&shadow), 0);
    cr_expect_eq(WRONG(of_a_destroyed_shadow), 0);
}

/* ---- in a fiber ---- */

static int join_itself(void)
{
    return umbra_join(own, UMBRA_NEVER, NULL);
}

static int join_ended(void)
{
    return umbra_join(ended, UMBRA_NEVER, NULL);
}

static int join_detached(void)
{
    return umbra_join(waiting, UMBRA_NEVER, NULL);
}

static int detach_detached(void)
{
    return umbra_detach(waiting);
}

static int join_joined(void)
{
    return umbra_join(joined, UMBRA_NEVER, NULL);
}

static void handles_nothing(struct umbra_message *messages, void *arg)
{
    (void)messages, (void)arg;
}

static int join_arbiter_twice(void)
{
    struct umbra_port port = UMBRA_PORT_INIT;
    struct umbra_branch branch = {UMBRA_RECEIVE(&port), .handler = handles_nothing};
    struct umbra_arbiter arbiter;
    int error = umbra_arbiter_start(&arbiter, &branch, 1, NULL);

    if (error != 0)
        return error;
    umbra_arbiter_cancel(&arbiter);
    error = umbra_arbiter_join(&arbiter, UMBRA_NEVER);
    fail_otherwise();
    return error == -ECANCELED ? umbra_arbiter_join(&arbiter, UMBRA_NEVER) : error;
}

static int transfer_to_itself(void)
{
    return umbra_transfer(own);
}

static int transfer_to_ended(void)
{
    return umbra_transfer(ended);
}

static int transfer_to_blocked(void)
{
    return umbra_transfer(waiting);
}

static int transfer_away(void)
{
    return umbra_transfer(far);
}

static int transfer_to_unplaced(void)
{
    struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};
    struct umbra_fiber fiber;
    int error;

    do { /* another core may have taken it, and even ended it, before the transfer */
        error = umbra_spawn_with(NULL, &anywhere, nothing, NULL, &fiber);
        if (error != 0)
            return error;
        error = umbra_transfer(fiber);
        umbra_detach(fiber);
    } while (!strstr(umbra_last_error_text(), "no core yet"));
    return error;
}

static int set_no_key(void)
{
    return umbra_local_set(UMBRA_LOCAL_KEYS, NULL);
}

static const struct row in_a_fiber[] = {
    {"join, itself", join_itself, -EDEADLK, "the caller"},
    {"join, ended", join_ended, -ESRCH, "joined before"},
    {"join, detached", join_detached, -EINVAL, "detached"},
    {"detach, detached", detach_detached, -EINVAL, "detached"},
    {"join, joined", join_joined, -EINVAL, "another caller"},
    {"arbiter_join, twice", join_arbiter_twice, -ESRCH, "joined before"},
    {"transfer, itself", transfer_to_itself, -EINVAL, "the caller"},
    {"transfer, ended", transfer_to_ended, -ESRCH, "ended"},
    {"transfer, blocked", transfer_to_blocked, -EBUSY, "blocked"},
    {"transfer, away", transfer_away, -EXDEV, "another core"},
    {"transfer, unplaced", transfer_to_unplaced, -EXDEV, "no core yet"},
    {"local_set, no key", set_no_key, -EINVAL, "key = "},
    {"blocking, no function", block_on_nothing, -EINVAL, "no function"},
    {"io_read", read_no_file, -EBADF, ""},
};

static void *joins(void *arg)
{
    umbra_join(joined, UMBRA_NEVER, NULL);
    return arg;
}

static void *fails_in_all_ways(void *wrong)
{
    *(int *)wrong = WRONG(in_a_fiber);
    return NULL;
}

static void *prepares(void *wrong)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_fiber joiner;

    umbra_spawn_with(NULL, &there, waits, &over, &far);
    umbra_spawn(nothing, NULL, &ended);
    umbra_join(ended, UMBRA_NEVER, NULL);
    umbra_spawn(waits, &over, &waiting);
    umbra_detach(waiting);
    umbra_spawn(waits, &over, &joined);
    umbra_spawn(joins, NULL, &joiner);
    while (umbra_fiber_info(joiner, NULL) != UMBRA_FIBER_BLOCKED ||
           umbra_fiber_info(far, NULL) != UMBRA_FIBER_BLOCKED)
        umbra_yield();
    umbra_spawn(fails_in_all_ways, wrong, &own);
    umbra_join(own, UMBRA_NEVER, NULL);
    for (int i = 0; i < 3; i++)
        umbra_event_signal(&over);
    umbra_join(joiner, UMBRA_NEVER, NULL);
    umbra_join(far, UMBRA_NEVER, NULL);
    return NULL;
}

Test(why_calls, of_a_fiber_tell_their_reasons_apart)
{
    int wrong = -1;

    cr_assert_eq(run_cores(2, prepares, &wrong), 0);
    cr_expect_eq(wrong, 0);
}

/* ---- on an alternate signal stack ---- */

static int sleep_there(void)
{
    return umbra_sleep_ns(1);
}

static int wait_there(void)
{
    return umbra_event_wait(&never, UMBRA_NEVER);
}

static int wait_for_any_there(void)
{
    struct umbra_event *const events[] = {&never};

    return umbra_event_wait_any(events, 1, UMBRA_NEVER, NULL);
}

static int join_there(void)
{
    return umbra_join(waiting, UMBRA_NEVER, NULL);
}

static int transfer_there(void)
{
    return umbra_transfer(waiting);
}

static int block_there(void)
{
    return umbra_blocking(does_nothing, NULL);
}

static int join_task_there(void)
{
    return umbra_task_join(&task, umbra_deadline(SECOND));
}

static int lock_there(void)
{
    return umbra_mutex_lock_deadline(&taken, umbra_deadline(SECOND));
}

static int receive_there(void)
{
    struct umbra_port port = UMBRA_PORT_INIT;
    struct umbra_message *message;

    return umbra_port_receive(&port, &message, umbra_deadline(SECOND));
}

static int meet_there(void)
{
    struct umbra_barrier barrier = UMBRA_BARRIER_INIT(2);

    return umbra_barrier_wait(&barrier, umbra_deadline(SECOND));
}

static const struct row off_the_stack[] = {
    {"sleep_ns", sleep_there, -EPERM, "signal stack"},
    {"event_wait", wait_there, -EPERM, "signal stack"},
    {"event_wait_any", wait_for_any_there, -EPERM, "signal stack"},
    {"join", join_there, -EPERM, "signal stack"},
    {"transfer", transfer_there, -EPERM, "signal stack"},
    {"blocking", block_there, -EPERM, "signal stack"},
    {"io_read", read_no_file, -EPERM, "signal stack"},
    {"task_join", join_task_there, -EPERM, "signal stack"},
    {"mutex_lock_deadline", lock_there, -EPERM, "signal stack"},
    {"port_receive", receive_there, -EPERM, "signal stack"},
    {"barrier_wait", meet_there, -EPERM, "signal stack"},
};

static void on_signal(int number)
{
    (void)number;
    wrong_elsewhere = WRONG(off_the_stack);
}

static void waits_as_task(void *event)
{
    umbra_event_wait(event, UMBRA_NEVER);
}

static void *raises(void *arg)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536}, before;
    struct umbra_fiber locker;

    umbra_spawn(takes_for_good, NULL, &locker);
    umbra_join(locker, UMBRA_NEVER, NULL);
    umbra_spawn(waits, &over, &waiting);
    umbra_task_start(NULL, &task, waits_as_task, &over);
    umbra_yield();
    sigaltstack(&stack, &before);
    sigaction(SIGUSR1, &action, NULL);
    pthread_kill(pthread_self(), SIGUSR1);
    sigaltstack(&before, NULL);
    free(stack.ss_sp);
    umbra_event_signal(&over);
    umbra_event_signal(&over);
    umbra_join(waiting, UMBRA_NEVER, NULL);
    umbra_task_join(&task, UMBRA_NEVER);
    return arg;
}

Test(why_calls, on_a_signal_stack_say_so)
{
    wrong_elsewhere = -1;
    cr_assert_eq(run_cores(1, raises, NULL), 0);
    cr_expect_eq(wrong_elsewhere, 0);
}

/* ---- dispatchers ---- */

static int begin_step(void)
{
    return umbra_dispatch_begin(dispatch);
}

static int end_step(void)
{
    return umbra_dispatch_end(dispatch, UMBRA_NEVER);
}

static int no_steps(void)
{
    return umbra_dispatch_steps(dispatch, NULL, NULL);
}

static int put_nothing(void)
{
    return umbra_dispatch_put(dispatch, NULL, UMBRA_ANY_NODE);
}

static int destroy_dispatch(void)
{
    return umbra_dispatch_destroy(dispatch);
}

static int fails_for(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)value, (void)arg;
    fail_otherwise();
    if (umbra_worker_put(worker, NULL, UMBRA_ANY_WORKER) != -EINVAL ||
        !strstr(umbra_last_error_text(), "no pointer"))
        return -ERANGE;
    if (umbra_worker_range(worker, 0, 1, 1, 99) != -EINVAL ||
        !strstr(umbra_last_error_text(), "near = 99"))
        return -ERANGE;
    return -ENOTTY;
}

static int make_dispatch_outside(void)
{
    struct umbra_dispatch_options options = {.fn = fails_for};

    return umbra_dispatch_create(NULL, &options, &dispatch);
}

static const struct row without_a_step[] = {
    {"dispatch_create, outside", make_dispatch_outside, -EPERM, "no fiber"},
    {"dispatch_end, no step", end_step, -EINVAL, "no step"},
    {"dispatch_steps, no function", no_steps, -EINVAL, "no function"},
};

static const struct row in_a_step[] = {
    {"dispatch_begin", begin_step, -EBUSY, "a step"},
    {"dispatch_destroy", destroy_dispatch, -EBUSY, "a step"},
    {"dispatch_put", put_nothing, -EINVAL, "no pointer"},
    {"dispatch_end, failed", end_step, -ENOTTY, ""},
};

Test(why_calls, of_dispatchers_tell_their_reasons_apart, .init = setup, .fini = teardown)
{
    struct umbra_dispatch_options options = {.fn = fails_for};

    cr_assert_eq(umbra_dispatch_create(runtime, &options, &dispatch), 0);
    cr_expect_eq(WRONG(without_a_step), 0);
    cr_assert_eq(umbra_dispatch_begin(dispatch), 0);
    cr_assert_eq(umbra_dispatch_put(dispatch, dispatch, UMBRA_ANY_NODE), 0);
    cr_expect_eq(WRONG(in_a_step), 0);
    cr_assert_eq(umbra_dispatch_destroy(dispatch), 0);
}

/* ---- in a child process ---- */

static int spawn_there(void)
{
    return umbra_spawn_with(runtime, NULL, nothing, NULL, NULL);
}

static int join_parents(void)
{
    return umbra_join(waiting, UMBRA_NEVER, NULL);
}

static int cancel_parents(void)
{
    return umbra_cancel(waiting);
}

static int limit_parents(void)
{
    return umbra_task_set_limits(runtime, NULL);
}

static int wait_for_parents(void)
{
    return umbra_runtime_wait(runtime);
}

static int destroy_parents(void)
{
    return umbra_runtime_destroy(runtime);
}

static const struct row in_the_child[] = {
    {"spawn_with, forked", spawn_there, -EPERM, "forked"},
    {"join, forked", join_parents, -EPERM, "parent process"},
    {"detach, forked", detach_detached, -EPERM, "parent process"},
    {"cancel, forked", cancel_parents, -EPERM, "parent process"},
    {"task_set_limits, forked", limit_parents, -EPERM, "parent process"},
    {"runtime_wait, forked", wait_for_parents, -EPERM, "parent process"},
    {"runtime_destroy, forked", destroy_parents, -EPERM, "forked"},
    {"team_run, forked", run_team, -ESRCH, "parent process"},
    {"shadow_fork, forked", fork_it, -ESRCH, "parent process"},
};

static int wrong_in_the_child(void)
{
    return WRONG(in_the_child);
}

Test(why_calls, on_what_is_the_parent_processs_say_so, .init = setup, .fini = teardown)
{
    struct umbra_shadow_options at = {.topology = topology, .place_owner = true};
    struct umbra_team_options two = {.topology = topology, .members = 2};
    struct child child;

    cr_assert_eq(shadow_create(&shadow, &at), 0);
    cr_assert_eq(umbra_team_create(&two, &team), 0);
    cr_assert_eq(umbra_spawn_with(runtime, NULL, waits, &over, &waiting), 0);
    child = in_child(wrong_in_the_child);
    cr_expect_eq(child.status, 0, "%s", child.said);
    umbra_event_signal(&over);
    cr_expect_eq(umbra_join(waiting, UMBRA_NEVER, NULL), 0);
    cr_assert_eq(umbra_team_destroy(team), 0);
    cr_assert_eq(shadow_destroy(&shadow), 0);
}

/* ---- a first wait ---- */

static const struct row first_waits[] = {
    {"event_wait", wait_there, -EINVAL, "UMBRA_WAIT=nonsense"},
    {"event_wait, again", wait_there, -EINVAL, "UMBRA_WAIT=nonsense"},
    {"sleep_ns", sleep_there, -EINVAL, "UMBRA_WAIT=nonsense"},
};

static void *waits_first(void *arg)
{
    wrong_elsewhere = WRONG(first_waits);
    return arg;
}

Test(why_calls, name_a_wrong_way_to_wait_in_each_thread)
{
    setenv("UMBRA_WAIT", "nonsense", 1);
    cr_expect_eq(WRONG(first_waits), 0);
    cr_assert_eq(in_another_thread(waits_first), 0);
    cr_expect_eq(wrong_elsewhere, 0);
}
