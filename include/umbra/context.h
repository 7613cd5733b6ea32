/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Contexts: a stack, and the place on it where execution goes on. Private to the library; the only
 * file that names Boost.Context.
 *
 * um_context_switch is the one function that switches. It has two forms:
 *
 *   in line   um_arch_switch(), on x86-64 and aarch64. The compiler saves what is alive at the
 *             call, in its own frame; stack pointer, address, frame pointer and base pointer (RBX,
 *             X19) go into the context. Floating-point control words are not exchanged: see
 *             fiber/own_state.h.
 *   Boost's   jump_fcontext(), elsewhere, with AddressSanitizer and ThreadSanitizer, and with
 *             UMBRA_ARCH_GENERIC or UMBRA_SWITCH_BOOST defined. It saves all registers that a
 *             called function must keep, on the stack.
 *
 * In both forms the context that is left is complete before the code that runs next does anything
 * else. Only then may another thread learn of it. In line, the side that leaves writes it. A jump
 * of Boost's carries the address of the context that is left, and the side that arrives stores the
 * stack pointer there.
 *
 * Sanitizers. AddressSanitizer is told the bounds of the stack that a switch arrives on, and keeps
 * one "fake" stack for each context; ThreadSanitizer has one fiber for each context, and takes a
 * switch as synchronisation; Valgrind knows each stack by its bounds. Without them nothing of this
 * is compiled in, except a word for Valgrind.
 *
 * Callers. Any thread may make a context; at any time one thread at most runs on it or switches to
 * it. No call reports an error. Where the processor checks returns against a shadow stack, a switch
 * in line would fault: um_context_possible() tells, and a runtime then does not start.
 *
 * Boost 1.87 stopped exporting the C names of make_fcontext and jump_fcontext, and exports C++
 * names instead.
 */
#ifndef UMBRA_CONTEXT_H
#define UMBRA_CONTEXT_H

#include <umbra/base/base.h>
#include <umbra/cpu.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#if defined(__SANITIZE_ADDRESS__)
#define UM_CONTEXT_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define UM_CONTEXT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UM_CONTEXT_ASAN 1
#elif __has_feature(thread_sanitizer)
#define UM_CONTEXT_TSAN 1
#endif
#endif

#ifdef __has_feature
#if __has_feature(safe_stack) || __has_feature(shadow_call_stack)
#error "Umbra: each thread has one second stack only: -fsanitize=safe-stack, shadow-call-stack"
#endif
#endif

#if defined(UM_CONTEXT_ASAN)
#define UM_CHOSEN_SANITIZER um_chosen_asan
#elif defined(UM_CONTEXT_TSAN)
#define UM_CHOSEN_SANITIZER um_chosen_tsan
#else
#define UM_CHOSEN_SANITIZER um_chosen_no_sanitizer
#endif

UM_CHOICE(UM_CHOSEN_SANITIZER);

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define UM_CONTEXT_VALGRIND 1
#endif
#endif

#if defined(UM_ARCH_SWITCHES) && !defined(UMBRA_SWITCH_BOOST) && !defined(UM_CONTEXT_ASAN) &&      \
    !defined(UM_CONTEXT_TSAN)
#define UM_CONTEXT_IN_LINE 1
#define UM_CHOSEN_SWITCH um_chosen_switch_in_line
#else
#define UM_CHOSEN_SWITCH um_chosen_switch_boost
#endif

UM_CHOICE(UM_CHOSEN_SWITCH);

#ifndef UM_CONTEXT_IN_LINE
#include <boost/version.hpp>

#if BOOST_VERSION >= 108700
#define UM_BOOST_NAME(c_name, cxx_name) __asm__(cxx_name)
#else
#define UM_BOOST_NAME(c_name, cxx_name) __asm__(c_name)
#endif

/* What a jump of Boost's hands over: the stack pointer of the context that left, and a pointer. */
struct um_arrival {
    void *from;
    void *data;
};

UM_EXTERN void *um_boost_make(void *stack_high, size_t stack_bytes,
                              void (*entry)(struct um_arrival arrival))
    UM_BOOST_NAME("make_fcontext",
                  "_ZN5boost7context6detail13make_fcontextEPvmPFvNS1_10transfer_tEE");
UM_EXTERN struct um_arrival um_boost_jump(void *to, void *data)
    UM_BOOST_NAME("jump_fcontext", "_ZN5boost7context6detail13jump_fcontextEPvS2_");

#endif

#ifdef UM_CONTEXT_ASAN
UM_EXTERN void __sanitizer_start_switch_fiber(void **fake_stack, const void *low, size_t bytes);
UM_EXTERN void __sanitizer_finish_switch_fiber(void *fake_stack, const void **low, size_t *bytes);
UM_EXTERN void __asan_unpoison_memory_region(const volatile void *low, size_t bytes);
#endif
#ifdef UM_CONTEXT_TSAN
UM_EXTERN void *__tsan_get_current_fiber(void);
UM_EXTERN void *__tsan_create_fiber(unsigned flags);
UM_EXTERN void __tsan_destroy_fiber(void *fiber);
UM_EXTERN void __tsan_switch_to_fiber(void *fiber, unsigned flags);
UM_EXTERN void __tsan_set_fiber_name(void *fiber, const char *name);
#endif

/* A context. Used by the side that runs on it, and by the side that switches to it. */
#ifdef UM_CONTEXT_IN_LINE
struct um_context {
    struct um_arch_place place; /* while it does not run; the side that leaves writes */
    size_t stack_bytes;         /* of its stack; the context of a thread: 0 */
};
#else
struct um_context {
    void *sp;           /* stack pointer while it does not run; the side that runs next writes */
    void *stack_low;    /* its stack; the context of a thread: NULL until it is known */
    size_t stack_bytes; /* its length, from stack_low up */
    void *sanitizer;    /* ThreadSanitizer's fiber, or AddressSanitizer's fake stack */
    void *spare;        /* the same size in both forms */
};
#endif

/* The stack pointer of a context that does not run. */
UM_INLINE void *um_context_sp(const struct um_context *context)
{
#ifdef UM_CONTEXT_IN_LINE
    return context->place.sp;
#else
    return context->sp;
#endif
}

/* What a context runs. It must not return. */
typedef void um_context_entry(struct um_context *self);

/* ---- what the sanitizers are told ---- */

/* Before `from` leaves for `to`. */
UM_ALWAYS_INLINE void um_context_leaving(struct um_context *from, const struct um_context *to)
{
#if defined(UM_CONTEXT_ASAN)
    __sanitizer_start_switch_fiber(&from->sanitizer, to->stack_low, to->stack_bytes);
#elif defined(UM_CONTEXT_TSAN)
    __tsan_switch_to_fiber(to->sanitizer, 0);
    (void)from;
#else
    (void)from;
    (void)to;
#endif
}

/* After a switch from `from` to `self`. */
UM_ALWAYS_INLINE void um_context_arrived(struct um_context *self, struct um_context *from)
{
#if defined(UM_CONTEXT_ASAN)
    const void *low;
    size_t bytes;

    __sanitizer_finish_switch_fiber(self->sanitizer, &low, &bytes);
    if (!from->stack_low) { /* a thread's stack: known from now on */
        from->stack_low = (void *)(uintptr_t)low;
        from->stack_bytes = bytes;
    }
#else
    (void)self;
    (void)from;
#endif
}

/* ---- switching ---- */

/*
 * Leaves `from`, which runs, for `to`, which does not. Returns when a context switches back to
 * `from`: in another thread if that context runs there, as an ended fiber's context may change
 * cores.
 */
UM_ALWAYS_INLINE void um_context_switch(struct um_context *from, struct um_context *to)
{
#ifdef UM_CONTEXT_IN_LINE
    um_arch_switch(&from->place, &to->place);
#else
    void *sp = to->sp;
    struct um_arrival arrival;
    struct um_context *left;

    um_context_leaving(from, to);
    arrival = um_boost_jump(sp, from);
    left = (struct um_context *)arrival.data;
    um_context_arrived(from, left);
    left->sp = arrival.from;
#endif
}

/* ---- making ---- */

/*
 * Makes a context that will run entry(c) on the stack between low and high. high is 16-byte
 * aligned, and the stack is not in use. Any thread.
 */
UM_LINKONCE UM_UNCHECKED void um_context_make(struct um_context *c, void *low, void *high,
                                              um_context_entry *entry);

/* Makes the calling thread's own stack a context, from which it can switch. */
UM_LINKONCE void um_context_adopt(struct um_context *c);

/* Ends a context, which will never run again. high: as it was made; NULL: it was adopted. Any
 * thread that is not on its stack; an adopted context: its thread. */
UM_LINKONCE void um_context_destroy(struct um_context *c, void *high);

/* True if this thread can switch contexts. False: the processor checks its returns against a shadow
 * stack, which a switch in line does not exchange. */
UM_LINKONCE UM_COLD bool um_context_possible(void);

#ifdef UMBRA_IMPLEMENTATION

#define UM_CONTEXT_TOP                                                                             \
    16 /* bytes at the end of a stack: Valgrind's number of it; keeps alignment */

#ifdef UM_CONTEXT_VALGRIND
/* Valgrind must know a stack before it is used. */
UM_INLINE void um_context_register(void *low, void *high)
{
    uintptr_t id = VALGRIND_STACK_REGISTER(low, high);

    (void)low; /* where Valgrind does not run */
    *((uintptr_t *)high - 1) = id;
}
#endif

#ifdef UM_CONTEXT_IN_LINE

UM_LINKONCE UM_UNCHECKED void um_context_make(struct um_context *c, void *low, void *high,
                                              um_context_entry *entry)
{
#ifdef UM_CONTEXT_VALGRIND
    um_context_register(low, high);
#endif
    c->stack_bytes = (size_t)((char *)high - (char *)low);
    um_arch_place_make(&c->place, (char *)high - UM_CONTEXT_TOP,
                       (void (*)(struct um_arch_place *))(void (*)(void))entry);
}

UM_STATIC_ASSERT(offsetof(struct um_context, place) == 0, "a place is its context");

UM_LINKONCE void um_context_adopt(struct um_context *c)
{
    *c = (struct um_context){.stack_bytes = 0};
}

UM_LINKONCE UM_COLD bool um_context_possible(void)
{
    return !um_arch_shadow_stack();
}

#else

/* What a new context needs to know, handed over by a first jump there and back. */
struct um_context_birth {
    struct um_context *self;
    um_context_entry *entry;
};

/*
 * The first function on a new stack. It is not instrumented: when it begins, ThreadSanitizer does
 * not know yet that the stack has changed.
 */
UM_LINKONCE UM_UNCHECKED void um_context_begin(struct um_arrival arrival)
{
    struct um_context_birth birth = *(const struct um_context_birth *)arrival.data;
    struct um_context *left;

    arrival = um_boost_jump(arrival.from, NULL); /* back to um_context_make */
    left = (struct um_context *)arrival.data;
#ifdef UM_CONTEXT_ASAN
    birth.self->sanitizer = NULL; /* no fake stack yet */
#endif
    um_context_arrived(birth.self, left);
    left->sp = arrival.from;
    birth.entry(birth.self);
}

UM_LINKONCE UM_UNCHECKED void um_context_make(struct um_context *c, void *low, void *high,
                                              um_context_entry *entry)
{
    struct um_context_birth birth = {c, entry};
    size_t bytes = (size_t)((char *)high - (char *)low);

    c->stack_low = low;
    c->stack_bytes = bytes;
    c->sanitizer = NULL;
#if defined(UM_CONTEXT_TSAN)
    c->sanitizer = __tsan_create_fiber(0);
#elif defined(UM_CONTEXT_VALGRIND) && !defined(UM_CONTEXT_ASAN)
    um_context_register(low, high);
#endif
    c->sp = um_boost_jump(um_boost_make((char *)high - UM_CONTEXT_TOP, bytes - UM_CONTEXT_TOP,
                                        um_context_begin),
                          &birth)
                .from;
}

UM_LINKONCE void um_context_adopt(struct um_context *c)
{
    *c = (struct um_context){.stack_low = NULL};
#ifdef UM_CONTEXT_TSAN
    c->sanitizer = __tsan_get_current_fiber();
#endif
}

UM_LINKONCE UM_COLD bool um_context_possible(void)
{
    return true;
}

#endif /* UM_CONTEXT_IN_LINE */

UM_LINKONCE void um_context_destroy(struct um_context *c, void *high)
{
    (void)high;
#if defined(UM_CONTEXT_TSAN)
    if (high)
        __tsan_destroy_fiber(c->sanitizer);
#elif defined(UM_CONTEXT_ASAN)
    uintptr_t low = (uintptr_t)c->stack_low;

    /* frames that never returned leave marks, which the memory's next user must not find; a
     * thread's own stack is in use */
    if (low && (uintptr_t)__builtin_frame_address(0) - low >= c->stack_bytes)
        __asan_unpoison_memory_region(c->stack_low, c->stack_bytes);
    c->stack_low = NULL;
#elif defined(UM_CONTEXT_VALGRIND)
    if (high)
        VALGRIND_STACK_DEREGISTER(*((const uintptr_t *)high - 1));
#endif
    c->stack_bytes = 0;
}
#endif /* UMBRA_IMPLEMENTATION */

UM_LINKONCE UM_NOINLINE UM_UNCHECKED const void *um_context_pc(const struct um_context *c);

#ifdef UMBRA_IMPLEMENTATION
/*
 * Where a context that does not run will go on: an address in the code, or NULL if the layout of
 * Boost's frames is not known. For a context that runs meanwhile: some other address, or a word of
 * its stack. Any thread, also in a signal handler. Not instrumented: a report reads what another
 * core may be writing, and only shows it. Not atomic either, since clang always instruments atomic
 * operations.
 */
UM_LINKONCE UM_NOINLINE UM_UNCHECKED const void *um_context_pc(const struct um_context *c)
{
#ifdef UM_CONTEXT_IN_LINE
    return *(void *const volatile *)&c->place.pc;
#else
    void *const *frame = *(void *const *const volatile *)&c->sp;

    if (!frame)
        return NULL;
#if defined(__x86_64__) && defined(__linux__)
    return frame[7]; /* jump_x86_64_sysv_elf_gas.S: RIP at 38h */
#elif defined(__aarch64__)
    return frame[20]; /* jump_arm64_aapcs_elf_gas.S: PC at A0h */
#else
    return NULL;
#endif
#endif /* UM_CONTEXT_IN_LINE */
}
#endif /* UMBRA_IMPLEMENTATION */

#endif
