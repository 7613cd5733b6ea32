/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The callbacks of examples/adapters, called as the libraries call them: a stand-in, since the
 * libraries with callbacks are newer than some distributions. The programs there use the libraries.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "../../examples/adapters/blosc2_team.h"
#include "../../examples/adapters/openblas_team.h"

#include <runner.h>

#define MEMBERS 3
#define CALLS 200
#define MOST 7 /* jobs of a call to c-blosc2 */

struct call {
    _Atomic unsigned begun;
    unsigned count;
};

struct job {
    struct call *call;
    unsigned done;
};

static _Atomic unsigned wrong; /* jobs that found their buffer in use, or were not done once */

/* ---- OpenBLAS ---- */

static _Atomic bool in_use[MEMBERS]; /* the buffers, by numbers of jobs */

static void waits_for_the_other_jobs(int number, void *data, int buffers)
{
    struct job *job = data;

    (void)buffers;
    atomic_fetch_add(&wrong, atomic_exchange(&in_use[number], true));
    atomic_fetch_add(&job->call->begun, 1);
    while (atomic_load(&job->call->begun) < job->call->count)
        sched_yield();
    job->done++;
    atomic_store(&in_use[number], false);
}

static void *products(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < CALLS; i++) {
        struct call call = {0, 1 + i % MEMBERS};
        struct job jobs[MEMBERS] = {{&call, 0}, {&call, 0}, {&call, 0}};

        openblas_team_run(1, waits_for_the_other_jobs, (int)call.count, sizeof(jobs[0]), jobs, 0);
        for (unsigned k = 0; k < MEMBERS; k++)
            atomic_fetch_add(&wrong, jobs[k].done != (k < call.count));
    }
    return NULL;
}

Test(adapters, openblas_jobs_wait_for_each_other_and_calls_take_turns)
{
    pthread_t thread;

    cr_assert_eq(openblas_team_open(MEMBERS), 0);
    cr_assert_eq(pthread_create(&thread, NULL, products, NULL), 0);
    products(NULL);
    pthread_join(thread, NULL);
    cr_expect_eq(wrong, 0);
    cr_expect_eq(umbra_team_destroy(openblas_team), 0);
}

Test(adapters, openblas_with_more_jobs_than_members_ends_the_program, .signal = SIGABRT)
{
    struct job jobs[MEMBERS + 1] = {{NULL, 0}};

    cr_assert_eq(openblas_team_open(MEMBERS), 0);
    openblas_team_run(1, waits_for_the_other_jobs, MEMBERS + 1, sizeof(jobs[0]), jobs, 0);
}

/* ---- c-blosc2 ---- */

static struct blosc2_team team;

static void counts(void *data)
{
    ((struct job *)data)->done++;
}

static void *call_of_few(void *arg)
{
    struct job jobs[MEMBERS] = {{NULL, 0}};

    (void)arg;
    blosc2_team_run(&team, counts, MEMBERS - 1, sizeof(jobs[0]), jobs);
    for (unsigned i = 0; i < MEMBERS; i++)
        atomic_fetch_add(&wrong, jobs[i].done != (i < MEMBERS - 1));
    return NULL;
}

/* The first one ends when another thread's call has returned; all end when each member has one. */
static void keeps_the_team(void *data)
{
    struct job *job = data;
    pthread_t thread;

    if (atomic_fetch_add(&job->call->begun, 1) == 0) {
        cr_assert_eq(pthread_create(&thread, NULL, call_of_few, NULL), 0);
        pthread_join(thread, NULL);
    }
    while (atomic_load(&job->call->begun) < MEMBERS)
        sched_yield();
    job->done++;
}

Test(adapters, blosc2_jobs_are_done_by_all_members_or_by_a_caller_alone)
{
    struct call call = {0};
    struct job jobs[MOST];

    cr_assert_eq(blosc2_team_open(&team, MEMBERS), 0);
    for (unsigned i = 0; i < MOST; i++)
        jobs[i] = (struct job){&call, 0};
    blosc2_team_run(&team, keeps_the_team, MOST, sizeof(jobs[0]), jobs);
    for (unsigned i = 0; i < MOST; i++)
        cr_expect_eq(jobs[i].done, 1, "job %u: %u times", i, jobs[i].done);
    cr_expect_eq(wrong, 0);
    call_of_few(NULL); /* fewer jobs than members */
    cr_expect_eq(wrong, 0);
    cr_expect_eq(umbra_team_destroy(team.team), 0);
}
