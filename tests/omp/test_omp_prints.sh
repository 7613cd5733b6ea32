#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# test_omp_prints.sh TOOL LIBRARY TEXT PROGRAM [ARGUMENT ...]: what libgomp cannot do; by tools/umbra-omp,
# so that this is tested, too.
tool=$1 library=$2 text=$3
shift 3
output=$(UMBRA_OMP_LIBRARY=$library "$tool" "$@") || exit 1
echo "$output"
[ "$output" = "$text" ]
