/* SPDX-License-Identifier: BSL-1.0 */
/* A fiber that calls itself until its stack is used up. */
#include <umbra.h>

static int deeper(int depth)
{
    volatile char room[512];

    room[0] = (char)depth;
    return depth > 0 ? deeper(depth - 1) + room[0] : 0;
}

static void *overflows(void *arg)
{
    return (void *)(intptr_t)deeper(arg ? 1000000 : 1000001);
}

int main(void)
{
    return umbra_run(NULL, overflows, NULL);
}
