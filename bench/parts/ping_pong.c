/* SPDX-License-Identifier: BSL-1.0 */
/* See ping_pong.h. */
#include "ping_pong.h"

#include <stdatomic.h>

#include <umbra/cpu.h>

#define STOP 0u         /* in `there`: the partner ends */
#define NOTHING_SENT 2u /* in both, before the first message */

struct ping_pong {
    /* Caller to partner: odd numbers. With one line also the way back: even numbers. */
    _Alignas(BENCH_LINES_ALIGN) _Atomic uint32_t there;
    /* Partner to caller, with two lines. */
    _Alignas(BENCH_LINES_ALIGN) _Atomic uint32_t back;
    /* How often the partner answered; it writes, the caller reads after an answer. */
    _Alignas(BENCH_LINES_ALIGN) uint64_t answered;
    _Alignas(BENCH_LINES_ALIGN) uint32_t sent; /* the caller's last odd number */
    pthread_t partner;                         /* of this turn */
};

_Static_assert(sizeof(struct ping_pong) <= BENCH_LINES_BYTES, "fits the harness's lines");

struct ping_pong_variant {
    const char *name;                                          /* contender */
    void (*call)(struct ping_pong *pair, uint64_t iterations); /* the caller's loop */
    void *(*answer)(void *pair);                               /* the partner's, until STOP */
};

static inline void gap_none(void)
{
}

/* release: pairs with the acquire on the other side, as a real hand-over would need */
static inline void store_plain(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

/* seq_cst: on x86-64 an exchange, which waits for the line instead of leaving that to a buffer */
static inline void store_exchange(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_seq_cst);
}

/* What makes a variant; constant wherever it is used, so that each becomes its own tight loop. */
struct way {
    void (*gap)(void);                                     /* between two looks */
    void (*store)(_Atomic uint32_t *word, uint32_t value); /* of a message */
    bool two_lines;                                        /* one each way, not one for both */
};

static inline __attribute__((always_inline)) void call(struct ping_pong *pair, uint64_t iterations,
                                                       const struct way way)
{
    _Atomic uint32_t *reply = way.two_lines ? &pair->back : &pair->there;
    uint32_t sent = pair->sent;

    for (uint64_t i = 0; i < iterations; i++) {
        sent += 2;
        way.store(&pair->there, sent);
        /* acquire: pairs with the store in answer(), so that `answered` can be read */
        while (atomic_load_explicit(reply, memory_order_acquire) != sent + 1)
            way.gap();
    }
    pair->sent = sent;
}

static inline __attribute__((always_inline)) void answer(struct ping_pong *pair,
                                                         const struct way way)
{
    _Atomic uint32_t *reply = way.two_lines ? &pair->back : &pair->there;
    uint32_t seen = NOTHING_SENT;

    for (;;) {
        uint32_t now;

        /* acquire: pairs with the store in call() */
        while ((now = atomic_load_explicit(&pair->there, memory_order_acquire)) == seen)
            way.gap();
        if (now == STOP)
            return;
        pair->answered++;
        seen = way.two_lines ? now : now + 1;
        way.store(reply, now + 1);
    }
}

#define VARIANT(name, gap, store, two_lines)                                                       \
    static void call_##name(struct ping_pong *pair, uint64_t iterations)                           \
    {                                                                                              \
        call(pair, iterations, (struct way){gap, store, two_lines});                               \
    }                                                                                              \
    static void *answer_##name(void *pair)                                                         \
    {                                                                                              \
        answer(pair, (struct way){gap, store, two_lines});                                         \
        return NULL;                                                                               \
    }

VARIANT(one_line, um_arch_pause, store_plain, false)
VARIANT(one_line_no_pause, gap_none, store_plain, false)
VARIANT(one_line_fenced, um_arch_relax, store_plain, false)
VARIANT(one_line_exchange, um_arch_relax, store_exchange, false)
VARIANT(two_lines, um_arch_pause, store_plain, true)
VARIANT(two_lines_no_pause, gap_none, store_plain, true)

static const struct ping_pong_variant variants[] = {
    {"ping-pong-one-line", call_one_line, answer_one_line},
    {"ping-pong-one-line-no-pause", call_one_line_no_pause, answer_one_line_no_pause},
    {"ping-pong-one-line-fenced", call_one_line_fenced, answer_one_line_fenced},
    {"ping-pong-one-line-exchange", call_one_line_exchange, answer_one_line_exchange},
    {"ping-pong-two-lines", call_two_lines, answer_two_lines},
    {"ping-pong-two-lines-no-pause", call_two_lines_no_pause, answer_two_lines_no_pause},
};

static int ping_pong_start(struct bench_row *row)
{
    const struct ping_pong_variant *variant = row->arg;
    struct ping_pong *pair = bench_lines(row->bench);

    row->state = pair;
    pair->sent = NOTHING_SENT - 1;
    pair->answered = 0;
    atomic_init(&pair->there, NOTHING_SENT);
    atomic_init(&pair->back, NOTHING_SENT);
    return bench_thread(&pair->partner, row->cpus[1], variant->answer, pair);
}

static int ping_pong_run(struct bench_row *row, struct bench_batch *batch)
{
    const struct ping_pong_variant *variant = row->arg;
    struct ping_pong *pair = row->state;
    uint64_t before = pair->answered;
    uint64_t begin = bench_now_ns();

    variant->call(pair, batch->iterations);
    batch->ns = bench_now_ns() - begin;
    batch->verified = pair->answered - before;
    return 0;
}

static void ping_pong_stop(struct bench_row *row)
{
    struct ping_pong *pair = row->state;

    atomic_store_explicit(&pair->there, STOP, memory_order_release);
    pthread_join(pair->partner, NULL);
}

static const struct bench_ops ping_pong_ops = {
    .start = ping_pong_start,
    .run = ping_pong_run,
    .stop = ping_pong_stop,
};

static struct bench_row *add_variant(struct bench *bench, const struct ping_pong_variant *variant,
                                     struct bench_row *limit)
{
    struct bench_row *row = bench_add(bench, variant->name, &ping_pong_ops, variant);

    row->limit = limit;
    row->part_of = limit;
    return row;
}

struct bench_row *ping_pong_add(struct bench *bench)
{
    struct bench_row *limit = bench_add(bench, "ping-pong", NULL, NULL);

    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
        add_variant(bench, &variants[i], limit);
    return limit;
}

struct bench_row *ping_pong_add_between(struct bench *bench, int from, int to)
{
    struct bench_row *limit = bench_add(bench, "ping-pong", NULL, NULL);

    bench_place(limit, from, to);
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        struct bench_row *row = add_variant(bench, &variants[i], limit);

        bench_place(row, from, to);
        row->hidden = true;
    }
    return limit;
}
