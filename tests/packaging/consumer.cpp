/* SPDX-License-Identifier: BSL-1.0 */
/* consumer.c in C++: prints 42, computed on another hardware thread. */
#include <cstdio>

#include <umbra/shadow.h>

int main()
{
    umbra_shadow shadow;
    int value = 6;
    int error = shadow_create(&shadow, nullptr);

    if (error != 0) {
        std::printf("shadow_create: error %d\n", error);
        return 1;
    }
    auto multiply = [](void *arg) { *static_cast<int *>(arg) *= 7; };
    if (shadow_fork(&shadow, multiply, &value) != 0 || shadow_join(&shadow) != 0)
        return 1;
    std::printf("%d\n", value);
    return shadow_destroy(&shadow) != 0;
}
