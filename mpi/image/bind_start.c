/* SPDX-License-Identifier: BSL-1.0 */
/* How a child begins and ends: constructors, main, destructors, exits and signals. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/wait.h>

#include "bind.h"

#define EXITED(code) (((code)&0xff) << 8) /* as waitpid(2) gives it */

typedef void start_fn(int argc, char **argv, char **envp);

/* ---- begin ---- */

static void array_run(const struct umbra_child *child, uint64_t at, uint64_t bytes, char **envp)
{
    start_fn *const *fn = (start_fn *const *)(child->copy->base + at);

    for (uint64_t i = 0; i < bytes / sizeof(*fn); i++)
        if (fn[i] && fn[i] != (start_fn *)-1)
            fn[i](child->argc, child->argv, envp);
}

static void construct(const struct umbra_child *child, start_fn *init, char **envp)
{
    const struct um_dynamic *d = &child->image->dynamic;

    array_run(child, d->preinit, d->preinit_bytes, envp);
    if (init) { /* executables linked with glibc before 2.34 bring their own */
        init(child->argc, child->argv, envp);
        return;
    }
    if (d->init)
        ((start_fn *)(child->copy->base + d->init))(child->argc, child->argv, envp);
    array_run(child, d->init_array, d->init_bytes, envp);
}

static void variables_set(struct umbra_child *child, char **envp)
{
    char *name = child->argc > 0 ? child->argv[0] : child->image->path;
    char *slash = strrchr(name, '/');
    char *unused;
    int number;

    *um_environ(child) = envp;
    /* not those of the process: its main may have used them */
    *(int *)um_variable(child, UM_OPTIND, &number) = 1;
    *(int *)um_variable(child, UM_OPTERR, &number) = 1;
    *(int *)um_variable(child, UM_OPTOPT, &number) = '?';
    *(char **)um_variable(child, UM_OPTARG, &unused) = NULL;
    *(char **)um_variable(child, UM_NAME, &unused) = name;
    *(char **)um_variable(child, UM_SHORT_NAME, &unused) = slash ? slash + 1 : name;
}

int um_bind_libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
                            void (*init)(int, char **, char **), void (*fini)(void),
                            void (*rtld_fini)(void), void *stack_end)
{
    struct umbra_child *child = um_child_self();
    char **envp = argv + argc + 1;

    (void)fini;
    (void)rtld_fini;
    (void)stack_end;
    child->argc = argc;
    child->argv = argv;
    variables_set(child, envp);
    construct(child, init, *um_environ(child));
    um_child_exit(child, main(argc, argv, *um_environ(child)));
}

/* ---- what is called at the end ---- */

static int ending_add(struct um_ending **list, struct um_ending ending)
{
    struct um_ending *added = malloc(sizeof(*added));

    if (!added)
        return -1;
    ending.next = *list;
    *added = ending;
    *list = added;
    return 0;
}

void um_endings_run(struct um_ending **list, int status)
{
    while (*list) { /* each may add more */
        struct um_ending ending = **list;

        free(*list);
        *list = ending.next;
        if (ending.with_status)
            ending.with_status(status, ending.arg);
        else
            ending.fn(ending.arg);
    }
}

int um_bind_cxa_atexit(void (*fn)(void *), void *arg, void *object)
{
    (void)object;
    return ending_add(&um_child_self()->endings, (struct um_ending){.fn = fn, .arg = arg});
}

int um_bind_on_exit(void (*fn)(int, void *), void *arg)
{
    return ending_add(&um_child_self()->endings, (struct um_ending){.with_status = fn, .arg = arg});
}

int um_bind_cxa_at_quick_exit(void (*fn)(void *), void *object)
{
    (void)object;
    return ending_add(&um_child_self()->quick_endings, (struct um_ending){.fn = fn});
}

int um_bind_cxa_thread_atexit(void (*fn)(void *), void *arg, void *object)
{
    struct um_ending **list =
        um_seat.thread ? &um_seat.thread->endings : &um_child_self()->thread_endings;

    (void)object;
    return ending_add(list, (struct um_ending){.fn = fn, .arg = arg});
}

/* The last destructor of an executable calls it, when all is done. */
void um_bind_cxa_finalize(void *object)
{
    (void)object;
}

/* Not registered: the child is gone when the process forks. */
int um_bind_register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                            void *object)
{
    (void)prepare;
    (void)parent;
    (void)child;
    (void)object;
    return 0;
}

/* ---- end ---- */

/* Destructors of the executable, the last first; each once, also if one of them calls exit(). */
static void destruct(struct umbra_child *child)
{
    const struct um_dynamic *d = &child->image->dynamic;
    void (**fn)(void) = (void (**)(void))(child->copy->base + d->fini_array);

    while (child->fini_left > 0)
        fn[--child->fini_left]();
    if (d->fini && !child->finished) {
        child->finished = true;
        ((void (*)(void))(child->copy->base + d->fini))();
    }
}

void um_child_exit(struct umbra_child *child, int code)
{
    if (um_seat.thread && !um_forked())
        um_child_leave(child, EXITED(code));
    um_endings_run(&child->thread_endings, code);
    um_endings_run(&child->endings, code);
    destruct(child);
    fflush(NULL);
    um_child_leave(child, EXITED(code));
}

/* What libraries call: libgfortran's at STOP. Of a child it ends the child. */
__attribute__((__visibility__("default"))) void exit(int code)
{
    void (*of_system)(int);
    void *found;

    if (um_seat.thread || um_child_here())
        um_child_exit(um_child_self(), code);
    found = dlsym(RTLD_NEXT, "exit");
    memcpy(&of_system, &found, sizeof(of_system));
    of_system(code);
    __builtin_unreachable();
}

void um_bind_exit(int code)
{
    um_child_exit(um_child_self(), code);
}

void um_bind__exit(int code)
{
    um_child_leave(um_child_self(), EXITED(code));
}

void um_bind_quick_exit(int code)
{
    um_endings_run(&um_child_self()->quick_endings, code);
    um_child_leave(um_child_self(), EXITED(code));
}

void um_bind_abort(void)
{
    um_child_leave(um_child_self(), SIGABRT);
}

/* ---- signals ---- */

/* A signal for itself, if it would end the process, ends the child. */
int um_bind_raise(int number)
{
    struct sigaction action;

    if (number != SIGKILL && sigaction(number, NULL, &action) != 0)
        return -1;
    if (number == SIGCHLD || number == SIGURG || number == SIGWINCH || number == SIGCONT ||
        number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU)
        return raise(number);
    if (number == SIGKILL || um_crash_signal(number) || action.sa_handler == SIG_DFL)
        um_child_leave(um_child_self(), number);
    return raise(number);
}

/* The child has set an action, which must not outlive it. */
static void signal_note(int number)
{
    /* relaxed: read when the child's threads have ended */
    atomic_fetch_or_explicit(&um_child_self()->signals, UINT64_C(1) << (number - 1),
                             memory_order_relaxed);
}

/* Signals are the process's, and those of faults are the loader's. */
int um_bind_sigaction(int number, const struct sigaction *set, struct sigaction *before)
{
    if (!um_crash_signal(number)) {
        int result = sigaction(number, set, before);

        if (result == 0 && set)
            signal_note(number);
        return result;
    }
    if (before)
        memset(before, 0, sizeof(*before));
    return 0;
}

void (*um_bind_signal(int number, void (*fn)(int)))(int)
{
    void (*before)(int);

    if (um_crash_signal(number))
        return SIG_DFL;
    before = signal(number, fn);
    if (before != SIG_ERR)
        signal_note(number);
    return before;
}

void um_signals_forget(struct umbra_child *child)
{
    /* relaxed: the child's threads have ended */
    uint64_t left = atomic_load_explicit(&child->signals, memory_order_relaxed);
    struct sigaction action;

    for (; left; left &= left - 1) {
        int number = __builtin_ctzll(left) + 1;

        if (sigaction(number, NULL, &action) == 0 &&
            (uintptr_t)action.sa_handler - (uintptr_t)child->copy->base < child->image->span)
            signal(number, SIG_DFL);
    }
}

/* Faults of other fibers of the core must reach the loader, on the core's own stack. */
int um_bind_sigaltstack(const stack_t *set, stack_t *before)
{
    (void)set;
    if (before)
        *before = (stack_t){.ss_flags = SS_DISABLE};
    return 0;
}

int um_bind_pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    sigset_t kept;

    if (!set || how == SIG_UNBLOCK)
        return pthread_sigmask(how, set, before);
    kept = *set;
    for (int number = 1; number < 32; number++)
        if (um_crash_signal(number))
            sigdelset(&kept, number);
    return pthread_sigmask(how, &kept, before);
}

int um_bind_sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
    int error = um_bind_pthread_sigmask(how, set, before);

    if (error != 0)
        errno = error;
    return error == 0 ? 0 : -1;
}
