#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# says.sh STATUS LINE PROGRAM ARGUMENT...
# The program must end with the status and that one line on standard error, and print nothing; but
# for what a sanitizer says of an allocation that fails, as it should.
set -eu
wanted=$1
line=$2
shift 2
status=0
said=$("$@" 2>&1) || status=$?
said=$(echo "$said" | grep -v 'WARNING: .*Sanitizer failed to allocate' || true)
echo "status $status: $said"
[ "$status" -eq "$wanted" ]
[ "$said" = "$line" ]
