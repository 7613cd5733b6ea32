#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# test_refused.sh LIBRARY PROGRAM CONSTRUCT: one line names it, and the program fails.
output=$(LD_PRELOAD=$1 "$2" "$3" 2>&1) && exit 1
printf '%s\n' "$output"
[ "$(printf '%s\n' "$output" | grep -c "$3")" -eq 1 ] && [ "$(printf '%s\n' "$output" | wc -l)" -eq 1 ]
