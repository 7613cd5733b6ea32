/* SPDX-License-Identifier: BSL-1.0 */
/* What the files of the program `calls` share: calls.c says what it does. */
#ifndef TESTS_MPI_CALLS_H
#define TESTS_MPI_CALLS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE 20000 /* ints: more than the library copies */
#define MOST 8      /* tasks */

/* A function of MPI, and what is done with it, in all tasks at the same time. */
struct row {
    const char *name;
    void (*run)(void);
};
extern const struct row message_rows[], request_rows[], collect_rows[], comm_rows[], spawn_rows[];

extern int rank, size; /* of MPI_COMM_WORLD; of the parent -1 */
extern char *program;  /* what this is */
extern MPI_Comm comm;  /* of all tasks, for one row; errors are returned */

/* Adds to the line of the row that is run. */
__attribute__((__format__(__printf__, 1, 2))) void say(const char *format, ...);
void say_error(const char *what, int error); /* its class */
void say_numbers(const char *what, const int *numbers, int count);
/* Source, tag, number of ints, and whether it was cancelled. */
void say_status(const char *what, const MPI_Status *status);
/* 1, 2, ... times a factor; and their sum, so that a line stays short. */
void fill(int *numbers, int count, int factor);
long sum_of(const int *numbers, int count);
/* Every third int of three, so `count` of them in a buffer of 3 * count; the caller frees it. */
MPI_Datatype sparse_type(int count);

/* What the parent and its three children do with each other. */
void between(MPI_Comm other, bool is_parent);
int run_grandchild(int argc, char **argv);

#endif
