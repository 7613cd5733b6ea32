#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# links.sh COMPILER c|c++ FLAG ...: succeeds if the compiler links an executable with these flags.
compiler=$1 language=$2
shift 2
folder=$(mktemp -d) # --coverage writes notes
trap 'rm -r "$folder"' EXIT
cd "$folder" || exit
echo 'int main(void) { return 0; }' | "$compiler" "$@" -Werror -fPIE -pie -x "$language" - -o program \
    2>/dev/null
