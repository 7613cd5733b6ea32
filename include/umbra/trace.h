/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Traces: what fibers and cores did, and when, for a viewer. Nothing is recorded unless the
 * environment asks for it when the first runtime starts; no program needs this header or has to be
 * compiled anew. docs/trace.md shows how to read a trace.
 *
 *   UMBRA_TRACE=FILE          records in FILE, in a ring for each core of each runtime. %p in FILE
 *                             becomes the process's id. tools/umbra-trace makes of it, at any time and
 *                             however the program ends, what ui.perfetto.dev and chrome://tracing open
 *   UMBRA_TRACE_RECORDS=N     how many records of 32 bytes a ring holds: 65536 if not set. Then the
 *                             oldest are overwritten; umbra-trace says how many
 *   UMBRA_STATS=1             prints a table of counters at each runtime's end
 *   UMBRA_TOP=1               shows counters and fibers to tools/umbra-top, in /dev/shm, to the user's
 *                             own processes
 *
 * Recorded are what a core runs and how that ended, idle times, spawns, signals, wake-ups, the end
 * of each wait of a fiber, tasks taken, steps of dispatchers, shadows, blocking calls, and marks of
 * the program. Threads that are no core record nothing; what they wake is recorded where it runs.
 * Nor do signals of handlers (umbra_event_signal_async). A child of fork(2) does not trace.
 *
 * Off, this costs nothing where fibers switch, and a predicted branch where they are spawned and
 * signaled.
 */
#ifndef UMBRA_TRACE_H
#define UMBRA_TRACE_H

#include <umbra/base/base.h>
#include <umbra/base/trace_kinds.h>
#include <umbra/core.h>

/*
 * Puts a mark on the track of the caller's core. text, which must stay as it is until the program
 * ends, and value are shown with it. A fiber, but no signal handler; on a thread that is no core,
 * and without a trace, it does nothing. Neither switches nor blocks.
 */
UM_INLINE void umbra_trace_mark(const char *text, uint64_t value);

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

UM_INLINE void umbra_trace_mark(const char *text, uint64_t value)
{
    if (um_tracing())
        um_trace_mark(text, value);
}

#endif
