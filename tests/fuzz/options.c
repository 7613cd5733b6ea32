/* SPDX-License-Identifier: BSL-1.0 */
/* Arguments of programs, one a line, as examples/options.c reads them. What ends a program, or
 * begins it anew, ends the input. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <getopt.h>
#include <sched.h>
#include <setjmp.h>

static jmp_buf ended;
static cpu_set_t set[2][8]; /* of 8192 processors */
static unsigned sets;

#define exit(status) longjmp(ended, (status) + 1)
#define execv(path, arguments) ((void)(arguments), exit(0))
#define sched_setaffinity(process, bytes, set) ((void)(bytes), (void)(set), 0)
#undef CPU_ALLOC /* a program that ends need not free */
#define CPU_ALLOC(count) ((cpu_set_t *)memset(set[++sets % 2], 0, CPU_ALLOC_SIZE(count)))
#undef CPU_FREE
#define CPU_FREE(set) ((void)(set))
#include "../../examples/options.c"
#undef exit

const char program_name[] = "options";

#define ARGUMENTS_MOST 12

struct named_way {
    struct way way;
};

static bool even_read(const char *text, void *to)
{
    return number_of("--even", text, 0, 100) % 2 == 0 && (*(size_t *)to = 1);
}

static void read_all(int argc, char **argv)
{
    struct named_way way[] = {{{.name = "fast"}}, {{.name = "slow"}}, {{.name = "fast-er"}}};
    const struct ways ways = {way, 3, sizeof(way[0]), 10};
    struct numbers list = {{0}, 0};
    size_t number = 5, even = 0;
    const char *text = NULL, *given = NULL;
    bool flag = false;
    const struct option_row rows[] = {
        {.name = "--flag", .flag = &flag, .help = "two\nlines", .given = &given},
        {.name = "--text", .value = "TEXT", .text = &text},
        {.name = "--number", .value = "N", .number = {&number, 3, 70000}, .wrong = "no number"},
        {.name = "--list", .value = "N,...", .number = {list.number, 1, 9}, .count = &list.count},
        {.name = "--only", .value = "WAY,...", .ways = &ways, .help = "these"},
        {.name = "--even", .value = "N", .by = {even_read, &even}},
        {.name = "SIZE", .number = {&number, 3, 70000}},
        {.name = NULL},
    };
    const struct options_table table = {.usage = "", .column = 20, .rows = rows};

    optind = 0; /* begins anew */
    if (setjmp(ended) == 0)
        options_read(&table, argc, argv);
    HOLDS(number >= 3 && number <= 70000 && list.count <= NUMBERS_MOST);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *rest = text, *argv[ARGUMENTS_MOST + 1] = {NULL};
    int argc = 0;

    argv[argc++] = (char *)program_name;
    while (argc < ARGUMENTS_MOST && rest)
        argv[argc++] = strsep(&rest, "\n");
    read_all(argc, argv);
    free(text);
    return 0;
}
