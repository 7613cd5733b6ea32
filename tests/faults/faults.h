/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the parts of the program share: the scenarios (scenarios.c), the calls that fail (wraps.c),
 * and main(), which runs a scenario in a child process for each fault (main.c).
 */
#ifndef UMBRA_TESTS_FAULTS_H
#define UMBRA_TESTS_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SITES 512 /* a power of two */
#define ERRORS 4  /* of a call, at most */
#define STORM 100 /* how often in a row a call fails with an error that passes, such as EINTR */

/* What calls make and give back. */
enum resource {
    BLOCK,
    MAPPING,
    THREAD,
    KEY,
    FILE_OPEN,
    BITMAP,
    TOPOLOGY,
    NOT_THERE, /* what was given back, and was not there: twice, say */
    CHANGED,   /* the thread's mask of signals, or its processors */
    RESOURCES,
    NOTHING
};

/* A place in the program that makes a call. */
struct site {
    atomic_uintptr_t key; /* the address that the call returns to, and above it the call's number in
                             `calls`; 0: a free place in the table */
    atomic_uint count;    /* how often it was called in this run */
};

#define SITE_CALL 56 /* where the call's number begins */

/* What shall fail: a call of one site; with `on`, then all calls of the same name. */
struct fault {
    uintptr_t key; /* of the site; 0: nothing fails */
    unsigned nth;
    int error;
    bool on;
};

/* In memory that a run has in common with the process that started it. */
struct run {
    struct fault fault;
    atomic_bool armed;  /* calls are counted, and may fail */
    pid_t process;      /* that the run is in */
    atomic_uint failed; /* calls that did */
    atomic_int balance[RESOURCES];
    int descriptors; /* more than before */
    int result;      /* as a scenario's */
    struct site site[SITES];
};

struct call {
    const char *name;
    int error[ERRORS]; /* up to a 0 */
};

extern const struct call calls[];
extern struct run *run; /* of this process */

/* A mixed use of one module. */
struct scenario {
    const char *name;
    int (*use)(void);           /* 0, a negative errno, or the line of what was wrong */
    const char *variable[2][2]; /* of the environment, and what it is set to; or NULL */
    bool own_topology;          /* reads the machine itself, which takes long */
};

extern const struct scenario scenarios[];
extern const unsigned scenario_count;

/* Of this machine, read before anything fails. NULL in scenarios that read it themselves. */
extern struct umbra_topology *topology;

#endif
