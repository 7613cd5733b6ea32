/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Copies of an image. A new one takes two mappings: the data, anonymous, and over its beginning the
 * file's text. The pages of the text are those of the page cache. A child fills its copy itself, on
 * its core.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "loader.h"

#define PAGE 4096u
#define CLEARED_BYTES 32768u /* of zeros: more are given back to the system, not written */

static int text_map(const struct umbra_image *image, char *base)
{
    for (unsigned i = 0; i < image->texts; i++) {
        const struct um_mapped *text = &image->text[i];

        if (mmap(base + text->at, text->bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED,
                 image->fd, (off_t)text->offset) == MAP_FAILED)
            return -ENOMEM;
    }
    return 0;
}

static struct um_image_copy *copy_make(const struct umbra_image *image)
{
    struct um_image_copy *copy = malloc(sizeof(*copy));
    void *base =
        copy ? mmap(NULL, image->span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
             : MAP_FAILED;

    if (base == MAP_FAILED || text_map(image, base) != 0) {
        um_why(-ENOMEM,
               "%.80s: no memory, address space or mapping (vm.max_map_count) for another copy",
               image->path);
        if (base != MAP_FAILED)
            munmap(base, image->span);
        free(copy);
        return NULL;
    }
    *copy = (struct um_image_copy){.base = base};
    return copy;
}

struct um_image_copy *um_image_copy_take(struct umbra_image *image)
{
    struct um_image_copy *copy;

    um_lock_take(&image->lock);
    copy = image->idle;
    if (copy)
        image->idle = copy->next;
    um_lock_release(&image->lock);
    return copy ? copy : copy_make(image);
}

void um_image_copy_put(struct umbra_image *image, struct um_image_copy *copy)
{
    um_lock_take(&image->lock);
    copy->next = image->idle;
    image->idle = copy;
    um_lock_release(&image->lock);
}

void um_copies_unmap(struct umbra_image *image)
{
    while (image->idle) {
        struct um_image_copy *copy = image->idle;

        image->idle = copy->next;
        munmap(copy->base, image->span);
        free(copy);
    }
}

/* Clears what an earlier child may have written. */
static void clear(char *low, char *high)
{
    char *first = (char *)(((uintptr_t)low + PAGE - 1) & -(uintptr_t)PAGE);
    char *last = (char *)((uintptr_t)high & -(uintptr_t)PAGE);

    if ((size_t)(high - low) <= CLEARED_BYTES ||
        madvise(first, (size_t)(last - first), MADV_DONTNEED) != 0) {
        memset(low, 0, (size_t)(high - low));
        return;
    }
    memset(low, 0, (size_t)(first - low));
    memset(last, 0, (size_t)(high - last));
}

void um_image_copy_fill(const struct umbra_image *image, struct um_image_copy *copy)
{
    const struct um_based *based = image->based.first;
    char *base = copy->base;

    if (copy->used)
        clear(base + image->data.at + image->data.bytes, base + image->extra.at);
    copy->used = true;
    memcpy(base + image->data.at, image->data.content, image->data.bytes);
    memcpy(base + image->extra.at, image->extra.content, image->extra.bytes);
    for (size_t i = 0; i < image->based.count; i++) {
        uint64_t value = (uintptr_t)base + based[i].value;

        memcpy(base + based[i].at, &value, sizeof(value));
    }
}
