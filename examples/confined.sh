#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# confined.sh BYTES MESSAGE PROGRAM ARGUMENT...
# In a control group that allows so many bytes, the program must say this one line and fail, not be
# killed. Skipped where no such group can be made.
set -eu
bytes=$1 message=$2
shift 2
line=$(grep -E '^[0-9]+:memory:' /proc/self/cgroup || grep -E '^0::' /proc/self/cgroup) || exit 77
own=${line#*:*:}
case $line in # in version 2 beside its own group: one with processes gives none below it a limit
0::*) file=memory.max group=/sys/fs/cgroup$(dirname "$own")/umbra-$$ ;;
*) file=memory.limit_in_bytes group=/sys/fs/cgroup/memory$own/umbra-$$ ;;
esac
mkdir "$group" 2>/dev/null || exit 77
trap 'rmdir "$group"' EXIT
trap 'exit 1' HUP INT TERM # some shells do not come to EXIT by themselves then
echo "$bytes" >"$group/$file" || exit 77
status=0
said=$(sh -c 'echo $$ >"$0" || exit 77; exec "$@"' "$group/cgroup.procs" "$@" 2>&1) || status=$?
echo "status $status: $said"
[ "$status" -ne 77 ] || exit 77
[ "$status" -eq 1 ]
[ "$said" = "$message" ]
