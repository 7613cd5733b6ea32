/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The environment's wishes for traces, the beginning and the end of a traced runtime, and the table
 * of counters. Private; included by core.h.
 */
#ifndef UMBRA_CORE_TRACE_RUN_H
#define UMBRA_CORE_TRACE_RUN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/environment.h>
#include <umbra/base/trace_kinds.h>
#include <umbra/base/why.h>
#include <umbra/core/report.h>
#include <umbra/cpu.h>
#include <umbra/fiber.h>
#include <umbra/os/os.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* What the environment asks for, and the file. One for each executable or shared object. Under
 * um_runtimes.lock. */
struct um_traces {
    bool ready;        /* the environment has been read */
    bool on;           /* cores of new runtimes are traced */
    bool top;          /* for a live view */
    bool stats;        /* a table at the end of each runtime */
    int fd;            /* the file; 0: none */
    unsigned runtimes; /* how many have been traced */
    uint64_t records;  /* places in a ring */
    uint64_t start;    /* the file's time 0, in cycles; fixed before the first record */
    uint64_t end;      /* the file's */
};

UM_SHARED(struct um_traces um_traces, {.ready = false});

/* What traces of other threads than cores need, too: libumbra_omp's. */

/* Before each runtime is made; acts once. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_trace_from_environment(void);
/* In the child of fork(2): the file is the parent's. */
UM_LINKONCE UM_COLD void um_trace_in_child(void);
/* Makes the area of a runtime. trace: its first core's. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_trace_make_area(unsigned cores, struct um_trace *trace);
/* Where a core records: its place in the area of trace. */
UM_LINKONCE UM_COLD void um_trace_set_place(struct um_trace *trace, unsigned core);
/* Writes what readers have to know of a core. */
UM_LINKONCE UM_COLD void um_trace_tell_core(const struct um_trace *trace, unsigned core, int cpu,
                                            unsigned cores);
/* The same of an area. group: see struct um_trace_area. */
UM_LINKONCE UM_COLD void um_trace_tell_area(const struct um_trace *trace, unsigned cores,
                                            enum um_trace_group group);
/* The program ends, and so does the area, which is of one core. */
UM_LINKONCE UM_COLD void um_trace_end_alone(const struct um_trace *trace);

#ifdef UMBRA_IMPLEMENTATION

#define UM_TRACE_RECORDS 65536 /* for each core */
#define UM_TRACE_RECORD_BYTES (UM_RECORD_WORDS * sizeof(uint64_t))
#define UM_TRACE_RECORDS_LEAST 16
#define UM_TRACE_RECORDS_MOST (1 << 26)
#define UM_TRACE_PATH 1024
#define UM_TRACE_TOP_PATH 64

/* ---- the environment ---- */

/* Opens the file; %p in its name is the process's id. */
UM_LINKONCE UM_COLD int um_trace_create(const char *name)
{
    char path[UM_TRACE_PATH];
    const char *id = strstr(name, "%p");
    int length = id ? snprintf(path, sizeof(path), "%.*s%u%s", (int)(id - name), name,
                               (unsigned)um_os_process(), id + 2)
                    : snprintf(path, sizeof(path), "%s", name);
    int fd = length < (int)sizeof(path) ? um_os_create(path, false) : -ENAMETOOLONG;

    if (fd < 0)
        return um_why(fd, "UMBRA_TRACE=%.100s: %s", name,
                      fd == -EINVAL ? "no regular file"
                      : fd == -EBUSY
                          ? "another process, or copy of the library, writes it; %p in a "
                            "name becomes the process's id"
                          : strerror(-fd));
    return fd;
}

/* Reads what the environment asks for. Under um_runtimes.lock. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_trace_read(void)
{
    const char *name = getenv("UMBRA_TRACE");
    uint64_t stats, top, records, places = UM_TRACE_RECORDS_LEAST;
    bool file = name && *name;
    int fd = 0, error = um_environment_number("UMBRA_STATS", 0, 1, 0, &stats);

    if (error == 0)
        error = um_environment_number("UMBRA_TOP", 0, 1, 0, &top);
    if (error == 0)
        error = um_environment_number("UMBRA_TRACE_RECORDS", UM_TRACE_RECORDS_LEAST,
                                      UM_TRACE_RECORDS_MOST, UM_TRACE_RECORDS, &records);
    if (error == 0 && file)
        fd = um_trace_create(name);
    if (error != 0 || fd < 0)
        return error != 0 ? error : fd;
    while (places < records)
        places *= 2;
    um_traces.records = file ? places : 0;
    um_traces.stats = stats != 0;
    um_traces.top = top != 0;
    um_traces.on = file || stats || top;
    um_traces.fd = fd;
    return 0;
}

UM_LINKONCE UM_COLD int um_trace_from_environment(void)
{
    int error = 0;

    pthread_mutex_lock(&um_runtimes.lock);
    if (!um_traces.ready)
        error = um_trace_read();
    um_traces.ready = error == 0;
    pthread_mutex_unlock(&um_runtimes.lock);
    return error;
}

UM_LINKONCE UM_COLD void um_trace_in_child(void)
{
    um_traces.on = false;
    um_traces.ready = true;
    if (um_traces.fd != 0)
        um_os_close(um_traces.fd);
    um_traces.fd = 0;
    um_atomic_store(&um_trace_hook, 0, relaxed); /* the only thread */
}

/* ---- a runtime ---- */

/* The name of the shared memory of a runtime's cores. */
UM_LINKONCE UM_COLD void um_trace_top_path(char path[UM_TRACE_TOP_PATH], uint64_t runtime)
{
    snprintf(path, UM_TRACE_TOP_PATH, "/dev/shm/umbra.%u.%u", (unsigned)um_os_process(),
             (unsigned)runtime);
}

/* How much of an area is a core's. */
UM_LINKONCE UM_COLD size_t um_trace_core_bytes(void)
{
    size_t bytes = sizeof(struct um_trace_shown);

    if (um_traces.records > 0)
        bytes += sizeof(struct um_records) + um_traces.records * UM_TRACE_RECORD_BYTES;
    return (bytes + UM_TRACE_UNIT - 1) / UM_TRACE_UNIT * UM_TRACE_UNIT;
}

/* Memory for the live view of a runtime that has no file else. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_trace_make_view(const char *path, size_t bytes, void **memory)
{
    int fd = um_os_create(path, true);
    int error = fd < 0 ? fd : um_os_extend(fd, 0, bytes, memory);

    if (fd >= 0)
        um_os_close(fd);
    if (fd >= 0 && error != 0)
        um_os_unlink(path);
    return error;
}

/* The same, at the end of the file. Under um_runtimes.lock. */
UM_LINKONCE UM_COLD int um_trace_make_file(struct um_trace *trace, size_t bytes, void **memory)
{
    int error = um_os_extend(um_traces.fd, um_traces.end, bytes, memory);

    if (error != 0)
        return um_why(error, "UMBRA_TRACE: the file cannot get longer: %s", strerror(-error));
    trace->from = um_traces.end;
    um_traces.end += bytes;
    return 0;
}

UM_LINKONCE UM_COLD int um_trace_make_area(unsigned cores, struct um_trace *trace)
{
    size_t bytes = sizeof(struct um_trace_area) + cores * um_trace_core_bytes();
    char path[UM_TRACE_TOP_PATH];
    void *memory = NULL;
    int error = 0;

    pthread_mutex_lock(&um_runtimes.lock);
    trace->runtime = ++um_traces.runtimes;
    if (um_traces.start == 0)
        um_traces.start = um_arch_cycles();
    um_trace_top_path(path, trace->runtime);
    if (um_traces.fd != 0)
        error = um_trace_make_file(trace, bytes, &memory);
    else if (!um_traces.top)
        memory = um_os_map_data(bytes);
    pthread_mutex_unlock(&um_runtimes.lock);
    if (error != 0)
        return error;
    if (um_traces.top)
        error =
            memory ? um_os_link_to(um_traces.fd, path) : um_trace_make_view(path, bytes, &memory);
    trace->area = (struct um_trace_area *)memory;
    if (!memory && error == 0)
        return -ENOMEM;
    if (memory)
        trace->area->bytes = bytes;
    return error == 0 ? 0
                      : um_why(error, "UMBRA_TOP=1: no file for the live view can be made: %s: %s",
                               path, strerror(-error));
}

UM_LINKONCE UM_COLD void um_trace_set_place(struct um_trace *trace, unsigned core)
{
    trace->shown =
        (struct um_trace_shown *)(void *)((char *)(trace->area + 1) + core * um_trace_core_bytes());
    if (um_traces.records > 0) {
        trace->ring = (struct um_records *)(trace->shown + 1);
        trace->ring->last = (um_traces.records - 1) * UM_RECORD_WORDS;
    }
}

/* What a core needs in order to record. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_trace_make(struct umbra_core *core)
{
    struct um_trace *trace, *first;
    int error = 0;

    if (!um_traces.on)
        return 0;
    trace = (struct um_trace *)calloc(1, sizeof(*trace));
    core->more->trace = trace;
    if (!trace)
        return -ENOMEM;
    first = core->runtime->core[0]->more->trace;
    if (core->index == 0)
        error = um_trace_make_area(core->runtime->cores, trace);
    if (error != 0)
        return error;
    trace->runtime = first->runtime;
    trace->area = first->area;
    trace->from = first->from;
    trace->top = um_traces.top;
    um_trace_set_place(trace, core->index);
    return 0;
}

/* The live view ends: the name goes, and the memory when the runtime does. */
UM_LINKONCE UM_COLD void um_trace_end_top(const struct um_trace *trace)
{
    char path[UM_TRACE_TOP_PATH];

    um_trace_top_path(path, trace->runtime);
    if (trace->top)
        um_os_unlink(path);
}

/* What a core has not used of the file goes back to the file system, unless the file is closed: then the
 * program exits. Under um_runtimes.lock. The cores have stopped. */
UM_LINKONCE UM_COLD void um_trace_trim(const struct um_trace *trace)
{
    static const char zeros[UM_OS_PAGE];
    const char *low = (const char *)trace->shown;
    uint64_t from = trace->from + (uint64_t)(low - (const char *)trace->area);
    size_t filled =
        sizeof(*trace->shown) + sizeof(*trace->ring) +
        um_min_u64(um_records_head(trace->ring), um_traces.records) * UM_TRACE_RECORD_BYTES;
    size_t empty = 0; /* where the zeros begin that are there */

    for (size_t at = 0; at < filled; at += UM_OS_PAGE) {
        if (memcmp(low + at, zeros, sizeof(zeros)) == 0)
            continue;
        if (at > empty)
            um_os_empty(um_traces.fd, from + empty, at - empty);
        empty = at + UM_OS_PAGE;
    }
    if (um_trace_core_bytes() > empty)
        um_os_empty(um_traces.fd, from + empty, um_trace_core_bytes() - empty);
}

/* Of all cores, when none runs any more; the first one has the area. */
UM_LINKONCE UM_COLD void um_trace_free(struct umbra_core *core)
{
    struct um_trace *trace = core->more->trace;

    if (!trace)
        return;
    if (core->index == 0 && trace->area) {
        um_trace_end_top(trace);
        um_os_unmap(trace->area, trace->area->bytes);
    }
    free(trace);
}

UM_LINKONCE UM_COLD void um_trace_tell_core(const struct um_trace *trace, unsigned core, int cpu,
                                            unsigned cores)
{
    struct um_trace_shown *shown = trace->shown;
    struct um_clock_pair pair = um_clock_pair_read();

    shown->runtime = trace->runtime;
    shown->core = core;
    shown->cpu = (uint64_t)cpu;
    shown->cores = cores;
    shown->hz = um_cycles_hz();
    shown->at_cycles = pair.cycles;
    shown->at_ns = pair.ns;
    shown->began = um_arch_cycles();
    um_atomic_store(&shown->count.since, shown->began, relaxed); /* see struct um_trace_counts */
    /* release: what is above; for other processes */
    um_atomic_store(&shown->magic, UM_TRACE_MAGIC, release);
}

/* A core's thread begins: it records from now on. */
UM_LINKONCE UM_COLD void um_trace_start(struct umbra_core *core)
{
    struct um_trace *trace = core->more->trace;

    if (!trace)
        return;
    um_trace_tell_core(trace, core->index, core->cpu, core->runtime->cores);
    core->trace = trace;
    core->exceptions = &um_exceptions_traced;
}

UM_LINKONCE UM_COLD void um_trace_tell_area(const struct um_trace *trace, unsigned cores,
                                            enum um_trace_group group)
{
    struct um_trace_area *area = trace->area;

    pthread_mutex_lock(&um_runtimes.lock);
    area->start = um_traces.start;
    area->core_bytes = um_trace_core_bytes();
    area->cores = cores;
    area->group = (uint64_t)group;
    area->process = um_os_process();
    area->since_s = (uint64_t)time(NULL);
    if (um_traces.fd != 0)
        um_os_objects(area->objects, sizeof(area->objects));
    /* release: what is above; for other processes */
    um_atomic_store(&area->magic, UM_TRACE_AREA_MAGIC, release);
    pthread_mutex_unlock(&um_runtimes.lock);
}

/* The cores have started. Writes what readers have to know of the runtime. */
UM_LINKONCE UM_COLD void um_trace_runtime(const struct umbra_runtime *runtime)
{
    const struct um_trace *trace = runtime->core[0]->more->trace;

    if (!trace)
        return;
    um_trace_tell_area(trace, runtime->cores, UM_TRACE_OF_RUNTIME);
    um_atomic_store(&um_trace_hook, (uintptr_t)um_trace_here, relaxed); /* see um_tracing() */
}

/* ---- the table ---- */

/* The cores have stopped: what was used of the stack of a fiber. */
UM_LINKONCE UM_COLD void um_trace_stack(struct um_fiber *fiber)
{
    const struct umbra_core *owner = fiber->slab->owner;
    struct um_trace *trace = owner->more->trace;
    size_t bytes = um_fiber_stack_used(fiber);

    if (bytes > trace->stack_bytes)
        trace->stack_bytes = bytes;
}

UM_INLINE unsigned long long um_trace_count(const struct um_trace *trace, enum um_trace_kind kind)
{
    return um_atomic_load(&trace->shown->count.of[kind], relaxed); /* a number */
}

/* The line of a core. relaxed, all: numbers */
UM_LINKONCE UM_COLD void um_trace_print_core(const struct umbra_core *core)
{
    const struct um_trace *trace = core->more->trace;
    const struct um_trace_counts *count = &trace->shown->count;
    struct umbra_wait_stats waits = umbra_waiter_stats(&core->waiter);
    unsigned long long switches = 0, ms[UM_TRACE_STATES];
    struct um_text text = {.length = 0};

    for (int kind = UM_TRACE_RUN; kind <= UM_TRACE_END; kind++)
        switches += um_trace_count(trace, (enum um_trace_kind)kind);
    for (int state = 0; state < UM_TRACE_STATES; state++)
        ms[state] = um_cycles_to_ns(um_atomic_load(&count->cycles[state], relaxed)) / 1000000;
    text.length = (size_t)snprintf(
        text.line, sizeof(text.line),
        "umbra: %7u %4u %9llu %9llu %9llu %10llu %8llu %8llu %10llu %9llu %8llu %8llu %8llu %8llu "
        "%9zu\n",
        trace->runtime, core->index, ms[UM_TRACE_IN_FIBER], ms[UM_TRACE_IN_SCHEDULER],
        ms[UM_TRACE_IN_IDLE], switches, um_trace_count(trace, UM_TRACE_SPAWN),
        um_trace_count(trace, UM_TRACE_TASK),
        (unsigned long long)um_atomic_load(&count->ended[UM_TRACE_WOKEN], relaxed),
        (unsigned long long)um_atomic_load(&count->ended[UM_TRACE_TIMED_OUT], relaxed),
        (unsigned long long)um_atomic_load(&count->ended[UM_TRACE_CANCELED], relaxed),
        (unsigned long long)waits.ended[0], (unsigned long long)waits.ended[1],
        (unsigned long long)waits.ended[2], trace->stack_bytes);
    um_text_write(&text, 2);
}

/* The table of a runtime. stopped: its cores have, so its fibers can be looked at. */
UM_LINKONCE UM_COLD void um_trace_print(struct umbra_runtime *runtime, bool stopped)
{
    struct um_text text = {.length = 0};

    if (stopped)
        um_pool_each(runtime, um_trace_stack);
    text.length = (size_t)snprintf(
        text.line, sizeof(text.line),
        "umbra: %7s %4s %9s %9s %9s %10s %8s %8s %10s %9s %8s %8s %8s %8s %9s\n", "runtime", "core",
        "fiber-ms", "sched-ms", "idle-ms", "switches", "spawns", "tasks", "woken", "timed-out",
        "canceled", "spun", "monitor", "parked", "stack");
    um_text_write(&text, 2);
    for (unsigned i = 0; i < runtime->cores; i++)
        um_trace_print_core(runtime->core[i]);
}

/* ---- the end ---- */

/* A runtime ends, or the program with it. stopped: its cores have. */
UM_LINKONCE UM_COLD void um_trace_end(struct umbra_runtime *runtime, bool stopped)
{
    struct um_trace *trace = runtime->core[0]->more->trace;

    if (!trace)
        return;
    if (trace->ring)
        um_os_objects(trace->area->objects, sizeof(trace->area->objects));
    if (trace->ring && stopped) {
        pthread_mutex_lock(&um_runtimes.lock);
        for (unsigned i = 0; i < runtime->cores && um_traces.fd != 0; i++)
            um_trace_trim(runtime->core[i]->more->trace);
        pthread_mutex_unlock(&um_runtimes.lock);
    }
    if (um_traces.stats)
        um_trace_print(runtime, stopped);
    if (!stopped)
        um_trace_end_top(trace);
}

UM_LINKONCE UM_COLD void um_trace_end_alone(const struct um_trace *trace)
{
    um_os_objects(trace->area->objects, sizeof(trace->area->objects));
    pthread_mutex_lock(&um_runtimes.lock);
    um_trace_trim(trace);
    pthread_mutex_unlock(&um_runtimes.lock);
}

/* The program exits. Runs after all other destructors, so that they may still use the library. */
UM_LINKONCE UM_COLD __attribute__((__destructor__(101))) void um_traces_end(void)
{
    struct umbra_runtime *runtime;

    if (!um_traces.on)
        return;
    um_traces.on = false; /* some files have a destructor each */
    pthread_mutex_lock(&um_runtimes.lock);
    for (runtime = um_atomic_load(&um_runtimes.first, relaxed); runtime; /* under the lock, both */
         runtime = um_atomic_load(&runtime->next, relaxed))
        um_trace_end(runtime, false);
    if (um_traces.fd != 0)
        um_os_close(um_traces.fd);
    um_traces.fd = 0;
    pthread_mutex_unlock(&um_runtimes.lock);
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
