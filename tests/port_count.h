/* SPDX-License-Identifier: BSL-1.0 */
/* A look into a port, for its tests. */
#ifndef UMBRA_TESTS_PORT_COUNT_H
#define UMBRA_TESTS_PORT_COUNT_H

#include <umbra/port.h>

/* Messages in the port, without those that wait for room. */
static inline uint64_t count_of(struct umbra_port *port)
{
    uint64_t count;

    um_lock_take(&port->lock);
    um_port_gather(port, 0);
    count = port->count;
    um_lock_release(&port->lock);
    return count;
}

#endif
