/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The atomic words of the protocols. Private.
 *
 * The protocols use atomics through these names only, and stay in the common
 * subset of C and C++, so that a model checker can read the very text that ships: the checker
 * defines UM_MODEL_CHECK and its own um_atomic_* before it includes a protocol. The typedefs exist
 * for the same reason.
 *
 * C++ has no _Atomic: there the words are plain ones of the same size, and each access is one of
 * the compiler's built-ins with the same order. um_atomic_ptr(T) is an atomic pointer to a T.
 */
#ifndef UMBRA_BASE_ATOMIC_H
#define UMBRA_BASE_ATOMIC_H

#ifndef UM_MODEL_CHECK
#ifndef __cplusplus
#include <stdatomic.h>
#endif
#include <stdint.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifndef __cplusplus

typedef _Atomic uint32_t um_atomic_u32;
typedef _Atomic uint64_t um_atomic_u64;
typedef _Atomic uintptr_t um_atomic_uptr;
#define um_atomic_ptr(type) _Atomic(type *)

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

#else

typedef uint32_t um_atomic_u32;
typedef uint64_t um_atomic_u64;
typedef uintptr_t um_atomic_uptr;
#define um_atomic_ptr(type) type *

#define UM_ORDER_relaxed __ATOMIC_RELAXED
#define UM_ORDER_acquire __ATOMIC_ACQUIRE
#define UM_ORDER_release __ATOMIC_RELEASE
#define UM_ORDER_acq_rel __ATOMIC_ACQ_REL
#define UM_ORDER_seq_cst __ATOMIC_SEQ_CST
#define um_atomic_load(p, order) __atomic_load_n((p), UM_ORDER_##order)
#define um_atomic_store(p, value, order) __atomic_store_n((p), (value), UM_ORDER_##order)
#define um_atomic_exchange(p, value, order) __atomic_exchange_n((p), (value), UM_ORDER_##order)
#define um_atomic_fetch_add(p, value, order) __atomic_fetch_add((p), (value), UM_ORDER_##order)
#define um_atomic_fetch_or(p, value, order) __atomic_fetch_or((p), (value), UM_ORDER_##order)
#define um_atomic_fetch_and(p, value, order) __atomic_fetch_and((p), (value), UM_ORDER_##order)
#define um_atomic_cas(p, expected, value, order, failed)                                           \
    __atomic_compare_exchange_n((p), (expected), (value), false, UM_ORDER_##order,                 \
                                UM_ORDER_##failed)

#endif

/* An ordinary variable that a protocol protects; the checker reports races on it. */
#define um_plain(type) type
#define um_plain_read(variable) (variable)
#define um_plain_write(variable, value) ((variable) = (value))
#endif

#endif
