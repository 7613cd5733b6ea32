/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The atomic words of the protocols. Private.
 *
 * The headers in umbra/protocol/ use atomics through these names only, and stay in the common
 * subset of C and C++, so that a model checker can read the very text that ships: the checker
 * defines UM_MODEL_CHECK and its own um_atomic_* before it includes a protocol. The typedefs exist
 * for the same reason.
 */
#ifndef UMBRA_BASE_ATOMIC_H
#define UMBRA_BASE_ATOMIC_H

#ifndef UM_MODEL_CHECK
#include <stdatomic.h>
#include <stdint.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

typedef _Atomic uint32_t um_atomic_u32;
typedef _Atomic uint64_t um_atomic_u64;
typedef _Atomic uintptr_t um_atomic_uptr;

#define um_atomic_load(p, order) atomic_load_explicit((p), memory_order_##order)
#define um_atomic_store(p, value, order) atomic_store_explicit((p), (value), memory_order_##order)
#define um_atomic_exchange(p, value, order)                                                        \
    atomic_exchange_explicit((p), (value), memory_order_##order)
#define um_atomic_fetch_add(p, value, order)                                                       \
    atomic_fetch_add_explicit((p), (value), memory_order_##order)
#define um_atomic_fetch_or(p, value, order)                                                        \
    atomic_fetch_or_explicit((p), (value), memory_order_##order)
#define um_atomic_fetch_and(p, value, order)                                                       \
    atomic_fetch_and_explicit((p), (value), memory_order_##order)
/* True if *p was *expected; then *p is `value` now. If false, *expected becomes what *p was. */
#define um_atomic_cas(p, expected, value, order, failed)                                           \
    atomic_compare_exchange_strong_explicit((p), (expected), (value), memory_order_##order,        \
                                            memory_order_##failed)

/* An ordinary variable that a protocol protects; the checker reports races on it. */
#define um_plain(type) type
#define um_plain_read(variable) (variable)
#define um_plain_write(variable, value) ((variable) = (value))
#endif

#endif
