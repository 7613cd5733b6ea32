/* SPDX-License-Identifier: BSL-1.0 */
#include "variants.h"

int spread_serial(struct body *body, struct setting *setting)
{
    struct box all = body_box(body);

    for (size_t step = 0; step < setting->steps; step++) {
        setting_step(setting, step);
        body_sweep(body, body_after(body, step), body_after(body, step + 1), &all);
    }
    return 0;
}
