/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A ring of records that one thread writes and never waits for. Private. It is in a file that the
 * writer has mapped, and other processes read it at the same time, or when the writer has been
 * killed. The oldest records are overwritten: a reader finds out which records it has lost, and
 * never takes a record that is half old and half new.
 *
 * Each record has a number, from 0 on, and UM_RECORD_WORDS words in place number % records. `head`
 * is how many there have been.
 *
 *   writer   R1  writes the words of record h              release
 *            R2  sets head to h + 1                        release
 *   reader   R3  reads head: records below it are there    acquire
 *            R4  reads the words of record i < head        acquire
 *            R5  reads head again: keeps the copy if head - i < records
 *
 * Why a kept copy is whole. A word of record i is overwritten by that of record i + records (or a
 * later one), in R1. The writer set head to i + records before that, in R2 of the record before. If
 * the reader has seen the newer word in R4, R1 and R4 synchronise, and R5 finds at least
 * i + records. So the place that the writer may just be writing counts as lost, and a ring holds
 * one record less than it has places.
 */
#ifndef UMBRA_FIBER_TRACE_RING_H
#define UMBRA_FIBER_TRACE_RING_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif
#endif

#define UM_RECORD_WORDS 4

/* Readers in other processes know the layout (tools/umbra-trace). UM_RECORD_WORDS words for each
 * place follow; the writer. */
struct um_records {
    um_atomic_u64 head; /* how many records there have been; the writer */
    uint64_t last;      /* the first word of the last place; places are a power of two; fixed */
    uint64_t spare[6];  /* the words begin a cache line */
};

/* The words of a record. `last` serves as a mask: the two low bits of both numbers are 0. */
UM_INLINE um_atomic_u64 *um_records_place(struct um_records *ring, uint64_t number)
{
    return (um_atomic_u64 *)(ring + 1) + (number * UM_RECORD_WORDS & ring->last);
}

/* Adds a record. The writer. */
UM_INLINE void um_records_add(struct um_records *ring, uint64_t w0, uint64_t w1, uint64_t w2,
                              uint64_t w3)
{
    uint64_t head = um_atomic_load(&ring->head, relaxed); /* the writer's own */
    um_atomic_u64 *word = um_records_place(ring, head);

    um_atomic_store(word, w0, release); /* R1, all four: after the last R2; pairs with R4 */
    um_atomic_store(word + 1, w1, release);
    um_atomic_store(word + 2, w2, release);
    um_atomic_store(word + 3, w3, release);
    um_atomic_store(&ring->head, head + 1, release); /* R2; pairs with R3 and R5 */
}

/* How many records there have been. Any thread. This and the next function are what readers in other
 * processes do, written out for the model checker. */
UM_INLINE uint64_t um_records_head(struct um_records *ring)
{
    return um_atomic_load(&ring->head, acquire); /* R3; pairs with R2 */
}

/* Copies a record with a number below the head. False: it was overwritten, perhaps just now. Any
 * thread. */
UM_INLINE bool um_records_get(struct um_records *ring, uint64_t number,
                              uint64_t words[UM_RECORD_WORDS])
{
    um_atomic_u64 *word = um_records_place(ring, number);

    for (int i = 0; i < UM_RECORD_WORDS; i++)
        words[i] = um_atomic_load(word + i, acquire); /* R4; pairs with R1 */
    /* R5. relaxed: R4 orders it */
    return um_atomic_load(&ring->head, relaxed) - number <= ring->last / UM_RECORD_WORDS;
}

#endif
