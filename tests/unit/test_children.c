/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a process begins with that the program starts on a thread of the library: signal mask and
 * processors. A table of threads and of ways to start a process. See umbra/shadow/origin.h. Linked with
 * --wrap for hwloc_bitmap_copy, so that it can be made to fail.
 */
#define _GNU_SOURCE
#include "fibers.h"

#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <umbra/blocking.h>
#include <umbra/memory.h>
#include <umbra/team.h>

extern char **environ;

/* ---- what a process begins with ---- */

/* As /proc says it; empty: not known. */
struct given {
    char mask[32];
    char processors[2400];
};

/* From the text of a file "status". */
static struct given given_by(const char *text)
{
    struct given given = {"", ""};
    const char *mask = strstr(text, "SigBlk:");
    const char *processors = strstr(text, "Cpus_allowed:");

    if (mask)
        sscanf(mask, "SigBlk: %31s", given.mask);
    if (processors)
        sscanf(processors, "Cpus_allowed: %2399s", given.processors);
    return given;
}

static struct given given_in(int fd)
{
    char text[16384];
    size_t used = 0;
    ssize_t more;

    while ((more = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
        used += (size_t)more;
    text[used] = '\0';
    return given_by(text);
}

static struct given given_to_this_thread(void)
{
    int fd = open("/proc/thread-self/status", O_RDONLY);
    struct given given = given_in(fd);

    close(fd);
    return given;
}

/* ---- ways to start a process ---- */

static char *const show_status[] = {(char *)"cat", (char *)"/proc/self/status", NULL};

enum way { FORK, FORK_AND_EXEC, SPAWN, SPAWN_AS_DOCUMENTED, POPEN, WAYS };

static const char *const way_name[WAYS] = {"fork", "fork and exec", "posix_spawn",
                                           "posix_spawn as docs/limits.md says", "popen"};

static void show(void)
{
    int fd = open("/proc/self/status", O_RDONLY);
    char text[4096];
    ssize_t some;

    while ((some = read(fd, text, sizeof(text))) > 0)
        if (write(1, text, (size_t)some) != some)
            _exit(1);
}

static pid_t forks(const int ends[2], bool executes)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    dup2(ends[1], 1);
    if (executes)
        execvp(show_status[0], show_status);
    else
        show();
    _exit(0);
}

/* The program's, for what docs/limits.md says. */
static sigset_t program_mask;
static struct umbra_topology *program_topology;

static pid_t spawns(const int ends[2], bool as_documented)
{
    posix_spawn_file_actions_t actions;
    struct umbra_affinity *saved = NULL;
    posix_spawnattr_t how;
    pid_t child = -1;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawnattr_init(&how);
    if (as_documented) {
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
        posix_spawnattr_setsigmask(&how, &program_mask);
        cr_expect_eq(umbra_topology_bind(program_topology, UMBRA_ANY_CPU, &saved), 0);
    }
    cr_expect_eq(posix_spawnp(&child, show_status[0], &actions, &how, show_status, environ), 0);
    umbra_topology_unbind(program_topology, saved);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

static struct given given_by_popen(void)
{
    FILE *stream = popen("cat /proc/self/status", "r");
    struct given given = {"", ""};

    cr_expect_neq((void *)stream, NULL);
    if (!stream)
        return given;
    given = given_in(fileno(stream));
    pclose(stream);
    return given;
}

/* What a process has been given that was started in this way by this thread. */
static struct given given_by_way(enum way way)
{
    struct given given;
    int ends[2], status;
    pid_t child;

    if (way == POPEN)
        return given_by_popen();
    cr_expect_eq(pipe(ends), 0);
    child = way == FORK || way == FORK_AND_EXEC ? forks(ends, way == FORK_AND_EXEC)
                                                : spawns(ends, way == SPAWN_AS_DOCUMENTED);
    close(ends[1]);
    given = given_in(ends[0]);
    close(ends[0]);
    cr_expect_eq(waitpid(child, &status, 0), child);
    return given;
}

/* ---- the table ---- */

/* What the children of one thread were given. */
struct children {
    struct given given[WAYS];
};

static void starts_children(void *arg)
{
    struct children *children = arg;

    for (int way = 0; way < WAYS; way++)
        children->given[way] = given_by_way((enum way)way);
}

static void *starts_children_in_fiber(void *arg)
{
    starts_children(arg);
    return NULL;
}

static void in_program(struct children *children)
{
    starts_children(children);
}

static void in_fiber(struct children *children)
{
    cr_expect_eq(run_cores(2, starts_children_in_fiber, children), 0);
}

static void *starts_children_unbound(void *arg)
{
    cr_expect_eq(umbra_core_unbound(starts_children, arg), 0);
    return NULL;
}

static void in_fiber_unbound(struct children *children)
{
    cr_expect_eq(run_cores(1, starts_children_unbound, children), 0);
}

static void *starts_children_on_helper(void *arg)
{
    cr_expect_eq(umbra_blocking(starts_children, arg), 0);
    return NULL;
}

static void in_blocking_helper(struct children *children)
{
    cr_expect_eq(run_cores(2, starts_children_on_helper, children), 0);
}

static void with_shadow(struct children *children, bool owner)
{
    struct umbra_shadow shadow;

    cr_expect_eq(shadow_create(&shadow, NULL), 0);
    if (owner)
        starts_children(children);
    else
        shadow_fork(&shadow, starts_children, children);
    shadow_join(&shadow);
    shadow_destroy(&shadow);
}

static void in_shadow(struct children *children)
{
    with_shadow(children, false);
}

static void in_shadows_owner(struct children *children)
{
    with_shadow(children, true);
}

static void *starts_children_on_core_shadow(void *arg)
{
    struct umbra_shadow *shadow = own_shadow();

    shadow_fork(shadow, starts_children, arg);
    shadow_join(shadow);
    return NULL;
}

static void in_shadow_of_core(struct children *children)
{
    struct umbra_options options = {.cores = 1, .shadows = true};

    cr_expect_eq(umbra_run(&options, starts_children_on_core_shadow, children), 0);
}

static void *starts_children_beside_shadow(void *arg)
{
    starts_children(arg);
    return NULL;
}

static void in_fiber_beside_shadow(struct children *children)
{
    struct umbra_options options = {.cores = 1, .shadows = true};

    cr_expect_eq(umbra_run(&options, starts_children_beside_shadow, children), 0);
}

/* A run of two parts. */
struct parts {
    struct children *children;
    unsigned starter; /* the part that starts them */
    um_atomic_u32 begun;
};

/* Part 0 ends when part 1 has begun: else its thread could take that, too. */
static void one_part_starts_children(unsigned member, unsigned members, void *arg)
{
    struct parts *parts = arg;

    (void)members;
    if (member == 1)
        um_atomic_store(&parts->begun, 1, relaxed); /* no data is passed */
    while (!um_atomic_load(&parts->begun, relaxed))
        sched_yield();
    if (member == parts->starter)
        starts_children(parts->children);
}

static void with_team(struct children *children, unsigned starter)
{
    struct umbra_team_options options = {.members = 2, .siblings = true};
    struct parts parts = {.children = children, .starter = starter};
    struct umbra_team *team;

    cr_expect_eq(umbra_team_create(&options, &team), 0);
    umbra_team_run(team, 0, one_part_starts_children, &parts);
    umbra_team_destroy(team);
}

static void in_team(struct children *children)
{
    with_team(children, 1);
}

static void in_teams_owner(struct children *children)
{
    with_team(children, 0);
}

/* A thread of the library starts another. */
static void with_team_of_shadow(void *children)
{
    in_team(children);
}

static void in_team_of_shadow(struct children *children)
{
    struct umbra_shadow shadow;

    cr_expect_eq(shadow_create(&shadow, NULL), 0);
    shadow_fork(&shadow, with_team_of_shadow, children);
    shadow_join(&shadow);
    shadow_destroy(&shadow);
}

static void with_runtime_of_shadow(void *children)
{
    in_fiber(children);
}

static void in_fiber_of_shadow(struct children *children)
{
    struct umbra_shadow shadow;

    cr_expect_eq(shadow_create(&shadow, NULL), 0);
    shadow_fork(&shadow, with_runtime_of_shadow, children);
    shadow_join(&shadow);
    shadow_destroy(&shadow);
}

static void in_helper_of_shadows_owner(struct children *children)
{
    struct umbra_shadow shadow;

    cr_expect_eq(shadow_create(&shadow, NULL), 0);
    in_blocking_helper(children);
    shadow_destroy(&shadow);
}

/* mask, processors: a process has the program's, too, if no handler of fork(2) has given it that. */
static const struct {
    const char *thread;
    void (*fn)(struct children *children);
    bool mask;
    bool processors;
} table[] = {
    {"a thread of the program", in_program, true, true},
    {"a fiber", in_fiber, true, false},
    {"a fiber in umbra_core_unbound", in_fiber_unbound, true, true},
    {"a fiber whose core has a shadow", in_fiber_beside_shadow, true, false},
    {"a helper of umbra_blocking", in_blocking_helper, true, true},
    {"a shadow", in_shadow, false, false},
    {"the owner of a shadow", in_shadows_owner, true, false},
    {"the shadow of a core", in_shadow_of_core, false, false},
    {"a member of a team", in_team, false, false},
    {"the owner of a team", in_teams_owner, true, false},
    {"a member of a team that a shadow owns", in_team_of_shadow, false, false},
    {"a fiber of a runtime that a shadow started", in_fiber_of_shadow, true, false},
    {"a helper of a runtime of a shadow's owner", in_helper_of_shadows_owner, true, true},
};

static void check_cell(const char *thread, enum way way, const struct given *given, bool mask,
                       bool processors)
{
    const struct given program = given_to_this_thread();
    bool shell = way == POPEN; /* which may unblock all signals by itself, as dash does */
    bool same_mask = strcmp(given->mask, program.mask) == 0;
    bool same_processors = strcmp(given->processors, program.processors) == 0;

#ifdef UMBRA_POSIX_ONLY
    mask = true; /* no thread of the library blocks signals in this form */
#endif
    cr_expect(shell || same_mask == mask, "%s, %s: mask %s, the program's %s", thread,
              way_name[way], given->mask, program.mask);
    cr_expect_eq(same_processors, processors, "%s, %s: processors %s, the program's %s", thread,
                 way_name[way], given->processors, program.processors);
}

static void skip_on_one_processor(void)
{
    cpu_set_t set;

    cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
    if (CPU_COUNT(&set) < 2)
        cr_skip_test("needs two processors");
}

Test(children, table_of_what_they_begin_with)
{
    skip_on_one_processor();
    cr_assert_eq(umbra_topology_create(NULL, &program_topology), 0);
    sigemptyset(&program_mask);
    sigaddset(&program_mask, SIGWINCH);
    cr_assert_eq(pthread_sigmask(SIG_SETMASK, &program_mask, NULL), 0);
    for (size_t row = 0; row < sizeof(table) / sizeof(table[0]); row++) {
        struct children children;

        memset(&children, 0, sizeof(children));
        table[row].fn(&children);
        for (int way = 0; way < WAYS; way++) {
            bool all = way == FORK || way == FORK_AND_EXEC || way == SPAWN_AS_DOCUMENTED;

            check_cell(table[row].thread, (enum way)way, &children.given[way],
                       all || table[row].mask, all || table[row].processors);
        }
    }
    umbra_topology_destroy(program_topology);
}

/* ---- no memory for it ---- */

static bool fail_copy;

int __real_hwloc_bitmap_copy(hwloc_bitmap_t to, hwloc_const_bitmap_t from);
int __wrap_hwloc_bitmap_copy(hwloc_bitmap_t to, hwloc_const_bitmap_t from);

int __wrap_hwloc_bitmap_copy(hwloc_bitmap_t to, hwloc_const_bitmap_t from)
{
    return fail_copy ? -1 : __real_hwloc_bitmap_copy(to, from);
}

Test(children, threads_whose_origin_cannot_be_kept_are_not_started)
{
    struct umbra_team_options options = {.members = 2, .siblings = true};
    struct umbra_runtime *runtime;
    struct umbra_shadow shadow;
    struct umbra_team *team;
    cpu_set_t before, after;

    skip_on_one_processor();
    sched_getaffinity(0, sizeof(before), &before);
    fail_copy = true;
    cr_expect_eq(shadow_create(&shadow, NULL), -ENOMEM);
    cr_expect_eq(umbra_team_create(&options, &team), -ENOMEM);
    cr_expect_eq(umbra_runtime_create(NULL, &runtime), -ENOMEM, "the thread of a core");
    fail_copy = false;
    cr_assert_eq(shadow_create(&shadow, NULL), 0);
    fail_copy = true;
    cr_expect_eq(umbra_runtime_create(NULL, &runtime), -ENOMEM, "its creator owns a shadow");
    shadow_destroy(&shadow);
    sched_getaffinity(0, sizeof(after), &after);
    cr_expect(CPU_EQUAL(&before, &after));
}

/* ---- what a child does afterwards ---- */

/* The child's own choice is not undone when it forks in turn. */
static void *child_binds_itself_and_forks(void *arg)
{
    pid_t child = fork();
    int status = -1;

    (void)arg;
    if (child == 0) {
        cpu_set_t one, seen;

        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_setaffinity(0, sizeof(one), &one);
        child = fork();
        if (child == 0) {
            sched_getaffinity(0, sizeof(seen), &seen);
            _exit(!CPU_EQUAL(&one, &seen));
        }
        waitpid(child, &status, 0);
        _exit(status != 0);
    }
    cr_expect_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
    return NULL;
}

static void every_part_binds_its_child(unsigned member, unsigned members, void *arg)
{
    (void)member;
    (void)members;
    child_binds_itself_and_forks(arg);
}

Test(children, processors_that_a_child_has_chosen_are_its_childs)
{
    struct umbra_team_options options = {.members = 2, .siblings = true};
    struct umbra_team *team;

    skip_on_one_processor();
    cr_assert_eq(run_cores(1, child_binds_itself_and_forks, NULL), 0);
    cr_assert_eq(umbra_team_create(&options, &team), 0);
    cr_assert_eq(umbra_team_run(team, 0, every_part_binds_its_child, NULL), 0);
    cr_assert_eq(umbra_team_destroy(team), 0);
}

/* ---- what a child begins while its parent's threads begin the same ---- */

static int begins_topology(void)
{
    struct umbra_topology_options options = {.synthetic = "pu:2"};
    struct umbra_topology *topology;
    int error = umbra_topology_create(&options, &topology);

    if (error == 0)
        umbra_topology_destroy(topology);
    return error;
}

static int begins_memory(void)
{
    struct umbra_memory memory;
    int error = umbra_memory_create(NULL, 4096, &memory);

    if (error == 0)
        umbra_memory_destroy(&memory);
    return error;
}

static int begins_team(void)
{
    struct umbra_team_options options = {.members = 2, .siblings = true};
    struct umbra_team *team;
    int error = umbra_team_create(&options, &team);

    return error == 0 ? umbra_team_destroy(team) : error;
}

static int begins_runtime(void)
{
    struct umbra_options options = {.cores = 1};
    struct umbra_runtime *runtime;
    int error = umbra_runtime_create(&options, &runtime);

    return error == 0 ? umbra_runtime_destroy(runtime) : error;
}

static const struct {
    const char *what;
    int (*fn)(void);
} begun[] = {{"a topology", begins_topology},
             {"memory", begins_memory},
             {"a team", begins_team},
             {"a runtime", begins_runtime}};

#define NS_PER_ROW 1500000000

static um_atomic_u32 enough = 0;

static void *begins_again_and_again(void *fn)
{
    while (um_atomic_load(&enough, relaxed) == 0) /* a number */
        (*(int (**)(void))fn)();
    return NULL;
}

Test(children, begin_what_threads_of_the_parent_are_beginning)
{
    pthread_t threads[2];

#if defined(UM_CONTEXT_ASAN) || defined(UM_CONTEXT_TSAN)
    cr_skip_test("fork(2) does not take along the locks of a sanitizer's allocator");
#endif
    for (size_t row = 0; row < sizeof(begun) / sizeof(begun[0]); row++) {
        int (*fn)(void) = begun[row].fn;
        int status = 0;

        um_atomic_store(&enough, 0, relaxed); /* no thread reads it yet */
        for (int i = 0; i < 2; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, begins_again_and_again, &fn), 0);
        for (uint64_t until = umbra_deadline(NS_PER_ROW); umbra_now_ns() < until && status == 0;) {
            pid_t child = fork();

            if (child == 0) {
                alarm(20);
                _exit(fn() != 0);
            }
            cr_assert_eq(waitpid(child, &status, 0), child);
        }
        um_atomic_store(&enough, 1, relaxed); /* a number */
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        cr_expect_eq(status, 0, "%s: the child ended with %x", begun[row].what, (unsigned)status);
    }
}

/* ---- the first call of a process, while another of its threads is in fork(2) ---- */

static int begins_team_there(void)
{
    struct umbra_team_options options = {.topology = program_topology, .members = 1};
    struct umbra_team *team;
    int error = umbra_team_create(&options, &team);

    return error == 0 ? umbra_team_destroy(team) : error;
}

static int begins_shadow_there(void)
{
    struct umbra_shadow_options options = {.topology = program_topology, .place_owner = true};
    struct umbra_shadow shadow;
    int error = shadow_create(&shadow, &options);

    return error == 0 ? shadow_destroy(&shadow) : error;
}

static int begins_runtime_there(void)
{
    struct umbra_options options = {.topology = program_topology, .cores = 1};
    struct umbra_runtime *runtime;
    int error = umbra_runtime_create(&options, &runtime);

    return error == 0 ? umbra_runtime_destroy(runtime) : error;
}

/* A row for each lock that fork(2) takes along; the owners' is in two. */
static const struct {
    const char *what;
    int (*fn)(void);
} first[] = {{"a topology", begins_topology},
             {"a team", begins_team_there},
             {"a shadow", begins_shadow_there},
             {"a runtime", begins_runtime_there}};

enum { PROCESSES_PER_ROW = 60, FORKS_PER_PROCESS = 3 };

static um_atomic_u32 may_begin = 0, has_begun = 0;
static unsigned turns; /* that the forking thread makes before it goes on */

static void *begins_when_told(void *arg)
{
    int (*fn)(void) = *(int (**)(void))arg; /* which ends with the function that forks */

    while (um_atomic_load(&may_begin, relaxed) == 0) /* numbers, both */
        sched_yield();
    um_atomic_store(&has_begun, 1, relaxed);
    for (;;)
        fn();
    return NULL;
}

static void lets_it_begin(void)
{
    um_atomic_store(&may_begin, 1, relaxed); /* numbers, both */
    while (um_atomic_load(&has_begun, relaxed) == 0)
        sched_yield();
    for (volatile unsigned i = 0; i < turns; i++) {
    }
}

/* In a process of its own. True if no child hangs. The other thread begins before the first fork(2),
 * or in it: in a handler that was registered before the library was called. */
static bool forks_at_the_first_call(int (*fn)(void), unsigned number)
{
    struct umbra_topology_options pair = {.synthetic = "pu:2"};
    bool in_handler = number % 2 != 0, right = true;
    pid_t child[FORKS_PER_PROCESS];
    pthread_t thread;

    turns = number * 1000;
    if (in_handler && pthread_atfork(lets_it_begin, NULL, NULL) != 0)
        return false;
    if (fn != begins_topology && umbra_topology_create(&pair, &program_topology) != 0)
        return false;
    if (pthread_create(&thread, NULL, begins_when_told, &fn) != 0)
        return false;
    if (!in_handler)
        lets_it_begin();
    for (int i = 0; i < FORKS_PER_PROCESS; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            alarm(20);
            _exit(fn() != 0);
        }
    }
    for (int i = 0; i < FORKS_PER_PROCESS; i++) {
        int status = -1;

        right = waitpid(child[i], &status, 0) == child[i] && status == 0 && right;
    }
    return right;
}

Test(children, begin_what_a_thread_of_the_parent_began_while_another_forked)
{
#if defined(UM_CONTEXT_ASAN) || defined(UM_CONTEXT_TSAN)
    cr_skip_test("fork(2) does not take along the locks of a sanitizer's allocator");
#endif
    fflush(NULL);
    for (size_t row = 0; row < sizeof(first) / sizeof(first[0]); row++) {
        int status = 0;

        for (unsigned number = 0; number < PROCESSES_PER_ROW && status == 0; number++) {
            pid_t process = fork();

            if (process == 0)
                _exit(!forks_at_the_first_call(first[row].fn, number));
            cr_assert_eq(waitpid(process, &status, 0), process);
            cr_expect_eq(status, 0, "%s, process %u: ended with %x", first[row].what, number,
                         (unsigned)status);
        }
    }
}

/* ---- helpers take the program's signals ---- */

static um_atomic_u32 handled = 0;

static void on_signal(int number)
{
    (void)number;
    um_atomic_fetch_add(&handled, 1, relaxed); /* a number */
}

static void takes_signal(void *helper)
{
    *(pthread_t *)helper = pthread_self();
    pthread_kill(pthread_self(), SIGUSR1);
}

static void await_handled(uint32_t times)
{
    while (um_atomic_load(&handled, relaxed) < times) /* a number */
        umbra_yield();
}

static void *helper_takes_signals(void *arg)
{
    pthread_t helper;

    alarm(20);
    cr_expect_eq(umbra_blocking(takes_signal, &helper), 0);
    await_handled(1);
    pthread_kill(helper, SIGUSR1); /* it is idle, for a second at least */
    await_handled(2);
    cr_expect_eq(umbra_blocking(takes_signal, &helper), 0, "the pool goes on");
    await_handled(3);
    return arg;
}

Test(children, handlers_of_the_program_may_run_on_a_helper)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
    cr_assert_eq(run_cores(1, helper_takes_signals, NULL), 0);
}
