/* SPDX-License-Identifier: BSL-1.0 */
/* What cores and other threads agree on: messages, idle cores, ends of fibers. Private. */
#ifndef UMBRA_CORE_PROTOCOL_H
#define UMBRA_CORE_PROTOCOL_H

#include <umbra/core/handover.h>
#include <umbra/core/idle.h>
#include <umbra/core/inbox.h>
#include <umbra/core/join_word.h>
#include <umbra/core/quiet.h>
#include <umbra/core/unplaced.h>
#include <umbra/core/watch.h>

#endif
