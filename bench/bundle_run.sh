#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# Measures this machine with the programs beside it, and writes what they say as JSON:
#
#   run [--rows | --curves] [--seconds N] [--tiny] [--only KERNEL[,KERNEL...]] OUT
#
#   OUT/KERNEL.json             each kernel, on the processors that this process may use
#   OUT/curves/KERNEL-N.json    some of them against the number of processors, and null forks to each
#                               other processor
#   OUT/KERNEL.log              what each said
#
#   --rows, --curves            only the ones, or only the others
#   --seconds N                 about so long, all together (400); a kernel takes three rounds at least,
#                               and what there is no time for in a sixth more is left out
#   --only A,B                  these kernels
#   --tiny                      sizes for tests: the figures mean nothing
#
# It needs a shell and the C library, and /proc and /sys; no package, no root, no network. How tools/report
# draws a page of the JSON, docs/measurements.md of Umbra's source says.
set -u

parts='rows curves' seconds=400 tiny='' only= out=
wrong()
{
    echo "run: $* (run --help)" >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
        --rows) parts=rows ;;
        --curves) parts=curves ;;
        --tiny) tiny='--quick --tiny --rounds 3' ;;
        --seconds | --only)
            [ $# -gt 1 ] || wrong "$1: what?"
            if [ "$1" = --only ]; then only=$2; else seconds=$2; fi
            shift
            ;;
        -h | --help)
            while IFS= read -r line; do
                case $line in
                    'set -u') break ;;
                    '# SPDX'* | '#!'*) ;;
                    *) line=${line#\#} && printf '%s\n' "${line# }" ;;
                esac
            done <"$0"
            exit 0
            ;;
        -*) wrong "unknown option '$1'" ;;
        *)
            [ -z "$out" ] || wrong "one folder, not '$out' and '$1'"
            out=$1
            ;;
    esac
    shift
done
[ -n "$out" ] || wrong "the folder for what is measured?"
case $seconds in
    '' | *[!0-9]*) wrong "not a number of seconds: '$seconds'" ;;
esac

case $0 in
    /*) home=${0%/*} ;;
    */*) home=$PWD/${0%/*} ;;
    *) home=$PWD ;;
esac
export LD_LIBRARY_PATH="$home/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
for folder in "$out" "$out/curves"; do
    [ -d "$folder" ] || mkdir -p "$folder" || exit 1
done

# now: seconds since the machine started.
now()
{
    read -r now _ </proc/uptime
    now=${now%%.*}
}

# allowed: the processors that this process may use: one of each core first, then their siblings.
allowed()
{
    cpus='' siblings='' cores=' '
    while read -r key list; do
        [ "$key" != Cpus_allowed_list: ] || ranges=$list
    done </proc/self/status
    IFS=,
    for range in $ranges; do
        cpu=${range%-*}
        while [ "$cpu" -le "${range#*-}" ]; do
            topology=/sys/devices/system/cpu/cpu$cpu/topology
            package=0 core=$cpu
            # not thread_siblings_list: some shells read a byte at a time, which that does not give them
            [ ! -r "$topology/core_id" ] || read -r core <"$topology/core_id"
            [ ! -r "$topology/physical_package_id" ] || read -r package <"$topology/physical_package_id"
            case $cores in
                *" $package:$core "*) siblings="$siblings $cpu" ;;
                *) cpus="$cpus $cpu" cores="$cores$package:$core " ;;
            esac
            cpu=$((cpu + 1))
        done
    done
    unset IFS
    cpus=${cpus# }$siblings
}

# The jobs, a line each: what to call the figures, the kernel, its options.
rows()
{
    while read -r kernel; do
        echo "$kernel $kernel --quick"
    done <"$home/kernels"
}

# first N: the first N processors, with commas between.
first()
{
    list='' n=0
    for cpu in $cpus; do
        [ "$n" -lt "$1" ] || break
        list=$list${list:+,}$cpu
        n=$((n + 1))
    done
}

curves()
{
    all=0
    for cpu in $cpus; do
        all=$((all + 1))
        [ "$all" -eq 1 ] || echo "curves/null-fork-$cpu null-fork --quick --only shadow-spin --cpus ${cpus%% *},$cpu"
    done
    [ "$all" -gt 1 ] || return 0
    first "$all"
    echo "curves/team team --cpus $list"
    echo "curves/stream stream --quick --only umbra-partitioned --cpus $list"
    count=1
    while [ "$count" -lt "$all" ]; do
        count=$((count * 2))
        [ "$count" -le "$all" ] || count=$all
        first "$count"
        echo "curves/fib-$count fib --quick --only umbra-task,openmp-llvm,tbb --cpus $list"
        echo "curves/skynet-$count skynet --quick --only umbra-task,openmp-llvm,tbb --cpus $list"
        echo "curves/dispatch-$count dispatch --quick --only umbra-dispatch,openmp-gomp,tbb --cpus $list"
        echo "curves/heat-$count heat --quick --only umbra-dispatch,openmp-gomp,tbb --cpus $list"
        echo "curves/bfs-$count bfs --only umbra-bfs,openmp-hybrid-relabelled --cpus $list"
        echo "curves/apsp-$count apsp --only umbra-ctbpa,openmp-gomp --cpus $list"
    done
}

# chosen JOBS: those of --only.
chosen()
{
    while read -r name kernel rest; do
        case ,$only, in
            ,, | *,"$kernel",*) echo "$name $kernel $rest" ;;
        esac
    done
}

# Ends a kernel that takes far too long, where there is a program that can.
guard=''
if command -v timeout >/dev/null 2>&1; then
    guard='timeout -k 5'
fi
left_out=''
leave_out()
{
    left_out="$left_out  $1: $2
"
}

# measure AT OF NAME KERNEL OPTION ...: a job, for the share of the time left that is its own.
measure()
{
    at=$1 of=$2 name=$3 kernel=$4
    shift 4
    now
    left=$((deadline - now))
    if [ "$left" -lt "$slack" ]; then
        leave_out "$name" "no time left"
        return 0
    fi
    share=$((left / (of - at + 1)))
    [ "$share" -ge 1 ] || share=1
    printf '[%d/%d] %s ... ' "$at" "$of" "$name"
    started=$now status=0
    # shellcheck disable=SC2086 # lists of words
    ${guard:+$guard $((30 + 4 * share))} "$home/bench/$kernel" $tiny --seconds "$share" \
        --json="$out/$name.json" "$@" >"$out/$name.log" 2>&1 || status=$?
    now
    echo "$((now - started)) s"
    case $status in
        0) ;;
        77) leave_out "$name" "cannot run here" ;;
        124 | 137) leave_out "$name" "took longer than $((30 + 4 * share)) s" ;;
        *)
            leave_out "$name" "failed, exit status $status ($out/$name.log)"
            failed=1
            ;;
    esac
    while IFS= read -r line; do
        case $line in
            *': without '* | *'nothing that was asked for'*) leave_out "$name" "${line#*: }" ;;
        esac
    done <"$out/$name.log"
}

# part NAME SECONDS: all its jobs.
part()
{
    now
    deadline=$((now + $2)) slack=$((-$2 / 6))
    jobs=$("$1" | chosen)
    of=0 at=0
    while read -r line; do
        [ -z "$line" ] || of=$((of + 1))
    done <<JOBS
$jobs
JOBS
    while read -r line; do
        [ -n "$line" ] || continue
        at=$((at + 1))
        # shellcheck disable=SC2086 # a line of words
        measure "$at" "$of" $line </dev/null
    done <<JOBS
$jobs
JOBS
}

failed=0
allowed
if [ -x "$home/tools/umbra-topology" ]; then
    "$home/tools/umbra-topology" || true
fi
now
end=$((now + seconds))
case $parts in
    *' '*)
        part rows $((seconds / 2))
        now
        part curves $((end - now))
        ;;
    *) part "$parts" "$seconds" ;;
esac
while read -r kernel why; do
    case ,$only, in
        ,, | *,"$kernel",*) leave_out "$kernel" "$why" ;;
    esac
done <"$home/left-out"
if [ -n "$left_out" ]; then
    printf 'Left out:\n%s' "$left_out"
fi
echo "The figures: $out"
exit "$failed"
