#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# system_headers.sh COMPILER INCLUDE_DIR HEADER ...
# Compiles umbra.h after and before the system's headers, which declare and define what ours must not
# clash with, under every language mode and feature macro. Each HEADER that umbra.h does not include is
# compiled likewise, under one mode that shows all. All have the cold functions, which are assembled
# under one mode.
set -eu
compiler=$1 include=$2
shift 2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for header in assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal \
    stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads \
    time uchar wchar wctype \
    aio arpa/inet dirent dlfcn fcntl fnmatch ftw glob grp iconv langinfo libgen mqueue net/if netdb \
    netinet/in netinet/tcp nl_types poll pthread pwd regex sched search semaphore spawn strings \
    sys/ipc sys/mman sys/msg sys/resource sys/select sys/sem sys/shm sys/socket sys/stat sys/statvfs \
    sys/time sys/times sys/types sys/uio sys/un sys/utsname sys/wait syslog tar termios ucontext \
    unistd utime utmpx wordexp \
    alloca byteswap elf endian err error execinfo features getopt link malloc mntent numa numaif \
    obstack paths sys/auxv sys/epoll sys/eventfd sys/file sys/fsuid sys/inotify sys/io sys/ioctl \
    sys/klog sys/param sys/personality sys/prctl sys/procfs sys/ptrace sys/queue sys/random sys/reg \
    sys/rseq sys/sendfile sys/signalfd sys/statfs sys/syscall sys/sysinfo sys/sysmacros sys/timerfd \
    sys/timex sys/ucontext sys/user sys/xattr sysexits values \
    linux/futex linux/io_uring linux/membarrier linux/perf_event linux/rseq linux/userfaultfd \
    asm/unistd cpuid immintrin omp; do
    condition="__has_include(<$header.h>)"
    # in strict C11 musl's does not compile by itself
    [ "$header" != aio ] || condition="$condition && (defined(__GLIBC__) || !defined(__STRICT_ANSI__))"
    printf '#if %s\n#include <%s.h>\n#endif\n' "$condition" "$header"
done >"$work/system.h"

failed=0
code=-fsyntax-only
# both_orders HEADER OPTION ...
both_orders()
{
    header=$1
    shift
    printf '#include "system.h"\n#include <%s>\n' "$header" >"$work/after.c"
    printf '#include <%s>\n#include "system.h"\n' "$header" >"$work/before.c"
    for order in after before; do
        # shellcheck disable=SC2086 # a list of words
        "$compiler" $code -Wall -Wextra -Werror -DUMBRA_SHOW_WARNINGS -DUMBRA_IMPLEMENTATION \
            -I"$include" "$@" "$work/$order.c" && continue
        echo "FAIL $header $order the system's, $*"
        failed=1
    done
}

for standard in c11 gnu11 gnu17 c2x; do
    "$compiler" -std=$standard -fsyntax-only -x c /dev/null 2>/dev/null || continue
    both_orders umbra.h -std=$standard
    both_orders umbra.h -std=$standard -D_GNU_SOURCE
done
for standard in c11 gnu11; do
    for macro in _DEFAULT_SOURCE _POSIX_C_SOURCE=200809L _XOPEN_SOURCE=700; do
        both_orders umbra.h -std=$standard -D$macro
    done
done
code="-c -o $work/object.o"
both_orders umbra.h -std=gnu11 -D_GNU_SOURCE
code=-fsyntax-only
umbrella=$(echo '#include <umbra.h>' | "$compiler" -std=gnu11 -I"$include" -M -x c - | tr ' ' '\n')
for header; do
    echo "$umbrella" | grep -qxF "$include/$header" || both_orders "$header" -std=gnu11 -D_GNU_SOURCE
done
exit $failed
