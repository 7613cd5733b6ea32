#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# deadlocks.sh PROGRAM SEATS
# The program must end with status 3 and name each philosopher, blocked, on standard error.
set -eu
status=0
said=$("$1" "$2" 2>&1 >/dev/null) || status=$?
echo "status $status: $said"
[ "$status" -eq 3 ]
seat=0
while [ "$seat" -lt "$2" ]; do
    echo "$said" | grep -q "fiber \"philosopher $seat\" .*blocked, waits for event"
    seat=$((seat + 1))
done
