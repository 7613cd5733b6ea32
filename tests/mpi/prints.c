/* SPDX-License-Identifier: BSL-1.0 */
/*
 * prints HOW: prints to standard error by functions that the loader has for children. As a child it
 * must print what it prints alone, and end alike. "options": reads a table of arguments with
 * getopt(), getopt_long() and getopt_long_only(), and prints what they say, too.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <err.h>
#include <errno.h>
#include <error.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int flag;
static const struct option longs[] = {
    {"alpha", no_argument, NULL, 'a'},      {"alpine", required_argument, NULL, 'b'},
    {"alto", optional_argument, NULL, 'c'}, {"bet", required_argument, NULL, 'e'},
    {"beta", no_argument, NULL, 'd'},       {"flag", no_argument, &flag, 7},
    {"flat", no_argument, &flag, 8},        {"same-one", no_argument, NULL, 's'},
    {"same-two", no_argument, NULL, 's'},   {"same-but-one", no_argument, NULL, 't'},
    {"x-long", no_argument, NULL, 'l'},     {NULL, 0, NULL, 0}};

static const char *const letters[] = {"xy:z::", ":xy:z::", "+xy:z::", "-xy:z::", "xW;y:", "", ":"};

static const char *const lines[] = {
    "-x",         "-xx",         "-y",
    "-y 1",       "-y1",         "-xy1",
    "-z 1",       "-z1",         "-q",
    "-xq",        "-:",          "-;",
    "-",          "--",          "-- -x",
    "1 -x 2",     "1 -y 2 3 -x", "-x -- -x",
    "--alpha",    "--alpha=1",   "--alph",
    "--al",       "--al=1",      "--a",
    "--alp",      "--alpine",    "--alpine 1",
    "--alpine=1", "--alpine=",   "--alto 1",
    "--alto=1",   "--be",        "--bet",
    "--bet 1",    "--beta",      "--beta=1",
    "--fla",      "--flag",      "--flat",
    "--same",     "--same-",     "--same-o",
    "--same-b",   "--zeta",      "--zeta=1",
    "--x",        "-x-long",     "-x-l",
    "-al",        "-alp",        "-alpha",
    "-alpine 1",  "-be",         "-same",
    "-W alpha",   "-Walpha",     "-W",
    "-W al",      "-W zeta",     "-Walpha=1",
    "-W alpine",  "-Walpine=1",  "1 -W alpine 2 3",
    "--=1",       "-=1",         "---",
};

/* The words of a line, after a name. */
static int split(char *text, char **argv)
{
    int argc = 0;

    argv[argc++] = (char *)"program";
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    return argc;
}

static int next(int kind, int argc, char **argv, const char *known, int *which)
{
    return kind == 0   ? getopt(argc, argv, known)
           : kind == 1 ? getopt_long(argc, argv, known, longs, which)
                       : getopt_long_only(argc, argv, known, longs, which);
}

static void run(int kind, const char *known, const char *line)
{
    char text[64], *argv[16];
    int argc, result, which = -1;

    snprintf(text, sizeof(text), "%s", line);
    argc = split(text, argv);
    fprintf(stderr, "%d '%s' '%s'\n", kind, known, line);
    optind = 0;
    flag = 0;
    while ((result = next(kind, argc, argv, known, &which)) != -1)
        fprintf(stderr, "  %d argument %s option %d index %d which %d flag %d\n", result,
                optarg ? optarg : "none", result == '?' || result == ':' ? optopt : 0, optind,
                which, flag);
    fprintf(stderr, "  end %d:", optind);
    for (int i = 1; i < argc; i++)
        fprintf(stderr, " %s", argv[i]);
    fputc('\n', stderr);
}

static void options(void)
{
    for (int kind = 0; kind < 3; kind++)
        for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++)
            for (size_t k = 0; k < sizeof(lines) / sizeof(lines[0]); k++)
                run(kind, letters[i], lines[k]);
    opterr = 0;
    run(1, letters[0], "--al --zeta -q");
}

/* ---- messages ---- */

static void warns(void)
{
    warn("a %d", 1);
    warnx("b %s", "c");
    warn(NULL);
    warnx(NULL);
    perror("d");
    psignal(SIGINT, "e");
}

static void errors(void)
{
    error(0, 0, "a %d", 1);
    error(0, EINVAL, "b");
    error(0, 9999, "c");
    error_at_line(0, 0, "file.c", 3, "d");
    error_at_line(0, EPERM, NULL, 3, "e");
}

static void other_name(void)
{
    program_invocation_name = (char *)"another/name";
    program_invocation_short_name = (char *)"name";
    error(0, 0, "a");
    warnx("b");
}

static void ends(const char *how)
{
    if (strcmp(how, "err") == 0)
        err(3, "a %d", 1);
    if (strcmp(how, "err null") == 0)
        err(4, NULL);
    if (strcmp(how, "errx") == 0)
        errx(5, "b");
    if (strcmp(how, "error") == 0)
        error(6, ENOENT, "c");
    if (strcmp(how, "error_at_line") == 0)
        error_at_line(7, 0, "file.c", 4, "d");
    if (strcmp(how, "assert") == 0)
        assert(strcmp(how, "assert") != 0);
    if (strcmp(how, "abort") == 0)
        abort();
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";

    errno = ENOENT;
    if (strcmp(how, "options") == 0)
        options();
    if (strcmp(how, "warn") == 0)
        warns();
    if (strcmp(how, "errors") == 0)
        errors();
    if (strcmp(how, "name") == 0)
        other_name();
    ends(how);
    return 0;
}
