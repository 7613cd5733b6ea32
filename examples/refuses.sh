#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# refuses.sh PROGRAM ARGUMENT...
# The program must end with status 2 and one line that names the last argument.
set -eu
for value; do :; done
status=0
said=$("$@" 2>&1) || status=$?
echo "status $status: $said"
[ "$status" -eq 2 ]
case $said in
    *"
"*) exit 1 ;;
    *"$value"*) ;;
    *) exit 1 ;;
esac
