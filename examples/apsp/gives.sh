#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# gives.sh EXPECTED PROGRAM ARGUMENT...
# The distances that the program writes must be those in the file EXPECTED.
set -eu
expected=$1
shift
written=$(mktemp)
trap 'rm -f "$written"' EXIT
"$@" --distances "$written"
cmp "$expected" "$written"
