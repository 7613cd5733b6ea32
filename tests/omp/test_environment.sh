#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# test_environment.sh LIBRARY PLAIN PROGRAM: what is no value of a variable is told in one line that
# names both, and the default counts, as in libgomp; what is one counts as there. PLAIN: test_omp.sh
library=$1 plain=$2 program=$3
failed=0
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
# try LINES VARIABLE=VALUE ...
try() {
    lines=$1
    shift
    expected=$(env "$@" "$plain" 2>/dev/null)
    output=$(env "$@" LD_PRELOAD="$library" "$program" 2>"$errors")
    said=$(grep -c "^umbra_omp: $1: " "$errors")
    if [ "$output" != "$expected" ] || [ "$said" -ne "$lines" ]; then
        printf '%s\n' "$*: $said lines; expected:" "$expected" "but:" "$output"
        failed=1
    fi
}
for bad in OMP_NUM_THREADS=x OMP_NUM_THREADS=0 OMP_NUM_THREADS=4,3,x OMP_NUM_THREADS=4, OMP_NUM_THREADS= \
    OMP_DYNAMIC=maybe OMP_DYNAMIC=1 OMP_SCHEDULE=half OMP_SCHEDULE=dynamic,x OMP_SCHEDULE=slow:dynamic \
    OMP_STACKSIZE=1q OMP_STACKSIZE=1k OMP_STACKSIZE=x OMP_WAIT_POLICY=no OMP_PROC_BIND=u OMP_PLACES={a \
    OMP_PLACES=houses OMP_THREAD_LIMIT=-1 OMP_THREAD_LIMIT=0 OMP_MAX_ACTIVE_LEVELS=-2 OMP_NESTED=2 \
    OMP_NUM_TEAMS=w OMP_TEAMS_THREAD_LIMIT=0 OMP_MAX_TASK_PRIORITY=-1 OMP_CANCELLATION=q \
    OMP_DEFAULT_DEVICE=x OMP_ALLOCATOR=heap; do
    try 1 "$bad"
done
for good in OMP_NUM_THREADS=3 OMP_DYNAMIC=TRUE OMP_SCHEDULE=static OMP_SCHEDULE=static,4 \
    OMP_SCHEDULE=dynamic,0 OMP_SCHEDULE=guided,7 OMP_SCHEDULE=auto OMP_SCHEDULE=nonmonotonic:dynamic,2 \
    OMP_STACKSIZE=16k OMP_STACKSIZE=1M OMP_STACKSIZE=100000b OMP_WAIT_POLICY=active \
    OMP_PROC_BIND=false OMP_PROC_BIND=true OMP_THREAD_LIMIT=2 OMP_MAX_ACTIVE_LEVELS=0 \
    OMP_MAX_ACTIVE_LEVELS=1000 OMP_NESTED=true OMP_NUM_TEAMS=4 OMP_TEAMS_THREAD_LIMIT=2 \
    OMP_MAX_TASK_PRIORITY=7 OMP_CANCELLATION=false OMP_DEFAULT_DEVICE=0 \
    OMP_ALLOCATOR=omp_cgroup_mem_alloc; do
    try 0 "$good"
done
try 0 'OMP_NUM_THREADS= 3 , 2'
try 0 'OMP_SCHEDULE= Monotonic:Dynamic , 5 '
try 0 OMP_NUM_THREADS=4,3 OMP_DYNAMIC=true OMP_SCHEDULE=guided,3

# shows VARIABLE=VALUE ...: OMP_DISPLAY_ENV shows what libgomp shows of what both have, but for the offload
# of targets. The library is the first to show it: libgomp, which is in the process, does so, too.
block() { sed '/DISPLAY ENVIRONMENT END/q' "$errors" | sed -n "s/^  \(\[host\] \)*\(.*'\)$/\2/p"; }
shows() {
    env OMP_DISPLAY_ENV=verbose "$@" "$plain" >/dev/null 2>"$errors"
    expected=$(block)
    env OMP_DISPLAY_ENV=verbose "$@" LD_PRELOAD="$library" "$program" >/dev/null 2>"$errors"
    output=$(block)
    printf '%s\n' "$expected" | grep -v OMP_TARGET_OFFLOAD >"$errors"
    wrong=$(printf '%s\n' "$output" | while IFS= read -r line; do
        is=$(grep "^${line%% =*} =" "$errors")
        [ -z "$is" ] || [ "$is" = "$line" ] || echo "$line: it is $is"
    done)
    if [ -n "$wrong" ] || [ "$(printf '%s\n' "$output" | wc -l)" -lt 20 ]; then
        printf '%s\n' "$*: wrongly shown:" "$wrong" "$output"
        failed=1
    fi
}
shows OMP_STACKSIZE=1M
shows OMP_NUM_THREADS=3,2 OMP_SCHEDULE=guided,4 OMP_DYNAMIC=true OMP_WAIT_POLICY=active
shows OMP_PROC_BIND=close,spread OMP_PLACES='{0}' OMP_SCHEDULE=nonmonotonic:static,0 OMP_NUM_TEAMS=3
shows OMP_SCHEDULE=monotonic:dynamic OMP_MAX_ACTIVE_LEVELS=7 OMP_THREAD_LIMIT=9 OMP_MAX_TASK_PRIORITY=5
shows OMP_SCHEDULE=static,7 OMP_TEAMS_THREAD_LIMIT=4 OMP_DISPLAY_AFFINITY=true OMP_PROC_BIND=master
shows OMP_SCHEDULE=auto OMP_AFFINITY_FORMAT='host %H'

for value in OMP_DISPLAY_ENV=loudly OMP_DISPLAY_AFFINITY=2; do
    try 1 $value
done
for value in OMP_DISPLAY_ENV=false OMP_DISPLAY_ENV=true OMP_DISPLAY_AFFINITY=true; do
    try 0 $value
done
try 0 "OMP_AFFINITY_FORMAT=$(printf '%0300d' 0)"

# OMP_DISPLAY_AFFINITY shows each member of the first regions. (The lines of libgomp's threads may run
# into each other.)
set -- OMP_DISPLAY_AFFINITY=true OMP_AFFINITY_FORMAT='%L %n %N %a %{team_num} %.3T %3L|'
expected='1 0 2 0 0   1 1  |
1 1 2 0 0   1 1  |
2 0 2 0 0   1 2  |
2 0 2 1 0   1 2  |
2 1 2 0 0   1 2  |
2 1 2 1 0   1 2  |'
output=$(env "$@" LD_PRELOAD="$library" "$program" 2>&1 >/dev/null | LC_ALL=C sort)
if [ "$output" != "$expected" ]; then
    printf '%s\n' "$*: expected:" "$expected" "but:" "$output"
    failed=1
fi

# fails TEXT VARIABLE=VALUE ...: the first region ends the program with a line and exit status 2, and what
# that does at its end ends, too.
fails() {
    text=$1
    shift
    env "$@" LD_PRELOAD="$library" timeout 30 "$program" >"$errors" 2>&1
    status=$?
    if [ $status -ne 2 ] || [ "$(grep -c "^umbra_omp: $text" "$errors")" -ne 1 ]; then
        echo "$*: exit status $status, and:"
        cat "$errors"
        failed=1
    fi
}
folder=$(mktemp -d)
trap 'rm -rf "$errors" "$folder"' EXIT
: >"$folder/libhwloc.so.15"
fails '.*libhwloc.so.15: ' LD_LIBRARY_PATH="$folder"
fails 'UMBRA_WAIT=no: ' UMBRA_WAIT=no
fails 'a region of [0-9]* members, OMP_STACKSIZE 1073741824000000 ' OMP_STACKSIZE=1000000g
exit $failed
