#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# copies.sh GAUSS IDENTITY RHS
# The answer of the identity must be the right-hand side, byte for byte as a file.
set -eu
solution=$(mktemp)
trap 'rm -f "$solution"' EXIT
"$1" --matrix "$2" --rhs "$3" --rounds 1 --solution "$solution"
cmp "$solution" "$3"
