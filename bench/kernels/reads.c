/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Reads of 4 KiB from a file that the page cache has, by so many fibers of one core:
 *
 *   pread        the system's call as it is, which would stop the core if a page were missing
 *   umbra-pool   umbra_io_read (umbra/io.h), and helper threads for what is missing
 *   umbra-uring  the same, and the core's io_uring for what is missing
 */
#define _GNU_SOURCE
#include "in_fiber.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <umbra/io.h>

#define BLOCK 4096
#define BLOCKS 1024
#define FIBERS_MOST 64

struct reads {
    const char *way; /* of umbra/io.h; NULL: pread(2) */
    unsigned fibers;
    struct umbra_runtime *runtime;
    int fd;
    struct bench_batch *batch;
    uint64_t next; /* which is read next; each fiber takes one after the other */
};

static void *reader(void *arg)
{
    struct reads *reads = arg;
    char block[BLOCK];

    while (reads->next < reads->batch->iterations) {
        uint64_t number = reads->next++ % BLOCKS;
        size_t got = 0;

        if (reads->way)
            umbra_io_read(reads->fd, block, BLOCK, number * BLOCK, UMBRA_NEVER, &got);
        else
            got = (size_t)pread(reads->fd, block, BLOCK, (off_t)number * BLOCK);
        if (got == BLOCK && block[0] == (char)number && block[BLOCK - 1] == (char)(number / 256))
            reads->batch->verified++;
    }
    return NULL;
}

static void *run_readers(void *arg)
{
    struct reads *reads = arg;
    struct umbra_fiber fiber[FIBERS_MOST];
    uint64_t begin = bench_now_ns();

    reads->next = 0;
    for (unsigned i = 0; i < reads->fibers; i++)
        if (umbra_spawn(reader, reads, &fiber[i]) != 0)
            abort();
    for (unsigned i = 0; i < reads->fibers; i++)
        umbra_join(fiber[i], UMBRA_NEVER, NULL);
    reads->batch->ns = bench_now_ns() - begin;
    return NULL;
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    struct reads *reads = row->state;

    reads->batch = batch;
    return in_fiber(reads->runtime, run_readers, reads);
}

/* A block's first byte and its last are its number. The descriptor, or a negative errno. */
static int file_of_blocks(void)
{
    static char bytes[BLOCKS][BLOCK];
    char path[] = "/tmp/umbra-reads-XXXXXX";
    int fd = mkstemp(path);

    for (int number = 0; number < BLOCKS; number++)
        bytes[number][0] = (char)number, bytes[number][BLOCK - 1] = (char)(number / 256);
    if (fd < 0 || unlink(path) != 0 || write(fd, bytes, sizeof bytes) != sizeof bytes)
        return -errno;
    return fd;
}

static int open_row(struct bench_row *row)
{
    struct reads *reads = row->state;

#ifndef UMBRA_URING
    if (reads->way && strcmp(reads->way, "uring") == 0)
        return bench_refuse(row, -ENOSYS, "built without liburing");
#endif
    reads->fd = file_of_blocks();
    return reads->fd < 0 ? reads->fd : 0;
}

static int start(struct bench_row *row)
{
    struct reads *reads = row->state;

    setenv("UMBRA_IO", reads->way ? reads->way : "", 1);
    return in_fiber_cores(row->bench, 1, &reads->runtime);
}

static void stop(struct bench_row *row)
{
    umbra_runtime_destroy(((struct reads *)row->state)->runtime);
}

static const struct bench_ops ops = {.open = open_row, .start = start, .run = run, .stop = stop};

static int declare(struct bench *bench)
{
    static const char *const names[] = {"pread", "umbra-pool", "umbra-uring"};
    static struct reads cases[] = {{.fibers = 1},
                                   {.way = "pool", .fibers = 1},
                                   {.way = "uring", .fibers = 1},
                                   {.fibers = FIBERS_MOST},
                                   {.way = "pool", .fibers = FIBERS_MOST},
                                   {.way = "uring", .fibers = FIBERS_MOST}};
    struct bench_row *limit = NULL;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench_row *row = bench_add(bench, names[i % 3], &ops, NULL);

        row->state = &cases[i];
        json_object_set_new(row->params, "fibers", json_integer(cases[i].fibers));
        if (cases[i].way)
            row->limit = limit;
        else
            limit = row;
    }
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "reads",
    .about = "4 KiB from the page cache: umbra/io.h beside pread(2)",
    .cpus = 1,
    .rounds = 101,
    .rounds_quick = 31,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
