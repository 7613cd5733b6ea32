#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# test_omp.sh LIBRARY PLAIN PROGRAM [ARGUMENT ...]: runs a program under libgomp, and with the library
# preloaded: both print the same, and end with the same status. PLAIN is the program for libgomp, which
# no sanitizer understands. libgomp waits passively: where tests run side by side, it would poll for a
# minute.
library=$1 plain=$2 program=$3
shift 3
for file in "$plain" "$program"; do
    [ -x "$file" ] || {
        echo "$file is not built"
        exit 1
    }
done
expected=$(OMP_WAIT_POLICY=passive "$plain" "$@")
status=$?
output=$(LD_PRELOAD=$library "$program" "$@")
[ $? -eq $status ] || exit 1
[ "$output" = "$expected" ] || {
    printf '%s\n' "expected:" "$expected" "but:" "$output"
    exit 1
}
