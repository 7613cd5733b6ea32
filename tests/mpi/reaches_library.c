/* SPDX-License-Identifier: BSL-1.0 */
/* An executable's own library: ends the program, as libgfortran does at STOP; with NEEDY it calls a
 * function of the executable; and it has one that an executable may replace. */
#include <stdlib.h>

#ifdef NEEDY
int of_the_executable(void);
#endif

void leave(void);
int replaced(void);

void leave(void)
{
#ifdef NEEDY
    exit(of_the_executable());
#else
    exit(16);
#endif
}

__attribute__((weak)) int replaced(void)
{
    return 1;
}
