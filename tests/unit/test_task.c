/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include "fibers.h"

#include <sched.h>
#include <string.h>
#include <sys/resource.h>

/* ---- fork and join ---- */

struct fib {
    struct umbra_task task;
    int n;
    bool inlined; /* by umbra_task_join_with */
    long result;
};

static void fib(void *arg)
{
    struct fib *self = arg;
    struct fib one = {.n = self->n - 1, .inlined = self->inlined};
    struct fib two = {.n = self->n - 2, .inlined = self->inlined};

    self->result = self->n;
    if (self->n < 2)
        return;
    umbra_task_fork(&two.task, fib, &two);
    fib(&one);
    if (self->inlined)
        umbra_task_join_with(&two.task, fib, &two);
    else
        umbra_task_join(&two.task, UMBRA_NEVER);
    self->result = one.result + two.result;
}

static void *fib_fiber(void *arg)
{
    fib(arg);
    return NULL;
}

Test(task, fork_and_join_compute_fib_on_any_number_of_cores)
{
    for (unsigned cores = 1; cores <= 4; cores++) {
        struct fib joined = {.n = 22};
        struct fib inlined = {.n = 22, .inlined = true};

        cr_assert_eq(run_cores(cores, fib_fiber, &joined), 0);
        cr_assert_eq(run_cores(cores, fib_fiber, &inlined), 0);
        cr_assert_eq(joined.result, 17711);
        cr_assert_eq(inlined.result, 17711);
    }
}

#define MANY 1000

struct count {
    struct umbra_task task;
    int runs;
};

static void count(void *arg)
{
    ((struct count *)arg)->runs++;
}

static struct count counts[MANY];

/* Forks many, and joins them in steps of `step`, which has no divisor in common with MANY. */
static void in_steps(size_t step)
{
    memset(counts, 0, sizeof(counts));
    for (size_t i = 0; i < MANY; i++)
        umbra_task_fork(&counts[i].task, count, &counts[i]);
    for (size_t i = 0; i < MANY; i++) {
        struct count *joined = &counts[i * step % MANY];

        umbra_task_join(&joined->task, UMBRA_NEVER);
        cr_expect_eq(joined->runs, 1);
    }
    for (size_t i = 0; i < MANY; i++)
        cr_expect_eq(counts[i].runs, 1);
}

static void *any_order(void *arg)
{
    for (int i = 0; i < 20; i++) {
        in_steps(1);   /* the oldest first */
        in_steps(999); /* then the newest first */
        in_steps(7);
        in_steps(501);
    }
    return arg;
}

Test(task, tasks_may_be_joined_in_any_order)
{
    for (unsigned cores = 1; cores <= 3; cores++)
        cr_assert_eq(run_cores(cores, any_order, NULL), 0);
}

static struct count interleaved[8][50];

static void *forks_and_yields(void *arg)
{
    struct count *mine = interleaved[(uintptr_t)arg];

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 50; i++) {
            mine[i].runs = 0;
            umbra_task_fork(&mine[i].task, count, &mine[i]);
            if (i % 7 == (int)(uintptr_t)arg)
                umbra_yield();
        }
        for (int i = 49; i >= 0; i--) {
            umbra_task_join(&mine[i].task, UMBRA_NEVER);
            cr_expect_eq(mine[i].runs, 1);
            if (i % 5 == (int)(uintptr_t)arg)
                umbra_yield();
        }
    }
    return NULL;
}

static void *several_fibers(void *arg)
{
    struct umbra_fiber fiber[8];

    for (uintptr_t i = 0; i < 8; i++)
        cr_expect_eq(umbra_spawn(forks_and_yields, (void *)i, &fiber[i]), 0);
    for (int i = 0; i < 8; i++)
        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(task, fibers_of_a_core_may_fork_and_join_in_turns)
{
    for (unsigned cores = 1; cores <= 3; cores++)
        cr_assert_eq(run_cores(cores, several_fibers, NULL), 0);
}

/* ---- idle cores ---- */

struct place {
    struct umbra_task task;
    _Atomic int began; /* order, from 1 */
    _Atomic int *order;
    _Atomic int *go;
    int core;
};

static void says_where(void *arg)
{
    struct place *self = arg;

    self->core = umbra_core_index();
    self->began = ++*self->order;
    until(self->go);
}

static void *forks_three(void *arg)
{
    struct place place[3];
    _Atomic int order = 0;
    _Atomic int go = 0;

    for (int i = 0; i < 3; i++) {
        place[i] = (struct place){.order = &order, .go = &go};
        umbra_task_fork(&place[i].task, says_where, &place[i]);
    }
    while (!place[0].began) /* not by umbra_yield, which would let it run here */
        sched_yield();
    cr_expect_eq(place[0].began, 1, "the oldest is taken first");
    cr_expect_eq(place[0].core, 1);
    go = 1;
    for (int i = 2; i >= 0; i--)
        umbra_task_join(&place[i].task, UMBRA_NEVER);
    return arg;
}

Test(task, an_idle_core_takes_the_oldest_task)
{
    for (int i = 0; i < 20; i++)
        cr_assert_eq(run_cores(2, forks_three, NULL), 0);
}

static void *forks_when_all_sleep(void *arg)
{
    umbra_sleep_ns(20 * MS);
    forks_three(arg);
    umbra_sleep_ns(20 * MS);
    return forks_three(arg);
}

Test(task, a_fork_wakes_a_core_that_sleeps)
{
    cr_assert_eq(run_cores(2, forks_when_all_sleep, NULL), 0);
}

struct meeting {
    struct umbra_task task;
    struct umbra_event *waits;
    struct umbra_event *signals;
};

static void meets(void *arg)
{
    struct meeting *self = arg;

    if (self->waits)
        cr_expect_eq(umbra_event_wait(self->waits, UMBRA_NEVER), 0);
    if (self->signals)
        umbra_event_signal(self->signals);
}

static void *waits_for_its_task(void *arg)
{
    struct umbra_event came = UMBRA_EVENT_INIT;
    struct umbra_event went = UMBRA_EVENT_INIT;
    struct umbra_event back = UMBRA_EVENT_INIT;
    struct meeting first = {.signals = &came};
    struct meeting second = {.waits = &went, .signals = &back};

    umbra_task_fork(&first.task, meets, &first);
    umbra_task_fork(&second.task, meets, &second);
    cr_expect_eq(umbra_event_wait(&came, UMBRA_NEVER), 0);
    umbra_event_signal(&went);
    cr_expect_eq(umbra_event_wait(&back, UMBRA_NEVER), 0);
    umbra_task_join(&second.task, UMBRA_NEVER);
    umbra_task_join(&first.task, UMBRA_NEVER);
    return arg;
}

Test(task, what_a_blocked_fiber_has_forked_runs_on_its_core)
{
    cr_assert_eq(run_cores(1, waits_for_its_task, NULL), 0);
    cr_assert_eq(run_cores(2, waits_for_its_task, NULL), 0);
}

static void *joins_blocked_tasks(void *arg)
{
    struct umbra_event event[10];
    struct meeting meeting[10];

    for (int i = 0; i < 10; i++) { /* each is released by the one that is joined before it */
        event[i] = (struct umbra_event)UMBRA_EVENT_INIT;
        meeting[i] = (struct meeting){.waits = &event[i], .signals = i > 0 ? &event[i - 1] : NULL};
        umbra_task_fork(&meeting[i].task, meets, &meeting[i]);
        umbra_yield();
    }
    umbra_event_signal(&event[9]);
    for (int i = 9; i >= 0; i--)
        umbra_task_join(&meeting[i].task, UMBRA_NEVER);
    return arg;
}

Test(task, a_task_may_block)
{
    for (unsigned cores = 1; cores <= 3; cores++)
        cr_assert_eq(run_cores(cores, joins_blocked_tasks, NULL), 0);
}

static _Atomic int woke;

static void *sleeps(void *arg)
{
    umbra_sleep_ns((uintptr_t)arg);
    woke = 1;
    return NULL;
}

static void signals_unless_woken(void *arg)
{
    cr_expect_eq(woke, 0);
    umbra_event_signal(arg);
}

static void *waits_beside_a_sleeper(void *arg)
{
    struct umbra_event done = UMBRA_EVENT_INIT;
    struct umbra_task task;

    cr_expect_eq(umbra_spawn(sleeps, (void *)(uintptr_t)SECOND, NULL), 0);
    umbra_yield();
    umbra_task_fork(&task, signals_unless_woken, &done);
    cr_expect_eq(umbra_event_wait(&done, UMBRA_NEVER), 0);
    umbra_task_join(&task, UMBRA_NEVER);
    return arg;
}

Test(task, a_core_takes_tasks_while_fibers_sleep)
{
    cr_assert_eq(run_cores(1, waits_beside_a_sleeper, NULL), 0);
}

/* Sanitizers need all the addresses; and a heap, where stacks come from without mmap, has reserves. */
#if !defined(UMBRA_UNDER_TSAN) && !defined(UMBRA_UNDER_ASAN) && !defined(UMBRA_POSIX_ONLY)
#define FIBERS_AT_FIRST 16 /* that a core has memory for */

static struct umbra_event leave = UMBRA_EVENT_INIT_MANUAL;

static void *blocks(void *arg)
{
    umbra_event_wait(&leave, UMBRA_NEVER);
    return arg;
}

static void *has_no_memory(void *arg)
{
    struct umbra_event done = UMBRA_EVENT_INIT;
    struct meeting signals = {.signals = &done};
    struct rlimit before;
    struct rlimit none;

    getrlimit(RLIMIT_AS, &before);
    none = before;
    none.rlim_cur = 1 << 20; /* less than there is already: no more */
    cr_expect_eq(umbra_spawn(sleeps, (void *)(uintptr_t)(20 * MS), NULL), 0);
    for (int i = 2; i < FIBERS_AT_FIRST; i++)
        cr_expect_eq(umbra_spawn(blocks, NULL, NULL), 0);
    umbra_yield();
    umbra_task_fork(&signals.task, meets, &signals);
    cr_expect_eq(setrlimit(RLIMIT_AS, &none), 0);
    cr_expect_eq(umbra_event_wait(&done, UMBRA_NEVER), 0);
    setrlimit(RLIMIT_AS, &before);
    cr_expect_eq(woke, 1, "there was memory for a fiber after all");
    umbra_task_join(&signals.task, UMBRA_NEVER);
    umbra_event_signal(&leave);
    return arg;
}

Test(task, without_memory_for_a_fiber_a_task_waits_until_there_is)
{
    /* stacks so large that what is left of other memory is not enough for any */
    struct umbra_options options = {.cores = 1, .stack_bytes = 1 << 20};

    if (under_valgrind)
        cr_skip_test("Valgrind itself ends where it gets no memory");
    cr_assert_eq(umbra_run(&options, has_no_memory, NULL), 0);
}
#endif

static void *never_joined(void *arg)
{
    struct umbra_event never = UMBRA_EVENT_INIT;
    struct meeting meeting = {.waits = &never};

    umbra_task_fork(&meeting.task, meets, &meeting);
    umbra_task_join(&meeting.task, UMBRA_NEVER);
    return arg;
}

Test(task, a_task_that_waits_for_ever_is_a_deadlock)
{
    cr_assert_eq(run_cores(1, never_joined, NULL), -EDEADLK);
    cr_assert_eq(run_cores(2, never_joined, NULL), -EDEADLK);
}

/* ---- threads that are no core ---- */

Test(task, a_thread_runs_what_it_forks)
{
    struct fib self = {.n = 15};
    struct count once = {.runs = 0};

    umbra_task_fork(&once.task, count, &once);
    cr_assert_eq(once.runs, 1);
    umbra_task_join(&once.task, UMBRA_NEVER);
    cr_assert_eq(once.runs, 1);
    fib(&self);
    cr_assert_eq(self.result, 610);
}

static void naps(void *arg)
{
    umbra_sleep_ns(MS);
    count(arg);
}

Test(task, a_thread_may_start_tasks_and_join_them)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};
    struct umbra_runtime *runtime;
    struct fib started[10];
    struct count slow = {.runs = 0};

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    for (int i = 0; i < 10; i++) {
        started[i] = (struct fib){.n = 15};
        cr_assert_eq(umbra_task_start(runtime, &started[i].task, fib, &started[i]), 0);
    }
    cr_assert_eq(umbra_task_start(runtime, &slow.task, naps, &slow), 0);
    umbra_task_join(&slow.task, UMBRA_NEVER);
    cr_assert_eq(slow.runs, 1);
    for (int i = 0; i < 10; i++) {
        umbra_task_join(&started[i].task, UMBRA_NEVER);
        cr_assert_eq(started[i].result, 610);
    }
    cr_assert_eq(umbra_runtime_wait(runtime), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

#define STARTERS 3
#define ROW 400

/* A thread that starts a row of tasks, and joins them. */
struct starter {
    struct umbra_runtime *runtime;
    struct count task_counts[ROW];
    struct umbra_task task[ROW];
};

static void *starts_a_row(void *arg)
{
    struct starter *starter = arg;

    for (int i = 0; i < ROW; i++)
        cr_expect_eq(
            umbra_task_start(starter->runtime, &starter->task[i], count, &starter->task_counts[i]),
            0);
    for (int i = 0; i < ROW; i++)
        umbra_task_join(&starter->task[i], UMBRA_NEVER);
    return NULL;
}

static _Atomic int rows_have_ended;

static void *yields_until_rows_have_ended(void *arg)
{
    while (!rows_have_ended)
        umbra_yield();
    return arg;
}

Test(task, rows_from_several_threads_run_once_each_beside_fibers_that_yield)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};
    static struct starter starter[STARTERS];
    struct umbra_runtime *runtime;
    pthread_t thread[STARTERS];

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    for (unsigned core = 0; core < 2; core++)
        cr_assert_eq(
            umbra_spawn_with(runtime,
                             &(struct umbra_spawn_options){.where = UMBRA_ON_CORE, .core = core},
                             yields_until_rows_have_ended, NULL, NULL),
            0);
    for (int i = 0; i < STARTERS; i++) {
        starter[i].runtime = runtime;
        cr_assert_eq(pthread_create(&thread[i], NULL, starts_a_row, &starter[i]), 0);
    }
    for (int i = 0; i < STARTERS; i++)
        pthread_join(thread[i], NULL);
    rows_have_ended = 1;
    for (int i = 0; i < STARTERS; i++)
        for (int n = 0; n < ROW; n++)
            cr_assert_eq(starter[i].task_counts[n].runs, 1);
    cr_assert_eq(umbra_runtime_wait(runtime), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

Test(task, a_start_needs_a_runtime)
{
    struct umbra_task task;

    cr_expect_eq(umbra_task_start(NULL, &task, count, NULL), -EPERM);
}

/* ---- joins with a deadline ---- */

struct patient {
    struct umbra_task task;
    struct umbra_event go;
    _Atomic int begun;
    int runs;
};

static void is_patient(void *arg)
{
    struct patient *patient = arg;

    patient->begun = 1;
    umbra_event_wait(&patient->go, UMBRA_NEVER);
    patient->runs++;
}

/* Forks the task; returns when another fiber runs it. */
static void fork_patient(struct patient *patient)
{
    struct umbra_fiber fiber;

    patient->go = (struct umbra_event)UMBRA_EVENT_INIT;
    umbra_task_fork(&patient->task, is_patient, patient);
    while (!patient->begun) { /* a core that sleeps lets its tasks be taken */
        umbra_sleep_ns(MS / 10);
        if (umbra_spawn(fib_fiber, &(struct fib){.n = 1}, &fiber) == 0)
            umbra_join(fiber, UMBRA_NEVER, NULL);
    }
}

static void *joins_in_time(void *arg)
{
    struct patient patient = {.runs = 0};

    fork_patient(&patient);
    cr_expect_eq(umbra_task_join(&patient.task, 0), -ETIMEDOUT);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(umbra_task_join(&patient.task, umbra_deadline(MS)), -ETIMEDOUT);
    umbra_event_signal(&patient.go);
    cr_expect_eq(umbra_task_join(&patient.task, umbra_deadline(10 * SECOND)), 0);
    cr_expect_eq(patient.runs, 1);
    patient.begun = 0;
    fork_patient(&patient);
    cr_expect_eq(umbra_task_join(&patient.task, umbra_deadline(MS)), -ETIMEDOUT);
    umbra_event_signal(&patient.go);
    umbra_task_join(&patient.task, UMBRA_NEVER);
    cr_expect_eq(patient.runs, 2);
    return arg;
}

Test(task, a_join_that_gives_up_leaves_the_task_to_be_joined_again)
{
    for (unsigned cores = 1; cores <= 2; cores++)
        cr_assert_eq(run_cores(cores, joins_in_time, NULL), 0);
}

static void *joins_what_has_not_begun(void *arg)
{
    struct fib task = {.n = 10};

    umbra_task_fork(&task.task, fib, &task);
    cr_expect_eq(umbra_task_join(&task.task, 0), 0);
    cr_expect_eq(task.result, 55);
    return arg;
}

Test(task, a_join_runs_what_has_not_begun_whatever_its_deadline)
{
    cr_assert_eq(run_cores(1, joins_what_has_not_begun, NULL), 0);
    joins_what_has_not_begun(NULL);
}

Test(task, a_thread_may_join_with_a_deadline)
{
    struct umbra_options options = {.cores = 1, .oversubscribe = true, .quiet = true};
    struct umbra_runtime *runtime;
    struct patient patient = {.go = UMBRA_EVENT_INIT};

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    umbra_hold(runtime);
    cr_assert_eq(umbra_task_start(runtime, &patient.task, is_patient, &patient), 0);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(umbra_task_join(&patient.task, umbra_deadline(MS)), -ETIMEDOUT);
    umbra_event_signal(&patient.go);
    cr_assert_eq(umbra_task_join(&patient.task, umbra_deadline(10 * SECOND)), 0);
    cr_assert_eq(patient.runs, 1);
    umbra_release(runtime);
    cr_assert_eq(umbra_runtime_wait(runtime), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

static void *joins_canceled(void *arg)
{
    struct patient *patient = arg;

    fork_patient(patient);
    umbra_cancel(umbra_self());
    cr_expect_eq(umbra_task_join(&patient->task, umbra_deadline(60 * SECOND)), -ECANCELED);
    umbra_event_signal(&patient->go);
    umbra_task_join(&patient->task, UMBRA_NEVER);
    cr_expect_eq(patient->runs, 1);
    return NULL;
}

Test(task, a_fiber_that_is_canceled_ends_its_join_with_a_deadline)
{
    struct patient patient = {.runs = 0};

    cr_assert_eq(run_cores(1, joins_canceled, &patient), 0);
}

#define HASTY 500

struct hasty {
    struct umbra_task task;
    unsigned pauses;
    int runs;
};

static void takes_some_time(void *arg)
{
    struct hasty *hasty = arg;

    for (unsigned i = 0; i < hasty->pauses; i++)
        umbra_pause();
    hasty->runs++;
}

/* Deadlines about as long as the tasks take. */
static void *is_hasty(void *arg)
{
    struct umbra_runtime *runtime = arg;
    unsigned random = 1;

    for (int i = 0; i < HASTY; i++) {
        struct hasty hasty = {.runs = 0};
        int error;

        random = random * 1664525u + 1013904223u;
        hasty.pauses = random >> 22;
        cr_expect_eq(umbra_task_start(runtime, &hasty.task, takes_some_time, &hasty), 0);
        do
            error = umbra_task_join(&hasty.task, umbra_deadline(random >> 18));
        while (error == -ETIMEDOUT);
        cr_expect_eq(error, 0);
        cr_expect_eq(hasty.runs, 1);
    }
    return NULL;
}

Test(task, joins_whose_deadline_comes_with_the_end)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true, .quiet = true};
    struct umbra_spawn_options there = on_core(1);
    struct umbra_runtime *runtime;
    struct umbra_fiber fiber;

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_spawn_with(runtime, &there, is_hasty, runtime, &fiber), 0);
    is_hasty(runtime);
    cr_assert_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

/* ---- ranges ---- */

#define RANGE 100000

static _Atomic unsigned char seen[RANGE];
static size_t longest; /* part; 0: any */

static void sees(size_t begin, size_t end, void *arg)
{
    cr_expect(begin < end && end <= RANGE);
    cr_expect(longest == 0 || end - begin <= longest);
    for (size_t i = begin; i < end; i++)
        atomic_fetch_add((_Atomic unsigned char *)arg + i, 1);
}

static void *all_grains(void *arg)
{
    static const size_t grains[] = {0, 1, 7, 1000, RANGE};

    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < sizeof(grains) / sizeof(*grains); i++) {
            memset((void *)seen, 0, sizeof(seen));
            longest = grains[i];
            umbra_parallel_for(3, RANGE, grains[i], sees, (void *)seen);
            for (size_t at = 0; at < RANGE; at++)
                cr_expect_eq(seen[at], at >= 3, "%zu", at);
        }
        umbra_parallel_for(5, 5, 0, sees, NULL);
    }
    return arg;
}

Test(task, a_parallel_for_does_everything_once)
{
    for (unsigned cores = 1; cores <= 3; cores++)
        cr_assert_eq(run_cores(cores, all_grains, NULL), 0);
    all_grains(NULL);
}

static void counts_parts(size_t begin, size_t end, void *arg)
{
    (void)begin;
    (void)end;
    atomic_fetch_add((_Atomic uint64_t *)arg, 1);
}

/* A loop of nothing is faster on one core, which the core finds out. */
static void *short_loops(void *arg)
{
    enum { LOOPS = 20000 }; /* so that the trials are few among them */

    for (int i = 0; i < LOOPS; i++)
        umbra_parallel_for(0, 64, 0, counts_parts, arg);
    cr_expect_lt(*(_Atomic uint64_t *)arg, LOOPS * 2, "%g parts a loop",
                 (double)*(_Atomic uint64_t *)arg / LOOPS);
    return arg;
}

Test(task, a_short_loop_without_a_grain_is_run_whole)
{
    static _Atomic uint64_t parts;

#if defined(UMBRA_UNDER_TSAN) || defined(UMBRA_UNDER_COVERAGE)
    cr_skip_test("instrumentation, not the loop, decides here which way is faster");
#endif
    if (under_valgrind)
        cr_skip_test("Valgrind executes one thread at a time: no way is the faster one");
    cr_assert_eq(run_cores(2, short_loops, (void *)&parts), 0);
}

/* A site that hears these times, the limit being 100; returns how many loops were run whole. */
static unsigned hears(struct um_history *site, unsigned loops, uint64_t divided, uint64_t whole)
{
    unsigned count = 0;

    for (unsigned i = 0; i < loops; i++) {
        bool is_whole = um_history_next(site);

        count += is_whole;
        if (um_history_timed(site))
            um_history_hear(site, is_whole ? whole : divided, 100);
    }
    return count;
}

#define TRIAL (UM_HISTORY_WARM + 2 * UM_HISTORY_TIMES)

Test(task, a_site_takes_the_way_that_was_faster)
{
    struct um_history fast = {.key = 1, .interval = UM_HISTORY_NEAR};
    struct um_history slow = fast;

    hears(&fast, TRIAL, 30, 20);
    cr_expect_eq(hears(&fast, UM_HISTORY_NEAR, 30, 20), UM_HISTORY_NEAR);
    hears(&slow, TRIAL, 20, 30);
    cr_expect_eq(hears(&slow, UM_HISTORY_NEAR, 20, 30), 0);
}

Test(task, a_site_leaves_the_whole_way_for_loops_that_became_long)
{
    struct um_history site = {.key = 1, .interval = UM_HISTORY_NEAR};

    hears(&site, TRIAL, 30, 20);
    hears(&site, UM_HISTORY_LOOK, 30, 101); /* one: an interruption */
    cr_expect_eq(hears(&site, UM_HISTORY_LOOK, 30, 20), UM_HISTORY_LOOK);
    hears(&site, 2 * UM_HISTORY_LOOK, 30, 101); /* two in a row */
    cr_expect_eq(hears(&site, UM_HISTORY_LOOK, 30, 101), 0);
}

static void inner(size_t begin, size_t end, void *arg)
{
    for (size_t i = begin; i < end; i++)
        umbra_parallel_for(i * 100, (i + 1) * 100, 0, sees, arg);
}

static void *nests(void *arg)
{
    longest = 0;
    umbra_parallel_for(0, RANGE / 100, 1, inner, (void *)seen);
    return arg;
}

Test(task, a_parallel_for_may_be_inside_another)
{
    cr_assert_eq(run_cores(3, nests, NULL), 0);
    for (size_t at = 0; at < RANGE; at++)
        cr_assert_eq(seen[at], 1);
}

/* x -> a x + b modulo 2^64: composition is associative and not commutative. */
struct affine {
    uint64_t a, b;
};

static void affine_begin(void *value, void *arg)
{
    (void)arg;
    *(struct affine *)value = (struct affine){1, 0};
}

static void affine_join(void *value, const void *right, void *arg)
{
    struct affine *f = value;
    const struct affine *g = right;

    (void)arg;
    *f = (struct affine){g->a * f->a, g->a * f->b + g->b};
}

static void affine_range(size_t begin, size_t end, void *value, void *arg)
{
    for (size_t i = begin; i < end; i++) {
        struct affine next = {2 * i + 1, i};

        affine_join(value, &next, arg);
    }
}

static const struct umbra_reduction compose = {
    .bytes = sizeof(struct affine),
    .begin = affine_begin,
    .range = affine_range,
    .join = affine_join,
};

static void *reduces(void *arg)
{
    struct umbra_reduction large = compose;
    struct affine expected;
    struct affine value;

    affine_begin(&expected, NULL);
    affine_range(0, 3 * RANGE, &expected, NULL);
    for (size_t grain = 0; grain < 3; grain++) {
        memset(&value, 0, sizeof(value));
        cr_expect_eq(umbra_parallel_reduce(0, 3 * RANGE, grain, &compose, NULL, &value), 0);
        cr_expect(value.a == expected.a && value.b == expected.b);
    }
    large.bytes = UMBRA_REDUCTION_BYTES + 1;
    cr_expect_eq(umbra_parallel_reduce(0, 1, 0, &large, NULL, &value), -EINVAL);
    return arg;
}

Test(task, a_reduction_joins_its_parts_in_order)
{
    for (unsigned cores = 1; cores <= 3; cores++)
        cr_assert_eq(run_cores(cores, reduces, NULL), 0);
}

/* ---- loops that are given to an idle core: core/handover.h ---- */

#define GIFTS 200           /* that other cores got, or the giver took back */
#define GIFTS_NS 2000000000 /* time for these; on busy processors there may be fewer */
#define GIFT_NS 20000000000 /* time for the first; it takes some seconds on an emulated machine */

/* Gifts of other cores. */
static uint64_t gifts_elsewhere(void)
{
    uint64_t pieces = 0;

    for (unsigned i = 0; i < um_core_self->runtime->cores; i++)
        if (i != um_core_self->index)
            pieces +=
                atomic_load(&um_core_self->runtime->core[i]->handover.word) / UM_HANDOVER_NUMBER;
    return pieces;
}

/* Calls once() until there were enough pieces, or for a while. */
static void until_given(void (*once)(void *arg), void *arg)
{
    uint64_t begin = umbra_now_ns(), pieces = 0;

    while (pieces < GIFTS &&
           umbra_now_ns() < begin + (pieces > 0 || under_valgrind ? GIFTS_NS : GIFT_NS)) {
        once(arg);
        pieces = gifts_elsewhere();
    }
    if (!under_valgrind)
        cr_expect_gt(gifts_elsewhere(), 0);
}

static void works(size_t begin, size_t end, void *arg)
{
    uint64_t until = umbra_now_ns() + 2000;

    sees(begin, end, arg);
    while (umbra_now_ns() < until)
        umbra_pause();
}

static void loops_in_twos(void *arg)
{
    memset((void *)seen, 0, 64);
    longest = 1;
    umbra_parallel_for(0, 2, 1, works, (void *)seen);
    umbra_parallel_for(2, 64, 1, sees, (void *)seen);
    for (size_t at = 0; at < 64; at++)
        cr_expect_eq(seen[at], 1);
    (void)arg;
}

static void *gives_loops(void *arg)
{
    until_given(loops_in_twos, NULL);
    return arg;
}

static atomic_bool over;

static void *keeps_its_core(void *arg)
{
    while (!atomic_load(&over))
        umbra_yield();
    return arg;
}

static void waits_for_the_other_half(size_t begin, size_t end, void *event)
{
    (void)end;
    if (begin > 0)
        umbra_event_signal(event);
    else
        cr_expect_eq(umbra_event_wait(event, umbra_deadline(10 * SECOND)), 0);
}

/* The other core has got a fiber and, while it still looked for work, may have got half of the loop. */
static void blocks_in_left_half(void *arg)
{
    struct umbra_spawn_options there = on_core(1);
    struct umbra_event event = UMBRA_EVENT_INIT;
    struct umbra_fiber fiber;

    for (int i = 0; i < 4; i++)
        umbra_parallel_for(0, 2, 1, works, (void *)seen);
    atomic_store(&over, false);
    cr_expect_eq(umbra_spawn_with(NULL, &there, keeps_its_core, NULL, &fiber), 0);
    if (um_core_self->tasks.asked && !um_tasks_shared(&um_core_self->tasks)) /* it is halved */
        umbra_parallel_for(0, 2, 1, waits_for_the_other_half, &event);
    atomic_store(&over, true);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    (void)arg;
}

static void *gives_and_blocks(void *arg)
{
    until_given(blocks_in_left_half, NULL);
    return arg;
}

Test(task, the_giver_s_core_runs_what_no_other_has_begun)
{
    cr_assert_eq(run_cores(2, gives_and_blocks, NULL), 0);
}

Test(task, a_core_that_has_nothing_to_do_is_given_half_a_loop)
{
    for (unsigned cores = 2; cores <= 4; cores++)
        cr_assert_eq(run_cores(cores, gives_loops, NULL), 0);
}

/* Blocks, on whatever core: the giver waits without a processor, and the other core has others to
 * run meanwhile. */
static void part_sleeps(size_t begin, size_t end, void *arg)
{
    works(begin, end, arg);
    if (begin == 1)
        umbra_sleep_ns(20000);
}

static void loops_that_sleep(void *arg)
{
    memset((void *)seen, 0, 2);
    umbra_parallel_for(0, 2, 1, part_sleeps, (void *)seen);
    cr_expect(seen[0] == 1 && seen[1] == 1);
    (void)arg;
}

static void *gives_sleepers(void *arg)
{
    longest = 1;
    until_given(loops_that_sleep, NULL);
    return arg;
}

static void reduces_a_few(void *arg)
{
    struct affine value;

    cr_expect_eq(umbra_parallel_reduce(0, 64, 1, &compose, NULL, &value), 0);
    cr_expect(value.a == ((struct affine *)arg)->a && value.b == ((struct affine *)arg)->b);
}

static void *gives_reductions(void *arg)
{
    struct affine expected;

    affine_begin(&expected, NULL);
    affine_range(0, 64, &expected, NULL);
    until_given(reduces_a_few, &expected);
    return arg;
}

Test(task, what_is_given_may_block_and_may_be_a_reduction)
{
    cr_assert_eq(run_cores(2, gives_sleepers, NULL), 0);
    cr_assert_eq(run_cores(2, gives_reductions, NULL), 0);
    cr_assert_eq(run_cores(4, gives_reductions, NULL), 0);
}

/* Work of a fiber that goes on while its core's handover may have been filled. */
static void *is_busy(void *arg)
{
    while (!atomic_load((_Atomic bool *)arg))
        umbra_yield();
    return NULL;
}

static void *gives_beside_fibers(void *arg)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = 1};
    _Atomic bool over = false;
    struct umbra_fiber fiber;

    for (int i = 0; i < 50; i++) {
        for (int k = 0; k < 20; k++)
            loops_in_twos(NULL);
        atomic_store(&over, false);
        cr_assert_eq(umbra_spawn_with(NULL, &there, is_busy, (void *)&over, &fiber), 0);
        for (int k = 0; k < 20; k++)
            loops_in_twos(NULL);
        atomic_store(&over, true);
        cr_assert_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    }
    return arg;
}

Test(task, a_loop_does_not_wait_for_a_core_that_has_fibers)
{
    cr_assert_eq(run_cores(2, gives_beside_fibers, NULL), 0);
}

/* ---- one core, with a task shared that nobody else can take ---- */

struct chain {
    struct umbra_event first, second, last;
};

static void first_waits(void *arg)
{
    struct chain *chain = arg;

    umbra_event_signal(&chain->first);
    umbra_event_wait(&chain->second, UMBRA_NEVER);
}

static void second_signals(void *arg)
{
    struct chain *chain = arg;

    umbra_event_signal(&chain->second);
    umbra_event_signal(&chain->last);
}

static void does_nothing(void *arg)
{
    (void)arg;
}

static void *waits_for_what_is_shared(void *arg)
{
    struct umbra_task one, two, three;
    struct chain *chain = arg;

    umbra_task_fork(&one, first_waits, chain);
    umbra_task_fork(&two, second_signals, chain);
    umbra_task_fork(&three, does_nothing, NULL);
    umbra_event_wait(&chain->first, UMBRA_NEVER); /* the core has begun the oldest */
    umbra_task_join(&three, UMBRA_NEVER);
    umbra_event_wait(&chain->last, UMBRA_NEVER); /* which only the one between signals */
    umbra_task_join(&two, UMBRA_NEVER);
    umbra_task_join(&one, UMBRA_NEVER);
    return NULL;
}

Test(task, a_core_by_itself_runs_what_it_has_shared)
{
    for (unsigned cores = 1; cores <= 2; cores++) {
        struct chain chain;

        chain.first = (struct umbra_event)UMBRA_EVENT_INIT;
        chain.second = (struct umbra_event)UMBRA_EVENT_INIT;
        chain.last = (struct umbra_event)UMBRA_EVENT_INIT;
        cr_assert_eq(run_cores(cores, waits_for_what_is_shared, &chain), 0);
    }
}

/* ---- a core that sleeps is called for what another takes of its own ---- */

struct pair {
    struct umbra_event ended;
    _Atomic bool begun; /* the second */
    bool together;
};

static void works_for_ms(void *arg)
{
    uint64_t end = umbra_now_ns() + *(const uint64_t *)arg * 1000000;

    while (umbra_now_ns() < end)
        ;
}

static void awaits_the_second(void *arg)
{
    struct pair *pair = arg;
    uint64_t end = umbra_now_ns() + UINT64_C(10000000000);

    while (!pair->begun && umbra_now_ns() < end)
        sched_yield(); /* this core runs nothing else: the second must be elsewhere */
    pair->together = pair->begun;
    umbra_event_signal(&pair->ended);
}

static void is_the_second(void *arg)
{
    ((struct pair *)arg)->begun = true;
}

static void *leaves_tasks_to_its_core(void *arg)
{
    uint64_t short_ms = 5, long_ms = 50;
    struct umbra_task elsewhere, one, two, three;
    struct pair *pair = arg;

    umbra_task_fork(&elsewhere, works_for_ms, &short_ms); /* the other core takes it */
    umbra_task_fork(&one, awaits_the_second, pair);
    umbra_task_fork(&two, is_the_second, pair);
    umbra_task_fork(&three, does_nothing, NULL);
    works_for_ms(&long_ms); /* the other core is hungry, then sleeps */
    umbra_event_wait(&pair->ended, UMBRA_NEVER);
    umbra_task_join(&three, UMBRA_NEVER);
    umbra_task_join(&two, UMBRA_NEVER);
    umbra_task_join(&one, UMBRA_NEVER);
    umbra_task_join(&elsewhere, UMBRA_NEVER);
    return NULL;
}

Test(task, a_core_that_takes_its_own_calls_another_for_the_rest)
{
    struct pair pair = {.begun = false};

    pair.ended = (struct umbra_event)UMBRA_EVENT_INIT;
    cr_assert_eq(run_cores(2, leaves_tasks_to_its_core, &pair), 0);
    cr_expect(pair.together, "the second did not begin while the first ran");
}

/* ---- limits ---- */

static struct umbra_task_counts counts_here(void)
{
    struct umbra_task_counts counts;

    umbra_task_get_counts(umbra_runtime_self(), &counts);
    return counts;
}

static void limit(const struct umbra_task_limits *limits)
{
    cr_expect_eq(umbra_task_set_limits(umbra_runtime_self(), limits), 0);
}

struct sized {
    struct count count; /* first, so that its address is this one's */
    int work;
};

/* Leaves tasks with at least 10 units of work. */
static bool chooses_long_ones(const struct umbra_task_choice *choice, void *asked)
{
    (*(int *)asked)++;
    return choice->fn == count && ((struct sized *)choice->arg)->work >= 10;
}

/* Forks one task; true if the fork ran it. Joins it. */
static bool fork_runs(int work)
{
    struct sized one = {.count = {.runs = 0}, .work = work};
    bool run;

    umbra_task_fork(&one.count.task, count, &one);
    run = one.count.runs == 1;
    umbra_task_join(&one.count.task, UMBRA_NEVER);
    cr_expect_eq(one.count.runs, 1);
    return run;
}

static void *by_each_limit(void *arg)
{
    int asked = 0;

    cr_expect(!fork_runs(10));
    limit(&(struct umbra_task_limits){.choose = chooses_long_ones, .choose_arg = &asked});
    cr_expect(fork_runs(9));
    cr_expect(!fork_runs(10));
    cr_expect_eq(asked, 2);
    limit(&(struct umbra_task_limits){.live = 1});
    cr_expect(!fork_runs(9));
    cr_expect_eq(counts_here().inlined, 1);
    limit(NULL);
    cr_expect(!fork_runs(9));
    cr_expect_eq(counts_here().called, 2);
    cr_expect_eq(counts_here().live, 0);
    return arg;
}

Test(task, fork_runs_what_a_limit_does_not_allow)
{
    cr_assert_eq(run_cores(1, by_each_limit, NULL), 0);
}

struct nested {
    struct umbra_task task;
    int left;        /* tasks within this one */
    int run_by_fork; /* of them */
};

static void nest(void *arg)
{
    struct nested *self = arg;
    struct nested inner = {.left = self->left - 1, .run_by_fork = -1};

    self->run_by_fork = 0;
    if (self->left == 0)
        return;
    umbra_task_fork(&inner.task, nest, &inner);
    self->run_by_fork = inner.run_by_fork >= 0;
    umbra_task_join(&inner.task, UMBRA_NEVER);
    self->run_by_fork += inner.run_by_fork;
}

static void *nests_with_limit(void *arg)
{
    struct nested outer = {.left = 5};

    limit(&(struct umbra_task_limits){.depth = 2});
    nest(&outer);
    cr_expect_eq(outer.run_by_fork, 3);
    return arg;
}

Test(task, tasks_below_the_depth_are_run_by_their_fork)
{
    cr_assert_eq(run_cores(1, nests_with_limit, NULL), 0);
}

#define LIVE_MOST 3

struct seen {
    _Atomic int most, forks;
};

static bool agrees(const struct umbra_task_choice *choice, void *arg)
{
    struct seen *seen = arg;
    int most = seen->most;

    seen->forks++;
    while (most < (int)choice->live &&
           !atomic_compare_exchange_weak(&seen->most, &most, (int)choice->live))
        ;
    return true;
}

static void *tree_with_limit(void *arg)
{
    struct fib joined = {.n = 16}, inlined = {.n = 16, .inlined = true};
    struct umbra_task_counts counts;
    struct seen *seen = arg;

    limit(&(struct umbra_task_limits){.live = LIVE_MOST, .choose = agrees, .choose_arg = seen});
    fib(&joined);
    fib(&inlined);
    cr_expect_eq(joined.result, 987);
    cr_expect_eq(inlined.result, 987);
    counts = counts_here();
    cr_expect_eq(counts.live, 0);
    cr_expect_gt(counts.inlined, 0);
    cr_expect_eq(counts.inlined + counts.called + counts.fibers, 2 * 1596); /* calls with n > 1 */
    cr_expect_eq(counts.called + counts.fibers, (uint64_t)seen->forks);
    return NULL;
}

Test(task, live_tasks_never_exceed_their_limit)
{
    for (unsigned cores = 1; cores <= 3; cores++) {
        struct seen seen = {.most = 0};

        cr_assert_eq(run_cores(cores, tree_with_limit, &seen), 0);
        cr_expect_lt(seen.most, LIVE_MOST);
    }
}

static void *joins_after_the_limits(void *arg)
{
    struct count granted[3] = {{.runs = 0}};
    struct count later = {.runs = 0};

    limit(&(struct umbra_task_limits){.live = 100});
    for (int i = 0; i < 3; i++)
        umbra_task_fork(&granted[i].task, count, &granted[i]);
    limit(NULL);
    umbra_task_fork(&later.task, count, &later);
    umbra_task_join_with(&later.task, count, &later);
    umbra_task_join_with(&granted[2].task, count, &granted[2]);
    umbra_task_join(&granted[0].task, UMBRA_NEVER);
    cr_expect_eq(umbra_task_join(&granted[1].task, 0), 0);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(granted[i].runs, 1);
    cr_expect_eq(later.runs, 1);
    cr_expect_eq(counts_here().live, 0);
    cr_expect_eq(counts_here().called, 3);
    cr_expect(!fork_runs(0));
    return arg;
}

Test(task, limits_may_go_before_their_tasks_are_joined)
{
    cr_assert_eq(run_cores(1, joins_after_the_limits, NULL), 0);
}

static void *tree(void *arg)
{
    for (int i = 0; i < 100; i++) {
        struct fib one = {.n = 12, .inlined = i % 2};

        fib(&one);
        cr_expect_eq(one.result, 144);
    }
    return arg;
}

static void *changes(void *arg)
{
    struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};
    struct umbra_fiber trees[4];

    for (int i = 0; i < 4; i++)
        cr_expect_eq(umbra_spawn_with(NULL, &anywhere, tree, NULL, &trees[i]), 0);
    for (int i = 0; i < 200; i++) {
        limit(i % 3 ? &(struct umbra_task_limits){.live = 1 + (uint64_t)i % 5, .depth = 4} : NULL);
        umbra_yield();
    }
    for (int i = 0; i < 4; i++)
        cr_expect_eq(umbra_join(trees[i], UMBRA_NEVER, NULL), 0);
    cr_expect_eq(counts_here().live, 0);
    return arg;
}

Test(task, limits_may_change_while_cores_fork)
{
    cr_assert_eq(run_cores(3, changes, NULL), 0);
}

static void *in_the_environment(void *arg)
{
    struct nested outer = {.left = 3};

    nest(&outer);
    cr_expect_eq(outer.run_by_fork, 2);
    return arg;
}

Test(task, limits_from_the_environment)
{
    setenv("UMBRA_TASK_LIVE", "9", 1);
    setenv("UMBRA_TASK_DEPTH", "1", 1);
    cr_assert_eq(run_cores(1, in_the_environment, NULL), 0);
    setenv("UMBRA_TASK_LIVE", "many", 1);
    cr_expect_eq(run_cores(1, in_the_environment, NULL), -EINVAL);
}

static unsigned left_key;

static void leaves_things_behind(void *unused)
{
    (void)unused;
    umbra_local_set(left_key, &left_key);
    umbra_cancel(umbra_self());
}

struct finder {
    struct umbra_task task;
    void *local;
    int slept;
};

static void finds_nothing(void *arg)
{
    struct finder *self = arg;

    self->local = umbra_local_get(left_key);
    self->slept = umbra_sleep_ns(1000);
}

/* They run one after the other in one fiber, where a core finds several. */
Test(task, that_were_started_share_no_cancellation_and_no_local_value)
{
    struct umbra_options options = {.cores = 1};
    struct umbra_runtime *runtime;
    struct umbra_task first;
    struct finder others[3] = {{.local = NULL}};

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    cr_assert_eq(umbra_local_create(NULL, &left_key), 0);
    cr_assert_eq(umbra_task_start(runtime, &first, leaves_things_behind, NULL), 0);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(umbra_task_start(runtime, &others[i].task, finds_nothing, &others[i]), 0);
    umbra_task_join(&first, UMBRA_NEVER);
    for (int i = 0; i < 3; i++) {
        umbra_task_join(&others[i].task, UMBRA_NEVER);
        cr_expect_null(others[i].local);
        cr_expect_eq(others[i].slept, 0);
    }
    umbra_runtime_destroy(runtime);
}
