/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Entries for clang's code: tasks. A task's arguments are those of `struct kept`, which has what the
 * program sees of the task.
 */
#include <stdlib.h>
#include <string.h>

#include "kmpc.h"

typedef int32_t routine(int32_t number, void *task);

/* What the program sees of a task; its private variables are behind it, then, on 8 bytes, the variables
 * that it shares. */
struct seen {
    void *shared;
    routine *run;
    int32_t part;
    routine *destroy;
    union {
        int32_t priority;
        routine *other;
    } more;
};

enum { FINAL = 2, DESTROYS = 8, PROXY = 16, PRIORITY = 32, DETACHABLE = 64 };

/* A task's arguments. */
struct kept {
    routine *run; /* first: um_omp_fn_of() */
    struct um_omp_task *task;
    uint64_t began; /* of the outer one, while the program executes this one itself */
    size_t bytes;   /* what the program has asked for, twice */
    size_t shared;
    uint32_t flags;
    bool again; /* it is untied, and has asked to go on */
    UM_ALIGNED(16) struct seen seen;
};

static struct kept *kept_of(void *seen)
{
    return (struct kept *)((char *)seen - offsetof(struct kept, seen));
}

static void rest(struct kept *kept)
{
    while (kept->again) {
        kept->again = false;
        kept->seen.run((int32_t)um_omp_here->number, &kept->seen);
    }
    if (kept->flags & DESTROYS)
        kept->seen.destroy((int32_t)um_omp_here->number, &kept->seen);
}

void um_omp_kmpc_task(void *data)
{
    struct kept *kept = data;

    kept->again = true;
    rest(kept);
}

/* A copy constructor of the program's that it calls itself: as such a task is not discarded. */
static void no_copy(void *to, void *from)
{
}

static struct kept *task_make(struct um_omp_member *self, uint32_t flags, size_t bytes,
                              size_t shared, routine *run)
{
    size_t head = offsetof(struct kept, seen), least = __alignof__(struct kept);
    size_t at = head + (bytes + 7) / 8 * 8;
    /* of private variables, up to 64, as in libomp: it divides their bytes */
    size_t align = bytes % 64 == 0 ? 64 : bytes % 32 == 0 ? 32 : least;
    void *event;
    struct um_omp_arguments from = {.copy = flags & DESTROYS ? no_copy : NULL,
                                    .bytes = (long)(at + shared + align - least),
                                    .align = (long)least,
                                    .event = flags & (DETACHABLE | PROXY) ? &event : NULL};
    unsigned kind = self->task->kind | (flags & FINAL ? UM_OMP_FINAL : 0);
    struct um_omp_task *task = um_omp_task_make(self, um_omp_kmpc_task, &from, kind, true);
    struct kept *kept =
        kept_of((void *)(((uintptr_t)task->link.arg + head + align - 1) / align * align));

    task->link.arg = kept;
    *kept = (struct kept){run, task, 0, bytes, shared, flags, false, {.run = run}};
    kept->seen.shared = shared > 0 ? (char *)kept + at : NULL;
    return kept;
}

UM_OMP_ABI void *__kmpc_omp_task_alloc(UM_SOURCE, int32_t flags, size_t bytes, size_t shared,
                                       routine *run)
{
    return &task_make(um_omp_self(), (uint32_t)flags, bytes, shared, run)->seen;
}

UM_OMP_ABI void *__kmpc_omp_target_task_alloc(UM_SOURCE, int32_t flags, size_t bytes, size_t shared,
                                              routine *run, int64_t device)
{
    return __kmpc_omp_task_alloc(source, thread, flags, bytes, shared, run);
}

/* depend: of gcc's ABI, or NULL. */
static void task_begin(struct um_omp_member *self, struct kept *kept, bool condition, void **depend)
{
    bool has_priority = kept->flags & PRIORITY;

    um_omp_task_begin(self, kept->task, depend, condition, kept->flags & (DETACHABLE | PROXY),
                      has_priority ? um_omp_priority(kept->seen.more.priority) : 0);
}

UM_OMP_ABI int32_t __kmpc_omp_task(UM_SOURCE, void *task)
{
    struct um_omp_member *self = um_omp_self();
    struct kept *kept = kept_of(task);

    if (self->task == kept->task)
        kept->again = true;
    else
        task_begin(self, kept, true, NULL);
    return 0;
}

UM_OMP_ABI void __kmpc_omp_task_begin_if0(UM_SOURCE, void *task)
{
    struct um_omp_member *self = um_omp_self();

    kept_of(task)->began = um_omp_task_enter(self, kept_of(task)->task);
}

UM_OMP_ABI void __kmpc_omp_task_complete_if0(UM_SOURCE, void *task)
{
    rest(kept_of(task));
    um_omp_task_leave(um_omp_self(), kept_of(task)->task, kept_of(task)->began);
}

UM_OMP_ABI void GOMP_taskwait(void);
UM_OMP_ABI void GOMP_taskyield(void);
UM_OMP_ABI void GOMP_taskwait_depend_nowait(void **depend);

UM_OMP_ABI int32_t __kmpc_omp_taskwait(UM_SOURCE)
{
    GOMP_taskwait();
    return 0;
}

UM_OMP_ABI int32_t __kmpc_omp_taskyield(UM_SOURCE, int32_t end_part)
{
    GOMP_taskyield();
    return 0;
}

UM_OMP_ABI int32_t __kmpc_omp_reg_task_with_affinity(UM_SOURCE, void *task, int32_t count,
                                                     void *list)
{
    return 0;
}

UM_OMP_ABI void *__kmpc_task_allow_completion_event(UM_SOURCE, void *task)
{
    return kept_of(task)->task;
}

UM_OMP_ABI void __kmpc_proxy_task_completed_ooo(void *task)
{
    omp_fulfill_event(kept_of(task)->task);
}

UM_OMP_ABI void __kmpc_proxy_task_completed(int32_t thread, void *task)
{
    __kmpc_proxy_task_completed_ooo(task);
}

/* ---- dependences ---- */

enum { IN = 1, OUT = 2, MUTEX = 4, SET = 8, ALL = 128 };

struct clause {
    void *address;
    size_t bytes;
    uint8_t kind;
};

/* gcc's array for the program's, to be freed: 0, n, n of out, 0, n of in; those, and the rest as objects. */
static void **depend_of(int32_t count, const struct clause *clause)
{
    size_t n = (size_t)(count > 0 ? count : 0), ins = 0, outs = 0, sets = 0;
    void **list = malloc((5 + 3 * n) * sizeof(*list)), **object;

    if (!list)
        um_omp_fatal("out of memory");
    object = list + 5 + n;
    for (size_t i = 0; i < n; i++)
        if (clause[i].kind == ALL || (clause[i].address && clause[i].kind & (OUT | MUTEX)))
            list[5 + outs++] = clause[i].kind == ALL ? NULL : clause[i].address;
    for (size_t i = 0; i < n; i++)
        if (clause[i].address && clause[i].kind == IN)
            list[5 + outs + ins++] = clause[i].address;
    for (size_t i = 0; i < n; i++)
        if (clause[i].address && clause[i].kind == SET) {
            object[0] = clause[i].address;
            object[1] = (void *)5; /* inoutset, in a depend object */
            list[5 + outs + ins + sets++] = object;
            object += 2;
        }
    list[0] = NULL;
    list[1] = (void *)(outs + ins + sets);
    list[2] = (void *)outs;
    list[3] = NULL;
    list[4] = (void *)ins;
    return list;
}

/* unaliased: addresses that are in no other list; they are in the first one as well. */
UM_OMP_ABI int32_t __kmpc_omp_task_with_deps(UM_SOURCE, void *task, int32_t count,
                                             const struct clause *clause, int32_t unaliased,
                                             const struct clause *others)
{
    void **depend = depend_of(count, clause);

    task_begin(um_omp_self(), kept_of(task), true, depend);
    free(depend);
    return 0;
}

UM_OMP_ABI void __kmpc_omp_taskwait_deps_51(UM_SOURCE, int32_t count, const struct clause *clause,
                                            int32_t unaliased, const struct clause *others,
                                            int32_t no_wait)
{
    void **depend = depend_of(count, clause);

    if (no_wait)
        GOMP_taskwait_depend_nowait(depend);
    else
        um_omp_depend_await(um_omp_self(), depend);
    free(depend);
}

UM_OMP_ABI void __kmpc_omp_wait_deps(UM_SOURCE, int32_t count, const struct clause *clause,
                                     int32_t unaliased, const struct clause *others)
{
    __kmpc_omp_taskwait_deps_51(source, thread, count, clause, unaliased, others, 0);
}

/* ---- reductions of tasks ---- */

/* A variable, as the program describes it. */
struct reduced {
    void *address, *original;
    size_t bytes;
    void (*init)(void *copy, void *original);
    void (*fini)(void *copy);
    void (*combine)(void *address, void *copy);
    uint32_t flags;
};

/* Of a taskgroup. Members' copies, by member and variable: each makes its own when it first needs it; the
 * copies of a region or a work share are those of all its members. */
struct um_omp_copies {
    struct um_omp_block *block;
    um_atomic_uptr *copy; /* in the block */
    bool of_team;
    size_t count;
    struct reduced variable[];
};

static void *copies_begin(struct um_omp_member *self, int32_t count, const struct reduced *data,
                          bool of_team)
{
    size_t variables = (size_t)count * sizeof(*data);
    size_t bytes = (size_t)count * self->team->members * sizeof(um_atomic_uptr);
    struct um_omp_copies *copies = malloc(sizeof(*copies) + variables);

    if (!copies)
        um_omp_fatal("out of memory");
    bytes += sizeof(struct um_omp_block);
    copies->block = of_team ? um_omp_block_enter(self, bytes) : um_omp_memory(bytes);
    copies->copy = (um_atomic_uptr *)(copies->block + 1);
    copies->of_team = of_team;
    copies->count = (size_t)count;
    memcpy(copies->variable, data, variables);
    self->task->group->copies = copies;
    return self->task->group;
}

static uintptr_t copy_make(const struct reduced *variable)
{
    void *copy = um_omp_memory(variable->bytes);

    if (variable->init)
        variable->init(copy, variable->original);
    return (uintptr_t)copy;
}

/* Combines all members' copies with the caller's variables. */
static void copies_end(struct um_omp_member *self, struct um_omp_copies *copies)
{
    if (!copies->of_team || um_omp_block_leave(self, copies->block)) {
        for (size_t i = 0; i < copies->count * self->team->members; i++) {
            const struct reduced *variable = &copies->variable[i % copies->count];
            /* relaxed: the tasks have ended; um_omp_block_leave() */
            void *copy = (void *)um_atomic_load(&copies->copy[i], relaxed);

            if (!copy)
                continue;
            variable->combine(variable->address, copy);
            if (variable->fini)
                variable->fini(copy);
            free(copy);
        }
        free(copies->block);
    }
    free(copies);
}

/* The variable at the address, or with a member's copy there; its number, or `count`. */
static size_t variable_find(const struct um_omp_copies *copies, unsigned members, uintptr_t address)
{
    for (size_t i = 0; i < copies->count; i++)
        if ((uintptr_t)copies->variable[i].address == address)
            return i;
    for (size_t i = 0; i < copies->count * members; i++) {
        /* relaxed: the one that the program has the address of came with that */
        uintptr_t copy = um_atomic_load(&copies->copy[i], relaxed);

        if (copy && address - copy < copies->variable[i % copies->count].bytes)
            return i % copies->count;
    }
    return copies->count;
}

/* The calling member's copy. group: where to look, and then in those around it; NULL: from the innermost. */
UM_OMP_ABI void *__kmpc_task_reduction_get_th_data(int32_t thread, void *group, void *address)
{
    struct um_omp_member *self = um_omp_self();
    struct um_omp_group *at = group ? group : self->task->group;

    for (; at; at = at->outer) {
        const struct um_omp_copies *copies = at->copies;
        size_t i = copies ? variable_find(copies, self->team->members, (uintptr_t)address) : 0;
        um_atomic_uptr *copy;

        if (!copies || i == copies->count)
            continue;
        copy = &copies->copy[self->number * copies->count + i];
        /* relaxed, both: only this thread writes it */
        if (!um_atomic_load(copy, relaxed))
            um_atomic_store(copy, copy_make(&copies->variable[i]), relaxed);
        return (void *)um_atomic_load(copy, relaxed);
    }
    um_omp_fatal("a task reduces %p, which no taskgroup does", address);
}

UM_OMP_ABI void *__kmpc_taskred_init(int32_t thread, int32_t count, void *data)
{
    return copies_begin(um_omp_self(), count, data, false);
}

/* share: of a work share; else of a region. */
UM_OMP_ABI void *__kmpc_taskred_modifier_init(UM_SOURCE, int32_t share, int32_t count, void *data)
{
    struct um_omp_member *self = um_omp_self();

    um_omp_group_begin(self);
    return copies_begin(self, count, data, true);
}

UM_OMP_ABI void __kmpc_taskgroup(UM_SOURCE)
{
    um_omp_group_begin(um_omp_self());
}

UM_OMP_ABI void __kmpc_end_taskgroup(UM_SOURCE)
{
    struct um_omp_member *self = um_omp_self();
    struct um_omp_copies *copies = self->task->group->copies;

    um_omp_group_end(self);
    if (copies)
        copies_end(self, copies);
}

UM_OMP_ABI void __kmpc_task_reduction_modifier_fini(UM_SOURCE, int32_t share)
{
    __kmpc_end_taskgroup(source, thread);
}

/* ---- taskloop ---- */

/* The task is a pattern: each of the loop's tasks is a copy of it, in which the bounds, that are pointed
 * to, are its own. how: 0, 1 for grainsize, 2 for num_tasks. */
UM_OMP_ABI void __kmpc_taskloop_5(UM_SOURCE, void *task, int32_t condition, uint64_t *lower,
                                  uint64_t *upper, int64_t step, int32_t no_group, int32_t how,
                                  uint64_t asks, int32_t strict,
                                  void (*copy)(void *, void *, int32_t))
{
    struct um_omp_member *self = um_omp_self();
    struct kept *pattern = kept_of(task);
    size_t low_at = (size_t)((char *)lower - (char *)task);
    size_t high_at = (size_t)((char *)upper - (char *)task);
    uint64_t at = *lower; /* of any type: there is an iteration, or the bounds are apart by 1 */
    uint64_t left =
        step > 0 ? (*upper - *lower) / (uint64_t)step + 1 : (*lower - *upper) / -(uint64_t)step + 1;
    struct um_omp_taskloop loop = {.count = left};
    unsigned flags = (how == 1 ? UM_OMP_GRAINSIZE : 0) | (strict ? UM_OMP_STRICT : 0);

    if (!no_group)
        um_omp_group_begin(self);
    if (left > 0)
        um_omp_taskloop_divide(&loop, flags, how > 0 ? asks : 0, self->team->members);
    for (uint64_t i = 0; i < loop.tasks; i++) {
        uint64_t take = loop.each + (i < loop.more);
        struct kept *kept =
            task_make(self, pattern->flags, pattern->bytes, pattern->shared, pattern->run);
        void *shared = kept->seen.shared;

        take = take < left ? take : left;
        left -= take;
        memcpy(&kept->seen, task, pattern->bytes);
        kept->seen.shared = shared;
        if (pattern->shared > 0)
            memcpy(shared, pattern->seen.shared, pattern->shared);
        *(uint64_t *)((char *)&kept->seen + low_at) = at;
        at += take * (uint64_t)step;
        *(uint64_t *)((char *)&kept->seen + high_at) = at - (uint64_t)step;
        if (copy)
            copy(&kept->seen, task, left == 0);
        task_begin(self, kept, condition, NULL);
    }
    pattern->began = um_omp_task_enter(self, pattern->task);
    rest(pattern);
    um_omp_task_leave(self, pattern->task, pattern->began);
    if (!no_group)
        __kmpc_end_taskgroup(source, thread);
}

UM_OMP_ABI void __kmpc_taskloop(UM_SOURCE, void *task, int32_t condition, uint64_t *lower,
                                uint64_t *upper, int64_t step, int32_t no_group, int32_t how,
                                uint64_t asks, void (*copy)(void *, void *, int32_t))
{
    __kmpc_taskloop_5(source, thread, task, condition, lower, upper, step, no_group, how, asks, 0,
                      copy);
}
