#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# overflows.sh NAME PROGRAM ARGUMENT...
# Where there is no room for what it prints, the program must say so, and fail.
set -eu
[ -c /dev/full ] || exit 77
name=$1
shift
status=0
said=$("$@" 2>&1 >/dev/full) || status=$?
echo "status $status: $said"
[ "$status" -eq 1 ]
echo "$said" | grep -q "^$name: standard output: "
