#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# run_mpi.sh START MPICH TASKS ARGUMENT...: runs cilksort-start under an MPICH that can spawn, whose
# folder is MPICH, and expects so many tasks. Debian's cannot; both have the same binary interface.
# With LIBRARY in the environment it is libumbra_mpi.so: all tasks must be counted, and no process may
# hold more than UMBRA_MPI_LIMIT at a time; without that variable there must be no further process.
start=$1 mpich=$2 tasks=$3
shift 3
if [ ! -e "$mpich/lib/libmpich.so.12" ]; then
    echo "no MPI that can spawn: tools/setup test installs one in $mpich"
    exit 77
fi
LD_LIBRARY_PATH=$mpich/lib:$mpich/lib/mpich
export LD_LIBRARY_PATH MPIEXEC_TIMEOUT=100
if [ -n "${LIBRARY:-}" ]; then
    export LD_PRELOAD="$LIBRARY" UMBRA_MPI_VERBOSE=1
fi
said=$("$mpich/bin/mpiexec" -n 1 "$start" "$@" 2>&1) || { echo "$said"; exit 1; }
unset LD_PRELOAD
echo "$said"
echo "$said" | grep -q " ms, $tasks tasks$" || exit 1
[ -n "${LIBRARY:-}" ] || exit 0
# umbra_mpi: INSIDE children in this process, at most MOST at a time; OUTSIDE processes
echo "$said" | awk -v tasks="$tasks" -v limit="${UMBRA_MPI_LIMIT:-0}" '
    /children in this process, at most/ {
        all += $2 + $(NF - 1)
        if (limit > 0 ? $9 > limit : $(NF - 1) > 0)
            wrong = 1
    }
    END { exit wrong || all != tasks }'
