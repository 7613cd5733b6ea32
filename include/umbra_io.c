/* SPDX-License-Identifier: BSL-1.0 */
/* The cold functions of umbra/io.h, once in a program that compiles its files with UMBRA_DECLARE. */
#undef UMBRA_DECLARE
#include <umbra/io.h>
