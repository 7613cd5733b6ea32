#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# says.sh STATUS LINE PROGRAM ARGUMENT...
# The program must end with the status and that one line on standard error, and print nothing.
set -eu
wanted=$1
line=$2
shift 2
status=0
said=$("$@" 2>&1) || status=$?
echo "status $status: $said"
[ "$status" -eq "$wanted" ]
[ "$said" = "$line" ]
