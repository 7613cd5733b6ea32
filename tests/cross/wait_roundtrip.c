/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Two threads pass a count to and fro in every way to wait that executes here, in 32 and 64 bits.
 * For processors that are only emulated: it shows that the instructions are legal and that no
 * wake-up is lost. Emulators wait in few of them, so times mean nothing.
 *
 * Prints one line a way; exits with 1 when one of them got a wrong count or timed out.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <umbra/wait.h>

enum { ROUNDS = 200 };
static const uint64_t timeout_ns = 60000000000;

/* One direction: the word, alone on its line, and who waits on it. */
struct direction {
    UM_ALIGNED(UMBRA_CACHE_LINE) _Atomic uint64_t wide;
    UM_ALIGNED(UMBRA_CACHE_LINE) _Atomic uint32_t narrow;
    struct umbra_waiter waiter;
};

struct table {
    struct direction there;
    struct direction back;
    uint64_t deadline;
};

/* The 32-bit word carries odd rounds, the 64-bit word even ones; both count in high bits too. */
static uint64_t token(uint64_t round)
{
    return round % 2 ? round | 0x80000000u : round << 32;
}

static void send(struct direction *to, uint64_t round)
{
    if (round % 2)
        umbra_signal(&to->narrow, (uint32_t)token(round), &to->waiter);
    else
        umbra_signal(&to->wide, token(round), &to->waiter);
}

static int receive(struct direction *from, uint64_t round, uint64_t deadline)
{
    if (round % 2)
        return umbra_wait_until_equal(&from->waiter, &from->narrow, (uint32_t)token(round),
                                      UINT32_MAX, deadline);
    return umbra_wait_until_equal(&from->waiter, &from->wide, token(round), UINT64_MAX, deadline);
}

static void *partner(void *argument)
{
    struct table *table = argument;

    for (uint64_t round = 1; round <= ROUNDS; round++) {
        if (receive(&table->there, round, table->deadline) < 0)
            break;
        send(&table->back, round);
    }
    return NULL;
}

/* How many rounds came back. */
static uint64_t play(const struct umbra_wait_policy *policy, struct umbra_wait_stats *stats)
{
    static struct table table;
    pthread_t thread;
    uint64_t round;

    table = (struct table){.deadline = umbra_deadline(timeout_ns)};
    table.there.waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(policy);
    table.back.waiter = (struct umbra_waiter)UMBRA_WAITER_INIT(policy);
    if (pthread_create(&thread, NULL, partner, &table) != 0)
        return 0;
    for (round = 1; round <= ROUNDS; round++) {
        send(&table.there, round);
        if (receive(&table.back, round, table.deadline) < 0)
            break;
    }
    pthread_join(thread, NULL);
    *stats = umbra_waiter_stats(&table.back.waiter);
    return round - 1;
}

static int try_way(const char *name, const char *backend, const struct umbra_wait_policy *policy)
{
    struct umbra_wait_stats stats = {0};
    uint64_t rounds = play(policy, &stats);
    bool passed = rounds == ROUNDS;

    printf("%-4s %-9s %-10s %llu rounds; ended by spin %llu, monitor %llu, park %llu\n",
           passed ? "ok" : "FAIL", name, backend, (unsigned long long)rounds,
           (unsigned long long)stats.ended[UMBRA_ENDED_SPIN],
           (unsigned long long)stats.ended[UMBRA_ENDED_MONITOR],
           (unsigned long long)stats.ended[UMBRA_ENDED_PARK]);
    return passed ? 0 : 1;
}

/* One wait whose deadline is ahead: when it has passed, some instructions are skipped. */
static void wait_once(enum umbra_wait_backend backend)
{
    um_atomic_u32 word = 0;

    um_arch_arm_load32(backend, &word);
    um_arch_monitor_wait(backend, um_cycles_after(1000000), false);
}

/* Whether a child process survives that. Emulators execute more than they announce. */
static bool executes(enum umbra_wait_backend backend)
{
    int status = 1;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        wait_once(backend);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* The back end is put into a ready policy, because the library refuses what nobody vouches for. */
static int try_backend(enum umbra_wait_backend backend)
{
    static const enum umbra_wait_mode modes[] = {UMBRA_WAIT_TWO_PHASE, UMBRA_WAIT_MONITOR};
    static const char *const names[] = {"two-phase", "monitor"};
    const char *name = um_backend_name(backend);
    int failed = 0;

    if (!(um_arch_compiled_backends() >> backend & 1))
        return 0;
    if (!executes(backend)) {
        printf("     %s does not execute here\n", name);
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        struct umbra_wait_options options = {.mode = modes[i], .backend = "pause"};
        struct umbra_wait_policy policy;

        failed |= umbra_wait_policy_init(&policy, &options);
        policy.backend = backend;
        failed |= try_way(names[i], name, &policy);
    }
    return failed;
}

static int try_mode(const char *name, enum umbra_wait_mode mode)
{
    struct umbra_wait_options options = {.mode = mode};
    struct umbra_wait_policy policy;

    if (umbra_wait_policy_init(&policy, &options) != 0)
        return 1;
    return try_way(name, "auto", &policy);
}

static void print_report(const struct um_wait_report *report)
{
    printf("     time stamp %llu Hz, automatic choice %s\n",
           (unsigned long long)um_ns_to_cycles(1000000000), report->backend[report->chosen].name);
    for (unsigned i = 0; i < UMBRA_BACKEND_COUNT; i++)
        if (report->backend[i].compiled)
            printf("     %s: %s\n", report->backend[i].name, report->backend[i].reason);
}

int main(void)
{
    int failed = 0;

    print_report(um_wait_report());
    for (unsigned i = 0; i < UMBRA_BACKEND_COUNT; i++)
        failed |= try_backend((enum umbra_wait_backend)i);
    failed |= try_mode("spin", UMBRA_WAIT_SPIN);
    failed |= try_mode("park", UMBRA_WAIT_PARK);
    failed |= try_mode("two-phase", UMBRA_WAIT_TWO_PHASE);
    return failed;
}
