/* SPDX-License-Identifier: BSL-1.0 */
/* A program without a C++ runtime: linked with Boost.Context's archive, since the shared library needs
 * one. */
#include "fibers.h"

static void *yields(void *arg)
{
    umbra_yield();
    return arg;
}

static void *two_yield(void *arg)
{
    struct umbra_fiber fiber;

    cr_expect_eq(umbra_spawn(yields, NULL, &fiber), 0);
    umbra_yield();
    cr_expect_eq(umbra_join(fiber, UMBRA_NEVER, NULL), 0);
    return arg;
}

Test(no_exceptions, a_program_without_a_cxx_runtime_links_and_runs)
{
    if (um_exceptions_of_thread)
        cr_skip_test(
            "a library that this build needs, such as a sanitizer's, brings a C++ runtime");
    cr_assert_eq(run_cores(1, two_yield, NULL), 0);
}
