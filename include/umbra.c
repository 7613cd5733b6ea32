/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The implementation, for programs in which no other file defines UMBRA_IMPLEMENTATION. Compiled
 * with -DUMBRA_URING, and linked with -luring, umbra/io.h uses io_uring.
 */
#ifndef UMBRA_IMPLEMENTATION
#define UMBRA_IMPLEMENTATION
#endif
#include <umbra.h>
#ifdef __linux__
#include <umbra/io.h>
#endif
