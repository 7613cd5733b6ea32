#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# Checks what every kernel in bench/ promises on its command line: check_interface.sh KERNEL
# What it measures stays in KERNEL-tiny.json, for the test of tools/report.
# Exit status 77: this machine cannot run the kernel.
set -u
kernel=$1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
rm -f "$kernel-tiny.json"
failed=0

fail()
{
    echo "$*" >&2
    failed=1
}

# refused NAME ARGUMENT...: exit status 2, and one line that names NAME.
refused()
{
    name=$1
    shift
    "$kernel" "$@" >"$dir/out" 2>"$dir/err"
    status=$?
    [ "$status" = 2 ] || fail "$*: exit status $status, not 2"
    [ "$(wc -l <"$dir/err")" = 1 ] || fail "$*: not one line: $(cat "$dir/err")"
    grep -qF -- "$name" "$dir/err" || fail "$*: does not name $name: $(cat "$dir/err")"
    [ ! -s "$dir/out" ] || fail "$*: prints to standard output"
}

"$kernel" --quick --tiny --list >"$dir/list" || fail "--list: exit status $?"
[ -s "$dir/list" ] || fail "--list: prints nothing"

"$kernel" --rounds 3 --quick --tiny --json >"$dir/tiny.json" 2>"$dir/notes"
status=$?
if [ "$status" = 77 ]; then
    cat "$dir/notes" >&2
    exit 77
fi
[ "$status" = 0 ] || fail "--json: exit status $status: $(cat "$dir/notes")"
head -n 1 "$dir/tiny.json" | grep -q '^{"bench":"machine",' || fail "--json: first line is no machine"
grep -qv '^{"bench":.*}$' "$dir/tiny.json" && fail "--json: a line that is no object"
while read -r name; do
    grep -qF "\"contender\":\"$name\"," "$dir/tiny.json" || grep -qF "without $name:" "$dir/notes" ||
        fail "--json: neither a line for $name nor a reason"
done <"$dir/list"

# A row that is only the best of others has a line, too.
if grep -qx ping-pong "$dir/list"; then
    "$kernel" --rounds 3 --quick --tiny --only ping-pong --json >"$dir/json" 2>"$dir/notes" ||
        fail "--only ping-pong: exit status $?: $(cat "$dir/notes")"
    grep -qF '"contender":"ping-pong",' "$dir/json" || fail "--only ping-pong: no line for it"
fi

if [ -c /dev/full ]; then
    "$kernel" --quick --tiny --list >/dev/full 2>"$dir/err"
    status=$?
    [ "$status" = 1 ] || fail "no room for the list: exit status $status, not 1"
    grep -q 'standard output: ' "$dir/err" || fail "no room for the list: $(cat "$dir/err")"
fi
refused --nonsense --nonsense
refused no-such-contender --tiny --only no-such-contender
refused no-such-contender --tiny --only "$(head -n 1 "$dir/list"),no-such-contender"
refused 99999 --cpus 99999
refused zero --rounds zero
refused 0s --seconds 0s
refused nonsense nonsense
UMBRA_WAIT=nonsense refused nonsense --rounds 1
[ "$failed" != 0 ] || mv "$dir/tiny.json" "$kernel-tiny.json"
exit "$failed"
