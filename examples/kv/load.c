/* SPDX-License-Identifier: BSL-1.0 */
/* See load.h. */
#include "load.h"
#include "store.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include <umbra/cpu.h>

/* SplitMix64, by Steele, Lea and Flood. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* From 0, excluded, to 1. */
static double draw_part(uint64_t *state)
{
    return (double)((draw(state) >> 11) + 1) * 0x1p-53;
}

int load_make(struct load *load, size_t count, double mean_ns, uint64_t seed)
{
    double at = 0;

    *load = (struct load){.request = calloc(count, sizeof(*load->request)), .count = count};
    if (!load->request)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        at -= mean_ns * log(draw_part(&seed));
        load->request[i] = (struct request){.at_ns = (uint64_t)at,
                                            .key = (unsigned)(draw(&seed) % STORE_RECORDS),
                                            .scan = draw(&seed) % 100 < LOAD_LONG_PERCENT};
    }
    return 0;
}

void load_free(struct load *load)
{
    free(load->request);
}

void load_begin(struct load *load)
{
    load->begin_ns = umbra_now_ns();
}

uint64_t load_wait_ns(const struct load *load)
{
    uint64_t at, now;

    if (load->given == load->count)
        return LOAD_OVER;
    at = load->begin_ns + load->request[load->given].at_ns;
    now = umbra_now_ns();
    return at > now ? at - now : 0;
}

struct request *load_take(struct load *load)
{
    return &load->request[load->given++];
}

void load_serve(const struct load *load, struct request *request, void (*point)(void))
{
    uint64_t answer = request->scan ? store_scan(request->key, point) : store_get(request->key);

    request->wrong = answer != store_right(request->key, request->scan ? STORE_SCAN : 1);
    request->took_ns = umbra_now_ns() - load->begin_ns - request->at_ns;
}
