#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# test_calls.sh LIBRARY PROGRAM names: the library exports what the table of calls.c has, and the
#     program calls each.
# test_calls.sh LIBRARY PROGRAM fibers|processes|here|abort: the program's output is the same with
#     the library as with the MPI in MPICH alone: with children that are fibers, or processes; fibers
#     of the MPI that is installed here; and the exit status of MPI_Abort(). Skipped if there is no
#     such MPI.
library=$1 program=$2 how=$3
export LC_ALL=C
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

# Children print in any order.
sorted() {
    sort "$folder/$1" >"$folder/$1.sorted"
}

# same A B: the two files are equal, and not empty.
same() {
    [ -s "$folder/$1" ] && diff "$folder/$1" "$folder/$2"
}

if [ "$how" = names ]; then
    nm -D --defined-only "$library" | grep -o 'MPI_.*' | sort >"$folder/exported"
    nm -D --undefined-only "$program" | grep -o 'MPI_.*' | sort >"$folder/called"
    "$program" list >"$folder/table"
    sorted table
    same exported table.sorted || exit 1
    comm -23 "$folder/exported" "$folder/called" >"$folder/not-called"
    cat "$folder/not-called"
    [ ! -s "$folder/not-called" ]
    exit
fi
if [ ! -e "$MPICH/lib/libmpich.so.12" ]; then
    echo "skipped: no MPI that can spawn in $MPICH"
    exit 77
fi
export MPIEXEC_TIMEOUT=50
export UCX_LOG_LEVEL=fatal # it writes to standard output when a process that it looks for has ended

# run NAME VARIABLE=VALUE ... [abort]: the program, under that MPI. Without shared memory, which UCX
# sometimes does not find when several processes spawn together (docs/mpi.md). And with memory as it
# comes: where allocated bytes are some values, MALLOC_PERTURB_=17 for one, MPICH 5.0.2 alone ends a
# group of processes that spawn.
run() {
    name=$1
    shift
    env UCX_TLS=tcp,self MALLOC_PERTURB_=0 "LD_LIBRARY_PATH=$MPICH/lib:$MPICH/lib/mpich" "$@" <&- \
        >"$folder/$name"
}

if [ "$how" = abort ]; then
    run alone "$MPICH/bin/mpiexec" -n 1 "$program" abort 2>"$folder/errors"
    alone=$?
    run with "LD_PRELOAD=$library" "$MPICH/bin/mpiexec" -n 1 "$program" abort 2>>"$folder/errors"
    with=$?
    [ $alone = 7 ] && [ $with = 7 ] && exit
    cat "$folder/errors"
    echo "status $alone alone, $with with the library"
    exit 1
fi
run alone "$MPICH/bin/mpiexec" -n 1 "$program" || exit
case $how in
fibers) run with "LD_PRELOAD=$library" "$MPICH/bin/mpiexec" -n 1 "$program" ;;
processes) run with "LD_PRELOAD=$library" UMBRA_MPI_LIMIT=0 "$MPICH/bin/mpiexec" -n 1 "$program" ;;
here) LD_PRELOAD=$library "$program" >"$folder/with" ;;
esac || exit
sorted alone
sorted with
same alone.sorted with.sorted
