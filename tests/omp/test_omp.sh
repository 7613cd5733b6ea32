#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# test_omp.sh LIBRARY PROGRAM [ARGUMENT ...]: runs a program under libgomp, and with the library
# preloaded: both print the same, and end with the same status. libgomp waits passively: where tests run
# side by side, it would poll for a minute.
library=$1
shift
expected=$(OMP_WAIT_POLICY=passive "$@")
status=$?
output=$(LD_PRELOAD=$library "$@")
[ $? -eq $status ] || exit 1
[ "$output" = "$expected" ] || {
    printf '%s\n' "expected:" "$expected" "but:" "$output"
    exit 1
}
