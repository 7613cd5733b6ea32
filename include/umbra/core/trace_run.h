/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The environment's wishes for traces, the beginning and the end of a traced runtime, and the table
 * of counters. Private; included by core.h.
 */
#ifndef UMBRA_CORE_TRACE_RUN_H
#define UMBRA_CORE_TRACE_RUN_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/environment.h>
#include <umbra/base/trace.h>
#include <umbra/base/why.h>
#include <umbra/core/fiber.h>
#include <umbra/core/pool.h>
#include <umbra/core/report.h>
#include <umbra/core/runtime.h>
#include <umbra/core/sleeper.h>
#include <umbra/core/trace.h>
#include <umbra/core/trace_file.h>
#include <umbra/cpu.h>
#include <umbra/os/os.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

#define UM_TRACE_RECORDS 65536 /* of 32 bytes, for each core */
#define UM_TRACE_RECORDS_LEAST 16
#define UM_TRACE_RECORDS_MOST (1 << 26)
#define UM_TRACE_PATH 1024
#define UM_TRACE_TOP_PATH 64
#ifdef SIGUSR2
#define UM_TRACE_ON_SIGNAL SIGUSR2
#else
#define UM_TRACE_ON_SIGNAL 0
#endif

/* ---- the environment ---- */

/* Opens the file; %p in its name is the process's id. */
UM_LINKONCE UM_COLD int um_trace_create(const char *name)
{
    char path[UM_TRACE_PATH];
    const char *id = strstr(name, "%p");
    int length = id ? snprintf(path, sizeof(path), "%.*s%u%s", (int)(id - name), name,
                               (unsigned)um_os_process(), id + 2)
                    : snprintf(path, sizeof(path), "%s", name);
    int fd = length < (int)sizeof(path) ? um_os_create(path) : -ENAMETOOLONG;

    if (fd < 0)
        return um_why(fd, "UMBRA_TRACE=%.100s: %s", name, strerror(-fd));
    return fd;
}

/* Reads what the environment asks for. Under um_runtimes.lock. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_trace_read(void)
{
    const char *name = getenv("UMBRA_TRACE");
    uint64_t stats, top, number, records, places = UM_TRACE_RECORDS_LEAST;
    bool file = name && *name;
    int fd = 0, error = um_environment_number("UMBRA_STATS", 0, 1, 0, &stats);

    if (error == 0)
        error = um_environment_number("UMBRA_TOP", 0, 1, 0, &top);
    if (error == 0)
        error = um_environment_number("UMBRA_TRACE_RECORDS", UM_TRACE_RECORDS_LEAST,
                                      UM_TRACE_RECORDS_MOST, UM_TRACE_RECORDS, &records);
    if (error == 0)
        error = um_environment_number("UMBRA_TRACE_SIGNAL", 0, UM_SIGNALS_MOST - 1,
                                      UM_TRACE_ON_SIGNAL, &number);
    if (error == 0 && number != 0 && um_os_signal_fatal((int)number))
        error =
            um_why(-EINVAL, "UMBRA_TRACE_SIGNAL=%d: a signal that ends the program", (int)number);
    if (error == 0 && file)
        fd = um_trace_create(name);
    if (error != 0 || fd < 0)
        return error != 0 ? error : fd;
    while (places < records)
        places *= 2;
    um_traces.records = file ? places : 0;
    um_traces.stats = stats != 0;
    um_traces.signal = file ? (int)number : 0;
    um_traces.top = top != 0;
    um_traces.on = file || stats || top;
    um_cycles_hz();                                        /* a handler must not measure it */
    um_atomic_store(&um_traces.fd, (uint32_t)fd, release); /* pairs with um_trace_lock() */
    return 0;
}

/* Before each runtime is made; acts once. 0 or a negative errno. */
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

/* In the child of fork(2): the file is the parent's. */
UM_LINKONCE UM_COLD void um_trace_in_child(void)
{
    um_traces.on = false;
    um_traces.ready = true;
    /* relaxed, both: the only thread */
    um_atomic_store(&um_traces.fd, 0, relaxed);
    um_atomic_store(&um_trace_hook, 0, relaxed);
}

/* ---- a runtime ---- */

/* The name of the shared memory of a runtime's cores. */
UM_LINKONCE UM_COLD void um_trace_top_path(char path[UM_TRACE_TOP_PATH], uint64_t runtime)
{
    snprintf(path, UM_TRACE_TOP_PATH, "/dev/shm/umbra.%u.%u", (unsigned)um_os_process(),
             (unsigned)runtime);
}

/* Memory for what the cores of a runtime show, or NULL. The first core is `core`. */
UM_LINKONCE UM_COLD struct um_trace_shown *um_trace_make_shown(const struct umbra_core *core)
{
    size_t bytes = core->runtime->cores * sizeof(struct um_trace_shown);
    char path[UM_TRACE_TOP_PATH];

    if (!um_traces.top)
        return um_os_map_data(bytes);
    um_trace_top_path(path, core->more->trace->runtime);
    return um_os_share(path, bytes);
}

/* What a core needs in order to record. 0, -ENOMEM, or -ENOSYS: no live view is possible. */
UM_LINKONCE UM_COLD int um_trace_make(struct umbra_core *core)
{
    size_t bytes = um_traces.records * UM_RECORD_WORDS * sizeof(uint64_t);
    struct um_trace *trace, *first;

    if (!um_traces.on)
        return 0;
    trace = calloc(1, sizeof(*trace));
    core->more->trace = trace;
    if (!trace)
        return -ENOMEM;
    first = core->runtime->core[0]->more->trace;
    if (core->index == 0) {
        pthread_mutex_lock(&um_runtimes.lock);
        trace->runtime = ++um_traces.runtimes;
        pthread_mutex_unlock(&um_runtimes.lock);
        trace->shown = um_trace_make_shown(core);
    } else {
        trace->runtime = first->runtime;
        trace->shown = first->shown + core->index;
    }
    if (!trace->shown && um_traces.top)
        return um_why(-ENOSYS, "UMBRA_TOP=1: no file for the live view can be made in /dev/shm");
    trace->top = um_traces.top;
    trace->ring.records = um_traces.records;
    trace->ring.word = bytes > 0 ? um_os_map_data(bytes) : NULL;
    return !trace->shown || (bytes > 0 && !trace->ring.word) ? -ENOMEM : 0;
}

/* The live view ends: the name goes, and the memory when the runtime does. */
UM_LINKONCE UM_COLD void um_trace_end_top(const struct um_trace *trace)
{
    char path[UM_TRACE_TOP_PATH];

    um_trace_top_path(path, trace->runtime);
    if (trace->top)
        um_os_unlink(path);
}

/* Of all cores, when none runs any more; the first one has the memory that all show. */
UM_LINKONCE UM_COLD void um_trace_free(struct umbra_core *core)
{
    struct um_trace *trace = core->more->trace;

    if (!trace)
        return;
    if (trace->ring.word)
        um_os_unmap(trace->ring.word, trace->ring.records * UM_RECORD_WORDS * sizeof(uint64_t));
    if (core->index == 0 && trace->shown) {
        um_trace_end_top(trace);
        um_os_unmap(trace->shown, core->runtime->cores * sizeof(struct um_trace_shown));
    }
    free(trace);
}

/* What readers have to know of the cores. */
UM_LINKONCE UM_COLD void um_trace_introduce_shown(const struct umbra_core *core)
{
    struct um_trace_shown *shown = core->more->trace->shown;
    struct um_clock_pair pair = um_clock_pair_read();

    shown->runtime = core->more->trace->runtime;
    shown->core = core->index;
    shown->cpu = (uint64_t)core->cpu;
    shown->cores = core->runtime->cores;
    shown->hz = um_cycles_hz();
    shown->at_cycles = pair.cycles;
    shown->at_ns = pair.ns;
}

/* The cores have started and been tuned: they record from now on. Returns when all do. */
UM_LINKONCE UM_COLD void um_trace_runtime(struct umbra_runtime *runtime)
{
    if (!runtime->core[0]->more->trace)
        return;
    pthread_mutex_lock(&um_runtimes.lock);
    if (um_traces.start == 0)
        um_traces.start = um_arch_cycles();
    pthread_mutex_unlock(&um_runtimes.lock);
    um_atomic_store(&um_trace_hook, (uintptr_t)um_trace_here, relaxed); /* see um_tracing() */
    for (unsigned i = 0; i < runtime->cores; i++) {
        struct um_trace *trace = runtime->core[i]->more->trace;

        um_trace_introduce_shown(runtime->core[i]);
        um_atomic_store(&trace->phase, UM_TRACE_WANTED, release); /* pairs with um_trace_start() */
        um_core_poke(runtime->core[i]);
    }
    for (unsigned i = 0; i < runtime->cores; i++) /* acquire: pairs with um_trace_start() */
        for (unsigned looks = 0;
             um_atomic_load(&runtime->core[i]->more->trace->phase, acquire) != UM_TRACE_BEGUN;
             looks++)
            um_thread_look_again(looks, UMBRA_NEVER);
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
        ms[state] = umbra_cycles_to_ns(um_atomic_load(&count->cycles[state], relaxed)) / 1000000;
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

/* The counters of a core, as an event of the file, and a line of what was lost. */
UM_LINKONCE UM_COLD void um_trace_write_counts(const struct umbra_core *core)
{
    struct um_trace *trace = core->more->trace;
    struct um_trace_writer writer = {.core = core};
    struct um_text *text = &writer.text;

    um_trace_open(&writer, "i", true, um_trace_ns(um_arch_cycles()));
    um_text_add(text, "\"s\":\"t\",\"cat\":\"counters\",\"name\":\"counters\",\"args\":{");
    for (int kind = 0; kind < UM_TRACE_KINDS; kind++) {
        um_trace_add_value(text, um_trace_form((enum um_trace_kind)kind)->name,
                           um_trace_count(trace, (enum um_trace_kind)kind), 10);
        um_text_add(text, ",");
    }
    um_trace_add_value(text, "lost", trace->lost, 10);
    um_text_add(text, "}}");
    um_trace_emit(&writer);
    if (trace->lost == 0)
        return;
    text->length = (size_t)snprintf(
        text->line, sizeof(text->line),
        "umbra: trace: core %u of runtime %u recorded %llu events and lost %llu; "
        "UMBRA_TRACE_RECORDS=N keeps more than %llu\n",
        core->index, trace->runtime, (unsigned long long)um_records_head(&trace->ring),
        (unsigned long long)trace->lost, (unsigned long long)trace->ring.records - 1);
    um_text_write(text, 2);
}

/* A runtime ends, or the program with it. stopped: its cores have. */
UM_LINKONCE UM_COLD void um_trace_end(struct umbra_runtime *runtime, bool stopped)
{
    if (!runtime->core[0]->more->trace)
        return;
    if (um_trace_lock(false)) {
        um_trace_write_runtime(runtime, false);
        for (unsigned i = 0; i < runtime->cores; i++)
            um_trace_write_counts(runtime->core[i]);
        um_trace_unlock();
    }
    if (um_traces.stats)
        um_trace_print(runtime, stopped);
    if (!stopped)
        um_trace_end_top(runtime->core[0]->more->trace);
}

/* A line of why the file is not complete, if it is not. */
UM_LINKONCE UM_COLD void um_trace_say_error(void)
{
    struct um_text text = {.length = 0};

    if (um_traces.error == 0)
        return;
    text.length =
        (size_t)snprintf(text.line, sizeof(text.line), "umbra: trace: the file is incomplete: %s\n",
                         strerror(-um_traces.error));
    um_text_write(&text, 2);
}

/* The program exits, or the shared object is unloaded: completes the file. Runs before
 * um_runtimes_end(). */
UM_LINKONCE UM_COLD __attribute__((__destructor__(102))) void um_traces_end(void)
{
    struct umbra_runtime *runtime;

    if (!um_traces.on)
        return;
    um_traces.on = false; /* some files have a destructor each */
    pthread_mutex_lock(&um_runtimes.lock);
    for (runtime = um_atomic_load(&um_runtimes.first, relaxed); runtime; /* under the lock, both */
         runtime = um_atomic_load(&runtime->next, relaxed))
        um_trace_end(runtime, false);
    pthread_mutex_unlock(&um_runtimes.lock);
    if (!um_trace_lock(false))
        return;
    if (um_traces.any)
        um_trace_append("\n]\n", 3);
    um_trace_drain();
    um_trace_say_error();
    um_os_close((int)um_atomic_load(&um_traces.fd, relaxed)); /* the lock is kept, both: no other */
    um_atomic_store(&um_traces.fd, 0, relaxed);               /* thread writes any more */
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
