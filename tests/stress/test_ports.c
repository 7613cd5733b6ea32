/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Ports and arbiters under contention, while what must hold is checked. The seed is printed; give it
 * back in UMBRA_SEED. UMBRA_STRESS_MS sets the length of each test (default 1000). A message or a
 * wake-up that is lost shows as a test that does not end, as a deadlock, or in the last count.
 */
#define _GNU_SOURCE
#include "random_run.h"

#include <runner.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <port_count.h>
#include <umbra.h>

#define PORTS 4
#define POSTERS 6   /* the last is a thread */
#define RECEIVERS 6 /* the last is a thread */
#define MESSAGES 32 /* of a poster */
#define ROOM 4      /* of a bounded port */

enum { IDLE, POSTED };

struct letter {
    struct umbra_message message;
    _Atomic int state;
    unsigned from;
    uint64_t sequence; /* of what this poster has posted */
};

typedef UMBRA_PORT(struct letter) letter_port;

struct actor {
    uint64_t random;
    unsigned number;
};

static struct world {
    struct umbra_runtime *runtime;
    uint64_t end_ns;
    unsigned cores;
    letter_port port[PORTS];
    struct letter letter[POSTERS][MESSAGES];
    struct actor poster[POSTERS], receiver[RECEIVERS];
    uint64_t last[RECEIVERS][POSTERS][PORTS]; /* sequence + 1 that it had last */
    _Atomic uint64_t posted, received, joined;
} world;

static struct umbra_spawn_options on_core(unsigned core)
{
    return (struct umbra_spawn_options){.where = UMBRA_ON_CORE, .core = core % world.cores};
}

static void start(unsigned cores, enum umbra_wait_mode mode)
{
    struct umbra_options options = {.cores = cores, .oversubscribe = true, .wait.mode = mode};

    memset(&world, 0, sizeof(world));
    world.cores = cores;
    cr_assert_eq(umbra_runtime_create(&options, &world.runtime), 0);
    world.end_ns = end_of_run_ns();
}

static bool over(void)
{
    return umbra_now_ns() >= world.end_ns;
}

static struct umbra_fiber spawn(unsigned core, umbra_fiber_fn *fn, void *arg)
{
    struct umbra_spawn_options there = on_core(core);
    struct umbra_fiber fiber;

    cr_assert_eq(umbra_spawn_with(world.runtime, &there, fn, arg, &fiber), 0);
    return fiber;
}

static void finish(void)
{
    cr_assert_eq(umbra_runtime_wait(world.runtime), 0);
    cr_assert_eq(umbra_runtime_destroy(world.runtime), 0);
}

/* ---- no message is lost, duplicated or reordered within a port ---- */

/* One of the poster's letters that nobody has; NULL: the time is over. */
static struct letter *idle_letter(unsigned poster)
{
    while (!over()) {
        for (int i = 0; i < MESSAGES; i++)
            if (world.letter[poster][i].state == IDLE)
                return &world.letter[poster][i];
        umbra_yield();
    }
    return NULL;
}

static int post_somehow(letter_port *port, struct letter *letter, uint64_t how)
{
    if (how & 1)
        return UMBRA_PORT_POST(port, letter, UMBRA_NEVER);
    if (how & 2)
        return UMBRA_PORT_POST(port, letter, 0);
    return UMBRA_PORT_POST(port, letter, umbra_deadline(how >> 48));
}

static void *posts(void *arg)
{
    struct actor *self = arg;
    uint64_t sequence = 0;
    struct letter *letter;

    while ((letter = idle_letter(self->number))) {
        uint64_t r = random_next(&self->random);
        int error;

        letter->from = self->number;
        letter->sequence = sequence++;
        letter->state = POSTED;
        error = post_somehow(&world.port[r % PORTS], letter, r >> 8);
        if (error == 0) {
            world.posted++;
        } else {
            cr_expect(error == -ETIMEDOUT, "a post said %d", error);
            letter->state = IDLE;
        }
        if ((r >> 16 & 7) == 0)
            umbra_yield();
    }
    return NULL;
}

static void take(unsigned receiver, struct umbra_message *message)
{
    struct letter *letter = UMBRA_MESSAGE_AS(struct letter, message);
    uint64_t *last = &world.last[receiver][letter->from][(letter_port *)message->port - world.port];

    cr_expect_lt(*last, letter->sequence + 1, "reordered");
    *last = letter->sequence + 1;
    cr_expect_eq(atomic_exchange(&letter->state, IDLE), POSTED, "received twice");
    world.received++;
}

static void take_all(unsigned receiver, struct umbra_message *message)
{
    while (message) {
        struct umbra_message *next = message->next; /* it may be posted again after the take */

        take(receiver, message);
        message = next;
    }
}

/* One wait for something. Whether it may be worth another. */
static bool receive_somehow(struct actor *self)
{
    uint64_t r = random_next(&self->random);
    struct umbra_port *port[2] = {&world.port[r % PORTS].port,
                                  &world.port[(r + 1 + (r >> 8) % (PORTS - 1)) % PORTS].port};
    struct umbra_branch branch[] = {
        {UMBRA_JOIN(UMBRA_FROM(port[0]), UMBRA_FROM(port[1]))},
        {UMBRA_RECEIVE(port[r >> 16 & 1])},
        {UMBRA_ITEMS(1 + (r >> 20) % ROOM, UMBRA_FROM(port[0]))},
        {UMBRA_ITEMS(1 + (r >> 24) % ROOM, UMBRA_FROM(port[0]), UMBRA_FROM(port[1]))}};
    unsigned first = r >> 28 & 3, count = 1 + (r >> 30) % (4 - first), which = 9;
    struct umbra_message *got = NULL;
    int error;

    if ((r >> 32 & 7) == 0) {
        error = umbra_port_receive(port[0], &got, 0);
    } else if ((r >> 32 & 7) == 1) {
        error = umbra_port_receive(port[0], &got, umbra_deadline(r >> 46));
    } else if ((r >> 32 & 7) == 2) {
        error = umbra_port_receive_some(port[0], 1 + (r >> 20) % 64, umbra_deadline(r >> 46), &got);
    } else {
        error = umbra_choose(&branch[first], count, umbra_deadline(r >> 46), &which, &got);
        cr_expect(error != 0 || which < count);
        world.joined += error == 0 && first + which == 0;
    }
    if (error == 0)
        take_all(self->number, got);
    else
        cr_expect(error == -ETIMEDOUT || error == -EPIPE);
    return error != -EPIPE;
}

static void *receives(void *arg)
{
    while (receive_somehow(arg) || !over())
        ;
    return NULL;
}

static void messages(unsigned cores, enum umbra_wait_mode mode)
{
    uint64_t random = seed_of_run();
    struct umbra_fiber poster[POSTERS], receiver[RECEIVERS];
    struct umbra_message *rest;
    pthread_t posting, receiving;

    start(cores, mode);
    for (unsigned i = 0; i < PORTS; i++)
        UMBRA_PORT_OPEN(&world.port[i], i % 2 ? ROOM : 0);
    for (unsigned i = 0; i < POSTERS; i++)
        world.poster[i] = (struct actor){random_next(&random), i};
    for (unsigned i = 0; i < RECEIVERS; i++)
        world.receiver[i] = (struct actor){random_next(&random), i};
    for (unsigned i = 0; i < POSTERS - 1; i++)
        poster[i] = spawn(i, posts, &world.poster[i]);
    for (unsigned i = 0; i < RECEIVERS - 1; i++)
        receiver[i] = spawn(i + 1, receives, &world.receiver[i]);
    pthread_create(&posting, NULL, posts, &world.poster[POSTERS - 1]);
    pthread_create(&receiving, NULL, receives, &world.receiver[RECEIVERS - 1]);
    pthread_join(posting, NULL);
    for (unsigned i = 0; i < POSTERS - 1; i++)
        cr_assert_eq(umbra_join(poster[i], UMBRA_NEVER, NULL), 0);
    for (unsigned i = 0; i < PORTS; i++)
        cr_assert_eq(UMBRA_PORT_CLOSE(&world.port[i]), 0);
    pthread_join(receiving, NULL);
    for (unsigned i = 0; i < RECEIVERS - 1; i++)
        cr_assert_eq(umbra_join(receiver[i], UMBRA_NEVER, NULL), 0);
    for (unsigned i = 0; i < PORTS; i++)
        while (umbra_port_receive(&world.port[i].port, &rest, 0) == 0)
            take(0, rest);
    cr_assert_eq(world.posted, world.received);
    cr_assert_gt(world.joined, 0);
    fprintf(stderr, "  %llu messages, %llu joins\n", (unsigned long long)world.posted,
            (unsigned long long)world.joined);
    finish();
}

Test(ports, messages_on_two_cores)
{
    messages(2, UMBRA_WAIT_TWO_PHASE);
}

Test(ports, messages_on_one_core)
{
    messages(1, UMBRA_WAIT_TWO_PHASE);
}

Test(ports, messages_that_park_at_once)
{
    messages(2, UMBRA_WAIT_PARK);
}

Test(ports, messages_on_more_cores_than_there_are)
{
    messages(8, UMBRA_WAIT_TWO_PHASE);
}

/* ---- a choice never runs two branches ---- */

struct round {
    letter_port port[2];
    struct letter letter[2];
    _Atomic int ran[2];
    int posted;
};

static void runs(struct umbra_message *message, void *arg)
{
    cr_expect_null(message->next);
    (*(_Atomic int *)arg)++;
}

static void *posts_both(void *arg)
{
    struct round *round = arg;
    int first = world.cores > 1 && umbra_core_index() == 1;

    for (int i = 0; i < 2; i++)
        cr_expect_eq(
            UMBRA_PORT_POST(&round->port[i ^ first], &round->letter[i ^ first], UMBRA_NEVER), 0);
    return NULL;
}

static void *posts_one(void *arg)
{
    struct round *round = arg;

    cr_expect_eq(UMBRA_PORT_POST(&round->port[1], &round->letter[1], UMBRA_NEVER), 0);
    return NULL;
}

/* One Choice, posted to from here and from another core at once. */
static void choose_once(uint64_t *random)
{
    uint64_t r = random_next(random);
    struct round round = {.port = {{UMBRA_PORT_INIT}, {UMBRA_PORT_INIT}}};
    struct umbra_branch branch[] = {
        {UMBRA_RECEIVE(&round.port[0]), .handler = runs, .arg = &round.ran[0]},
        {UMBRA_RECEIVE(&round.port[1]), .handler = runs, .arg = &round.ran[1]}};
    struct umbra_spawn_options home = on_core((unsigned)(r >> 8));
    struct umbra_arbiter_options options = {.once = true, .home = &home};
    struct umbra_spawn_options there = on_core((unsigned)(r >> 16));
    struct umbra_fiber other;
    struct umbra_arbiter arbiter;
    struct umbra_message *left;

    cr_expect_eq(umbra_arbiter_start(&arbiter, branch, 2, &options), 0);
    if (r & 1) {
        umbra_spawn_with(NULL, &there, posts_one, &round, &other);
        cr_expect_eq(UMBRA_PORT_POST(&round.port[0], &round.letter[0], UMBRA_NEVER), 0);
    } else {
        umbra_spawn_with(NULL, &there, posts_both, &round, &other);
    }
    cr_expect_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), 0);
    cr_expect_eq(umbra_join(other, UMBRA_NEVER, NULL), 0);
    cr_expect_eq(round.ran[0] + round.ran[1], 1);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(umbra_port_receive(&round.port[i].port, &left, 0),
                     round.ran[i] ? -ETIMEDOUT : 0);
    }
    world.received++;
}

static void *makes_choices(void *arg)
{
    struct actor *self = arg;

    while (!over())
        choose_once(&self->random);
    return NULL;
}

/* Fibers that do it until the run is over. what: what they count. */
static void all_do(unsigned cores, umbra_fiber_fn *fn, const char *what)
{
    uint64_t random = seed_of_run();

    start(cores, UMBRA_WAIT_TWO_PHASE);
    for (unsigned i = 0; i < POSTERS; i++) {
        world.poster[i] = (struct actor){random_next(&random), i};
        umbra_detach(spawn(i, fn, &world.poster[i]));
    }
    finish();
    fprintf(stderr, "  %llu %s\n", (unsigned long long)world.received, what);
}

Test(ports, choices_on_two_cores)
{
    all_do(2, makes_choices, "choices");
}

Test(ports, choices_on_more_cores_than_there_are)
{
    all_do(8, makes_choices, "choices");
}

/* ---- joins: put-back keeps the order, and both progress ---- */

#define JOINS 2

struct tally {
    uint64_t last[2]; /* sequence + 1 of the last of each port */
    uint64_t count;
};

static struct tally tally[JOINS];

static void tallies(struct umbra_message *message, void *arg)
{
    struct tally *mine = arg;
    uint64_t r = mine->count++;

    for (int i = 0; i < 2; i++) {
        struct letter *letter = UMBRA_MESSAGE_AS(struct letter, message);
        int port = message->port == &world.port[1].port;

        message = message->next;
        cr_expect_lt(mine->last[port], letter->sequence + 1, "put back in another place");
        mine->last[port] = letter->sequence + 1;
        letter->state = IDLE;
    }
    cr_expect_null(message);
    if (r % 64 == 0)
        umbra_yield();
}

/* Posts all its letters to one port, again and again; how many goes into *arg. */
static void *posts_to_one(void *arg)
{
    struct actor *self = arg;
    uint64_t sequence = 0;
    struct letter *letter;

    while ((letter = idle_letter(self->number))) {
        letter->state = POSTED;
        letter->sequence = sequence++;
        cr_expect_eq(UMBRA_PORT_POST(&world.port[self->number], letter, UMBRA_NEVER), 0);
        if ((random_next(&self->random) & 15) == 0)
            umbra_yield();
    }
    return (void *)(uintptr_t)sequence;
}

static void joins(unsigned cores)
{
    struct umbra_port *port[2] = {&world.port[0].port, &world.port[1].port};
    struct umbra_branch branch[JOINS] = {
        {UMBRA_JOIN(UMBRA_FROM(port[0]), UMBRA_FROM(port[1])), .handler = tallies, .arg = &tally[0],
         .group = UMBRA_EXCLUSIVE},
        {UMBRA_JOIN(UMBRA_FROM(port[1]), UMBRA_FROM(port[0])), .handler = tallies, .arg = &tally[1],
         .group = UMBRA_EXCLUSIVE}};
    struct umbra_arbiter arbiter[JOINS];
    struct umbra_fiber poster[2];
    uint64_t random = seed_of_run(), left[2], least;
    void *sent[2];

    start(cores, UMBRA_WAIT_TWO_PHASE);
    for (unsigned i = 0; i < JOINS; i++) {
        struct umbra_spawn_options home = on_core(i);
        struct umbra_arbiter_options options = {.runtime = world.runtime, .home = &home};

        cr_assert_eq(umbra_arbiter_start(&arbiter[i], &branch[i], 1, &options), 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        world.poster[i] = (struct actor){random_next(&random), i};
        poster[i] = spawn(i + 1, posts_to_one, &world.poster[i]);
    }
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(umbra_join(poster[i], UMBRA_NEVER, &sent[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        umbra_port_close(port[i]);
    for (unsigned i = 0; i < JOINS; i++)
        cr_assert_eq(umbra_arbiter_join(&arbiter[i], UMBRA_NEVER), -EPIPE);
    for (unsigned i = 0; i < 2; i++)
        left[i] = count_of(port[i]);
    cr_assert_eq(tally[0].count + tally[1].count + left[0], (uintptr_t)sent[0]);
    cr_assert_eq(tally[0].count + tally[1].count + left[1], (uintptr_t)sent[1]);
    cr_assert(left[0] == 0 || left[1] == 0, "a join was forgotten");
    least = tally[0].count < tally[1].count ? tally[0].count : tally[1].count;
    cr_assert_gt(least, 0, "one of the joins starved");
    fprintf(stderr, "  %llu and %llu joins\n", (unsigned long long)tally[0].count,
            (unsigned long long)tally[1].count);
    finish();
}

Test(ports, joins_on_two_cores)
{
    joins(2);
}

Test(ports, joins_on_one_core)
{
    joins(1);
}

Test(ports, joins_on_more_cores_than_there_are)
{
    joins(8);
}

/* ---- an interleave never overlaps an exclusive handler; teardown is once and last ---- */

static struct interleave {
    letter_port read[2], write[2], stop[2];
    _Atomic int reading, writing;
    _Atomic bool stopped;
    _Atomic uint64_t reads, writes, posted[4];
} inter;

static void linger(uint64_t sequence)
{
    if (sequence % 4 == 0)
        umbra_yield();
    if (sequence % 64 == 0)
        umbra_sleep_ns(sequence % 20000);
}

static void reads(struct umbra_message *message, void *arg)
{
    struct letter *letter = UMBRA_MESSAGE_AS(struct letter, message);

    (void)arg;
    inter.reading++;
    cr_expect_eq(inter.writing, 0, "a concurrent handler overlaps an exclusive one");
    linger(letter->sequence);
    cr_expect_eq(inter.writing, 0, "an exclusive handler overlaps a concurrent one");
    cr_expect(!inter.stopped, "it runs after the teardown");
    inter.reads++;
    letter->state = IDLE;
    inter.reading--;
}

static void writes(struct umbra_message *message, void *arg)
{
    struct letter *letter = UMBRA_MESSAGE_AS(struct letter, message);

    (void)arg;
    cr_expect_eq(inter.writing++, 0, "two exclusive handlers overlap");
    cr_expect_eq(inter.reading, 0, "an exclusive handler overlaps a concurrent one");
    linger(letter->sequence);
    cr_expect(!inter.stopped, "it runs after the teardown");
    inter.writes++;
    letter->state = IDLE;
    inter.writing--;
}

static void stops(struct umbra_message *message, void *arg)
{
    (void)message;
    (void)arg;
    cr_expect(!inter.stopped, "teardown runs twice");
    inter.stopped = true;
    cr_expect_eq(inter.reading + inter.writing, 0, "teardown overlaps");
    umbra_yield();
    cr_expect_eq(inter.reading + inter.writing, 0, "teardown overlaps");
}

/* Posts requests of all kinds until it finds that the interleave has ended. */
static void *requests(void *arg)
{
    struct actor *self = arg;
    uint64_t sequence = 0;

    while (!inter.stopped) {
        uint64_t r = random_next(&self->random);
        unsigned kind = r & 7 ? r >> 4 & 1 : 2 + (r >> 4 & 1);
        letter_port *port = kind < 2 ? &inter.read[kind] : &inter.write[kind - 2];
        struct letter *letter = NULL;

        for (int i = 0; i < MESSAGES && !letter; i++)
            if (world.letter[self->number][i].state == IDLE)
                letter = &world.letter[self->number][i];
        if (letter) {
            letter->state = POSTED;
            letter->sequence = sequence++;
            cr_expect_eq(UMBRA_PORT_POST(port, letter, UMBRA_NEVER), 0);
            inter.posted[kind]++;
        }
        if (!letter || (r >> 8 & 7) == 0)
            umbra_yield();
        if (over()) {
            static struct letter stop[POSTERS];
            int which = self->number & 1;

            cr_expect_eq(UMBRA_PORT_POST(&inter.stop[which], &stop[self->number], UMBRA_NEVER), 0);
            return NULL;
        }
    }
    return NULL;
}

static uint64_t count_of_both(letter_port *port)
{
    return count_of(&port[0].port) + count_of(&port[1].port);
}

/* Two rounds a second or so, until the time is over. */
static void interleave_once(uint64_t *random, uint64_t ns, unsigned most)
{
    struct umbra_branch branch[] = {
        {UMBRA_RECEIVE(&inter.read[0]), .handler = reads},
        {UMBRA_RECEIVE(&inter.write[0]), .handler = writes, .group = UMBRA_EXCLUSIVE},
        {UMBRA_RECEIVE(&inter.stop[0]), .handler = stops, .group = UMBRA_TEARDOWN},
        {UMBRA_RECEIVE(&inter.read[1]), .handler = reads},
        {UMBRA_RECEIVE(&inter.write[1]), .handler = writes, .group = UMBRA_EXCLUSIVE},
        {UMBRA_RECEIVE(&inter.stop[1]), .handler = stops, .group = UMBRA_TEARDOWN}};
    struct umbra_arbiter_options options = {.runtime = world.runtime, .most = most};
    struct umbra_arbiter arbiter;
    struct umbra_fiber poster[POSTERS - 1];
    pthread_t thread;

    memset(&inter, 0, sizeof(inter));
    memset(world.letter, 0, sizeof(world.letter));
    world.end_ns = umbra_now_ns() + ns;
    cr_assert_eq(umbra_arbiter_start(&arbiter, branch, 6, &options), 0);
    for (unsigned i = 0; i < POSTERS; i++)
        world.poster[i] = (struct actor){random_next(random), i};
    for (unsigned i = 0; i < POSTERS - 1; i++)
        poster[i] = spawn(i, requests, &world.poster[i]);
    pthread_create(&thread, NULL, requests, &world.poster[POSTERS - 1]);
    cr_assert_eq(umbra_arbiter_join(&arbiter, UMBRA_NEVER), 0);
    cr_assert(inter.stopped);
    cr_assert_eq(inter.reading, 0);
    for (unsigned i = 0; i < POSTERS - 1; i++)
        cr_assert_eq(umbra_join(poster[i], UMBRA_NEVER, NULL), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(inter.reads + count_of_both(inter.read), inter.posted[0] + inter.posted[1]);
    cr_assert_eq(inter.writes + count_of_both(inter.write), inter.posted[2] + inter.posted[3]);
    world.received += inter.reads;
    world.joined += inter.writes;
}

static void interleaves(unsigned cores, unsigned most)
{
    uint64_t random = seed_of_run();
    uint64_t end;

    start(cores, UMBRA_WAIT_TWO_PHASE);
    end = world.end_ns;
    while (umbra_now_ns() < end)
        interleave_once(&random, random_next(&random) % 100000000, most);
    fprintf(stderr, "  %llu concurrent, %llu exclusive handlers\n",
            (unsigned long long)world.received, (unsigned long long)world.joined);
    finish();
}

Test(ports, interleaves_on_two_cores)
{
    interleaves(2, 0);
}

Test(ports, interleaves_on_one_core)
{
    interleaves(1, 0);
}

Test(ports, interleaves_with_a_limit)
{
    interleaves(2, 3);
}

Test(ports, interleaves_on_more_cores_than_there_are)
{
    interleaves(8, 0);
}

/* ---- a port for the answer, in the frame that waits for it ---- */

struct question {
    struct umbra_message message;
    struct umbra_port *answer;
    struct umbra_message *back;
};

static UMBRA_PORT(struct question) desk;

static void *answers(void *arg)
{
    struct question *question;

    while (UMBRA_PORT_RECEIVE(&desk, &question, UMBRA_NEVER) == 0)
        cr_expect_eq(umbra_port_post(question->answer, question->back, UMBRA_NEVER), 0);
    return arg;
}

static void ask(void)
{
    struct umbra_port answer = UMBRA_PORT_INIT;
    struct umbra_message back, *got;
    struct question question = {.answer = &answer, .back = &back};

    cr_expect_eq(UMBRA_PORT_POST(&desk, &question, UMBRA_NEVER), 0);
    cr_expect_eq(umbra_port_receive(&answer, &got, UMBRA_NEVER), 0);
    cr_expect_eq(got, &back);
    memset(&answer, 0xff, sizeof(answer)); /* nobody touches it any more */
    world.received++;
}

static void *asks(void *arg)
{
    while (!over())
        ask();
    return arg;
}

Test(ports, an_answer_s_port_goes_with_its_frame)
{
    struct umbra_fiber asking[POSTERS];
    pthread_t thread[2];

    start(2, UMBRA_WAIT_TWO_PHASE);
    for (unsigned i = 0; i < 3; i++)
        umbra_detach(spawn(i, answers, NULL));
    for (unsigned i = 0; i < POSTERS; i++)
        asking[i] = spawn(i, asks, NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, asks, NULL);
    for (unsigned i = 0; i < POSTERS; i++)
        cr_assert_eq(umbra_join(asking[i], UMBRA_NEVER, NULL), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    umbra_port_close(&desk.port);
    finish();
    fprintf(stderr, "  %llu answers\n", (unsigned long long)world.received);
}

/* ---- whoever waits learns that ports are closed, or that it is cancelled ---- */

static void ignores(struct umbra_message *message, void *arg)
{
    (void)arg;
    UMBRA_MESSAGE_AS(struct letter, message)->state = IDLE;
}

/* Arbiters over random ports that are posted to and closed, or that are cancelled. */
static void close_once(uint64_t *random)
{
    uint64_t r = random_next(random);
    letter_port port[3] = {{UMBRA_PORT_INIT}, {UMBRA_PORT_INIT_BOUNDED(1)}, {UMBRA_PORT_INIT}};
    struct umbra_branch branch[3][2] = {
        {{UMBRA_JOIN(UMBRA_FROM(&port[0]), UMBRA_FROM(&port[1])), .handler = ignores},
         {UMBRA_RECEIVE(&port[2]), .handler = ignores, .group = UMBRA_EXCLUSIVE}},
        {{UMBRA_ITEMS(1, UMBRA_FROM(&port[1]), UMBRA_FROM(&port[2])), .handler = ignores},
         {UMBRA_RECEIVE(&port[0]), .handler = ignores}},
        {{UMBRA_JOIN(UMBRA_FROM(&port[2]), UMBRA_FROM(&port[0])), .handler = ignores},
         {UMBRA_RECEIVE(&port[0]), .handler = ignores}}};
    struct umbra_arbiter arbiter[3];
    struct letter letter[8] = {{.state = 0}};
    int end[3];

    for (unsigned i = 0; i < 3; i++) {
        struct umbra_spawn_options home = on_core((unsigned)(r >> i));
        struct umbra_arbiter_options options = {.home = &home};

        cr_expect_eq(umbra_arbiter_start(&arbiter[i], branch[i], 2, &options), 0);
    }
    for (int i = 0; i < 8; i++)
        UMBRA_PORT_POST(&port[(r >> (8 + 2 * i)) % 3], &letter[i], 0);
    for (unsigned i = 0; i < 3; i++) {
        if ((r >> 32) % 3 == i)
            umbra_arbiter_cancel(&arbiter[i]);
        cr_expect_eq(UMBRA_PORT_CLOSE(&port[(i + (r >> 40)) % 3]), 0);
    }
    for (int i = 0; i < 3; i++) {
        end[i] = umbra_arbiter_join(&arbiter[i], UMBRA_NEVER);
        cr_expect(end[i] == -EPIPE || ((r >> 32) % 3 == (unsigned)i && end[i] == -ECANCELED));
    }
    world.received++;
}

static void *closes(void *arg)
{
    struct actor *self = arg;

    while (!over())
        close_once(&self->random);
    return NULL;
}

Test(ports, closings_on_two_cores)
{
    all_do(2, closes, "times three arbiters ended");
}

Test(ports, closings_on_more_cores_than_there_are)
{
    all_do(8, closes, "times three arbiters ended");
}
