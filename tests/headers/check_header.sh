#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# check_header.sh COMPILER INCLUDE_DIR HEADER [LIBRARY ...]
# One file that includes HEADER first and only, and one that includes it twice, both in strict C11
# with no feature-test macro; then both in one program. The same for the forms that can be forced.
# What a compiler warns of only when it optimizes it finds in the first file; the second, which holds
# the same text and costs as much, is not optimized. Nor is the first when umbra.h includes HEADER:
# the same functions are optimized where HEADER is umbra.h, and that is most of the time.
# The first has the implementation, at the lowest level the second, too; at the others it is left to the
# first. The files of umbra.h are linked with umbra.c as well.
set -eu
compiler=$1 include=$2 header=$3
shift 3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/alone.c" <<END
#include <$header>
#ifdef _GNU_SOURCE
#error "the header defines _GNU_SOURCE"
#endif
int alone(void);
int alone(void)
{
    return 0;
}
END
cat >"$work/twice.c" <<END
#include <$header>
#include <$header>
int alone(void);
int main(void)
{
    return alone();
}
END

# strictly ARGUMENT ...
strictly()
{
    "$compiler" -std=c11 -Wall -Wextra -Wpedantic -Werror -DUMBRA_SHOW_WARNINGS -I"$include" "$@"
}

# compile FILE OPTION ...
compile()
{
    file=$1
    shift
    strictly "$@" -c "$work/$file.c" -o "$work/$file.o"
}

# Whether umbra.h includes HEADER: asked of the preprocessor.
in_umbrella()
{
    [ "$header" != umbra.h ] && echo '#include <umbra.h>' | strictly -M -x c - | tr ' ' '\n' |
        grep -qxF "$include/$header"
}

level=
if in_umbrella; then
    level=-O0
    strictly -O2 -DUMBRA_IMPLEMENTATION -fsyntax-only "$work/alone.c"
fi
for form in -O0 -O2 '-O2 -DUMBRA_POSIX_ONLY' '-O2 -DUMBRA_ARCH_GENERIC'; do
    [ "$form $level" != '-O2 -O0' ] || continue # the first, again
    # shellcheck disable=SC2086 # a form is a list of words
    compile alone $form $level -DUMBRA_IMPLEMENTATION
    [ "$form" = -O0 ] && both=-DUMBRA_IMPLEMENTATION || both=
    # shellcheck disable=SC2086
    compile twice $form -O0 $both
    "$compiler" "$work/alone.o" "$work/twice.o" -pthread "$@" -o "$work/both"
    "$work/both"
done
compile alone -O2
[ "$header" = umbra.h ] || exit 0
compile twice -O0
strictly -O0 -c "$include/umbra.c" -o "$work/cold.o"
"$compiler" "$work/alone.o" "$work/twice.o" "$work/cold.o" -pthread "$@" -o "$work/light"
"$work/light"
