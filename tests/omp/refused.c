/* SPDX-License-Identifier: BSL-1.0 */
/* refused.c CONSTRUCT: what is not supported ends the program. */
#include <omp.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (!strcmp(what, "doacross")) {
#pragma omp parallel for ordered(1) num_threads(2)
        for (int i = 0; i < 10; i++) {
#pragma omp ordered depend(sink : i - 1)
#pragma omp ordered depend(source)
        }
    }
    return 0;
}
