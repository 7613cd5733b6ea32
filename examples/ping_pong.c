/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Direct control transfer: two fibers of one core play ping-pong by naming each other, without a
 * scheduler in between (Karasik and Prihozhy, 2020, Figure 3); then the same by yielding.
 *
 *     ping_pong [RALLIES]
 *
 * Exit status: 0; 1 something failed; 2 bad argument.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/core.h>

struct game {
    unsigned long rallies;
    unsigned long played; /* by the other side */
    struct umbra_fiber ping, pong;
    int error;
};

/* Each side stops while the other has the ball. When pong returns, its core goes on with ping,
 * which was made ready before. */
static void *pong(void *arg)
{
    struct game *game = arg;

    for (game->played = 1; game->played < game->rallies; game->played++)
        game->error |= umbra_transfer(game->ping);
    umbra_continue(game->ping);
    return NULL;
}

static void *ping(void *arg)
{
    struct game *game = arg;
    uint64_t start;

    game->ping = umbra_self();
    game->error = umbra_spawn(pong, game, &game->pong);
    if (game->error)
        return NULL;
    start = umbra_now_ns();
    for (unsigned long i = 0; i < game->rallies; i++)
        game->error |= umbra_transfer(game->pong);
    printf("transfer: %.2f ns each\n",
           (double)(umbra_now_ns() - start) / 2 / (double)game->rallies);
    game->error |= umbra_join(game->pong, UMBRA_NEVER, NULL);
    return NULL;
}

static void *yielder(void *arg)
{
    for (unsigned long i = 0; i < ((struct game *)arg)->rallies; i++)
        umbra_yield();
    return NULL;
}

static void *two_yielders(void *arg)
{
    struct game *game = arg;
    struct umbra_fiber other;
    uint64_t start;

    game->error |= umbra_spawn(yielder, game, &other);
    start = umbra_now_ns();
    yielder(game);
    printf("yield:    %.2f ns each\n",
           (double)(umbra_now_ns() - start) / 2 / (double)game->rallies);
    game->error |= umbra_join(other, UMBRA_NEVER, NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    struct umbra_options one_core = {.cores = 1};
    struct game game = {.rallies = 1000000};
    char *end = "";
    int error;

    if (argc > 1)
        game.rallies = strtoul(argv[1], &end, 10);
    if (*end || game.rallies < 1 || game.rallies > 1000000000) {
        fprintf(stderr, "ping_pong: not a number of rallies, 1 to 1000000000: '%s'\n", argv[1]);
        return 2;
    }
    if (argc > 2) {
        fprintf(stderr, "ping_pong: unknown argument: '%s'\n", argv[2]);
        return 2;
    }
    error = umbra_run(&one_core, ping, &game);
    if (!error)
        error = umbra_run(&one_core, two_yielders, &game);
    if (error)
        fprintf(stderr, "ping_pong: %s\n", umbra_last_error_text());
    else if (game.error)
        fprintf(stderr, "ping_pong: %s\n", strerror(-game.error));
    return error || game.error || game.played != game.rallies ? 1 : 0;
}
