#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# attribute_words.sh COMPILER INCLUDE_DIR HEADER ...
# Projects define macros named after attributes (`#define unused __attribute__((unused))`). The HEADERs
# compile where every such word is a macro, with and without arguments; those that are functions or
# common names of the C library excepted (access, malloc). All in one file: the words mean the same in
# each text as if it were there alone. With the cold functions they are assembled and linked, since some
# text is the assembler's; and the words are the user's macros still behind them.
set -eu
compiler=$1 include=$2
shift 2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

words='aligned always_inline artificial cold common constructor deprecated destructor
    externally_visible fallthrough flatten gnu_inline hidden hot internal interrupt may_alias naked
    no_instrument_function no_sanitize_address no_sanitize_thread no_sanitize_undefined
    no_split_stack no_stack_protector noclone nocommon noinit noinline noipa nonnull nonstring noplt
    noreturn nothrow packed protected pure retain returns_nonnull returns_twice stack_protect
    transparent_union unavailable uninitialized unused used visibility warn_unused_result weak
    weakref'
functions='alias alloc_align alloc_size assume_aligned cleanup copy error fd_arg format format_arg
    ifunc mode no_sanitize optimize patchable_function_entry scalar_storage_order section sentinel
    simd symver target target_clones tls_model vector_size warn_if_not_aligned warning
    zero_call_used_regs'

{
    printf '#define %s\n' $words
    printf '#define %s(...)\n' $functions
    printf '#include <%s>\n' "$@"
} >"$work/without.c"
{
    printf '#define %s(...)\n' $words $functions
    printf '#include <%s>\n' "$@"
} >"$work/with.c"

# Nor does a light file bring <assert.h>: a program may have an assert() of its own.
{
    printf '#define assert mine\n#define static_assert mine\n'
    printf '#include <%s>\n' "$@"
    printf 'int mine(void);\nint mine(void)\n{\n    return assert == static_assert;\n}\n'
} >"$work/assert.c"

failed=0
"$compiler" -std=gnu11 -I"$include" -c "$work/assert.c" -o "$work/assert.o" || failed=1
for form in without with; do
    {
        printf '#ifndef %s\n#error "%s is no macro any more"\n#endif\n' $(for word in $words; do
            echo "$word $word"
        done)
        printf 'int main(void)\n{\n    return um_wait_report() == 0;\n}\n'
    } >>"$work/$form.c"
    for option in '' -DUMBRA_ARCH_GENERIC -DUMBRA_POSIX_ONLY; do
        "$compiler" -std=gnu11 -fsyntax-only -I"$include" $option "$work/$form.c" &&
            "$compiler" -std=gnu11 -DUMBRA_IMPLEMENTATION -I"$include" $option "$work/$form.c" \
                -lboost_context -lhwloc -pthread -o "$work/program" &&
            "$work/program" && continue
        echo "FAIL $form arguments $option"
        failed=1
    done
done
exit $failed
