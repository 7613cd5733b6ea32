/* SPDX-License-Identifier: BSL-1.0 */
/* Texts that say where a member is: omp_display_affinity(). A field is %[[0].][width]letter, or
 * with {name} for its letter. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "library.h"

static const struct {
    char letter;
    const char *name;
} fields[] = {
    {'t', "team_num"},
    {'T', "num_teams"},
    {'L', "nesting_level"},
    {'n', "thread_num"},
    {'N', "num_threads"},
    {'a', "ancestor_tnum"},
    {'H', "host"},
    {'P', "process_id"},
    {'i', "native_thread_id"},
    {'A', "thread_affinity"},
};

/* The processors that the thread may use, as a list. */
static void processors(char *text, size_t bytes)
{
    cpu_set_t set;
    size_t at = 0;
    int first = -1;

    text[0] = 0;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return;
    for (int cpu = 0; cpu <= CPU_SETSIZE && at < bytes; cpu++) {
        bool is = cpu < CPU_SETSIZE && CPU_ISSET(cpu, &set);

        if (is && first < 0)
            first = cpu;
        if (is || first < 0)
            continue;
        at += (size_t)snprintf(text + at, bytes - at, cpu - 1 > first ? "%s%d-%d" : "%s%d",
                               at > 0 ? "," : "", first, cpu - 1);
        first = -1;
    }
}

static void value_of(char letter, char *text, size_t bytes)
{
    if (letter == 'H')
        gethostname(text, bytes);
    else if (letter == 'A')
        processors(text, bytes);
    else
        snprintf(text, bytes, "%d",
                 letter == 't'   ? omp_get_team_num()
                 : letter == 'T' ? omp_get_num_teams()
                 : letter == 'L' ? omp_get_level()
                 : letter == 'n' ? omp_get_thread_num()
                 : letter == 'N' ? omp_get_num_threads()
                 : letter == 'a' ? omp_get_ancestor_thread_num(omp_get_level() - 1)
                 : letter == 'P' ? (int)getpid()
                                 : (int)gettid());
}

/* The letter of the field that *at begins, which goes behind it; 0: there is no such field. */
static char letter_read(const char **at)
{
    size_t bytes = **at == '{' ? strcspn(*at, "}") : 0;

    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        if (bytes == 0 && **at == fields[i].letter) {
            ++*at;
            return fields[i].letter;
        }
        if (bytes > 1 && strlen(fields[i].name) == bytes - 1 &&
            strncmp(*at + 1, fields[i].name, bytes - 1) == 0) {
            *at += bytes + ((*at)[bytes] == '}');
            return fields[i].letter;
        }
    }
    return 0;
}

/* Reads a field behind its %; prints it. */
static const char *field_print(const char *at, FILE *to)
{
    bool zero, right;
    int width = 0;
    char letter, text[1024];

    if (*at == '%') {
        fputc('%', to);
        return at + 1;
    }
    zero = *at == '0';
    at += zero;
    right = *at == '.';
    at += right;
    while (*at >= '0' && *at <= '9' && width < 1000)
        width = width * 10 + (*at++ - '0');
    letter = letter_read(&at);
    if (letter == 0) {
        fputs("undefined", to);
        return *at ? at + 1 : at;
    }
    value_of(letter, text, sizeof(text));
    for (int i = (int)strlen(text); right && i < width; i++)
        fputc(zero ? '0' : ' ', to);
    fprintf(to, "%-*s", right ? 0 : width, text);
    return at;
}

/* What the format says, or the usual one, in memory for free(). */
static char *made(const char *format, size_t *length)
{
    char *text;
    FILE *to = open_memstream(&text, length);

    if (!to)
        um_omp_fatal("out of memory");
    format = format && *format ? format : um_omp_settings.format;
    while (*format)
        if (*format == '%')
            format = field_print(format + 1, to);
        else
            fputc(*format++, to);
    if (fclose(to) != 0)
        um_omp_fatal("out of memory");
    return text;
}

void omp_set_affinity_format(const char *format)
{
    static char *own;
    char *copy = strdup(format);

    if (!copy)
        um_omp_fatal("out of memory");
    um_omp_settings.format = copy;
    free(own);
    own = copy;
}

size_t omp_get_affinity_format(char *text, size_t bytes)
{
    if (bytes > 0)
        snprintf(text, bytes, "%s", um_omp_settings.format);
    return strlen(um_omp_settings.format);
}

void omp_display_affinity(const char *format)
{
    size_t length;
    char *text = made(format, &length);

    fprintf(stderr, "%s\n", text);
    free(text);
}

size_t omp_capture_affinity(char *text, size_t bytes, const char *format)
{
    size_t length;
    char *all = made(format, &length);

    if (bytes > 0)
        snprintf(text, bytes, "%s", all);
    free(all);
    return length;
}
