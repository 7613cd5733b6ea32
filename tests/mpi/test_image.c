/* SPDX-License-Identifier: BSL-1.0 */
/* Executables as fibers (mpi/image/image.h). The children are behaves.c and behaves.cpp. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "children.h"

static const char *const children_c[] = {CHILDREN_C};
static const char *const children_cpp[] = {CHILDREN_CPP};

#define FIRST children_c[1] /* -O2 */

/* The test's own thread-locals, which children must not touch. */
static _Thread_local int filled_local = 1234;
static _Thread_local char cleared_local[5000];

/* ---- one child ---- */

static void *begins_and_ends(void *arg)
{
    struct umbra_image *image = opened(FIRST);

    cr_expect_eq(ran(image, "return", "5"), 5 << 8);
    cr_expect_eq(ran(image, "return", "6"), 6 << 8);
    cr_expect_eq(umbra_image_close(image), 0);
    return arg;
}

Test(image, child_returns_from_main)
{
    cr_assert_eq(run_cores(1, begins_and_ends, NULL), 0);
}

static void *reads_and_prints(void *arg)
{
    struct umbra_image *image = opened(FIRST);

    cr_expect_eq(ran(image, "print", "what a child prints"), 0);
    umbra_image_close(image);
    return arg;
}

Test(image, output_is_there_when_the_child_has_ended)
{
    char text[100] = "";
    int ends[2], kept = dup(1);

    cr_assert_eq(pipe(ends), 0);
    fflush(stdout);
    dup2(ends[1], 1);
    cr_expect_eq(run_cores(1, reads_and_prints, NULL), 0);
    dup2(kept, 1);
    cr_assert_gt(read(ends[0], text, sizeof(text) - 1), 0);
    cr_assert_str_eq(text, "what a child prints");
}

static void *closes_too_early(void *arg)
{
    struct umbra_image *image = opened(FIRST);
    struct umbra_child *child = started(image, "private", "1");

    cr_expect_eq(umbra_image_close(image), -EBUSY);
    cr_expect_eq(waited(child), 0);
    cr_expect_eq(umbra_image_close(image), 0);
    cr_expect_eq(umbra_image_close(NULL), 0);
    return arg;
}

Test(image, open_image_with_children_stays)
{
    cr_assert_eq(run_cores(1, closes_too_early, NULL), 0);
}

Test(image, thread_that_is_no_core_starts_a_child)
{
    struct umbra_options options = {.cores = 1, .quiet = true};
    struct umbra_runtime *runtime;
    struct umbra_image *image;
    struct umbra_child *child;
    char *argv[] = {(char *)"behaves", (char *)"private", NULL};
    struct umbra_child_options with = {.argv = argv, .spawn.where = UMBRA_ON_CORE};

    cr_assert_eq(umbra_runtime_create(&options, &runtime), 0);
    image = opened(FIRST);
    cr_assert_eq(umbra_child_start(runtime, image, &with, &child), 0);
    cr_assert_eq(waited(child), 0);
    cr_assert_eq(umbra_image_close(image), 0);
    cr_assert_eq(umbra_runtime_wait(runtime), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

static void *gives_too_much(void *arg)
{
    struct umbra_image *image = opened(FIRST);
    size_t bytes = UMBRA_CHILD_STACK_BYTES / 2;
    char *large = malloc(bytes);
    char *argv[] = {(char *)"behaves", large, NULL};
    struct umbra_child_options options = {.argv = argv};
    struct umbra_child *child = NULL;

    memset(large, 'x', bytes - 1);
    large[bytes - 1] = 0;
    cr_expect_eq(umbra_child_start(NULL, image, &options, &child), -E2BIG);
    cr_expect(strstr(umbra_last_error_text(), "quarter of the stack"));
    cr_expect_null(child);
    free(large);
    cr_expect_eq(umbra_image_close(image), 0);
    return arg;
}

Test(image, arguments_that_do_not_fit_are_refused)
{
    cr_assert_eq(run_cores(1, gives_too_much, NULL), 0);
}

/* ---- privacy ---- */

#define TOGETHER 300

/* Starts many children at once, each with a number of its own, and expects that each is content. */
static void together(const char *path)
{
    struct umbra_child *child[TOGETHER];
    struct umbra_image *image = opened(path);
    static char seed[TOGETHER][8];
    unsigned failed = 0;

    for (int i = 0; image && i < TOGETHER; i++) {
        char *argv[] = {(char *)"behaves", (char *)"private", seed[i], NULL};
        static char *kept[TOGETHER][4];
        struct umbra_child_options options = {.argv = kept[i], .spawn.where = UMBRA_ANYWHERE};

        snprintf(seed[i], sizeof(seed[i]), "%d", i + 1);
        memcpy(kept[i], argv, sizeof(argv));
        cr_expect_eq(umbra_child_start(NULL, image, &options, &child[i]), 0);
    }
    for (int i = 0; image && i < TOGETHER; i++)
        failed += waited(child[i]) != 0;
    cr_expect_eq(failed, 0, "%s: %u of %d failed", path, failed, TOGETHER);
    cr_expect_eq(umbra_image_close(image), 0);
}

static void *all_together(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < COUNT(children_c); i++)
        together(children_c[i]);
    for (size_t i = 0; i < COUNT(children_cpp) && children_cpp[i]; i++)
        together(children_cpp[i]);
    cr_expect_eq(filled_local, 1234);
    for (size_t i = 0; i < sizeof(cleared_local); i++)
        cr_expect_eq(cleared_local[i], 0);
    return NULL;
}

Test(image, children_have_their_own_of_everything)
{
    setenv("GCOV_PREFIX", "/dev/null", 1); /* some are compiled with --coverage: write nowhere */
    setenv("GCOV_ERROR_FILE", "/dev/null", 1);
    cr_assert_eq(run_cores(2, all_together, NULL), 0);
}

/* ---- the end of one child ---- */

static const struct {
    const char *how;
    int status;
} ends[] = {
    {"exit", 7 << 8},    {"_exit", 8 << 8},       {"abort", SIGABRT},        {"assert", SIGABRT},
    {"err", 9 << 8},     {"errx", 10 << 8},       {"error", 11 << 8},        {"raise", SIGTERM},
    {"pthread_exit", 0}, {"quick_exit", 12 << 8}, {"null", SIGSEGV},         {"call", SIGSEGV},
    {"strlen", SIGSEGV}, {"divide", SIGFPE},      {"trap", SIGILL},          {"overflow", SIGSEGV},
    {"threads", 0},      {"processes", 0},        {"thread exits", 15 << 8},
};

static void ends_alone(struct umbra_image *image, struct umbra_image *others, const char *how,
                       int status)
{
    struct umbra_child *before = started(others, "private", "3");
    struct umbra_child *child = started(image, how, NULL);
    struct umbra_child *after = started(others, "private", "4");
    int ended = waited(child);

    cr_expect_eq(ended, status, "%s: status %#x", how, (unsigned)ended);
    cr_expect_eq(waited(before), 0, "beside %s", how);
    cr_expect_eq(waited(after), 0, "beside %s", how);
}

static void *each_ends(void *arg)
{
    struct umbra_image *image = opened(FIRST);

    for (int turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < COUNT(ends); i++)
            ends_alone(image, image, ends[i].how, ends[i].status);
    cr_expect_eq(umbra_image_close(image), 0);
    return arg;
}

Test(image, what_ends_a_child_ends_no_other)
{
    cr_assert_eq(run_cores(1, each_ends, NULL), 0);
}

static void *faults_in_a_library(void *arg)
{
    ran(opened(FIRST), "in a library", NULL);
    return arg;
}

Test(image, fault_that_is_not_the_childs_own_ends_the_process, .signal = SIGSEGV)
{
    run_cores(1, faults_in_a_library, NULL);
}

static void *each_ends_cpp(void *arg)
{
    struct umbra_image *image = opened(children_cpp[0]);

    for (int turn = 0; turn < 3; turn++) {
        ends_alone(image, image, "throw", SIGABRT);
        ends_alone(image, image, "handler", 21 << 8);
        ends_alone(image, image, "exit in catch", 20 << 8);
    }
    cr_expect_eq(umbra_image_close(image), 0);
    return arg;
}

Test(image, exceptions_that_leave_main_end_that_child)
{
    if (!children_cpp[0])
        cr_skip_test("no C++ compiler");
    cr_assert_eq(run_cores(1, each_ends_cpp, NULL), 0);
}

static void *leaves_files_open(void *arg)
{
    struct umbra_image *image = opened(FIRST);
    char text[100] = "";
    FILE *file;

    cr_expect_eq(ran(image, "files", arg), 0);
    file = fopen(arg, "r");
    cr_expect(file && fgets(text, sizeof(text), file));
    cr_expect_str_eq(text, "left open by behaves");
    cr_expect_neq(fcntl(0, F_GETFD), -1);
    if (file)
        fclose(file);
    umbra_image_close(image);
    return NULL;
}

Test(image, files_are_written_and_standard_streams_stay)
{
    char path[] = "/tmp/umbra-image-XXXXXX";
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    cr_expect_eq(run_cores(1, leaves_files_open, path), 0);
    close(fd);
    unlink(path);
}

/* ---- many ---- */

static long read_number(const char *path, const char *name)
{
    FILE *file = fopen(path, "r");
    char line[200];
    long number = -1;

    while (file && number < 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, name, strlen(name)) == 0)
            number = atol(line + strlen(name));
    if (file)
        fclose(file);
    return number;
}

/* Private memory of this process, page tables included. */
static long memory_kib(void)
{
    return read_number("/proc/self/status", "RssAnon:") +
           read_number("/proc/self/status", "VmPTE:");
}

static long mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    long count = 0;
    int c;

    while (file && (c = getc(file)) != EOF)
        count += c == '\n';
    if (file)
        fclose(file);
    return count;
}

static int next_descriptor(void)
{
    int fd = dup(1);

    close(fd);
    return fd;
}

static void *in_turn(void *arg)
{
    struct umbra_image *image = opened(FIRST);
    long memory = 0, maps = 0;
    int descriptor = 0, bad = 0;

    for (int i = 0; i < 100000; i++) {
        if (i == 1000) {
            memory = memory_kib();
            maps = mappings();
            descriptor = next_descriptor();
        }
        bad += ran(image, "return", "2") != 2 << 8;
    }
    cr_expect_eq(bad, 0);
    cr_expect_leq(memory_kib(), memory + 256);
    cr_expect_leq(mappings(), maps + 2);
    cr_expect_eq(next_descriptor(), descriptor);
    cr_expect_eq(umbra_image_close(image), 0);
    return arg;
}

Test(image, children_in_turn_leave_nothing_behind)
{
    cr_assert_eq(run_cores(1, in_turn, NULL), 0);
}

#define LIVE 10000

static struct umbra_child *crowd[LIVE];

/* Starts so many children with the same arguments, and lets each begin. Returns how many. */
static int crowd_start(struct umbra_image *image, const char *how, const char *with)
{
    char *argv[] = {(char *)"behaves", (char *)(uintptr_t)how, (char *)(uintptr_t)with, NULL};
    struct umbra_child_options options = {.argv = argv};
    int count = 0;

    while (count < LIVE && umbra_child_start(NULL, image, &options, &crowd[count]) == 0)
        count++;
    umbra_yield(); /* they are ready before the caller is again */
    return count;
}

/* Returns how many did not end with status 0. */
static int crowd_wait(int count)
{
    int bad = 0;

    for (int i = 0; i < count; i++)
        bad += waited(crowd[i]) != 0;
    return bad;
}

static void *live(void *arg)
{
    struct umbra_image *image = opened(FIRST);
    long memory = memory_kib();

    cr_expect_eq(crowd_start(image, "while", arg), LIVE, "%s", umbra_last_error_text());
    memory = memory_kib() - memory;
    cr_expect_leq(memory, 32L * LIVE, "%.1f KiB each", (double)memory / LIVE);
    unlink(arg);
    cr_expect_eq(crowd_wait(LIVE), 0);
    cr_expect_eq(crowd_start(image, "private", "8"), LIVE);
    cr_expect_eq(crowd_wait(LIVE), 0);
    cr_expect_eq(umbra_image_close(image), 0);
    return NULL;
}

Test(image, ten_thousand_live_at_once)
{
    char path[] = "/tmp/umbra-image-XXXXXX";
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    close(fd);
    if (read_number("/proc/sys/vm/max_map_count", "") < 3 * LIVE)
        cr_skip_test("vm.max_map_count allows fewer mappings");
    cr_assert_eq(run_cores(1, live, path), 0);
}

static void *uses_up_memory(void *arg)
{
    struct rlimit limit;
    struct umbra_image *image = opened(FIRST);
    int count;

    cr_expect_eq(ran(image, "private", "3"), 0);
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = (rlim_t)read_number("/proc/self/status", "VmSize:") * 1024 + (16u << 20);
    setrlimit(RLIMIT_AS, &limit);
    count = crowd_start(image, "while", arg);
    cr_expect(count > 0 && count < LIVE, "%d", count);
    cr_expect(umbra_last_error_text()[0]);
    unlink(arg);
    cr_expect_eq(crowd_wait(count), 0);
    cr_expect_eq(ran(image, "private", "3"), 0);
    cr_expect_eq(umbra_image_close(image), 0);
    return NULL;
}

Test(image, children_beyond_the_address_space_are_refused)
{
    char path[] = "/tmp/umbra-image-XXXXXX";
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    close(fd);
    cr_assert_eq(run_cores(1, uses_up_memory, path), 0);
}

/* With a page more at each try the start fails for want of the child's struct first, then of its copy
 * of the image, then of a stack. */
static void *has_little_room(void *arg)
{
    char *argv[] = {(char *)"behaves", (char *)"return", (char *)"2", NULL};
    struct umbra_child_options options = {.argv = argv, .spawn.where = UMBRA_HERE};
    struct rlimit limit, before;
    struct umbra_image *image = opened(FIRST);
    struct umbra_child *first = NULL, *child = NULL;
    int error, refusals = 0;

    cr_expect_eq(umbra_child_start(NULL, image, &options, &first), 0); /* has the first copy */
    getrlimit(RLIMIT_AS, &before);
    limit = before;
    limit.rlim_cur = (rlim_t)read_number("/proc/self/status", "VmSize:") * 1024;
    setrlimit(RLIMIT_AS, &limit);
    while ((error = umbra_child_start(NULL, image, &options, &child)) == -ENOMEM) {
        refusals++;
        limit.rlim_cur += 4096;
        setrlimit(RLIMIT_AS, &limit);
    }
    setrlimit(RLIMIT_AS, &before);
    cr_expect_eq(error, 0, "%d", error);
    cr_expect(refusals > 1, "%d", refusals);
    cr_expect_eq(waited(first), 2 << 8);
    cr_expect_eq(waited(child), 2 << 8);
    cr_expect_eq(umbra_image_close(image), 0, "nothing of the refused children is left");
    return arg;
}

Test(image, children_refused_for_want_of_memory_leave_nothing)
{
    cr_assert_eq(run_cores(1, has_little_room, NULL), 0);
}

/* ---- what is refused ---- */

Test(image, what_cannot_be_held_is_refused_with_the_reason)
{
    static const struct {
        const char *path, *why;
    } programs[] = {REFUSED};
    char path[] = "/tmp/umbra-image-XXXXXX";
    int fd = mkstemp(path);
    int descriptor = next_descriptor();

    for (size_t i = 0; i < COUNT(programs); i++)
        refused(programs[i].path, -ENOEXEC, programs[i].why);
    refused(path, -ENOEXEC, "too short");
    cr_assert_eq(write(fd, "#!/bin/sh\n# and more text, longer than the header of ELF files\n", 64),
                 64);
    refused(path, -ENOEXEC, "a script");
    cr_assert_eq(pwrite(fd, "no", 2, 0), 2);
    refused(path, -ENOEXEC, "no ELF file");
    refused("/tmp", -ENOEXEC, "no regular file");
    refused("/nonexistent", -ENOENT, "No such file");
    cr_expect_eq(next_descriptor(), descriptor);
    close(fd);
    unlink(path);
}

/* The test renames a symbol that the executable needs: no library has it. */
Test(image, undefined_symbol_is_refused_with_its_name)
{
    char path[] = "/tmp/umbra-image-XXXXXX";
    int fd = mkstemp(path), from = open(FIRST, O_RDONLY);
    static char bytes[1 << 20];
    ssize_t length = from < 0 ? 0 : read(from, bytes, sizeof(bytes));
    char *name = memmem(bytes, (size_t)length, "\0getppid", 9);

    cr_assert(fd >= 0 && length > 0 && length < (ssize_t)sizeof(bytes) && name);
    for (; name; name = memmem(bytes, (size_t)length, "\0getppid", 9))
        name[7] = 'e';
    cr_assert_eq(write(fd, bytes, (size_t)length), length);
    refused(path, -ENOEXEC, "undefined symbol getppie");
    close(fd);
    close(from);
    unlink(path);
}

/* Every prefix of an executable, and executables with a damaged byte, are refused or opened; none
 * is fatal. */
Test(image, damaged_files_are_refused)
{
    char path[] = "/tmp/umbra-image-XXXXXX";
    int fd = mkstemp(path), from = open(FIRST, O_RDONLY);
    static char bytes[4096];
    struct umbra_image *image;
    unsigned seed = 1;

    cr_assert(fd >= 0 && from >= 0 && read(from, bytes, sizeof(bytes)) == sizeof(bytes));
    for (size_t length = 64; length <= sizeof(bytes); length += 64) {
        cr_assert_eq(pwrite(fd, bytes, length, 0), (ssize_t)length);
        cr_expect_neq(umbra_image_open(path, &image), 0);
    }
    for (int i = 0; i < 300; i++) {
        char changed[1024];

        memcpy(changed, bytes, sizeof(changed));
        for (int k = 0; k < 4; k++)
            changed[rand_r(&seed) % 1024] = (char)rand_r(&seed);
        cr_assert_eq(pwrite(fd, changed, sizeof(changed), 0), (ssize_t)sizeof(changed));
        cr_expect_neq(umbra_image_open(path, &image), 0); /* it is cut off */
    }
    close(fd);
    close(from);
    unlink(path);
}
