/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a thread leaves behind when it ends. Each row: one thread acts and ends, and another one, which
 * the C library gives the same thread control block, acts after it: it is not the one that ended.
 */
#define _GNU_SOURCE
#include "child.h"
#include "fibers.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define CHILDREN 300 /* beside each kind of owner */

static struct umbra_topology *topology;
static struct umbra_shadow shadow;
static struct umbra_team *team;
static struct umbra_mutex mutex = UMBRA_MUTEX_INIT;
static struct umbra_rwlock lock = UMBRA_RWLOCK_INIT;
static struct umbra_condition condition = UMBRA_CONDITION_INIT;
static struct umbra_event event = UMBRA_EVENT_INIT;
static struct umbra_port port;
static struct umbra_message messages[2];
static struct umbra_runtime *runtime;
static struct umbra_fiber waits;
static _Atomic int calls;

/* ---- one thread after another, in the same place ---- */

struct visit {
    int (*act)(void);
    int result;
    uintptr_t block;
};

static void *visits(void *arg)
{
    struct visit *visit = arg;

    visit->block = um_arch_thread_id();
    visit->result = visit->act();
    return NULL;
}

/* What act() returns in a thread of its own, which ends. */
static struct visit in_thread(int (*act)(void))
{
    struct visit visit = {.act = act};
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, visits, &visit), 0);
    pthread_join(thread, NULL);
    return visit;
}

/* A thread leaves something; returns what the next one gets. */
static int next_gets(int (*leave)(void), int (*act)(void))
{
    struct visit first = in_thread(leave), second = in_thread(act);

    cr_assert_eq(first.result, 0);
    if (first.block != second.block)
        cr_skip_test("the C library gives no thread the place of the one before");
    return second.result;
}

/* ---- what they do ---- */

static void count(void *arg)
{
    (void)arg;
    calls++;
}

static void count_part(unsigned member, unsigned members, void *arg)
{
    (void)member;
    (void)members;
    count(arg);
}

static int make_shadow(void)
{
    struct umbra_shadow_options options = {.topology = topology, .place_owner = true};

    return shadow_create(&shadow, &options);
}

static int make_and_fork(void)
{
    int error = make_shadow();

    return error ? error : shadow_fork(&shadow, count, NULL);
}

static int fork_it(void)
{
    return shadow_fork(&shadow, count, NULL);
}

static int join_it(void)
{
    return shadow_join(&shadow);
}

static int look_at_it(void)
{
    return umbra_shadow_join_deadline(&shadow, 0);
}

static int make_team(void)
{
    struct umbra_team_options options = {.topology = topology, .members = 2};

    return umbra_team_create(&options, &team);
}

static int run_team(void)
{
    return umbra_team_run(team, 0, count_part, NULL);
}

static int lock_mutex(void)
{
    return umbra_mutex_lock_deadline(&mutex, UMBRA_NEVER);
}

static int try_mutex(void)
{
    return umbra_mutex_lock_deadline(&mutex, 0);
}

static int await_mutex(void)
{
    return umbra_mutex_lock_deadline(&mutex, umbra_deadline(10 * MS));
}

static int unlock_mutex(void)
{
    return umbra_mutex_unlock(&mutex);
}

static int wait_for_condition(void)
{
    return umbra_condition_wait(&condition, &mutex, umbra_deadline(10 * MS));
}

static int write_lock(void)
{
    return umbra_rwlock_write_deadline(&lock, UMBRA_NEVER);
}

static int read_lock(void)
{
    return umbra_rwlock_read_deadline(&lock, umbra_deadline(10 * MS));
}

static int wait_in_vain(void)
{
    return umbra_event_wait(&event, umbra_deadline(MS)) == -ETIMEDOUT ? 0 : -EINVAL;
}

static int wait_for_signal(void)
{
    umbra_event_signal(&event);
    return umbra_event_wait(&event, umbra_deadline(10 * SECOND));
}

static int post_one(void)
{
    return umbra_port_post(&port, &messages[0], 0);
}

static int post_and_receive(void)
{
    struct umbra_message *first, *second;
    int error = umbra_port_post(&port, &messages[1], 0);

    if (error == 0)
        error = umbra_port_receive(&port, &first, umbra_deadline(10 * SECOND));
    if (error == 0)
        error = umbra_port_receive(&port, &second, umbra_deadline(10 * SECOND));
    return error == 0 && (first != &messages[0] || second != &messages[1]) ? -EINVAL : error;
}

static void *wait_for_event(void *arg)
{
    (void)arg;
    umbra_event_wait(&event, UMBRA_NEVER);
    return NULL;
}

/* Ends as the creator, which would signal the event. */
static int make_runtime(void)
{
    struct umbra_options options = {.cores = 1, .oversubscribe = true, .quiet = true};
    int error = umbra_runtime_create(&options, &runtime);

    return error ? error : umbra_spawn_with(runtime, NULL, wait_for_event, NULL, &waits);
}

static int join_fiber(void)
{
    return umbra_join(waits, umbra_deadline(300 * MS), NULL);
}

/* ---- the table ---- */

static const struct row {
    const char *name;
    int (*leave)(void);
    int (*act)(void);
    int expected;
} rows[] = {
    {"a shadow is forked", make_shadow, fork_it, -EPERM},
    {"a shadow is joined", make_and_fork, join_it, -EPERM},
    {"a join is looked at", make_and_fork, look_at_it, -EPERM},
    {"a team is run", make_team, run_team, -EPERM},
    {"a mutex is tried", lock_mutex, try_mutex, -ETIMEDOUT},
    {"a mutex is locked", lock_mutex, await_mutex, -ETIMEDOUT},
    {"a mutex is unlocked", lock_mutex, unlock_mutex, -EPERM},
    {"a condition is waited for", lock_mutex, wait_for_condition, -EPERM},
    {"a read-write lock is read", write_lock, read_lock, -ETIMEDOUT},
    {"a fiber is joined", make_runtime, join_fiber, -ETIMEDOUT},
    {"an event is waited for", wait_in_vain, wait_for_signal, 0},
    {"a port is used", post_one, post_and_receive, 0},
};

static void begin(void)
{
    static const struct umbra_topology_options described = {.synthetic = "core:4 pu:1"};

    cr_assert_eq(umbra_topology_create(&described, &topology), 0);
    UMBRA_PORT_OPEN(&port, 0);
    mutex = (struct umbra_mutex)UMBRA_MUTEX_INIT;
    lock = (struct umbra_rwlock)UMBRA_RWLOCK_INIT;
    event = (struct umbra_event)UMBRA_EVENT_INIT;
    shadow = (struct umbra_shadow){.forked = false};
    team = NULL;
    runtime = NULL;
    calls = 0;
}

static void end(void)
{
    umbra_event_signal(&event); /* for the fiber that is left */
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
    cr_expect_eq(umbra_team_destroy(team), 0, "any thread destroys what a thread has left");
    if (shadow.owned.owner)
        cr_expect_eq(shadow_destroy(&shadow), 0);
    cr_expect_eq(shadow_destroy(&shadow), -ESRCH);
    umbra_topology_destroy(topology);
}

Test(owners, a_thread_is_not_the_one_that_was_in_its_place)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int result;

        begin();
        result = next_gets(rows[i].leave, rows[i].act);
        cr_expect_eq(result, rows[i].expected, "%s: %d", rows[i].name, result);
        end();
    }
}

/* ---- what an owner has left ---- */

static int destroy_shadow(void)
{
    return shadow_destroy(&shadow);
}

static int destroy_team(void)
{
    return umbra_team_destroy(team);
}

Test(owners, a_living_owners_shadow_and_team_are_not_destroyed_by_others)
{
    begin();
    cr_assert_eq(make_shadow(), 0);
    cr_assert_eq(make_team(), 0);
    cr_expect_eq(in_thread(destroy_shadow).result, -EPERM);
    cr_expect_eq(in_thread(destroy_team).result, -EPERM);
    cr_expect_eq(fork_it(), 0);
    cr_expect_eq(run_team(), 0);
    end();
}

/* One of many that try. */
Test(owners, one_thread_destroys_what_a_thread_has_left)
{
    int destroyed = 0;

    begin();
    cr_assert_eq(in_thread(make_and_fork).result, 0);
    for (int i = 0; i < 3; i++)
        destroyed += in_thread(destroy_shadow).result == 0;
    cr_expect_eq(destroyed, 1);
    cr_expect_eq(calls, 1, "and it waits for what was forked");
    end();
}

static int make_named(void)
{
    struct umbra_shadow_options options = {
        .topology = topology, .place_owner = true, .place_shadow = true, .shadow_cpu = 1};

    return shadow_create(&shadow, &options);
}

/* The owner's at its end, the helper's when the shadow is destroyed. */
Test(owners, the_processors_of_what_a_thread_has_left_are_free_again)
{
    static const int avoid[] = {3};
    struct umbra_shadow_options options = {
        .place_owner = true, .owner_cpu = 2, .avoid = avoid, .avoid_count = 1};
    struct umbra_shadow other;

    begin();
    options.topology = topology;
    cr_assert_eq(in_thread(make_named).result, 0);
    cr_expect_eq(shadow.info.owner_cpu, 0);
    cr_expect_eq(shadow_create(&other, &options), 0);
    cr_expect_eq(other.info.shadow_cpu, 0);
    cr_expect_eq(shadow_destroy(&other), 0);
    cr_expect_eq(shadow_destroy(&shadow), 0);
    cr_expect_eq(make_named(), 0, "the helper's is free");
    end();
}

static cpu_set_t binding(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    return set;
}

/* This machine's topology: a described one binds no thread. */
Test(owners, a_thread_that_destroys_what_another_has_left_keeps_its_binding)
{
    cpu_set_t before = binding(), after;

    if (CPU_COUNT(&before) < 2)
        cr_skip_test("one processor");
    begin();
    umbra_topology_destroy(topology);
    cr_assert_eq(umbra_topology_create(NULL, &topology), 0);
    cr_assert_eq(umbra_topology_bind(topology, umbra_topology_info(topology)->cpu[0].cpu, NULL), 0);
    before = binding();
    cr_assert_eq(in_thread(make_team).result, 0);
    cr_expect_eq(umbra_team_destroy(team), 0);
    team = NULL;
    after = binding();
    cr_expect(CPU_EQUAL(&before, &after));
    end();
}

/* ---- an affinity that the program sets while the library has bound the thread ---- */

static cpu_set_t chosen; /* by the program: all processors but those that the thread has */

static int set_affinity(const cpu_set_t *whole)
{
    cpu_set_t now = binding();

    CPU_XOR(&chosen, whole, &now);
    return sched_setaffinity(0, sizeof(chosen), &chosen);
}

static int shadow_meanwhile(const cpu_set_t *whole)
{
    struct umbra_shadow_options options = {.topology = topology};
    int error = shadow_create(&shadow, &options);

    return error != 0 || set_affinity(whole) != 0 ? -EIO : shadow_destroy(&shadow);
}

static int team_meanwhile(const cpu_set_t *whole)
{
    return make_team() != 0 || set_affinity(whole) != 0 ? -EIO : destroy_team();
}

/* The shadow's binding is the later one. */
static int shadow_in_team(const cpu_set_t *whole)
{
    struct umbra_shadow_options options = {.topology = topology};

    if (make_team() != 0 || set_affinity(whole) != 0 || shadow_create(&shadow, &options) != 0)
        return -EIO;
    return shadow_destroy(&shadow) != 0 ? -EIO : destroy_team();
}

static int shadow_beyond_team(const cpu_set_t *whole)
{
    struct umbra_shadow_options options = {.topology = topology};

    if (make_team() != 0 || set_affinity(whole) != 0 || shadow_create(&shadow, &options) != 0)
        return -EIO;
    return destroy_team() != 0 ? -EIO : shadow_destroy(&shadow);
}

static const struct {
    const char *name;
    int (*act)(const cpu_set_t *whole);
} meanwhile[] = {{"a shadow", shadow_meanwhile},
                 {"a team", team_meanwhile},
                 {"a shadow that ends before its team", shadow_in_team},
                 {"a shadow that ends after its team", shadow_beyond_team}};

Test(owners, an_affinity_that_the_program_has_set_since_stays)
{
    cpu_set_t whole = binding(), after;

    if (CPU_COUNT(&whole) < 2)
        cr_skip_test("one processor");
    cr_assert_eq(umbra_topology_create(NULL, &topology), 0);
    for (size_t i = 0; i < sizeof(meanwhile) / sizeof(meanwhile[0]); i++) {
        cr_expect_eq(meanwhile[i].act(&whole), 0, "%s", meanwhile[i].name);
        after = binding();
        cr_expect(CPU_EQUAL(&chosen, &after), "%s", meanwhile[i].name);
        cr_assert_eq(sched_setaffinity(0, sizeof(whole), &whole), 0);
    }
    umbra_topology_destroy(topology);
}

static _Atomic bool has_chosen;

static void looks_at_its_affinity(unsigned member, unsigned members, void *arg)
{
    cpu_set_t mine = binding();

    (void)members;
    (void)arg;
    if (member == 1)
        atomic_store(&has_chosen, CPU_EQUAL(&mine, &chosen));
}

Test(owners, new_threads_have_the_affinity_that_the_program_has_set_since)
{
    struct umbra_team_options free_ones = {
        .members = 2, .bind = UMBRA_TEAM_BIND_NONE, .parts_stay = true};
    cpu_set_t whole = binding();
    struct umbra_team *other;

    if (CPU_COUNT(&whole) < 2)
        cr_skip_test("one processor");
    cr_assert_eq(umbra_topology_create(NULL, &topology), 0);
    cr_assert_eq(make_team(), 0);
    cr_assert_eq(set_affinity(&whole), 0);
    cr_assert_eq(umbra_team_create(&free_ones, &other), 0);
    cr_assert_eq(umbra_team_run(other, 0, looks_at_its_affinity, NULL), 0);
    cr_expect(atomic_load(&has_chosen));
    cr_expect_eq(umbra_team_destroy(other), 0);
    cr_expect_eq(destroy_team(), 0);
    umbra_topology_destroy(topology);
}

/* ---- fork(2) ---- */

static int is_the_holder(void)
{
    return try_mutex() == -EDEADLK && unlock_mutex() == 0 ? 42 : 1;
}

Test(owners, the_thread_of_a_child_holds_what_it_held)
{
    struct child child;

    cr_assert_eq(lock_mutex(), 0);
    child = in_child(is_the_holder);
    cr_expect(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 42);
    cr_expect_eq(unlock_mutex(), 0);
}

static _Atomic int stage;

static void *owns_team(void *arg)
{
    *(int *)arg = make_team();
    stage = 1;
    while (stage == 1)
        sched_yield();
    umbra_team_destroy(team);
    return NULL;
}

static int destroy_inherited(void)
{
    return destroy_team() == 0 ? 42 : 1;
}

Test(owners, a_child_destroys_the_team_of_a_thread_that_it_does_not_have)
{
    pthread_t thread;
    struct child child;
    int error;

    begin();
    cr_assert_eq(pthread_create(&thread, NULL, owns_team, &error), 0);
    while (stage == 0)
        sched_yield();
    cr_assert_eq(error, 0);
    child = in_child(destroy_inherited);
    cr_expect(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 42);
    stage = 2;
    pthread_join(thread, NULL);
    team = NULL;
    end();
}

/* ---- children of a thread, while another one is bound and gets its binding back ---- */

struct owner {
    const char *name;
    int (*make)(void);
    int (*destroy)(void);
};

static int make_team_of_one(void)
{
    struct umbra_team_options options = {.topology = topology, .members = 1};

    return umbra_team_create(&options, &team);
}

static void *owns_again_and_again(void *arg)
{
    const struct owner *owner = arg;

    for (stage = 1; stage == 1;)
        if (owner->make() != 0 || owner->destroy() != 0)
            _exit(1);
    return NULL;
}

static int end_at_once(void)
{
    return 42;
}

static void have_children_beside(const struct owner *owner)
{
    pthread_t thread;

    stage = 0;
    cr_assert_eq(pthread_create(&thread, NULL, owns_again_and_again, (void *)owner), 0);
    while (stage == 0)
        sched_yield();
    for (int i = 0; i < CHILDREN; i++) {
        struct child child = in_child(end_at_once);

        cr_assert(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 42,
                  "%s, child %d: status %#x", owner->name, i, (unsigned)child.status);
    }
    stage = 2;
    pthread_join(thread, NULL);
}

Test(owners, a_child_begins_while_another_thread_is_bound_or_unbound)
{
    static const struct owner owners[] = {{"team", make_team_of_one, destroy_team},
                                          {"shadow", make_shadow, destroy_shadow}};
    cpu_set_t set;

    cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
    if (CPU_COUNT(&set) < 2)
        cr_skip_test("needs two processors");
    cr_assert_eq(umbra_topology_create(NULL, &topology), 0);
    for (int i = 0; i < 2; i++)
        have_children_beside(&owners[i]);
    umbra_topology_destroy(topology);
}

/* ---- a fiber of a later runtime ---- */

static struct umbra_mutex left_locked = UMBRA_MUTEX_INIT;
static struct umbra_fiber holder;

static void *ends_with_it_locked(void *arg)
{
    umbra_mutex_lock(&left_locked);
    holder = umbra_self();
    return arg;
}

static void *finds_it_locked(void *arg)
{
    int error = umbra_mutex_lock_deadline(&left_locked, 0);

    *(bool *)arg = umbra_self().block == holder.block;
    cr_expect_eq(error, -ETIMEDOUT, "%d", error);
    cr_expect_eq(umbra_mutex_unlock(&left_locked), -EPERM);
    if (*(bool *)arg) /* else it is of memory that has gone */
        cr_expect_eq(umbra_join(holder, UMBRA_NEVER, NULL), -ESRCH);
    return NULL;
}

Test(owners, a_fiber_is_not_one_of_an_earlier_runtime_in_its_place)
{
    bool same = false;

    cr_assert_eq(run_cores(1, ends_with_it_locked, NULL), 0);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(run_cores(1, finds_it_locked, &same), 0);
    if (!same)
        cr_skip_test("no fiber got the place");
}
