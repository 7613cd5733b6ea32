/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Entering a copy as the kernel enters a program: at its first instruction, with the arguments on
 * the stack. And leaving it: um_image_leave() makes um_image_enter() return, from any depth, also
 * from a signal handler that changes the interrupted registers.
 *
 *   *saved ->   control words of the floating-point units, r15 r14 r13 r12 rbx rbp, return address
 *   below it    the vector: argc, arguments, 0, environment, 0, auxiliary words; then the child
 */
#include "loader.h"

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
