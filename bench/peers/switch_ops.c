/* SPDX-License-Identifier: BSL-1.0 */
/* Rows whose arg is a struct switch_way. See peers.h. */
#include "peers.h"

static int switch_open(struct bench_row *row)
{
    const struct switch_way *way = row->arg;

    return way->open != NULL ? way->open() : 0;
}

static int switch_run(struct bench_row *row, struct bench_batch *batch)
{
    const struct switch_way *way = row->arg;
    struct turns turns = {.each = batch->iterations};
    int error = way->run(&turns);

    batch->ns = turns.ns;
    batch->verified = turns.disorder == 0 ? turns.taken[0] + turns.taken[1] : 0;
    return error;
}

static void switch_close(struct bench_row *row)
{
    const struct switch_way *way = row->arg;

    if (way->close != NULL)
        way->close();
}

const struct bench_ops switch_ops = {
    .open = switch_open,
    .run = switch_run,
    .close = switch_close,
};
