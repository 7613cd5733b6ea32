/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The shape of a server: one fiber for each of 100,000 sessions, spread over the cores, each asleep
 * until a request for it comes. A plain thread, which is no core, stands for the network: it brings
 * requests in a random order and takes the answers. Printed are what a sleeping session costs and
 * how long requests take.
 *
 *     sessions [SESSIONS [REQUESTS]]
 *
 * Exit status: 0; 1 something failed; 2 bad argument.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/event.h>

#define IN_FLIGHT 64 /* requests that the network has sent and not yet seen answered, at most */

struct session {
    _Alignas(UMBRA_CACHE_LINE) struct umbra_event request; /* signaled by the network */
    unsigned long asked;          /* the network's, before it signals; 0: the session ends */
    _Atomic unsigned long served; /* the session's */
};

static struct session *session;
/* After each answer. */
static _Alignas(UMBRA_CACHE_LINE) struct umbra_event answered = UMBRA_EVENT_INIT;
static _Atomic unsigned long answers;
static _Atomic unsigned long wrong;

static void *serve(void *arg)
{
    struct session *self = arg;

    for (;;) {
        umbra_event_wait(&self->request, UMBRA_NEVER);
        if (self->asked == 0)
            return NULL;
        if (self->asked != atomic_fetch_add(&self->served, 1) + 1)
            atomic_fetch_add(&wrong, 1);
        atomic_fetch_add(&answers, 1);
        umbra_event_signal(&answered);
    }
}

/* ---- the network: a plain thread ---- */

static uint64_t random_state = 88172645463325252u;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static bool enough_answered(void *sent)
{
    return *(unsigned long *)sent - atomic_load(&answers) < IN_FLIGHT;
}

static bool all_answered(void *sent)
{
    return *(unsigned long *)sent == atomic_load(&answers);
}

/* A session, by chance, that has answered all it was asked. */
static struct session *free_session(unsigned long sessions)
{
    struct session *to;

    do {
        to = &session[random_next() % sessions];
    } while (to->asked != atomic_load(&to->served));
    return to;
}

static void network(unsigned long sessions, unsigned long requests)
{
    unsigned long sent = 0;

    while (sent < requests) {
        struct session *to = free_session(sessions);

        to->asked++;
        umbra_event_signal(&to->request);
        sent++;
        umbra_event_wait_until(&answered, enough_answered, &sent, UMBRA_NEVER);
    }
    umbra_event_wait_until(&answered, all_answered, &sent, UMBRA_NEVER);
}

/* ---- measuring ---- */

/* Resident memory and page tables of this process, KiB. */
static unsigned long memory_kib(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    unsigned long sum = 0, value;
    char line[256];

    while (status && fgets(line, sizeof(line), status))
        if (sscanf(line, "VmRSS: %lu", &value) == 1 || sscanf(line, "VmPTE: %lu", &value) == 1)
            sum += value;
    if (status)
        fclose(status);
    return sum;
}

static int spawn_sessions(struct umbra_runtime *runtime, unsigned long sessions)
{
    unsigned cores = umbra_runtime_cores(runtime);
    int error = 0;

    for (unsigned long i = 0; i < sessions && error == 0; i++) {
        struct umbra_spawn_options at = {.where = UMBRA_ON_CORE, .core = i % cores};

        session[i].request = (struct umbra_event)UMBRA_EVENT_INIT;
        error = umbra_spawn_with(runtime, &at, serve, &session[i], NULL);
    }
    return error;
}

static int run(struct umbra_runtime *runtime, unsigned long sessions, unsigned long requests)
{
    unsigned long before = memory_kib();
    uint64_t start = umbra_now_ns();
    int error = spawn_sessions(runtime, sessions);

    if (error == 0) {
        printf("%lu sessions: %.0f ns each to make,", sessions,
               (double)(umbra_now_ns() - start) / (double)sessions);
        umbra_sleep_ns(20000000); /* until all are asleep */
        printf(" %.0f bytes each asleep\n",
               (double)(memory_kib() - before) * 1024 / (double)sessions);
        start = umbra_now_ns();
        network(sessions, requests);
        printf("%lu requests: %.0f ns each\n", requests,
               (double)(umbra_now_ns() - start) / (double)requests);
    }
    for (unsigned long i = 0; i < sessions; i++) {
        session[i].asked = 0;
        umbra_event_signal(&session[i].request);
    }
    return error == 0 ? umbra_runtime_wait(runtime) : error;
}

static bool parse(const char *text, unsigned long *number)
{
    char *end;

    *number = strtoul(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == 0 && *number >= 100 && *number <= 10000000)
        return true;
    fprintf(stderr, "sessions: not a number from 100 to 10000000: '%s'\n", text);
    return false;
}

int main(int argc, char **argv)
{
    unsigned long sessions = 100000, requests = 1000000;
    struct umbra_runtime *runtime;
    int error;

    if (argc > 3) {
        fprintf(stderr, "sessions: unknown argument: '%s'\n", argv[3]);
        return 2;
    }
    if ((argc > 1 && !parse(argv[1], &sessions)) || (argc > 2 && !parse(argv[2], &requests)))
        return 2;
    session = aligned_alloc(UMBRA_CACHE_LINE, sessions * sizeof(*session));
    if (!session) {
        fprintf(stderr, "sessions: no memory\n");
        return 1;
    }
    memset(session, 0, sessions * sizeof(*session));
    error = umbra_runtime_create(NULL, &runtime);
    if (error) {
        fprintf(stderr, "sessions: %s\n", umbra_last_error_text());
    } else {
        error = run(runtime, sessions, requests);
        umbra_runtime_destroy(runtime);
        if (error)
            fprintf(stderr, "sessions: %s\n", strerror(-error));
    }
    free(session);
    return error || atomic_load(&wrong) ? 1 : 0;
}
