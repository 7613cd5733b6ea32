#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# test_names_clang.sh TOOL LIBRARY: of the entries that libomp 14 has for clang's code, the library lacks only
# those below. A program that needs one of these keeps its runtime, with a line from the tool: else half of
# what it calls would be libomp's, which knows nothing of the regions here. Later ones of libomp are shown.
tool=$1 library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
entries() {
    nm -D --defined-only "$1" | sed -n 's/.* [TW] \(__kmpc_[a-zA-Z0-9_]*\|ompc_[a-z_]*\|omp_[a-z_]*\).*/\1/p' | sort -u
}
# Only code of Intel's compilers calls them, as clang has instructions, libatomic, thread-local variables,
# barriers, omp_..._lock() and tasks for that; and __kmpc_task_reduction_... only clang before 10.
left_out='__kmpc_atomic_([0-9]|fixed|float|cmplx|bool|val)[a-z0-9_]*|__kmpc_threadprivate|__kmpc_threadprivate_register_vec
    |__kmpc_(end_)?barrier_master(_nowait)?|__kmpc_(init|destroy|set|unset|test)(_nest)?_lock(_with_hint)?
    |__kmpc_invoke_task_func|__kmpc_omp_task_parts|__kmpc_get_(parent_)?taskid
    |__kmpc_task_reduction_(modifier_)?init'
# of omp.h, tools and devices; Fortran's
left_out="$left_out"'|omp_control_tool_?|omp_get_(num_)?interop_[a-z_]*|omp_init_(nest_)?lock_with_hint_'
left_out=$(echo "$left_out" | tr -d ' \n')

entries "$library" >"$work/own"
for libomp in /usr/lib/llvm-*/lib/libomp.so.5 /usr/lib64/libomp.so /usr/lib/*/libomp.so.5; do
    [ -e "$libomp" ] || continue
    entries "$libomp" | comm -23 - "$work/own" | grep -vxE "$left_out" >"$work/lacks"
    [ -s "$work/lacks" ] || continue
    echo "$libomp has, and the library has not:" && cat "$work/lacks"
    case $libomp in *llvm-14*) exit 1 ;; esac
done

# the tool's line, of a program that needs such a one and names libomp
cat >"$work/needs.c" <<'END'
int __kmpc_get_taskid(void *source, int thread);
int main(int argc, char **argv)
{
    (void)argv;
    return argc > 9 ? __kmpc_get_taskid((void *)0, 0) : 7;
}
END
if clang -fopenmp "$work/needs.c" -o "$work/needs" 2>"$work/log"; then
    line=$(UMBRA_OMP_LIBRARY=$library "$tool" "$work/needs" 2>&1)
    [ $? -eq 7 ] && [ "$line" = "umbra-omp: $work/needs needs __kmpc_get_taskid, which the library has not: it keeps its own runtime" ] || {
        echo "the tool: $line"
        exit 1
    }
fi
