/* SPDX-License-Identifier: BSL-1.0 */
/* Compiled with -fsplit-stack: a runtime does not start, and says why. */
#include <stdio.h>
#include <string.h>

#include <umbra.h>

static void *never(void *arg)
{
    return arg;
}

int main(void)
{
    int error = umbra_run(NULL, never, NULL);

    printf("%d: %s\n", error, umbra_last_error_text());
    return error != -EOPNOTSUPP || !strstr(umbra_last_error_text(), "-fsplit-stack");
}
