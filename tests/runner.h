/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the tests in tests/unit and tests/stress are written against: Criterion, or, when
 * UMBRA_TEST_RUNNER is defined, the small runner below. Criterion 2.4.1 starts each test by
 * rebuilding its process image, which ThreadSanitizer does not survive; the runner forks instead.
 *
 * The subset of Criterion that tests may use, so that both builds stay alike:
 *   Test(suite, name [, .init = f] [, .fini = f] [, .timeout = seconds] [, .signal = n]
 *        [, .exit_code = n] [, .disabled = true] [, .description = "..."])
 *   cr_assert[_not|_null|_not_null|_fail] and cr_assert_{eq,neq,lt,leq,gt,geq},
 *   cr_assert_str_{eq,neq}, cr_assert_float_eq, cr_assert_arr_eq; the same as cr_expect_...
 *   (an expectation that fails lets the test go on); cr_skip_test(format, ...); cr_log_info
 *
 * The runner prints TAP on standard output, tests in the order of the source. Each test has its
 * own process, as in Criterion, so that state initialised once and a changed environment stay
 * with the test that caused them, and a crash is one failed test. Arguments: --list, or names or
 * beginnings of names (suite::name) to run.
 */
#ifndef UMBRA_TEST_RUNNER_H
#define UMBRA_TEST_RUNNER_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#if defined(__SANITIZE_THREAD__)
#define UMBRA_UNDER_TSAN
#elif defined(__SANITIZE_ADDRESS__)
#define UMBRA_UNDER_ASAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UMBRA_UNDER_TSAN
#elif __has_feature(address_sanitizer)
#define UMBRA_UNDER_ASAN
#endif
#endif

/* True under Valgrind; set by the test setup valgrind (tests/meson.build). */
__attribute__((unused)) static bool under_valgrind;

__attribute__((constructor)) static void runner_look_for_valgrind(void)
{
    under_valgrind = getenv("UMBRA_UNDER_VALGRIND") != NULL;
}

/*
 * For a loop without system calls on which another thread depends. Valgrind executes one thread at a
 * time, and such a loop would keep the others away for each whole time slice, some milliseconds.
 */
__attribute__((unused)) static inline void let_others_execute(void)
{
    if (under_valgrind)
        sched_yield();
}

#ifndef UMBRA_TEST_RUNNER

#include <criterion/criterion.h>

#else

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUNNER_SKIPPED = 77, RUNNER_SECONDS = 300 };

struct runner_test {
    const char *suite; /* set by Test(); the fields up to `next` belong to it */
    const char *id;    /* name without the suite */
    void (*run)(void);
    struct runner_test *next; /* in the order of the source */
    void (*init)(void);       /* runs before the test, in the test's process; may be NULL */
    void (*fini)(void);       /* runs after a test that did not fail; may be NULL */
    double timeout;           /* seconds; 0: RUNNER_SECONDS */
    int signal;               /* the signal that must end the test; 0: none */
    int exit_code;            /* the status the test must exit with */
    bool disabled;
    const char *description;
};

/* What a test's process tells the runner; in memory that both map. */
struct runner_report {
    volatile int failures;
    char skip_reason[160];
};

static struct runner_test *runner_first, **runner_last = &runner_first;
static struct runner_report *runner_report;

__attribute__((unused)) static void runner_add(struct runner_test *test)
{
    *runner_last = test;
    runner_last = &test->next;
}

/* Any thread of a test may call this: the whole test's process ends, as in Criterion. */
__attribute__((unused, format(printf, 5, 6))) static void
runner_fail(bool fatal, const char *file, int line, const char *what, const char *format, ...)
{
    va_list args;

    flockfile(stdout);
    printf("# %s:%d: %s:", file, line, what);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
    funlockfile(stdout);
    runner_report->failures++;
    if (fatal)
        _exit(1);
}

__attribute__((unused, noreturn, format(printf, 1, 2))) static void runner_skip(const char *format,
                                                                                ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(runner_report->skip_reason, sizeof(runner_report->skip_reason), format, args);
    va_end(args);
    fflush(stdout);
    _exit(RUNNER_SKIPPED);
}

#define Test(Suite, Name, ...)                                                                     \
    static void Suite##_##Name##_body(void);                                                       \
    __attribute__((constructor)) static void Suite##_##Name##_add(void)                            \
    {                                                                                              \
        static struct runner_test test = {                                                         \
            .suite = #Suite, .id = #Name, .run = Suite##_##Name##_body, __VA_ARGS__};              \
        runner_add(&test);                                                                         \
    }                                                                                              \
    static void Suite##_##Name##_body(void)

#define RUNNER_CHECK(fatal, condition, what, ...)                                                  \
    do {                                                                                           \
        if (!(condition))                                                                          \
            runner_fail(fatal, __FILE__, __LINE__, what, " " __VA_ARGS__);                         \
    } while (0)

#define RUNNER_OP(fatal, a, op, b, ...)                                                            \
    RUNNER_CHECK(fatal, (a)op(b), #a " " #op " " #b, __VA_ARGS__)
#define RUNNER_STR(fatal, a, op, b, ...)                                                           \
    RUNNER_CHECK(fatal, strcmp((a), (b)) op 0, "strings " #a " " #op " " #b, __VA_ARGS__)
#define RUNNER_FLOAT(fatal, a, b, epsilon, ...)                                                    \
    RUNNER_CHECK(fatal, fabs((double)(a) - (double)(b)) <= (epsilon), #a " ~ " #b, __VA_ARGS__)
#define RUNNER_ARR(fatal, a, b, bytes, ...)                                                        \
    RUNNER_CHECK(fatal, memcmp((a), (b), (bytes)) == 0, "memory " #a " == " #b, __VA_ARGS__)

#define cr_assert(c, ...) RUNNER_CHECK(true, c, #c, __VA_ARGS__)
#define cr_assert_not(c, ...) RUNNER_CHECK(true, !(c), "not " #c, __VA_ARGS__)
#define cr_assert_fail(...) RUNNER_CHECK(true, false, "failed", __VA_ARGS__)
#define cr_assert_null(p, ...) RUNNER_OP(true, p, ==, NULL, __VA_ARGS__)
#define cr_assert_not_null(p, ...) RUNNER_OP(true, p, !=, NULL, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) RUNNER_OP(true, a, ==, b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) RUNNER_OP(true, a, !=, b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) RUNNER_OP(true, a, <, b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) RUNNER_OP(true, a, <=, b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) RUNNER_OP(true, a, >, b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) RUNNER_OP(true, a, >=, b, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) RUNNER_STR(true, a, ==, b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...) RUNNER_STR(true, a, !=, b, __VA_ARGS__)
#define cr_assert_float_eq(a, b, e, ...) RUNNER_FLOAT(true, a, b, e, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) RUNNER_ARR(true, a, b, n, __VA_ARGS__)

#define cr_expect(c, ...) RUNNER_CHECK(false, c, #c, __VA_ARGS__)
#define cr_expect_not(c, ...) RUNNER_CHECK(false, !(c), "not " #c, __VA_ARGS__)
#define cr_expect_fail(...) RUNNER_CHECK(false, false, "failed", __VA_ARGS__)
#define cr_expect_null(p, ...) RUNNER_OP(false, p, ==, NULL, __VA_ARGS__)
#define cr_expect_not_null(p, ...) RUNNER_OP(false, p, !=, NULL, __VA_ARGS__)
#define cr_expect_eq(a, b, ...) RUNNER_OP(false, a, ==, b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) RUNNER_OP(false, a, !=, b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) RUNNER_OP(false, a, <, b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) RUNNER_OP(false, a, <=, b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...) RUNNER_OP(false, a, >, b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) RUNNER_OP(false, a, >=, b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) RUNNER_STR(false, a, ==, b, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, n, ...) RUNNER_ARR(false, a, b, n, __VA_ARGS__)

#define cr_skip_test(...) runner_skip(" " __VA_ARGS__)
#define cr_log_info(...) (printf("# " __VA_ARGS__), printf("\n"))

/* Ends by exit, not _exit, when the test passed: sanitizers report from there. */
__attribute__((noreturn)) static void runner_child(const struct runner_test *test)
{
    unsigned seconds = test->timeout > 0 ? (unsigned)ceil(test->timeout) : RUNNER_SECONDS;

    alarm(under_valgrind ? 4 * seconds : seconds); /* ten times slower, one thread at a time */
    if (test->init != NULL)
        test->init();
    test->run();
    if (test->fini != NULL)
        test->fini();
    exit(runner_report->failures != 0);
}

static void runner_explain(int status, int wanted)
{
    if (WIFSIGNALED(status))
        printf("# ended by signal %d%s\n", WTERMSIG(status),
               WTERMSIG(status) == SIGALRM ? " (took too long)" : "");
    else if (runner_report->failures == 0)
        printf("# exit status %d, not %d\n", WEXITSTATUS(status), wanted);
}

static bool runner_print(const struct runner_test *test, unsigned number, int status)
{
    bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == RUNNER_SKIPPED;
    bool passed = test->signal != 0 ? WIFSIGNALED(status) && WTERMSIG(status) == test->signal
                                    : WIFEXITED(status) && WEXITSTATUS(status) == test->exit_code;

    passed = skipped || (passed && runner_report->failures == 0);
    if (!passed)
        runner_explain(status, test->exit_code);
    printf("%sok %u - %s::%s", passed ? "" : "not ", number, test->suite, test->id);
    printf(skipped ? " # SKIP%s\n" : "%s\n", skipped ? runner_report->skip_reason : "");
    return passed;
}

static bool runner_run(const struct runner_test *test, unsigned number)
{
    int status = 0;
    pid_t child;

    memset(runner_report, 0, sizeof(*runner_report));
    fflush(stdout);
    child = fork();
    if (child == 0)
        runner_child(test);
    if (child < 0 || waitpid(child, &status, 0) != child) {
        printf("Bail out! cannot start a process\n");
        exit(1);
    }
    return runner_print(test, number, status);
}

static bool runner_wanted(const struct runner_test *test, int argc, char **argv)
{
    char name[256];
    bool any = false;

    if (test->disabled)
        return false;
    snprintf(name, sizeof(name), "%s::%s", test->suite, test->id);
    for (int i = 1; i < argc; i++)
        any |= strncmp(name, argv[i], strlen(argv[i])) == 0;
    return any || argc < 2;
}

int main(int argc, char **argv)
{
    unsigned count = 0, number = 0;
    bool passed = true;

    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (struct runner_test *t = runner_first; t != NULL; t = t->next)
            printf("%s::%s\n", t->suite, t->id);
        return 0;
    }
    runner_report = mmap(NULL, sizeof(*runner_report), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (runner_report == MAP_FAILED)
        return 1;
    for (struct runner_test *t = runner_first; t != NULL; t = t->next)
        count += runner_wanted(t, argc, argv);
    printf("1..%u\n", count);
    for (struct runner_test *t = runner_first; t != NULL; t = t->next)
        if (runner_wanted(t, argc, argv))
            passed &= runner_run(t, ++number);
    return !passed;
}

#endif
#endif
