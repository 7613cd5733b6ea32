/* SPDX-License-Identifier: BSL-1.0 */
/* See options.h. */
#define _GNU_SOURCE
#include "options.h"
#include "program.h"

#include <assert.h>
#include <getopt.h>
#include <sched.h>
#include <unistd.h>

#define OPTIONS_MOST 20
#define CPUS_MOST ((size_t)8192) /* that Linux can have */
#define CPUS_BYTES CPU_ALLOC_SIZE(CPUS_MOST)

/* In every table. */
static const struct option_row cpus_row = {
    .name = "--cpus",
    .value = "LIST",
    .help = "only these of the processors that it may use, as 0,2-3",
};

static struct way *way_at(const struct ways *ways, size_t n)
{
    return (struct way *)((char *)ways->first + n * ways->bytes);
}

/* Hides the ways that are not in the list of names, which has one at least. Overwrites the commas. */
static void show_only(char *names, const struct ways *ways)
{
    for (size_t w = 0; w < ways->count; w++)
        way_at(ways, w)->hidden = true;
    if (strspn(names, ",") == strlen(names))
        refuse(names, "--only: no way is named");
    for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
        size_t w = 0;

        while (w < ways->count && strcmp(way_at(ways, w)->name, name) != 0)
            w++;
        if (w == ways->count)
            refuse(name, "--only: no such way");
        way_at(ways, w)->hidden = false;
    }
}

/* True if the text is what the row's numbers are: one, or a list, all in the range. */
static bool numbers_read(const char *text, const struct option_row *row)
{
    size_t *to = row->number.to, *count = row->count;

    for (size_t n = 0; n < (count ? NUMBERS_MOST : 1); text++) {
        text = number_read(text, row->number.least, row->number.most, &to[n++]);
        if (count)
            *count = n;
        if (!text || *text != ',')
            return text && *text == '\0';
    }
    return false;
}

/* True if the value is a good one. */
static bool store(const struct option_row *row, char *value)
{
    if (row->number.to)
        return numbers_read(value, row);
    if (row->by.read)
        return row->by.read(value, row->by.to);
    if (row->flag)
        *row->flag = true;
    else if (row->text)
        *row->text = value;
    else
        show_only(value, row->ways);
    return true;
}

/* ---- processors ---- */

/* True if the text lists processors that are all in `allowed`; they go to `wanted`. */
static bool cpus_read(const char *text, const cpu_set_t *allowed, cpu_set_t *wanted)
{
    size_t first, last;

    do {
        text = number_read(text, 0, CPUS_MOST - 1, &first);
        last = first;
        if (text && *text == '-')
            text = number_read(text + 1, first, CPUS_MOST - 1, &last);
        for (size_t cpu = first; text && cpu <= last; cpu++) {
            if (!CPU_ISSET_S(cpu, CPUS_BYTES, allowed))
                return false;
            CPU_SET_S(cpu, CPUS_BYTES, wanted);
        }
    } while (text && *text++ == ',');
    return text && text[-1] == '\0';
}

/* Leaves this process those processors, and begins the program anew if it had others. */
static void use_cpus(const char *list, char **argv)
{
    cpu_set_t *allowed = CPU_ALLOC(CPUS_MOST), *wanted = CPU_ALLOC(CPUS_MOST);

    if (!allowed || !wanted || sched_getaffinity(0, CPUS_BYTES, allowed) != 0)
        refuse(list, "--cpus: %s", strerror(errno));
    CPU_ZERO_S(CPUS_BYTES, wanted);
    if (!cpus_read(list, allowed, wanted))
        refuse(list, "--cpus: not processors that this program may use");
    if (!CPU_EQUAL_S(CPUS_BYTES, allowed, wanted)) {
        if (sched_setaffinity(0, CPUS_BYTES, wanted) == 0)
            execv("/proc/self/exe", argv);
        refuse(list, "--cpus: %s", strerror(errno));
    }
    CPU_FREE(allowed);
    CPU_FREE(wanted);
}

/* ---- the table ---- */

static void take(const struct options_table *table, const struct option_row *row, char *value)
{
    if (row->given)
        *row->given = row->name;
    if (store(row, value))
        return;
    if (row->wrong)
        refuse(value, "%s", row->wrong);
    if (!table->see_help)
        refuse(value, "%s: not a number from %zu to %zu", row->name, row->number.least,
               row->number.most);
    fprintf(stderr, "%s: not a value for %s: '%s' (see --help)\n", program_name, row->name, value);
    exit(2);
}

static void print_row(const struct option_row *row, int column)
{
    int at = printf("%*s%s%s%s", row->nested ? 4 : 2, "", row->name, row->value ? " " : "",
                    row->value ? row->value : "");

    for (const char *line = row->help; line; at = 0) {
        const char *end = strchr(line, '\n');

        printf("%*s%.*s\n", column - at, "", end ? (int)(end - line) : (int)strlen(line), line);
        line = end ? end + 1 : NULL;
    }
}

_Noreturn static void print_help(const struct options_table *table)
{
    fputs(table->usage, stdout);
    print_row(&cpus_row, table->column);
    for (const struct option_row *row = table->rows; row->name; row++) {
        if (row->help)
            print_row(row, table->column);
        for (size_t w = 0; row->ways && w < row->ways->count; w++)
            printf("%*s%-*s  %s\n", row->help ? 6 : 2, "", row->ways->column,
                   way_at(row->ways, w)->name, way_at(row->ways, w)->about);
    }
    exit(0);
}

/* The index of the next option in `known`, or -1: none is left. */
static int next_option(int argc, char **argv, const struct option *known)
{
    int index, found = getopt_long(argc, argv, "", known, &index);

    if (found > 0)
        exit(2); /* getopt_long has printed the line */
    return found == 0 ? index : -1;
}

void options_read(const struct options_table *table, int argc, char **argv)
{
    struct option known[OPTIONS_MOST + 3] = {{.name = NULL}};
    const struct option_row *row = table->rows;
    const char *cpus = NULL;
    int count = 0, index;

    for (; row->name && *row->name == '-'; row++) {
        assert(count < OPTIONS_MOST);
        known[count].name = row->name + strlen("--");
        known[count++].has_arg = row->value ? required_argument : no_argument;
    }
    known[count] = (struct option){.name = "cpus", .has_arg = required_argument};
    known[count + 1].name = "help";
    while ((index = next_option(argc, argv, known)) >= 0)
        cpus = index == count ? optarg : cpus;
    if (cpus) /* before the arguments are read, which changes them */
        use_cpus(cpus, argv);
    optind = 1;
    while ((index = next_option(argc, argv, known)) >= 0) {
        if (index > count)
            print_help(table);
        if (index < count)
            take(table, &table->rows[index], optarg);
    }
    for (; optind < argc; optind++, row++) {
        if (!row->name)
            refuse(argv[optind], "%s", table->surplus ? table->surplus : "not an option");
        take(table, row, argv[optind]);
    }
}
