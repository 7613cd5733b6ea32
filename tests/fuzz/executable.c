/* SPDX-License-Identifier: BSL-1.0 */
/* What is damaged: an executable with something of all that the loader reads. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Thread_local int filled = 5;
static _Thread_local char cleared[40];
static char *const *pointer = &optarg;

static int chosen_one(void)
{
    return 1;
}

static int (*choose(void))(void)
{
    return chosen_one;
}

int chosen(void) __attribute__((ifunc("choose")));

__attribute__((constructor)) static void begins(void)
{
    cleared[0]++;
}

int main(void)
{
    return printf("%d %s %s\n", filled + optind + chosen() + cleared[0], *pointer,
                  program_invocation_short_name) < 0 ||
           !environ || errno;
}
