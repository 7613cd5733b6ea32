/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a runtime does when the system refuses later what it allowed at first: capabilities that were
 * probed once, and memory. Each row has a process of its own.
 */
#define _GNU_SOURCE
#include "fibers.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<linux/filter.h>)
#include <linux/filter.h>
#endif
#if __has_include(<linux/seccomp.h>)
#include <linux/seccomp.h>
#endif
#endif

#ifndef UMBRA_POSIX_ONLY

#define SKIPPED 77
#define ANY_VALUE (-1)
#define GUARD_INSTALL 102
#define LIVE 100 /* fibers: more than were made before */

/* ---- what is taken away ---- */

/* A system call that is refused from now on, in all threads; with `value` only if its argument number
 * `argument` is this value. */
struct refused {
    long number;
    int argument;
    long value;
    int error;
};

/* Exits if there are no filters. */
static void refuse(const struct refused *call)
{
#if defined(SECCOMP_SET_MODE_FILTER) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    unsigned argument =
        (unsigned)(offsetof(struct seccomp_data, args) + 8 * (size_t)call->argument);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call->number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call->value, 0,
                 call->value == ANY_VALUE ? 0 : 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)call->error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        _exit(SKIPPED);
#else
    (void)call;
    _exit(SKIPPED);
#endif
}

static void lock_memory(const struct refused *unused)
{
    (void)unused;
#if defined(UMBRA_UNDER_TSAN) || defined(UMBRA_UNDER_ASAN)
    _exit(SKIPPED); /* shadow memory would be locked, too */
#endif
    if (mlockall(MCL_CURRENT) != 0)
        _exit(SKIPPED);
}

static void refuse_memory(const struct refused *call)
{
#if defined(UMBRA_UNDER_TSAN) || defined(UMBRA_UNDER_ASAN)
    _exit(SKIPPED); /* they map memory themselves */
#endif
    refuse(call);
}

/* Neither kind of guard can be made any more. */
static void refuse_guards(const struct refused *advice)
{
    const struct refused protection = {SYS_mprotect, 2, PROT_NONE, EPERM};

    refuse(advice);
    refuse(&protection);
}

/* For what is probed afterwards. */
static void use_up_descriptors(const struct refused *unused)
{
    struct rlimit none = {0, 0};

    (void)unused;
    setrlimit(RLIMIT_NOFILE, &none);
}

static void force_protection(void)
{
    if (um_guard_find() != UM_GUARD_ADVICE)
        _exit(SKIPPED); /* there is no other way to make a guard */
    setenv("UMBRA_GUARD", "protection", 1);
    um_guard_kind();
    unsetenv("UMBRA_GUARD");
}

/* ---- what must go on: each returns 0, or the line of what has failed ---- */

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return __LINE__;                                                                       \
    } while (0)

static struct umbra_event go = UMBRA_EVENT_INIT_MANUAL;

static void *waits_to_go(void *arg)
{
    umbra_event_wait(&go, UMBRA_NEVER);
    return arg;
}

/* True if the byte below the stack of a fiber cannot be read. */
static bool is_guarded(struct umbra_fiber fiber)
{
    char *low = um_slab_low(fiber.block->slab, fiber.block->slot);
    int ends[2];
    bool fails;

    if (pipe(ends) != 0)
        return false;
    fails = write(ends[1], low - 1, 1) < 0 && errno == EFAULT;
    close(ends[0]);
    close(ends[1]);
    return fails;
}

static int spawns(void)
{
    struct umbra_fiber fiber[LIVE];

    for (int i = 0; i < LIVE; i++) {
        MUST(umbra_spawn(waits_to_go, NULL, &fiber[i]) == 0);
        MUST(um_guard_kind() == UM_GUARD_NONE || is_guarded(fiber[i]));
    }
    umbra_yield();
    umbra_event_signal(&go);
    for (int i = 0; i < LIVE; i++)
        MUST(umbra_join(fiber[i], UMBRA_NEVER, NULL) == 0);
    go = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
    return 0;
}

/* Fibers of guards that are there; no fiber without one. */
static int spawns_guarded_fibers(void)
{
    struct umbra_fiber fiber[LIVE];
    int live = 0, error = 0;

    while (live < LIVE && (error = umbra_spawn(waits_to_go, NULL, &fiber[live])) == 0) {
        MUST(um_guard_kind() == UM_GUARD_NONE || is_guarded(fiber[live]));
        live++;
    }
    MUST(error == 0 || error == -ENOMEM);
    umbra_yield();
    umbra_event_signal(&go);
    while (live > 0)
        MUST(umbra_join(fiber[--live], UMBRA_NEVER, NULL) == 0);
    go = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
    return 0;
}

/* A probe that cannot be made now must not change what is known. */
static int probes_guards(void)
{
    enum um_guard again = um_guard_find();

    MUST(again == um_guard_kind() || again == UM_GUARD_UNKNOWN);
    return 0;
}

static void *uses_stack(void *arg)
{
    volatile char used[10000];

    for (size_t i = 0; i < sizeof(used); i++)
        used[i] = 1;
    umbra_event_wait(&go, UMBRA_NEVER);
    return arg;
}

static int knows_stack_used(void)
{
    struct umbra_fiber fiber;
    struct umbra_fiber_info info;

    MUST(umbra_spawn(uses_stack, NULL, &fiber) == 0);
    umbra_yield();
    MUST(umbra_fiber_info(fiber, &info) >= 0 && info.stack_used >= 10000);
    umbra_event_signal(&go);
    MUST(umbra_join(fiber, UMBRA_NEVER, NULL) == 0);
    go = (struct umbra_event)UMBRA_EVENT_INIT_MANUAL;
    return 0;
}

static void *pushes(void *arg)
{
    for (int i = 0; i < 300; i++)
        umbra_channel_push(arg, &i, UMBRA_NEVER);
    return NULL;
}

static int passes_through_a_channel(void)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_channel channel;
    struct umbra_fiber fiber;
    int item;

    MUST(umbra_channel_init(&channel, 4, sizeof(int), UMBRA_CHANNEL_ONE) == 0);
    MUST(umbra_spawn_with(NULL, &there, pushes, &channel, &fiber) == 0);
    for (int i = 0; i < 300; i++)
        MUST(umbra_channel_pop(&channel, &item, UMBRA_NEVER) == 0 && item == i);
    MUST(umbra_join(fiber, UMBRA_NEVER, NULL) == 0);
    umbra_channel_fini(&channel);
    return 0;
}

static void sets(void *arg)
{
    *(int *)arg = 1;
}

static int calls_a_helper(void)
{
    int done = 0;

    MUST(umbra_blocking(sets, &done) == 0 && done == 1);
    return 0;
}

static int allocates_huge(void)
{
    struct umbra_memory_options options = {.huge_pages = true};
    struct umbra_memory memory;

    MUST(umbra_memory_create(&options, (size_t)4 << 20, &memory) == 0);
    memset(memory.at, 1, memory.bytes);
    umbra_memory_destroy(&memory);
    return 0;
}

static int adds(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    __atomic_fetch_add((size_t *)arg, value.end - value.begin, __ATOMIC_RELAXED);
    return 0;
}

static int dispatches(void)
{
    size_t sum = 0;
    struct umbra_dispatch_options options = {.fn = adds, .arg = &sum};
    struct umbra_dispatch *dispatch;

    MUST(umbra_dispatch_create(NULL, &options, &dispatch) == 0);
    for (int step = 0; step < 20; step++) {
        MUST(umbra_dispatch_begin(dispatch) == 0);
        MUST(umbra_dispatch_range(dispatch, 0, 1000, 1) == 0);
        MUST(umbra_dispatch_end(dispatch, UMBRA_NEVER) == 0);
    }
    MUST(sum == 20 * 1000);
    MUST(umbra_dispatch_destroy(dispatch) == 0);
    return 0;
}

/* ---- the table ---- */

struct capability {
    const char *name;
    void (*prepare)(void); /* or NULL */
    int (*use)(void);      /* in a fiber, when it is refused; before, if it is probed by its use */
    bool before;
    void (*take)(const struct refused *call);
    struct refused call;
};

static const struct capability capabilities[] = {
    {"memory is locked", NULL, spawns, false, lock_memory, {0, 0, 0, 0}},
    {"guards by advice", NULL, spawns, false, refuse, {SYS_madvise, 2, GUARD_INSTALL, EINVAL}},
    {"guards by protection",
     force_protection,
     spawns,
     false,
     refuse,
     {SYS_mprotect, 2, PROT_NONE, EPERM}},
    {"guards of both kinds",
     NULL,
     spawns_guarded_fibers,
     false,
     refuse_guards,
     {SYS_madvise, 2, GUARD_INSTALL, EINVAL}},
    {"a probe's descriptors", NULL, probes_guards, false, use_up_descriptors, {0, 0, 0, 0}},
    {"a probe's memory",
     NULL,
     probes_guards,
     false,
     refuse_memory,
     {SYS_mmap, 0, ANY_VALUE, ENOMEM}},
    {"pages in memory", NULL, knows_stack_used, true, refuse, {SYS_mincore, 0, ANY_VALUE, EPERM}},
    {"fences of other threads",
     NULL,
     passes_through_a_channel,
     true,
     refuse,
     {SYS_membarrier, 0, ANY_VALUE, EPERM}},
    {"binding of threads",
     NULL,
     calls_a_helper,
     false,
     refuse,
     {SYS_sched_setaffinity, 0, ANY_VALUE, EPERM}},
    {"another thread", NULL, calls_a_helper, true, refuse, {SYS_clone3, 0, ANY_VALUE, EAGAIN}},
    {"huge pages", NULL, allocates_huge, true, refuse, {SYS_madvise, 2, MADV_HUGEPAGE, EINVAL}},
    {"counts of a thread", NULL, dispatches, true, refuse, {SYS_getrusage, 0, ANY_VALUE, EPERM}},
};

#define CAPABILITIES ((int)(sizeof(capabilities) / sizeof(capabilities[0])))

static int failed; /* the line, or 0 */

static void *uses(void *arg)
{
    const struct capability *capability = arg;

    failed = capability->before ? capability->use() : 0;
    capability->take(&capability->call);
    if (failed == 0)
        failed = capability->use();
    return NULL;
}

/* The exit status of a child that loses the capability. */
static int loses(const struct capability *capability)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    int status = 0;
    pid_t pid = fork();

    cr_assert_geq(pid, 0);
    if (pid == 0) {
        if (capability->prepare)
            capability->prepare();
        int error = umbra_run(&options, uses, (void *)(uintptr_t)capability);

        if (error != 0) {
            fprintf(stderr, "%s: %s\n", capability->name, strerror(-error));
            _exit(1);
        }
        if (failed != 0)
            fprintf(stderr, "%s: line %d\n", capability->name, failed);
        _exit(failed != 0);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

Test(refusal, what_is_refused_later_is_done_another_way)
{
    int skipped = 0;

    for (int i = 0; i < CAPABILITIES; i++) {
        int status = loses(&capabilities[i]);

        cr_expect(status == 0 || status == SKIPPED, "%s", capabilities[i].name);
        skipped += status == SKIPPED;
    }
    if (skipped == CAPABILITIES)
        cr_skip_test("this system refuses nothing on request");
}

/* ---- no memory for a fiber ---- */

#if !defined(UMBRA_UNDER_TSAN) && !defined(UMBRA_UNDER_ASAN) /* which map memory themselves */

#define ENDS_IN_S 20 /* a wait that only memory could end fails then */
#define TASKS 3

static struct umbra_runtime *scarce; /* has no memory for a fiber */
static struct umbra_nodes *scarce_nodes;

struct run_task {
    struct umbra_task task;
    int runs;
};

static void runs(void *arg)
{
    ((struct run_task *)arg)->runs++;
}

static int starts_and_joins(void)
{
    struct run_task it = {.runs = 0};

    MUST(umbra_task_start(scarce, &it.task, runs, &it) == 0);
    umbra_task_join(&it.task, UMBRA_NEVER);
    MUST(it.runs == 1);
    return 0;
}

static int starts_and_joins_until(void)
{
    struct run_task it = {.runs = 0};
    int error = -ETIMEDOUT;

    MUST(umbra_task_start(scarce, &it.task, runs, &it) == 0);
    while (error == -ETIMEDOUT)
        error = umbra_task_join(&it.task, umbra_now_ns() + MS / 2);
    MUST(error == 0 && it.runs == 1);
    return 0;
}

/* A thread cannot sleep then, nor any caller wait with a deadline. */
static int joins_without_any_memory(void)
{
    const struct rlimit none = {0, 0};
    struct run_task it = {.runs = 0};

    setrlimit(RLIMIT_DATA, &none);
    for (void *volatile lost = &it; lost;)
        lost = malloc(64);
    MUST(umbra_task_start(scarce, &it.task, runs, &it) == 0);
    umbra_task_join(&it.task, UMBRA_NEVER);
    MUST(it.runs == 1);
    return 0;
}

/* The first ones in the list have no joiner. */
static int starts_and_joins_backwards(void)
{
    struct run_task it[TASKS] = {{.runs = 0}};

    for (int i = 0; i < TASKS; i++)
        MUST(umbra_task_start(scarce, &it[i].task, runs, &it[i]) == 0);
    for (int i = TASKS; i-- > 0;) {
        umbra_task_join(&it[i].task, UMBRA_NEVER);
        MUST(it[i].runs == 1);
    }
    return 0;
}

static int forks_and_joins(void)
{
    for (int i = 0; i < 1000; i++) {
        struct run_task it[TASKS] = {{.runs = 0}};

        for (int k = 0; k < TASKS; k++)
            umbra_task_fork(&it[k].task, runs, &it[k]);
        for (int k = TASKS; k-- > 0;) {
            umbra_task_join(&it[k].task, UMBRA_NEVER);
            MUST(it[k].runs == 1);
        }
    }
    return 0;
}

static void counts(size_t begin, size_t end, void *arg)
{
    __atomic_fetch_add((size_t *)arg, end - begin, __ATOMIC_RELAXED);
}

static int loops(void)
{
    size_t sum = 0;

    for (int i = 0; i < 100; i++)
        umbra_parallel_for(0, 1000, 1, counts, &sum);
    MUST(sum == 100 * 1000);
    return 0;
}

static int spawns_elsewhere(void)
{
    struct umbra_spawn_options places[] = {
        {.where = UMBRA_ON_CORE, .core = 1}, {.where = UMBRA_ANYWHERE}, {.where = UMBRA_HERE}};

    for (int i = 0; i < 3; i++) {
        int error = 0;

        for (int few = 0; few < LIVE && error == 0; few++) /* the core may have kept some */
            error = umbra_spawn_with(scarce, &places[i], waits_to_go, NULL, NULL);
        MUST(error == -ENOMEM);
    }
    return 0;
}

static int makes_a_dispatcher(void)
{
    size_t sum = 0;
    struct umbra_dispatch_options options = {.fn = adds, .arg = &sum};
    struct umbra_dispatch *dispatch;

    MUST(umbra_dispatch_create(scarce, &options, &dispatch) == -ENOMEM);
    return 0;
}

static int touches(void)
{
    char bytes[4096];
    struct umbra_memory memory = {.at = bytes, .bytes = sizeof(bytes)};

    MUST(umbra_memory_touch(scarce_nodes, &memory) == -ENOMEM);
    return 0;
}

/* Its first helper's thread needs a stack. */
static int calls_without_a_helper(void)
{
    int done = 0;
    int error = umbra_blocking(sets, &done);

    MUST(done ? error == 0 : error == -EAGAIN || error == -ENOMEM);
    return 0;
}

static const struct starved {
    const char *name;
    int (*use)(void);
    bool by_a_thread; /* as well as by a fiber */
} starved[] = {
    {"a started task is joined", starts_and_joins, true},
    {"a started task is joined until a time", starts_and_joins_until, true},
    {"a started task is joined without any memory", joins_without_any_memory, true},
    {"the last started task is joined first", starts_and_joins_backwards, true},
    {"forked tasks are joined", forks_and_joins, true},
    {"loops", loops, true},
    {"spawns", spawns_elsewhere, true},
    {"a dispatcher", makes_a_dispatcher, false},
    {"memory is touched", touches, false},
    {"a blocking call", calls_without_a_helper, false},
};

#define STARVED ((int)(sizeof(starved) / sizeof(starved[0])))

static struct umbra_event begin = UMBRA_EVENT_INIT;
static struct umbra_event ended = UMBRA_EVENT_INIT;

static void *starves(void *arg)
{
    umbra_event_wait(&begin, UMBRA_NEVER);
    failed = ((const struct starved *)arg)->use();
    umbra_event_signal(&ended);
    return NULL;
}

/* Leaves no core memory for a fiber: refuses to map more, and makes fibers of what there is. */
static void use_up_memory(void)
{
    const struct refused map = {SYS_mmap, 0, ANY_VALUE, ENOMEM};

    refuse(&map);
    for (unsigned core = 0; core < umbra_runtime_cores(scarce); core++) {
        struct umbra_spawn_options there = on_core(core);

        while (umbra_spawn_with(scarce, &there, waits_to_go, NULL, NULL) == 0)
            ;
    }
}

/* The exit status of a child whose cores have no memory for a fiber. */
static int goes_on(const struct starved *row, unsigned cores, bool thread)
{
    struct umbra_options options = {.cores = cores, .oversubscribe = true, .quiet = true};
    struct umbra_spawn_options first = on_core(0);
    int status = 0;
    pid_t pid = fork();

    cr_assert_geq(pid, 0);
    if (pid == 0) {
        alarm(ENDS_IN_S);
        if (umbra_runtime_create(&options, &scarce) != 0 ||
            umbra_nodes_create(scarce, &scarce_nodes) != 0 ||
            umbra_spawn_with(scarce, &first, starves, (void *)(uintptr_t)row, NULL) != 0)
            _exit(1);
        use_up_memory();
        if (thread) {
            failed = row->use();
        } else {
            umbra_event_signal(&begin);
            while (umbra_event_wait(&ended, UMBRA_NEVER) ==
                   -ENOMEM) /* the row may have used up all */
                sched_yield();
        }
        if (failed != 0)
            fprintf(stderr, "%s: line %d\n", row->name, failed);
        _exit(failed != 0);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

Test(refusal, without_memory_for_a_fiber_no_wait_is_for_ever, .timeout = 300)
{
    for (int i = 0; i < STARVED; i++)
        for (int way = 0; way < 4; way++) {
            unsigned cores = 1 + (unsigned)way % 2;
            bool thread = way >= 2;
            int status = 0;

            if ((thread && !starved[i].by_a_thread) ||
                (cores < 2 && starved[i].use == spawns_elsewhere))
                continue;
            status = goes_on(&starved[i], cores, thread);
            if (status == SKIPPED)
                cr_skip_test("no seccomp filters here");
            cr_expect_eq(status, 0, "%s, %u cores, in a %s: %d", starved[i].name, cores,
                         thread ? "thread" : "fiber", status);
        }
}

/* ---- no memory for a thread's first wait ---- */

static struct umbra_mutex mutex = UMBRA_MUTEX_INIT;
static struct umbra_rwlock rwlock = UMBRA_RWLOCK_INIT;
static _Atomic bool held;

static void lock_mutex(void)
{
    umbra_mutex_lock(&mutex);
}

static void unlock_mutex(void)
{
    umbra_mutex_unlock(&mutex);
}

static void lock_to_read(void)
{
    umbra_rwlock_read(&rwlock);
}

static void lock_to_write(void)
{
    umbra_rwlock_write(&rwlock);
}

static void unlock_rwlock(void)
{
    umbra_rwlock_unlock(&rwlock);
}

static const struct lock {
    const char *name;
    void (*hold)(void); /* for a moment, meanwhile the other thread takes it */
    void (*take)(void);
    void (*give)(void);
} locks[] = {
    {"mutex", lock_mutex, lock_mutex, unlock_mutex},
    {"read", lock_to_write, lock_to_read, unlock_rwlock},
    {"write", lock_to_read, lock_to_write, unlock_rwlock},
};

static void *holds_for_a_moment(void *arg)
{
    const struct lock *lock = arg;

    lock->hold();
    held = true;
    umbra_sleep_ns(20 * MS);
    held = false;
    lock->give();
    return NULL;
}

/* Exits with 0 if the lock is had when the holder has given it up, not before. */
static void lock_without_memory(const struct lock *lock)
{
    const struct rlimit none = {0, 0};
    const struct refused map = {SYS_mmap, 0, ANY_VALUE, ENOMEM};
    pthread_t holder;

    alarm(ENDS_IN_S);
    if (pthread_create(&holder, NULL, holds_for_a_moment, (void *)(uintptr_t)lock) != 0)
        _exit(1);
    while (!held)
        sched_yield();
    setrlimit(RLIMIT_DATA, &none);
    refuse(&map);
    for (void *volatile lost = &holder; lost;)
        lost = malloc(64);
    lock->take();
    _exit(held ? 2 : 0);
}

Test(refusal, a_lock_without_a_deadline_is_had_without_memory_to_wait)
{
    for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++) {
        int status = 0;
        pid_t pid = fork();

        cr_assert_geq(pid, 0);
        if (pid == 0)
            lock_without_memory(&locks[i]);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
            cr_skip_test("no seccomp filters here");
        cr_expect_eq(status, 0, "%s: %#x", locks[i].name, (unsigned)status);
    }
}

#endif

#else

Test(refusal, what_is_refused_later_is_done_another_way)
{
    cr_skip_test("the POSIX form asks for nothing that can be refused");
}

#endif
