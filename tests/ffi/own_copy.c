/* SPDX-License-Identifier: BSL-1.0 */
/* Loads an object, and uses an implementation of its own: own_copy OBJECT. */
#include <dlfcn.h>
#include <stdio.h>

#include <umbra.h>

int main(int argc, char **argv)
{
    void *object = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

    if (!object) {
        printf("usage: own_copy OBJECT; %s\n", argc == 2 ? dlerror() : "");
        return 2;
    }
    return umbra_core_index() >= 0 || umbra_sleep_ns(1) != 0;
}
