#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# use_bundle.sh SOURCE_DIR BUILD_DIR
# A bundle (tools/bundle) of the build measures in an empty root, without network, where beside it only
# a shell and the C library are; of what it writes tools/report draws a page.
set -eu
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! unshare --map-root-user --mount --net true 2>/dev/null; then
    echo "namespaces cannot be made here"
    exit 77
fi
"$source/tools/bundle" "$work/bundle" "$build"
size=$(du -sm "$work/bundle" | cut -f1)
[ "$size" -le 50 ] || { echo "$size MiB"; exit 1; }
rm "$work/bundle/bench/tasks-child-tbb" 2>/dev/null || true # a peer that is missing is no error

mkdir -p "$work/root/bin" "$work/root/proc" "$work/root/sys" "$work/root/dev" "$work/root/bundle" \
    "$work/root/out" "$work/out/curves"
cp -L /bin/sh "$work/root/bin/sh"
for file in $(LD_LIBRARY_PATH=$work/bundle/lib ldd /bin/sh "$work"/bundle/bench/* |
    grep -o '/[^ ]* (0x' | grep -v "^$work" | cut -d' ' -f1 | sort -u); do
    case ${file##*/} in
        ld-* | libc.* | libm.* | libpthread.* | libdl.* | librt.*) ;;
        *)
            echo "$file is not in the bundle"
            exit 1
            ;;
    esac
    mkdir -p "$work/root${file%/*}"
    cp -L "$file" "$work/root$file"
done

# bundle ARGUMENT...: its script, in the empty root.
bundle()
{
    unshare --map-root-user --mount --net sh -c '
        work=$1
        shift
        for folder in proc sys dev; do
            mount --rbind /$folder "$work/root/$folder"
        done
        mount --bind "$work/bundle" "$work/root/bundle"
        mount --bind "$work/out" "$work/root/out"
        exec env -i PATH="$PATH" chroot "$work/root" /bin/sh /bundle/run "$@"' sh "$work" "$@"
}

bundle --tiny --only switch,fib,openmp,http /out >"$work/said" || {
    cat "$work/said" "$work"/out/*.log
    exit 1
}
cat "$work/said"
# has KERNEL TEXT: the kernel is not built here, or the run has said so.
has()
{
    [ ! -x "$build/bench/$1" ] || grep -qF "$2" "$work/said" || { echo "not said: $2"; exit 1; }
}
has fib "fib: without tbb: tasks-child-tbb: not built"
has http "http: needs wrk"
for name in switch fib openmp; do
    [ ! -x "$build/bench/$name" ] || [ -s "$work/out/$name.json" ] || grep -qF "  $name: cannot run here" "$work/said"
done
# What the kernels start is in the bundle: children, and the library that is preloaded.
if [ -x "$build/bench/tasks-child-gomp" ]; then
    grep -qF '"contender":"openmp-gomp"' "$work/out/fib.json" || { echo "fib without its children"; exit 1; }
fi
! grep -F "cannot be preloaded" "$work/out/openmp.log" || exit 1
status=0
bundle --nothing /out >"$work/said" 2>&1 || status=$?
[ "$status" = 2 ] && grep -qF -- "--nothing" "$work/said" || { cat "$work/said"; exit 1; }

cat "$work"/out/*.json >"$work/umbra.json"
cat "$work"/out/curves/*.json >"$work/curves.json"
"$source/tools/report" "$work/umbra.json" --curves "$work/curves.json" --out "$work/page.html"
for title in "From one fiber to the next" "Against the number of processors"; do
    grep -qF "<h2>$title</h2>" "$work/page.html" || { echo "no section '$title'"; exit 1; }
done
