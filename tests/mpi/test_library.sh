#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# test_library.sh LIBRARY PROGRAM TEST [NUMBER]: runs a test of spawns.c with the library preloaded.
# With MPICH in the environment, under that MPI, which can spawn, in PROCESSES (1) processes; skipped if
# it is not there.
# For the tests of what is refused the MPI that is installed must not be able to spawn: else skipped.
library=$1 program=$2
shift 2
if { [ "$1" = limit ] || [ "$1" = keys ] || [ "$1" = fails ] || [ "$*" = room ]; } && UMBRA_MPI_LIMIT=0 LD_PRELOAD=$library "$program" echo 1 >/dev/null 2>&1; then
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
set -- "$program" "$@"
if [ -n "${MPICH:-}" ]; then
    if [ ! -e "$MPICH/lib/libmpich.so.12" ]; then
        echo "skipped: no MPI that can spawn in $MPICH"
        exit 77
    fi
    export LD_LIBRARY_PATH="$MPICH/lib:$MPICH/lib/mpich" MPIEXEC_TIMEOUT=50
    export UCX_LOG_LEVEL=fatal # it writes to standard output when a process that it looks for has ended
    set -- "$MPICH/bin/mpiexec" -n "${PROCESSES:-1}" "$@"
fi
output=$(LD_PRELOAD=$library "$@") || exit 1
[ "$output" = ok ]
