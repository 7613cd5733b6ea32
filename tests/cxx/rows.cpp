/* SPDX-License-Identifier: BSL-1.0 */
/* The same in C++. */
#include "rows.c"
