/* SPDX-License-Identifier: BSL-1.0 */
/* An executable that is linked in ways that cannot be held. */
#include <stdio.h>

#ifdef LARGE
static _Thread_local volatile char large[20000];
#endif
#ifdef LOCAL
static _Thread_local volatile int local;
#endif

int main(void)
{
#ifdef LARGE
    large[1] = 1;
#endif
#ifdef LOCAL
    local = 1;
#pragma omp parallel
    puts("parallel");
#endif
    return puts("runs") < 0;
}
