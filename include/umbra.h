/* SPDX-License-Identifier: BSL-1.0 */
/*
 * All of Umbra. Each header also stands alone, and includes only headers below it:
 *
 *   umbra/trace.h      what fibers and cores did, for a viewer
 *   umbra/port.h       ports of messages, and the five arbiters over them
 *   umbra/channel.h    bounded queues of values
 *   umbra/dispatch.h   persistent workers that pull values, step by step
 *   umbra/task.h       fork and join of functions, parallel for and reduce
 *   umbra/memory.h     memory on NUMA nodes, pooled buffers, loops and barriers for each node
 *   umbra/sync.h       mutex, condition, semaphore, read-write lock, barrier, latch
 *   umbra/blocking.h   blocking functions on helper threads, while the core goes on
 *   umbra/event.h      what fibers and threads wait for, on any core
 *   umbra/core.h       one scheduler a core; spawn and join
 *   umbra/fiber.h      what a fiber does: yield, transfer, sleep
 *   umbra/team.h       threads that run one function together, and barriers between them
 *   umbra/memcpy.h     memcpy with the help of a shadow
 *   umbra/shadow.h     a helper thread beside its owner: fork, join
 *   umbra/wait.h       wait for a word: spin, monitor, park
 *   umbra/prefetch.h   a shadow that runs ahead by a bounded distance
 *   umbra/cpu.h        pause, prefetch, time stamp
 *   umbra/topology.h   cores, siblings, caches, NUMA nodes; placement; binding
 *
 * Names that begin with umbra_ or UMBRA_, and the calls shadow_create, shadow_fork, shadow_join,
 * shadow_destroy and shadow_memcpy, are public. Names that begin with um_ or UM_ are private.
 */
#ifndef UMBRA_H
#define UMBRA_H

#include <umbra/blocking.h>
#include <umbra/channel.h>
#include <umbra/core.h>
#include <umbra/cpu.h>
#include <umbra/dispatch.h>
#include <umbra/event.h>
#include <umbra/fiber.h>
#include <umbra/memcpy.h>
#include <umbra/memory.h>
#include <umbra/port.h>
#include <umbra/prefetch.h>
#include <umbra/shadow.h>
#include <umbra/sync.h>
#include <umbra/task.h>
#include <umbra/team.h>
#include <umbra/topology.h>
#include <umbra/trace.h>
#include <umbra/wait.h>

#endif
