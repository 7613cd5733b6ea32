#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# overflow_report.sh COMPILER INCLUDE_DIR SOURCE
# What a strict C11 program says whose fiber uses up its stack, compiled as README has it, and with
# every feature macro.
set -eu
compiler=$1 include=$2 source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for mode in -std=c11 '-std=c11 -D_GNU_SOURCE'; do
    # shellcheck disable=SC2086 # a list of words
    "$compiler" -O2 $mode -I"$include" "$source" "$include/umbra.c" -o "$work/overflow" -lboost_context -lhwloc -pthread
    status=0
    said=$("$work/overflow" 2>&1) || status=$?
    echo "$mode: status $status: $said"
    [ "$status" -eq 139 ]
    echo "$said" | grep -q '^umbra: stack overflow: fiber "main" .* has used up its stack of '
done
