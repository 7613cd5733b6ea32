/* SPDX-License-Identifier: BSL-1.0 */
/* See ping_pong.h. */
#include "ping_pong.h"

#include <stdatomic.h>
#include <string.h>

#include <umbra/cpu.h>
#include <umbra/wait/gap.h>

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
    uint32_t gap;                                          /* between two looks: wait/gap.h */
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
            um_gap_pass(way.gap, reply);
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
            um_gap_pass(way.gap, &pair->there);
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

/* A gap, over one line, by an exchange, and over two lines; without and with a request for the line
 * to write. */
#define GAP(name, gap)                                                                             \
    VARIANT(name, gap, store_plain, false)                                                         \
    VARIANT(name##_write, (gap) | UMBRA_GAP_WRITE, store_plain, false)                             \
    VARIANT(exchange_##name, gap, store_exchange, false)                                           \
    VARIANT(exchange_##name##_write, (gap) | UMBRA_GAP_WRITE, store_exchange, false)               \
    VARIANT(two_##name, gap, store_plain, true)                                                    \
    VARIANT(two_##name##_write, (gap) | UMBRA_GAP_WRITE, store_plain, true)

GAP(none, UMBRA_GAP_NONE)
GAP(pause, UMBRA_GAP_PAUSE)
GAP(pauses, UMBRA_GAP_PAUSES)
GAP(fence, UMBRA_GAP_FENCE)
GAP(clock, UMBRA_GAP_CLOCK)

#define ROW(name, suffix)                                                                          \
    {                                                                                              \
        "ping-pong-" suffix, call_##name, answer_##name                                            \
    }
#define ROWS(kind, name, suffix) ROW(kind##name, suffix), ROW(kind##name##_write, suffix "-write")

static const struct ping_pong_variant one_line[] = {
    ROWS(, none, "none"),
    ROWS(, pause, "pause"),
    ROWS(, pauses, "pauses"),
    ROWS(, fence, "fence"),
    ROWS(, clock, "clock"),
    ROWS(exchange_, none, "exchange-none"),
    ROWS(exchange_, pause, "exchange-pause"),
    ROWS(exchange_, pauses, "exchange-pauses"),
    ROWS(exchange_, fence, "exchange-fence"),
    ROWS(exchange_, clock, "exchange-clock"),
};

static const struct ping_pong_variant two_lines[] = {
    ROWS(two_, none, "two-lines-none"),     ROWS(two_, pause, "two-lines-pause"),
    ROWS(two_, pauses, "two-lines-pauses"), ROWS(two_, fence, "two-lines-fence"),
    ROWS(two_, clock, "two-lines-clock"),
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

/* Adds variants, of which the best in each round counts for `whole`, and between the
 * same processors. */
static void add_variants(struct bench *bench, struct bench_row *whole,
                         const struct ping_pong_variant *variants, size_t count, bool hidden)
{
    for (size_t i = 0; i < count; i++) {
        struct bench_row *row = bench_add(bench, variants[i].name, &ping_pong_ops, &variants[i]);

        row->limit = whole;
        row->part_of = whole;
        row->hidden = hidden;
        memcpy(row->cpus, whole->cpus, sizeof row->cpus);
    }
}

#define COUNT(variants) (sizeof(variants) / sizeof(variants)[0])

struct bench_row *ping_pong_add(struct bench *bench)
{
    struct bench_row *limit = bench_add(bench, "ping-pong", NULL, NULL);

    add_variants(bench, limit, one_line, COUNT(one_line), false);
    return limit;
}

struct bench_row *ping_pong_add_two_lines(struct bench *bench, struct bench_row *limit)
{
    struct bench_row *row = bench_add(bench, "ping-pong-two-lines", NULL, NULL);

    row->limit = limit;
    add_variants(bench, row, two_lines, COUNT(two_lines), true);
    return row;
}

struct bench_row *ping_pong_add_between(struct bench *bench, int from, int to)
{
    struct bench_row *limit = bench_add(bench, "ping-pong", NULL, NULL);

    bench_place(limit, from, to);
    add_variants(bench, limit, one_line, COUNT(one_line), true);
    return limit;
}
