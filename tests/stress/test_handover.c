/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Random hand-overs under random thresholds, delays and deadlines. The seed is printed; give it
 * back in UMBRA_SEED. UMBRA_STRESS_MS sets the length of each test (default 1000). A lost wake-up
 * shows as a wait beyond PATIENCE_NS, which is reported as such.
 */
#define _GNU_SOURCE
#include "random_run.h"

#include <runner.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/shadow.h>

#define PATIENCE_NS UINT64_C(20000000000)

/* Mostly nothing, sometimes up to 2^18 cycles: beyond the start of every phase. */
static void random_delay(uint64_t *random)
{
    uint64_t r = random_next(random);
    uint64_t end = um_cycles() + (r & 3 ? 0 : (UINT64_C(1) << (r >> 8 & 15) << 3));

    while (um_cycles() < end)
        umbra_pause();
}

/* Thresholds that make every phase end waits. */
static struct umbra_wait_options random_options(uint64_t *random)
{
    uint64_t r = random_next(random);

    return (struct umbra_wait_options){.mode = (enum umbra_wait_mode)(r & 3),
                                       .spin_cycles = 1 + (r >> 8 & 0x1fff),
                                       .block_cycles = 1 + (r >> 24 & 0x7fff),
                                       .polite = r >> 60 & 1};
}

/* ---- two threads that pass a sequence number back and forth ---- */

struct side {
    struct umbra_wait_policy policy;
    struct umbra_waiter waiter;
    UM_ALIGNED(UMBRA_CACHE_LINE) _Atomic uint32_t narrow; /* this side waits on one of these */
    _Atomic uint64_t wide;
    uint64_t payload; /* written by the other side before it signals */
    uint64_t random;
    struct side *other;
    uint64_t end_ns;
    uint64_t rounds;
    bool leads;
    bool use_wide;
};

#define STOP 0x7fffffffu

static uint64_t wide_of(uint32_t sequence)
{
    return (uint64_t)sequence << 32; /* the low half never changes */
}

/* One wait, cut by random deadlines into several. */
static bool await(struct side *s, uint32_t sequence)
{
    uint64_t give_up = umbra_now_ns() + PATIENCE_NS;
    int ended;

    do {
        uint64_t r = random_next(&s->random);
        uint64_t deadline = umbra_deadline(r & 7 ? PATIENCE_NS : r >> 50);

        if (s->use_wide)
            ended = umbra_wait_while_equal(&s->waiter, &s->wide, wide_of(sequence), UINT64_MAX,
                                           deadline);
        else
            ended = umbra_wait_while_equal(&s->waiter, &s->narrow, sequence, UINT32_MAX, deadline);
    } while (ended < 0 && umbra_now_ns() < give_up);
    return ended >= 0;
}

static void send(struct side *to, uint32_t sequence)
{
    to->payload = sequence;
    if (to->use_wide)
        umbra_signal(&to->wide, wide_of(sequence), &to->waiter);
    else
        umbra_signal(&to->narrow, sequence, &to->waiter);
}

static uint32_t seen(const struct side *s)
{
    return s->use_wide ? (uint32_t)(atomic_load(&s->wide) >> 32) : atomic_load(&s->narrow);
}

static void *pass_back_and_forth(void *arg)
{
    struct side *s = arg;
    uint32_t sequence = 0;

    while (sequence != STOP) {
        if (s->leads) {
            random_delay(&s->random);
            send(s->other, umbra_now_ns() > s->end_ns ? STOP : sequence + 1);
        }
        cr_assert(await(s, sequence), "lost wake-up after %u rounds", sequence);
        cr_assert_eq(s->payload, seen(s));
        cr_assert(seen(s) == sequence + 1 || seen(s) == STOP);
        sequence = seen(s);
        s->rounds++;
        if (!s->leads) {
            random_delay(&s->random);
            send(s->other, sequence);
        }
    }
    return NULL;
}

static void init_side(struct side *s, uint64_t *random, uint64_t end_ns, struct side *other)
{
    struct umbra_wait_options options = random_options(random);

    memset(s, 0, sizeof(*s));
    cr_assert_eq(umbra_wait_policy_init(&s->policy, &options), 0);
    s->waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(&s->policy);
    s->random = random_next(random);
    s->use_wide = random_next(random) & 1;
    s->other = other;
    s->end_ns = end_ns;
}

static void play(uint64_t *random, uint64_t length_ns)
{
    static struct side side[2];
    uint64_t end_ns = umbra_now_ns() + length_ns;
    pthread_t partner;

    init_side(&side[0], random, end_ns, &side[1]);
    init_side(&side[1], random, end_ns, &side[0]);
    side[0].leads = true;
    cr_assert_eq(pthread_create(&partner, NULL, pass_back_and_forth, &side[1]), 0);
    pass_back_and_forth(&side[0]);
    pthread_join(partner, NULL);
    cr_assert_eq(side[0].rounds, side[1].rounds);
}

Test(stress, no_wake_up_is_lost, .timeout = 120)
{
    uint64_t random = seed_of_run();

    for (uint64_t end = end_of_run_ns(); umbra_now_ns() < end;)
        play(&random, 30000000);
}

Test(stress, no_wake_up_is_lost_on_one_processor, .timeout = 120)
{
    uint64_t random = seed_of_run();
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one);
    for (uint64_t end = end_of_run_ns(); umbra_now_ns() < end;)
        play(&random, 30000000);
}

/* ---- shadows ---- */

struct work {
    uint64_t random;
    uint64_t count;
};

static void do_work(void *arg)
{
    struct work *work = arg;

    random_delay(&work->random);
    work->count++;
}

/* One fork, joined in one of several ways. */
static void fork_and_join(struct umbra_shadow *shadow, struct work *work, uint64_t *random)
{
    uint64_t expected = work->count + 1;
    uint64_t give_up = umbra_now_ns() + PATIENCE_NS;

    cr_assert_eq(shadow_fork(shadow, do_work, work), 0);
    random_delay(random);
    switch (random_next(random) & 3) {
    case 0:
        while (!um_shadow_done(shadow) && umbra_now_ns() < give_up)
            sched_yield();
        cr_assert_eq(shadow_join(shadow), 0);
        break;
    case 1:
        while (umbra_shadow_join_deadline(shadow, umbra_deadline(random_next(random) >> 50)) != 0)
            cr_assert_lt(umbra_now_ns(), give_up, "lost completion");
        break;
    default:
        cr_assert_eq(umbra_shadow_join_deadline(shadow, umbra_deadline(PATIENCE_NS)), 0);
    }
    cr_assert_eq(work->count, expected);
}

Test(stress, shadows_come_and_go_and_lose_no_fork, .timeout = 120)
{
    struct umbra_topology_options described = {.synthetic = "core:1 pu:3"};
    uint64_t random = seed_of_run();
    struct umbra_topology *topology;
    struct work work[2] = {{random_next(&random), 0}, {random_next(&random), 0}};

    cr_assert_eq(umbra_topology_create(&described, &topology), 0);
    for (uint64_t end = end_of_run_ns(); umbra_now_ns() < end;) {
        struct umbra_shadow shadow[2];

        for (int i = 0; i < 2; i++) {
            struct umbra_shadow_options options = {.topology = topology,
                                                   .wait = random_options(&random)};

            cr_assert_eq(shadow_create(&shadow[i], &options), 0);
        }
        for (uint64_t forks = random_next(&random) & 255; forks > 0; forks--)
            fork_and_join(&shadow[forks & 1], &work[forks & 1], &random);
        if (random_next(&random) & 1)
            shadow_fork(&shadow[0], do_work, &work[0]); /* destroy has to wait for it */
        for (int i = 0; i < 2; i++)
            cr_assert_eq(shadow_destroy(&shadow[i]), 0);
    }
    umbra_topology_destroy(topology);
}
