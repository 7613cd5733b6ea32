/* SPDX-License-Identifier: BSL-1.0 */
/* taskloop: its iterations as tasks. The first two arguments of a task are its bounds. */
#include "library.h"

#define FLAG_UP (1u << 8)
#define FLAG_IF (1u << 10)
#define FLAG_NOGROUP (1u << 11)
#define FLAG_REDUCTION (1u << 12)

void um_omp_taskloop_divide(struct um_omp_taskloop *loop, unsigned flags, uint64_t asked,
                            unsigned members)
{
    uint64_t count = loop->count;

    if (flags & UM_OMP_GRAINSIZE) {
        uint64_t grain = asked > 0 ? asked : 1;

        loop->tasks = flags & UM_OMP_STRICT ? (count - 1) / grain + 1 : count / grain;
        loop->tasks = loop->tasks > 0 ? loop->tasks : 1;
        loop->each = flags & UM_OMP_STRICT ? grain : count / loop->tasks;
    } else {
        loop->tasks = asked > 0 ? asked : members;
        loop->tasks = loop->tasks < count ? loop->tasks : count;
        loop->each = count / loop->tasks;
    }
    loop->more = loop->each * loop->tasks < count ? count % loop->tasks : 0;
}

static void spawn(struct um_omp_member *self, const struct um_omp_taskloop *loop, um_omp_fn *fn,
                  const struct um_omp_arguments *from, unsigned flags, int priority)
{
    unsigned kind = self->task->kind | (flags & UM_OMP_FINAL);
    bool alone = self->team->members == 1 && (priority <= 0 || self->team->level == 0);
    bool at_once = !(flags & FLAG_IF) || kind & UM_OMP_FINAL || alone;
    uint64_t at = 0;

    if (UM_UNLIKELY(kind & UM_OMP_CANCELLABLE) && um_omp_is_cancelled(self, self->task))
        return;
    for (uint64_t i = 0; i < loop->tasks; i++) {
        bool many = priority > 0 ? um_omp_many_urgent(self->team) : um_omp_many_wait(self);
        bool now = at_once || many || um_omp_tasks_full(self);
        struct um_omp_task *task = um_omp_task_make(self, fn, from, kind, !now);
        uint64_t *bounds = task->link.arg;
        uint64_t take = loop->each + (i < loop->more);

        take = take < loop->count - at ? take : loop->count - at;
        bounds[0] = loop->start + at * loop->step;
        at += take;
        bounds[1] = loop->start + at * loop->step;
        task->priority = priority;
        if (now)
            um_omp_task_execute(self, task);
        else if (priority > 0)
            um_omp_task_urge(self, task);
        else
            um_omp_task_defer(self, task);
    }
}

/* asked: of um_omp_taskloop_divide(). data[2] is what reductions are, if there are any. */
UM_OMP_PART void taskloop(struct um_omp_taskloop *loop, um_omp_fn *fn,
                          const struct um_omp_arguments *from, unsigned flags, uint64_t asked,
                          int priority)
{
    struct um_omp_member *self = um_omp_self();
    bool group = !(flags & FLAG_NOGROUP), reduces = group && (flags & FLAG_REDUCTION);

    if (group)
        um_omp_group_begin(self);
    if (reduces)
        um_omp_reduce_begin(self, ((uintptr_t **)from->data)[2]);
    if (loop->count > 0) {
        um_omp_taskloop_divide(loop, flags, asked, self->team->members);
        spawn(self, loop, fn, from, flags, um_omp_priority(priority));
    }
    if (group)
        um_omp_group_end(self);
}

UM_OMP_ABI void GOMP_taskloop(um_omp_fn *fn, void *data, void (*copy)(void *, void *), long bytes,
                              long align, unsigned flags, unsigned long asked, int priority,
                              long start, long end, long step)
{
    struct um_omp_arguments from = {data, copy, bytes, align, NULL};
    struct um_omp_taskloop loop = {.start = (uint64_t)start, .step = (uint64_t)step};

    if (step > 0 && start < end)
        loop.count = ((uint64_t)end - (uint64_t)start - 1) / (uint64_t)step + 1;
    else if (step < 0 && start > end)
        loop.count = ((uint64_t)start - (uint64_t)end - 1) / -(uint64_t)step + 1;
    taskloop(&loop, fn, &from, flags, asked, priority);
}

UM_OMP_ABI void GOMP_taskloop_ull(um_omp_fn *fn, void *data, void (*copy)(void *, void *),
                                  long bytes, long align, unsigned flags, unsigned long asked,
                                  int priority, unsigned long long start, unsigned long long end,
                                  unsigned long long step)
{
    struct um_omp_arguments from = {data, copy, bytes, align, NULL};
    struct um_omp_taskloop loop = {.start = start, .step = step};

    if (flags & FLAG_UP && start < end)
        loop.count = (end - start - 1) / step + 1;
    else if (!(flags & FLAG_UP) && start > end)
        loop.count = (start - end - 1) / -step + 1;
    taskloop(&loop, fn, &from, flags, asked, priority);
}
