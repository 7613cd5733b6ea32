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
    OMP_DEFAULT_DEVICE=x; do
    try 1 "$bad"
done
for good in OMP_NUM_THREADS=3 OMP_DYNAMIC=TRUE OMP_SCHEDULE=static OMP_SCHEDULE=static,4 \
    OMP_SCHEDULE=dynamic,0 OMP_SCHEDULE=guided,7 OMP_SCHEDULE=auto OMP_SCHEDULE=nonmonotonic:dynamic,2 \
    OMP_STACKSIZE=16k OMP_STACKSIZE=1M OMP_STACKSIZE=100000b OMP_WAIT_POLICY=active \
    OMP_PROC_BIND=false OMP_PROC_BIND=true OMP_THREAD_LIMIT=2 OMP_MAX_ACTIVE_LEVELS=0 \
    OMP_MAX_ACTIVE_LEVELS=1000 OMP_NESTED=true OMP_NUM_TEAMS=4 OMP_TEAMS_THREAD_LIMIT=2 \
    OMP_MAX_TASK_PRIORITY=7 OMP_CANCELLATION=false OMP_DEFAULT_DEVICE=0; do
    try 0 "$good"
done
try 0 'OMP_NUM_THREADS= 3 , 2'
try 0 'OMP_SCHEDULE= Monotonic:Dynamic , 5 '
try 0 OMP_NUM_THREADS=4,3 OMP_DYNAMIC=true OMP_SCHEDULE=guided,3
exit $failed
