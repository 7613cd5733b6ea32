/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Streams: one side sends numbers as fast as it can, the other receives them. A sample is one number.
 *
 *   ring               a ring of values for one on each side, which both poll (the limit). On one
 *                      core it is filled and emptied in turns
 *   umbra-port         a port: a message is a struct of the sender, one of many
 *   umbra-channel      a channel of values for any number on each side
 *   umbra-channel-one  the same, with one on each side said
 *   boost-fiber        buffered_channel, a fiber on each side
 *   tmc-channel        TooManyCooks: channel, a coroutine on each side, in a process of its own
 *   tmc-channel-one    the same with qu_spsc_bounded, its queue for one on each side
 *
 * All queues have as many places, but for the port and tmc-channel, which have no bound. Then messages
 * there and back: ports.c.
 *
 * The receiving side enters what it gets in a ledger, which proves that nothing was lost, doubled or
 * out of order.
 */
#define _GNU_SOURCE
#include "child.h"
#include "in_fiber.h"
#include "peers.h"
#include "ports.h"

#include <umbra/channel.h>
#include <umbra/port.h>

#define ROUNDS 501
#define ROUNDS_QUICK 75
#define ITEMS 16384 /* in a batch; the messages of a port fit the second-level cache */
#define LINES EVENT_ALIGNED

typedef UMBRA_CHANNEL(uint64_t) number_channel;

struct number {
    struct umbra_message message;
    uint64_t value;
};

typedef UMBRA_PORT(struct number) number_port;

/* The lines that both sides touch. */
struct stretch {
    LINES struct stream stream;
    LINES number_channel channel;
    LINES number_port port;
    LINES _Atomic uint64_t put; /* of the ring */
    LINES _Atomic uint64_t got;
    LINES _Atomic bool ready; /* the receiving side has begun */
};

_Static_assert(sizeof(struct stretch) <= BENCH_LINES_BYTES, "fits the harness's lines");

static uint64_t values[STREAM_PLACES]; /* of the ring */
static struct number messages[ITEMS];

/* What tells rows apart. */
struct means {
    const char *name;
    const char *timed;
    int (*open)(struct stretch *stretch);
    void (*send)(struct stretch *stretch);    /* all items */
    void (*receive)(struct stretch *stretch); /* until all have come */
    void (*close)(struct stretch *stretch);
};

/* A row. */
struct stream_case {
    const struct means *means;
    unsigned cores;
};

/* ---- ring ---- */

static void ring_send(struct stretch *stretch)
{
    uint64_t items = stretch->stream.items; /* the other side writes to that line */
    uint64_t got = 0;

    for (uint64_t i = 0; i < items; i++) {
        while (i - got == STREAM_PLACES) {
            got = atomic_load_explicit(&stretch->got, memory_order_acquire);
            if (i - got == STREAM_PLACES)
                umbra_pause();
        }
        values[i % STREAM_PLACES] = i;
        atomic_store_explicit(&stretch->put, i + 1, memory_order_release);
    }
}

static void ring_receive(struct stretch *stretch)
{
    uint64_t items = stretch->stream.items;
    uint64_t put = 0;

    for (uint64_t i = 0; i < items; i++) {
        while (i == put) {
            put = atomic_load_explicit(&stretch->put, memory_order_acquire);
            if (i == put)
                umbra_pause();
        }
        ledger_enter(&stretch->stream.ledger, values[i % STREAM_PLACES]);
        atomic_store_explicit(&stretch->got, i + 1, memory_order_release);
    }
}

static void *ring_receives(void *arg)
{
    struct stretch *stretch = arg;

    stretch->ready = true;
    ring_receive(stretch);
    stretch->stream.end_ns = bench_now_ns();
    return NULL;
}

/* One thread fills the ring, and empties it. */
static void ring_alone(struct stretch *stretch)
{
    uint64_t items = stretch->stream.items, put = 0, got = 0;

    while (got < items) {
        while (put < items && put - got < STREAM_PLACES) {
            values[put % STREAM_PLACES] = put;
            atomic_store_explicit(&stretch->put, ++put, memory_order_release);
        }
        while (got < atomic_load_explicit(&stretch->put, memory_order_acquire)) {
            ledger_enter(&stretch->stream.ledger, values[got % STREAM_PLACES]);
            atomic_store_explicit(&stretch->got, ++got, memory_order_release);
        }
    }
}

/* ---- channels and ports ---- */

static int channel_open(struct stretch *stretch)
{
    return UMBRA_CHANNEL_OPEN(&stretch->channel, STREAM_PLACES, UMBRA_CHANNEL_MANY);
}

static int channel_open_one(struct stretch *stretch)
{
    return UMBRA_CHANNEL_OPEN(&stretch->channel, STREAM_PLACES, UMBRA_CHANNEL_ONE);
}

static void channel_send(struct stretch *stretch)
{
    uint64_t items = stretch->stream.items; /* the other side writes to that line */

    for (uint64_t i = 0; i < items; i++)
        UMBRA_CHANNEL_PUSH(&stretch->channel, &i, UMBRA_NEVER);
    UMBRA_CHANNEL_CLOSE(&stretch->channel);
}

static void channel_receive(struct stretch *stretch)
{
    uint64_t value;

    while (UMBRA_CHANNEL_POP(&stretch->channel, &value, UMBRA_NEVER) == 0)
        ledger_enter(&stretch->stream.ledger, value);
}

static void channel_close(struct stretch *stretch)
{
    UMBRA_CHANNEL_FINI(&stretch->channel);
}

static int port_open(struct stretch *stretch)
{
    UMBRA_PORT_OPEN(&stretch->port, 0);
    return 0;
}

static void port_send(struct stretch *stretch)
{
    uint64_t items = stretch->stream.items; /* the other side writes to that line */

    for (uint64_t i = 0; i < items; i++) {
        messages[i].value = i;
        UMBRA_PORT_POST(&stretch->port, &messages[i], UMBRA_NEVER);
    }
    UMBRA_PORT_CLOSE(&stretch->port);
}

static void port_receive(struct stretch *stretch)
{
    struct number *number;

    while (UMBRA_PORT_RECEIVE(&stretch->port, &number, UMBRA_NEVER) == 0)
        ledger_enter(&stretch->stream.ledger, number->value);
}

static void port_close(struct stretch *stretch)
{
    (void)stretch;
}

static const struct means by_port = {
    "umbra-port", "umbra_port_post, _receive", port_open, port_send, port_receive, port_close};
static const struct means by_channel = {"umbra-channel", "UMBRA_CHANNEL_MANY", channel_open,
                                        channel_send,    channel_receive,      channel_close};
static const struct means by_channel_one = {"umbra-channel-one", "UMBRA_CHANNEL_ONE",
                                            channel_open_one,    channel_send,
                                            channel_receive,     channel_close};

/* ---- the two sides, in fibers ---- */

struct trip {
    const struct stream_case *what;
    struct stretch *stretch;
    uint64_t ns;
    int error;
};

static void *receives(void *arg)
{
    struct trip *trip = arg;

    trip->stretch->ready = true;
    trip->what->means->receive(trip->stretch);
    trip->stretch->stream.end_ns = bench_now_ns();
    return NULL;
}

static void *sends(void *arg)
{
    struct trip *trip = arg;
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = trip->what->cores - 1};
    struct umbra_fiber fiber;
    uint64_t begin;

    trip->error = umbra_spawn_with(NULL, &there, receives, trip, &fiber);
    if (trip->error != 0)
        return NULL;
    while (!trip->stretch->ready)
        umbra_yield();
    begin = bench_now_ns();
    trip->what->means->send(trip->stretch);
    umbra_join(fiber, UMBRA_NEVER, NULL);
    trip->ns = trip->stretch->stream.end_ns - begin;
    return NULL;
}

/* ---- rows ---- */

static void stretch_init(struct stretch *stretch, const struct bench_batch *batch)
{
    stretch->stream = (struct stream){.items = batch->iterations};
    atomic_init(&stretch->put, 0);
    atomic_init(&stretch->got, 0);
    atomic_init(&stretch->ready, false);
}

static int start(struct bench_row *row)
{
    const struct stream_case *what = row->arg;

    return in_fiber_cores(row->bench, what->cores, (struct umbra_runtime **)&row->state);
}

static int run(struct bench_row *row, struct bench_batch *batch)
{
    const struct stream_case *what = row->arg;
    struct trip trip = {.what = what, .stretch = bench_lines(row->bench)};
    int error;

    stretch_init(trip.stretch, batch);
    error = what->means->open(trip.stretch);
    if (error != 0)
        return error;
    error = in_fiber(row->state, sends, &trip);
    batch->ns = trip.ns;
    batch->verified = ledger_proves(&trip.stretch->stream.ledger);
    what->means->close(trip.stretch);
    return error != 0 ? error : trip.error;
}

static void stop(struct bench_row *row)
{
    umbra_runtime_destroy(row->state);
}

static int run_ring(struct bench_row *row, struct bench_batch *batch)
{
    struct stretch *stretch = bench_lines(row->bench);
    pthread_t thread;
    uint64_t begin;
    int error;

    stretch_init(stretch, batch);
    error = bench_thread(&thread, bench_cpu(row->bench, 1), ring_receives, stretch);
    if (error != 0)
        return error;
    while (!stretch->ready)
        umbra_pause();
    begin = bench_now_ns();
    ring_send(stretch);
    pthread_join(thread, NULL);
    batch->ns = stretch->stream.end_ns - begin;
    batch->verified = ledger_proves(&stretch->stream.ledger);
    return 0;
}

static int run_ring_alone(struct bench_row *row, struct bench_batch *batch)
{
    struct stretch *stretch = bench_lines(row->bench);
    uint64_t begin;

    stretch_init(stretch, batch);
    begin = bench_now_ns();
    ring_alone(stretch);
    batch->ns = bench_now_ns() - begin;
    batch->verified = ledger_proves(&stretch->stream.ledger);
    return 0;
}

static const struct bench_ops fiber_ops = {.start = start, .run = run, .stop = stop};
static const struct bench_ops ring_ops = {.run = run_ring};
static const struct bench_ops ring_alone_ops = {.run = run_ring_alone};

static int run_peer(struct bench_row *row, struct bench_batch *batch)
{
    const struct stream_way *way = row->arg;
    struct stretch *stretch = bench_lines(row->bench);
    int error;

    stretch_init(stretch, batch);
    error = way->run(&stretch->stream, bench_cpu(row->bench, way->cores - 1));
    batch->ns = stretch->stream.ns;
    batch->verified = ledger_proves(&stretch->stream.ledger);
    return error;
}

static const struct bench_ops peer_ops = {.run = run_peer};

static void place(struct bench_row *row, unsigned cores, const char *timed, struct bench_row *limit)
{
    row->limit = limit;
    row->batch = ITEMS;
    json_object_set_new(row->params, "cores", json_integer(cores));
    bench_state_timed(row, timed);
}

static void declare_tmc(struct bench *bench, unsigned cores, struct bench_row *limit)
{
    static struct child_process *process;
    static struct child_program programs[2][2];

    for (unsigned one = 0; one < 2; one++) {
        struct child_program *program = &programs[cores - 1][one];

        *program = (struct child_program){.file = "channel-child-tmc",
                                          .problem = (one ? CHANNEL_ONE : 0) +
                                                     (cores == 2 ? CHANNEL_TWO : 0),
                                          .shared = &process};
        place(bench_add(bench, one ? "tmc-channel-one" : "tmc-channel", &child_ops, program), cores,
              one ? "qu_spsc_bounded" : "channel", limit);
    }
}

static void declare_streams(struct bench *bench, unsigned cores, const struct stream_way *boost)
{
    static const struct means *const all[] = {&by_port, &by_channel, &by_channel_one};
    static struct stream_case cases[2][3];
    struct bench_row *ring =
        bench_add(bench, "ring", cores == 2 ? &ring_ops : &ring_alone_ops, NULL);

    place(ring, cores, "a ring of values that both sides poll", NULL);
    for (int i = 0; i < 3; i++) {
        struct stream_case *what = &cases[cores - 1][i];

        *what = (struct stream_case){all[i], cores};
        place(bench_add(bench, all[i]->name, &fiber_ops, what), cores, all[i]->timed, ring);
    }
    place(bench_add_peer(bench, "boost-fiber", &peer_ops, boost), cores, "buffered_channel", ring);
    declare_tmc(bench, cores, ring);
}

static int declare(struct bench *bench)
{
    declare_streams(bench, 1, &boost_fiber_stream);
    declare_streams(bench, 2, &boost_fiber_stream_two);
    ports_declare(bench);
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "channel",
    .about = "streams of values and messages; messages there and back",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
    .remark = ports_remark,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
