/* SPDX-License-Identifier: BSL-1.0 */
/* Children that reach for what belongs to the process: reaches.c and reaches.cpp. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "children.h"

static const char *const reaches_cpp[] = {REACHES_CPP};

/* Runs so many children of an executable one after the other, and closes it. */
static void reach(const char *path, const char *how, int times, int status)
{
    struct umbra_image *image = opened(path);
    int bad = 0;

    for (int i = 0; image && i < times; i++)
        bad += ran(image, how, NULL) != status;
    cr_expect_eq(bad, 0, "%s: %d of %d", how, bad, times);
    cr_expect_eq(umbra_image_close(image), 0);
}

/* ---- ends ---- */

static void *leaves_by_the_back_door(void *arg)
{
    static const char *const ways[] = {"vfork", "exec in a thread", "fork in a thread", "redirect"};

    for (size_t i = 0; i < COUNT(ways); i++)
        reach(REACHES_C, ways[i], 2, 0);
    return arg;
}

Test(reaches, processes_and_programs_of_a_child_leave_this_one_as_it_is)
{
    cr_assert_eq(run_cores(1, leaves_by_the_back_door, NULL), 0);
}

static void *library_exits(void *arg)
{
    reach(REACHES_C, "library", 3, 16 << 8);
    return arg;
}

Test(reaches, library_that_exits_ends_its_child)
{
    cr_assert_eq(run_cores(1, library_exits, NULL), 0);
}

static void *outlived(void *arg)
{
    reach(REACHES_C, "detached", 200, 0);
    return arg;
}

Test(reaches, child_stays_until_its_last_thread_has_signaled)
{
    cr_assert_eq(run_cores(1, outlived, NULL), 0);
}

/* ---- what is printed ---- */

/* All that is in a file, as text; the caller frees. */
static char *text_of(FILE *file)
{
    char *text = NULL;
    size_t room = 0;

    rewind(file);
    return getdelim(&text, &room, 0, file) < 0 ? strdup("") : text;
}

/* A process's status, without whether it has left a core. */
static int status_alone(const char *how)
{
    char *argv[] = {(char *)"behaves", (char *)(uintptr_t)how, NULL};
    int status = -1;
    pid_t process;

    if (posix_spawn(&process, PRINTS, NULL, NULL, argv, environ) == 0)
        waitpid(process, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : status;
}

/* What the program prints to standard error, as a process or as a child. */
static char *printed(const char *how, bool as_child, int *status)
{
    struct umbra_image *image = opened(PRINTS);
    FILE *file = tmpfile();
    int kept = dup(2);
    char *text;

    fflush(stderr);
    dup2(fileno(file), 2);
    *status = as_child ? ran(image, how, NULL) : status_alone(how);
    fflush(stderr);
    dup2(kept, 2);
    close(kept);
    umbra_image_close(image);
    text = text_of(file);
    fclose(file);
    return text;
}

static void *prints_the_same(void *arg)
{
    static const char *const ways[] = {"options",       "warn",     "errors", "name",
                                       "err",           "err null", "errx",   "error",
                                       "error_at_line", "assert",   "abort"};

    for (size_t i = 0; i < COUNT(ways); i++) {
        int status[2];
        char *alone = printed(ways[i], false, &status[0]);
        char *inside = printed(ways[i], true, &status[1]);
        size_t at = 0, line = 0;

        for (; alone[at] && alone[at] == inside[at]; at++)
            if (alone[at] == '\n')
                line = at + 1;
        cr_expect(alone[at] == inside[at], "%s: a process printed '%.*s', a child '%.*s'", ways[i],
                  (int)strcspn(alone + line, "\n"), alone + line, (int)strcspn(inside + line, "\n"),
                  inside + line);
        cr_expect_eq(status[0], status[1], "%s", ways[i]);
        free(alone);
        free(inside);
    }
    return arg;
}

Test(reaches, child_prints_what_the_program_prints_alone)
{
    cr_assert_eq(run_cores(1, prints_the_same, NULL), 0);
}

/* ---- what stays behind ---- */

static void *leaves_buffers(void *arg)
{
    int null = open("/dev/null", O_WRONLY), kept = dup(2);

    reach(REACHES_C, "buffers", 1, 0);
    fflush(stderr);
    dup2(null, 2);
    fputs("written after the image was closed", stderr);
    fflush(stderr);
    dup2(kept, 2);
    close(null);
    close(kept);
    return arg;
}

Test(reaches, streams_outlive_a_childs_buffers)
{
    cr_assert_eq(run_cores(1, leaves_buffers, NULL), 0);
}

static void *leaves_handlers(void *arg)
{
    struct sigaction action;

    reach(REACHES_C, "handlers", 1, 0);
    sigaction(SIGUSR1, NULL, &action);
    cr_expect(action.sa_handler == SIG_DFL);
    sigaction(SIGUSR2, NULL, &action);
    cr_expect(action.sa_handler == SIG_DFL);
    return arg;
}

Test(reaches, signal_handlers_of_a_child_end_with_it)
{
    cr_assert_eq(run_cores(1, leaves_handlers, NULL), 0);
}

static void *hides_faults(void *arg)
{
    reach(REACHES_C, "faults", 1, 0);
    reach(BEHAVES, "null", 1, SIGSEGV);
    reach(BEHAVES, "overflow", 1, SIGSEGV);
    return arg;
}

Test(reaches, child_cannot_hide_the_faults_of_others)
{
    cr_assert_eq(run_cores(1, hides_faults, NULL), 0);
}

static void *own_random(void *arg)
{
    long expected;

    srandom(5);
    expected = random();
    srandom(5);
    reach(REACHES_C, "random", 2, 0);
    cr_expect_eq(random(), expected);
    return arg;
}

Test(reaches, random_states_are_the_childs)
{
    cr_assert_eq(run_cores(1, own_random, NULL), 0);
}

static void *own_keys(void *arg)
{
    reach(REACHES_C, "keys", 3, 0);
    reach(REACHES_C, "key", 1100, 0); /* PTHREAD_KEYS_MAX is 1024 */
    return arg;
}

Test(reaches, keys_are_destroyed_in_the_childs_threads_and_end_with_it)
{
    cr_assert_eq(run_cores(1, own_keys, NULL), 0);
}

static void *in_cpp(void *arg)
{
    reach(reaches_cpp[0], "streams", 3, 0);
    reach(reaches_cpp[0], "thread", 20, 0);
    return arg;
}

Test(reaches, streams_and_threads_of_cpp)
{
    if (!reaches_cpp[0])
        cr_skip_test("no C++ compiler");
    cr_assert_eq(run_cores(1, in_cpp, NULL), 0);
}

/* ---- damaged files ---- */

static unsigned char bytes[1 << 20];
static size_t length;

/* The executable's bytes. */
static void load(const char *path)
{
    int fd = open(path, O_RDONLY);
    ssize_t got = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));

    cr_assert(got > 0 && got < (ssize_t)sizeof(bytes));
    length = (size_t)got;
    close(fd);
}

/* The bytes are refused, for that reason. */
static void refused_bytes(const char *why)
{
    char path[] = "/tmp/umbra-reaches-XXXXXX";
    int fd = mkstemp(path);

    cr_assert(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    refused(path, -ENOEXEC, why);
    close(fd);
    unlink(path);
}

static const Elf64_Phdr *segment(uint32_t type)
{
    const Elf64_Ehdr *header = (const void *)bytes;
    const Elf64_Phdr *at = (const void *)(bytes + header->e_phoff);

    for (unsigned i = 0; i < header->e_phnum; i++)
        if (at[i].p_type == type)
            return &at[i];
    cr_assert_fail("no such segment");
    return NULL;
}

Test(reaches, first_instruction_outside_the_code_is_refused)
{
    load(REACHES_C);
    ((Elf64_Ehdr *)(void *)bytes)->e_entry = 0x7f0000;
    refused_bytes("its first instruction is not in it");
}

Test(reaches, dynamic_section_without_an_end_is_refused)
{
    const Elf64_Phdr *dynamic;

    load(REACHES_C);
    dynamic = segment(PT_DYNAMIC);
    for (size_t at = dynamic->p_offset; at < dynamic->p_offset + dynamic->p_filesz;
         at += sizeof(Elf64_Dyn))
        if (((Elf64_Dyn *)(void *)(bytes + at))->d_tag == DT_NULL)
            ((Elf64_Dyn *)(void *)(bytes + at))->d_tag = DT_DEBUG;
    refused_bytes("its dynamic section does not end");
}

/* Addresses and places in the file are the same in the first segment. */
static int break_resolvers(const Elf64_Dyn *dynamic, int64_t table, int64_t size)
{
    uint64_t first = 0, count = 0;
    int broken = 0;

    for (; dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == table)
            first = dynamic->d_un.d_ptr;
        else if (dynamic->d_tag == size)
            count = dynamic->d_un.d_val / sizeof(Elf64_Rela);
    for (uint64_t i = 0; first && i < count; i++) {
        Elf64_Rela *one = (Elf64_Rela *)(void *)(bytes + first) + i;

        if (ELF64_R_TYPE(one->r_info) == R_X86_64_IRELATIVE) {
            one->r_addend = 16; /* in the header */
            broken++;
        }
    }
    return broken;
}

Test(reaches, resolver_outside_the_code_is_not_called)
{
    const Elf64_Dyn *dynamic;

    load(BEHAVES);
    dynamic = (const void *)(bytes + segment(PT_DYNAMIC)->p_offset);
    cr_assert_gt(break_resolvers(dynamic, DT_RELA, DT_RELASZ) +
                     break_resolvers(dynamic, DT_JMPREL, DT_PLTRELSZ),
                 0);
    refused_bytes("has a relocation outside of its data");
}

/* Takes from each known variable that the executable reserves room for that room, and puts it at the
 * end of its memory. */
static int take_room(const Elf64_Dyn *dynamic, uint64_t end)
{
    uint64_t rela = 0, count = 0, symbols = 0;
    int taken = 0;

    for (; dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == DT_RELA)
            rela = dynamic->d_un.d_ptr;
        else if (dynamic->d_tag == DT_RELASZ)
            count = dynamic->d_un.d_val / sizeof(Elf64_Rela);
        else if (dynamic->d_tag == DT_SYMTAB)
            symbols = dynamic->d_un.d_ptr;
    for (uint64_t i = 0; i < count; i++) {
        Elf64_Rela *one = (Elf64_Rela *)(void *)(bytes + rela) + i;
        Elf64_Sym *symbol = (Elf64_Sym *)(void *)(bytes + symbols) + ELF64_R_SYM(one->r_info);

        if (ELF64_R_TYPE(one->r_info) == R_X86_64_COPY) {
            one->r_offset = end;
            symbol->st_size = 0;
            taken++;
        }
    }
    return taken;
}

Test(reaches, variable_of_the_library_without_room_is_refused)
{
    const Elf64_Ehdr *header = (const void *)bytes;
    const Elf64_Phdr *at;
    uint64_t end = 0;

    load(BEHAVES);
    at = (const void *)(bytes + header->e_phoff);
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (at[i].p_type == PT_LOAD)
            end = at[i].p_vaddr + at[i].p_memsz;
    if (take_room((const void *)(bytes + segment(PT_DYNAMIC)->p_offset), end) == 0)
        cr_skip_test("the compiler reserves no room for variables of libraries");
    refused_bytes("has no room");
}
