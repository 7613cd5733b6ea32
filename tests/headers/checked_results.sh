#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# checked_results.sh COMPILER INCLUDE_DIR
# Some waits may fail where a program would not expect it: the compiler warns if the result is not
# looked at. It does not where a call fails only by misuse.
set -eu
compiler=$1 include=$2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# warns STATEMENT: true if the compiler warns.
warns() {
    {
        echo '#include <umbra/sync.h>'
        echo 'void use(struct umbra_mutex *mutex, struct umbra_condition *condition,'
        echo '         struct umbra_semaphore *semaphore, struct umbra_rwlock *lock,'
        echo '         struct umbra_latch *latch, struct umbra_barrier *barrier,'
        echo '         uint64_t deadline);'
        echo 'void use(struct umbra_mutex *mutex, struct umbra_condition *condition,'
        echo '         struct umbra_semaphore *semaphore, struct umbra_rwlock *lock,'
        echo '         struct umbra_latch *latch, struct umbra_barrier *barrier,'
        echo '         uint64_t deadline)'
        printf '{\n    (void)mutex, (void)condition, (void)semaphore, (void)lock, (void)latch;\n'
        printf '    (void)barrier, (void)deadline;\n    %s;\n}\n' "$1"
    } >"$work/use.c"
    "$compiler" -std=c11 -I"$include" -c -o "$work/use.o" "$work/use.c" \
        2>"$work/said" || {
        cat "$work/said"
        exit 1
    }
    grep -q unused-result "$work/said"
}

failed=0
for call in 'umbra_mutex_lock_deadline(mutex, deadline)' \
    'umbra_condition_wait(condition, mutex, deadline)' \
    'umbra_semaphore_wait(semaphore, deadline)' 'umbra_rwlock_read_deadline(lock, deadline)' \
    'umbra_rwlock_write_deadline(lock, deadline)' 'umbra_latch_wait(latch, deadline)'; do
    if ! warns "$call"; then
        echo "FAIL no warning: $call"
        failed=1
    fi
done
for call in 'umbra_mutex_lock(mutex)' 'umbra_mutex_unlock(mutex)' 'umbra_rwlock_read(lock)' \
    'umbra_barrier_wait(barrier, UMBRA_NEVER)' 'umbra_rwlock_unlock(lock)' 'umbra_latch_count_down(latch)'; do
    if warns "$call"; then
        echo "FAIL a warning: $call"
        failed=1
    fi
done
exit $failed
