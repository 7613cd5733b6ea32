/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What was received, told apart from how: each number 0, 1, 2, ... once and in this order. One side
 * enters; the other may look when that has ended.
 */
#ifndef UMBRA_BENCH_LEDGER_H
#define UMBRA_BENCH_LEDGER_H

#include <stdint.h>

struct ledger {
    uint64_t entries;
    uint64_t sum;      /* of what was entered */
    uint64_t disorder; /* not 0 once a number was not the next */
};

static inline void ledger_enter(struct ledger *ledger, uint64_t number)
{
    ledger->disorder |= ledger->entries ^ number;
    ledger->entries++;
    ledger->sum += number;
}

/* How many were entered, or 0 if they were not these. */
static inline uint64_t ledger_proves(const struct ledger *ledger)
{
    uint64_t n = ledger->entries;
    uint64_t sum = n % 2 == 0 ? n / 2 * (n - 1) : (n - 1) / 2 * n;

    return ledger->disorder == 0 && ledger->sum == sum ? n : 0;
}

#endif
