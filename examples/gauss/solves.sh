#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# solves.sh ANSWER GAUSS ARGUMENT...
# The program must write the answer, numbers separated by spaces, but for 1e-14 of the largest.
set -eu
answer=$1
shift
solution=$(mktemp)
trap 'rm -f "$solution"' EXIT
"$@" --rounds 1 --solution "$solution"
cat "$solution"
awk -v answer="$answer" '
    function abs(number) { return number < 0 ? -number : number }
    BEGIN { n = split(answer, wanted, " ") }
    NR == 1 { header = $0; next }
    NR == 2 { sizes = $0; next }
    { given[NR - 2] = $1 }
    END {
        if (header != "%%MatrixMarket matrix array real general" || sizes != n " 1" || NR != n + 2)
            exit 1
        for (i = 1; i <= n; i++)
            if (abs(wanted[i]) > most)
                most = abs(wanted[i])
        for (i = 1; i <= n; i++)
            if (!(abs(given[i] - wanted[i]) <= 1e-14 * most))
                exit 1
    }' "$solution"
