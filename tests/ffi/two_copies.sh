#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# two_copies.sh OWN SHARED PLUGIN LIBRARY OTHER
# libumbra.so says that the program OWN has an implementation of its own, in one line that names
# both; and says nothing of a program on libumbra.so, SHARED, or where an object has its own copy: OTHER.
set -eu
own=$1 shared=$2 plugin=$3 library=$4 other=$5

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# silent PROGRAM OBJECT
silent()
{
    "$@" 2>"$work/said"
    [ -s "$work/said" ] || return 0
    echo "FAIL $*:"
    cat "$work/said"
    failed=1
}

"$own" "$plugin" 2>"$work/said"
cat "$work/said"
case $(cat "$work/said") in
    "umbra: two copies of the state: $(realpath "$own") has "*"libumbra.so"*) ;;
    *) failed=1 ;;
esac
[ "$(wc -l <"$work/said")" = 1 ] || failed=1
silent "$own" "$other"
silent "$shared" "$plugin"
LD_PRELOAD=$other silent "$shared" "$plugin"
LD_PRELOAD=$library silent true
exit $failed
