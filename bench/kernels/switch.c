/* SPDX-License-Identifier: BSL-1.0 */
/*
 * From one user-level thread to another of the same processor: by name, or by yielding to whoever
 * is next. Two sides take turns; a sample is one switch, next to a bare jump_fcontext.
 */
#define _GNU_SOURCE
#include "boost_context.h"
#include "harness.h"
#include "peers.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <ucontext.h>

#define ROUNDS 1001
#define ROUNDS_QUICK 101

/* ---- bare contexts: the caller and one more ---- */

static _Alignas(4096) char stack[BENCH_STACK_BYTES]; /* of the second side */

/* Inlined: a return after the jump would be mispredicted, and the limit is the jump alone. */
static inline __attribute__((always_inline)) void leave_fcontext(void *other)
{
    fcontext *to = other;

    *to = jump_fcontext(*to, NULL).from;
}

static struct turns *entered; /* what the second side works on, read when it starts */

static void second_fcontext(struct fcontext_transfer transfer)
{
    fcontext first = transfer.from;

    turns_second(entered, leave_fcontext, &first);
    jump_fcontext(first, NULL);
}

static int run_fcontext(struct turns *turns)
{
    fcontext second = make_fcontext(stack + sizeof stack, sizeof stack, second_fcontext);

    entered = turns;
    turns_first(turns, leave_fcontext, &second);
    return 0;
}

static const struct switch_way boost_context_turns = {.run = run_fcontext};

/* The jump and next to nothing else: each side counts its own turns. */
static void second_fcontext_bare(struct fcontext_transfer transfer)
{
    struct turns *turns = entered;

    for (;;) {
        turns->taken[1]++;
        transfer = jump_fcontext(transfer.from, NULL);
    }
}

static int run_fcontext_bare(struct turns *turns)
{
    struct fcontext_transfer second = {
        make_fcontext(stack + sizeof stack, sizeof stack, second_fcontext_bare), NULL};
    uint64_t begin = bench_now_ns();

    entered = turns;
    for (uint64_t i = 0; i < turns->each; i++) {
        turns->taken[0]++;
        second = jump_fcontext(second.from, NULL);
    }
    turns->ns = bench_now_ns() - begin;
    return 0;
}

static const struct switch_way boost_context_bare = {.run = run_fcontext_bare};

static ucontext_t sides[2];

static void leave_first(void *unused)
{
    (void)unused;
    swapcontext(&sides[0], &sides[1]);
}

static void leave_second(void *unused)
{
    (void)unused;
    swapcontext(&sides[1], &sides[0]);
}

static void second_ucontext(void)
{
    turns_second(entered, leave_second, NULL);
}

static int run_ucontext(struct turns *turns)
{
    if (getcontext(&sides[1]) != 0)
        return -errno;
    sides[1].uc_stack.ss_sp = stack;
    sides[1].uc_stack.ss_size = sizeof stack;
    sides[1].uc_link = &sides[0];
    makecontext(&sides[1], second_ucontext, 0);
    entered = turns;
    turns_first(turns, leave_first, NULL);
    return 0;
}

static const struct switch_way ucontext_switch = {.run = run_ucontext};

/* ---- two threads on one processor ---- */

static atomic_uint whose_turn;

static void await_turn(unsigned side)
{
    /* acquire: pairs with the release in pass_turn */
    while (atomic_load_explicit(&whose_turn, memory_order_acquire) != side)
        sched_yield();
}

static void pass_turn(unsigned side)
{
    /* release: the turns; pairs with the acquire in await_turn */
    atomic_store_explicit(&whose_turn, !side, memory_order_release);
    await_turn(side);
}

static void leave_first_thread(void *unused)
{
    (void)unused;
    pass_turn(0);
}

static void leave_second_thread(void *unused)
{
    (void)unused;
    pass_turn(1);
}

static void *second_thread(void *turns)
{
    await_turn(1);
    turns_second(turns, leave_second_thread, NULL);
    return NULL;
}

static int run_threads(struct turns *turns)
{
    pthread_t second;
    int error;

    atomic_store_explicit(&whose_turn, 0, memory_order_relaxed); /* no other thread yet */
    error = bench_thread(&second, sched_getcpu(), second_thread, turns);
    if (error != 0)
        return error;
    turns_first(turns, leave_first_thread, NULL);
    /* release: turns->ns; lets the other thread's last await_turn end */
    atomic_store_explicit(&whose_turn, 1, memory_order_release);
    pthread_join(second, NULL);
    return 0;
}

static const struct switch_way pthread_switch = {.run = run_threads};

/* ---- rows ---- */

static struct bench_row *limit; /* the best of the bare jumps in a round */

static struct bench_row *add(struct bench *bench, const char *name, const struct switch_way *way,
                             const char *timed)
{
    struct bench_row *row = bench_add_peer(bench, name, &switch_ops, way);

    row->parts = 2;
    row->limit = limit;
    bench_state_timed(row, timed);
    return row;
}

static int declare(struct bench *bench)
{
    limit = bench_add(bench, "boost-context", NULL, NULL);
    add(bench, "boost-context-bare", &boost_context_bare, "jump_fcontext")->part_of = limit;
    add(bench, "boost-context-turns", &boost_context_turns, "jump_fcontext, order checked")
        ->part_of = limit;
    add(bench, "umbra-transfer", &umbra_transfer_switch, "umbra_transfer");
    add(bench, "umbra-yield", &umbra_yield_switch, "umbra_yield of two fibers");
    add(bench, "boost-fiber", &boost_fiber_switch, "this_fiber::yield of two fibers");
    add(bench, "argobots-transfer", &argobots_transfer, "ABT_self_resume_suspend_to");
    add(bench, "argobots-yield", &argobots_yield, "ABT_self_yield of two threads");
    add(bench, "photon-yield-to", &photon_yield_to, "thread_yield_to");
    add(bench, "photon-yield", &photon_yield, "thread_yield of two threads");
    add(bench, "qthreads-yield", &qthreads_yield, "qthread_yield of two threads");
    add(bench, "ucontext", &ucontext_switch, "swapcontext");
    add(bench, "pthread-yield", &pthread_switch, "sched_yield until it is the other's turn");
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "switch",
    .about = "from one user-level thread to another of the same processor",
    .cpus = 1,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
