/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What can be traced, and the switch that says whether anything is. Private. The records and where
 * they go are in fiber/trace_record.h; headers that know no cores say what they do through a hook.
 */
#ifndef UMBRA_BASE_TRACE_KINDS_H
#define UMBRA_BASE_TRACE_KINDS_H

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* What a record tells. a, b: its two words; a fiber is named by um_fiber_self(). Readers of the
 * counters know the numbers (tools/umbra-top): a new kind goes to the end. */
enum um_trace_kind {
    /* the core goes on with fiber b, or with its scheduler if b is 0, and fiber a */
    UM_TRACE_RUN,      /* a 0: leaves the scheduler */
    UM_TRACE_YIELD,    /* stays ready */
    UM_TRACE_TRANSFER, /* stops, or stays ready by a permit */
    UM_TRACE_BLOCK,    /* waits */
    UM_TRACE_END,      /* has ended */
    /* the core */
    UM_TRACE_IDLE, /* nothing is ready */
    UM_TRACE_BUSY, /* there may be something to do; a: enum um_trace_idle */
    /* what one fiber does to another */
    UM_TRACE_SPAWN,    /* a is spawned, with function b */
    UM_TRACE_BEGIN,    /* a begins to run function b */
    UM_TRACE_SIGNAL,   /* event a is signaled */
    UM_TRACE_WAKE,     /* fiber a is woken from its wait number b */
    UM_TRACE_CONTINUE, /* the same, of a fiber that has stopped */
    UM_TRACE_RETURN,   /* the wait number b of fiber a is over; see enum um_trace_ending */
    /* work */
    UM_TRACE_TASK,      /* a fiber begins task b, with function a, that was taken */
    UM_TRACE_STEP,      /* dispatcher a begins step b */
    UM_TRACE_STEP_OVER, /* dispatcher a has ended a step */
    UM_TRACE_FORK,      /* shadow a begins function b */
    UM_TRACE_JOIN,      /* shadow a's function was joined */
    UM_TRACE_CALL,      /* a fiber begins a blocking call a; b: its function or operation */
    UM_TRACE_CALL_OVER, /* the blocking call a has returned b */
    UM_TRACE_MARK,      /* the program's own; a: its text, b: a number */
    /* a thread of an OpenMP program (omp/see.c); a: a construct's text; they nest */
    UM_TRACE_ENTER, /* b: its function, or where in the program the call ends */
    UM_TRACE_LEAVE,
    UM_TRACE_KINDS
};

/* How a wait of a fiber ended; in the record's third word. */
enum um_trace_ending {
    UM_TRACE_WOKEN,     /* a signal, an end, a message; or continued after a transfer */
    UM_TRACE_TIMED_OUT, /* its deadline came; also: a sleep is over */
    UM_TRACE_CANCELED,
    UM_TRACE_ENDINGS
};

/* How an idle core's wait ended; in the record's word a. */
enum um_trace_idle {
    UM_TRACE_LOOKED,  /* it looked around only */
    UM_TRACE_SPUN,    /* by the spin phase of its wait, */
    UM_TRACE_MONITOR, /* the monitor phase, */
    UM_TRACE_PARKED,  /* in the kernel, */
    UM_TRACE_TIMER,   /* or by a deadline */
    UM_TRACE_IDLES
};

typedef void um_trace_fn(enum um_trace_kind kind, uint64_t a, uint64_t b);

/* The address of an um_trace_fn, which records for the core that runs on the calling thread; 0:
 * nothing is traced in this program or shared object. The first runtime sets it, if the environment
 * asks for a trace. */
UM_SHARED(um_atomic_uptr um_trace_hook, 0);

/* True if anything is traced. relaxed: what a record needs belongs to the recording core itself */
UM_INLINE bool um_tracing(void)
{
    return UM_UNLIKELY(um_atomic_load(&um_trace_hook, relaxed) != 0);
}

UM_LINKONCE UM_COLD void um_trace_tell(enum um_trace_kind kind, uint64_t a, uint64_t b);

/* Any thread or fiber, but no signal handler; on a thread that is no core nothing is recorded. */
UM_INLINE void um_trace_say(enum um_trace_kind kind, uint64_t a, uint64_t b)
{
    if (um_tracing())
        um_trace_tell(kind, a, b);
}

#ifdef UMBRA_IMPLEMENTATION
/* The same, when something was traced a moment ago. */
UM_LINKONCE UM_COLD void um_trace_tell(enum um_trace_kind kind, uint64_t a, uint64_t b)
{
    um_trace_fn *hook = (um_trace_fn *)um_atomic_load(&um_trace_hook, relaxed); /* as above */

    if (hook)
        hook(kind, a, b);
}
#endif /* UMBRA_IMPLEMENTATION */

#endif
