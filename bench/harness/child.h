/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Contenders that live in a child process: runtimes that cannot share one, or that would not stop
 * spinning while others have their turn. The child is stopped (SIGSTOP) between its turns.
 */
#ifndef UMBRA_BENCH_CHILD_H
#define UMBRA_BENCH_CHILD_H

#include "harness.h"

#define CHILD_MAX_SETTINGS 8

struct child_process;

/* row->arg of a row with child_ops. */
struct child_program {
    const char *file;     /* executable, in the folder of the kernel's own */
    const char *argument; /* its second one, after the channel's descriptor; or NULL */
    /* Environment of the child, "NAME=value"; at its end %d becomes the list of processors, and %u how
     * many they are. */
    const char *settings[CHILD_MAX_SETTINGS];
    uint64_t problem; /* told with each batch, to a program that has several */
    /*
     * Where rows that share one process keep it, NULL until the first of them is opened; they have
     * file, argument and settings in common. NULL itself: the row has a process of its own.
     */
    struct child_process **shared;
};

/*
 * Adds "settings" to row->params, and "elsewhere": the part of the functions that were run by
 * another thread than the one that forked them.
 */
extern const struct bench_ops child_ops;

#endif
