/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A file that a program writes at its end: whether it can be is known at the beginning, and it is
 * there as a whole or not at all. What is written goes to a file beside it, which takes its name
 * when all is well; what is no ordinary file, a device or a pipe, say, is written itself.
 * The includer defines _GNU_SOURCE.
 */
#ifndef EXAMPLES_OUTPUT_H
#define EXAMPLES_OUTPUT_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct output {
    const char *path;
    FILE *file;          /* to write to; NULL: not open */
    char part[PATH_MAX]; /* its name until it is complete; empty: the path itself */
};

/* 0 or a negative errno, and nothing is left open. */
static inline int output_open(struct output *output, const char *path)
{
    struct stat found;
    bool there = lstat(path, &found) == 0;

    *output = (struct output){.path = path};
    if (there && S_ISREG(found.st_mode) && access(path, W_OK) != 0)
        return -errno;
    if (!there || S_ISREG(found.st_mode)) {
        int length = snprintf(output->part, sizeof(output->part), "%s.part", path);

        if (length >= (int)sizeof(output->part))
            return -ENAMETOOLONG;
    }
    output->file = *path ? fopen(*output->part ? output->part : path, "w") : NULL;
    return output->file ? 0 : *path ? -errno : -ENOENT;
}

/* The end of what is open: the file is as it was before if that failed, or is not to be kept. 0 or a
 * negative errno. */
static inline int output_close(struct output *output, bool keep)
{
    int error = 0;

    if (!output->file)
        return 0;
    errno = 0;
    if (fflush(output->file) != 0 || ferror(output->file))
        error = errno ? errno : EIO;
    if (fclose(output->file) != 0 && !error)
        error = errno;
    output->file = NULL;
    if (*output->part && keep && !error && rename(output->part, output->path) != 0)
        error = errno;
    if (*output->part && (!keep || error))
        (void)unlink(output->part);
    return -error;
}

#endif
