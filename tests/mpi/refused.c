/* SPDX-License-Identifier: BSL-1.0 */
/* An executable that is linked in ways that cannot be held. */
#define _GNU_SOURCE
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef LARGE
static _Thread_local volatile char large[20000];
#endif
#ifdef LOCAL
static _Thread_local volatile int local;
#endif
#ifdef ALLOCATOR
static char heap[100000];

void *malloc(size_t bytes)
{
    static size_t used;

    used += (bytes + 31) & ~(size_t)15;
    return used < sizeof(heap) ? heap + used - bytes : NULL;
}

void free(void *memory)
{
    (void)memory;
}
#endif
#ifdef LIBRARY
void leave(void);
#endif
#ifdef REPLACED
int replaced(void);
int replaced(void)
{
    return 9;
}
#endif
#ifdef NEEDY
int of_the_executable(void);
int of_the_executable(void)
{
    return 7;
}
#endif

int main(int argc, char **argv)
{
#ifdef LARGE
    large[1] = 1;
#endif
#ifdef LOCAL
    local = 1;
#pragma omp parallel
    puts("parallel");
#endif
#ifdef ARGUMENTS
    struct argp none = {.doc = "argp_parse ends a program that is asked for help"};

    argp_parse(&none, argc, argv, 0, NULL, NULL);
#endif
#ifdef TIME_ZONE
    printf("%ld %s\n", timezone, tzname[0]);
#endif
#ifdef LIBRARY
    leave();
#endif
    return argc < 1 || puts(argv[0]) < 0;
}
