#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# prints.sh LINE PROGRAM ARGUMENT...
# The program must succeed, and print that line among others.
set -eu
line=$1
shift
printed=$("$@")
echo "$printed"
echo "$printed" | grep -Fqx -e "$line"
