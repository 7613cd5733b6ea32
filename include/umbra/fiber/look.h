/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Looking in place: what waits polls for a while before it leaves its core or sleeps. Private;
 * included by fiber.h. A fiber does so while its core has nothing else to do, an idle core before it
 * dozes, a thread before it parks. Neither switches nor blocks.
 */
#ifndef UMBRA_FIBER_LOOK_H
#define UMBRA_FIBER_LOOK_H

#include <umbra/base/base.h>
#include <umbra/cpu.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#ifdef UMBRA_IMPLEMENTATION

enum um_look {
    UM_LOOK_AGAIN,
    UM_LOOK_OVER,  /* what is waited for has come */
    UM_LOOK_LEAVE, /* the core has something else to do */
};

typedef enum um_look um_look_fn(struct umbra_core *core, void *arg);

/*
 * Looks in batches, with a gap after each look and a look at the clock after each batch: for so many
 * cycles, or until a deadline. At least one batch. word: what a gap that writes asks for. True if it
 * is over. Inlined, and `look` with it.
 */
UM_ALWAYS_INLINE bool um_look_in_place(struct umbra_core *core, struct um_polls polls,
                                       const void *word, uint64_t cycles, uint64_t deadline,
                                       um_look_fn *look, void *arg)
{
    uint64_t start = um_cycles();
    uint64_t now = start;

    do {
        for (uint32_t i = 0; i < polls.batch; i++) {
            enum um_look seen = look(core, arg);

            if (seen != UM_LOOK_AGAIN)
                return seen == UM_LOOK_OVER;
            um_gap_pass(polls.gap, word);
        }
        now = um_cycles();
    } while (now - start < cycles && now < deadline);
    return false;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
