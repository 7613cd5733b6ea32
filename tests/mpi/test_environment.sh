#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# test_environment.sh LIBRARY PROGRAM: a variable of the environment that is no number, or too great,
# ends the program with status 2 and names variable and value. PROGRAM is spawns.c.
library=$1 program=$2
failed=0

check() { # VARIABLE VALUE
    output=$(env "$1=$2" LD_PRELOAD="$library" "$program" echo 1 2>&1 >/dev/null)
    status=$?
    case "$status $output" in
    "2 "*"umbra_mpi: $1 '$2' is no number from 0 to "*) ;;
    *)
        echo "FAIL $1='$2': status $status: $output"
        failed=1
        ;;
    esac
}

for variable in UMBRA_MPI_LIMIT UMBRA_MPI_DEPTH UMBRA_MPI_STACK_BYTES UMBRA_MPI_SAME_EXECUTABLE \
    UMBRA_MPI_CORES UMBRA_MPI_VERBOSE; do
    for value in many -1 +1 ' 1' '1 ' 1, 0x10 100000000000000000000000; do
        check "$variable" "$value"
    done
done
check UMBRA_MPI_SAME_EXECUTABLE 2
check UMBRA_MPI_VERBOSE yes
check UMBRA_MPI_CORES 2147483648
exit $failed
