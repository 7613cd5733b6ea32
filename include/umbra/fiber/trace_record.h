/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a core records when the environment asks for a trace, a table of counters or a live view
 * (docs/trace.md). Private; included by fiber.h.
 *
 * Off, a program pays nothing where fibers switch: the fast paths look at the two words behind
 * core->exceptions anyway (fiber/own_state.h), and while a core is traced these are two that are
 * never 0. So each switch takes the slow path, and is recorded there. Spawns, signals and wake-ups
 * look at um_trace_hook, which is 0.
 *
 * A core writes its own ring (fiber/trace_ring.h), its counters, its table of fibers and the texts
 * that its records name by their addresses. All lie in a shared mapping of the file, so that they
 * are there however the program ends, and tools/umbra-trace and tools/umbra-top read them meanwhile.
 * A thread that is no core, and a signal handler, record nothing: what they wake says so.
 *
 *   the file            an area for each runtime that has been traced, one after the other
 *   an area             struct um_trace_area; for each core: struct um_trace_shown, its ring
 *
 *   core->trace         the core's own: set by its thread, in the scheduler, when it begins
 *   core->more->trace   the same for other threads; fixed
 */
#ifndef UMBRA_FIBER_TRACE_RECORD_H
#define UMBRA_FIBER_TRACE_RECORD_H

#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/trace_kinds.h>
#include <umbra/cpu.h>
#include <umbra/fiber/control_block.h>
#include <umbra/fiber/own_state.h>
#include <umbra/fiber/runtime.h>
#include <umbra/fiber/trace_ring.h>
#include <umbra/wait/protocol.h>

/* Probes for perf, bpftrace and SystemTap: an instruction that does nothing, in the functions that
 * record. Found by the header that systemtap-sdt-dev installs. (FreeBSD has another one.) */
#if defined(__linux__) && defined(__has_include) && !defined(UMBRA_NO_PROBES)
#if __has_include(<sys/sdt.h>)
#ifdef __cplusplus
extern "C++" { /* it has templates, and the user may include this inside extern "C" */
#endif
#include <sys/sdt.h>
#ifdef __cplusplus
}
#endif
#define UM_PROBE(name, core, a, b) DTRACE_PROBE3(umbra, name, core, a, b)
#endif
#endif
#ifndef UM_PROBE
#define UM_PROBE(name, core, a, b) ((void)0)
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* What the time of a core is spent on. */
enum um_trace_state { UM_TRACE_IN_SCHEDULER, UM_TRACE_IN_FIBER, UM_TRACE_IN_IDLE, UM_TRACE_STATES };

/* Both change with the layout. */
#define UM_TRACE_AREA_MAGIC UINT64_C(0x3165636172746d75)
#define UM_TRACE_MAGIC UINT64_C(0x32706f7461626d75)
#define UM_TRACE_UNIT 65536 /* areas, and what each core has of them, are multiples: of any page */
#define UM_TRACE_KIND_BYTES 16
#define UM_TRACE_FIBERS 4096 /* entries of a core's table, in sets of */
#define UM_TRACE_WAYS 4
#define UM_TRACE_TEXTS 256 /* entries of a core's table, which are looked for in so many places: */
#define UM_TRACE_TEXT_WAYS 16
#define UM_TRACE_TEXT_BYTES 120
#define UM_TRACE_MIX UINT64_C(0x9e3779b97f4a7c15) /* 2^64 by the golden ratio: spreads numbers */
/* um_fiber.waited: the spawn, or the wake-up from the present wait, is in a ring; the fiber has been
 * spawned and has not run; from this bit on, how many waits of the fiber are over. */
#define UM_TRACE_CAUSED UINT64_C(1)
#define UM_TRACE_NEW UINT64_C(2)
#define UM_TRACE_WAIT_SHIFT 2
#define UM_TRACE_ENDED                                                                             \
    UINT64_C(1) /* in the word of a fiber that has ended; fibers' own words are even */

/* What an area is of. */
enum um_trace_group {
    UM_TRACE_OF_RUNTIME, /* a runtime */
    UM_TRACE_OF_OMP      /* a thread of an OpenMP program: one core; its number is the thread's */
};

/* The head of a runtime's area; its creator writes. */
struct um_trace_area {
    um_atomic_u64 magic; /* UM_TRACE_AREA_MAGIC from when the rest is there on */
    uint64_t bytes;      /* of the area; fixed, as the next five */
    uint64_t core_bytes; /* of each core */
    uint64_t cores;
    uint64_t process;
    uint64_t start;                   /* the file's time 0, in cycles */
    uint64_t since_s;                 /* when the runtime began: seconds on the calendar clock */
    uint64_t group;                   /* enum um_trace_group */
    char objects[UM_TRACE_UNIT - 64]; /* um_os_objects(); more when the runtime ends */
};

UM_STATIC_ASSERT(sizeof(struct um_trace_area) == UM_TRACE_UNIT, "known to tools/umbra-trace");

/* A text that records name by an address: of a mark, or of the kind of thing a fiber waits for. */
struct um_trace_text {
    um_atomic_u64 address;                       /* 0: none; written once */
    um_atomic_u64 text[UM_TRACE_TEXT_BYTES / 8]; /* bytes; the rest is cut off */
};

/* A fiber in its home core's table, where readers that have only the word look. */
struct um_trace_fiber {
    um_atomic_u64 self;                             /* um_fiber_self(); 0: none */
    um_atomic_u64 name[UMBRA_FIBER_NAME_BYTES / 8]; /* bytes */
    um_atomic_u64 fn;                               /* its function */
    /* for the live view only */
    um_atomic_u64 since;                         /* when it began to wait; 0: it does not */
    um_atomic_u64 kind[UM_TRACE_KIND_BYTES / 8]; /* what it waits for: bytes of the name */
};

/* The counters of a core. The core writes, relaxed: a reader wants numbers, and each for itself. */
struct um_trace_counts {
    um_atomic_u64 of[32];     /* records; by enum um_trace_kind */
    um_atomic_u64 ended[4];   /* waits of fibers; by enum um_trace_ending */
    um_atomic_u64 idle[8];    /* waits of the core; by enum um_trace_idle */
    um_atomic_u64 cycles[4];  /* time in each state until `since`; by enum um_trace_state */
    um_atomic_u64 since;      /* when the present state began */
    um_atomic_u64 state;      /* enum um_trace_state */
    um_atomic_u64 running;    /* the fiber that runs, or 0; for the live view only, as the next */
    um_atomic_u64 runs_since; /* when it began to run */
};

UM_STATIC_ASSERT(UM_TRACE_KINDS <= 32 && UM_TRACE_ENDINGS <= 4 && UM_TRACE_IDLES <= 8,
                 "enough room");

/* What readers in other processes see of a core: tools/umbra-top and tools/umbra-trace know the
 * layout. The ring follows, if there is one. */
struct um_trace_shown {
    um_atomic_u64 magic;         /* UM_TRACE_MAGIC from when the core records on */
    uint64_t runtime, core, cpu; /* fixed, as the next four */
    uint64_t cores;              /* of the runtime */
    uint64_t hz;                 /* of the time stamps here, */
    uint64_t at_cycles, at_ns;   /* and one of them with the monotonic clock's time */
    struct um_trace_counts count;
    um_atomic_u64 holds; /* of the runtime, by umbra_hold(); in core 0's; for the live view only */
    uint64_t began;      /* the time stamp when the core began to record */
    uint64_t spare[2];
    struct um_trace_fiber fiber[UM_TRACE_FIBERS];
    struct um_trace_text text[UM_TRACE_TEXTS];
};

UM_STATIC_ASSERT(offsetof(struct um_trace_shown, count) == 64, "known to tools/umbra-top");
UM_STATIC_ASSERT(offsetof(struct um_trace_shown, holds) == 480, "known to tools/umbra-top");
UM_STATIC_ASSERT(offsetof(struct um_trace_shown, fiber) == 512, "known to tools/umbra-top");
UM_STATIC_ASSERT(sizeof(struct um_trace_fiber) == 64, "known to tools/umbra-top");
UM_STATIC_ASSERT(sizeof(struct um_trace_text) == 128, "known to tools/umbra-trace");
UM_STATIC_ASSERT(sizeof(struct um_trace_shown) == 295424, "the ring's place");

/* A traced core. */
struct um_trace {
    struct um_records *ring;      /* NULL: no file; fixed, as the next five */
    struct um_trace_shown *shown; /* in the area */
    struct um_trace_area *area;   /* of the runtime; NULL: none yet */
    uint64_t from;                /* where the area begins in the file */
    bool top;                     /* for a live view */
    unsigned runtime;             /* its number */
    size_t stack_bytes;           /* the most that was used of a stack; when the runtime ends */
};

/* ---- recording: the core, in a fiber or in the scheduler ---- */

UM_LINKONCE void um_trace_record(struct umbra_core *core, enum um_trace_kind kind, uint64_t a,
                                 uint64_t b);
UM_LINKONCE UM_COLD void um_trace_spawn(struct umbra_core *core, struct um_fiber *fiber);
UM_LINKONCE UM_COLD void um_trace_mark(const char *text, uint64_t value);
/* Of a thread that is no core: a construct begins or ends. Its own trace, with a ring. */
UM_LINKONCE void um_trace_construct(struct um_trace *trace, enum um_trace_kind kind, uint64_t now,
                                    const char *text, const void *place);
UM_LINKONCE void um_trace_wake(struct umbra_core *core, struct um_fiber *fiber,
                               enum um_trace_kind kind);

/* Records something, if the core is traced. core: the caller's, or NULL. Never switches or blocks. */
UM_INLINE void um_trace(struct umbra_core *core, enum um_trace_kind kind, uint64_t a, uint64_t b)
{
    if (um_tracing() && core)
        um_trace_record(core, kind, a, b);
}

#ifdef UMBRA_IMPLEMENTATION

/* Words of the assembler in the text of a probe, where a program's macros would be replaced. */
#pragma push_macro("weak")
#pragma push_macro("hidden")
#undef weak
#undef hidden

#ifdef __clang__ /* finds, where the probes are, that the macros of sys/sdt.h are no strict C11 */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif

/* The word that names a fiber; 0: none. */
UM_INLINE uint64_t um_trace_self(const struct um_fiber *fiber)
{
    return fiber ? um_fiber_self(fiber, um_fiber_generation(fiber)) : 0;
}

/* relaxed, both: see struct um_trace_counts */
UM_INLINE void um_trace_add(um_atomic_u64 *sum, uint64_t more)
{
    um_atomic_store(sum, um_atomic_load(sum, relaxed) + more, relaxed);
}

/* Counts and writes one record. Returns its time. */
UM_INLINE uint64_t um_trace_put(struct umbra_core *core, enum um_trace_kind kind, uint64_t detail,
                                uint64_t a, uint64_t b)
{
    struct um_trace *trace = core->trace;
    uint64_t now = um_arch_cycles();

    um_trace_add(&trace->shown->count.of[kind], 1);
    if (trace->ring)
        um_records_add(trace->ring, now, (uint64_t)kind | detail << 8, a, b);
    return now;
}

/* The core is in this state from now on. relaxed: as above */
UM_INLINE void um_trace_enter(struct um_trace_counts *count, enum um_trace_state state,
                              uint64_t now)
{
    uint64_t before = um_atomic_load(&count->state, relaxed);

    if (before == (uint64_t)state)
        return;
    um_trace_add(&count->cycles[before], now - um_atomic_load(&count->since, relaxed));
    um_atomic_store(&count->since, now, relaxed);
    um_atomic_store(&count->state, (uint64_t)state, relaxed);
}

/* Any record but those of switches and idle times. */
UM_LINKONCE void um_trace_record(struct umbra_core *core, enum um_trace_kind kind, uint64_t a,
                                 uint64_t b)
{
    if (!core->trace)
        return;
    um_trace_put(core, kind, 0, a, b);
    if (kind == UM_TRACE_SPAWN)
        UM_PROBE(spawn, core->index, a, b);
    else if (kind == UM_TRACE_SIGNAL)
        UM_PROBE(signal, core->index, a, b);
    else if (kind == UM_TRACE_TASK)
        UM_PROBE(task, core->index, a, b);
    else
        UM_PROBE(other, core->index, kind, a);
}

/* The function that um_trace_hook points to. */
UM_LINKONCE void um_trace_here(enum um_trace_kind kind, uint64_t a, uint64_t b)
{
    if (um_core_self)
        um_trace_record(um_core_self, kind, a, b);
}

/* ---- texts: the core writes, other processes read ---- */

/* Writes a text into its entry, if it is not there and a place is free. */
UM_LINKONCE UM_COLD void um_trace_enter_text(struct um_trace_text *table, uint64_t address,
                                             const char *text, unsigned place)
{
    struct um_trace_text *entry = &table[place];
    char bytes[UM_TRACE_TEXT_BYTES];

    for (unsigned i = 1; i < UM_TRACE_TEXT_WAYS && um_atomic_load(&entry->address, relaxed) != 0 &&
                         um_atomic_load(&entry->address, relaxed) != address;
         i++) /* relaxed, all: the core's own */
        entry = &table[(place + i) % UM_TRACE_TEXTS];
    if (um_atomic_load(&entry->address, relaxed) != 0)
        return;
    um_copy_text(bytes, sizeof(bytes), text);
    um_words_write(entry->text, bytes, sizeof(bytes));
    um_atomic_store(&entry->address, address, release); /* the text is there; for other processes */
}

/* A record names a text by its address, or by that of the thing that the text names. */
UM_INLINE void um_trace_name(struct um_trace *trace, const void *address, const char *text)
{
    uint64_t key = (uintptr_t)address;
    unsigned place = (unsigned)(key / 8 % UM_TRACE_TEXTS);
    struct um_trace_text *table = trace->shown->text;

    if (um_atomic_load(&table[place].address, relaxed) != key) /* the core's own */
        um_trace_enter_text(table, key, text, place);
}

/* A mark of the program, when something was traced a moment ago. */
UM_LINKONCE UM_COLD void um_trace_mark(const char *text, uint64_t value)
{
    struct umbra_core *core = um_core_self;

    if (!core || !core->trace)
        return;
    um_trace_name(core->trace, text, text);
    um_trace_record(core, UM_TRACE_MARK, (uintptr_t)text, value);
}

UM_LINKONCE void um_trace_construct(struct um_trace *trace, enum um_trace_kind kind, uint64_t now,
                                    const char *text, const void *place)
{
    um_trace_name(trace, text, text);
    um_trace_add(&trace->shown->count.of[kind], 1);
    um_records_add(trace->ring, now, (uint64_t)kind, (uintptr_t)text, (uintptr_t)place);
}

/* ---- the table of fibers: the core writes, other processes read ---- */

/* The set of entries where a fiber may be. The upper bits depend on the fiber's life, too. */
UM_INLINE struct um_trace_fiber *um_trace_set(struct um_trace *trace, uint64_t self)
{
    uint64_t hash = self * UM_TRACE_MIX / (UINT64_MAX / (UM_TRACE_FIBERS / UM_TRACE_WAYS) + 1);

    return &trace->shown->fiber[hash * UM_TRACE_WAYS];
}

/* The entry of a fiber, or NULL. relaxed: the core's own. */
UM_LINKONCE struct um_trace_fiber *um_trace_find(struct um_trace *trace, uint64_t self)
{
    struct um_trace_fiber *way = um_trace_set(trace, self);

    for (int i = 0; i < UM_TRACE_WAYS; i++)
        if ((um_atomic_load(&way[i].self, relaxed) & ~UM_TRACE_ENDED) == self)
            return &way[i];
    return NULL;
}

/* Enters a fiber: where none is, else in place of one that has ended, else of any of its set. Which
 * one changes: the names of those that have ended are for tools/umbra-trace. */
UM_LINKONCE void um_trace_enlist(struct um_trace *trace, const struct um_fiber *fiber,
                                 uint64_t self)
{
    struct um_trace_fiber *way = um_trace_set(trace, self);
    uint64_t first = um_atomic_load(&trace->shown->count.of[UM_TRACE_BEGIN], relaxed);
    struct um_trace_fiber *place = &way[first % UM_TRACE_WAYS];
    uint64_t other = 1;

    for (uint64_t i = first; i < first + UM_TRACE_WAYS && other != 0; i++) {
        other = um_atomic_load(&way[i % UM_TRACE_WAYS].self, relaxed); /* the core's own */
        if (other == 0 || (other & UM_TRACE_ENDED))
            place = &way[i % UM_TRACE_WAYS];
    }
    /* release, all that follow: a reader in another process that has read any of the new words
     * finds the word of the new fiber, or none, if it reads that again (tools/umbra-trace) */
    um_atomic_store(&place->self, 0, relaxed);
    um_atomic_store(&place->since, 0, release);
    um_atomic_store(&place->fn, (uintptr_t)fiber->node.accept, release);
    for (int i = 0; i < UMBRA_FIBER_NAME_BYTES / 8; i++)
        um_atomic_store(&place->name[i], um_atomic_load(&fiber->name[i], relaxed), release);
    um_atomic_store(&place->self, self, release);
}

/* ---- switches and idle times: the core is traced ---- */

/* A fiber runs for the first time. */
UM_LINKONCE void um_trace_begin(struct umbra_core *core, struct um_fiber *fiber)
{
    uint64_t self = um_trace_self(fiber);
    uint64_t waited = um_atomic_load(&fiber->waited, relaxed); /* see um_trace_spawn() */

    um_atomic_store(&fiber->waited, waited & ~(UM_TRACE_NEW | UM_TRACE_CAUSED), relaxed);
    um_trace_put(core, UM_TRACE_BEGIN, (waited & UM_TRACE_CAUSED) << 3, self,
                 (uintptr_t)fiber->node.accept);
    UM_PROBE(begin, core->index, fiber, fiber->node.accept);
    um_trace_enlist(core->trace, fiber, self);
}

/* For the live view: what the core runs from now on, and since when `from` waits, and for what; NULL:
 * it does not. relaxed, all: see struct um_trace_counts */
UM_LINKONCE void um_trace_show(struct um_trace_shown *shown, struct um_trace_fiber *from,
                               const struct um_kind *what, uint64_t running, uint64_t now)
{
    char name[UM_TRACE_KIND_BYTES] = "";

    um_atomic_store(&shown->count.running, running, relaxed);
    um_atomic_store(&shown->count.runs_since, now, relaxed);
    if (!from)
        return;
    if (what)
        strncpy(name, what->name, UM_TRACE_KIND_BYTES - 1);
    um_words_write(from->kind, name, sizeof(name));
    um_atomic_store(&from->since, now, relaxed);
}

/* The core goes from fiber `from` to fiber `to`; NULL: its scheduler. */
UM_LINKONCE void um_trace_switch(struct umbra_core *core, enum um_trace_kind kind,
                                 const struct um_fiber *from, struct um_fiber *to)
{
    uintptr_t what = 0;
    uint64_t now;

    if (kind == UM_TRACE_BLOCK) /* relaxed: the core's own */
        what = (uintptr_t)um_atomic_load(&from->waits_for, relaxed);
    now = um_trace_put(core, kind, what, um_trace_self(from), um_trace_self(to));
    UM_PROBE(switch, core->index, from, to);
    if (core->trace->top)
        um_trace_show(core->trace->shown,
                      kind == UM_TRACE_BLOCK ? um_trace_find(core->trace, um_trace_self(from))
                                             : NULL,
                      (const struct um_kind *)what, um_trace_self(to), now);
    um_trace_enter(&core->trace->shown->count, to ? UM_TRACE_IN_FIBER : UM_TRACE_IN_SCHEDULER, now);
    if (to && (um_atomic_load(&to->waited, relaxed) & UM_TRACE_NEW)) /* the core's own by now */
        um_trace_begin(core, to);
}

/* The same, of a fiber that leaves by um_fiber_leave(): it is blocked, or has ended. */
UM_LINKONCE void um_trace_leave(struct umbra_core *core, const struct um_fiber *from,
                                struct um_fiber *to)
{
    bool ended = um_fiber_get_state(from) == UMBRA_FIBER_TERMINATED;
    const struct um_kind *what = um_atomic_load(&from->waits_for, relaxed); /* the core's own */
    struct um_trace_fiber *entry = ended ? um_trace_find(core->trace, um_trace_self(from)) : NULL;

    if (entry)
        um_atomic_store(&entry->self, um_trace_self(from) | UM_TRACE_ENDED, relaxed);
    else if (what && !ended)
        um_trace_name(core->trace, what, what->name);
    um_trace_switch(core, ended ? UM_TRACE_END : UM_TRACE_BLOCK, from, to);
}

UM_LINKONCE void um_trace_idle(struct umbra_core *core)
{
    um_trace_enter(&core->trace->shown->count, UM_TRACE_IN_IDLE,
                   um_trace_put(core, UM_TRACE_IDLE, 0, 0, 0));
    UM_PROBE(idle, core->index, 0, 0);
}

/* The core is no longer idle. before: what its waiter had counted when it became so. */
UM_LINKONCE void um_trace_busy(struct umbra_core *core, const struct umbra_wait_stats *before)
{
    struct umbra_wait_stats now = umbra_waiter_stats(&core->waiter);
    enum um_trace_idle how = UM_TRACE_LOOKED;

    for (int end = 0; end < 3; end++)
        if (now.ended[end] != before->ended[end])
            how = (enum um_trace_idle)(UM_TRACE_SPUN + end);
    if (how == UM_TRACE_LOOKED && now.timeouts != before->timeouts)
        how = UM_TRACE_TIMER;
    um_trace_add(&core->trace->shown->count.idle[how], 1);
    um_trace_enter(&core->trace->shown->count, UM_TRACE_IN_SCHEDULER,
                   um_trace_put(core, UM_TRACE_BUSY, 0, how, 0));
    UM_PROBE(busy, core->index, how, 0);
}

/* ---- waits ---- */

/*
 * A fiber that was blocked, or stopped, runs again. timed: it had a deadline, and no claim. on: what
 * it waited for, or NULL. In the record: the ending, whether the wake-up was recorded, and the
 * address, which has 48 bits.
 */
UM_LINKONCE void um_trace_return(struct umbra_core *core, struct um_fiber *fiber, bool timed,
                                 const void *on)
{
    uint64_t waited = um_atomic_load(&fiber->waited, relaxed); /* see um_trace_wake() */
    enum um_trace_ending ending = UM_TRACE_WOKEN;

    if (fiber->claimed) /* relaxed: the wait is over */
        timed =
            (um_atomic_load(&fiber->claimed->claim, relaxed) & UM_CLAIM_STATE) != UM_CLAIM_TAKEN;
    if (um_fiber_flags(fiber) & UM_FIBER_INTERRUPTED)
        ending = UM_TRACE_CANCELED;
    else if (timed)
        ending = UM_TRACE_TIMED_OUT;
    um_trace_add(&core->trace->shown->count.ended[ending], 1);
    um_trace_put(core, UM_TRACE_RETURN,
                 (uint64_t)ending | (waited & UM_TRACE_CAUSED) << 3 | (uint64_t)(uintptr_t)on << 4,
                 um_trace_self(fiber), waited >> UM_TRACE_WAIT_SHIFT);
    UM_PROBE(return, core->index, fiber, ending);
    if (core->trace->top) {
        struct um_trace_fiber *entry = um_trace_find(core->trace, um_trace_self(fiber));

        if (entry)
            um_atomic_store(&entry->since, 0, relaxed); /* see struct um_trace_counts */
    }
    waited |= UM_TRACE_CAUSED | UM_TRACE_NEW;
    um_atomic_store(&fiber->waited, waited + 1, relaxed); /* as above; the next wait */
}

/*
 * A fiber wakes another, and has not done so yet. relaxed, both: what wakes the fiber orders them.
 * But umbra_continue() may be called for a fiber that does not wait: then its next wait may seem to
 * have a cause.
 */
UM_LINKONCE void um_trace_wake(struct umbra_core *core, struct um_fiber *fiber,
                               enum um_trace_kind kind)
{
    uint64_t waited;

    if (!core->trace)
        return;
    waited = um_atomic_load(&fiber->waited, relaxed);
    um_atomic_store(&fiber->waited, waited | UM_TRACE_CAUSED, relaxed);
    um_trace_put(core, kind, 0, um_trace_self(fiber), waited >> UM_TRACE_WAIT_SHIFT);
    UM_PROBE(wake, core->index, fiber, kind);
}

/* ---- spawns ---- */

/*
 * A fiber is prepared, and about to be sent on its way. core: the caller's, or NULL. The mark tells
 * the core where the fiber runs first. relaxed, both: the fiber is the caller's alone.
 */
UM_LINKONCE UM_COLD void um_trace_spawn(struct umbra_core *core, struct um_fiber *fiber)
{
    uint64_t mark = UM_TRACE_NEW | (core && core->trace ? UM_TRACE_CAUSED : 0);

    um_atomic_store(&fiber->waited, um_atomic_load(&fiber->waited, relaxed) | mark, relaxed);
    if (core)
        um_trace_record(core, UM_TRACE_SPAWN, um_trace_self(fiber), (uintptr_t)fiber->node.accept);
}

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#pragma pop_macro("hidden")
#pragma pop_macro("weak")

#endif /* UMBRA_IMPLEMENTATION */

#endif
