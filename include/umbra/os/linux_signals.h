/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Signal handlers on Linux, in every language mode. Private; included by os.h only.
 *
 * Strict C11 hides sigaction() and the structs that it needs. On the processors below, glibc and
 * musl have the same layout for them, which never changes, since compiled programs depend on it. So
 * this header has structs of its own, and functions under names of its own. On other processors it
 * uses the system's, if the includer's feature macros show them. Both define UM_OS_HANDLES.
 */
#ifndef UMBRA_OS_LINUX_SIGNALS_H
#define UMBRA_OS_LINUX_SIGNALS_H

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#if (defined(__x86_64__) || defined(__aarch64__) || defined(__riscv) || defined(__powerpc64__)) && \
    !defined(UMBRA_ARCH_GENERIC)
#define UM_OS_HANDLES

#define UM_OS_SIGBUS 7
#define UM_LINUX_SA_NOCLDSTOP 1u
#define UM_LINUX_SA_NOCLDWAIT 2u
#define UM_LINUX_SA_SIGINFO 4u
#define UM_LINUX_SA_ONSTACK 0x08000000u
#define UM_LINUX_SA_RESTART 0x10000000u
#define UM_LINUX_SA_NODEFER 0x40000000u
#define UM_LINUX_SA_RESETHAND 0x80000000u

struct um_linux_sigaction {
    void (*um_sa_handler)(int);
    unsigned long um_sa_mask[16]; /* the kernel uses the first */
    int um_sa_flags;
    void (*um_sa_restorer)(void);
};

struct um_linux_stack {
    void *um_ss_sp;
    int um_ss_flags;
    size_t um_ss_size;
};

struct um_linux_siginfo {
    int um_si_signo;
    int um_si_errno;
    int um_si_code;
    void *um_si_addr;
};

typedef struct um_linux_stack um_linux_stack;
typedef struct um_linux_siginfo um_linux_siginfo;

extern int um_linux_sigaction(int number, const struct um_linux_sigaction *action,
                              struct um_linux_sigaction *before) __asm__("sigaction");
extern int um_linux_sigaltstack(const struct um_linux_stack *stack,
                                struct um_linux_stack *before) __asm__("sigaltstack");

#elif defined(SA_SIGINFO) && defined(SA_ONSTACK) && defined(SA_RESTART)
#define UM_OS_HANDLES

#define UM_OS_SIGBUS SIGBUS
#define UM_LINUX_SA_NOCLDSTOP ((unsigned)SA_NOCLDSTOP)
#define UM_LINUX_SA_NOCLDWAIT ((unsigned)SA_NOCLDWAIT)
#define UM_LINUX_SA_SIGINFO ((unsigned)SA_SIGINFO)
#define UM_LINUX_SA_ONSTACK ((unsigned)SA_ONSTACK)
#define UM_LINUX_SA_RESTART ((unsigned)SA_RESTART)
#define UM_LINUX_SA_NODEFER ((unsigned)SA_NODEFER)
#define UM_LINUX_SA_RESETHAND ((unsigned)SA_RESETHAND)

#define um_linux_sigaction sigaction /* the struct, and the function */
#define um_linux_sigaltstack sigaltstack
#define um_sa_handler sa_handler
#define um_sa_mask sa_mask
#define um_sa_flags sa_flags
#define um_ss_sp ss_sp
#define um_ss_flags ss_flags
#define um_ss_size ss_size
#define um_si_code si_code
#define um_si_addr si_addr

typedef stack_t um_linux_stack;
typedef siginfo_t um_linux_siginfo;

#endif

#ifdef UM_OS_HANDLES

extern int um_linux_dl_iterate_phdr(int (*fn)(void *object, size_t bytes, void *arg),
                                    void *arg) __asm__("dl_iterate_phdr");

UM_LINKONCE UM_COLD int um_os_action(int number, const struct um_os_action *set,
                                     struct um_os_action *before);

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD int um_os_action(int number, const struct um_os_action *set,
                                     struct um_os_action *before)
{
    struct um_linux_sigaction action, old;
    int saved = errno;
    int error = 0;

    memset(&action, 0, sizeof(action));
    if (set) {
        action.um_sa_handler = (void (*)(int))set->handler;
        action.um_sa_flags = (int)set->flags;
        memcpy(&action.um_sa_mask, &set->mask, sizeof(set->mask));
    }
    if (um_linux_sigaction(number, set ? &action : NULL, &old) != 0)
        error = -errno;
    errno = saved;
    if (error == 0 && before) {
        before->handler = (uintptr_t)old.um_sa_handler;
        before->flags = (unsigned)old.um_sa_flags;
        memcpy(&before->mask, &old.um_sa_mask, sizeof(before->mask));
    }
    return error;
}

UM_LINKONCE UM_COLD void um_os_signal_stack(const struct um_os_stack *set,
                                            struct um_os_stack *before)
{
    um_linux_stack stack = {
        .um_ss_sp = set->low, .um_ss_flags = set->flags, .um_ss_size = set->bytes};
    um_linux_stack old;
    int saved = errno;

    memset(&old, 0, sizeof(old));
    um_linux_sigaltstack(&stack, &old);
    errno = saved;
    if (before)
        *before = (struct um_os_stack){old.um_ss_sp, old.um_ss_size, old.um_ss_flags};
}
#endif /* UMBRA_IMPLEMENTATION */

/* True if a process sent the signal: the kernel's own codes are above 0. */
UM_INLINE bool um_os_signal_sent(const void *info)
{
    return ((const um_linux_siginfo *)info)->um_si_code <= 0;
}

UM_INLINE const void *um_os_signal_address(const void *info)
{
    return ((const um_linux_siginfo *)info)->um_si_addr;
}

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD void um_os_raise_again(int number, void *info)
{
    int saved = errno;
    long process = um_linux_syscall(SYS_getpid);
    long thread = um_linux_syscall(SYS_gettid);

    if (um_linux_syscall(SYS_rt_tgsigqueueinfo, process, thread, (long)number, info) != 0)
        raise(number);
    errno = saved;
}
#endif /* UMBRA_IMPLEMENTATION */

struct um_linux_call {
    void (*fn)(void *arg);
    void *arg;
};

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD int um_linux_call(void *object, size_t bytes, void *call)
{
    (void)object;
    (void)bytes;
    ((struct um_linux_call *)call)->fn(((struct um_linux_call *)call)->arg);
    return 1; /* for the first object only */
}

/* Under the dynamic linker's lock: the only lock that all copies of the library have in common. */
UM_LINKONCE UM_COLD void um_os_exclusively(void (*fn)(void *arg), void *arg)
{
    struct um_linux_call call = {fn, arg};

    um_linux_dl_iterate_phdr(um_linux_call, &call);
}
#endif /* UMBRA_IMPLEMENTATION */

#endif

#endif
