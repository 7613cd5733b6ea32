/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Compression by c-blosc2 on its own threads and on a team (blosc2_team.h): checks both, and prints
 * what a megabyte takes.
 */
#include "beside.h"
#include "blosc2_team.h"

#include <stdbool.h>

#include <blosc2.h>

#define THREADS 2
#define NUMBERS (1 << 18)
#define BYTES ((int32_t)(NUMBERS * sizeof(int32_t)))

const char program_name[] = "blosc2";

/* One of the two. A context is used with the threads that it was made for. */
struct user {
    struct blosc2_team *team; /* NULL: the library's own threads */
    blosc2_context *in, *out;
};

static int32_t numbers[NUMBERS], again[NUMBERS];
static char packed[sizeof(numbers) + BLOSC2_MAX_OVERHEAD];

static void enter(void *arg)
{
    const struct user *user = arg;

    blosc2_set_threads_callback(user->team ? blosc2_team_run : NULL, user->team);
}

static void compress(void *arg)
{
    blosc2_compress_ctx(((struct user *)arg)->in, numbers, BYTES, packed, sizeof(packed));
}

static void decompress(void *arg)
{
    blosc2_decompress_ctx(((struct user *)arg)->out, packed, sizeof(packed), again, BYTES);
}

/* True if the user can compress, and gets the same numbers back. */
static bool open_user(struct user *user)
{
    blosc2_cparams in = BLOSC2_CPARAMS_DEFAULTS;
    blosc2_dparams out = BLOSC2_DPARAMS_DEFAULTS;

    in.typesize = sizeof(numbers[0]);
    in.nthreads = out.nthreads = THREADS;
    enter(user);
    user->in = blosc2_create_cctx(in);
    user->out = blosc2_create_dctx(out);
    memset(again, 0, sizeof(again));
    if (!user->in || !user->out)
        return false;
    compress(user);
    decompress(user);
    return memcmp(numbers, again, sizeof(numbers)) == 0;
}

static void close_user(struct user *user)
{
    enter(user);
    blosc2_free_ctx(user->in);
    blosc2_free_ctx(user->out);
}

int main(void)
{
    struct blosc2_team threads;
    struct user own = {0}, team = {.team = &threads};
    int error = blosc2_team_open(&threads, THREADS);

    if (error) {
        fprintf(stderr, "blosc2: no team: %s\n", error_text(error));
        return 1;
    }
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = i / 3 + i % 7;
    blosc2_init();
    if (!open_user(&own) || !open_user(&team)) {
        fprintf(stderr, "blosc2: what was compressed is not what comes back\n");
        return 1;
    }
    beside("compress 1 MB", &(struct side){enter, compress, &own},
           &(struct side){enter, compress, &team});
    beside("decompress 1 MB", &(struct side){enter, decompress, &own},
           &(struct side){enter, decompress, &team});
    close_user(&own);
    close_user(&team);
    blosc2_destroy();
    umbra_team_destroy(threads.team);
    return printed(0);
}
