#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# test_names.sh LIBRARY: the library exports what each libgomp here exports, GOMP_ and omp_, without
# versions; but for GOMP_PLUGIN_, which libgomp's own plugins call. A name that is left out would be
# libgomp's, which knows nothing of the regions here.
names() {
    nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
        grep -E '^(GOMP|omp)_' | grep -v '^GOMP_PLUGIN_' | sort -u
}
found=
own=$(mktemp)
trap 'rm -f "$own" "$own.gomp"' EXIT
names "$1" >"$own"
for gomp in /lib/*/libgomp.so.1 /usr/lib/*/libgomp.so.1 /usr/lib64/libgomp.so.1; do
    [ -e "$gomp" ] || continue
    found=1
    names "$gomp" >"$own.gomp"
    left_out=$(comm -13 "$own" "$own.gomp")
    [ -z "$left_out" ] || {
        printf '%s exports, and the library does not:\n%s\n' "$gomp" "$left_out"
        exit 1
    }
done
if nm -D --defined-only "$1" | grep -E '(GOMP|omp)_.*@'; then
    echo "names have versions"
    exit 1
fi
[ -n "$found" ] || {
    echo "skipped: no libgomp"
    exit 77
}
