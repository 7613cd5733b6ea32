/* SPDX-License-Identifier: BSL-1.0 */
/* The cold functions of the library, once for a program whose files are compiled with UMBRA_DECLARE. */
#undef UMBRA_DECLARE
#include <umbra.h>
