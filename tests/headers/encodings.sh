#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# encodings.sh COMPILER INCLUDE_DIR [OBJDUMP]
# The architecture headers write instructions as numbers. Compiles them for COMPILER's processor and
# lets a disassembler, which has its own opinion, say what they are and which registers they take.
# Exit 77: no GNU objdump for it. (LLVM's prints other text.)
set -eu
compiler=$1 include=$2 objdump=${3:-objdump}

skip()
{
    echo "skipped: $*"
    exit 77
}

"$objdump" --version 2>/dev/null | grep -q GNU || skip "$objdump is not here, or not GNU's"
machine=$("$compiler" -dumpmachine)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One function for each instruction, so that each is found by its name.
cat >"$work/code.c" <<'END'
#include <umbra/cpu.h>
#define SHOW(backend)                                                       \
    uint64_t arm_##backend(const um_atomic_u64 *word);                      \
    bool wait_##backend(uint64_t until);                                    \
    uint64_t arm_##backend(const um_atomic_u64 *word)                       \
    {                                                                       \
        return um_arch_arm_load64(UMBRA_BACKEND_##backend, word);           \
    }                                                                       \
    bool wait_##backend(uint64_t until)                                     \
    {                                                                       \
        return um_arch_monitor_wait(UMBRA_BACKEND_##backend, until, false); \
    }
SHOW(PAUSE)
SHOW(WAITPKG)
SHOW(MONITORX)
SHOW(MWAIT)
SHOW(WFE)
SHOW(WFET)
SHOW(ZAWRS)
SHOW(POWER_WAIT)
uint64_t stamp(void);
uint64_t stamp(void)
{
    return um_cycles();
}
void fetch(const void *p);
void fetch(const void *p)
{
    umbra_prefetch_write(p);
}
void pass_on(const void *p);
void pass_on(const void *p)
{
    um_arch_demote(p);
}
END
compile()
{
    "$compiler" -std=c11 -O2 -Wall -Wextra -Wpedantic -Werror -DUMBRA_SHOW_WARNINGS -I"$include" "$@" \
        -c "$work/code.c" -o "$work/code.o"
}

compile
failed=0
options=
# show FUNCTION: its instructions, one a line, blanks squeezed.
show()
{
    "$objdump" -d --no-show-raw-insn $options "$work/code.o" |
        awk -v want="<$1>:" '$2 == want { on = 1; next } NF == 0 { on = 0 } on' |
        sed 's/^[^:]*://' | tr -s '[:blank:]' ' '
}

# expect FUNCTION PATTERN...: the patterns occur in it, in this order.
expect()
{
    function=$1
    shift
    code=$(show "$function")
    rest=$code
    for pattern in "$@"; do
        line=$(printf '%s\n' "$rest" | grep -nE -m1 "^ ($pattern) *(#.*)?$" | cut -d: -f1)
        if [ -z "$line" ]; then
            echo "FAIL $function: no '$pattern' where expected in:"
            printf '%s\n' "$code"
            failed=1
            return
        fi
        rest=$(printf '%s\n' "$rest" | tail -n +$((line + 1)))
    done
    echo "ok   $function: $*"
}

case $machine in
x86_64*)
    expect arm_WAITPKG 'umonitor %rax' 'mov .*\(%r..\),%r..'
    expect wait_WAITPKG 'umwait %ecx' 'setb %.*'
    expect wait_WAITPKG 'mov \$0x1,%ecx' 'umwait %ecx'
    expect arm_MONITORX 'monitorx %rax,%ecx,%edx' 'mov .*\(%r..\),%r..'
    expect wait_MONITORX 'mov \$0x2,%ecx' 'mwaitx %eax,%ecx,%ebx'
    expect wait_MONITORX 'mov \$0xf0,%eax' 'xchg %r[bs][xi],%r[bs][xi]' 'mwaitx %eax,%ecx,%ebx' \
        'xchg %r[bs][xi],%r[bs][xi]'
    expect arm_MWAIT 'monitor %rax,%ecx,%edx' 'mov .*\(%r..\),%r..'
    expect wait_MWAIT 'rdtsc' 'mwait %eax,%ecx'
    expect wait_PAUSE 'pause'
    expect stamp 'rdtsc'
    expect fetch 'prefetchw \(%rdi\)'
    expect pass_on 'cldemote \(%rdi\)'
    ;;
aarch64*)
    expect arm_WFE 'ldaxr x[0-9]+, \[x[0-9]+\]'
    expect wait_WFE 'mrs x[0-9]+, cntvct_el0' 'wfe'
    expect arm_WFET 'ldaxr x[0-9]+, \[x[0-9]+\]'
    expect wait_WFET 'wfet x0'
    expect arm_PAUSE 'ldap?a?r x[0-9]+, \[x[0-9]+\]'
    expect wait_PAUSE 'isb'
    expect stamp 'mrs x0, cntvct_el0'
    expect fetch 'prfm pstl1keep, \[x0\]'
    ;;
riscv64*)
    # A disassembler names only what the object's attributes promise, so the assembler sets them.
    compile -mno-riscv-attribute -Wa,-march=rv64gc_zawrs_zihintpause_zicbop 2>/dev/null ||
        skip "the assembler does not know Zawrs"
    expect arm_ZAWRS 'lr\.d\.aq a[0-9],\(a0\)'
    expect wait_ZAWRS 'rdtime a[0-9]' 'wrs\.sto'
    expect wait_PAUSE 'pause'
    expect stamp 'rdtime a0'
    expect fetch 'prefetch\.w 0\(a0\)'
    ;;
powerpc64*)
    options=-Mpower10
    expect wait_POWER_WAIT 'mfspr r[0-9]+,268|mftb r[0-9]+' 'pause_short|wait 2,0'
    expect wait_PAUSE 'mr r1,r1' 'mr r2,r2'
    expect stamp 'mfspr r3,268|mftb r3'
    expect fetch 'dcbtst(ct)? 0,r3'
    ;;
*) skip "no encodings of our own for $machine" ;;
esac
exit $failed
