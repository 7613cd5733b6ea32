#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# test_library.sh LIBRARY PROGRAM TEST [NUMBER]: runs a test of spawns.c with the library preloaded.
# For the tests of limits the MPI that is installed must not be able to spawn: else skipped.
library=$1 program=$2
shift 2
if { [ "$1" = limit ] || [ "$1" = keys ]; } && UMBRA_MPI_LIMIT=0 LD_PRELOAD=$library "$program" echo 1 >/dev/null 2>&1; then
    echo "skipped: this MPI can spawn processes"
    exit 77
fi
[ "$1" != limit ] || export UMBRA_MPI_LIMIT=3
if [ "$1" = keys ]; then # another executable, which is the same
    folder=$(mktemp -d)
    trap 'rm -r "$folder"' EXIT
    cp "$program" "$folder/spawns"
    cp "$program" "$folder/spawns_copy"
    program=$folder/spawns
fi
output=$(LD_PRELOAD=$library "$program" "$@") || exit 1
[ "$output" = ok ]
