/* SPDX-License-Identifier: BSL-1.0 */
/* What the tests of mpi/image/image.h share: opens an executable, starts it as a child, waits for it. */
#ifndef TESTS_MPI_CHILDREN_H
#define TESTS_MPI_CHILDREN_H

#include <fibers.h>
#include <image.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline struct umbra_image *opened(const char *path)
{
    struct umbra_image *image = NULL;
    int error = umbra_image_open(path, &image);

    cr_expect_eq(error, 0, "%s: %s", path, umbra_last_error_text());
    return image;
}

/* Starts a child with up to two arguments, on any core. */
static inline struct umbra_child *started(struct umbra_image *image, const char *how,
                                          const char *with)
{
    char *argv[] = {(char *)"behaves", (char *)(uintptr_t)how, (char *)(uintptr_t)with, NULL};
    struct umbra_child_options options = {.argv = argv, .spawn.where = UMBRA_HERE};
    struct umbra_child *child = NULL;
    int error = umbra_child_start(NULL, image, &options, &child);

    cr_expect_eq(error, 0, "%s", umbra_last_error_text());
    umbra_yield(); /* it copies its arguments */
    return child;
}

static inline int waited(struct umbra_child *child)
{
    int status = -1;

    cr_expect_eq(umbra_child_wait(child, &status), 0);
    return status;
}

static inline int ran(struct umbra_image *image, const char *how, const char *with)
{
    return waited(started(image, how, with));
}

/* umbra_image_open() gives this error, with these words among the reasons. */
static inline void refused(const char *path, int expected, const char *why)
{
    struct umbra_image *image = NULL;
    int error = umbra_image_open(path, &image);

    cr_expect_eq(error, expected, "%s: %d", path, error);
    cr_expect(strstr(umbra_last_error_text(), why), "%s: %s", path, umbra_last_error_text());
    cr_expect_null(image);
}

#endif
