/* SPDX-License-Identifier: BSL-1.0 */
/* The library's cold functions, once for all programs of a build; see meson.build here. */
#include <umbra.h>
