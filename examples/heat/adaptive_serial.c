/* SPDX-License-Identifier: BSL-1.0 */
/* The steps of an adaptive body on one processor. */
#include "adaptive_ways.h"

#include <errno.h>
#include <stdlib.h>

#define LINE 64

/* Gives how many tasks it was, or a negative errno. */
static long serial_step(struct adaptive *adaptive, size_t step, void *scratch)
{
    long tasks = 0;

    for (size_t number = 0; number < adaptive->blocks.all; number++) {
        struct row rows[4];
        int count, error = adaptive_block(adaptive, step, number, rows, &count);

        if (error)
            return error;
        for (int r = 0; r < count; r++)
            for (size_t piece = rows[r].begin; piece < rows[r].end; piece++, tasks++)
                adaptive_piece(adaptive, step, piece, scratch);
    }
    for (size_t number = 0; number < adaptive->blocks.all; number++)
        adaptive_mend(adaptive, step, number);
    return tasks + 2 * (long)adaptive->blocks.all;
}

int adaptive_serial(struct adaptive_run *run)
{
    struct adaptive *adaptive = run->adaptive;
    void *scratch = aligned_alloc(LINE, adaptive_scratch_bytes(adaptive));
    long tasks = scratch ? 0 : -ENOMEM;

    run->tasks = run->fine = (struct range){.least = SIZE_MAX};
    for (size_t step = 0; step < run->steps && tasks >= 0; step++) {
        tasks = serial_step(adaptive, step, scratch);
        range_add(&run->tasks, (size_t)tasks);
        range_add(&run->fine, adaptive_fine_blocks(adaptive, step + 1));
    }
    free(scratch);
    return tasks < 0 ? (int)tasks : 0;
}
