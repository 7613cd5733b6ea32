/* SPDX-License-Identifier: BSL-1.0 */
/* Names what idle_users.hpp has, for the texts before it. */
struct um_fiber;
struct umbra_core;
struct umbra_fiber;
