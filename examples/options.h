/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The options of a program, as a table: options_read() reads the arguments by it, and prints it for
 * --help. Called before the program starts any thread. A bad argument ends the program: one line
 * that names it, exit status 2. --help ends it with exit status 0.
 *
 * Every program with a table also has --cpus LIST: it uses only these processors. It then begins
 * anew, since libraries that count processors when they are loaded (OpenMP, BLAS) have done so.
 */
#ifndef EXAMPLES_OPTIONS_H
#define EXAMPLES_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#define NUMBERS_MOST 16 /* in a list */

/* A way to do what the program does: the first field of the program's own struct of a way. */
struct way {
    const char *name;
    const char *about;
    bool hidden; /* not to be run */
};

/* The program's ways, which lie so many bytes apart. */
struct ways {
    void *first;
    size_t count, bytes;
    int column; /* width of the names, in --help */
};

/* Where an option's list of numbers goes. */
struct numbers {
    size_t number[NUMBERS_MOST];
    size_t count;
};

struct option_row {
    const char *name;  /* "--size", or "FILE": an argument that is no option */
    const char *value; /* its name in --help; NULL: the option has no value */
    const char *help;  /* one line or more; NULL: not listed */
    bool nested;       /* listed below the row before it */

    /* The destination: one of these. */
    bool *flag; /* becomes true */
    const char **text;
    struct {
        size_t *to, least, most;
    } number;
    size_t *count; /* if not NULL, the number may be a list with commas, and goes to an array */
    const struct ways *ways; /* the others become hidden; names are separated by commas */
    struct {
        bool (*read)(const char *text, void *to); /* false: a bad value */
        void *to;
    } by;

    const char *wrong;  /* the message for a bad value; NULL: the table's */
    const char **given; /* if not NULL, becomes the name of the option when it is given */
};

struct options_table {
    const char *usage;   /* the first lines of --help */
    int column;          /* where the help begins in a line */
    const char *surplus; /* the message for an argument without a row; NULL: "not an option" */
    bool see_help;       /* the message for a bad value names --help, not the range */
    const struct option_row *rows; /* options first; a row without a name is the end */
};

/* Stores the value of each argument; the destinations of those that are not given stay as they are. */
void options_read(const struct options_table *table, int argc, char **argv);

#endif
