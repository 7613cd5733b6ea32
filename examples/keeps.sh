#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# keeps.sh OPTION PROGRAM ARGUMENT...
# The program must fail, and leave the file that it was to write as it was, and no other beside it.
set -eu
option=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo before >"$folder/file"
status=0
"$@" "$option" "$folder/file" || status=$?
echo "status $status: $(ls "$folder")"
[ "$status" -eq 1 ]
[ "$(cat "$folder/file")" = before ]
[ "$(ls "$folder")" = file ]
