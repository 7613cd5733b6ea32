#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# same_as_readme.sh TEXT N FILE
# The N-th C program in the text (README.md, docs/beside.md) must be the file, but for its licence line.
set -eu
shown=$(mktemp)
trap 'rm -f "$shown"' EXIT
awk -v n="$2" '/^```/ { if (inside) exit; inside = $0 == "```c" && --n == 0; next } inside' "$1" >"$shown"
tail -n +2 "$3" | diff "$shown" -
