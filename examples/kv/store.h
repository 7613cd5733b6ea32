/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The store: records in memory, which only are read here. A short request gives the checksum of one
 * record, as a store computes it before it sends an answer; a long one gives the sum of the checksums
 * of STORE_SCAN records. So a long request is STORE_SCAN times a short one, and has a place for a safe
 * point after each record.
 */
#ifndef EXAMPLES_KV_STORE_H
#define EXAMPLES_KV_STORE_H

#include <stddef.h>
#include <stdint.h>

#define STORE_RECORDS 256 /* keys are 0 to this, less one */
#define STORE_SCAN 100

/* Makes the records, so long that a short request takes about get_ns here. 0 or -ENOMEM. */
int store_open(uint64_t get_ns);
void store_close(void);

/* How long a short request takes, ns: the shortest of several. */
double store_get_ns(void);

uint64_t store_get(unsigned key);

/* From this key on; after the last key comes the first. point: called after each record. */
uint64_t store_scan(unsigned key, void (*point)(void));

/* The right answers, from what store_open has written. */
uint64_t store_right(unsigned key, unsigned records);

#endif
