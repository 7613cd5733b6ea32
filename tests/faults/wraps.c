/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The calls that fail. The linker (--wrap) makes each call of NAME one of __wrap_NAME here, and
 * __real_NAME is what NAME was.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <hwloc.h>
#ifdef UMBRA_URING
#include <liburing.h>
#endif

#include "calls.h"
#include "faults.h"

/* How a call fails. DONE: it does what it is asked for, and says that it has failed. */
enum kind { ERRNO, MINUS_ONE, ZERO, NUMBER, MINUS, DONE_MINUS_ONE };

enum {
#define CALL(type, name, kind, makes, parameters, arguments, ...) CALL_##name,
    CALLS(CALL)
#undef CALL
#define CALL(name, kind, makes, ...) NUMBER_##name,
        NUMBERS(CALL)
#undef CALL
#define CALL(name, ...) CALL_##name,
            OTHERS(CALL)
#undef CALL
};

const struct call calls[] = {
#define CALL(type, name, kind, makes, parameters, arguments, ...) {#name, {__VA_ARGS__}},
    CALLS(CALL)
#undef CALL
#define CALL(name, kind, makes, ...) {"syscall:" #name, {__VA_ARGS__}},
        NUMBERS(CALL)
#undef CALL
#define CALL(name, ...) {#name, {__VA_ARGS__}},
            OTHERS(CALL)
#undef CALL
};

struct run *run;

/* The site of the table, which never is full. */
static struct site *site_of(uintptr_t at, unsigned call)
{
    uintptr_t key = at | (uintptr_t)call
                             << SITE_CALL; /* a call of syscall() may have several numbers */

    for (uintptr_t i = key * UINT64_C(0x9e3779b97f4a7c15) >> 32;; i++) {
        struct site *site = &run->site[i % SITES];
        uintptr_t found = 0;

        if (atomic_compare_exchange_strong(&site->key, &found, key) || found == key)
            return site;
    }
}

static bool passes(int error)
{
    return error == EINTR || error == EAGAIN || error == EBUSY;
}

/* The error that this call shall fail with, or 0. */
static int fails(unsigned call, uintptr_t at)
{
    const struct fault *fault;
    unsigned failed;
    struct site *site;
    bool here;

    if (!run || !run->armed)
        return 0;
    fault = &run->fault;
    site = site_of(at, call);
    if (call == CALL_which_cannot_fail)
        return atomic_fetch_add(&site->count, 1), 0;
    here = atomic_fetch_add(&site->count, 1) + 1 == fault->nth && site->key == fault->key;
    failed = run->failed;
    if (!here && !(fault->on && failed > 0 && fault->key >> SITE_CALL == call))
        return 0;
    if (!here && passes(fault->error) && failed >= STORM)
        return 0;
    run->failed++;
    return fault->error;
}

/* A process that the run has forked may end without giving anything back. */
static void balance(enum resource resource, int change)
{
    if (run && run->armed && resource != NOTHING && run->process == getpid())
        run->balance[resource] += change;
}

#define SITE ((uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)))

/* The value by which the call says that it has failed. */
static long failure(enum kind kind, int error)
{
    if (kind == NUMBER)
        return error;
    if (kind == MINUS)
        return -error;
    errno = error;
    return kind == ERRNO || kind == ZERO ? 0 : -1;
}

static bool succeeded(enum kind kind, long result)
{
    return kind == ERRNO ? result != 0 : kind == NUMBER ? result == 0 : result >= 0;
}

#define CALL(type, name, kind, makes, parameters, arguments, ...)                                  \
    extern type __real_##name parameters;                                                          \
    extern type __wrap_##name parameters;                                                          \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        int error = fails(CALL_##name, SITE);                                                      \
        type result;                                                                               \
                                                                                                   \
        if (error != 0 && kind != DONE_MINUS_ONE)                                                  \
            return (type)failure(kind, error);                                                     \
        result = __real_##name arguments;                                                          \
        if (succeeded(kind, (long)result))                                                         \
            balance(makes, 1);                                                                     \
        else if (kind == DONE_MINUS_ONE)                                                           \
            balance(NOT_THERE, 1);                                                                 \
        return error != 0 ? (type)failure(kind, error) : result;                                   \
    }
CALLS(CALL)
#undef CALL

/* ---- what gives back ---- */

#define GIVES_BACK(type, name, resource, parameter, argument, given)                               \
    extern type __real_##name parameter;                                                           \
    extern type __wrap_##name parameter;                                                           \
    type __wrap_##name parameter                                                                   \
    {                                                                                              \
        if (given)                                                                                 \
            balance(resource, -1);                                                                 \
        return __real_##name argument;                                                             \
    }
GIVES_BACK(void, free, BLOCK, (void *a), (a), a)
GIVES_BACK(int, fclose, FILE_OPEN, (FILE * a), (a), true)
GIVES_BACK(void, hwloc_bitmap_free, BITMAP, (hwloc_bitmap_t a), (a), a)
GIVES_BACK(void, hwloc_topology_destroy, TOPOLOGY, (hwloc_topology_t a), (a), a)

/* A call that fails by itself has been given what is not there. */
#define GIVES_BACK_KNOWN(name, resource, parameter, argument)                                      \
    extern int __real_##name parameter;                                                            \
    extern int __wrap_##name parameter;                                                            \
    int __wrap_##name parameter                                                                    \
    {                                                                                              \
        int error = __real_##name argument;                                                        \
                                                                                                   \
        if (error == 0)                                                                            \
            balance(resource, -1);                                                                 \
        else                                                                                       \
            balance(NOT_THERE, 1);                                                                 \
        return error;                                                                              \
    }
GIVES_BACK_KNOWN(pthread_join, THREAD, (pthread_t a, void **b), (a, b))
GIVES_BACK_KNOWN(pthread_key_delete, KEY, (pthread_key_t a), (a))

/* ---- calls with lists of arguments, or that change what there is ---- */

extern void *__real_realloc(void *at, size_t bytes);
extern void *__wrap_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes)
{
    void *result;

    if (fails(CALL_realloc, SITE) != 0) {
        errno = ENOMEM;
        return NULL;
    }
    result = __real_realloc(at, bytes);
    if (!at && result)
        balance(BLOCK, 1);
    return result;
}

struct number {
    long number;
    unsigned call;
    enum kind kind;
    enum resource makes;
};

static const struct number numbers[] = {
#define CALL(name, kind, makes, ...) {SYS_##name, NUMBER_##name, kind, makes},
    NUMBERS(CALL)
#undef CALL
};

static const struct number *number_of(long number)
{
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (numbers[i].number == number)
            return &numbers[i];
    return NULL;
}

#define FUTEX_COMMAND 127
#define FUTEX_WAKES 1 /* which cannot fail */

/* A list may be shorter than what is read of it, which the sanitizer need not look at. */
#define READS_LISTS __attribute__((no_sanitize("address", "undefined")))

extern long __real_syscall(long number, ...);
extern long __wrap_syscall(long number, ...);
READS_LISTS long __wrap_syscall(long number, ...)
{
    const struct number *row = number_of(number);
    long a[6], result;
    int error;
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_futex && (a[1] & FUTEX_COMMAND) == FUTEX_WAKES)
        row = NULL;
    error = fails(row ? row->call : CALL_which_cannot_fail, SITE);
    if (error != 0 && row->kind != DONE_MINUS_ONE)
        return failure(MINUS_ONE, error);
    result = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_munmap)
        balance(MAPPING, -1);
    else if (row && result != -1)
        balance(row->makes, 1);
    return error != 0 ? failure(MINUS_ONE, error) : result;
}

/* Only a file can be full. */
extern ssize_t __real_write(int fd, const void *at, size_t bytes);
extern ssize_t __wrap_write(int fd, const void *at, size_t bytes);
ssize_t __wrap_write(int fd, const void *at, size_t bytes)
{
    struct stat status;
    bool file = __real_fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    int error = fails(file ? CALL_write : CALL_write_elsewhere, SITE);

    return error != 0 ? failure(MINUS_ONE, error) : __real_write(fd, at, bytes);
}

extern int __real_sigaltstack(const stack_t *stack, stack_t *before);
extern int __wrap_sigaltstack(const stack_t *stack, stack_t *before);
int __wrap_sigaltstack(const stack_t *stack, stack_t *before)
{
    static _Thread_local void *old; /* what the thread has had before */
    bool is_old = !stack || (stack->ss_flags & SS_DISABLE) || stack->ss_sp == old;
    int error = fails(is_old ? CALL_which_cannot_fail : CALL_sigaltstack, SITE);
    int result;

    if (error != 0)
        return (int)failure(MINUS_ONE, error);
    result = __real_sigaltstack(stack, before);
    if (result == 0 && !is_old && before)
        old = before->ss_sp;
    return result;
}

/* Every kernel says how large a page is. */
extern unsigned long __real_getauxval(unsigned long entry);
extern unsigned long __wrap_getauxval(unsigned long entry);
unsigned long __wrap_getauxval(unsigned long entry)
{
    int error = fails(entry == AT_PAGESZ ? CALL_which_cannot_fail : CALL_getauxval, SITE);

    return error != 0 ? (unsigned long)failure(ZERO, error) : __real_getauxval(entry);
}

extern int __real_fcntl(int fd, int command, ...);
extern int __wrap_fcntl(int fd, int command, ...);
READS_LISTS int __wrap_fcntl(int fd, int command, ...)
{
    va_list list;
    long arg;
    int error = fails(command == F_SETFL ? CALL_fcntl : CALL_which_cannot_fail, SITE);

    va_start(list, command);
    arg = va_arg(list, long);
    va_end(list);
    return error != 0 ? (int)failure(MINUS_ONE, error) : __real_fcntl(fd, command, arg);
}
