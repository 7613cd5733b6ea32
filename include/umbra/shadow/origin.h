/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a thread of the library passes on to a process that the program starts on it.
 *
 * The library binds threads to one processor, and blocks signals in some that it starts. The
 * program runs functions on them, and a child process begins with the signal mask and the
 * processors of the thread that started it. So each such thread knows its origin: the mask and
 * processors of the thread of the program that it stems from. It has them itself, or fork(2) gives
 * them to the child:
 *
 *   thread                          mask       processors   in a child of fork(2)
 *   of a core                       origin's   one          um_runtimes_in_child()
 *   helper of a shadow              blocked    one          um_shadows_in_child()
 *   member of a team                blocked    one (1)      um_teams_in_child()
 *   owner of a shadow or team       its own    one (1)      um_owners_in_child()
 *   helper of umbra/blocking.h      origin's   origin's     nothing is to be done
 *
 * (1) the origin's where the team does not bind it.
 *
 * The other threads of the library (watchdog, poller, those that measure) run no function of the
 * program. No handler runs where a process is started otherwise (posix_spawn, popen, exec):
 * docs/limits.md says what a caller does there.
 *
 * Private. Any thread, for itself; no function waits for another thread.
 */
#ifndef UMBRA_SHADOW_ORIGIN_H
#define UMBRA_SHADOW_ORIGIN_H

#include <umbra/base/base.h>
#include <umbra/os/os.h>
#include <umbra/topology.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* The origin of threads that a thread starts. */
struct um_origin {
    uint64_t signals;                        /* for um_os_unmask_signals() */
    const struct umbra_affinity *processors; /* NULL: the thread's */
};

/* A thread that the library started with signals blocked; all 0 in the others. */
struct um_masked {
    bool is;
    uint64_t before;              /* its origin's mask */
    struct umbra_affinity *bound; /* by um_origin_bind(), or NULL */
};

UM_SHARED(UM_THREAD_LOCAL struct um_masked um_masked_self, {false, 0, NULL});

#ifdef UMBRA_IMPLEMENTATION

/* The calling thread's origin. Its processors are known until the thread is bound or unbound. */
UM_LINKONCE UM_COLD struct um_origin um_origin_here(void)
{
    struct um_origin origin = {um_masked_self.before, um_affinity_origin()};

    if (!um_masked_self.is) {
        origin.signals = um_os_mask_signals();
        um_os_unmask_signals(origin.signals);
    }
    return origin;
}

/* A thread that was started with signals blocked begins: binds it, or with UMBRA_ANY_CPU gives it
 * its origin's processors. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_origin_bind(const struct um_origin *origin,
                                       const struct umbra_topology *topology, int cpu)
{
    um_masked_self = (struct um_masked){true, origin->signals, NULL};
    if (cpu == UMBRA_ANY_CPU) {
        um_topology_bind_as(topology, origin->processors);
        return 0;
    }
    return um_topology_bind_own(topology, cpu, origin->processors, &um_masked_self.bound);
}

/* Such a thread ends. It may leave bindings of its own behind: shadow/owner.h undoes those. */
UM_LINKONCE UM_COLD void um_origin_end(void)
{
    struct umbra_affinity *bound = um_masked_self.bound;

    if (bound)
        umbra_topology_unbind(bound->own, bound);
}

/* In the child of fork(2): its only thread gets back what its origin has. */
UM_LINKONCE UM_COLD void um_origin_in_child(void)
{
    um_affinities_end();
    if (um_masked_self.is)
        um_os_unmask_signals(um_masked_self.before);
    um_masked_self = (struct um_masked){false, 0, NULL};
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
