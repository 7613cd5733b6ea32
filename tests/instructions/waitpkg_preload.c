/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The emulator for programs that do not know of it: preloaded, it is there before main. tools/test
 * runs the unit and stress tests so, with UMBRA_WAIT=waitpkg. No faults are injected.
 */
#include <stddef.h>

#include "waitpkg_emulator.h"

/* Where it cannot be installed, the processor has the instructions or the tests will say so. */
__attribute__((constructor)) static void waitpkg_preload(void)
{
    waitpkg_emulator_install(NULL);
}
