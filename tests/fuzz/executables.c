/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Damaged executables, as mpi/image/ reads them: all steps of opening that execute nothing of the file.
 * No library is loaded but the C library.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "../../mpi/image/loader.h"

/* ---- what the loader asks of its other parts, and of the C library ---- */

const char um_tlsdesc_fixed[1];

/* In place of the functions of these names: see meson.build. */
void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
char *__wrap_realpath(const char *path, char *to);
int __wrap_um_resolvers_run(struct umbra_image *image);

void *__wrap_dlopen(const char *name, int flags)
{
    return __real_dlopen(strcmp(name, "libc.so.6") == 0 ? name : "", flags);
}

/* The file has no name. */
char *__wrap_realpath(const char *path, char *to)
{
    (void)to;
    return strdup(path);
}

void *um_binding(const char *name)
{
    return strcmp(name, "exit") == 0 ? (void *)(uintptr_t)um_binding : NULL;
}

int um_room_check(void)
{
    return 0;
}

int um_crash_start(void)
{
    return 0;
}

void um_crash_stop(void)
{
}

int um_tls_offset(const void *address, uint64_t *offset)
{
    *offset = (uintptr_t)address;
    return 0;
}

int um_tls_module(const void *address, uint64_t *module, uint64_t *offset)
{
    *module = 1;
    *offset = (uintptr_t)address;
    return 0;
}

/* The last step. The words that it would have computed by the file's functions, and all others that
 * depend on the base, are the image's. */
int __wrap_um_resolvers_run(struct umbra_image *image)
{
    const struct um_array *list[] = {&image->based, &image->resolvers};

    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < list[i]->count; k++) {
            uint64_t at = ((const struct um_based *)list[i]->first)[k].at;

            HOLDS(at >= image->data.at && at <= image->span && image->span - at >= 8);
        }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct umbra_image *image = NULL;
    int error = umbra_image_open(fuzz_file(data, size), &image);

    HOLDS(error == 0 || error == -ENOEXEC || error == -ENOMEM);
    HOLDS((error == 0) == (image != NULL) && (error == 0) == (*umbra_last_error_text() == 0));
    HOLDS(umbra_image_close(image) == 0);
    return 0;
}
