/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Work from outside: a thread that is no core, or no worker, gives one null function, or a row of
 * them, to a runtime of one thread on the other processor, and waits for all. A sample is the time of
 * one function, from the first start to the last end by the number of functions.
 *
 *   umbra-task-start   umbra_task_start and umbra_task_join of each
 *   tbb                enqueue in an arena of one worker, then task_group::wait
 *   pthread-queue      a list under a mutex, and conditions for "some" and "none left"
 */
#include "child.h"
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>

#include <umbra/task.h>

#define ROUNDS 101
#define ROUNDS_QUICK 15
#define MANY 1000

static const unsigned counts[] = {1, MANY};

#define COUNTS (sizeof(counts) / sizeof(counts[0]))

struct job {
    struct umbra_task task;
    struct job *next; /* of the queue */
    uint64_t runs;
};

static struct job jobs[MANY];

static void run_job(void *arg)
{
    ((struct job *)arg)->runs++;
}

/* How many have run, all in all, since this was asked last; 0: not all equally often. */
static uint64_t verified(unsigned count)
{
    uint64_t runs = jobs[0].runs;

    for (unsigned i = 0; i < count; i++) {
        if (jobs[i].runs != runs)
            return 0;
        jobs[i].runs = 0;
    }
    return runs * count;
}

static unsigned count_of(const struct bench_row *row)
{
    return *(const unsigned *)row->arg;
}

/* ---- tasks of a core ---- */

static int start_core(struct bench_row *row)
{
    char cpus[16];
    struct umbra_options options = {
        .cpus = cpus, .topology = bench_topology(row->bench), .quiet = true};

    snprintf(cpus, sizeof cpus, "%d", row->cpus[1]);
    return umbra_runtime_create(&options, (struct umbra_runtime **)&row->state);
}

static int run_tasks(struct bench_row *row, struct bench_batch *batch)
{
    unsigned count = count_of(row);
    uint64_t begin = bench_now_ns();
    int error = 0;

    for (uint64_t n = 0; n < batch->iterations && error == 0; n++) {
        unsigned started = 0;

        while (started < count && error == 0) {
            error = umbra_task_start(row->state, &jobs[started].task, run_job, &jobs[started]);
            started += error == 0;
        }
        for (unsigned i = 0; i < started; i++)
            umbra_task_join(&jobs[i].task, UMBRA_NEVER);
    }
    batch->ns = bench_now_ns() - begin;
    batch->verified = verified(count);
    return error;
}

static void stop_core(struct bench_row *row)
{
    umbra_runtime_destroy(row->state);
}

static const struct bench_ops task_ops = {.start = start_core, .run = run_tasks, .stop = stop_core};

/* ---- a queue under a mutex ---- */

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t some, none; /* jobs in the list, or the end; jobs that have not run */
    struct job *first, *last;
    unsigned left; /* jobs that have not run */
    bool ends;
    pthread_t worker;
};

static void *work(void *arg)
{
    struct queue *queue = arg;
    struct job *job;

    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (!queue->first && !queue->ends)
            pthread_cond_wait(&queue->some, &queue->lock);
        if (!queue->first)
            break;
        job = queue->first;
        queue->first = job->next;
        pthread_mutex_unlock(&queue->lock);
        run_job(job);
        pthread_mutex_lock(&queue->lock);
        if (--queue->left == 0)
            pthread_cond_signal(&queue->none);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

static void submit(struct queue *queue, struct job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&queue->lock);
    if (queue->first)
        queue->last->next = job;
    else
        queue->first = job;
    queue->last = job;
    queue->left++;
    pthread_cond_signal(&queue->some);
    pthread_mutex_unlock(&queue->lock);
}

static int start_queue(struct bench_row *row)
{
    struct queue *queue = calloc(1, sizeof(*queue));
    int error;

    if (queue == NULL)
        return -ENOMEM;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->some, NULL);
    pthread_cond_init(&queue->none, NULL);
    error = bench_thread(&queue->worker, row->cpus[1], work, queue);
    if (error != 0)
        free(queue);
    row->state = queue;
    return error;
}

static int run_queue(struct bench_row *row, struct bench_batch *batch)
{
    struct queue *queue = row->state;
    unsigned count = count_of(row);
    uint64_t begin = bench_now_ns();

    for (uint64_t n = 0; n < batch->iterations; n++) {
        for (unsigned i = 0; i < count; i++)
            submit(queue, &jobs[i]);
        pthread_mutex_lock(&queue->lock);
        while (queue->left > 0)
            pthread_cond_wait(&queue->none, &queue->lock);
        pthread_mutex_unlock(&queue->lock);
    }
    batch->ns = bench_now_ns() - begin;
    batch->verified = verified(count);
    return 0;
}

static void stop_queue(struct bench_row *row)
{
    struct queue *queue = row->state;

    pthread_mutex_lock(&queue->lock);
    queue->ends = true;
    pthread_cond_signal(&queue->some);
    pthread_mutex_unlock(&queue->lock);
    pthread_join(queue->worker, NULL);
    pthread_cond_destroy(&queue->some);
    pthread_cond_destroy(&queue->none);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

static const struct bench_ops queue_ops = {
    .start = start_queue, .run = run_queue, .stop = stop_queue};

/* ---- rows ---- */

static struct child_process *tbb_process;
static struct child_program tbb[COUNTS];

static void add(struct bench *bench, const char *name, const struct bench_ops *ops, const void *arg,
                unsigned count)
{
    struct bench_row *row = bench_add(bench, name, ops, arg);

    row->parts = count;
    json_object_set_new(row->params, "count", json_integer(count));
}

static int declare(struct bench *bench)
{
    for (size_t c = 0; c < COUNTS; c++) {
        tbb[c] = (struct child_program){
            .file = "submit-child-tbb", .problem = counts[c], .shared = &tbb_process};
        add(bench, "umbra-task-start", &task_ops, &counts[c], counts[c]);
        add(bench, "tbb", &child_ops, &tbb[c], counts[c]);
        add(bench, "pthread-queue", &queue_ops, &counts[c], counts[c]);
    }
    return 0;
}

static const struct bench_kernel kernel = {
    .name = "submit",
    .about = "give null functions to another thread's runtime, and wait for them",
    .cpus = 2,
    .rounds = ROUNDS,
    .rounds_quick = ROUNDS_QUICK,
    .declare = declare,
};

int main(int argc, char **argv)
{
    return bench_main(&kernel, argc, argv);
}
