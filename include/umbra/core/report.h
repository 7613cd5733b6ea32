/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Reports of what fibers do: on demand, on a signal (core/dump_signal.h), in a deadlock, when a
 * stack overflows, and on misuse (UMBRA_ASSERT). Private; included by core.h.
 *
 * Reports on demand, on a signal and of an overflow may be written by a signal handler: they use
 * write(2), and nothing that locks or allocates. While cores run, such a report may be out of date.
 */
#ifndef UMBRA_CORE_REPORT_H
#define UMBRA_CORE_REPORT_H

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/context.h>
#include <umbra/fiber.h>
#include <umbra/os/os.h>
#include <umbra/stack.h>
#include <umbra/task/protocol.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_SIGNALS_MOST 65 /* numbers of signals are below */

/* ---- text ---- */

/* A line that is being made. What does not fit is left out. */
struct um_text {
    size_t length;
    char line[480];
};

/* A handler begins to read the list of runtimes: no runtime may be freed meanwhile. seq_cst, here,
 * in um_report_end() and in um_reports_wait(): a handler that begins after the last look of the
 * waiting thread finds the list as that thread has left it. */
UM_INLINE void um_report_begin(void)
{
    um_atomic_fetch_add(&um_runtimes.reports, 1, seq_cst);
}

UM_INLINE void um_report_end(void)
{
    um_atomic_fetch_add(&um_runtimes.reports, UINT32_MAX, seq_cst);
}

/* Adds words. In them stand for the next argument: %s a text, %u an unsigned number, %n an uint64_t,
 * %x the same with base 16, %f a fiber, with its name and address. Also in signal handlers. */
UM_LINKONCE void um_text_say(struct um_text *text, const char *format, ...);

UM_LINKONCE const void *um_report_at(const struct um_fiber *fiber);
UM_LINKONCE const char *um_fiber_state_name(enum umbra_fiber_state state);

#ifdef UMBRA_IMPLEMENTATION

/* ---- names ---- */

UM_LINKONCE const char *um_fiber_state_name(enum umbra_fiber_state state)
{
    static const char *const name[] = {"created", "ready",      "executing",  "stopped",
                                       "blocked", "terminated", "system call"};

    return (unsigned)state < sizeof(name) / sizeof(name[0]) ? name[state] : "?";
}

/* The state as reports show it: of what is stored, BLOCKED may be a system call, and READY may be
 * executing. */
UM_LINKONCE enum umbra_fiber_state um_fiber_shown_state(const struct um_fiber *fiber,
                                                        const struct umbra_core *home,
                                                        enum umbra_fiber_state stored)
{
    if (stored == UMBRA_FIBER_READY && home && um_core_current(home) == fiber)
        return UMBRA_FIBER_EXECUTING;
    /* relaxed: reports only look */
    if (stored == UMBRA_FIBER_BLOCKED &&
        um_kind_is_system(um_atomic_load(&fiber->waits_for, relaxed)))
        return UMBRA_FIBER_SYSTEM_CALL;
    return stored;
}

/* The state, enum umbra_fiber_state, or -ESRCH. */
UM_LINKONCE int um_fiber_state_now(struct umbra_fiber fiber)
{
    enum umbra_fiber_state state;
    struct umbra_core *home;
    bool ended;

    if (!fiber.block)
        return -ESRCH;
    /* acquire, all: see um_fiber_is() */
    state = (enum umbra_fiber_state)(um_atomic_load(&fiber.block->state, acquire) & UM_STATE_BITS);
    home = (struct umbra_core *)um_atomic_load(&fiber.block->node.home, acquire);
    state = um_fiber_shown_state(fiber.block, home, state);
    ended = um_fiber_has_ended(fiber.block);
    if (um_fiber_generation(fiber.block) != fiber.generation)
        return -ESRCH;
    if (ended)
        return UMBRA_FIBER_TERMINATED;
    return (int)state;
}

/* The most that was used of the fiber's stack, in bytes. */
UM_LINKONCE size_t um_fiber_stack_used(const struct um_fiber *fiber)
{
    size_t bytes;

#ifdef UM_CONTEXT_VALGRIND
    VALGRIND_DISABLE_ERROR_REPORTING; /* it reads stack that no frame uses */
#endif
    bytes = (size_t)um_stack_used_bytes((char *)fiber - fiber->context.stack_bytes, fiber);
#ifdef UM_CONTEXT_VALGRIND
    VALGRIND_ENABLE_ERROR_REPORTING;
#endif
    return bytes;
}

UM_LINKONCE int umbra_fiber_info(struct umbra_fiber fiber, struct umbra_fiber_info *info)
{
    int state = um_fiber_state_now(fiber);

    if (state >= 0 && info) {
        um_fiber_read_name(fiber.block, info->name);
        info->stack_used = um_fiber_stack_used(fiber.block);
    }
    return state < 0 ? um_why_ended() : state;
}

UM_LINKONCE void um_text_add(struct um_text *text, const char *more)
{
    while (*more && text->length < sizeof(text->line))
        text->line[text->length++] = *more++;
}

UM_LINKONCE void um_text_add_number(struct um_text *text, uint64_t value, unsigned base)
{
    char digits[24];
    size_t at = sizeof(digits) - 1;

    digits[at] = 0;
    do {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value > 0);
    um_text_add(text, base == 16 ? "0x" : "");
    um_text_add(text, digits + at);
}

UM_LINKONCE void um_text_write(const struct um_text *text, int fd)
{
    um_os_write(fd, text->line, text->length);
}

/* ---- one fiber ---- */

/* A fiber's name, if it has one, and its address. */
UM_LINKONCE void um_report_name(struct um_text *text, const struct um_fiber *fiber)
{
    char name[UMBRA_FIBER_NAME_BYTES];

    um_fiber_read_name(fiber, name);
    if (name[0])
        um_text_say(text, "\"%s\" ", name);
    um_text_add_number(text, (uintptr_t)fiber, 16);
}

UM_LINKONCE void um_text_say(struct um_text *text, const char *format, ...)
{
    va_list more;

    va_start(more, format);
    for (; *format; format++) {
        char letter[2] = {*format, 0};

        if (*format != '%')
            um_text_add(text, letter);
        else if (*++format == 's')
            um_text_add(text, va_arg(more, const char *));
        else if (*format == 'f')
            um_report_name(text, va_arg(more, const struct um_fiber *));
        else if (*format == 'u')
            um_text_add_number(text, va_arg(more, unsigned), 10);
        else
            um_text_add_number(text, va_arg(more, uint64_t), *format == 'x' ? 16 : 10);
    }
    va_end(more);
}

/* Where a fiber's wait was called from: function + offset if names are known, file + offset. */
UM_LINKONCE void um_report_place(struct um_text *text, const void *at, bool names)
{
    struct um_os_symbol symbol;
    uint64_t address = (uintptr_t)at;

    if (!names || !um_os_symbol(at, &symbol))
        um_text_say(text, " at %x", address);
    else if (symbol.name)
        um_text_say(text, " at %s+%x (%s+%x)", symbol.name, address - (uintptr_t)symbol.address,
                    symbol.file, address - (uintptr_t)symbol.base);
    else
        um_text_say(text, " at %s+%x", symbol.file, address - (uintptr_t)symbol.base);
}

#ifdef UM_CONTEXT_TSAN
UM_LINKONCE void um_fiber_tell_name(const struct um_fiber *fiber)
{
    struct um_text text = {.length = 0}; /* zeroed: the line ends */

    um_text_say(&text, "fiber %f", fiber);
    __tsan_set_fiber_name(fiber->context.sanitizer, text.line);
}
#endif

/* Where in the program a blocked fiber called its wait, or a stopped fiber its transfer; NULL: not
 * known. relaxed, here and below: reports only look. */
UM_LINKONCE const void *um_report_at(const struct um_fiber *fiber)
{
    const struct um_kind *kind = um_atomic_load(&fiber->waits_for, relaxed);
    bool in_line = um_fiber_get_state(fiber) == UMBRA_FIBER_STOPPED ? kind != &um_kind_transfer
                                                                    : kind == &um_kind_join_inline;

    return in_line ? um_context_pc(&fiber->context) : um_atomic_load(&fiber->waits_at, relaxed);
}

/* What a blocked fiber waits for. idle: see um_report_fibers(). */
UM_LINKONCE void um_report_wait(struct um_text *text, const struct um_fiber *fiber, bool idle)
{
    const struct um_kind *kind = um_atomic_load(&fiber->waits_for, relaxed);
    uintptr_t on = (uintptr_t)um_atomic_load(&fiber->waits_on, relaxed);

    um_text_say(text, ", waits for %s", kind ? kind->name : "?");
    if (on & 1) /* um_waits_on_fiber() */
        um_text_say(text, " of fiber %f", (const struct um_fiber *)(on - 1));
    else if (on)
        um_text_say(text, " %x", (uint64_t)on);
    if (idle && kind && kind->describe)
        kind->describe(text, (const void *)on);
}

/* Adds a fiber's name and, if it has a core, that. */
UM_LINKONCE void um_report_with_core(struct um_text *text, const struct um_fiber *fiber)
{
    const struct umbra_core *home = um_fiber_home(fiber);

    um_text_say(text, "fiber %f", fiber);
    if (home)
        um_text_say(text, ", core %u", home->index);
}

UM_LINKONCE void um_report_fiber(const struct um_fiber *fiber, int fd, bool idle)
{
    const struct umbra_core *home = um_fiber_home(fiber);
    enum umbra_fiber_state stored = (enum umbra_fiber_state)um_fiber_get_state(fiber);
    struct um_text text = {.length = 0};

    um_text_add(&text, "umbra:   ");
    um_report_with_core(&text, fiber);
    um_text_say(&text, ", %s", um_fiber_state_name(um_fiber_shown_state(fiber, home, stored)));
    if (stored == UMBRA_FIBER_BLOCKED)
        um_report_wait(&text, fiber, idle);
    if ((stored == UMBRA_FIBER_BLOCKED || stored == UMBRA_FIBER_STOPPED) && um_report_at(fiber))
        um_report_place(&text, um_report_at(fiber), idle);
    um_text_add(&text, "\n");
    um_text_write(&text, fd);
}

/* True if the fiber has a delay. Not instrumented: its core may be writing it. */
UM_LINKONCE UM_NOINLINE UM_UNCHECKED bool um_report_delayed(const struct um_fiber *fiber)
{
    return *(const volatile uint64_t *)&fiber->timer.deadline != 0;
}

/* True if reports show the fiber: it has been spawned and has not ended. A fiber in a message, on
 * its way to its core, is not shown. */
UM_INLINE bool um_report_shows(const struct um_fiber *fiber)
{
    uint32_t state = um_fiber_get_state(fiber);

    if (state == UMBRA_FIBER_CREATED)
        return !um_fiber_home(fiber) || um_report_delayed(fiber);
    return state != UMBRA_FIBER_TERMINATED;
}

/* Prints that a fiber has ended as it must not, how: a format of um_text_say() for one number; and
 * aborts. */
UM_LINKONCE UM_COLD void um_fiber_misused(const struct um_fiber *fiber, const char *how,
                                          uint64_t what)
{
    struct um_text text = {.length = 0};

    um_text_add(&text, "umbra: misuse: ");
    um_report_with_core(&text, fiber);
    um_text_say(&text, how, what);
    um_text_write(&text, 2);
    abort();
}

/* Prints that an object is used as it must not be, how; and aborts. at: the program's call. */
UM_LINKONCE UM_COLD void um_misused(const char *what, const void *object, const char *how,
                                    const void *at)
{
    struct um_text text = {.length = 0};

    um_text_say(&text, "umbra: misuse: %s %x%s", what, (uint64_t)(uintptr_t)object, how);
    um_report_place(&text, at, true);
    um_text_add(&text, "\n");
    um_text_write(&text, 2);
    abort();
}

/* ---- the holder of a mutex ---- */

/* The fiber that has its control block there, or NULL. The caller counts in um_slabs.looking. */
UM_LINKONCE const struct um_fiber *um_report_find(uintptr_t block)
{
    /* seq_cst, acquire: as in um_slab_find() */
    const struct um_slab *slab = um_atomic_load(&um_slabs.first, seq_cst);

    for (; slab; slab = um_atomic_load(&slab->listed, acquire)) {
        uintptr_t offset = block - (uintptr_t)slab->base;
        const struct um_fiber *fiber;

        if (offset >= slab->slots * slab->slot_bytes)
            continue;
        fiber = um_slab_fiber(slab, (unsigned)(offset / slab->slot_bytes));
        return (uintptr_t)fiber == block ? fiber : NULL;
    }
    return NULL;
}

/* Adds the fiber that holds a mutex; it may be of any runtime, and its life may have ended. */
UM_LINKONCE void um_report_holding_fiber(struct um_text *text, uintptr_t holder)
{
    const struct um_fiber *fiber = um_report_find(um_self_block(holder));

    if (!fiber || um_fiber_self(fiber, um_fiber_generation(fiber)) != holder) {
        um_text_add(text, "a fiber that has ended");
        return;
    }
    um_report_with_core(text, fiber);
    if (um_fiber_has_ended(fiber))
        um_text_add(text, ", which has ended");
}

/* Adds what holds a mutex: a fiber or a thread. holder: see um_fiber_self() */
UM_LINKONCE void um_report_holder(struct um_text *text, uintptr_t holder)
{
    if (holder == 0) {
        um_text_add(text, " that is free,");
        return;
    }
    um_text_add(text, " held by ");
    if (holder & UM_SELF_THREAD) {
        um_text_say(text, "thread %x", (uint64_t)um_self_block(holder));
    } else {
        um_atomic_fetch_add(&um_slabs.looking, 1, seq_cst); /* against um_slab_destroy() */
        um_report_holding_fiber(text, holder);
        um_atomic_fetch_add(&um_slabs.looking, UINT32_MAX, seq_cst);
    }
    um_text_add(text, ",");
}

/* ---- all fibers ---- */

UM_LINKONCE void um_report_slabs(const struct um_depot *depot, unsigned size_class, int fd,
                                 bool idle)
{
    /* acquire, both: pairs with um_depot_grow() and um_depot_make() */
    const struct um_slab *slab = um_atomic_load(&depot->slab[size_class], acquire);
    unsigned slots = um_atomic_load(&depot->next_slot[size_class], acquire);

    while (slab) {
        for (unsigned slot = 0; slot < slots && slot < slab->slots; slot++)
            if (um_report_shows(um_slab_fiber(slab, slot)))
                um_report_fiber(um_slab_fiber(slab, slot), fd, idle);
        slab = slab->next;
        slots = slab ? slab->slots : 0;
    }
}

UM_LINKONCE UM_COLD void um_reports_wait(void)
{
    for (unsigned looks = 0; um_atomic_fetch_add(&um_runtimes.reports, 0, seq_cst) > 0; looks++)
        um_thread_look_again(looks, UMBRA_NEVER);
}

/* idle: all cores are idle and the caller is no handler, so the report may read the objects that
 * fibers wait for, and look symbols up, which may lock. */
UM_LINKONCE void um_report_fibers(const struct umbra_runtime *runtime, int fd, bool idle)
{
    for (unsigned i = 0; i < runtime->cores; i++)
        for (unsigned k = 0; k < UM_SIZE_CLASSES; k++)
            um_report_slabs(&runtime->core[i]->more->depot, k, fd, idle);
}

UM_LINKONCE void umbra_dump(const struct umbra_runtime *runtime, int fd)
{
    struct um_text text = {.length = 0};

    um_text_say(&text, "umbra: runtime %x, cores: %u, holds: %n\n", (uint64_t)(uintptr_t)runtime,
                runtime->cores,
                um_atomic_load(&runtime->holds, relaxed)); /* relaxed: for display only */
    um_text_write(&text, fd);
    um_report_fibers(runtime, fd, false);
}

UM_LINKONCE UM_COLD void um_report_deadlock(struct umbra_runtime *runtime)
{
    struct um_text text = {.length = 0};

    um_text_add(&text, "umbra: deadlock: all cores are idle, and nothing can end these waits "
                       "(or a thread outside forgot umbra_hold):\n");
    um_text_write(&text, 2);
    um_report_fibers(runtime, 2, true);
}

/* Describes a slot's fiber, for the report of an overflow. */
UM_LINKONCE void um_report_owner(const struct um_slab *slab, unsigned slot, char *line,
                                 size_t bytes)
{
    const struct um_fiber *fiber = um_slab_fiber(slab, slot);
    const struct umbra_core *home = um_fiber_home(fiber);
    struct um_text text = {.length = 0};

    um_text_say(&text, "fiber %f", fiber);
    if (home)
        um_text_say(&text, " on core %u", home->index);
    if (text.length > bytes - 1)
        text.length = bytes - 1;
    memcpy(line, text.line, text.length);
    line[text.length] = 0;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
