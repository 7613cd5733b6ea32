/* SPDX-License-Identifier: BSL-1.0 */
/* What test_two_copies.c finds in its shared object, by name. */
#ifndef UMBRA_TESTS_TWO_COPIES_H
#define UMBRA_TESTS_TWO_COPIES_H

/* A runtime with a blocked fiber "of the object", which is dumped on a signal: begins; ends. 0 or an
 * error. */
typedef int two_copies_start_fn(int dump_signal);
typedef int two_copies_stop_fn(void);

/* A fiber of it overflows its stack. */
typedef int two_copies_overflow_fn(void);

/* The calling thread locks a mutex, or finds that it holds it, and unlocks it: the errors of both. */
struct umbra_mutex;
typedef int two_copies_lock_fn(struct umbra_mutex *mutex);
typedef int two_copies_unlock_fn(struct umbra_mutex *mutex);

#endif
