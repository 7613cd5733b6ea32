#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# check_cplusplus.sh INCLUDE_DIR
# A C++ file that includes Umbra must fail to compile, with our message before any other.
set -eu
command -v g++ >/dev/null || exit 77

if message=$(echo '#include <umbra/wait.h>' | g++ -fsyntax-only -I"$1" -x c++ - 2>&1); then
    echo "a C++ file could include umbra/wait.h"
    exit 1
fi
first=$(echo "$message" | grep -m1 'error:')
echo "$first"
echo "$first" | grep -q 'Umbra is C11'
