/* SPDX-License-Identifier: BSL-1.0 */
/* The directives error and warning. */
#include <stdio.h>
#include <stdlib.h>

#include "library.h"

static void say(const char *directive, const char *text, size_t bytes)
{
    fprintf(stderr, "umbra_omp: %s directive encountered", directive);
    if (text)
        fprintf(stderr, ": %.*s", (int)bytes, text);
    fputc('\n', stderr);
}

UM_OMP_ABI void GOMP_warning(const char *text, size_t bytes)
{
    say("warning", text, bytes);
}

UM_OMP_ABI _Noreturn void GOMP_error(const char *text, size_t bytes)
{
    say("error", text, bytes);
    exit(EXIT_FAILURE);
}
