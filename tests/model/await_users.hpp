/* SPDX-License-Identifier: BSL-1.0 */
/* Stands in for how the calls of umbra/sync.h say what they wait for. Included inside the struct of each
 * variant, so it has no guard. */

struct um_event;

struct um_await {
    struct um_event *event;
    bool (*accept)(void *arg);
    void (*announce)(void *arg);
    void *arg;
    uint64_t deadline;
    bool firm;
    const void *kind;
    const void *on;
    const void *at;
};

static uint64_t um_deadline_cycles(uint64_t deadline)
{
    return deadline;
}
