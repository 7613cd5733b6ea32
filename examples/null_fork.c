/* SPDX-License-Identifier: BSL-1.0 */
/* The null fork: hands a function to a helper thread and gets it back done; prints the cost. */
#include <stdio.h>

#include <umbra/shadow.h>

static void count(void *calls)
{
    ++*(unsigned *)calls;
}

int main(void)
{
    _Alignas(UMBRA_CACHE_LINE) struct umbra_shadow shadow;
    unsigned forks = 100000, calls = 0;
    int error = shadow_create(&shadow, NULL);

    if (error) {
        fprintf(stderr, "null_fork: no shadow: %s\n", umbra_last_error_text());
        return error == -ENODEV ? 77 : 1; /* 77: this process has one hardware thread only */
    }
    uint64_t start = umbra_now_ns();
    for (unsigned i = 0; i < forks; i++) {
        shadow_fork(&shadow, count, &calls); /* the helper runs count(&calls) ... */
        shadow_join(&shadow);                /* ... and has run it */
    }
    printf("%u calls, %.1f ns each\n", calls, (double)(umbra_now_ns() - start) / forks);
    shadow_destroy(&shadow);
    return calls == forks ? 0 : 1;
}
