/* SPDX-License-Identifier: BSL-1.0 */
/*
 * One copy of the library's state in an executable, however many of its files include the headers,
 * and another in each shared object: what UM_LINKONCE promises. The state is the report on wait
 * back ends, which is made once.
 */
#include <stdio.h>

#include <umbra/wait.h>

#include "linkonce.h"

int main(void)
{
    const void *first = um_wait_report();
    const void *second = linkonce_second();
    const void *object = linkonce_object();

    printf("first file %p, second file %p, shared object %p\n", first, second, object);
    if (first != second) {
        printf("two files of one executable do not share their state\n");
        return 1;
    }
    if (first == object) {
        printf("the shared object uses the executable's state\n");
        return 1;
    }
    return 0;
}
