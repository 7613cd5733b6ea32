/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Why a call failed, in words: each thread has one text. Private, except umbra_last_error_text(),
 * which the headers that include this one make public.
 *
 * The function that finds an error writes the text (um_why), since only that function knows the
 * processor, the variable or the limit, or empties it (um_why_none). The text is touched where a
 * call fails, and so costs a success nothing. A start-up call also empties the text when it begins,
 * and gives an error without a text the system's words (um_why_returned). If another thread finds
 * the error for the caller, the text is copied to the caller's thread.
 */
#ifndef UMBRA_BASE_WHY_H
#define UMBRA_BASE_WHY_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <umbra/base/base.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/*
 * Says in one line why the caller's latest call that failed did, such as "cores = 3, but this
 * process may use 2"; or is "". It is never the text of an earlier failure.
 *
 * Every call of the library that fails writes or empties it. It is "" where the errno says all:
 * -ENOMEM, an error of the system, such as those of umbra/io.h, and what a function of the program
 * returned. A call that succeeds leaves the text as it is, or empties it: so look at it only after
 * a failure. Start-up calls write one for each failure, and empty it when they begin:
 * umbra_topology_create and _bind, umbra_wait_policy_init, shadow_create, umbra_team_create,
 * umbra_runtime_create, umbra_runtime_run, umbra_run and umbra_core_unbound.
 *
 * These results are ordinary outcomes, not failures, and may leave the text as it is: -ETIMEDOUT,
 * -ECANCELED, -EPIPE and -EALREADY (closed), and what umbra_topology_shared and _nearest return.
 *
 * The text belongs to the thread. It is valid until the thread's next call that writes or empties
 * it; in a fiber until the next call that may switch. Any thread or fiber, but not a signal
 * handler; neither switches nor blocks.
 */
UM_INLINE const char *umbra_last_error_text(void);

#define UM_WHY_BYTES 256 /* with the final 0; a longer text is cut off */

UM_SHARED(UM_THREAD_LOCAL char um_why_text[UM_WHY_BYTES], "");

UM_INLINE const char *umbra_last_error_text(void)
{
    return um_why_text;
}

/* Writes the reason of an error into the thread's text, and returns the error. */
UM_LINKONCE UM_COLD __attribute__((__format__(__printf__, 2, 3))) int
um_why(int error, const char *format, ...);

#ifdef UMBRA_IMPLEMENTATION
UM_LINKONCE UM_COLD int um_why(int error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(um_why_text, sizeof(um_why_text), format, args);
    va_end(args);
    return error;
}
#endif /* UMBRA_IMPLEMENTATION */

/* A start-up call begins: empties the text. */
UM_INLINE void um_why_begin(void)
{
    um_why_text[0] = 0;
}

/* For a call whose error's number says all: empties the text if the result is an error. Returns the
 * result. */
UM_INLINE int um_why_none(int result)
{
    if (result < 0)
        um_why_begin();
    return result;
}

UM_LINKONCE UM_COLD int um_why_returned(int error);

#ifdef UMBRA_IMPLEMENTATION
/* A start-up call returns `error`, or a count. An error without a text gets the system's words. */
UM_LINKONCE UM_COLD int um_why_returned(int error)
{
    if (error < 0 && um_why_text[0] == 0)
        um_why(error, "%s", strerror(-error));
    return error;
}
#endif /* UMBRA_IMPLEMENTATION */

#endif
