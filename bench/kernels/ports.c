/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Rows of the kernel `channel`. Two sides send each other the same messages, there and back, over ports
 * of their own, and each waits for them in the way that the row names; a sample is one message one
 * way.
 *
 *   umbra-port-same-fiber   there is only one side, which receives what it has just posted
 *   umbra-port-receive      each side waits for the next message of a port
 *   umbra-port-choice       for one of either of two ports, which come in turns
 *   umbra-port-join         for one of each of two ports
 *   umbra-port-items        for so many of one port
 *   umbra-port-handler      the other side is a persistent Receive, a fiber for each message
 *   umbra-port-interleave   it is an Interleave, whose exclusive handler gets the messages
 *   umbra-mailbox           a pointer and an event: what a wait costs without a port
 *   pthread-cond            threads, and queues of a mutex and a condition variable each
 *   pthread-cond-items      the same; each waits for so many
 *
 * A sample is the mean of both ways: handlers send back to one who waits as in umbra-port-receive.
 *
 * With both sides on one core a message is compared with a bare hand-over between two fibers; on two
 * cores it is compared, as an event is, with a whole round trip of the ping-pong.
 *
 * Each side enters what it receives in a ledger, which proves that nothing was lost, doubled or out
 * of order.
 */
#define _GNU_SOURCE
#include "ports.h"
#include "harness.h"
#include "in_fiber.h"
#include "ledger.h"
#include "peers.h"
#include "ping_pong.h"

#include <umbra/event.h>
#include <umbra/port.h>

#define ITEMS_FEW 4
#define ITEMS_MANY 32
#define LINES EVENT_ALIGNED

struct number {
    struct umbra_message message;
    uint64_t value;
};

typedef UMBRA_PORT(struct number) number_port;

/* What threads have instead of a port. */
struct queue {
    pthread_mutex_t lock;  /* protects the rest */
    pthread_cond_t enough; /* there is what is waited for, or it is closed */
    struct umbra_message *first, *last;
    uint64_t count, wanted; /* messages there are; that are waited for */
    bool closed;
};

/* One way of the messages. */
struct route {
    struct {
        LINES number_port port;
    } ports[2];
    LINES struct umbra_event event; /* of a mailbox: there is a message */
    struct umbra_message *message;  /* in it; NULL: there will be none */
    LINES struct queue queue;
    LINES struct ledger ledger; /* of the side that receives */
};

/* What the two sides share. */
struct meeting {
    struct route there, back;
    struct number numbers[ITEMS_MANY] __attribute__((aligned(UMBRA_CACHE_LINE)));
};

_Static_assert(sizeof(struct meeting) <= BENCH_LINES_BYTES, "fits the harness's lines");

struct side;

/* How messages go. */
struct means {
    void (*post)(struct route *to, struct number *number, unsigned port);
    struct umbra_message *(*receive)(const struct side *side); /* NULL: there will be no more */
    void (*close)(struct route *to);                           /* that was the last */
};

/* What tells rows apart. */
struct port_case {
    const char *name;
    const char *timed;
    const struct means *means;
    void *(*body)(void *trips); /* the side that calls, and starts and ends the other */
    unsigned ports;             /* that messages go to, in turns */
    unsigned items;             /* messages that go together */
    unsigned cores;
};

/* One batch. */
struct trips {
    const struct port_case *what;
    struct meeting *meeting;
    struct bench_batch *batch;
    int cpu;   /* of the side that answers */
    int error; /* 0, or why there was no such side */
};

struct side {
    const struct port_case *what;
    struct route *from, *to;
    unsigned step; /* by which it increases the number of a message that it sends */
};

/* ---- means ---- */

static void port_post(struct route *to, struct number *number, unsigned port)
{
    UMBRA_PORT_POST(&to->ports[port].port, number, UMBRA_NEVER);
}

/* The messages of the first branch that can go. */
static struct umbra_message *chosen(struct umbra_branch *branches, unsigned count)
{
    struct umbra_message *messages = NULL;

    umbra_choose(branches, count, UMBRA_NEVER, NULL, &messages);
    return messages;
}

static struct umbra_message *port_receive(const struct side *side)
{
    struct umbra_message *message = NULL;

    umbra_port_receive(&side->from->ports[0].port.port, &message, UMBRA_NEVER);
    return message;
}

static struct umbra_message *port_choice(const struct side *side)
{
    struct umbra_branch either[] = {
        {UMBRA_RECEIVE(&side->from->ports[0].port.port)},
        {UMBRA_RECEIVE(&side->from->ports[1].port.port)},
    };

    return chosen(either, 2);
}

static struct umbra_message *port_join(const struct side *side)
{
    struct umbra_branch both = {UMBRA_JOIN(UMBRA_FROM(&side->from->ports[0].port.port),
                                           UMBRA_FROM(&side->from->ports[1].port.port))};

    return chosen(&both, 1);
}

static struct umbra_message *port_items(const struct side *side)
{
    struct umbra_branch items = {
        UMBRA_ITEMS(side->what->items, UMBRA_FROM(&side->from->ports[0].port.port))};

    return chosen(&items, 1);
}

static void port_close(struct route *to)
{
    umbra_port_close(&to->ports[0].port.port);
    umbra_port_close(&to->ports[1].port.port);
}

static const struct means by_receive = {port_post, port_receive, port_close};
static const struct means by_choice = {port_post, port_choice, port_close};
static const struct means by_join = {port_post, port_join, port_close};
static const struct means by_items = {port_post, port_items, port_close};

static void mailbox_post(struct route *to, struct number *number, unsigned port)
{
    (void)port;
    to->message = &number->message;
    umbra_event_signal(&to->event);
}

static struct umbra_message *mailbox_receive(const struct side *side)
{
    umbra_event_wait(&side->from->event, UMBRA_NEVER);
    return side->from->message;
}

static void mailbox_close(struct route *to)
{
    to->message = NULL;
    umbra_event_signal(&to->event);
}

static const struct means by_mailbox = {mailbox_post, mailbox_receive, mailbox_close};

static void queue_post(struct route *to, struct number *number, unsigned port)
{
    struct queue *queue = &to->queue;
    struct umbra_message *message = &number->message;
    bool enough;

    (void)port;
    message->next = NULL;
    pthread_mutex_lock(&queue->lock);
    if (queue->first)
        queue->last->next = message;
    else
        queue->first = message;
    queue->last = message;
    enough = ++queue->count == queue->wanted;
    pthread_mutex_unlock(&queue->lock);
    if (enough)
        pthread_cond_signal(&queue->enough);
}

/* All there are: no more are ever sent than are waited for. */
static struct umbra_message *queue_receive(const struct side *side)
{
    struct queue *queue = &side->from->queue;
    struct umbra_message *messages;

    pthread_mutex_lock(&queue->lock);
    while (queue->count < queue->wanted && !queue->closed)
        pthread_cond_wait(&queue->enough, &queue->lock);
    messages = queue->first;
    queue->first = NULL;
    queue->count = 0;
    pthread_mutex_unlock(&queue->lock);
    return messages;
}

static void queue_close(struct route *to)
{
    pthread_mutex_lock(&to->queue.lock);
    to->queue.closed = true;
    pthread_mutex_unlock(&to->queue.lock);
    pthread_cond_signal(&to->queue.enough);
}

static const struct means by_queue = {queue_post, queue_receive, queue_close};

/* ---- the sides ---- */

static void enter(const struct side *side, struct umbra_message *messages)
{
    for (; messages; messages = messages->next)
        ledger_enter(&side->from->ledger, UMBRA_MESSAGE_AS(struct number, messages)->value);
}

/* Each is the other side's from its post on. */
static void send(const struct side *side, struct umbra_message *messages)
{
    while (messages) {
        struct umbra_message *next = messages->next;
        struct number *number = UMBRA_MESSAGE_AS(struct number, messages);

        number->value += side->step;
        side->what->means->post(side->to, number, number->value % side->what->ports);
        messages = next;
    }
}

/* The side that calls: one trip, and then those that are timed. */
static void call(struct trips *trips, struct route *from)
{
    const struct port_case *what = trips->what;
    struct number *numbers = trips->meeting->numbers;
    struct side side = {.what = what, .from = from, .to = &trips->meeting->there};
    struct umbra_message *messages;
    uint64_t begin;

    for (unsigned i = 0; i < what->items; i++) {
        numbers[i].value = i;
        numbers[i].message.next = i + 1 < what->items ? &numbers[i + 1].message : NULL;
    }
    send(&side, &numbers[0].message);
    messages = what->means->receive(&side);
    side.step = what->items;
    begin = bench_now_ns();
    for (uint64_t i = 0; i < trips->batch->iterations; i++) {
        enter(&side, messages);
        send(&side, messages);
        messages = what->means->receive(&side);
    }
    trips->batch->ns = bench_now_ns() - begin;
    enter(&side, messages);
    what->means->close(side.to);
}

/* The side that answers, until the calling side has closed what it sends to. */
static struct side answering(const struct trips *trips)
{
    return (struct side){
        .what = trips->what, .from = &trips->meeting->there, .to = &trips->meeting->back};
}

static void *answers(void *arg)
{
    const struct side *side = arg;
    struct umbra_message *messages;

    while ((messages = side->what->means->receive(side))) {
        enter(side, messages);
        send(side, messages);
    }
    return NULL;
}

static void handles(struct umbra_message *messages, void *arg)
{
    enter(arg, messages);
    send(arg, messages);
}

/* ---- both ---- */

static void *alone(void *arg)
{
    struct trips *trips = arg;

    call(trips, &trips->meeting->there);
    return NULL;
}

static void *with_fiber(void *arg)
{
    struct trips *trips = arg;
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = trips->what->cores - 1};
    struct side side = answering(trips);
    struct umbra_fiber fiber;

    trips->error = umbra_spawn_with(NULL, &there, answers, &side, &fiber);
    if (trips->error == 0) {
        call(trips, &trips->meeting->back);
        umbra_join(fiber, UMBRA_NEVER, NULL);
    }
    return NULL;
}

static void *with_thread(void *arg)
{
    struct trips *trips = arg;
    struct side side = answering(trips);
    pthread_t thread;

    trips->error = bench_thread(&thread, trips->cpu, answers, &side);
    if (trips->error == 0) {
        call(trips, &trips->meeting->back);
        pthread_join(thread, NULL);
    }
    return NULL;
}

static void with_arbiter(struct trips *trips, struct umbra_branch *branches, unsigned count)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .core = trips->what->cores - 1};
    struct umbra_arbiter_options options = {.home = &there};
    struct side side = answering(trips);
    _Alignas(UMBRA_CACHE_LINE) struct umbra_arbiter arbiter;

    for (unsigned i = 0; i < count; i++) {
        branches[i].handler = handles;
        branches[i].arg = &side;
    }
    trips->error = umbra_arbiter_start(&arbiter, branches, count, &options);
    if (trips->error == 0) {
        call(trips, &trips->meeting->back);
        umbra_arbiter_join(&arbiter, UMBRA_NEVER);
    }
}

static void *with_handler(void *arg)
{
    struct trips *trips = arg;
    struct route *from = &trips->meeting->there;
    struct umbra_branch branch = {UMBRA_RECEIVE(&from->ports[0].port.port)};

    with_arbiter(trips, &branch, 1);
    return NULL;
}

static void *with_interleave(void *arg)
{
    struct trips *trips = arg;
    struct route *from = &trips->meeting->there;
    struct umbra_branch branches[] = {
        {UMBRA_RECEIVE(&from->ports[0].port.port), .group = UMBRA_EXCLUSIVE},
        {UMBRA_RECEIVE(&from->ports[1].port.port), .group = UMBRA_CONCURRENT},
    };

    with_arbiter(trips, branches, 2);
    return NULL;
}

/* ---- rows ---- */

static void route_init(struct route *route, const struct port_case *what)
{
    UMBRA_PORT_OPEN(&route->ports[0].port.port, 0);
    UMBRA_PORT_OPEN(&route->ports[1].port.port, 0);
    route->event = (struct umbra_event)UMBRA_EVENT_INIT;
    route->queue = (struct queue){.lock = PTHREAD_MUTEX_INITIALIZER,
                                  .enough = PTHREAD_COND_INITIALIZER,
                                  .wanted = what->items};
    route->ledger = (struct ledger){0};
}

static void route_fini(struct route *route)
{
    pthread_cond_destroy(&route->queue.enough);
    pthread_mutex_destroy(&route->queue.lock);
}

static int start(struct bench_row *row)
{
    const struct port_case *what = row->arg;

    return in_fiber_cores(row->bench, what->cores, (struct umbra_runtime **)&row->state);
}

/* In a fiber, if there is a runtime. */
static int run(struct bench_row *row, struct bench_batch *batch)
{
    const struct port_case *what = row->arg;
    struct meeting *meeting = bench_lines(row->bench);
    struct trips trips = {.what = what,
                          .meeting = meeting,
                          .batch = batch,
                          .cpu = bench_cpu(row->bench, what->cores - 1)};
    int error = 0;

    route_init(&meeting->there, what);
    route_init(&meeting->back, what);
    if (row->state)
        error = in_fiber(row->state, what->body, &trips);
    else
        what->body(&trips);
    /* the first trip is not of the batch */
    batch->verified =
        ledger_proves(&meeting->there.ledger) + ledger_proves(&meeting->back.ledger) - row->parts;
    route_fini(&meeting->there);
    route_fini(&meeting->back);
    return error != 0 ? error : trips.error;
}

static void stop(struct bench_row *row)
{
    umbra_runtime_destroy(row->state);
}

static const struct bench_ops fiber_ops = {.start = start, .run = run, .stop = stop};
static const struct bench_ops thread_ops = {.run = run};

#define ITEMS "umbra_choose, UMBRA_ITEMS of one port"
#define QUEUE "a queue with a mutex and a condition variable"
#define HANDLER "to a persistent Receive; back by umbra_port_receive"
#define INTERLEAVE "to an exclusive handler; back by umbra_port_receive"

enum { PORT_RECEIVE, PTHREAD_COND, REMARKED }; /* the first two cases */

/* clang-format off */
#define CASES(n)                                                                                   \
    {"umbra-port-receive", "umbra_port_receive", &by_receive, with_fiber, 1, 1, n},                \
    {"pthread-cond", QUEUE, &by_queue, with_thread, 1, 1, n},                                      \
    {"umbra-mailbox", "a pointer, umbra_event", &by_mailbox, with_fiber, 1, 1, n},                 \
    {"umbra-port-choice", "umbra_choose of two ports", &by_choice, with_fiber, 2, 1, n},           \
    {"umbra-port-join", "umbra_choose, UMBRA_JOIN of two ports", &by_join, with_fiber, 2, 2, n},   \
    {"umbra-port-items", ITEMS, &by_items, with_fiber, 1, ITEMS_FEW, n},                           \
    {"umbra-port-items", ITEMS, &by_items, with_fiber, 1, ITEMS_MANY, n},                          \
    {"pthread-cond-items", QUEUE, &by_queue, with_thread, 1, ITEMS_FEW, n},                        \
    {"pthread-cond-items", QUEUE, &by_queue, with_thread, 1, ITEMS_MANY, n},                       \
    {"umbra-port-handler", HANDLER, &by_receive, with_handler, 1, 1, n},                           \
    {"umbra-port-interleave", INTERLEAVE, &by_receive, with_interleave, 1, 1, n}
/* clang-format on */

static const struct port_case one_core[] = {
    CASES(1),
    {"umbra-port-same-fiber", "nobody waits", &by_receive, alone, 1, 1, 1},
};
static const struct port_case two_cores[] = {CASES(2)};

static struct bench_row *remarked[2][REMARKED]; /* by cores less one */

static struct bench_row *add(struct bench *bench, const struct port_case *what,
                             struct bench_row *limit)
{
    const struct bench_ops *ops = what->body == with_thread ? &thread_ops : &fiber_ops;
    struct bench_row *row = bench_add(bench, what->name, ops, what);

    row->parts = (what->body == alone ? 1 : 2) * what->items;
    row->limit = limit;
    json_object_set_new(row->params, "cores", json_integer(what->cores));
    if (what->items > what->ports)
        json_object_set_new(row->params, "items", json_integer(what->items));
    bench_state_timed(row, what->timed);
    return row;
}

static void add_all(struct bench *bench, const struct port_case *cases, size_t count,
                    struct bench_row *limit)
{
    for (size_t i = 0; i < count; i++) {
        struct bench_row *row = add(bench, &cases[i], limit);

        if (i < REMARKED)
            remarked[cases->cores - 1][i] = row;
    }
}

void ports_declare(struct bench *bench)
{
    struct bench_row *transfer =
        bench_add(bench, "umbra-transfer", &switch_ops, &umbra_transfer_switch);

    transfer->parts = 2;
    bench_state_timed(transfer, "a bare hand-over between two fibers");
    add_all(bench, one_core, sizeof one_core / sizeof one_core[0], transfer);
    add_all(bench, two_cores, sizeof two_cores / sizeof two_cores[0], ping_pong_add(bench));
}

void ports_remark(const struct bench *bench, FILE *out)
{
    (void)bench;
    for (int i = 0; i < 2; i++) {
        struct bench_row *const *row = remarked[i];

        if (row[PORT_RECEIVE]->runs && row[PTHREAD_COND]->runs)
            fprintf(out, "%8.2f times the time of pthread-cond, cores %d: umbra-port-receive\n",
                    bench_quotient(row[PORT_RECEIVE], row[PTHREAD_COND]).median, i + 1);
    }
}
