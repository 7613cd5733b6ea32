/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Entering a copy as the kernel enters a program: at its first instruction, with the arguments on
 * the stack. And leaving it: um_image_leave() makes um_image_enter() return, from any depth, also
 * from a signal handler that changes the interrupted registers.
 *
 *   *saved ->   control words of the floating-point units, r15 r14 r13 r12 rbx rbp, return address
 *   below it    the vector: argc, arguments, 0, environment, 0, auxiliary words; then the child
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bind.h"

__asm__(".text\n"
        ".globl um_image_enter\n"
        ".hidden um_image_enter\n"
        ".type um_image_enter, @function\n"
        "um_image_enter:\n"
        "    .cfi_startproc\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    subq $8, %rsp\n"
        "    stmxcsr (%rsp)\n"
        "    fnstcw 4(%rsp)\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rax\n"
        "    movq %rdx, %rsi\n"
        "    shlq $3, %rcx\n"
        "    subq %rcx, %rsp\n"
        "    andq $-16, %rsp\n"
        "    shrq $3, %rcx\n"
        "    movq %rsp, %rdi\n"
        "    rep movsq\n"
        "    xorl %ebp, %ebp\n"
        "    xorl %edx, %edx\n" /* no function to call at exit */
        "    jmp *%rax\n"
        "    .cfi_endproc\n"
        ".size um_image_enter, . - um_image_enter\n"
        ".globl um_image_leave\n"
        ".hidden um_image_leave\n"
        ".type um_image_leave, @function\n"
        "um_image_leave:\n"
        "    movq %rdi, %rsp\n"
        "    cld\n"
        "    fninit\n"
        "    ldmxcsr (%rsp)\n"
        "    fldcw 4(%rsp)\n"
        "    addq $8, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size um_image_leave, . - um_image_leave\n");

/* ---- the child that runs here, and how its code ends ---- */

struct umbra_child *um_child_self(void)
{
    return um_seat.running;
}

struct umbra_child *um_child_here(void)
{
    struct umbra_child *child = um_seat.running;
    const char *here = __builtin_frame_address(0);

    return child && here >= child->stack_low && here < child->stack_high ? child : NULL;
}

void *um_variable(struct umbra_child *child, enum um_variable which, void *otherwise)
{
    uint64_t at = child->image->variable[which];

    return at ? child->copy->base + at : otherwise;
}

bool um_forked(void)
{
    return um_seat.thread ? um_seat.thread->process != getpid() : !um_core_self;
}

void um_process_end(const struct umbra_child *child)
{
    if (WIFSIGNALED(child->status)) {
        signal(WTERMSIG(child->status), SIG_DFL);
        raise(WTERMSIG(child->status));
    }
    _exit(WEXITSTATUS(child->status));
}

void um_child_leave(struct umbra_child *child, int status)
{
    if (um_seat.thread && um_forked()) {
        child->status = status;
        um_process_end(child);
    }
    if (um_seat.thread) { /* the child goes on until its own code ends, and then has this status */
        /* relaxed: the child waits for the thread's end (um_threads_await()) before it looks */
        atomic_store_explicit(&child->left, status | 1 << 16, memory_order_relaxed);
        pthread_exit(NULL);
    }
    child->status = status;
    um_image_leave(child->saved);
}
