/* SPDX-License-Identifier: BSL-1.0 */
/* Stands before Boost's own in test_context_cxx_names: the version that changed the names. */
#define BOOST_VERSION 108700
