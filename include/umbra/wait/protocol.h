/* SPDX-License-Identifier: BSL-1.0 */
/* What waits are built on: the node of each, parking in the kernel, a short lock, and lists of
 * waiters. Private. */
#ifndef UMBRA_WAIT_PROTOCOL_H
#define UMBRA_WAIT_PROTOCOL_H

#include <umbra/wait/claim.h>
#include <umbra/wait/lock.h>
#include <umbra/wait/park.h>
#include <umbra/wait/waiters.h>

#endif
