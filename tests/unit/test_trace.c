/* SPDX-License-Identifier: BSL-1.0 */
/* Traces and counters. Each test has a process, and an environment, of its own. */
#define _GNU_SOURCE
#include "child.h"
#include "fibers.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef UM_OS_HANDLES
#define NEEDS_FILES ((void)0)
#else
#define NEEDS_FILES cr_skip_test("this system has no files for traces")
#endif

/* ---- the file ---- */

static char file[64];

/* The runtimes that follow write a file, with this many records a core; NULL: as many as usual. */
static void wants_file(const char *records)
{
    snprintf(file, sizeof(file), "/tmp/umbra-trace.%d", (int)getpid());
    setenv("UMBRA_TRACE", "/tmp/umbra-trace.%p", 1);
    if (records)
        setenv("UMBRA_TRACE_RECORDS", records, 1);
}

/* In how many lines of the file both texts are. */
static unsigned lines(const char *one, const char *other)
{
    FILE *stream = fopen(file, "r");
    char line[1024];
    unsigned count = 0;

    while (stream && fgets(line, sizeof(line), stream))
        count += strstr(line, one) && strstr(line, other);
    if (stream)
        fclose(stream);
    return count;
}

/* The sum over all cores of a counter, as the file has it. */
static unsigned counted(const char *name)
{
    FILE *stream = fopen(file, "r");
    char line[1024], key[64];
    unsigned sum = 0;

    snprintf(key, sizeof(key), "\"%s\":", name);
    while (stream && fgets(line, sizeof(line), stream)) {
        const char *at = strstr(line, "\"cat\":\"counters\"") ? strstr(line, key) : NULL;

        sum += at ? (unsigned)strtoul(at + strlen(key), NULL, 10) : 0;
    }
    if (stream)
        fclose(stream);
    return sum;
}

#define ANY UINT32_MAX

/* True if the file has as many slices that end so, or marks, as the cores have counted: `wanted`. */
static bool agrees(const char *name, bool slice, unsigned wanted)
{
    unsigned said = counted(name), there;
    char text[64];

    snprintf(text, sizeof(text), slice ? "\"until\":\"%s\"" : "\"cat\":\"%s\"", name);
    there = lines(text, "\"args\"");
    if (there == said && (wanted == ANY || wanted == said))
        return true;
    fprintf(stderr, "%s: %u in the file, %u counted, %u wanted\n", name, there, said, wanted);
    return false;
}

static void drop_file(void)
{
    unlink(file);
}

/* ---- what is recorded ---- */

static struct umbra_event event;

static void *waits(void *arg)
{
    umbra_event_wait(&event);
    return arg;
}

static void *yields(void *arg)
{
    for (int i = 0; i < 10; i++)
        umbra_yield();
    return arg;
}

static void *transfers(void *arg)
{
    umbra_transfer(*(struct umbra_fiber *)arg);
    return NULL;
}

/* One of each; alone on one core. The waits are long enough to begin before their deadlines. */
static void *does_a_bit_of_all(void *arg)
{
    struct umbra_spawn_options named = {.name = "the \"waiter\""};
    struct umbra_fiber self = umbra_self(), fiber[4];

    umbra_event_init(&event, false);
    umbra_trace_mark("it begins", 4711);
    cr_expect_eq(umbra_spawn_with(NULL, &named, waits, NULL, &fiber[0]), 0);
    umbra_yield();
    umbra_event_signal(&event);
    cr_expect_eq(umbra_spawn(yields, NULL, &fiber[1]), 0);
    cr_expect_eq(umbra_spawn(yields, NULL, &fiber[2]), 0);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(umbra_join(fiber[i], NULL), 0);
    cr_expect_eq(umbra_spawn(transfers, &self, &fiber[3]), 0);
    cr_expect_eq(umbra_transfer(fiber[3]), 0); /* it transfers back */
    cr_expect_eq(umbra_continue(fiber[3]), 0);
    cr_expect_eq(umbra_join(fiber[3], NULL), 0);
    cr_expect_eq(umbra_sleep_ns(5000000), 0);
    cr_expect_eq(umbra_event_wait_deadline(&event, umbra_deadline(5000000)), -ETIMEDOUT);
    return arg;
}

Test(trace, the_file_has_what_was_counted_and_what_was_done)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(run_cores(1, does_a_bit_of_all, NULL), 0);
    cr_expect(agrees("spawn", false, 4));
    cr_expect(agrees("begin", false, 5)); /* and the first fiber */
    cr_expect(agrees("end", true, 5));
    cr_expect(agrees("mark", false, 1));
    cr_expect(agrees("signal", false, 1));
    cr_expect(agrees("transfer", true, 2));
    cr_expect(agrees("continue", false, 1));
    cr_expect(agrees("yield", true, ANY));
    cr_expect_geq(counted("yield"), 20);
    cr_expect(agrees("block", true, ANY));
    cr_expect(agrees("wake", false, ANY));
    cr_expect(agrees("return", false, ANY));
    cr_expect_geq(counted("return"), counted("block") + counted("transfer")); /* if it left */
    cr_expect(agrees("idle", true, ANY));
    cr_expect(agrees("busy", true, counted("idle")));
    cr_expect(agrees("run", true, ANY));
    cr_expect_eq(counted("lost"), 0);
    drop_file();
}

Test(trace, a_fiber_has_its_name_and_a_mark_its_number)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(run_cores(1, does_a_bit_of_all, NULL), 0);
    cr_expect_eq(lines("\"name\":\"the \\\"waiter\\\"\"", "\"for\":\"event\""), 1);
    cr_expect_eq(lines("\"name\":\"main\"", "\"until\":\"end\""), 1);
    cr_expect_eq(lines("\"name\":\"it begins\"", "\"value\":4711"), 1);
    drop_file();
}

static void *sleeps(void *arg)
{
    cr_expect_eq(umbra_sleep_ns(3600 * SECOND), -ECANCELED);
    return arg;
}

static void *cancels(void *arg)
{
    struct umbra_fiber fiber;

    cr_expect_eq(umbra_spawn(sleeps, NULL, &fiber), 0);
    umbra_yield();
    cr_expect_eq(umbra_cancel(fiber), 0);
    cr_expect_eq(umbra_join(fiber, NULL), 0);
    return does_a_bit_of_all(arg);
}

Test(trace, a_wait_says_how_it_ended)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(run_cores(1, cancels, NULL), 0);
    cr_expect_eq(lines("\"cat\":\"return\"", "\"ended\":\"canceled\""), 1);
    cr_expect_eq(lines("\"cat\":\"return\"", "\"ended\":\"timed out\""), 2);
    cr_expect_eq(lines("\"cat\":\"return\"", "\"ended\":\"woken\""), counted("return") - 3);
    drop_file();
}

static struct umbra_event there = UMBRA_EVENT_INIT, back = UMBRA_EVENT_INIT;

static void *answers(void *arg)
{
    for (int i = 0; i < 100; i++) {
        cr_expect_eq(umbra_event_wait(&there), 0);
        umbra_event_signal(&back);
    }
    return arg;
}

static void *calls(void *arg)
{
    struct umbra_spawn_options other = on_core(1);
    struct umbra_fiber fiber;

    cr_expect_eq(umbra_spawn_with(NULL, &other, answers, NULL, &fiber), 0);
    for (int i = 0; i < 100; i++) {
        umbra_event_signal(&there);
        cr_expect_eq(umbra_event_wait(&back), 0);
    }
    cr_expect_eq(umbra_join(fiber, NULL), 0);
    return arg;
}

/* A wait in place needs no wake-up, so the number of them is not known. */
Test(trace, each_arrow_has_two_ends)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(run_cores(2, calls, NULL), 0);
    cr_expect(agrees("signal", false, 200));
    cr_expect_eq(lines("\"ph\":\"s\"", "\"cat\":\"wake\""), counted("wake"));
    cr_expect_eq(lines("\"ph\":\"f\"", "\"cat\":\"wake\""), counted("wake"));
    cr_expect_eq(lines("\"ph\":\"s\"", "\"cat\":\"spawn\""), 1);
    cr_expect_eq(lines("\"ph\":\"f\"", "\"cat\":\"spawn\""), 1); /* not of the first fiber */
    drop_file();
}

static void nothing(void *arg)
{
    (void)arg;
}

static void *makes_a_call(void *arg)
{
    cr_expect_eq(umbra_blocking(nothing, NULL), 0);
    return arg;
}

Test(trace, a_blocking_call_has_two_ends)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(run_cores(1, makes_a_call, NULL), 0);
    cr_expect_eq(counted("call"), 1);
    cr_expect_eq(counted("call_over"), 1);
    cr_expect_eq(lines("\"ph\":\"b\"", "\"name\":\"call\""), 1);
    cr_expect_eq(lines("\"ph\":\"e\"", "\"name\":\"call\""), 1);
    drop_file();
}

static int drops(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    (void)value;
    (void)arg;
    return 0;
}

static void *makes_steps(void *arg)
{
    struct umbra_dispatch_options options = {.fn = drops};
    struct umbra_dispatch *dispatch;

    cr_expect_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
        cr_expect_eq(umbra_dispatch_put(dispatch, &options, UMBRA_ANY_NODE), 0);
        cr_expect_eq(umbra_dispatch_end(dispatch), 0);
    }
    cr_expect_eq(umbra_dispatch_destroy(dispatch), 0);
    return arg;
}

/* Steps in which workers start count, too. */
Test(trace, each_step_has_two_ends)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(run_cores(1, makes_steps, NULL), 0);
    cr_expect_geq(counted("step"), 3);
    cr_expect_eq(counted("step_over"), counted("step"));
    cr_expect_eq(lines("\"ph\":\"b\"", "\"name\":\"step\""), counted("step"));
    cr_expect_eq(lines("\"ph\":\"e\"", "\"name\":\"step\""), counted("step"));
    drop_file();
}

static _Atomic int taken;

static void is_taken(void *arg)
{
    (void)arg;
    taken = 1;
}

static void *lets_take(void *arg)
{
    struct umbra_task task;

    umbra_task_fork(&task, is_taken, NULL);
    umbra_sleep_ns(SECOND / 1000); /* the core is idle, and takes its own task */
    until(&taken);
    umbra_task_join(&task);
    return arg;
}

Test(trace, a_task_that_is_taken_is_counted)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(run_cores(1, lets_take, NULL), 0);
    cr_expect(agrees("task", false, 1));
    drop_file();
}

static void *forks_to_its_shadow(void *arg)
{
    struct umbra_shadow *shadow = own_shadow();

    for (int i = 0; shadow && i < 5; i++) {
        cr_expect_eq(shadow_fork(shadow, nothing, NULL), 0);
        cr_expect_eq(shadow_join(shadow), 0);
    }
    return arg;
}

Test(trace, a_shadow_s_function_has_two_ends)
{
    struct umbra_options options = {.cores = 1, .shadows = true};
    int error;

    NEEDS_FILES;
    wants_file(NULL);
    error = umbra_run(&options, forks_to_its_shadow, NULL);
    if (error == -ENODEV || error == -ENOSPC)
        cr_skip_test("no hardware thread for a shadow");
    cr_assert_eq(error, 0);
    cr_expect_eq(counted("fork"), 5);
    cr_expect_eq(counted("join"), 5);
    cr_expect_eq(lines("\"ph\":\"b\"", "\"name\":\"fork\""), 5);
    drop_file();
}

/* ---- a ring that is too small ---- */

static unsigned lost_lines(void)
{
    FILE *stream = fopen(file, "r");
    char line[1024];
    unsigned sum = 0;

    while (stream && fgets(line, sizeof(line), stream)) {
        const char *at = strstr(line, "\"cat\":\"lost\"") ? strstr(line, "\"records\":") : NULL;

        sum += at ? (unsigned)strtoul(at + 10, NULL, 10) : 0;
    }
    if (stream)
        fclose(stream);
    return sum;
}

static int overflows(void)
{
    wants_file("16");
    if (run_cores(1, cancels, NULL) != 0)
        return 1;
    /* the records: slices, and marks with a category of their own */
    if (lines("\"until\":", "") + lines("\"s\":\"t\"", "\"args\"") - lines("counters", "counters") -
            lines("\"cat\":\"lost\"", "") !=
        15)
        return 2;
    if (counted("lost") == 0 || counted("lost") != lost_lines())
        return 3;
    drop_file();
    return 0;
}

Test(trace, what_is_lost_is_said_in_the_file_and_at_the_end)
{
    struct child child;

    NEEDS_FILES;
    child = in_child(overflows);
    cr_assert(WIFEXITED(child.status));
    cr_assert_eq(WEXITSTATUS(child.status), 0);
    cr_assert(says(&child, "umbra: trace: core 0 of runtime 1 recorded "));
    cr_assert(says(&child, "UMBRA_TRACE_RECORDS=N keeps more than 15"));
}

/* ---- when the file is written ---- */

static void *is_signaled(void *arg)
{
    cr_expect_eq(lines("\"cat\":\"mark\"", ""), 0);
    umbra_trace_mark("before", 1);
    raise(SIGUSR2);
    cr_expect_eq(lines("\"cat\":\"mark\"", ""), 1);
    umbra_trace_mark("after", 2);
    cr_expect_eq(umbra_trace_write(), 0);
    cr_expect_eq(lines("\"cat\":\"mark\"", ""), 2);
    return arg;
}

Test(trace, is_written_on_a_signal_and_when_the_program_wants_it)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(run_cores(1, is_signaled, NULL), 0);
    cr_expect(agrees("mark", false, 2));
    drop_file();
}

static void *exits(void *arg)
{
    umbra_trace_mark("at the end", 3);
    exit(0);
    return arg;
}

static int exits_in_a_fiber(void)
{
    setenv("UMBRA_STATS", "1", 1);
    run_cores(1, exits, NULL);
    return 1;
}

Test(trace, is_complete_when_the_program_exits)
{
    char last[4] = "";
    struct child child;
    FILE *stream;

    NEEDS_FILES;
    snprintf(file, sizeof(file), "/tmp/umbra-trace.%d", (int)getpid());
    setenv("UMBRA_TRACE", file, 1);
    child = in_child(exits_in_a_fiber);
    cr_assert(WIFEXITED(child.status));
    cr_assert_eq(WEXITSTATUS(child.status), 0);
    cr_assert(says(&child, "fiber-ms"));
    cr_expect_eq(lines("\"cat\":\"mark\"", ""), 1);
    stream = fopen(file, "r");
    cr_assert_not_null(stream);
    fseek(stream, -2, SEEK_END);
    cr_expect_eq(fread(last, 1, 2, stream), 2);
    fclose(stream);
    cr_expect_str_eq(last, "]\n");
    drop_file();
}

static void *writes_in_vain(void *arg)
{
    umbra_trace_mark("too much", 1);
    *(int *)arg = umbra_trace_write();
    return arg;
}

static int fills_a_disk(void)
{
    int first = 0;

    if (run_cores(1, writes_in_vain, &first) != 0)
        return 1;
    exit(first == -ENOSPC && umbra_trace_write() == -ENOSPC ? 0 : 2);
}

Test(trace, a_file_that_cannot_be_written_is_reported)
{
    struct child child;

    NEEDS_FILES;
    setenv("UMBRA_TRACE", "/dev/full", 1);
    child = in_child(fills_a_disk);
    cr_assert(WIFEXITED(child.status));
    cr_assert_eq(WEXITSTATUS(child.status), 0);
    cr_assert(says(&child, "umbra: trace: the file is incomplete: No space left on device\n"));
}

static void *forks(void *arg)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        umbra_trace_mark("the child", 4);
        _exit(umbra_trace_write() == -ENOENT ? 0 : 1);
    }
    cr_expect_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return arg;
}

Test(trace, a_child_process_does_not_write_into_it)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(run_cores(1, forks, NULL), 0);
    cr_expect_eq(lines("\"cat\":\"mark\"", ""), 0);
    drop_file();
}

Test(trace, has_the_records_of_one_runtime_after_the_other)
{
    NEEDS_FILES;
    wants_file(NULL);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(run_cores(1, does_a_bit_of_all, NULL), 0);
    cr_expect(agrees("spawn", false, 8));
    cr_expect_eq(lines("\"pid\":2", "\"cat\":\"mark\""), 1);
    drop_file();
}

/* ---- the table ---- */

static int prints(void)
{
    setenv("UMBRA_STATS", "1", 1);
    return run_cores(1, does_a_bit_of_all, NULL);
}

Test(trace, the_table_has_a_line_for_each_core)
{
    struct child child = in_child(prints);
    unsigned core, fiber_ms, scheduler_ms, idle_ms, switches, spawns, tasks, woken, late, canceled;
    const char *line;

    cr_assert(WIFEXITED(child.status));
    cr_assert_eq(WEXITSTATUS(child.status), 0);
    line = strstr(child.said, "stack\n");
    cr_assert_not_null(line);
    cr_assert_eq(sscanf(line + 6, "umbra: 1 %u %u %u %u %u %u %u %u %u %u", &core, &fiber_ms,
                        &scheduler_ms, &idle_ms, &switches, &spawns, &tasks, &woken, &late,
                        &canceled),
                 10);
    cr_expect_eq(core, 0);
    cr_expect_eq(spawns, 4);
    cr_expect_eq(tasks, 0);
    cr_expect_eq(late, 2);
    cr_expect_eq(canceled, 0);
    cr_expect_geq(switches, 30);
}

/* ---- the environment ---- */

/* True if no runtime starts, and the error's text names the variable. */
static bool is_refused(const char *variable, const char *value, int error)
{
    struct umbra_runtime *runtime;

    setenv(variable, value, 1);
    return umbra_runtime_create(NULL, &runtime) == error &&
           strstr(umbra_last_error_text(), variable) && strstr(umbra_last_error_text(), value);
}

Test(trace, a_bad_wish_is_refused)
{
    cr_expect(is_refused("UMBRA_STATS", "2", -EINVAL));
    cr_expect(is_refused("UMBRA_STATS", "yes", -EINVAL));
    unsetenv("UMBRA_STATS");
    cr_expect(is_refused("UMBRA_TRACE_RECORDS", "15", -EINVAL));
    cr_expect(is_refused("UMBRA_TRACE_RECORDS", "-1", -EINVAL));
    unsetenv("UMBRA_TRACE_RECORDS");
    cr_expect(is_refused("UMBRA_TRACE_SIGNAL", "9", -EINVAL));
    cr_expect(is_refused("UMBRA_TRACE_SIGNAL", "65", -EINVAL));
    unsetenv("UMBRA_TRACE_SIGNAL");
    NEEDS_FILES;
    cr_expect(is_refused("UMBRA_TRACE", "/no/such/folder", -ENOENT));
    unsetenv("UMBRA_TRACE");
    cr_expect_eq(run_cores(1, does_a_bit_of_all, NULL), 0);
}

static void *marks_in_vain(void *arg)
{
    umbra_trace_mark("nothing", 0);
    cr_expect_eq(umbra_trace_write(), -ENOENT);
    return arg;
}

Test(trace, without_a_wish_nothing_is_recorded)
{
    umbra_trace_mark("no fiber", 0);
    cr_expect_eq(run_cores(1, marks_in_vain, NULL), 0);
    cr_expect_eq(umbra_trace_write(), -ENOENT);
}
