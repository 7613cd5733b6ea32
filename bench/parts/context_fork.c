/* SPDX-License-Identifier: BSL-1.0 */
/* See context_fork.h. */
#define _GNU_SOURCE
#include "context_fork.h"

#include <errno.h>
#include <stdlib.h>
#include <ucontext.h>

#include "boost_context.h"

#define STACK_BYTES 65536

struct fork_state {
    ucontext_t caller; /* saved by swapcontext, resumed when the function ends */
    ucontext_t callee; /* what makecontext fills in; its stack and uc_link are set once */
    char *stack;       /* STACK_BYTES, used again by every fork */
    uint64_t counter;  /* the forked function adds */
};

static struct fork_state *current; /* makecontext passes only int */

static int fork_open(struct bench_row *row)
{
    struct fork_state *state = calloc(1, sizeof *state);

    if (state == NULL)
        return -ENOMEM;
    state->stack = aligned_alloc(4096, STACK_BYTES);
    if (state->stack == NULL || getcontext(&state->callee) != 0) {
        free(state->stack);
        free(state);
        return -ENOMEM;
    }
    state->callee.uc_stack.ss_sp = state->stack;
    state->callee.uc_stack.ss_size = STACK_BYTES;
    state->callee.uc_link = &state->caller;
    row->state = state;
    return 0;
}

static void fork_close(struct bench_row *row)
{
    struct fork_state *state = row->state;

    free(state->stack);
    free(state);
}

static void count_in_ucontext(void)
{
    current->counter++;
}

static int ucontext_run(struct bench_row *row, struct bench_batch *batch)
{
    struct fork_state *state = row->state;
    uint64_t before = state->counter;
    uint64_t begin = bench_now_ns();

    current = state;
    for (uint64_t i = 0; i < batch->iterations; i++) {
        makecontext(&state->callee, count_in_ucontext, 0);
        swapcontext(&state->caller, &state->callee);
    }
    batch->ns = bench_now_ns() - begin;
    batch->verified = state->counter - before;
    return 0;
}

const struct bench_ops ucontext_ops = {
    .open = fork_open,
    .run = ucontext_run,
    .close = fork_close,
};

static void count_in_fcontext(struct fcontext_transfer transfer)
{
    ++*(uint64_t *)transfer.data;
    jump_fcontext(transfer.from, NULL);
}

static int boost_context_run(struct bench_row *row, struct bench_batch *batch)
{
    struct fork_state *state = row->state;
    uint64_t before = state->counter;
    uint64_t begin = bench_now_ns();

    for (uint64_t i = 0; i < batch->iterations; i++)
        jump_fcontext(make_fcontext(state->stack + STACK_BYTES, STACK_BYTES, count_in_fcontext),
                      &state->counter);
    batch->ns = bench_now_ns() - begin;
    batch->verified = state->counter - before;
    return 0;
}

const struct bench_ops boost_context_ops = {
    .open = fork_open,
    .run = boost_context_run,
    .close = fork_close,
};
