#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# same_as_readme.sh README FILE
# The first C program in the README must be the file, but for its licence line.
set -eu
shown=$(mktemp)
trap 'rm -f "$shown"' EXIT
awk '/^```/ { if (inside) exit; inside = $0 == "```c"; next } inside' "$1" >"$shown"
tail -n +2 "$2" | diff "$shown" -
