/* SPDX-License-Identifier: BSL-1.0 */
/* See store.h. */
#include "store.h"

#include <errno.h>
#include <stdlib.h>

#include <umbra/cpu.h>

#define BYTES_MOST 65536 /* of a record */
#define BYTES_TRIED 4096 /* the time of their checksum tells how long a record must be */
#define TRIES 200
#define IN_A_TRY 100

static unsigned char *records; /* BYTES_MOST apart */
static uint64_t right[STORE_RECORDS];
static size_t bytes; /* of each */

/* FNV-1a, by Fowler, Noll and Vo. */
static uint64_t checksum(const unsigned char *record, size_t length)
{
    uint64_t sum = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < length; i++)
        sum = (sum ^ record[i]) * UINT64_C(1099511628211);
    return sum;
}

uint64_t store_get(unsigned key)
{
    return checksum(records + (size_t)key * BYTES_MOST, bytes);
}

uint64_t store_scan(unsigned key, void (*point)(void))
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < STORE_SCAN; i++) {
        sum += store_get((key + i) % STORE_RECORDS);
        point();
    }
    return sum;
}

uint64_t store_right(unsigned key, unsigned count)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < count; i++)
        sum += right[(key + i) % STORE_RECORDS];
    return sum;
}

double store_get_ns(void)
{
    uint64_t least = UINT64_MAX;
    volatile uint64_t used;

    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t begin = umbra_now_ns();
        uint64_t took;

        for (unsigned k = 0; k < IN_A_TRY; k++)
            used = store_get((i + k) % STORE_RECORDS);
        took = umbra_now_ns() - begin;
        if (took < least)
            least = took;
    }
    (void)used;
    return (double)least / IN_A_TRY;
}

int store_open(uint64_t get_ns)
{
    double wanted;

    records = malloc((size_t)STORE_RECORDS * BYTES_MOST);
    if (!records)
        return -ENOMEM;
    for (size_t i = 0; i < (size_t)STORE_RECORDS * BYTES_MOST; i++)
        records[i] = (unsigned char)(i * 31 + i / BYTES_MOST);
    bytes = BYTES_TRIED;
    wanted = BYTES_TRIED * (double)get_ns / store_get_ns();
    bytes = wanted > BYTES_MOST ? BYTES_MOST : wanted < 1 ? 1 : (size_t)wanted;
    for (unsigned key = 0; key < STORE_RECORDS; key++)
        right[key] = checksum(records + (size_t)key * BYTES_MOST, bytes);
    return 0;
}

void store_close(void)
{
    free(records);
}
