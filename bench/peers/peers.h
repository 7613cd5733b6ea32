/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Other user-level threads, one file each (peer_*.c, peer_*.cpp), in one form for each kernel. A
 * library that was not there at build time leaves its symbols undefined, and they are weak: add
 * such rows by bench_add_peer. C and C++.
 */
#ifndef UMBRA_BENCH_PEERS_H
#define UMBRA_BENCH_PEERS_H

#include "channel_case.h"
#include "event_pair.h"
#include "harness.h"
#include "population.h"
#include "turns.h"

#define BENCH_STACK_BYTES 65536 /* wherever a contender lets us choose */

/* A macro's value as a string, for environment variables. */
#define BENCH_TEXT_OF(value) #value
#define BENCH_TEXT(macro) BENCH_TEXT_OF(macro)

/* `switch`: how two sides of a processor leave to each other. The arg of switch_ops; 2 parts. */
struct switch_way {
    int (*open)(void);               /* once, or NULL; 0 or a negative errno */
    int (*run)(struct turns *turns); /* all turns of both sides; 0 or a negative errno */
    void (*close)(void);             /* or NULL */
};

/* `spawn`: null fibers, so many at a time, and joining them. */
struct spawned {
    uint64_t iterations; /* so many times: */
    uint64_t each;       /* spawn these, then join them */
    uint64_t ran;        /* fibers add one each */
    void **handles;      /* room for `each` */
    uint64_t ns;         /* they took, if the way knows better than who calls it; else 0 */
};

struct spawn_way {
    int (*open)(void); /* as above */
    int (*run)(struct spawned *spawned);
    void (*close)(void); /* or NULL */
};

/* `channel`: through a bounded queue. */
struct stream_way {
    unsigned cores; /* the receiving side is on the same processor, or on another */
    int (*run)(struct stream *stream, int cpu); /* cpu: of the receiving side */
};

/* `echo`: what a client sends, and a server sends back. */
enum echo_kind { ECHO_ASKED = 1, ECHO_ENDS };

struct echo_message {
    uint64_t kind, number;
    char rest[48];
};

struct echo_way {
    int (*open)(void); /* as above */
    /* The server, on the calling thread, until there came ECHO_ENDS on each connection. Leaves the
     * descriptors open and their flags as they were. */
    void (*serve)(const int *connections, unsigned count);
    void (*close)(void); /* or NULL */
};

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_WEAK __attribute__((weak))

extern const struct bench_ops switch_ops;

/* Umbra. The pointers are arguments of umbra_two_cores_ops. */
extern const struct switch_way umbra_transfer_switch, umbra_yield_switch;
extern const struct spawn_way umbra_spawns;
extern const struct bench_ops umbra_two_cores_ops;
extern const void *const umbra_runtime_runs;
extern const void *const umbra_remote_spawn;
extern const void *const umbra_event_left;
extern const void *const umbra_event_in_place;
extern const void *const umbra_event_busy;
extern const void *const umbra_event_thread;
extern const struct population_way umbra_population, umbra_small_population;

/* Boost.Fiber: launch::post where many are spawned, launch::dispatch where one is. */
extern const struct switch_way boost_fiber_switch BENCH_WEAK;
extern const struct spawn_way boost_fiber_spawn BENCH_WEAK;
extern const struct event_way boost_fiber_event BENCH_WEAK;
extern const struct population_way boost_fiber_population BENCH_WEAK;
extern const struct stream_way boost_fiber_stream BENCH_WEAK, boost_fiber_stream_two BENCH_WEAK;

extern const struct switch_way argobots_yield BENCH_WEAK, argobots_transfer BENCH_WEAK;
extern const struct spawn_way argobots_spawn BENCH_WEAK;
extern const struct event_way argobots_event BENCH_WEAK;

extern const struct switch_way qthreads_yield BENCH_WEAK;
extern const struct spawn_way qthreads_spawn BENCH_WEAK;

extern const struct switch_way photon_yield BENCH_WEAK, photon_yield_to BENCH_WEAK;
extern const struct spawn_way photon_spawn BENCH_WEAK;
extern const struct echo_way photon_echo BENCH_WEAK;

extern const struct echo_way asio_echo BENCH_WEAK;

#ifdef __cplusplus
}
#endif

#endif
