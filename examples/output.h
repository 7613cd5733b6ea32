/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A file that a program writes at its end: whether it can be is known at the beginning, and it is
 * there as a whole or not at all. What is written goes to a file beside it, which takes its name
 * when all is well. What is no ordinary file, a link, a device or a pipe, say, is written itself. The
 * includer defines _GNU_SOURCE, and program_name (program.h).
 */
#ifndef EXAMPLES_OUTPUT_H
#define EXAMPLES_OUTPUT_H

#include "program.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct output {
    const char *option, *path;
    FILE *file;          /* to write to; NULL: not open */
    char part[PATH_MAX]; /* its name until it is complete; empty: the path itself */
};

/* The exit status for an errno, or for 0: 1, which is said, or 0. */
static inline int output_status(const struct output *output, int error)
{
    if (error)
        fprintf(stderr, "%s: %s: %s: '%s'\n", program_name, output->option, strerror(error),
                output->path);
    return error ? 1 : 0;
}

/* 0 or an errno, and nothing is left open. */
static inline int output_try(struct output *output)
{
    const char *path = output->path;
    struct stat found;
    bool there = lstat(path, &found) == 0;

    if (!*path || (there && S_ISREG(found.st_mode) && access(path, W_OK) != 0))
        return *path ? errno : ENOENT;
    if ((!there || S_ISREG(found.st_mode)) &&
        snprintf(output->part, sizeof(output->part), "%s.%ld.part", path, (long)getpid()) >=
            PATH_MAX)
        return ENAMETOOLONG;
    output->file = *output->part ? fopen(output->part, "wx") : fopen(path, "w");
    if (output->file && *output->part && there)
        (void)fchmod(fileno(output->file), found.st_mode & 07777); /* if it cannot be, no harm */
    return output->file ? 0 : errno;
}

/* Before anything is computed for it: the file that an option asks for, if any. 0, or 1: no, which is
 * said. */
static inline int output_open(struct output *output, const char *option, const char *path)
{
    *output = (struct output){.option = option, .path = path};
    return path ? output_status(output, output_try(output)) : 0;
}

/*
 * The end of what is open: kept if the program's exit status is 0 so far; else the file is as it was
 * before. What is complete, but cannot take its name, stays where it is, and that is said. The status,
 * or 1 if that failed.
 */
static inline int output_close(struct output *output, int status)
{
    int error = 0;

    if (!output->file)
        return status;
    errno = 0;
    if (fflush(output->file) != 0 || ferror(output->file))
        error = errno ? errno : EIO;
    if (fclose(output->file) != 0 && !error)
        error = errno;
    output->file = NULL;
    if (*output->part && (status != 0 || error)) {
        (void)unlink(output->part);
    } else if (*output->part && rename(output->part, output->path) != 0) {
        error = errno;
        fprintf(stderr, "%s: what was to be written is complete in '%s'\n", program_name,
                output->part);
    }
    return status ? status : output_status(output, error);
}

#endif
