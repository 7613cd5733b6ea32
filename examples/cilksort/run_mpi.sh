#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# run_mpi.sh START MPICH TASKS ARGUMENT...: runs cilksort-start under an MPICH that can spawn, whose
# folder is MPICH, and expects so many tasks. Debian's cannot; both have the same binary interface.
start=$1 mpich=$2 tasks=$3
shift 3
if [ ! -e "$mpich/lib/libmpi.so.12" ]; then
    echo "no MPI that can spawn: tools/setup test installs one in $mpich"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
ln -s "$mpich/lib/libmpi.so.12" "$folder/libmpich.so.12"
LD_LIBRARY_PATH=$folder:$mpich/lib:$mpich/lib/mpich
export LD_LIBRARY_PATH
said=$(timeout 100 "$mpich/bin/mpiexec" -n 1 "$start" "$@" 2>&1) || { echo "$said"; exit 1; }
echo "$said"
case $said in
    *" ms, $tasks tasks") ;;
    *) exit 1 ;;
esac
