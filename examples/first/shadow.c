/* SPDX-License-Identifier: BSL-1.0 */
#include <stdio.h>
#include <umbra.h>

static void add(void *sum) {
    for (int i = 1; i <= 1000; i++) *(int *)sum += i;
}

int main(void) {
    struct umbra_shadow shadow;
    int sum = 0, error = shadow_create(&shadow, NULL); /* starts a helper beside this thread */
    if (error) return error == -ENODEV ? 77 : 1;       /* 77: there is one hardware thread only */
    shadow_fork(&shadow, add, &sum);                   /* the helper runs add(&sum) ... */
    shadow_join(&shadow);                              /* ... and has run it */
    printf("%d\n", sum);
    return shadow_destroy(&shadow);
}
