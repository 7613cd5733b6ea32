#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# test_omp_prints.sh LIBRARY TEXT PROGRAM [ARGUMENT ...]: what libgomp cannot do.
library=$1 text=$2
shift 2
output=$(LD_PRELOAD=$library "$@") || exit 1
echo "$output"
[ "$output" = "$text" ]
