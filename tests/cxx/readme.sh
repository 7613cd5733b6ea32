#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# readme.sh CXX STANDARD SOURCE INCLUDE LIBRARY
# Compiles SOURCE by another compiler than the one that has built LIBRARY, libumbra.so, and runs it.
set -eu
cxx=$1 standard=$2 source=$3 include=$4 folder=$(dirname "$5")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cxx" "-std=$standard" -O2 -Wall -Wextra -Wpedantic -Werror -DUMBRA_SHARED "-I$include" "$source" "$5" \
    "-Wl,-rpath,$folder" -o "$work/readme"
"$work/readme"
