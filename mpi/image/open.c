/* SPDX-License-Identifier: BSL-1.0 */
/* Opening and closing an image: the order of the steps that loader.h lists. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "loader.h"

/* What only the steps of opening need. */
static void file_unmap(struct umbra_image *image)
{
    if (image->file)
        munmap((void *)(uintptr_t)image->file, image->file_bytes);
    image->file = NULL;
    um_array_free(&image->own); /* its names are in the file */
    um_array_free(&image->resolvers);
}

static void image_free(struct umbra_image *image)
{
    file_unmap(image);
    um_copies_unmap(image);
    um_array_free(&image->based);
    um_array_free(&image->libraries); /* which stay loaded: the process may hold parts of them */
    if (image->fd >= 0)
        close(image->fd);
    free(image->data.content);
    free(image->extra.content);
    free(image->path);
    free(image);
}

static struct umbra_image *image_make(const char *path)
{
    struct umbra_image *image = calloc(1, sizeof(*image));
    const char *slash;

    if (!image)
        return NULL;
    image->fd = -1;
    image->path = realpath(path, NULL);
    if (!image->path) {
        um_why(-errno, "%.80s: %s", path, strerror(errno));
        free(image);
        return NULL;
    }
    slash = strrchr(image->path, '/');
    image->short_name = slash ? slash + 1 : image->path;
    return image;
}

static int image_read(struct umbra_image *image)
{
    int error = um_room_check();

    if (error == 0)
        error = um_elf_read(image);
    if (error == 0)
        error = um_libraries_load(image);
    if (error == 0)
        error = um_own_find(image);
    if (error == 0)
        error = um_relocate(image);
    if (error == 0)
        error = um_resolvers_run(image);
    return error;
}

int umbra_image_open(const char *path, struct umbra_image **result)
{
    struct umbra_image *image;
    int error;

    um_why_begin();
    errno = 0;
    image = image_make(path);
    if (!image)
        return um_why_returned(errno ? -errno : -ENOMEM);
    error = image_read(image);
    file_unmap(image);
    if (error == 0)
        error = um_crash_start();
    if (error != 0) {
        image_free(image);
        return um_why_returned(error);
    }
    *result = image;
    return 0;
}

int umbra_image_close(struct umbra_image *image)
{
    size_t children;

    if (!image)
        return 0;
    um_lock_take(&image->lock);
    children = image->children;
    um_lock_release(&image->lock);
    if (children > 0)
        return -EBUSY;
    um_crash_stop();
    image_free(image);
    return 0;
}
