#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# check_list.sh INCLUDE_DIR HEADER ...
# The headers in the folder are those that include/meson.build lists.
set -eu
cd "$1"
shift
listed=$(printf '%s\n' "$@" | sort)
present=$(find . -name '*.h' | sed 's,^\./,,' | sort)
[ "$listed" = "$present" ] && exit 0
echo "in the folder:"
echo "$present"
echo "in include/meson.build:"
echo "$listed"
exit 1
