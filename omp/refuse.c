/* SPDX-License-Identifier: BSL-1.0 */
/* Constructs that are not supported, each of which ends the program with a line; and the directives
 * error and warning. */
#include <stdio.h>
#include <stdlib.h>

#include "library.h"

/* The functions' arguments are not read: the declarations are without them. */
#define REFUSE(name, construct)                                                                    \
    UM_OMP_ABI _Noreturn void name(void);                                                          \
    void name(void)                                                                                \
    {                                                                                              \
        um_omp_fatal("%s is not supported", construct);                                            \
    }

#define DOACROSS "ordered with a parameter (doacross)"

REFUSE(GOMP_doacross_post, DOACROSS)
REFUSE(GOMP_doacross_wait, DOACROSS)
REFUSE(GOMP_doacross_ull_post, DOACROSS)
REFUSE(GOMP_doacross_ull_wait, DOACROSS)
REFUSE(GOMP_loop_doacross_start, DOACROSS)
REFUSE(GOMP_loop_doacross_static_start, DOACROSS)
REFUSE(GOMP_loop_doacross_dynamic_start, DOACROSS)
REFUSE(GOMP_loop_doacross_guided_start, DOACROSS)
REFUSE(GOMP_loop_doacross_runtime_start, DOACROSS)
REFUSE(GOMP_loop_ull_doacross_start, DOACROSS)
REFUSE(GOMP_loop_ull_doacross_static_start, DOACROSS)
REFUSE(GOMP_loop_ull_doacross_dynamic_start, DOACROSS)
REFUSE(GOMP_loop_ull_doacross_guided_start, DOACROSS)
REFUSE(GOMP_loop_ull_doacross_runtime_start, DOACROSS)

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
