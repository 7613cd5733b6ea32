/* SPDX-License-Identifier: BSL-1.0 */
#define _GNU_SOURCE
#include "fibers.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define VALUES 20000

static _Atomic unsigned char seen[VALUES];

/* Runs fn(dispatch) with a dispatcher, in a fiber and in a thread, on one core and on several. */
struct with {
    struct umbra_dispatch_options options;
    void (*fn)(struct umbra_dispatch *dispatch);
    struct umbra_runtime *runtime;
};

static void *with_one(void *arg)
{
    struct with *with = arg;
    struct umbra_dispatch *dispatch = NULL;

    cr_expect_eq(umbra_dispatch_create(with->runtime, &with->options, &dispatch), 0);
    if (dispatch)
        with->fn(dispatch);
    umbra_dispatch_destroy(dispatch);
    return NULL;
}

static void everywhere(struct umbra_dispatch_options options,
                       void (*fn)(struct umbra_dispatch *dispatch))
{
    struct with with = {.options = options, .fn = fn};

    for (unsigned cores = 1; cores <= 3; cores++) {
        struct umbra_options run = {.cores = cores, .oversubscribe = true, .quiet = true};

        with.runtime = NULL;
        cr_assert_eq(umbra_run(&run, with_one, &with), 0);
        cr_assert_eq(umbra_runtime_create(&run, &with.runtime), 0);
        with_one(&with);
        cr_assert_eq(umbra_runtime_wait(with.runtime), 0);
        umbra_runtime_destroy(with.runtime);
    }
}

static int sees(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    (void)arg;
    for (size_t i = value.begin; i < value.end; i++)
        seen[i]++;
    if (value.end == 0)
        ++*(_Atomic unsigned char *)value.pointer;
    return 0;
}

static void expect_seen(size_t begin, size_t end, int times)
{
    for (size_t i = 0; i < VALUES; i++)
        cr_expect_eq(seen[i], i >= begin && i < end ? times : 0, "%zu", i);
    memset((void *)seen, 0, sizeof(seen));
}

static void ranges(struct umbra_dispatch *dispatch)
{
    static const size_t grains[] = {0, 1, 2, 7, 999, VALUES, 3 * VALUES};

    for (size_t i = 0; i < sizeof(grains) / sizeof(*grains); i++) {
        cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
        cr_expect_eq(umbra_dispatch_range(dispatch, 5, VALUES, grains[i]), 0);
        cr_expect_eq(umbra_dispatch_range(dispatch, 7, 7, 1), 0);
        cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
        expect_seen(5, VALUES, 1);
    }
}

Test(dispatch, each_index_of_a_range_is_processed_once)
{
    everywhere((struct umbra_dispatch_options){.fn = sees}, ranges);
    everywhere((struct umbra_dispatch_options){.fn = sees, .workers = 7}, ranges);
}

static void pointers(struct umbra_dispatch *dispatch)
{
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    for (int i = 0; i < VALUES; i++)
        cr_expect_eq(umbra_dispatch_put(dispatch, (void *)&seen[i], i % 3 - 1), 0);
    cr_expect_eq(umbra_dispatch_put(dispatch, NULL, UMBRA_ANY_NODE), -EINVAL);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    expect_seen(0, VALUES, 1);
}

Test(dispatch, each_pointer_is_processed_once)
{
    everywhere((struct umbra_dispatch_options){.fn = sees}, pointers);
}

/* ---- steps that are not ended in time, or not at all ---- */

static struct umbra_event step_may_end;

static int waits_to_end(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)arg;
    cr_expect_eq(umbra_event_wait(&step_may_end, UMBRA_NEVER), 0);
    return sees(worker, value, NULL);
}

static void ends_in_time(struct umbra_dispatch *dispatch)
{
    step_may_end = (struct umbra_event)UMBRA_EVENT_INIT;
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_range(dispatch, 3, 4, 1), 0);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(umbra_dispatch_end(dispatch, umbra_deadline(MS)), -ETIMEDOUT);
    cr_expect_eq(umbra_dispatch_begin(dispatch), -EBUSY, "it is under way");
    cr_expect_eq(umbra_dispatch_destroy(dispatch), -EBUSY);
    umbra_event_signal(&step_may_end);
    cr_expect_eq(umbra_dispatch_end(dispatch, umbra_deadline(10 * SECOND)), 0);
    expect_seen(3, 4, 1);
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_range(dispatch, 5, 6, 1), 0);
    cr_expect_eq(umbra_dispatch_end(dispatch, 0), -ETIMEDOUT);
    umbra_event_signal(&step_may_end);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    expect_seen(5, 6, 1);
}

Test(dispatch, a_step_whose_end_was_not_in_time_is_ended_again)
{
    everywhere((struct umbra_dispatch_options){.fn = waits_to_end}, ends_in_time);
}

static int begins_no_step(struct umbra_dispatch *dispatch, size_t step, void *arg)
{
    (void)step;
    (void)arg;
    cr_expect_eq(umbra_dispatch_begin(dispatch), -EBUSY);
    cr_expect_eq(umbra_dispatch_destroy(dispatch), -EBUSY);
    return 0;
}

static void one_at_a_time(struct umbra_dispatch *dispatch)
{
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), -EINVAL, "none has begun");
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_range(dispatch, 0, VALUES, 1), 0);
    cr_expect_eq(umbra_dispatch_begin(dispatch), -EBUSY);
    cr_expect_eq(umbra_dispatch_steps(dispatch, begins_no_step, NULL), -EBUSY);
    cr_expect_eq(umbra_dispatch_destroy(dispatch), -EBUSY);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    expect_seen(0, VALUES, 1);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), -EINVAL);
    cr_expect_eq(umbra_dispatch_steps(dispatch, begins_no_step, NULL), 0);
}

Test(dispatch, there_is_one_step_at_a_time)
{
    everywhere((struct umbra_dispatch_options){.fn = sees}, one_at_a_time);
}

static void *ends_canceled(void *arg)
{
    struct umbra_dispatch_options options = {.fn = waits_to_end};
    struct umbra_dispatch *dispatch;

    step_may_end = (struct umbra_event)UMBRA_EVENT_INIT;
    cr_expect_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_range(dispatch, 0, 1, 1), 0);
    umbra_cancel(umbra_self());
    cr_expect_eq(umbra_dispatch_end(dispatch, umbra_deadline(MS)), -ETIMEDOUT);
    umbra_event_signal(&step_may_end);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    expect_seen(0, 1, 1);
    cr_expect_eq(umbra_dispatch_destroy(dispatch), 0);
    return arg;
}

Test(dispatch, a_fiber_that_is_canceled_waits_for_the_end_all_the_same)
{
    cr_assert_eq(run_cores(2, ends_canceled, NULL), 0);
}

static void many_steps(struct umbra_dispatch *dispatch)
{
    for (size_t step = 0; step < 2000; step++) {
        cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
        cr_expect_eq(umbra_dispatch_range(dispatch, 0, step % 5, 1), 0);
        cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
        for (size_t i = 0; i < step % 5; i++)
            cr_expect_eq(atomic_exchange(&seen[i], 0), 1);
    }
}

Test(dispatch, steps_follow_each_other)
{
    everywhere((struct umbra_dispatch_options){.fn = sees}, many_steps);
}

static _Atomic long leaves;

static int halves(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    size_t middle = value.begin + (value.end - value.begin) / 2;

    (void)arg;
    if (value.end - value.begin == 1) {
        leaves++;
        return 0;
    }
    cr_expect_eq(umbra_worker_range(worker, value.begin, middle, VALUES, UMBRA_ANY_WORKER), 0);
    return umbra_worker_range(worker, middle, value.end, VALUES, UMBRA_ANY_WORKER);
}

static void grows(struct umbra_dispatch *dispatch)
{
    for (int i = 0; i < 3; i++) {
        leaves = 0;
        cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
        cr_expect_eq(umbra_dispatch_range(dispatch, 0, VALUES, VALUES), 0);
        cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
        cr_expect_eq(leaves, VALUES);
    }
}

Test(dispatch, values_may_be_added_while_they_are_processed)
{
    everywhere((struct umbra_dispatch_options){.fn = halves}, grows);
}

struct source {
    struct umbra_dispatch *dispatch;
    size_t first;
};

static void *puts_some(void *arg)
{
    struct source *source = arg;

    for (size_t i = source->first; i < source->first + 500; i++) {
        cr_expect_eq(umbra_dispatch_put(source->dispatch, (void *)&seen[i], UMBRA_ANY_NODE), 0);
        if (i % 50 == 0)
            umbra_sleep_ns(MS / 10);
    }
    umbra_source_close(source->dispatch);
    return NULL;
}

static void sources(struct umbra_dispatch *dispatch)
{
    struct source source[3];
    pthread_t thread[3];

    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    for (size_t i = 0; i < 3; i++) {
        source[i] = (struct source){dispatch, i * 500};
        umbra_source_open(dispatch);
        cr_expect_eq(pthread_create(&thread[i], NULL, puts_some, &source[i]), 0);
    }
    cr_expect_eq(umbra_dispatch_range(dispatch, 1500, 2000, 3), 0);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    expect_seen(0, 2000, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
}

Test(dispatch, a_step_lasts_until_all_sources_are_complete)
{
    everywhere((struct umbra_dispatch_options){.fn = sees}, sources);
}

static int fails_at_700(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    sees(worker, value, arg);
    return value.begin == 700 ? -EIO : 0;
}

static void errors(struct umbra_dispatch *dispatch)
{
    struct umbra_value rest;

    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_range(dispatch, 0, VALUES, 1), 0);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), -EIO);
    while (umbra_dispatch_left(dispatch, &rest))
        sees(NULL, rest, NULL);
    expect_seen(0, VALUES, 1);
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_range(dispatch, 701, VALUES, 1), 0);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    expect_seen(701, VALUES, 1);
}

Test(dispatch, an_error_stops_the_step_and_nothing_is_lost)
{
    everywhere((struct umbra_dispatch_options){.fn = fails_at_700}, errors);
}

static int cancels(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    sees(worker, value, arg);
    if (value.begin == 20)
        umbra_dispatch_cancel(*(struct umbra_dispatch **)arg);
    return 0;
}

static struct umbra_dispatch *cancelled;

static void is_cancelled(struct umbra_dispatch *dispatch)
{
    struct umbra_value rest;

    cancelled = dispatch;
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_range(dispatch, 0, VALUES, 1), 0);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), -ECANCELED);
    while (umbra_dispatch_left(dispatch, &rest))
        sees(NULL, rest, NULL);
    expect_seen(0, VALUES, 1);
}

Test(dispatch, a_step_can_be_cancelled)
{
    everywhere((struct umbra_dispatch_options){.fn = cancels, .arg = &cancelled}, is_cancelled);
}

/* ---- workers ---- */

static int states[3];

static int is_first(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    cr_expect_eq(worker->index, 0);
    cr_expect_eq(worker->state, &states[0]);
    ++*(int *)worker->scratch;
    return sees(worker, value, arg);
}

static int is_other(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    unsigned index = worker->index;
    unsigned char *scratch = worker->scratch;

    cr_expect(index == 1 || index == 2);
    cr_expect_eq(worker->state, &states[index]);
    cr_expect_eq((uintptr_t)scratch % 64, 0);
    for (size_t i = 4; i < 1000; i++)
        cr_expect(scratch[i] == 0 || scratch[i] == index);
    memset(scratch + 4, (int)index, 996);
    return sees(worker, value, arg);
}

static void two_steps(struct umbra_dispatch *dispatch)
{
    cr_expect_eq(dispatch->workers, 3);
    for (int step = 1; step <= 2; step++) {
        cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
        cr_expect_eq(umbra_dispatch_range(dispatch, 0, 300, 1), 0);
        cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
        expect_seen(0, 300, 1);
    }
}

Test(dispatch, workers_have_functions_states_and_buffers_of_their_own)
{
    static umbra_dispatch_fn *const fns[] = {is_first, is_other, is_other};
    static void *const own[] = {&states[0], &states[1], &states[2]};

    everywhere(
        (struct umbra_dispatch_options){
            .fns = fns, .states = own, .workers = 3, .scratch_bytes = 1000},
        two_steps);
}

static _Atomic int left; /* values that others must take */

static int leaves_them_to_others(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)arg;
    if (value.begin != 0) {
        left--;
        return 0;
    }
    left = 10;
    for (size_t i = 1; i <= 10; i++)
        cr_expect_eq(umbra_worker_range(worker, i, i + 1, 1, UMBRA_ANY_WORKER), 0);
    while (left > 0)
        umbra_yield();
    return 0;
}

static void hungry(struct umbra_dispatch *dispatch)
{
    for (int i = 0; i < 50; i++) {
        cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
        cr_expect_eq(umbra_dispatch_range(dispatch, 0, 1, 1), 0);
        cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
        cr_expect_eq(left, 0);
    }
}

Test(dispatch, a_hungry_worker_gets_what_a_busy_one_has_queued)
{
    everywhere((struct umbra_dispatch_options){.fn = leaves_them_to_others, .workers = 2}, hungry);
}

static int requests(struct umbra_dispatch *dispatch)
{
    return __builtin_popcountll(um_atomic_load(&dispatch->step.asking[0], seq_cst));
}

/* On the workers' core, so that those who were answered do not run, and ask again, meanwhile. */
static void *ranges_for_the_hungry(void *arg)
{
    struct umbra_dispatch_options options = {.fn = sees, .workers = 5};
    struct umbra_dispatch *dispatch;

    cr_assert_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    for (int values = 0; values < 8; values++) {
        cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
        while (requests(dispatch) < 5) /* who rests when the step ends has yet to ask */
            umbra_yield();
        cr_expect_eq(umbra_dispatch_range(dispatch, 0, (size_t)values, 1), 0);
        cr_expect_eq(requests(dispatch), values < 5 ? 5 - values : 0, "%d values", values);
        cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    }
    umbra_dispatch_destroy(dispatch);
    return arg;
}

Test(dispatch, no_more_are_woken_than_there_are_values)
{
    cr_assert_eq(run_cores(1, ranges_for_the_hungry, NULL), 0);
}

static _Atomic int unanswered; /* requests while the value was processed that was stolen */

static int lets_it_be_stolen(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    struct umbra_dispatch **dispatch = arg;

    if (value.begin != 0) {
        unanswered = requests(*dispatch);
        return 0;
    }
    cr_expect_eq(umbra_worker_range(worker, 1, 2, 1, UMBRA_ANY_WORKER), 0);
    while (unanswered < 0)
        umbra_yield();
    return 0;
}

static void *one_value_to_steal(void *arg)
{
    struct umbra_dispatch *dispatch;
    struct umbra_dispatch_options options = {
        .fn = lets_it_be_stolen, .workers = 5, .arg = &dispatch};

    unanswered = -1;
    cr_assert_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_range(dispatch, 0, 1, 1), 0);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    cr_expect_eq(unanswered, 3, "all but the two who have a value");
    umbra_dispatch_destroy(dispatch);
    return arg;
}

Test(dispatch, who_steals_a_value_wakes_nobody_for_it)
{
    cr_assert_eq(run_cores(1, one_value_to_steal, NULL), 0);
}

/* A range that one worker queues while it processes a value, a part for each of the others: all of them
 * are in the midst of it at once. */
#define PARTS_AT_ONCE 3

static _Atomic int at_once;

static int waits_for_all(void)
{
    uint64_t late = umbra_deadline(10 * SECOND);

    while (at_once < PARTS_AT_ONCE)
        if (umbra_now_ns() > late)
            return -ETIMEDOUT;
        else
            umbra_yield();
    return 0;
}

/* arg: whether for the next worker. */
static int queues_a_range_or_is_part(struct umbra_worker *worker, struct umbra_value value,
                                     void *arg)
{
    unsigned next = (worker->index + 1) % (1 + PARTS_AT_ONCE);

    if (value.end != 0)
        at_once++;
    else if (*(const bool *)arg)
        cr_expect_eq(umbra_worker_range(worker, 0, PARTS_AT_ONCE, 1, (int)next), 0);
    else
        cr_expect_eq(umbra_worker_range(worker, 0, PARTS_AT_ONCE, 1, UMBRA_ANY_WORKER), 0);
    return waits_for_all();
}

static void *range_of_one_worker(void *arg)
{
    struct umbra_dispatch *dispatch;
    struct umbra_dispatch_options options = {
        .fn = queues_a_range_or_is_part, .arg = arg, .workers = 1 + PARTS_AT_ONCE};

    at_once = 0;
    cr_assert_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_put(dispatch, &options, UMBRA_ANY_NODE), 0);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    umbra_dispatch_destroy(dispatch);
    return arg;
}

Test(dispatch, nobody_is_hungry_while_a_range_has_parts_left)
{
    bool for_next = false;

    for (unsigned cores = 1; cores <= 2; cores++)
        cr_assert_eq(run_cores(cores, range_of_one_worker, &for_next), 0);
}

Test(dispatch, nobody_is_hungry_while_a_range_for_another_has_parts_left)
{
    bool for_next = true;

    for (unsigned cores = 1; cores <= 2; cores++)
        cr_assert_eq(run_cores(cores, range_of_one_worker, &for_next), 0);
}

/* Values that one worker queues for others, of which all are hungry, on one core: those it queues them
 * for are woken, and get them. */
#define FOR_OTHERS 6

static int queues_for_others(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    unsigned *got = arg; /* by value: who had it */

    if (value.end == 0) {
        *(unsigned *)value.pointer = worker->index;
        return 0;
    }
    if (value.begin > 0) {
        got[value.begin] = worker->index;
        return 0;
    }
    cr_expect_eq(umbra_worker_put(worker, &got[4], 4), 0);
    cr_expect_eq(umbra_worker_range(worker, 2, 3, 1, 2), 0);
    cr_expect_eq(umbra_worker_put(worker, &got[5], 5), 0);
    cr_expect_eq(umbra_worker_range(worker, 3, 4, 0, 3), 0);
    cr_expect_eq(umbra_worker_range(worker, 1, 1, 0, 1), 0, "empty");
    cr_expect_eq(umbra_worker_put(worker, &got[1], FOR_OTHERS), -EINVAL);
    cr_expect_eq(umbra_worker_put(worker, NULL, 1), -EINVAL);
    cr_expect_eq(umbra_worker_range(worker, 1, 2, 1, FOR_OTHERS), -EINVAL);
    return 0;
}

static void *values_for_others(void *arg)
{
    unsigned got[FOR_OTHERS] = {0, FOR_OTHERS};
    struct umbra_dispatch *dispatch;
    struct umbra_dispatch_options options = {
        .fn = queues_for_others, .arg = got, .workers = FOR_OTHERS};

    cr_assert_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_range(dispatch, 0, 1, 1), 0);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    for (unsigned i = 2; i < FOR_OTHERS; i++)
        cr_expect_eq(got[i], i, "value %u: worker %u", i, got[i]);
    cr_expect_eq(got[1], FOR_OTHERS, "was refused");
    umbra_dispatch_destroy(dispatch);
    return arg;
}

Test(dispatch, a_value_for_a_worker_wakes_that_one)
{
    cr_assert_eq(run_cores(1, values_for_others, NULL), 0);
}

static void *refusals(void *arg)
{
    umbra_dispatch_fn *const fns[2] = {sees, NULL};
    struct umbra_dispatch_options options = {.fn = sees, .workers = 1025};
    struct umbra_dispatch *dispatch = NULL;

    cr_expect_eq(umbra_dispatch_create(NULL, &options, &dispatch), -EINVAL);
    options = (struct umbra_dispatch_options){.workers = 1};
    cr_expect_eq(umbra_dispatch_create(NULL, &options, &dispatch), -EINVAL);
    options = (struct umbra_dispatch_options){.fns = fns, .workers = 2};
    cr_expect_eq(umbra_dispatch_create(NULL, &options, &dispatch), -EINVAL);
    options = (struct umbra_dispatch_options){.fn = sees, .scratch_bytes = SIZE_MAX};
    cr_expect_eq(umbra_dispatch_create(NULL, &options, &dispatch), -ENOMEM);
#if !defined(UMBRA_UNDER_TSAN) && !defined(UMBRA_UNDER_ASAN) /* which end the program for it */
    options = (struct umbra_dispatch_options){.fn = sees, .scratch_bytes = SIZE_MAX / 4};
    cr_expect_eq(umbra_dispatch_create(NULL, &options, &dispatch), -ENOMEM);
#endif
    cr_expect_null(dispatch);
    cr_expect_eq(umbra_dispatch_destroy(NULL), 0);
    return arg;
}

Test(dispatch, what_cannot_be_made_is_refused)
{
    struct umbra_dispatch_options options = {.fn = sees};
    struct umbra_dispatch *dispatch;

    cr_assert_eq(umbra_dispatch_create(NULL, &options, &dispatch), -EPERM);
    cr_assert_eq(run_cores(2, refusals, NULL), 0);
}

/* ---- steps that the workers begin themselves ---- */

#define STEPS 60

struct steps {
    size_t begun;        /* by the step function, which is called by one after the other */
    _Atomic size_t done; /* values of this step */
    size_t fails_in;     /* step, or STEPS */
    int failure;
};

static int is_done(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    struct steps *steps = arg;

    (void)worker;
    steps->done += value.end - value.begin;
    return 0;
}

/* Step k has k % 3 * 20 values, so that some are empty. */
static int begins_step(struct umbra_dispatch *dispatch, size_t step, void *arg)
{
    struct steps *steps = arg;

    cr_expect_eq(step, steps->begun);
    if (step > 0)
        cr_expect_eq(steps->done, (step - 1) % 3 * 20, "%zu", step);
    steps->begun++;
    steps->done = 0;
    cr_expect_eq(umbra_dispatch_range(dispatch, 0, step % 3 * 20, 1), 0);
    if (step == steps->fails_in)
        return steps->failure;
    return step + 1 < STEPS;
}

static void all_of_many_steps(struct umbra_dispatch *dispatch, struct steps *steps)
{
    *steps = (struct steps){.fails_in = STEPS};
    cr_expect_eq(umbra_dispatch_steps(dispatch, begins_step, steps), 0);
    cr_expect_eq(steps->begun, STEPS);
    cr_expect_eq(steps->done, (STEPS - 1) % 3 * 20); /* what the last one has queued is done, too */
}

static void failing_steps(struct umbra_dispatch *dispatch, struct steps *steps)
{
    struct umbra_value rest;

    *steps = (struct steps){.fails_in = 4, .failure = -EDOM};
    cr_expect_eq(umbra_dispatch_steps(dispatch, begins_step, steps), -EDOM);
    cr_expect_eq(steps->begun, 5);
    while (umbra_dispatch_left(dispatch, &rest))
        steps->done += rest.end - rest.begin;
    cr_expect_eq(steps->done, 20);
}

static struct steps all_steps;

static void steps_in_turn(struct umbra_dispatch *dispatch)
{
    all_of_many_steps(dispatch, &all_steps);
    failing_steps(dispatch, &all_steps);
    all_of_many_steps(dispatch, &all_steps);
}

Test(dispatch, workers_begin_steps_themselves)
{
    everywhere((struct umbra_dispatch_options){.fn = is_done, .arg = &all_steps}, steps_in_turn);
}

static _Atomic bool any_begun;

static int begins_any_step(struct umbra_dispatch *dispatch, size_t step, void *arg)
{
    (void)step;
    (void)arg;
    any_begun = true;
    return umbra_dispatch_range(dispatch, 0, 3, 1) == 0;
}

static void *cancels_soon(void *arg)
{
    while (!any_begun) /* before that there is nothing to cancel */
        usleep(100);
    usleep(1000);
    umbra_dispatch_cancel(arg);
    return NULL;
}

/* They have no end of their own, so this returns only if no cancel is lost. */
static void endless_steps(struct umbra_dispatch *dispatch)
{
    for (int i = 0; i < 50; i++) {
        pthread_t canceller;

        any_begun = false;
        cr_assert_eq(pthread_create(&canceller, NULL, cancels_soon, dispatch), 0);
        cr_expect_eq(umbra_dispatch_steps(dispatch, begins_any_step, NULL), -ECANCELED);
        pthread_join(canceller, NULL);
    }
}

Test(dispatch, a_cancel_ends_all_steps)
{
    everywhere((struct umbra_dispatch_options){.fn = is_done, .arg = &all_steps}, endless_steps);
}

static _Atomic size_t parts, longest;

static int is_quick(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    (void)value;
    (void)arg;
    parts++;
    return 0;
}

static struct umbra_event processed = UMBRA_EVENT_INIT;

static int tells_processed(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    (void)value;
    (void)arg;
    umbra_event_signal(&processed);
    return 0;
}

/* The worker that begins a step must not be the one that is asked to process what is queued. */
static int waits_for_its_value(struct umbra_dispatch *dispatch, size_t step, void *arg)
{
    (void)arg;
    cr_expect_eq(umbra_dispatch_put(dispatch, &processed, UMBRA_ANY_NODE), 0);
    cr_expect_eq(umbra_event_wait(&processed, umbra_deadline(UINT64_C(20000000000))), 0, "%zu",
                 step);
    return step < 20;
}

static void *steps_that_wait(void *arg)
{
    struct umbra_dispatch_options options = {.fn = tells_processed, .workers = 2};
    struct umbra_dispatch *dispatch;

    cr_assert_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    cr_expect_eq(umbra_dispatch_steps(dispatch, waits_for_its_value, NULL), 0);
    umbra_dispatch_destroy(dispatch);
    return arg;
}

Test(dispatch, a_step_may_begin_with_a_wait_for_what_it_queues)
{
    cr_assert_eq(run_cores(2, steps_that_wait, NULL), 0);
}

static pthread_t closer;

static void *closes_soon(void *dispatch)
{
    usleep(20);
    umbra_source_close(dispatch);
    return NULL;
}

/* The first step lasts until a thread closes it, which then begins the second, and the last. */
static int opens_one_more(struct umbra_dispatch *dispatch, size_t step, void *arg)
{
    (void)arg;
    if (step == 0) {
        umbra_source_open(dispatch);
        cr_assert_eq(pthread_create(&closer, NULL, closes_soon, dispatch), 0);
    }
    cr_expect_eq(umbra_dispatch_range(dispatch, 0, step, 1), 0);
    return step < 2;
}

static void *closed_from_outside(void *arg)
{
    struct umbra_dispatch_options options = {.fn = is_quick, .workers = 4};

    for (int i = 0; i < 200; i++) {
        struct umbra_dispatch *dispatch;

        cr_assert_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
        cr_expect_eq(umbra_dispatch_steps(dispatch, opens_one_more, NULL), 0);
        umbra_dispatch_destroy(dispatch); /* the thread may still be in its call */
        pthread_join(closer, NULL);
    }
    return arg;
}

Test(dispatch, who_closes_the_last_source_touches_no_dispatcher_that_is_gone)
{
    cr_assert_eq(run_cores(2, closed_from_outside, NULL), 0);
}

/* ---- parts of a range without a grain ---- */

static void quick_parts(struct umbra_dispatch *dispatch)
{
    parts = 0;
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_range(dispatch, 0, VALUES, 0), 0);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    cr_expect_lt(parts, (size_t)VALUES / 4);
}

Test(dispatch, quick_indices_are_given_many_at_a_time)
{
    everywhere((struct umbra_dispatch_options){.fn = is_quick}, quick_parts);
}

static int is_slow(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    uint64_t end = umbra_now_ns() + (value.end - value.begin) * 20000;

    (void)worker;
    (void)arg;
    for (size_t length = value.end - value.begin, most = longest; length > most;)
        if (atomic_compare_exchange_weak(&longest, &most, length))
            break;
    while (umbra_now_ns() < end)
        umbra_pause();
    return 0;
}

static void slow_parts(struct umbra_dispatch *dispatch)
{
    longest = 0;
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_range(dispatch, 0, 100, 0), 0);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    cr_expect_eq(longest, 1);
}

Test(dispatch, slow_indices_are_given_one_by_one)
{
    everywhere((struct umbra_dispatch_options){.fn = is_slow}, slow_parts);
}

/* ---- cores that stay awake ---- */

/* Cycles for which the core would stay awake after a step in which its worker worked for so long,
 * whatever happened to it before. */
static uint64_t awake_after(struct umbra_dispatch *dispatch, size_t slow_values)
{
    um_core_self->waiter.awake_cycles = um_core_self->waiter.robbed = 0;
    um_dispatch_worker(dispatch, 0)->shares_cpu = 0; /* it waits, on this core */
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_assert_eq(umbra_dispatch_range(dispatch, 0, slow_values, 1), 0);
    cr_assert_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    return um_core_self->waiter.awake_cycles;
}

static bool within_ns(uint64_t cycles, uint64_t least, uint64_t most)
{
    return cycles >= um_ns_to_cycles(least) && cycles <= um_ns_to_cycles(most);
}

static void *stays_awake(void *arg)
{
    struct umbra_dispatch_options options = {.fn = is_slow};
    struct umbra_dispatch *dispatch;
    uint64_t end = umbra_now_ns() + UINT64_C(20000000000);
    bool as_long = false, a_turn = false;

    (void)arg;
    cr_assert_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    while (!(as_long && a_turn) && umbra_now_ns() < end) { /* it may lose its processor */
        as_long = as_long || within_ns(awake_after(dispatch, 20), 200000, 600000);
        a_turn = a_turn || within_ns(awake_after(dispatch, 75), 600000, UM_TURN_NS);
    }
    cr_expect(as_long, "not as long as it has worked");
    cr_expect(a_turn, "no millisecond after one and a half");
    umbra_dispatch_destroy(dispatch);
    return NULL;
}

Test(dispatch, a_core_stays_awake_as_long_as_its_worker_has_worked)
{
    cr_assert_eq(run_cores(1, stays_awake, NULL), 0);
}

static int sleeps(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    (void)value;
    (void)arg;
    return umbra_sleep_ns(2000000);
}

static void *stays_awake_for_work(void *arg)
{
    struct umbra_dispatch_options options = {.fn = sleeps};
    struct umbra_dispatch *dispatch;
    uint64_t end = umbra_now_ns() + UINT64_C(20000000000);
    bool shortly = false;

    (void)arg;
    cr_assert_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    while (!shortly && umbra_now_ns() < end) /* it may lose its processor */
        shortly = within_ns(awake_after(dispatch, 1), 1000, 500000);
    cr_expect(shortly, "as if the sleep had been work");
    umbra_dispatch_destroy(dispatch);
    return NULL;
}

Test(dispatch, a_core_does_not_stay_awake_for_what_its_worker_has_slept)
{
    cr_assert_eq(run_cores(1, stays_awake_for_work, NULL), 0);
}

/* ---- a processor that others want, too: strict C does not say who was preempted ---- */

#ifndef UMBRA_POSIX_ONLY

static int looks_whether_shared(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    bool *seen = arg; /* the worker knows that it shares its processor */

    *seen = *seen || worker->shares_cpu > 0;
    return is_slow(worker, value, NULL);
}

/* Steps until a worker has seen it, or it takes too long. */
static void steps_until_seen(struct umbra_dispatch *dispatch, const bool *seen)
{
    uint64_t end = umbra_now_ns() + UINT64_C(20000000000);

    do {
        cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
        cr_assert_eq(umbra_dispatch_range(dispatch, 0, 40, 1), 0);
        cr_assert_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    } while (!*seen && umbra_now_ns() < end);
}

/* A process that does nothing but use a processor, stopped. */
static pid_t create_taker(void)
{
    pid_t taker = fork();

    if (taker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        raise(SIGSTOP);
        for (volatile unsigned rounds = 0;; rounds++)
            ;
    }
    cr_assert_gt(taker, 0);
    cr_assert_eq(waitpid(taker, NULL, WUNTRACED), taker);
    return taker;
}

static void *shares_its_processor(void *arg)
{
    bool seen = false;
    struct umbra_dispatch_options options = {.fn = looks_whether_shared, .arg = &seen};
    struct umbra_dispatch *dispatch;
    pid_t taker = *(pid_t *)arg;
    cpu_set_t here;

    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    cr_assert_eq(sched_setaffinity(taker, sizeof(here), &here), 0);
    cr_assert_eq(sched_setaffinity(0, sizeof(here), &here), 0);
    cr_assert_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    cr_assert_eq(kill(taker, SIGCONT), 0);
    steps_until_seen(dispatch, &seen);
    cr_expect(seen);
    um_core_self->waiter.awake_cycles = um_core_self->waiter.robbed = 0;
    steps_until_seen(dispatch, &seen); /* one more */
    cr_expect_eq(um_core_self->waiter.awake_cycles, 0, "it stays awake on a shared processor");
    kill(taker, SIGKILL);
    cr_expect_eq(waitpid(taker, NULL, 0), taker);
    umbra_dispatch_destroy(dispatch);
    return NULL;
}

Test(dispatch, a_worker_knows_whether_it_shares_its_processor)
{
    pid_t taker = create_taker(); /* while there is but one thread */

    cr_assert_eq(run_cores(1, shares_its_processor, &taker), 0);
}

#endif

/* ---- what is left over, and late cancels ---- */

static int refuses_all(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    (void)value;
    (void)arg;
    return -EDOM;
}

static void *drops_a_large_range(void *arg)
{
    struct umbra_dispatch_options options = {.fn = refuses_all};
    struct umbra_dispatch *dispatch;
    uint64_t begin;

    (void)arg;
    cr_assert_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
    cr_expect_eq(umbra_dispatch_range(dispatch, 0, SIZE_MAX, 1), 0);
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), -EDOM);
    begin = umbra_now_ns();
    cr_expect_eq(umbra_dispatch_begin(dispatch), 0); /* index by index it would take years */
    cr_expect_lt(umbra_now_ns() - begin, UINT64_C(1000000000));
    cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
    umbra_dispatch_destroy(dispatch);
    return NULL;
}

Test(dispatch, what_is_left_of_a_range_is_dropped_at_once)
{
    cr_assert_eq(run_cores(2, drops_a_large_range, NULL), 0);
}

struct cancels {
    struct umbra_dispatch *dispatch;
    _Atomic size_t done;
    _Atomic bool enough;
};

static int counts(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    struct cancels *cancels = arg;

    (void)worker;
    cancels->done += value.end - value.begin;
    return 0;
}

static void *cancels_all_the_time(void *arg)
{
    struct cancels *cancels = arg;

    while (!cancels->enough)
        umbra_dispatch_cancel(cancels->dispatch);
    return NULL;
}

/* A step that ends with 0 has done everything, whenever others cancel. */
Test(dispatch, a_cancel_stops_a_step_or_does_not)
{
    struct cancels cancels = {.dispatch = NULL};
    struct umbra_dispatch_options options = {.fn = counts, .arg = &cancels};
    struct umbra_options run = {.cores = 1, .quiet = true};
    struct umbra_runtime *runtime;
    uint64_t end;
    pthread_t canceller;

    cr_assert_eq(umbra_runtime_create(&run, &runtime), 0);
    cr_assert_eq(umbra_dispatch_create(runtime, &options, &cancels.dispatch), 0);
    cr_assert_eq(pthread_create(&canceller, NULL, cancels_all_the_time, &cancels), 0);
    end = umbra_now_ns() + 300000000;
    while (umbra_now_ns() < end) {
        int error;

        cancels.done = 0;
        umbra_dispatch_begin(cancels.dispatch);
        umbra_dispatch_range(cancels.dispatch, 0, 64, 1);
        error = umbra_dispatch_end(cancels.dispatch, UMBRA_NEVER);
        if (error == 0)
            cr_expect_eq(cancels.done, 64);
        else
            cr_expect_eq(error, -ECANCELED);
    }
    cancels.enough = true;
    pthread_join(canceller, NULL);
    umbra_dispatch_destroy(cancels.dispatch);
    cr_assert_eq(umbra_runtime_wait(runtime), 0);
    umbra_runtime_destroy(runtime);
}

static _Atomic int finished;

static int takes_its_time(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker;
    (void)value;
    (void)arg;
    usleep(
        20000); /* not to synchronise: so long a step that is over too soon has time to be seen */
    finished++;
    return 0;
}

/* As often as there are sources, and once more, while the caller's own source is open. */
static void *closes_too_often(void *arg)
{
    struct umbra_dispatch_options options = {.fn = takes_its_time, .workers = 2};
    struct umbra_dispatch *dispatch;

    cr_expect_eq(umbra_dispatch_create(NULL, &options, &dispatch), 0);
    for (int step = 1; step <= 2; step++) {
        cr_expect_eq(umbra_dispatch_begin(dispatch), 0);
        umbra_source_open(dispatch);
        umbra_source_close(dispatch);
        umbra_source_close(dispatch);
        umbra_source_close(dispatch);
        cr_expect_eq(umbra_dispatch_put(dispatch, arg, UMBRA_ANY_NODE), 0);
        cr_expect_eq(umbra_dispatch_end(dispatch, UMBRA_NEVER), 0);
        cr_expect_eq(finished, step);
    }
    cr_expect_eq(umbra_dispatch_destroy(dispatch), 0);
    return arg;
}

Test(dispatch, a_close_without_an_open_source_does_nothing, .timeout = 30)
{
    int value;

    cr_assert_eq(run_cores(2, closes_too_often, &value), 0);
}
