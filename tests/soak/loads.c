/* SPDX-License-Identifier: BSL-1.0 */
/* The loads: one for each module, and what a process does beside (soak.h). */
#define _GNU_SOURCE
#include "soak.h"

#include <umbra/io.h>

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- crews: fibers of one round, on cores that chance names ---- */

#define CREW_MOST 32

struct crew {
    struct load *load;
    struct umbra_fiber fiber[CREW_MOST];
    unsigned count;
};

static void crew_add(struct crew *crew, umbra_fiber_fn *fn, void *arg)
{
    uint64_t random = soak_random(&crew->load->random);
    struct umbra_spawn_options there = {.where = random & 1 ? UMBRA_ANYWHERE : UMBRA_ON_CORE,
                                        .core = (random >> 8) % CORES};

    if (soak_check(crew->load, "spawn",
                   umbra_spawn_with(soak_runtime, &there, fn, arg, &crew->fiber[crew->count])))
        crew->count++;
}

static void crew_join(struct crew *crew)
{
    for (unsigned i = 0; i < crew->count; i++)
        soak_check(crew->load, "join", umbra_join(crew->fiber[i], UMBRA_NEVER, NULL));
}

/* ---- spawn ---- */

static void *adds_one(void *arg)
{
    (*(_Atomic uint64_t *)arg)++;
    umbra_yield();
    return NULL;
}

static void spawn_round(struct load *load)
{
    struct crew crew = {.load = load};
    _Atomic uint64_t ran = 0;

    for (unsigned i = 0; i < CREW_MOST; i++)
        crew_add(&crew, adds_one, &ran);
    crew_join(&crew);
    soak_count(load, "fibers", ran, CREW_MOST);
}

/* ---- tasks ---- */

struct fib {
    unsigned n;
    uint64_t result;
};

static void fib(void *arg)
{
    struct fib *self = arg;
    struct fib left = {.n = self->n - 1}, right = {.n = self->n - 2};
    struct umbra_task task;

    if (self->n < 2) {
        self->result = self->n;
        return;
    }
    umbra_task_fork(&task, fib, &left);
    fib(&right);
    umbra_task_join(&task, UMBRA_NEVER);
    self->result = left.result + right.result;
}

static void add_range(size_t begin, size_t end, void *arg)
{
    *(_Atomic uint64_t *)arg += end - begin;
}

static void tasks_round(struct load *load)
{
    struct fib whole = {.n = 15};
    _Atomic uint64_t indices = 0;

    fib(&whole);
    soak_count(load, "tasks", whole.result, 610);
    umbra_parallel_for(0, 1000, 10, add_range, (void *)&indices);
    soak_count(load, "indices", indices, 1000);
}

/* ---- events ---- */

#define TURNS 100

struct game {
    struct load *load;
    struct umbra_event ball[2], never;
    uint64_t turns; /* the player that has the ball */
};

struct player {
    struct game *game;
    unsigned side;
};

/* A wait that gives up now and then, or is for any of two events. */
static int wait_for_ball(struct game *game, struct umbra_event *ball, uint64_t how)
{
    struct umbra_event *const both[] = {&game->never, ball};
    int error;

    if (how % 3 == 0)
        return umbra_event_wait(ball, UMBRA_NEVER);
    if (how % 3 == 1)
        return umbra_event_wait_any(both, 2, UMBRA_NEVER, NULL);
    do
        error = umbra_event_wait(ball, umbra_deadline(how % 50000));
    while (error == -ETIMEDOUT);
    return error;
}

static void *plays(void *arg)
{
    struct player *self = arg;
    struct game *game = self->game;

    for (unsigned i = 0; i < TURNS; i++) {
        soak_check(game->load, "wait", wait_for_ball(game, &game->ball[self->side], i * 977));
        game->turns++;
        umbra_event_signal(&game->ball[!self->side]);
    }
    return NULL;
}

static void events_round(struct load *load)
{
    struct game game = {.load = load};
    struct player player[2] = {{&game, 0}, {&game, 1}};
    struct crew crew = {.load = load};

    game.ball[0] = (struct umbra_event)UMBRA_EVENT_INIT;
    game.ball[1] = (struct umbra_event)UMBRA_EVENT_INIT;
    game.never = (struct umbra_event)UMBRA_EVENT_INIT;
    crew_add(&crew, plays, &player[0]);
    crew_add(&crew, plays, &player[1]);
    umbra_event_signal(&game.ball[0]);
    crew_join(&crew);
    soak_count(load, "turns", game.turns, 2 * TURNS);
}

/* ---- sync: a round in a fiber, and one in a thread ---- */

#define USERS 6
#define USES 50

struct shared {
    struct load *load;
    struct umbra_mutex mutex;
    struct umbra_condition condition; /* `turn` has changed */
    struct umbra_semaphore semaphore;
    struct umbra_rwlock rwlock;
    struct umbra_barrier barrier;
    struct umbra_latch latch;
    uint64_t locked, written; /* under mutex, under rwlock */
    unsigned turn;            /* under mutex */
};

struct user {
    struct shared *shared;
    unsigned number;
};

static void take_turn(struct shared *s, unsigned number)
{
    umbra_mutex_lock(&s->mutex);
    while (s->turn != number)
        soak_check(s->load, "condition",
                   umbra_condition_wait(&s->condition, &s->mutex, UMBRA_NEVER));
    s->turn++;
    umbra_condition_notify(&s->condition, true);
    umbra_mutex_unlock(&s->mutex);
}

static void use_locks(struct shared *s)
{
    umbra_mutex_lock(&s->mutex);
    s->locked++;
    umbra_mutex_unlock(&s->mutex);
    soak_check(s->load, "semaphore", umbra_semaphore_wait(&s->semaphore, UMBRA_NEVER));
    umbra_rwlock_write(&s->rwlock);
    s->written++;
    umbra_rwlock_unlock(&s->rwlock);
    umbra_rwlock_read(&s->rwlock);
    umbra_rwlock_unlock(&s->rwlock);
    umbra_semaphore_post(&s->semaphore, 1);
}

static void *uses_locks(void *arg)
{
    struct user *self = arg;
    struct shared *s = self->shared;

    for (unsigned i = 0; i < USES; i++)
        use_locks(s);
    umbra_barrier_wait(&s->barrier, UMBRA_NEVER);
    take_turn(s, self->number);
    umbra_latch_count_down(&s->latch);
    return NULL;
}

/* The caller is one of the users. */
static void sync_round(struct load *load)
{
    struct shared shared = {.load = load};
    struct user user[USERS];
    struct crew crew = {.load = load};

    shared.mutex = (struct umbra_mutex)UMBRA_MUTEX_INIT;
    shared.condition = (struct umbra_condition)UMBRA_CONDITION_INIT;
    shared.semaphore = (struct umbra_semaphore)UMBRA_SEMAPHORE_INIT(2);
    shared.rwlock = (struct umbra_rwlock)UMBRA_RWLOCK_INIT;
    shared.barrier = (struct umbra_barrier)UMBRA_BARRIER_INIT(USERS);
    shared.latch = (struct umbra_latch)UMBRA_LATCH_INIT(USERS);
    for (unsigned i = 0; i < USERS; i++)
        user[i] = (struct user){&shared, i};
    for (unsigned i = 1; i < USERS; i++)
        crew_add(&crew, uses_locks, &user[i]);
    uses_locks(&user[0]);
    soak_check(load, "latch", umbra_latch_wait(&shared.latch, UMBRA_NEVER));
    crew_join(&crew);
    soak_count(load, "locks", shared.locked, USERS * USES);
    soak_count(load, "writes", shared.written, USERS * USES);
    soak_count(load, "turns", shared.turn, USERS);
}

/* ---- channels ---- */

#define ITEMS 100

typedef UMBRA_CHANNEL(uint64_t) item_channel;

struct flow {
    struct load *load;
    item_channel channel;
    _Atomic uint64_t count, sum;
};

static void *pushes(void *arg)
{
    struct flow *flow = arg;

    for (uint64_t i = 1; i <= ITEMS; i++)
        soak_check(flow->load, "push", UMBRA_CHANNEL_PUSH(&flow->channel, &i, UMBRA_NEVER));
    return NULL;
}

static void *pops(void *arg)
{
    struct flow *flow = arg;
    uint64_t item;

    for (int i = 0; i < ITEMS; i++) {
        if (soak_check(flow->load, "pop", UMBRA_CHANNEL_POP(&flow->channel, &item, UMBRA_NEVER))) {
            flow->count++;
            flow->sum += item;
        }
    }
    return NULL;
}

static void channels_round(struct load *load)
{
    struct flow flow = {.load = load};
    struct crew crew = {.load = load};

    if (!soak_check(load, "open", UMBRA_CHANNEL_OPEN(&flow.channel, 4, UMBRA_CHANNEL_MANY)))
        return;
    for (int i = 0; i < 3; i++) {
        crew_add(&crew, pushes, &flow);
        crew_add(&crew, pops, &flow);
    }
    crew_join(&crew);
    soak_count(load, "items", flow.count, 3 * ITEMS);
    if (flow.sum != 3 * ITEMS * (ITEMS + 1) / 2)
        soak_check(load, "sum of the items", -EBADMSG);
    umbra_channel_fini(&flow.channel.channel);
}

/* ---- ports ---- */

#define POSTERS 3
#define LETTERS 20

struct letter {
    struct umbra_message message;
    uint64_t value;
};

typedef UMBRA_PORT(struct letter) letter_port;

struct post {
    struct load *load;
    letter_port *port;
    struct letter letter[LETTERS];
};

static void *posts(void *arg)
{
    struct post *post = arg;

    for (unsigned i = 0; i < LETTERS; i++)
        soak_check(post->load, "post", UMBRA_PORT_POST(post->port, &post->letter[i], UMBRA_NEVER));
    return NULL;
}

static void ports_round(struct load *load)
{
    letter_port port = {UMBRA_PORT_INIT_BOUNDED(4)};
    struct post post[POSTERS];
    struct crew crew = {.load = load};
    uint64_t had = 0;

    memset(post, 0, sizeof(post));
    for (int i = 0; i < POSTERS; i++) {
        post[i].load = load;
        post[i].port = &port;
        for (unsigned k = 0; k < LETTERS; k++)
            post[i].letter[k].value = 1;
        crew_add(&crew, posts, &post[i]);
    }
    for (unsigned i = 0; i < crew.count * LETTERS; i++) {
        struct letter *letter;

        if (soak_check(load, "receive", UMBRA_PORT_RECEIVE(&port, &letter, UMBRA_NEVER)))
            had += letter->value;
    }
    crew_join(&crew);
    soak_count(load, "letters", had, (uint64_t)POSTERS * LETTERS);
}

/* ---- dispatcher ---- */

static int adds_indices(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    *(_Atomic uint64_t *)arg += value.end - value.begin;
    return 0;
}

static void dispatch_round(struct load *load)
{
    _Atomic uint64_t sum = 0;
    struct umbra_dispatch_options options = {.fn = adds_indices, .arg = (void *)&sum};
    struct umbra_dispatch *dispatch;

    if (!soak_check(load, "create", umbra_dispatch_create(soak_runtime, &options, &dispatch)))
        return;
    for (int step = 0; step < 5; step++) {
        soak_check(load, "begin", umbra_dispatch_begin(dispatch));
        soak_check(load, "range", umbra_dispatch_range(dispatch, 0, 200, 3));
        soak_check(load, "end", umbra_dispatch_end(dispatch, UMBRA_NEVER));
    }
    soak_check(load, "destroy", umbra_dispatch_destroy(dispatch));
    soak_count(load, "values", sum, 5 * 200);
}

/* ---- team and shadow, which need processors: an affinity may leave too few ---- */

static bool is_refusal(struct load *load, int error)
{
    if (error != -ENODEV && error != -ENOSPC && error != -EINVAL)
        return false;
    load->refused++;
    return true;
}

struct team_sum {
    struct umbra_team *team;
    _Atomic uint64_t parts;
};

static void part(unsigned member, unsigned members, void *arg)
{
    struct team_sum *sum = arg;

    (void)members;
    sum->parts++;
    umbra_team_barrier(sum->team, member);
}

static void team_round(struct load *load)
{
    struct umbra_team_options options = {.members = 3};
    struct team_sum sum = {.parts = 0};
    int error = umbra_team_create(&options, &sum.team);

    if (is_refusal(load, error) || !soak_check(load, "create", error))
        return;
    for (int i = 0; i < 20; i++)
        soak_check(load, "run", umbra_team_run(sum.team, 0, part, &sum));
    soak_check(load, "destroy", umbra_team_destroy(sum.team));
    soak_count(load, "parts", sum.parts, 3 * 20);
}

static void add_one(void *arg)
{
    ++*(uint64_t *)arg;
}

static void shadow_round(struct load *load)
{
    struct umbra_shadow shadow;
    uint64_t calls = 0;
    int error = shadow_create(&shadow, NULL);

    if (is_refusal(load, error) || !soak_check(load, "create", error))
        return;
    for (int i = 0; i < 50; i++) {
        soak_check(load, "fork", shadow_fork(&shadow, add_one, &calls));
        soak_check(load, "join", shadow_join(&shadow));
    }
    soak_check(load, "destroy", shadow_destroy(&shadow));
    soak_count(load, "calls", calls, 50);
}

/* ---- blocking calls ---- */

static void sleep_and_add(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    (*(_Atomic uint64_t *)arg)++;
}

struct blocked {
    struct load *load;
    _Atomic uint64_t calls;
};

static void *calls_blocking(void *arg)
{
    struct blocked *blocked = arg;

    for (int i = 0; i < 10; i++)
        soak_check(blocked->load, "call", umbra_blocking(sleep_and_add, (void *)&blocked->calls));
    return NULL;
}

static void blocking_round(struct load *load)
{
    struct blocked blocked = {.load = load};
    struct crew crew = {.load = load};

    for (int i = 0; i < 8; i++)
        crew_add(&crew, calls_blocking, &blocked);
    crew_join(&crew);
    soak_count(load, "calls", blocked.calls, 8 * 10);
}

/* ---- io ---- */

#define STREAM_BYTES 65536

struct stream {
    struct load *load;
    int end[2];
    uint64_t received;
};

static void *sends(void *arg)
{
    struct stream *stream = arg;
    char text[3000] = {0};

    for (size_t left = STREAM_BYTES, sent; left > 0; left -= sent) {
        size_t bytes = left < sizeof(text) ? left : sizeof(text);

        sent = 0;
        if (!soak_check(stream->load, "send",
                        umbra_io_send(stream->end[0], text, bytes, UMBRA_NEVER, &sent)))
            break;
    }
    shutdown(stream->end[0], SHUT_WR);
    return NULL;
}

static void *receives(void *arg)
{
    struct stream *stream = arg;
    char text[5000];
    size_t got;

    do {
        got = 0;
        soak_check(stream->load, "receive",
                   umbra_io_recv(stream->end[1], text, sizeof(text), UMBRA_NEVER, &got));
        stream->received += got;
    } while (got > 0);
    return NULL;
}

static void io_round(struct load *load)
{
    struct stream stream = {.load = load};
    struct crew crew = {.load = load};

    if (!soak_check(load, "socketpair",
                    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream.end)))
        return;
    crew_add(&crew, sends, &stream);
    crew_add(&crew, receives, &stream);
    crew_join(&crew);
    close(stream.end[0]);
    close(stream.end[1]);
    soak_count(load, "bytes", stream.received, STREAM_BYTES);
}

/* ---- times and cancellation ---- */

struct canceled {
    struct load *load;
    struct umbra_event never;
    _Atomic uint64_t ends;
};

static void *waits_for_ever(void *arg)
{
    struct canceled *canceled = arg;

    if (umbra_event_wait(&canceled->never, UMBRA_NEVER) == -ECANCELED)
        canceled->ends++;
    return NULL;
}

static void *sleeps(void *arg)
{
    struct canceled *canceled = arg;
    uint64_t start = umbra_now_ns();

    soak_check(canceled->load, "sleep", umbra_sleep_ns(500000));
    if (umbra_now_ns() - start >= 500000)
        canceled->ends++;
    return NULL;
}

static void cancel_round(struct load *load)
{
    struct canceled canceled = {.load = load};
    struct crew crew = {.load = load};

    canceled.never = (struct umbra_event)UMBRA_EVENT_INIT;
    for (int i = 0; i < 5; i++) {
        crew_add(&crew, waits_for_ever, &canceled);
        crew_add(&crew, sleeps, &canceled);
    }
    for (unsigned i = 0; i < crew.count; i += 2)
        soak_check(load, "cancel", umbra_cancel(crew.fiber[i]));
    crew_join(&crew);
    soak_count(load, "ends", canceled.ends, 10);
}

/* ---- beside: another runtime; children ---- */

static void *runs_crew(void *arg)
{
    for (int i = 0; i < 10; i++)
        umbra_spawn(adds_one, arg, NULL);
    return NULL;
}

static void runtime_round(struct load *load)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};
    _Atomic uint64_t ran = 0;
    int error = umbra_run(&options, runs_crew, (void *)&ran);

    if (is_refusal(load, error) || !soak_check(load, "run", error))
        return;
    soak_count(load, "fibers", ran, 10);
}

extern char **environ;

static uint64_t ended_with(pid_t child, int wanted)
{
    int status;

    return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == wanted;
}

static void children_round(struct load *load)
{
    char *const argv[] = {(char *)"true", NULL};
    pid_t child = fork();

    if (child == 0)
        _exit(7);
    soak_count(load, "forked", ended_with(child, 7), 1);
    if (soak_check(load, "posix_spawn", posix_spawnp(&child, "true", NULL, NULL, argv, environ)))
        soak_count(load, "executed", ended_with(child, 0), 1);
}

struct load soak_loads[] = {
    {.name = "spawn", .round = spawn_round},
    {.name = "spawn-outside", .round = spawn_round, .outside = true},
    {.name = "tasks", .round = tasks_round},
    {.name = "events", .round = events_round},
    {.name = "sync", .round = sync_round},
    {.name = "sync-outside", .round = sync_round, .outside = true},
    {.name = "channels", .round = channels_round},
    {.name = "ports", .round = ports_round},
    {.name = "ports-outside", .round = ports_round, .outside = true},
    {.name = "dispatcher", .round = dispatch_round},
    {.name = "blocking", .round = blocking_round},
    {.name = "io", .round = io_round},
    {.name = "cancel", .round = cancel_round},
    {.name = "team", .round = team_round, .outside = true},
    {.name = "shadow", .round = shadow_round, .outside = true},
    {.name = "runtimes", .round = runtime_round, .outside = true},
    {.name = "children", .round = children_round, .outside = true},
    {.name = "wakes", .round = wakes_round, .outside = true},
};

const unsigned soak_load_count = sizeof(soak_loads) / sizeof(soak_loads[0]);
