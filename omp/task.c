/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Tasks: made, executed, waited for. Their counts: count.h.
 */
#include <stdlib.h>
#include <string.h>

#include "count.h"

_Static_assert(offsetof(struct um_omp_task, near) % UM_ANY_MEMORY == 0, "arguments of any type");

#define CHUNK 31 /* tasks that memory is made for at once */

/* Of GOMP_task(). */
#define FLAG_DEPEND (1u << 3)
#define FLAG_PRIORITY (1u << 4)
#define FLAG_DETACH (1u << 13)

/* ---- memory ---- */

static struct umbra_task *chunk_make(struct um_omp_member *self)
{
    char *chunk = um_omp_memory(UMBRA_CACHE_LINE + CHUNK * sizeof(struct um_omp_task));
    struct um_omp_task *tasks = (struct um_omp_task *)(chunk + UMBRA_CACHE_LINE);

    *(void **)chunk = self->chunks;
    self->chunks = chunk;
    self->made += CHUNK;
    for (unsigned i = 0; i < CHUNK; i++) {
        tasks[i].home = self;
        tasks[i].link.prev = i + 1 < CHUNK ? &tasks[i + 1].link : NULL;
    }
    return &tasks[0].link;
}

static struct um_omp_task *memory_take(struct um_omp_member *self)
{
    struct umbra_task *link;

    if (UM_UNLIKELY(!self->free))
        um_omp_memory_collect(self);
    link = UM_LIKELY(self->free) ? self->free : chunk_make(self);
    self->free = link->prev;
    return (struct um_omp_task *)link;
}

bool um_omp_tasks_full(struct um_omp_member *self)
{
    /* relaxed: a hint */
    return !self->free && self->made >= UM_OMP_TASKS_MOST &&
           um_atomic_load(&self->returned, relaxed) == 0;
}

/* ---- a task's life ---- */

/* From now on the member executes the task. */
static void task_enter(struct um_omp_member *self, struct um_omp_task *task)
{
    task->member = self;
    self->task = task;
    self->began = um_atomic_load(&self->created, relaxed); /* only this thread writes it */
}

static void children_await(struct um_omp_member *self)
{
    struct um_omp_end end = {&self->task->count, UM_OMP_CHILDREN, 0, false};

    um_omp_children_count(self->task);
    um_omp_await(self, &end, UM_OMP_DESCEND);
}

/* The program's copy constructors are executed in the new task. Tasks that they make end here: they
 * read its member, and another one may soon execute it. */
static void arguments_construct(struct um_omp_member *self, struct um_omp_task *task,
                                const struct um_omp_arguments *from)
{
    struct um_omp_task *outer = self->task;
    uint64_t began = self->began;

    task_enter(self, task);
    from->copy(task->link.arg, from->data);
    children_await(self);
    self->task = outer;
    self->began = began;
}

static void arguments_copy(struct um_omp_member *self, struct um_omp_task *task,
                           const struct um_omp_arguments *from)
{
    size_t align = from->align > 1 ? (size_t)from->align : 1, bytes = (size_t)from->bytes;
    char *to = task->near;

    task->far = NULL;
    if (UM_UNLIKELY(bytes > sizeof(task->near) || align > UM_ANY_MEMORY)) {
        task->far = malloc(bytes + align);
        if (!task->far)
            um_omp_fatal("out of memory");
        to = (char *)(((uintptr_t)task->far + align - 1) / align * align);
    }
    task->link.arg = to;
    if (from->copy)
        arguments_construct(self, task, from);
    else if (from->data)
        memcpy(to, from->data, bytes);
}

struct um_omp_task *um_omp_task_make(struct um_omp_member *self, um_omp_fn *fn,
                                     const struct um_omp_arguments *from, unsigned kind,
                                     bool deferred)
{
    struct um_omp_task *task = memory_take(self), *parent = self->task;

    task->link.fn = fn;
    um_atomic_store(&task->parent, parent, relaxed); /* published with the task */
    task->kind = (uint8_t)kind;
    task->group = parent->group;
    task->icv = parent->icv;
    if (UM_UNLIKELY(from->event || kind & UM_OMP_CANCELLABLE))
        um_omp_event_make(task, from);
    if (deferred)
        um_omp_count_begin(task, parent);
    else
        um_omp_count_hold(task);
    if (deferred || from->copy) {
        arguments_copy(self, task, from);
    } else {
        task->far = NULL;
        task->link.arg = from->data; /* the caller's until the task has ended */
    }
    return task;
}

/* What a task has for itself. */
static void task_free(struct um_omp_task *task)
{
    if (UM_UNLIKELY(task->depends)) {
        um_omp_depends_free(task->depends);
        task->depends = NULL;
        task->detaches = false;
    }
    um_atomic_store(&task->event, 0, relaxed); /* this thread's, until the memory is another's */
    if (UM_UNLIKELY(task->far != NULL))
        free(task->far);
}

static void task_end(struct um_omp_member *self, struct um_omp_task *task)
{
    if (UM_UNLIKELY(task->node))
        um_omp_depend_end(self, task);
    if (task->group)
        um_omp_group_release(task->group);
    task_free(task);
    um_omp_count_end(self, task);
}

static void execute(struct um_omp_member *self, struct um_omp_task *task)
{
    struct um_omp_task *outer = self->task;
    const void *at = self->at;
    uint64_t began = self->began;

    task_enter(self, task);
    um_omp_see(task->home == self ? UM_OMP_SEE_TASK : UM_OMP_SEE_TAKEN,
               UM_OMP_PLACE(um_omp_fn_of(task->link.fn, task->link.arg)));
    task->link.fn(task->link.arg);
    um_omp_seen(UM_OMP_SEE_TASK);
    self->task = outer;
    self->at = at;
    self->began = began;
}

/* Of a task that is detached, or may be discarded. */
static void execute_unless_cancelled(struct um_omp_member *self, struct um_omp_task *task)
{
    if (task->kind & UM_OMP_CANCELLABLE && um_omp_is_cancelled(self, task))
        um_omp_event_discard(task);
    else
        execute(self, task);
}

static bool has_event(const struct um_omp_task *task)
{
    return UM_UNLIKELY(um_atomic_load(&task->event, relaxed) != 0); /* its maker has set it */
}

/* It has ended then. */
static void execute_whole(struct um_omp_member *self, struct um_omp_task *task)
{
    if (!has_event(task)) {
        execute(self, task);
    } else {
        execute_unless_cancelled(self, task);
        um_omp_event_await(self, task);
    }
}

void um_omp_task_execute(struct um_omp_member *self, struct um_omp_task *task)
{
    execute_whole(self, task);
    task_free(task);
    um_omp_task_release(self, task);
}

void um_omp_task_take(struct um_omp_member *self, struct um_omp_task *task)
{
    if (!has_event(task)) {
        execute(self, task);
    } else if (!um_omp_event_over(task)) {
        execute_unless_cancelled(self, task);
        if (um_omp_event_leave(task))
            return; /* it counts when it has ended */
    }
    task_end(self, task);
    um_omp_count_executed(self);
}

void um_omp_task_defer(struct um_omp_member *self, struct um_omp_task *task)
{
    um_omp_count_created(self, task);
    um_omp_push(self, task);
}

/* True if a task that may be deferred is. A member that is alone, or has many, executes its tasks at
 * once; but a detached task is deferred, since its maker may be the one to fulfil its event, and so is
 * a task that may wait for a detached one. Outside of regions no barrier would wait for it: there a
 * detached task, too, is executed at once, as under libgomp. One with a priority is deferred, so that a
 * higher one can come first. */
static bool is_deferred(struct um_omp_member *self, unsigned flags, int priority)
{
    if (flags & FLAG_DETACH)
        return self->team->level > 0;
    if (UM_UNLIKELY(self->task->detaches) && flags & FLAG_DEPEND)
        return true;
    if (UM_UNLIKELY(priority > 0) && self->team->level > 0)
        return !um_omp_many_urgent(self->team) && !um_omp_tasks_full(self);
    if (self->team->members == 1)
        return false;
    return !um_omp_many_wait(self) && !um_omp_tasks_full(self);
}

static void defer(struct um_omp_member *self, struct um_omp_task *task, unsigned flags,
                  void **depend, int priority)
{
    if (flags & FLAG_DEPEND) {
        if (UM_UNLIKELY(flags & FLAG_DETACH))
            self->task->detaches = true;
        um_omp_depend_defer(self, task, depend);
    } else if (UM_UNLIKELY(priority > 0)) {
        um_omp_task_urge(self, task);
    } else {
        um_omp_task_defer(self, task);
    }
}

UM_OMP_ABI void GOMP_task(um_omp_fn *fn, void *data, void (*copy)(void *, void *), long bytes,
                          long align, bool condition, unsigned flags, void **depend, int priority,
                          void *detach)
{
    struct um_omp_member *self = um_omp_self();
    struct um_omp_arguments from = {data, copy, bytes, align, flags & FLAG_DETACH ? detach : NULL};
    int urgency = flags & FLAG_PRIORITY ? um_omp_priority(priority) : 0;
    unsigned kind = self->task->kind | (flags & UM_OMP_FINAL);
    bool at_once = !condition || kind & UM_OMP_FINAL || !is_deferred(self, flags, urgency);
    struct um_omp_task *task;

    /* a detached one is made, for its event, and discarded later */
    if (UM_UNLIKELY(kind & UM_OMP_CANCELLABLE) && !(flags & FLAG_DETACH) &&
        um_omp_is_cancelled(self, self->task))
        return;
    if (at_once && (flags & FLAG_DEPEND))
        um_omp_depend_await(self, depend);
    task = um_omp_task_make(self, fn, &from, kind, !at_once);
    if (flags & (FLAG_DEPEND | FLAG_PRIORITY))
        task->priority = urgency;
    if (at_once)
        um_omp_task_execute(self, task);
    else
        defer(self, task, flags, depend, urgency);
}

void um_omp_task_begin(struct um_omp_member *self, struct um_omp_task *task, void **depend,
                       bool condition, bool detached, int priority)
{
    unsigned flags = (depend ? FLAG_DEPEND : 0) | (detached ? FLAG_DETACH : 0);

    task->priority = priority;
    if (condition && !(task->kind & UM_OMP_FINAL) && is_deferred(self, flags, priority)) {
        defer(self, task, flags, depend, priority);
        return;
    }
    if (depend)
        um_omp_depend_await(self, depend);
    execute_whole(self, task);
    task_end(self, task);
}

uint64_t um_omp_task_enter(struct um_omp_member *self, struct um_omp_task *task)
{
    uint64_t began = self->began;

    task_enter(self, task);
    return began;
}

void um_omp_task_leave(struct um_omp_member *self, struct um_omp_task *task, uint64_t began)
{
    self->task = um_atomic_load(&task->parent, relaxed); /* this thread has set it */
    self->began = began;
    if (has_event(task))
        um_omp_event_await(self, task);
    task_end(self, task);
}

static void nothing(void *data)
{
    (void)data;
}

UM_OMP_ABI void GOMP_taskwait_depend_nowait(void **depend)
{
    GOMP_task(nothing, NULL, NULL, 0, 1, true, FLAG_DEPEND, depend, 0, NULL);
}

/* ---- waits ---- */

UM_OMP_ABI void GOMP_taskwait(void)
{
    children_await(um_omp_self());
}

UM_OMP_ABI void GOMP_taskyield(void)
{
    struct um_omp_member *self = um_omp_self();
    struct um_omp_task *task = um_omp_next_task(self, UM_OMP_DESCEND);

    if (task)
        um_omp_task_take(self, task);
}

void um_omp_group_begin(struct um_omp_member *self)
{
    struct um_omp_group *group = calloc(1, sizeof(*group)), *outer = self->task->group;

    if (!group)
        um_omp_fatal("out of memory");
    group->outer = outer;
    group->member = self;
    group->task = self->task;
    group->reductions = outer ? outer->reductions : NULL;
    self->task->group = group;
}

void um_omp_group_end(struct um_omp_member *self)
{
    struct um_omp_group *group = self->task->group;
    struct um_omp_end end = {&group->count, UINT64_MAX, 0, false};

    um_omp_group_count(group);
    um_omp_await(self, &end, UM_OMP_DESCEND);
    self->task->group = group->outer;
    free(group);
}

UM_OMP_ABI void GOMP_taskgroup_start(void)
{
    um_omp_group_begin(um_omp_self());
}

UM_OMP_ABI void GOMP_taskgroup_end(void)
{
    um_omp_group_end(um_omp_self());
}
