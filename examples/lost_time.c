/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Where did a millisecond go? One fiber asks another, on the next core, and measures how long the
 * answer takes. Now and then it takes much too long; then the program marks that in its trace.
 * docs/trace.md reads the trace: UMBRA_TRACE=lost.trace lost_time
 */
#include <errno.h>
#include <stdio.h>

#include <umbra.h>

#define QUESTIONS 200
#define EVERY_NS 50000     /* between two questions */
#define LONG_NS 1000000    /* what the compressor does at a time */
#define TOO_LONG_NS 500000 /* an answer that is looked into */

static struct umbra_event question = UMBRA_EVENT_INIT, answer = UMBRA_EVENT_INIT;
static struct umbra_event over = UMBRA_EVENT_INIT;

static void *answers(void *arg)
{
    while (umbra_event_wait(&question, UMBRA_NEVER) == 0)
        umbra_event_signal(&answer);
    return arg;
}

/* The mistake: this holds its core for a millisecond, with no umbra_yield() on the way. */
static void *compresses(void *arg)
{
    while (umbra_event_wait(&over, umbra_deadline(4 * LONG_NS)) == -ETIMEDOUT)
        for (uint64_t end = umbra_now_ns() + LONG_NS; umbra_now_ns() < end;)
            umbra_pause();
    return arg;
}

/* Asks, and returns how long the answer took. */
static uint64_t ask(unsigned number)
{
    uint64_t start = umbra_now_ns(), took;

    umbra_event_signal(&question);
    umbra_event_wait(&answer, UMBRA_NEVER);
    took = umbra_now_ns() - start;
    if (took > TOO_LONG_NS)
        umbra_trace_mark("too long: question", number);
    return took;
}

static void *asks(void *slow)
{
    struct umbra_spawn_options there = {.where = UMBRA_ON_CORE, .name = "answers"};
    struct umbra_fiber answerer, compressor;

    there.core = umbra_runtime_cores(umbra_runtime_self()) - 1;
    umbra_spawn_with(NULL, &there, answers, NULL, &answerer);
    there.name = "compresses";
    umbra_spawn_with(NULL, &there, compresses, NULL, &compressor);
    for (unsigned i = 0; i < QUESTIONS; i++) {
        *(unsigned *)slow += ask(i) > TOO_LONG_NS;
        umbra_sleep_ns(EVERY_NS);
    }
    umbra_event_signal(&over);
    umbra_cancel(answerer);
    umbra_join(answerer, UMBRA_NEVER, NULL);
    umbra_join(compressor, UMBRA_NEVER, NULL);
    return NULL;
}

int main(void)
{
    struct umbra_options options = {.cores = 2, .oversubscribe = true};
    unsigned slow = 0;
    int error = umbra_run(&options, asks, &slow);

    if (error != 0)
        fprintf(stderr, "lost_time: %s\n", umbra_last_error_text());
    else
        printf("%u of %u answers took too long\n", slow, QUESTIONS);
    return error != 0;
}
