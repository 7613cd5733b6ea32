#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# refused.sh COMPILER INCLUDE_DIR OPTION ... MESSAGE
# What Umbra is not for fails to compile, with our message before any other. Exit 77: the compiler
# does not know an option.
set -eu
compiler=$1 include=$2
shift 2
options=
while [ $# -gt 1 ]; do
    options="$options $1"
    shift
done
# shellcheck disable=SC2086 # a list of words
"$compiler" $options -E -o /dev/null - </dev/null || exit 77

# base.h first: the C library's headers for another processor may be missing
# shellcheck disable=SC2086
if message=$(echo '#include <umbra/base/base.h>' |
    "$compiler" $options -fsyntax-only -I"$include" - 2>&1); then
    echo "compiles with$options"
    exit 1
fi
first=$(echo "$message" | grep -m1 'error:')
echo "$first"
echo "$first" | grep -q "$1"
