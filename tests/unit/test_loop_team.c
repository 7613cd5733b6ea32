/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Loops of threads that are no cores: run by a team of the process, or by their callers alone
 * (umbra/task/loop_team.h). Each test has a process of its own.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <umbra.h>
#include <unistd.h>

#include <runner.h>

#define INDICES 4000
#define WORK_NS 1000 /* of an index */
#define LOOPS 60     /* of which the first have no team yet: see UM_LOOP_TEAM_NS */
#define SECOND 1000000000ull

static unsigned char done[INDICES];
static _Atomic unsigned threads; /* that have called the function */
static __thread bool counted;
static size_t longest;

static void work(uint64_t ns)
{
    uint64_t end = umbra_now_ns() + ns;

    while (umbra_now_ns() < end)
        ;
}

static void visits(size_t begin, size_t end, void *arg)
{
    (void)arg;
    if (!counted)
        atomic_fetch_add(&threads, 1);
    counted = true;
    for (size_t i = begin; i < end; i++)
        done[i]++;
    work((end - begin) * WORK_NS);
}

/* How many loops the team has run. */
static uint64_t runs(void)
{
    struct umbra_task_counts counts;

    umbra_task_get_counts(NULL, &counts);
    return counts.loops;
}

/* Loops until the team has run three, or for a while. */
static void loops(size_t grain)
{
    uint64_t before = runs();

    for (int i = 0; i < LOOPS && runs() < before + 3; i++) {
        memset(done, 0, sizeof(done));
        umbra_parallel_for(0, INDICES, grain, visits, NULL);
        for (size_t k = 0; k < INDICES; k++)
            cr_assert_eq(done[k], 1, "index %zu: %d times", k, done[k]);
    }
}

static void two_threads(void)
{
    setenv("UMBRA_THREADS", "2", 1);
}

Test(loop_team, a_loop_of_a_thread_runs_on_several_threads, .init = two_threads)
{
    cpu_set_t before, after;

    cr_assert_eq(sched_getaffinity(0, sizeof(before), &before), 0);
    /* a member that has no processor is late for many loops */
    for (uint64_t end = umbra_deadline(20 * SECOND);
         atomic_load(&threads) < 2 && umbra_now_ns() < end;)
        loops(0);
    cr_expect_geq(runs(), 3u);
    cr_expect_eq(atomic_load(&threads), 2);
    cr_assert_eq(sched_getaffinity(0, sizeof(after), &after), 0);
    cr_expect(CPU_EQUAL(&before, &after), "the caller is not bound");
}

static void measures(size_t begin, size_t end, void *arg)
{
    visits(begin, end, arg);
    if (__atomic_load_n(&longest, __ATOMIC_RELAXED) < end - begin)
        __atomic_store_n(&longest, end - begin, __ATOMIC_RELAXED);
}

Test(loop_team, no_part_is_longer_than_the_grain, .init = two_threads)
{
    loops(7);
    for (int i = 0; i < 3; i++)
        umbra_parallel_for(0, INDICES, 7, measures, NULL);
    cr_expect_eq(longest, 7);
}

static void visits_none(size_t begin, size_t end, void *arg)
{
    (void)begin, (void)end, (void)arg;
}

static void adds(size_t begin, size_t end, void *arg)
{
    *(uint64_t *)arg += end - begin;
}

/* What the caller does alone in 10 ns is faster than a run of the team, which its history tells. */
Test(loop_team, a_loop_of_nothing_is_its_callers, .init = two_threads)
{
    enum { MANY = 20000 };
    uint64_t before, sum = 0;

    loops(0);
    before = runs();
    for (int i = 0; i < MANY; i++)
        umbra_parallel_for(0, 8, 8, adds, &sum); /* no longer than its grain */
    cr_expect_eq(sum, 8 * MANY);
    cr_expect_eq(runs(), before);
    for (int i = 0; i < MANY; i++)
        umbra_parallel_for(0, 8, 0, visits_none, NULL);
    cr_expect_lt(runs() - before, MANY / 2, "%d of %d", (int)(runs() - before), MANY);
}

/* ---- reductions: the composition of x -> a x + b, which is not commutative ---- */

struct line {
    uint64_t a, b;
};

static void identity(void *value, void *arg)
{
    (void)arg;
    *(struct line *)value = (struct line){1, 0};
}

static void then(void *value, const void *right, void *arg)
{
    struct line *left = value;
    const struct line *next = right;

    (void)arg;
    *left = (struct line){left->a * next->a, left->b * next->a + next->b};
}

static void composes(size_t begin, size_t end, void *value, void *arg)
{
    for (size_t i = begin; i < end; i++) {
        struct line next = {2 * i + 3, i};

        then(value, &next, arg);
    }
    work((end - begin) * WORK_NS);
}

static const struct umbra_reduction composition = {sizeof(struct line), identity, composes, then};

Test(loop_team, a_reduction_joins_its_parts_in_order, .init = two_threads)
{
    struct line wanted, got;

    identity(&wanted, NULL);
    for (size_t i = 0; i < INDICES; i++)
        then(&wanted, &(struct line){2 * i + 3, i}, NULL);
    for (int i = 0; i < LOOPS && runs() < 5; i++) {
        cr_assert_eq(umbra_parallel_reduce(0, INDICES, i % 2 ? 0 : 11, &composition, NULL, &got),
                     0);
        cr_assert_eq(got.a, wanted.a);
        cr_assert_eq(got.b, wanted.b);
        cr_assert_eq(umbra_parallel_reduce(0, 3, 1, &composition, NULL, &got), 0);
        cr_assert_eq(got.b, (0 * 5 + 1) * 7 + 2, "fewer indices than pieces");
    }
    cr_expect_geq(runs(), 5u);
}

/* ---- callers ---- */

static _Atomic unsigned inner;

static void counts(size_t begin, size_t end, void *arg)
{
    (void)arg;
    atomic_fetch_add(&inner, (unsigned)(end - begin));
}

static void nests(size_t begin, size_t end, void *arg)
{
    visits(begin, end, arg);
    umbra_parallel_for(0, 10, 1, counts, NULL);
}

Test(loop_team, a_loop_within_a_part_is_its_callers, .init = two_threads)
{
    loops(0);
    memset(done, 0, sizeof(done));
    umbra_parallel_for(0, INDICES, 100, nests, NULL);
    for (size_t k = 0; k < INDICES; k++)
        cr_assert_eq(done[k], 1);
    cr_expect_eq(atomic_load(&inner), 10 * INDICES / 100);
}

static void sums(size_t begin, size_t end, void *arg)
{
    for (size_t i = begin; i < end; i++)
        __atomic_fetch_add((size_t *)arg, i, __ATOMIC_RELAXED);
    work((end - begin) * WORK_NS);
}

static void *thread_loops(void *arg)
{
    for (int i = 0; i < 20; i++) {
        size_t sum = 0;

        umbra_parallel_for(0, INDICES / 4, 0, sums, &sum);
        cr_expect_eq(sum, (size_t)INDICES / 4 * (INDICES / 4 - 1) / 2);
    }
    return arg;
}

Test(loop_team, threads_may_loop_at_once_and_end, .init = two_threads)
{
    for (int round = 0; round < 4; round++) {
        pthread_t thread[3];

        for (int i = 0; i < 3; i++)
            cr_assert_eq(pthread_create(&thread[i], NULL, thread_loops, NULL), 0);
        for (int i = 0; i < 3; i++)
            cr_assert_eq(pthread_join(thread[i], NULL), 0);
    }
    cr_expect_geq(runs(), 1u);
}

/* Each part would end a thread that is canceled, if that might end in the loop. */
static void may_end(size_t begin, size_t end, void *arg)
{
    pthread_testcancel();
    visits(begin, end, arg);
}

static void *is_canceled(void *returned)
{
    pthread_cancel(pthread_self());
    umbra_parallel_for(0, INDICES, 0, may_end, NULL);
    *(bool *)returned = true;
    pthread_testcancel();
    return NULL;
}

/* Else members would go on with the frame of a thread that is gone, and no loop would have the team
 * again. */
Test(loop_team, a_thread_that_is_canceled_ends_after_its_loop, .init = two_threads)
{
    for (int round = 0; round < 3; round++) { /* before there is a team, and later */
        bool returned = false;
        void *result = NULL;
        pthread_t thread;

        memset(done, 0, sizeof(done));
        cr_assert_eq(pthread_create(&thread, NULL, is_canceled, &returned), 0);
        cr_assert_eq(pthread_join(thread, &result), 0);
        cr_expect_eq(result, PTHREAD_CANCELED);
        cr_expect(returned, "round %d", round);
        for (size_t k = 0; k < INDICES; k++)
            cr_assert_eq(done[k], 1);
    }
    loops(0);
    cr_expect_geq(runs(), 3u);
}

static void member_loops(unsigned member, unsigned members, void *arg)
{
    (void)members;
    (void)arg;
    if (member == 1)
        loops(0);
}

Test(loop_team, is_not_for_members_of_other_teams, .init = two_threads)
{
    struct umbra_team_options options = {.members = 2, .parts_stay = true};
    struct umbra_team *team;

    cr_assert_eq(umbra_team_create(&options, &team), 0);
    cr_assert_eq(umbra_team_run(team, 0, member_loops, NULL), 0);
    cr_expect_eq(runs(), 0u);
    cr_assert_eq(umbra_team_destroy(team), 0);
}

static int within_openmp;

/* As an OpenMP library has it. */
int omp_in_parallel(void);
int omp_in_parallel(void)
{
    return within_openmp;
}

Test(loop_team, is_not_for_threads_of_openmp, .init = two_threads)
{
    within_openmp = 1;
    loops(0);
    cr_expect_eq(runs(), 0u);
    within_openmp = 0;
    loops(0);
    cr_expect_geq(runs(), 3u);
}

/* ---- what the user says ---- */

Test(loop_team, a_variable_says_how_many_threads)
{
    static const char *const none[] = {"0", "1", "two", "-1", "9999"};

    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
        pid_t child = fork();
        int status = -1;

        cr_assert_geq(child, 0);
        if (child == 0) {
            setenv("UMBRA_THREADS", none[i], 1);
            loops(0);
            _exit(runs() != 0 || atomic_load(&threads) != 1);
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_expect_eq(status, 0, "UMBRA_THREADS=%s", none[i]);
    }
}

/* ---- fork(2) ---- */

static void child_loops(void)
{
    pid_t child = fork();
    int status = -1;

    cr_assert_geq(child, 0);
    if (child == 0) {
        alarm(20);
        loops(0);
        _exit(um_loop_team.team == NULL);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
}

static void forks(size_t begin, size_t end, void *arg)
{
    visits(begin, end, arg);
    if (begin == 0)
        child_loops();
}

Test(loop_team, a_child_of_fork_makes_its_own, .init = two_threads)
{
#ifdef UMBRA_UNDER_TSAN
    cr_skip_test("ThreadSanitizer starts no threads after a fork of several");
#endif
    loops(0);
    child_loops();
    loops(0);
    memset(done, 0, sizeof(done));
    umbra_parallel_for(0, INDICES, 100, forks, NULL); /* also from a part */
}

/* The loop that was forked from had no team yet. */
Test(loop_team, a_child_of_the_first_loop_makes_its_own, .init = two_threads)
{
#ifdef UMBRA_UNDER_TSAN
    cr_skip_test("ThreadSanitizer starts no threads after a fork of several");
#endif
    umbra_parallel_for(0, INDICES, 0, forks, NULL);
}

Test(loop_team, a_process_may_exit_after_a_loop, .init = two_threads)
{
    loops(0);
    exit(0);
}

static _Atomic bool exiting;

static void exits(size_t begin, size_t end, void *arg)
{
    visits(begin, end, arg);
    if (!atomic_exchange(&exiting, true))
        exit(0);
    for (;;)
        pause();
}

Test(loop_team, a_process_may_exit_in_a_part, .init = two_threads)
{
    for (int i = 0; i < 8; i++) {
        pid_t child = fork();
        int status = -1;

        cr_assert_geq(child, 0);
        if (child == 0) {
            alarm(20);
            loops(0);
            umbra_parallel_for(0, INDICES, 1, exits, NULL); /* whichever thread comes first */
            _exit(1);
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_expect_eq(status, 0);
    }
}
