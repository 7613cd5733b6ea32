/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The cold functions, for a program none of whose files defines UMBRA_IMPLEMENTATION. With
 * -DUMBRA_URING, and -luring for the linker, umbra/io.h uses io_uring.
 */
#ifndef UMBRA_IMPLEMENTATION
#define UMBRA_IMPLEMENTATION
#endif
#include <umbra.h>
#ifdef __linux__
#include <umbra/io.h>
#endif
