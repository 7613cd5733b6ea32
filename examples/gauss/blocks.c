/* SPDX-License-Identifier: BSL-1.0 */
/* See blocks.h. */
#include "blocks.h"

#include <errno.h>
#include <stdlib.h>

#define LINE_DOUBLES 8 /* in a cache line */

/* ---- arithmetic: the best that this processor can execute ---- */

extern const struct blocks_kernel blocks_kernel_baseline;
#ifdef __x86_64__
extern const struct blocks_kernel blocks_kernel_avx2, blocks_kernel_avx512;
#endif

const struct blocks_kernel *blocks_kernel = &blocks_kernel_baseline;

__attribute__((constructor)) static void choose_blocks_kernel(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        blocks_kernel = &blocks_kernel_avx2;
    if (blocks_kernel == &blocks_kernel_avx2 && __builtin_cpu_supports("avx512f"))
        blocks_kernel = &blocks_kernel_avx512;
#endif
}

/* ---- cutting up ---- */

static double *doubles(size_t count)
{
    size_t lines = (count + LINE_DOUBLES - 1) / LINE_DOUBLES;

    return aligned_alloc(LINE_DOUBLES * sizeof(double), lines * LINE_DOUBLES * sizeof(double));
}

static size_t strips_of_panel(size_t block)
{
    return (block + BLOCKS_STRIP - 1) / BLOCKS_STRIP;
}

size_t blocks_first_strip(const struct blocks *blocks, size_t panel)
{
    return panel < blocks->panels ? panel * strips_of_panel(blocks->block) : blocks->strips - 1;
}

struct strip blocks_strip(const struct blocks *blocks, size_t strip)
{
    size_t each = strips_of_panel(blocks->block), n = blocks->system->n;
    size_t first = strip / each * blocks->block + strip % each * BLOCKS_STRIP;
    size_t end = (strip / each + 1) * blocks->block;

    if (strip == blocks->strips - 1)
        return (struct strip){n, n + 1};
    if (end > n)
        end = n;
    return (struct strip){first, first + BLOCKS_STRIP < end ? first + BLOCKS_STRIP : end};
}

int blocks_create(struct blocks *blocks, const struct system *system, const struct setting *setting,
                  size_t buffers)
{
    size_t n = system->n, block = setting->block ? setting->block : BLOCKS_DEFAULT;
    size_t panels, packed;

    if (block > n)
        block = n;
    panels = (n + block - 1) / block;
    packed = (n + 2 * BLOCKS_TILE) * block;
    *blocks = (struct blocks){.system = system, .block = block, .panels = panels};
    blocks->strips =
        (panels - 1) * strips_of_panel(block) + strips_of_panel(n - (panels - 1) * block) + 1;
    blocks->buffers = buffers < panels ? buffers : panels;
    blocks->scratch_doubles = (block + 1) * BLOCKS_STRIP;
    blocks->panel = calloc(panels, sizeof(*blocks->panel));
    blocks->packed = doubles(blocks->buffers * packed);
    blocks->scratch = doubles(setting->processors * blocks->scratch_doubles);
    blocks->exchange = setting->pivoting ? calloc(n, sizeof(*blocks->exchange)) : NULL;
    if (!blocks->panel || !blocks->packed || !blocks->scratch ||
        (setting->pivoting && !blocks->exchange))
        return -ENOMEM;
    for (size_t k = 0; k < panels; k++)
        blocks->panel[k] = (struct panel){
            .first = k * block,
            .end = (k + 1) * block < n ? (k + 1) * block : n,
            .packed = blocks->packed + k % blocks->buffers * packed,
            .exchange = blocks->exchange ? blocks->exchange + k * block : NULL,
        };
    return 0;
}

void blocks_destroy(struct blocks *blocks)
{
    free(blocks->panel);
    free(blocks->packed);
    free(blocks->scratch);
    free(blocks->exchange);
}
