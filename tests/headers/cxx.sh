#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# cxx.sh COMPILER INCLUDE_DIR HEADER ...
# Each HEADER can be included from C++, alone, twice and inside extern "C", without a warning of what
# users turn on.
set -eu
compiler=$1 include=$2
shift 2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT


failed=0
for standard in c++17 c++20 c++23; do
    "$compiler" -std=$standard -x c++ -c /dev/null -o "$work/object.o" 2>/dev/null ||
        standard=$(echo $standard | sed s/23/2b/)
    for header; do
        printf '#include <%s>\nextern "C" {\n#include <%s>\n}\n' "$header" "$header" >"$work/outside.cpp"
        printf 'extern "C" {\n#include <%s>\n}\n' "$header" >"$work/inside.cpp"
        for file in outside inside; do
            "$compiler" -std=$standard -O1 -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion \
                -Wcast-qual -Wold-style-cast -Wzero-as-null-pointer-constant \
                -Werror -I"$include" -c "$work/$file.cpp" \
                -o "$work/object.o" && continue
            echo "FAIL $header $file extern \"C\", $standard"
            failed=1
        done
    done
done
exit $failed
