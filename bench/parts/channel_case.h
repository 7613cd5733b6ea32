/* SPDX-License-Identifier: BSL-1.0 */
/* The streams of the kernel `channel`: one side sends 0, 1, ... to the other. C and C++. */
#ifndef UMBRA_BENCH_CHANNEL_CASE_H
#define UMBRA_BENCH_CHANNEL_CASE_H

#include "ledger.h"

#define STREAM_PLACES 1024 /* of a bounded queue */

struct stream {
    uint64_t items;
    struct ledger ledger; /* of the receiving side */
    uint64_t end_ns;      /* when that had all */
    uint64_t ns;          /* from the first until then */
};

/* What a child process is told to measure: a sum of these. */
#define CHANNEL_ONE 1u /* a queue for one on each side; else for any number */
#define CHANNEL_TWO 2u /* the receiving side is on the second processor */

#endif
