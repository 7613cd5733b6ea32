/* SPDX-License-Identifier: BSL-1.0 */
/* A shared object with a copy of the library: test_two_copies.c opens and closes it. */
#include "two_copies.h"
#include "two_copies_part.h"

two_copies_start_fn two_copies_start;
two_copies_stop_fn two_copies_stop, two_copies_overflow;
two_copies_lock_fn two_copies_lock;
two_copies_unlock_fn two_copies_unlock;

int two_copies_start(int dump_signal)
{
    return part_start(dump_signal, "of the object");
}

int two_copies_stop(void)
{
    return part_stop();
}

int two_copies_overflow(void)
{
    return part_overflow();
}

int two_copies_lock(struct umbra_mutex *mutex)
{
    return umbra_mutex_lock_deadline(mutex, 0);
}

int two_copies_unlock(struct umbra_mutex *mutex)
{
    return umbra_mutex_unlock(mutex);
}
