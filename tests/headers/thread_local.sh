#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# thread_local.sh COMPILER INCLUDE_DIR
# A file of a program reaches the thread-local variables of Umbra, which it only declares, as directly
# as its own: not by an offset that it loads first, nor by a call.
set -eu
compiler=$1 include=$2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/user.c" <<'END'
#include <umbra.h>
void *body(void *arg);
void *body(void *arg)
{
    struct umbra_task task;

    umbra_task_fork(&task, arg, arg);
    umbra_yield();
    umbra_task_join(&task, UMBRA_NEVER);
    return arg;
}
END
for position in -fno-pie -fPIE; do
    "$compiler" -std=c11 -w -O2 $position -I"$include" -c "$work/user.c" -o "$work/user.o"
    readelf -rW "$work/user.o" | grep 'um_core_self\|um_tasks_self' >"$work/reads"
    if grep 'GOT\|TLSIE\|TLSGD\|TLSDESC' "$work/reads"; then
        echo "FAIL $position"
        exit 1
    fi
done
