/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the targets share. A target is called by libFuzzer with one input after the other; what must
 * not happen is a report of a sanitizer, a HOLDS that is false, or an input that takes seconds.
 * The includer defines _GNU_SOURCE.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HOLDS(condition) ((condition) ? (void)0 : fuzz_fails(#condition, __LINE__))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void);

/* An allocation that an input asks for and that is too large fails, as it may anywhere. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=1024:detect_stack_use_after_return="
           "0";
}

__attribute__((unused)) static void fuzz_fails(const char *condition, int line)
{
    fprintf(stderr, "line %d: this does not hold: %s\n", line, condition);
    abort();
}

/* The path of a file with this content; the same file each time. */
__attribute__((unused)) static const char *fuzz_file(const uint8_t *data, size_t size)
{
    static char path[32];
    static int file = -1;

    if (file < 0)
        file = memfd_create("input", MFD_CLOEXEC);
    HOLDS(file >= 0 && ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    return path;
}

/* The input as a text, up to its first 0; to be freed. */
__attribute__((unused)) static char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    HOLDS(text);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = 0;
    return text;
}

#endif
