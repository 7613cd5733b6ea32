/* SPDX-License-Identifier: BSL-1.0 */
/* Traces and counters. Each test has a process, and an environment, of its own. */
#define _GNU_SOURCE
#include "child.h"
#include "fibers.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* UMBRA_TRACE_TOOL, from meson.build, is the path of tools/umbra-trace. */
#ifdef UM_OS_HANDLES
#define NEEDS_FILES                                                                                \
    do {                                                                                           \
        if (system("python3 -c '' 2> /dev/null") != 0)                                             \
            cr_skip_test("no python3, for tools/umbra-trace");                                     \
    } while (0)
#else
#define NEEDS_FILES cr_skip_test("this system has no files for traces")
#endif

/* ---- the file ---- */

static char file[64];    /* what the program writes, */
static char events[72];  /* what umbra-trace makes of it, */
static char remarks[72]; /* and what umbra-trace says on standard error */

static void name_files(void)
{
    snprintf(file, sizeof(file), "/tmp/umbra-trace.%d", (int)getpid());
    snprintf(events, sizeof(events), "%s.json", file);
    snprintf(remarks, sizeof(remarks), "%s.said", file);
}

/* The runtimes that follow write a file, with this many records a core; NULL: as many as usual. */
static void wants_file(const char *records)
{
    name_files();
    setenv("UMBRA_TRACE", "/tmp/umbra-trace.%p", 1);
    if (records)
        setenv("UMBRA_TRACE_RECORDS", records, 1);
}

/* Has the file converted, as it is now. 0 or what umbra-trace returns. */
static int convert(void)
{
    char command[512];

    snprintf(command, sizeof(command), "'%s' %s > %s 2> %s", UMBRA_TRACE_TOOL, file, events,
             remarks);
    return system(command);
}

/* run_cores(), with a trace. */
static int trace_cores(unsigned cores, umbra_fiber_fn *fn, void *arg)
{
    int error = run_cores(cores, fn, arg);

    return error != 0 ? error : convert();
}

/* In how many lines of the events both texts are. */
static unsigned lines(const char *one, const char *other)
{
    FILE *stream = fopen(events, "r");
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
    FILE *stream = fopen(events, "r");
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
    unlink(events);
    unlink(remarks);
}

/* ---- what is recorded ---- */

static struct umbra_event event;

static void *waits(void *arg)
{
    umbra_event_wait(&event, UMBRA_NEVER);
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

    event = (struct umbra_event)UMBRA_EVENT_INIT;
    umbra_trace_mark("it begins", 4711);
    cr_expect_eq(umbra_spawn_with(NULL, &named, waits, NULL, &fiber[0]), 0);
    umbra_yield();
    umbra_event_signal(&event);
    cr_expect_eq(umbra_spawn(yields, NULL, &fiber[1]), 0);
    cr_expect_eq(umbra_spawn(yields, NULL, &fiber[2]), 0);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(umbra_join(fiber[i], UMBRA_NEVER, NULL), 0);
    cr_expect_eq(umbra_spawn(transfers, &self, &fiber[3]), 0);
    cr_expect_eq(umbra_transfer(fiber[3]), 0); /* it transfers back */
    cr_expect_eq(umbra_continue(fiber[3]), 0);
    cr_expect_eq(umbra_join(fiber[3], UMBRA_NEVER, NULL), 0);
    cr_expect_eq(umbra_sleep_ns(5000000), 0);
    cr_expect_eq(umbra_event_wait(&event, umbra_deadline(30000000)), -ETIMEDOUT);
    return arg;
}

Test(trace, the_file_has_what_was_counted_and_what_was_done)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(trace_cores(1, does_a_bit_of_all, NULL), 0);
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
    cr_assert_eq(trace_cores(1, does_a_bit_of_all, NULL), 0);
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
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    return does_a_bit_of_all(arg);
}

Test(trace, a_wait_says_how_it_ended)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(trace_cores(1, cancels, NULL), 0);
    cr_expect_eq(lines("\"cat\":\"return\"", "\"ended\":\"canceled\""), 1);
    cr_expect_eq(lines("\"cat\":\"return\"", "\"ended\":\"timed out\""), 2);
    cr_expect_eq(lines("\"cat\":\"return\"", "\"ended\":\"woken\""), counted("return") - 3);
    drop_file();
}

static struct umbra_event there = UMBRA_EVENT_INIT, back = UMBRA_EVENT_INIT;

static void *answers(void *arg)
{
    for (int i = 0; i < 100; i++) {
        cr_expect_eq(umbra_event_wait(&there, UMBRA_NEVER), 0);
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
        cr_expect_eq(umbra_event_wait(&back, UMBRA_NEVER), 0);
    }
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    return arg;
}

/* A wait in place needs no wake-up, so the number of them is not known. */
Test(trace, each_arrow_has_two_ends)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(trace_cores(2, calls, NULL), 0);
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
    cr_assert_eq(trace_cores(1, makes_a_call, NULL), 0);
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
        cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    }
    cr_expect_eq(umbra_dispatch_destroy(dispatch), 0);
    return arg;
}

/* Steps in which workers start count, too. */
Test(trace, each_step_has_two_ends)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(trace_cores(1, makes_steps, NULL), 0);
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
    umbra_task_join(&task, UMBRA_NEVER);
    return arg;
}

Test(trace, a_task_that_is_taken_is_counted)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(trace_cores(1, lets_take, NULL), 0);
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
    cr_assert_eq(convert(), 0);
    cr_expect_eq(counted("fork"), 5);
    cr_expect_eq(counted("join"), 5);
    cr_expect_eq(lines("\"ph\":\"b\"", "\"name\":\"fork\""), 5);
    drop_file();
}

/* ---- a ring that is too small ---- */

static unsigned lost_lines(void)
{
    FILE *stream = fopen(events, "r");
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

/* What umbra-trace says of it. */
static void read_remarks(char *said, size_t bytes)
{
    FILE *stream = fopen(remarks, "r");
    size_t length = stream ? fread(said, 1, bytes - 1, stream) : 0;

    said[length] = 0;
    if (stream)
        fclose(stream);
}

Test(trace, what_is_lost_is_said_in_the_events_and_by_umbra_trace)
{
    char said[512];

    NEEDS_FILES;
    wants_file("16");
    cr_assert_eq(trace_cores(1, cancels, NULL), 0);
    /* the records: slices, and marks with a category of their own */
    cr_expect_eq(lines("\"until\":", "") + lines("\"s\":\"t\"", "\"args\"") -
                     lines("counters", "counters") - lines("\"cat\":\"lost\"", ""),
                 15);
    cr_expect_gt(counted("lost"), 0);
    cr_expect_eq(counted("lost"), lost_lines());
    read_remarks(said, sizeof(said));
    cr_expect_not_null(strstr(said, "umbra-trace: core 0 of runtime 1 recorded "));
    cr_expect_not_null(strstr(said, "UMBRA_TRACE_RECORDS=N keeps more than 15"));
    drop_file();
}

/* ---- names ---- */

static const char *const letters[] = {"\u00e9", "\u20ac", "\U0001f600"}; /* of 2, 3 and 4 bytes */

enum { ROOM = 23, TEXT_ROOM = 119 }; /* bytes of a name, and of a mark's text */

static void *returns(void *arg)
{
    return arg;
}

/* A fiber and a mark for each way in which a letter can lie across the end of the room. */
static void *is_named(void *arg)
{
    static char text[9][160];
    struct umbra_fiber fiber[9];
    unsigned count = 0;

    for (unsigned i = 0; i < 3; i++)
        for (unsigned kept = 0; kept <= i + 1; kept++) {
            struct umbra_spawn_options options = {.name = text[count]};

            snprintf(text[count], sizeof(text[0]), "%0*u%s%s", (int)(ROOM - kept), count,
                     letters[i], letters[i]);
            cr_expect_eq(umbra_spawn_with(NULL, &options, returns, NULL, &fiber[count]), 0);
            memset(text[count], 'm', sizeof(text[0]));
            snprintf(text[count] + TEXT_ROOM - kept, 24, "%s%s", letters[i], letters[i]);
            umbra_trace_mark(text[count++], kept);
        }
    while (count > 0)
        cr_expect_eq(umbra_join(fiber[--count], UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(trace, names_and_texts_are_cut_off_between_characters)
{
    char python[512];

    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(trace_cores(1, is_named, NULL), 0);
    cr_expect_eq(counted("mark"), 9);
    cr_expect_eq(lines("\"cat\":\"mark\"", "mmm"), 9);
    cr_expect_eq(lines("\"name\":\"000", "\"until\":\"end\""), 9);
    cr_expect_eq(lines("", "\xef\xbf\xbd"), 0); /* in place of what is no character */
    snprintf(python, sizeof(python), "python3 -c 'import json; json.load(open(\"%s\", \"rb\"))'",
             events);
    cr_expect_eq(system(python), 0);
    drop_file();
}

/* Short lives, one after the other, in the same stack. */
static void *has_many_named(void *arg)
{
    for (unsigned i = 0; i < 100; i++) {
        char name[16];
        struct umbra_spawn_options options = {.name = name};
        struct umbra_fiber fiber;

        snprintf(name, sizeof(name), "life %u", i);
        cr_expect_eq(umbra_spawn_with(NULL, &options, returns, NULL, &fiber), 0);
        cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    }
    return arg;
}

Test(trace, each_fiber_of_a_stack_keeps_its_name)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(trace_cores(1, has_many_named, NULL), 0);
    cr_expect_geq(lines("\"name\":\"life ", "\"until\":\"end\""), 99); /* by chance not each */
    drop_file();
}

/* ---- how the program ends ---- */

static const char *end_by;

static void *ends(void *arg)
{
    umbra_trace_mark("at the end", 3);
    if (strcmp(end_by, "exit") == 0)
        exit(0);
    if (strcmp(end_by, "quick_exit") == 0)
        quick_exit(0);
    if (strcmp(end_by, "_exit") == 0)
        _exit(0);
    if (strcmp(end_by, "exec") == 0)
        execl("/bin/true", "true", (char *)NULL);
    if (strcmp(end_by, "abort") == 0)
        abort();
    kill(getpid(), strcmp(end_by, "SIGTERM") == 0 ? SIGTERM : SIGKILL);
    return arg;
}

static int ends_in_a_fiber(void)
{
    struct rlimit no_core = {0, 0};

    setrlimit(RLIMIT_CORE, &no_core);
    run_cores(2, ends, NULL);
    return 1;
}

Test(trace, is_there_however_the_program_ends)
{
    static const char *const ways[] = {"exit",  "quick_exit", "_exit",  "exec",
                                       "abort", "SIGTERM",    "SIGKILL"};

    NEEDS_FILES;
    name_files();
    setenv("UMBRA_TRACE", file, 1);
    for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct child child;

        end_by = ways[i];
        child = in_child(ends_in_a_fiber);
        cr_expect(i < 4 ? WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0
                        : WIFSIGNALED(child.status),
                  "%s", end_by);
        cr_expect_eq(convert(), 0, "%s", end_by);
        cr_expect_eq(lines("\"name\":\"at the end\"", "\"value\":3"), 1, "%s", end_by);
        cr_expect_eq(lines("\"cat\":\"begin\"", "\"fn\":\"ends\""), 1, "%s", end_by);
        cr_expect_eq(counted("mark"), 1, "%s", end_by);
        drop_file();
    }
}

static int exits_with_counters(void)
{
    end_by = "exit";
    setenv("UMBRA_STATS", "1", 1);
    return ends_in_a_fiber();
}

Test(trace, the_table_is_printed_when_the_program_exits)
{
    struct child child = in_child(exits_with_counters);

    cr_assert(WIFEXITED(child.status));
    cr_assert_eq(WEXITSTATUS(child.status), 0);
    cr_assert(says(&child, "fiber-ms"));
}

static void *marks_in_a_thread(void *arg)
{
    umbra_trace_mark("by no fiber", 3);
    return arg;
}

static void *is_looked_at(void *arg)
{
    pthread_t thread;

    cr_expect_eq(pthread_create(&thread, NULL, marks_in_a_thread, NULL), 0);
    pthread_join(thread, NULL);
    umbra_trace_mark("before", 1);
    cr_expect_eq(convert(), 0);
    cr_expect_eq(lines("\"cat\":\"mark\"", ""), 1);
    cr_expect_eq(lines("\"cat\":\"core\"", "\"until\":\"run\""), 1);
    umbra_trace_mark("after", 2);
    cr_expect_eq(convert(), 0);
    cr_expect_eq(lines("\"cat\":\"mark\"", ""), 2);
    return arg;
}

Test(trace, can_be_read_while_the_program_runs)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(trace_cores(1, is_looked_at, NULL), 0);
    cr_expect(agrees("mark", false, 2));
    drop_file();
}

/* ---- the place on the disk ---- */

static int is_refused_by_a_full_disk(int error)
{
    struct umbra_runtime *runtime;
    struct stat now = {.st_size = 0};

    if (umbra_runtime_create(NULL, &runtime) != error ||
        !strstr(umbra_last_error_text(), "UMBRA_TRACE") ||
        !strstr(umbra_last_error_text(), strerror(-error)))
        return 2;
    stat(getenv("UMBRA_TRACE"), &now);
    unlink(getenv("UMBRA_TRACE"));
    return now.st_size == 0 ? 0 : 3; /* no place is kept */
}

static int reaches_a_limit(void)
{
    struct rlimit limit = {1 << 20, 1 << 20};

    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    return is_refused_by_a_full_disk(-EFBIG);
}

static bool tell(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    bool told = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    close(fd);
    return told;
}

/* A file system of its own, on which it has the rights of its present user. */
static int fills_a_disk(void)
{
    char user[32], group[32];

    snprintf(user, sizeof(user), "0 %u 1", (unsigned)getuid());
    snprintf(group, sizeof(group), "0 %u 1", (unsigned)getgid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || !tell("/proc/self/setgroups", "deny") ||
        !tell("/proc/self/uid_map", user) || !tell("/proc/self/gid_map", group) ||
        mount("none", "/tmp", "tmpfs", 0, "size=1m") != 0)
        return 77;
    return is_refused_by_a_full_disk(-ENOSPC);
}

static int returned(int (*fn)(void))
{
    struct child child = in_child(fn);

    return WIFEXITED(child.status) ? WEXITSTATUS(child.status) : -1;
}

Test(trace, a_file_without_place_is_refused)
{
    NEEDS_FILES;
    name_files();
    setenv("UMBRA_TRACE", file, 1);
    cr_expect_eq(returned(reaches_a_limit), 0);
}

Test(trace, a_file_on_a_full_disk_is_refused)
{
    int result;

    NEEDS_FILES;
    name_files();
    setenv("UMBRA_TRACE", file, 1);
    result = returned(fills_a_disk);
    if (result == 77)
        cr_skip_test("no file system can be mounted");
    cr_expect_eq(result, 0);
}

Test(trace, what_a_core_has_not_used_takes_no_place_on_the_disk)
{
    struct stat now;
    int fd;

    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(run_cores(2, returns, NULL), 0);
    fd = open(file, O_RDWR);
    cr_assert_geq(fd, 0);
    cr_assert_eq(fstat(fd, &now), 0);
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0)
        cr_skip_test("the file system has no holes");
    close(fd);
    cr_expect_gt(now.st_size, 4 << 20);
    cr_expect_lt(now.st_blocks * 512, 512 << 10);
    drop_file();
}

/* ---- a file of another process ---- */

Test(trace, a_file_that_another_process_writes_is_refused_and_stays)
{
    struct umbra_runtime *runtime;
    struct stat now;
    int fd;

    NEEDS_FILES;
    name_files();
    setenv("UMBRA_TRACE", file, 1);
    fd = open(file, O_RDWR | O_CREAT, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, "other", 5), 5);
    cr_assert_eq(flock(fd, LOCK_EX), 0);
    cr_expect_eq(umbra_runtime_create(NULL, &runtime), -EBUSY);
    cr_expect_not_null(strstr(umbra_last_error_text(), "%p"));
    cr_assert_eq(stat(file, &now), 0);
    cr_expect_eq(now.st_size, 5);
    close(fd);
    cr_expect_eq(trace_cores(1, returns, NULL), 0);
    drop_file();
}

static int child_waits[2];

static void *leaves_a_child(void *arg)
{
    char end;

    if (fork() == 0) {
        for (int fd = 2; fd < 100; fd++) /* others wait for their ends */
            if (fd != child_waits[0])
                close(fd);
        _exit((int)read(child_waits[0], &end, 1));
    }
    return arg;
}

static int ends_before_its_child(void)
{
    return run_cores(1, leaves_a_child, NULL) == 0 ? 0 : 1;
}

Test(trace, a_child_process_that_stays_does_not_keep_the_file)
{
    NEEDS_FILES;
    name_files();
    setenv("UMBRA_TRACE", file, 1);
    cr_assert_eq(pipe(child_waits), 0);
    cr_assert_eq(returned(ends_before_its_child), 0);
    cr_expect_eq(trace_cores(1, returns, NULL), 0);
    close(child_waits[1]);
    drop_file();
}

static void *forks(void *arg)
{
    struct umbra_runtime *runtime = umbra_runtime_self();
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        umbra_trace_mark("the child", 4);
        umbra_hold(runtime);
        umbra_release(runtime);
        _exit(0);
    }
    cr_expect_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return arg;
}

Test(trace, a_child_process_does_not_write_into_it)
{
    NEEDS_FILES;
    wants_file(NULL);
    cr_assert_eq(trace_cores(1, forks, NULL), 0);
    cr_expect_eq(lines("\"cat\":\"mark\"", ""), 0);
    drop_file();
}

Test(trace, has_the_records_of_one_runtime_after_the_other)
{
    NEEDS_FILES;
    wants_file(NULL);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(run_cores(1, does_a_bit_of_all, NULL), 0);
    cr_assert_eq(convert(), 0);
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
    static char path[PATH_MAX + 1];
    struct umbra_runtime *runtime;

    cr_expect(is_refused("UMBRA_STATS", "2", -EINVAL));
    cr_expect(is_refused("UMBRA_STATS", "yes", -EINVAL));
    unsetenv("UMBRA_STATS");
    cr_expect(is_refused("UMBRA_TRACE_RECORDS", "15", -EINVAL));
    cr_expect(is_refused("UMBRA_TRACE_RECORDS", "-1", -EINVAL));
    unsetenv("UMBRA_TRACE_RECORDS");
    NEEDS_FILES;
    cr_expect(is_refused("UMBRA_TRACE", "/no/such/folder", -ENOENT));
    cr_expect(is_refused("UMBRA_TRACE", "/dev/full", -EINVAL));
    memset(path, 'x', sizeof(path) - 1);
    setenv("UMBRA_TRACE", path, 1);
    cr_expect_eq(umbra_runtime_create(NULL, &runtime), -ENAMETOOLONG);
    unsetenv("UMBRA_TRACE");
    cr_expect_eq(run_cores(1, does_a_bit_of_all, NULL), 0);
}

static void *marks_in_vain(void *arg)
{
    umbra_trace_mark("nothing", 0);
    return arg;
}

Test(trace, without_a_wish_nothing_is_recorded)
{
    umbra_trace_mark("no fiber", 0);
    cr_expect_eq(run_cores(1, marks_in_vain, NULL), 0);
}
