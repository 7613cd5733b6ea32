/* SPDX-License-Identifier: BSL-1.0 */
/* Linked with --wrap for malloc, so that it can be made to fail. */
#include <runner.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/memcpy.h>

#define GUARD 192       /* bytes before and after, where nothing may be written */
#define MOST (3u << 20) /* bytes of the largest copy */
#define OLD 0xa5        /* what is there before */
#define LINE 64u        /* of alignments that are tried */
#define SLEEP_NS 10000000000u

static bool refuse_memory;

void *__real_malloc(size_t);
void *__wrap_malloc(size_t size)
{
    return refuse_memory ? NULL : __real_malloc(size);
}

/* ---- what the tests share ---- */

static unsigned char source[MOST + LINE];
static unsigned char target[MOST + LINE + 2 * GUARD];
static struct umbra_topology *topology;
static struct umbra_shadow shadow;

/* Two hardware threads that nothing is bound to: runs on any machine. */
static void create(enum umbra_wait_mode mode)
{
    struct umbra_topology_options two = {.synthetic = "core:1 pu:2"};
    struct umbra_shadow_options options = {.wait.mode = mode};

    for (size_t i = 0; i < sizeof(source); i++)
        source[i] = (unsigned char)(i * 2654435761u >> 13);
    cr_assert_eq(umbra_topology_create(&two, &topology), 0);
    options.topology = topology;
    cr_assert_eq(shadow_create(&shadow, &options), 0);
}

static void destroy(void)
{
    cr_assert_eq(shadow_destroy(&shadow), 0);
    umbra_topology_destroy(topology);
}

static bool is_old(const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != OLD)
            return false;
    return true;
}

/* Copies, and checks every byte and those around; what shadow_memcpy returned. */
static bool copies(size_t n, size_t to_at, size_t from_at, const struct umbra_memcpy_limits *limits)
{
    unsigned char *to = target + GUARD + to_at;
    bool shared;

    memset(target, OLD, GUARD + to_at + n + GUARD);
    shared = shadow_memcpy(&shadow, to, source + from_at, n, limits);
    cr_assert(is_old(target, GUARD + to_at));
    cr_assert_eq(memcmp(to, source + from_at, n), 0);
    cr_assert(is_old(to + n, GUARD));
    return shared;
}

/* Five sizes around n, at alignments that differ. */
static void copies_around(size_t n, const struct umbra_memcpy_limits *limits)
{
    static const size_t at[][2] = {{0, 0}, {1, 0}, {0, 1}, {63, 63}, {33, 7}, {16, 48}};

    for (size_t size = n < 2 ? 0 : n - 2; size <= n + 2; size++)
        for (size_t a = 0; a < sizeof(at) / sizeof(at[0]); a++)
            cr_assert_eq(copies(size, at[a][0], at[a][1], limits), size >= limits->awake_bytes);
}

static void wait_until_asleep(void)
{
    uint64_t patience = umbra_deadline(SLEEP_NS);

    while (!um_copy_asleep(&shadow) && umbra_now_ns() < patience)
        sched_yield();
    cr_assert(um_copy_asleep(&shadow));
}

/* ---- copies ---- */

Test(memcpy, copies_all_and_nothing_else_around_every_boundary)
{
    static const struct umbra_memcpy_limits all[] = {{65536, 65536, 16384, NULL},
                                                     {128, 128, 64, NULL},
                                                     {4096, 4096, 1024, NULL},
                                                     {8192, 8192, 4095, NULL}};

    create(UMBRA_WAIT_SPIN);
    for (size_t l = 0; l < sizeof(all) / sizeof(all[0]); l++) {
        copies_around(0, &all[l]);
        copies_around(all[l].awake_bytes, &all[l]);
        for (size_t blocks = 1; blocks <= 5; blocks++)
            copies_around(blocks * all[l].block_bytes, &all[l]);
        copies_around((UM_COPY_BLOCKS_MOST - 1) * all[l].block_bytes, &all[l]);
        copies_around(UM_COPY_BLOCKS_MOST * all[l].block_bytes, &all[l]);
        copies_around((UM_COPY_BLOCKS_MOST + 1) * all[l].block_bytes, &all[l]);
    }
    destroy();
}

Test(memcpy, copies_every_small_size_by_blocks_of_one_line)
{
    static const struct umbra_memcpy_limits limits = {0, 0, 1, NULL};

    create(UMBRA_WAIT_SPIN);
    for (size_t n = 0; n < 1200; n++)
        cr_assert_eq(copies(n, n % LINE, n / 3 % LINE, &limits), n >= 2 * UMBRA_CACHE_LINE);
    destroy();
}

Test(memcpy, copies_large_blocks_of_any_size)
{
    create(UMBRA_WAIT_SPIN);
    for (size_t n = MOST - 40; n <= MOST; n += 13)
        cr_assert(copies(n, n % LINE, n / 3 % LINE, NULL));
    destroy();
}

Test(memcpy, zero_bytes_write_nothing)
{
    static const struct umbra_memcpy_limits always = {0, 0, 0, NULL};

    create(UMBRA_WAIT_SPIN);
    cr_assert_not(copies(0, 0, 0, NULL));
    cr_assert_not(copies(0, 1, 2, &always));
    destroy();
}

Test(memcpy, the_default_limits_count_without_others)
{
    create(UMBRA_WAIT_SPIN);
    cr_assert_not(copies(UMBRA_MEMCPY_AWAKE_BYTES - 1, 0, 0, NULL));
    cr_assert(copies(UMBRA_MEMCPY_AWAKE_BYTES, 0, 0, NULL));
    destroy();
}

Test(memcpy, works_in_every_wait_mode)
{
    static const struct umbra_memcpy_limits limits = {1024, 1024, 512, NULL};

    for (int mode = UMBRA_WAIT_TWO_PHASE; mode <= UMBRA_WAIT_PARK; mode++) {
        create((enum umbra_wait_mode)mode);
        for (size_t n = 1024; n < 1324; n++)
            cr_assert(copies(n, 3, 5, &limits));
        destroy();
    }
}

/* ---- without the shadow ---- */

Test(memcpy, a_sleeping_shadow_is_woken_for_large_copies_only)
{
    static const struct umbra_memcpy_limits limits = {1024, 65536, 512, NULL};
    uint64_t woken;

    create(UMBRA_WAIT_PARK);
    wait_until_asleep();
    woken = umbra_waiter_stats(&shadow.helper_waiter).ended[UMBRA_ENDED_PARK];
    cr_assert_not(copies(65535, 0, 0, &limits));
    cr_assert(um_copy_asleep(&shadow));
    cr_assert_eq(umbra_waiter_stats(&shadow.helper_waiter).ended[UMBRA_ENDED_PARK], woken);
    cr_assert(copies(65536, 0, 0, &limits));
    cr_assert_eq(umbra_waiter_stats(&shadow.helper_waiter).ended[UMBRA_ENDED_PARK], woken + 1);
    destroy();
}

static _Atomic int gate;

static void until_gate_opens(void *arg)
{
    (void)arg;
    while (!atomic_load(&gate))
        sched_yield();
}

Test(memcpy, a_busy_shadow_is_not_waited_for)
{
    create(UMBRA_WAIT_SPIN);
    cr_assert_eq(shadow_fork(&shadow, until_gate_opens, NULL), 0);
    cr_assert_not(copies(MOST, 1, 2, NULL));
    cr_assert_not(um_shadow_done(&shadow));
    atomic_store(&gate, 1);
    cr_assert_eq(shadow_join(&shadow), 0);
    cr_assert(copies(MOST, 1, 2, NULL));
    destroy();
}

Test(memcpy, no_shadow_or_a_destroyed_one_is_memcpy)
{
    create(UMBRA_WAIT_SPIN);
    destroy();
    cr_assert_not(copies(MOST, 1, 2, NULL));
    memset(target, OLD, MOST);
    cr_assert_not(shadow_memcpy(NULL, target, source, MOST, NULL));
    cr_assert_eq(memcmp(target, source, MOST), 0);
}

static void *copy_elsewhere(void *arg)
{
    struct umbra_memcpy_limits limits = {1, 2, 3, NULL};

    (void)arg;
    cr_assert_not(copies(MOST, 0, 0, NULL));
    cr_assert_eq(umbra_memcpy_calibrate(&shadow, &limits), -EPERM);
    cr_assert_eq(limits.awake_bytes + limits.asleep_bytes + limits.block_bytes, 6);
    return NULL;
}

Test(memcpy, in_another_thread_it_is_memcpy)
{
    pthread_t other;

    create(UMBRA_WAIT_SPIN);
    cr_assert_eq(pthread_create(&other, NULL, copy_elsewhere, NULL), 0);
    pthread_join(other, NULL);
    destroy();
}

/* ---- by a choice ---- */

/* Asks for so many ways, and says how long each took; how often the second was chosen. */
static unsigned chosen(struct um_faster *choice, unsigned pieces, uint64_t first, uint64_t second)
{
    unsigned seconds = 0;

    for (unsigned i = 0; i < pieces; i++) {
        enum um_faster_way way = um_faster_next(choice);

        seconds += way == UM_FASTER_SECOND;
        um_faster_hear(choice, way, way == UM_FASTER_SECOND ? second : first);
    }
    return seconds;
}

Test(memcpy, the_first_way_is_kept_while_it_is_not_slower)
{
    struct um_faster choice = {0};

    cr_assert_eq(chosen(&choice, UM_FASTER_EVERY, 1000, 1000), 6); /* 1, 2, 4, 8, 16, 32 */
    cr_assert_eq(chosen(&choice, 100 * UM_FASTER_EVERY, 1000, 1000), 100);
    cr_assert_not(choice.second);
}

Test(memcpy, a_first_way_that_is_slower_is_left_at_once_and_tried_now_and_then)
{
    struct um_faster choice = {0};

    chosen(&choice, UM_FASTER_EVERY, 1010, 1000);
    cr_assert(choice.second);
    cr_assert_eq(chosen(&choice, 100 * UM_FASTER_EVERY, 1010, 1000), 100 * UM_FASTER_EVERY - 100);
}

Test(memcpy, there_is_no_verdict_before_three_paces_of_each_way)
{
    struct um_faster choice = {0};

    chosen(&choice, 5, 5000, 1000); /* the second way at 1, 2 and 4 */
    cr_assert_not(choice.second);
    chosen(&choice, 1, 5000, 1000);
    cr_assert(choice.second);
}

Test(memcpy, one_interruption_overturns_no_verdict)
{
    struct um_faster choice = {0};

    chosen(&choice, 10 * UM_FASTER_EVERY, 550, 1000);
    um_faster_hear(&choice, UM_FASTER_FIRST, 1000000);
    um_faster_hear(&choice, UM_FASTER_FIRST, 1000000);
    cr_assert_not(choice.second);
    for (int i = 0; i < 10; i++)
        um_faster_hear(&choice, UM_FASTER_FIRST, 1000000);
    cr_assert(choice.second);
}

Test(memcpy, a_way_that_got_slow_and_fast_again_is_left_and_taken_again)
{
    struct um_faster choice = {0};

    chosen(&choice, 1000, 600, 1000);
    cr_assert_not(choice.second);
    chosen(&choice, 50, 2400, 1000);
    cr_assert(choice.second);
    chosen(&choice, 2000, 600, 1000);
    cr_assert_not(choice.second);
}

Test(memcpy, a_way_that_was_left_is_taken_again_only_for_a_tenth)
{
    struct um_faster choice = {0};

    chosen(&choice, 1000, 1100, 1000);
    cr_assert(choice.second);
    chosen(&choice, 10000, 920, 1000);
    cr_assert(choice.second);
    chosen(&choice, 10000, 880, 1000);
    cr_assert_not(choice.second);
}

Test(memcpy, a_judge_leaves_the_shadow_out_and_tries_it_again)
{
    struct umbra_memcpy_choice choice = {0};
    struct umbra_memcpy_limits limits = {1024, 1024, 512, &choice};
    struct um_faster slow = {
        {1000, 1}, {UM_FASTER_WEIGHT, UM_FASTER_WEIGHT}, UM_FASTER_EVERY + 1, true};

    create(UMBRA_WAIT_SPIN);
    choice.size[12] = slow;
    cr_assert(copies(4095, 1, 2, &limits));     /* of another choice, which knows nothing */
    cr_assert_not(copies(4096, 1, 2, &limits)); /* of this one */
    choice.size[12] = slow;
    cr_assert_not(copies(8191, 1, 2, &limits));
    choice.size[12].asked = UM_FASTER_EVERY;
    cr_assert(copies(5000, 1, 2, &limits));
    cr_assert_eq(choice.size[12].asked, UM_FASTER_EVERY + 1);
    cr_assert_eq(choice.size[11].asked, 1);
    destroy();
}

Test(memcpy, a_judge_is_not_asked_where_there_is_no_choice)
{
    static const struct umbra_memcpy_choice untouched;
    struct umbra_memcpy_choice choice = {0};
    struct umbra_memcpy_limits limits = {1024, 65536, 512, &choice};

    create(UMBRA_WAIT_PARK);
    wait_until_asleep();
    cr_assert_not(copies(1023, 0, 0, &limits));
    cr_assert_not(copies(65535, 0, 0, &limits));
    destroy();
    cr_assert_not(copies(65536, 0, 0, &limits));
    cr_assert_eq(memcmp(&choice, &untouched, sizeof(choice)), 0);
}

/* ---- calibration ---- */

static void calibrate_and_use(enum umbra_wait_mode mode)
{
    struct umbra_memcpy_limits limits;

    create(mode);
    cr_assert_eq(umbra_memcpy_calibrate(&shadow, &limits), 0);
    cr_assert_geq(limits.awake_bytes, 4096);
    cr_assert_geq(limits.asleep_bytes, limits.awake_bytes);
    cr_assert_geq(limits.awake_bytes / 2, limits.block_bytes);
    cr_assert_gt(limits.block_bytes, 0);
    cr_assert_null(limits.choice);
    if (mode == UMBRA_WAIT_SPIN)
        cr_assert_eq(limits.asleep_bytes, limits.awake_bytes);
    if (limits.awake_bytes < MOST) {
        copies(limits.awake_bytes - 1, 0, 0, &limits);
        copies(limits.awake_bytes, 0, 0, &limits);
    }
    cr_assert_not(copies(limits.awake_bytes < MOST ? limits.awake_bytes - 1 : MOST, 0, 0, &limits));
    destroy();
}

Test(memcpy, limits_are_measured_in_every_wait_mode)
{
    for (int mode = UMBRA_WAIT_TWO_PHASE; mode <= UMBRA_WAIT_PARK; mode++)
        calibrate_and_use((enum umbra_wait_mode)mode);
}

/* Whether both win when alone takes 1000 and both take `often`, but for n that take `seldom`. */
static bool wins(uint64_t often, uint64_t seldom, int n)
{
    uint64_t alone[UM_COPY_TRIALS], both[UM_COPY_TRIALS];

    for (int i = 0; i < UM_COPY_TRIALS; i++) {
        alone[i] = 1000;
        both[i] = i < n ? seldom : often;
    }
    return um_copy_wins(alone, both);
}

Test(memcpy, both_win_by_a_ninth_in_three_of_four_trials)
{
    cr_assert(wins(900, 0, 0));
    cr_assert_not(wins(901, 0, 0));
    cr_assert_not(wins(1000, 0, 0));
    cr_assert(wins(500, 1000000, UM_COPY_TRIALS / 4));
    cr_assert_not(wins(500, 901, UM_COPY_TRIALS / 4 + 1));
}

Test(memcpy, trials_are_compared_in_pairs)
{
    uint64_t alone[UM_COPY_TRIALS], both[UM_COPY_TRIALS];

    for (int i = 0; i < UM_COPY_TRIALS; i++) { /* the machine slows down by half every time */
        alone[i] = (uint64_t)1000 << i;
        both[i] = (uint64_t)800 << i;
    }
    cr_assert(um_copy_wins(alone, both));
}

Test(memcpy, a_shadow_that_never_wins_is_never_asked)
{
    static const struct umbra_memcpy_limits never = {SIZE_MAX, SIZE_MAX, 16384, NULL};

    create(UMBRA_WAIT_SPIN);
    cr_assert_not(copies(MOST, 0, 0, &never));
    destroy();
}

Test(memcpy, limits_that_cannot_be_measured_are_left_alone)
{
    struct umbra_memcpy_limits limits = {1, 2, 3, NULL};

    create(UMBRA_WAIT_SPIN);
    refuse_memory = true;
    cr_assert_eq(umbra_memcpy_calibrate(&shadow, &limits), -ENOMEM);
    refuse_memory = false;
    cr_assert_eq(shadow_fork(&shadow, until_gate_opens, NULL), 0);
    cr_assert_eq(umbra_memcpy_calibrate(&shadow, &limits), -EBUSY);
    atomic_store(&gate, 1);
    cr_assert_eq(shadow_join(&shadow), 0);
    destroy();
    cr_assert_eq(umbra_memcpy_calibrate(&shadow, &limits), -ESRCH);
    cr_assert_eq(limits.awake_bytes + limits.asleep_bytes + limits.block_bytes, 6);
}
