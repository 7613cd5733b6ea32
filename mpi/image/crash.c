/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Faults. A fault of a child's own code, or of a function without a frame that it called (strlen of
 * a bad pointer), ends that child: the handler changes the interrupted registers so that the thread
 * goes on in um_image_leave(). Other faults are passed on: a library may hold a lock, or have left
 * its memory in disorder. std::terminate(), when an exception leaves main, ends the child, too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <ucontext.h>

#include "bind.h"

static void on_fault(int number, void *info, void *context);

static struct um_handler handlers[] = {
    {.number = SIGSEGV, .function = on_fault}, {.number = SIGBUS, .function = on_fault},
    {.number = SIGFPE, .function = on_fault},  {.number = SIGILL, .function = on_fault},
    {.number = SIGTRAP, .function = on_fault},
};

#define HANDLERS (sizeof(handlers) / sizeof(handlers[0]))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the next two */
static unsigned images;
static void (*terminate_before)(void); /* of the process */

bool um_crash_signal(int number)
{
    for (size_t i = 0; i < HANDLERS; i++)
        if (handlers[i].number == number)
            return true;
    return number == SIGABRT; /* abort() is a binding */
}

static bool in_copy(const struct umbra_child *child, uint64_t address)
{
    return address - (uintptr_t)child->copy->base < child->image->span;
}

/* True if the fault is the child's own. */
static bool is_own(const struct umbra_child *child, const void *info, const greg_t *registers)
{
    uint64_t stack = (uint64_t)registers[REG_RSP];
    bool on_stack = stack >= (uintptr_t)child->stack_low &&
                    stack <= (uintptr_t)child->stack_high - 8 && stack % 8 == 0;

    if (um_os_signal_sent(info))
        return false;
    if (in_copy(child, (uint64_t)registers[REG_RIP]))
        return true;
    return on_stack && in_copy(child, *(const uint64_t *)stack); /* the return address */
}

static void on_fault(int number, void *info, void *context)
{
    struct umbra_child *child = um_seat.running;
    struct um_handler *handler = handlers;
    greg_t *registers;

    while (handler->number != number)
        handler++;
    if (um_handler_asked(handler, info, context))
        return;
    registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (!child || um_seat.thread || !is_own(child, info, registers)) {
        um_handler_pass_on(handler, info, context);
        return;
    }
    child->status = number;
    registers[REG_RDI] = (greg_t)(uintptr_t)child->saved;
    registers[REG_RIP] = (greg_t)(uintptr_t)um_image_leave;
}

/* ---- std::terminate() ---- */

/* The type of the exception, as the C++ runtime names it. The runtime's own handler says it only
 * once in a process. */
static void say_exception(void)
{
    void *(*type)(void);
    char *(*readable)(const char *, char *, size_t *, int *);
    void *found[] = {dlsym(RTLD_DEFAULT, "__cxa_current_exception_type"),
                     dlsym(RTLD_DEFAULT, "__cxa_demangle")};
    const char *name = NULL;
    char *text = NULL;

    memcpy(&type, &found[0], sizeof(type));
    memcpy(&readable, &found[1], sizeof(readable));
    if (type && type())
        name = ((const char *const *)type())[1]; /* std::type_info: a table, and the name */
    if (name && readable)
        text = readable(name, NULL, NULL, NULL);
    if (name)
        fprintf(stderr, "terminate called after throwing an instance of '%s'\n",
                text ? text : name);
    else
        fputs("terminate called without an active exception\n", stderr);
    free(text);
}

static void on_terminate(void)
{
    struct umbra_child *child = um_child_here();

    if (!child) {
        terminate_before();
        abort();
    }
    if (child->terminate)
        child->terminate();
    else
        say_exception();
    um_child_leave(child, SIGABRT);
}

void (*um_bind_set_terminate(void (*fn)(void)))(void)
{
    struct umbra_child *child = um_child_self();
    void (*before)(void) = child->terminate;

    child->terminate = fn;
    return before ? before : terminate_before;
}

/* The C++ runtime's set_terminate(), if this process has one. */
static void terminate_set(void (*fn)(void), void (**before)(void))
{
    void (*(*set)(void (*)(void)))(void);
    void *found = dlsym(RTLD_DEFAULT, "_ZSt13set_terminatePFvvE");

    memcpy(&set, &found, sizeof(set));
    if (set)
        *before = set(fn);
}

/* ---- the first image and the last ---- */

/* All, or none. */
static int handlers_put(void)
{
    int error = 0;
    size_t put = 0;

    while (put < HANDLERS && error == 0) {
        error = um_handler_put(&handlers[put]);
        put += error == 0;
    }
    if (error == 0)
        terminate_set(on_terminate, &terminate_before);
    while (error != 0 && put > 0)
        um_handler_take(&handlers[--put]);
    return error;
}

int um_crash_start(void)
{
    int error = 0;

    pthread_mutex_lock(&lock);
    if (images == 0)
        error = handlers_put();
    images += error == 0;
    pthread_mutex_unlock(&lock);
    return error;
}

void um_crash_stop(void)
{
    void (*unused)(void);

    pthread_mutex_lock(&lock);
    if (--images == 0) {
        terminate_set(terminate_before, &unused);
        for (size_t i = 0; i < HANDLERS; i++)
            um_handler_take(&handlers[i]);
    }
    pthread_mutex_unlock(&lock);
}
