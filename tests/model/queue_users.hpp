/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Stands in for the parts of dispatch/workers.h that are not checked, beside the text of those that
 * are. Included inside the struct of each variant, so it has no guard and includes nothing.
 */

/* Nothing is traced in the checker. */
enum { UM_TRACE_STEP, UM_TRACE_STEP_OVER };

static void um_trace_say(int kind, uint64_t a, uint64_t b)
{
}

struct umbra_event {
    um_atomic_u32 set;
};

static void umbra_event_signal(struct umbra_event *event)
{
    if (um_atomic_exchange(&event->set, 1, release) == 0)
        um_os_futex_wake(&event->set);
}

static int umbra_event_wait(struct umbra_event *event, uint64_t deadline)
{
    while (um_atomic_exchange(&event->set, 0, acquire) == 0)
        um_os_futex_wait(&event->set, 0, deadline);
    return 0;
}

static int um_may_wait(void)
{
    return 0;
}

struct umbra_worker {
    struct um_item_queue queue;
    struct umbra_event woken;
    struct umbra_dispatch *dispatch;
    struct umbra_worker *others[UM_MODEL_WORKERS];
    unsigned index;
    size_t part;
    struct um_item left[UM_STEAL_MOST];
    unsigned left_count;
};

struct umbra_dispatch {
    struct um_step step;
    um_atomic_u32 phase;
    pthread_mutex_t lock;
    bool running;
    struct umbra_event over;
    int (*begin_step)(struct umbra_dispatch *, size_t, void *);
    void *step_arg;
    size_t step_number;
    struct umbra_worker worker[UM_MODEL_WORKERS];
    unsigned workers;
};

/* Memory for a ring: there is some so often. */
static struct um_item *um_item_queue_items(struct um_item_queue *, size_t room)
{
    return um_model_memory-- > 0 ? new struct um_item[room] : NULL;
}

static void um_item_queue_free_items(struct um_item_queue *queue)
{
    delete[] um_plain_read(queue->items);
}

static struct umbra_worker *um_dispatch_worker(struct umbra_dispatch *dispatch, unsigned i)
{
    return &dispatch->worker[i];
}

/* As um_worker_wait() but for the processor. */
static void um_worker_wait(struct umbra_worker *worker)
{
    umbra_event_wait(&worker->woken, UMBRA_NEVER);
}

static int um_dispatch_wait_over(struct umbra_dispatch *dispatch, uint64_t, const void *)
{
    return umbra_event_wait(&dispatch->over, UMBRA_NEVER);
}
