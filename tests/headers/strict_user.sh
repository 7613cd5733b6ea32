#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# strict_user.sh COMPILER INCLUDE_DIR SOURCE HEADER ...
# No warning of what users turn on comes from our headers, with -I and -Werror: SOURCE under each
# language mode and level, each HEADER by itself. No code is made of a HEADER that umbra.h includes, as it
# is made of umbra.h. clang: all it has, but those on layout, older languages and a compiler's own
# choices, which no text is free of. And what a user's Makefile learns from -MMD has our headers,
# though they are system headers from their includes on.
set -eu
compiler=$1 include=$2 source=$3
shift 3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if "$compiler" --version | grep -q clang; then
    set -- "$@" -Weverything -Wno-padded -Wno-declaration-after-statement -Wno-unsafe-buffer-usage \
        -Wno-switch-default -Wno-pre-c11-compat -Wno-unknown-warning-option
else
    set -- "$@" -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wcast-qual \
        -Wcast-align=strict -Wstrict-prototypes -Wmissing-prototypes -Wmissing-declarations \
        -Wold-style-definition -Wredundant-decls -Wundef -Wdouble-promotion -Wformat=2 \
        -Wwrite-strings -Wpointer-arith -Wswitch-default -Wswitch-enum -Wnull-dereference \
        -Wbad-function-cast -Wfloat-equal -Wnested-externs -Wlogical-op -Wjump-misses-init \
        -Wduplicated-cond -Wduplicated-branches -Wunused-macros -Wvla -Walloca \
        -Winit-self -Wstrict-overflow=2 -Wstack-protector -Wunsuffixed-float-constants
fi
headers=
while [ "${1#-}" = "$1" ]; do
    headers="$headers $1"
    shift
done

failed=0
# accepts FILE OPTION ...
accepts()
{
    file=$1
    shift
    "$compiler" -Werror -I"$include" -c "$file" -o "$work/object.o" "$@" && return
    echo "FAIL $file $*"
    failed=1
}

for level in -O0 -O2 -O3; do
    accepts "$source" -std=c11 $level "$@"
done
accepts "$source" -std=gnu17 -D_GNU_SOURCE -O2 "$@"
accepts "$source" -std=c11 -O2 -DUMBRA_IMPLEMENTATION "$@"

echo '#include <umbra.h>' >"$work/all.c"
for option in -M -MM; do
    "$compiler" $option -DUMBRA_IMPLEMENTATION -I"$include" "$work/all.c" | tr ' ' '\n' | grep "^$include" |
        sort >"$work/all$option"
done
for header in $headers; do
    code=
    [ "$header" = umbra.h ] || ! grep -qxF "$include/$header" "$work/all-M" || code=-fsyntax-only
    echo "#include <$header>" >"$work/alone.c"
    # shellcheck disable=SC2086 # an option, or none
    accepts "$work/alone.c" -std=c11 -O0 -DUMBRA_IMPLEMENTATION "$@" $code
done
if ! diff "$work/all-M" "$work/all-MM"; then
    echo "FAIL headers that -MM leaves out"
    failed=1
fi
exit $failed
