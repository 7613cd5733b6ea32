/* SPDX-License-Identifier: BSL-1.0 */
/* A user's program, as small as it gets: prints 42, computed on another hardware thread. */
#include <stdio.h>

#include <umbra/shadow.h>

static void multiply(void *arg)
{
    int *value = arg;

    *value *= 7;
}

int main(void)
{
    struct umbra_shadow shadow;
    int value = 6;
    int error = shadow_create(&shadow, NULL);

    if (error != 0) {
        printf("shadow_create: error %d\n", error);
        return 1;
    }
    if (shadow_fork(&shadow, multiply, &value) != 0 || shadow_join(&shadow) != 0)
        return 1;
    printf("%d\n", value);
    return shadow_destroy(&shadow) != 0;
}
