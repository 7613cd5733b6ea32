#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# rust.sh RUSTC PROGRAM LIBRARY
# Compiles PROGRAM against LIBRARY, which is libumbra.so, and runs it.
set -eu
rustc=$1 program=$2 folder=$(dirname "$3")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$rustc" --edition 2021 -D warnings -L "native=$folder" -C "link-arg=-Wl,-rpath,$folder" "$program" \
    -o "$work/user"
"$work/user"
