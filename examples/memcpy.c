/* SPDX-License-Identifier: BSL-1.0 */
/*
 * memcpy with the help of a shadow: a buffer, or a file mapped into memory, is copied piece by
 * piece, by turns by memcpy and by shadow_memcpy; then again with the turns exchanged, so that
 * either way copies every piece. All of it is compared with what was copied, and the medians of
 * both ways are printed with their ratio.
 *
 * The shadow helps from a size on that is measured first. It wins most where the pieces are in no
 * cache: so the buffer is several times as large as one unless its size is given.
 *
 *     memcpy [--kib N] [--mib N | FILE]
 *
 * Exit status: 0; 1 wrong copy or no memory; 2 bad argument; 77 no second hardware thread.
 */
#define _GNU_SOURCE
#include "options.h"
#include "with_shadow.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <umbra/memcpy.h>

const char program_name[] = "memcpy";

#define CACHE_MULTIPLE 4 /* size of the buffer in last-level caches, unless given */

struct options {
    size_t kib;       /* a piece */
    size_t mib;       /* of the buffer; 0: CACHE_MULTIPLE times the last-level cache */
    const char *file; /* to be copied instead, or NULL */
};

/* What is copied, and how long the pieces took each way. */
struct work {
    const char *from;
    char *to;
    size_t bytes, piece;
    double *ns[2]; /* alone, with the shadow */
    size_t count;  /* of each */
};

/* ---- copying ---- */

/* All pieces once, every other one with the shadow, the first one if turn is 1. */
static void copy_all(struct work *work, unsigned turn, struct umbra_shadow *shadow,
                     const struct umbra_memcpy_limits *limits)
{
    size_t at = 0;

    for (; work->bytes - at >= work->piece; at += work->piece, turn ^= 1) {
        uint64_t start = umbra_now_ns();

        if (turn)
            shadow_memcpy(shadow, work->to + at, work->from + at, work->piece, limits);
        else
            memcpy(work->to + at, work->from + at, work->piece);
        work->ns[turn][at / work->piece] = (double)(umbra_now_ns() - start);
    }
    shadow_memcpy(shadow, work->to + at, work->from + at, work->bytes - at, limits);
}

static void print_limit(const char *what, size_t bytes)
{
    if (bytes == SIZE_MAX)
        printf("%s never", what);
    else
        printf("%s %zu KiB", what, bytes / KIB);
}

static void print_medians(const struct work *work)
{
    double alone = median(work->ns[0], work->count);
    double both = median(work->ns[1], work->count);

    printf("memcpy        %10.1f us %7.2f GB/s\n", alone / 1e3, (double)work->piece / alone);
    printf("shadow_memcpy %10.1f us %7.2f GB/s, %.2f times as fast\n", both / 1e3,
           (double)work->piece / both, alone / both);
}

/* Both passes; an exit status. */
static int measure(struct work *work, struct umbra_shadow *shadow)
{
    struct umbra_shadow_info info = shadow->info;
    struct umbra_memcpy_choice choice = {0};
    struct umbra_memcpy_limits limits;
    int error = umbra_memcpy_calibrate(shadow, &limits);

    if (error) {
        fprintf(stderr, "memcpy: cannot measure the limits: %s\n", strerror(-error));
        return 1;
    }
    limits.choice = &choice; /* the machine may get other work meanwhile */
    printf("%zu MiB in pieces of %zu KiB; owner on cpu %d, shadow on cpu %d, nearest shared: %s\n",
           work->bytes / MIB, work->piece / KIB, info.owner_cpu, info.shadow_cpu,
           umbra_topology_shared_name(info.shared));
    print_limit("the shadow helps from", limits.awake_bytes);
    print_limit(", and is woken up for that from", limits.asleep_bytes);
    puts("\n");
    for (unsigned turn = 0; turn < 2; turn++) {
        memset(work->to, 0x55, work->bytes); /* which also faults its pages in */
        copy_all(work, turn, shadow, &limits);
        if (memcmp(work->to, work->from, work->bytes) != 0) {
            fprintf(stderr, "memcpy: the copy differs\n");
            return 1;
        }
    }
    print_medians(work);
    return 0;
}

/* ---- what is copied ---- */

/* Maps the file; an exit status. */
static int map_file(struct work *work, const char *name)
{
    int file = open(name, O_RDONLY | O_CLOEXEC);
    struct stat is;
    void *from = MAP_FAILED;

    if (file >= 0 && fstat(file, &is) == 0 && (size_t)is.st_size >= 2 * work->piece) {
        work->bytes = (size_t)is.st_size;
        from = mmap(NULL, work->bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    } else if (file >= 0) {
        close(file);
        fprintf(stderr, "memcpy: no file of at least two pieces: '%s'\n", name);
        return 2;
    }
    if (from == MAP_FAILED)
        fprintf(stderr, "memcpy: cannot map '%s': %s\n", name, strerror(errno));
    if (file >= 0)
        close(file);
    work->from = from;
    return from == MAP_FAILED ? 2 : 0;
}

/* Makes a buffer of numbers; an exit status. */
static int make_buffer(struct work *work)
{
    uint64_t *words = aligned_alloc(UMBRA_CACHE_LINE, work->bytes);

    if (!words) {
        fprintf(stderr, "memcpy: no memory for %zu MiB\n", work->bytes / MIB);
        return 1;
    }
    for (size_t i = 0; i < work->bytes / sizeof(words[0]); i++)
        words[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    work->from = (const char *)words;
    return 0;
}

/* With what is copied in place; an exit status. */
static int copy(struct work *work, struct umbra_shadow *shadow)
{
    size_t pieces = work->bytes / work->piece;
    int status = 1;

    work->to = malloc(work->bytes);
    work->ns[0] = calloc(pieces, sizeof(double));
    work->ns[1] = calloc(pieces, sizeof(double));
    work->count = pieces;
    if (work->to && work->ns[0] && work->ns[1])
        status = measure(work, shadow);
    else
        fprintf(stderr, "memcpy: no memory for %zu MiB\n", work->bytes / MIB);
    free(work->ns[0]);
    free(work->ns[1]);
    free(work->to);
    return status;
}

static int run(struct umbra_shadow *shadow, const struct umbra_topology *topology,
               const void *given)
{
    const struct options *options = given;
    size_t cache = last_level_cache(topology, shadow->info.owner_cpu);
    struct work work = {.piece = options->kib * KIB};
    int status;

    work.bytes = options->mib ? options->mib * MIB : CACHE_MULTIPLE * cache / MIB * MIB;
    if (work.bytes < 2 * work.piece)
        work.bytes = 2 * work.piece;
    status = options->file ? map_file(&work, options->file) : make_buffer(&work);
    if (status == 0)
        status = copy(&work, shadow);
    else
        return status;
    if (options->file)
        munmap((void *)work.from, work.bytes);
    else
        free((void *)work.from);
    return status;
}

/* ---- options ---- */

static void read_options(int argc, char **argv, struct options *options)
{
    const struct option_row rows[] = {
        {"--kib", "N", "size of a piece (default: 1024)",
         .number = {&options->kib, 1, 1024 * 1024}},
        {"--mib", "N",
         "size of the buffer (default: 4 times the last-level cache, which is also\n"
         "what it takes for the pieces to be in no cache)",
         .number = {&options->mib, 1, 1024 * 1024}},
        {"FILE", NULL, "copy what is in this file, mapped into memory, instead of a buffer",
         .text = &options->file},
        {.name = NULL},
    };
    const struct options_table table = {
        .usage = "memcpy: copy memory piece by piece, with and without the help of a shadow\n\n",
        .column = 13,
        .surplus = "unknown argument",
        .see_help = true,
        .rows = rows,
    };

    options_read(&table, argc, argv);
    if (options->file && options->mib)
        refuse(options->file, "a file has its own size, without --mib");
}

int main(int argc, char **argv)
{
    struct options options = {.kib = 1024};

    read_options(argc, argv, &options);
    return with_shadow(run, &options);
}
