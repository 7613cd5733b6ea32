/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A stage of a pipeline with many workers, and with results in the order of the input. Each
 * piece goes into two channels: "work", from which any worker takes it, and "order", from which the
 * reader takes it and then waits for its event. So the reader gets the first piece first, whichever
 * is done first, and what is under way is bounded by the channel's capacity.
 *
 *     ordered [PIECES [WORKERS]]
 *
 * Exit status: 0; 1 something failed; 2 bad argument.
 */
#include <stdio.h>
#include <stdlib.h>

#include <umbra.h>

#define UNDER_WAY 32          /* pieces between feeder and reader */
#define SLOTS (UNDER_WAY + 2) /* and one in the hands of each */
#define WORKERS_MOST 1000

struct piece {
    struct umbra_event done;
    unsigned long number; /* the input */
    unsigned long steps;  /* the result */
};

typedef UMBRA_CHANNEL(struct piece *) piece_channel;

struct stage {
    piece_channel work;  /* to any worker */
    piece_channel order; /* to the reader */
    struct piece slot[SLOTS];
    unsigned long pieces, workers, wrong;
};

/* How many steps from a number to 1 (Collatz): no two take as long. */
static unsigned long steps_from(unsigned long number)
{
    unsigned long steps = 0;

    for (; number > 1; steps++)
        number = number % 2 ? 3 * number + 1 : number / 2;
    return steps;
}

static void *works(void *arg)
{
    struct stage *stage = arg;

    for (struct piece *piece; UMBRA_CHANNEL_POP(&stage->work, &piece, UMBRA_NEVER) == 0;) {
        piece->steps = steps_from(piece->number);
        umbra_event_signal(&piece->done);
    }
    return NULL;
}

static void *feeds(void *arg)
{
    struct stage *stage = arg;

    for (unsigned long i = 0; i < stage->pieces; i++) {
        struct piece *piece = &stage->slot[i % SLOTS];

        piece->number = i + 1;
        UMBRA_CHANNEL_PUSH(&stage->order, &piece,
                           UMBRA_NEVER); /* waits while too many are under way */
        UMBRA_CHANNEL_PUSH(&stage->work, &piece, UMBRA_NEVER);
    }
    UMBRA_CHANNEL_CLOSE(&stage->work);
    UMBRA_CHANNEL_CLOSE(&stage->order);
    return NULL;
}

static void reads(struct stage *stage)
{
    unsigned long next = 1;

    for (struct piece *piece; UMBRA_CHANNEL_POP(&stage->order, &piece, UMBRA_NEVER) == 0; next++) {
        umbra_event_wait(&piece->done, UMBRA_NEVER);
        stage->wrong += piece->number != next || piece->steps != steps_from(next);
    }
    stage->wrong += next != stage->pieces + 1;
}

static void *run(void *arg)
{
    struct stage *stage = arg;
    struct umbra_spawn_options anywhere = {.where = UMBRA_ANYWHERE};
    struct umbra_fiber fiber[WORKERS_MOST + 1];
    unsigned long spawned = 0;

    while (spawned < stage->workers &&
           umbra_spawn_with(NULL, &anywhere, works, stage, &fiber[spawned]) == 0)
        spawned++;
    if (spawned > 0 && umbra_spawn(feeds, stage, &fiber[spawned]) == 0) {
        spawned++;
        reads(stage);
    } else {
        stage->wrong = 1;
        UMBRA_CHANNEL_CLOSE(&stage->work);
    }
    while (spawned > 0)
        umbra_join(fiber[--spawned], UMBRA_NEVER, NULL);
    return NULL;
}

static bool parse(const char *text, unsigned long most, unsigned long *number)
{
    char *end;

    *number = strtoul(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == 0 && *number >= 1 && *number <= most)
        return true;
    fprintf(stderr, "ordered: not a number from 1 to %lu: '%s'\n", most, text);
    return false;
}

int main(int argc, char **argv)
{
    static struct stage stage = {.pieces = 100000, .workers = 8};
    int error;

    if (argc > 3) {
        fprintf(stderr, "ordered: unknown argument: '%s'\n", argv[3]);
        return 2;
    }
    if ((argc > 1 && !parse(argv[1], 100000000, &stage.pieces)) ||
        (argc > 2 && !parse(argv[2], WORKERS_MOST, &stage.workers)))
        return 2;
    error = UMBRA_CHANNEL_OPEN(&stage.work, UNDER_WAY, UMBRA_CHANNEL_MANY);
    if (error == 0 && (error = UMBRA_CHANNEL_OPEN(&stage.order, UNDER_WAY, UMBRA_CHANNEL_ONE)) == 0)
        error = umbra_run(NULL, run, &stage);
    if (error)
        fprintf(stderr, "ordered: %s\n", umbra_last_error_text());
    else
        printf("%lu pieces, %lu workers, %lu out of order\n", stage.pieces, stage.workers,
               stage.wrong);
    umbra_channel_fini(&stage.work.channel);
    umbra_channel_fini(&stage.order.channel);
    return error || stage.wrong ? 1 : 0;
}
