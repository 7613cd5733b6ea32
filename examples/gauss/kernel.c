/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The arithmetic of blocks.h, compiled once for each level of the processor's instructions: KERNEL
 * is the name of what it exports. blocks.c chooses.
 *
 * A product of matrices goes tile by tile, a tile of the result being as large as the registers
 * hold (Goto and van de Geijn 2008). Both operands are packed before, so that the innermost loop
 * reads them in order: the left one in groups of as many rows as a tile has, column by column, the
 * right one in groups of as many columns, row by row.
 */
#include "blocks.h"
#include "vec.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#if defined(__AVX512F__)
#define ROWS 8 /* of a tile */
#define VECS 3 /* of a tile's row */
#elif defined(__AVX2__)
#define ROWS 6
#define VECS 2
#else
#define ROWS 4
#define VECS 2
#endif
#define COLUMNS (LANES * VECS)
#define BASE 16 /* columns that are eliminated without a product */

_Static_assert(BLOCKS_STRIP % COLUMNS == 0, "strips are whole tiles");
_Static_assert(ROWS <= BLOCKS_TILE && COLUMNS <= BLOCKS_TILE, "what buffers have room for");

extern const struct blocks_kernel KERNEL;

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- packing ---- */

/* One group: `rows` rows from `row`, `depth` columns from `column`; zeros for rows it lacks. */
static void pack_group(const struct system *system, size_t row, size_t rows, size_t column,
                       size_t depth, double *restrict to)
{
    const double *from[ROWS];

    if (rows < ROWS)
        memset(to, 0, depth * ROWS * sizeof(double));
    for (size_t i = 0; i < rows; i++)
        from[i] = system_row(system, row + i) + column;
    if (rows == ROWS)
        for (size_t k = 0; k < depth; k++)
            for (size_t i = 0; i < ROWS; i++)
                to[k * ROWS + i] = from[i][k];
    else
        for (size_t k = 0; k < depth; k++)
            for (size_t i = 0; i < rows; i++)
                to[k * ROWS + i] = from[i][k];
}

/* Where the groups below a panel of so many pivots begin; before, there are its own rows. */
static size_t packed_below(size_t depth)
{
    return (depth + ROWS - 1) / ROWS * ROWS * depth;
}

static double *pack_rows(const struct system *system, size_t row, size_t end, size_t column,
                         size_t depth, double *to)
{
    for (; row < end; row += ROWS, to += ROWS * depth)
        pack_group(system, row, least(ROWS, end - row), column, depth, to);
    return to;
}

static void pack(const struct system *system, const struct panel *panel)
{
    size_t depth = panel->end - panel->first;

    pack_rows(system, panel->first, panel->end, panel->first, depth, panel->packed);
    pack_rows(system, panel->end, system->n, panel->first, depth,
              panel->packed + packed_below(depth));
}

/* ---- tiles: `vecs` is a constant wherever these are inlined, and the compiler unrolls ---- */

/* The part of the matrix that a tile is, with fewer rows or columns at an edge. */
struct tile {
    double *at;
    size_t stride;
    size_t rows;
    size_t columns;
};

INLINE void product(vec sum[ROWS][VECS], const double *left, const double *right, size_t depth,
                    const size_t vecs)
{
    for (size_t i = 0; i < ROWS; i++)
        for (size_t v = 0; v < vecs; v++)
            sum[i][v] = (vec){0};
    for (size_t k = 0; k < depth; k++) {
        vec b[VECS];

        for (size_t v = 0; v < vecs; v++)
            b[v] = load(right + v * LANES);
        for (size_t i = 0; i < ROWS; i++)
            for (size_t v = 0; v < vecs; v++)
                sum[i][v] += splat(left[i]) * b[v];
        left += ROWS;
        right += vecs * LANES;
    }
}

INLINE bool is_whole(struct tile tile, const size_t vecs)
{
    return tile.rows == ROWS && tile.columns == vecs * LANES;
}

/* sum becomes the tile without it. */
INLINE void take_from(struct tile tile, vec sum[ROWS][VECS], const size_t vecs)
{
    double part[ROWS][COLUMNS] = {{0}};

    if (is_whole(tile, vecs)) {
        for (size_t i = 0; i < ROWS; i++)
            for (size_t v = 0; v < vecs; v++)
                sum[i][v] = load(tile.at + i * tile.stride + v * LANES) - sum[i][v];
        return;
    }
    for (size_t i = 0; i < tile.rows; i++)
        memcpy(part[i], tile.at + i * tile.stride, tile.columns * sizeof(double));
    for (size_t i = 0; i < ROWS; i++)
        for (size_t v = 0; v < vecs; v++)
            sum[i][v] = load(&part[i][v * LANES]) - sum[i][v];
}

INLINE void put(struct tile tile, vec value[ROWS][VECS], const size_t vecs)
{
    double part[ROWS][COLUMNS];

    if (is_whole(tile, vecs)) {
        for (size_t i = 0; i < ROWS; i++)
            for (size_t v = 0; v < vecs; v++)
                store(tile.at + i * tile.stride + v * LANES, value[i][v]);
        return;
    }
    for (size_t i = 0; i < ROWS; i++)
        for (size_t v = 0; v < vecs; v++)
            store(&part[i][v * LANES], value[i][v]);
    for (size_t i = 0; i < tile.rows; i++)
        memcpy(tile.at + i * tile.stride, part[i], tile.columns * sizeof(double));
}

/* The tile loses left times right. */
INLINE void subtract(struct tile tile, const double *left, const double *right, size_t depth,
                     const size_t vecs)
{
    vec sum[ROWS][VECS];

    for (size_t i = 0; i < tile.rows; i++)
        for (size_t v = 0; v < vecs; v++)
            __builtin_prefetch(tile.at + i * tile.stride + v * LANES, 1);
    product(sum, left, right, depth, vecs);
    take_from(tile, sum, vecs);
    put(tile, sum, vecs);
}

/*
 * The tile's rows are pivots, of which the `depth` before have their places right of the panel
 * packed from `right` on: applies those, and these to each other, and packs these, too.
 */
INLINE void solve(struct tile tile, const double *left, double *right, size_t depth,
                  const size_t vecs)
{
    vec x[ROWS][VECS];
    double among[ROWS * ROWS] = {0}; /* the multiplier of pivot s for row i: [s * ROWS + i] */

    memcpy(among, left + depth * ROWS, tile.rows * ROWS * sizeof(double));
    product(x, left, right, depth, vecs);
    take_from(tile, x, vecs);
    for (size_t i = 1; i < ROWS; i++)
        for (size_t s = 0; s < i; s++)
            for (size_t v = 0; v < vecs; v++)
                x[i][v] -= splat(among[s * ROWS + i]) * x[s][v];
    put(tile, x, vecs);
    right += depth * vecs * LANES;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t v = 0; v < vecs; v++)
            if (i < tile.rows)
                store(right + (i * vecs + v) * LANES, x[i][v]);
}

/* ---- what a panel does to the columns right of it ---- */

/* A group of columns, at most a tile's, all of the panel's rows. */
INLINE void solve_columns(const struct system *system, const struct panel *panel, size_t column,
                          size_t columns, double *right, const size_t vecs)
{
    size_t depth = panel->end - panel->first;

    for (size_t k = 0; k < depth; k += ROWS) {
        struct tile tile = {system_row(system, panel->first + k) + column, system->stride,
                            least(ROWS, depth - k), columns};

        solve(tile, panel->packed + k * depth, right, k, vecs);
    }
}

static void solve_group(const struct system *system, const struct panel *panel, size_t column,
                        size_t columns, double *right)
{
    if (VECS > 2 && columns > 2 * LANES)
        solve_columns(system, panel, column, columns, right, VECS);
    else if (columns > LANES)
        solve_columns(system, panel, column, columns, right, 2);
    else
        solve_columns(system, panel, column, columns, right, 1);
}

static void subtract_group(struct tile tile, const double *left, const double *right, size_t depth)
{
    if (VECS > 2 && tile.columns > 2 * LANES)
        subtract(tile, left, right, depth, VECS);
    else if (tile.columns > LANES)
        subtract(tile, left, right, depth, 2);
    else
        subtract(tile, left, right, depth, 1);
}

static void exchange_rows(const struct system *system, size_t a, size_t b, struct strip strip)
{
    double *row_a = system_row(system, a), *row_b = system_row(system, b);

    if (a == b)
        return;
    for (size_t j = strip.first; j < strip.end; j++) {
        double value = row_a[j];

        row_a[j] = row_b[j];
        row_b[j] = value;
    }
}

static void apply(const struct system *system, const struct panel *panel, struct strip strip,
                  double *scratch)
{
    size_t depth = panel->end - panel->first;
    const double *left = panel->packed + packed_below(depth);

    for (size_t i = 0; i < depth && panel->exchange; i++)
        exchange_rows(system, panel->first + i, panel->exchange[i], strip);
    for (size_t j = strip.first; j < strip.end; j += COLUMNS)
        solve_group(system, panel, j, least(COLUMNS, strip.end - j),
                    scratch + (j - strip.first) * depth);
    for (size_t i = panel->end; i < system->n; i += ROWS, left += ROWS * depth)
        for (size_t j = strip.first; j < strip.end; j += COLUMNS) {
            struct tile tile = {system_row(system, i) + j, system->stride,
                                least(ROWS, system->n - i), least(COLUMNS, strip.end - j)};

            subtract_group(tile, left, scratch + (j - strip.first) * depth, depth);
        }
}

/* ---- the panel itself ---- */

/* Applies pivot k of some columns to a row below. */
INLINE void eliminate(double *restrict row, const double *restrict pivot, double inverse, size_t k,
                      size_t columns)
{
    double factor = row[k] * inverse;

    row[k] = factor;
    for (size_t j = k + 1; j < columns; j++)
        row[j] -= factor * pivot[j];
}

/* Fewer than BASE columns become that many, of zeros: so the loops are known to the compiler. */
INLINE void eliminate_columns(const struct system *system, size_t first, const size_t columns)
{
    double inverse[BASE] = {0}, pivot[BASE][BASE] = {{0}}, row[BASE] = {0};

    for (size_t k = 0; k < columns; k++) {
        memcpy(pivot[k], system_row(system, first + k) + first, columns * sizeof(double));
        for (size_t s = 0; s < k; s++)
            eliminate(pivot[k], pivot[s], inverse[s], s, columns);
        inverse[k] = 1 / pivot[k][k];
        memcpy(system_row(system, first + k) + first, pivot[k], columns * sizeof(double));
    }
    for (size_t i = first + columns; i < system->n; i++) {
        memcpy(row, system_row(system, i) + first, columns * sizeof(double));
#pragma GCC unroll 16
        for (size_t k = 0; k < BASE; k++)
            eliminate(row, pivot[k], inverse[k], k, BASE);
        memcpy(system_row(system, i) + first, row, columns * sizeof(double));
    }
}

/* The row with the largest element in a column, from `from` on. */
static size_t largest(const struct system *system, size_t column, size_t from)
{
    size_t best = from;
    double most = fabs(system_row(system, from)[column]);

    for (size_t i = from + 1; i < system->n; i++) {
        double size = fabs(system_row(system, i)[column]);

        if (size > most) {
            most = size;
            best = i;
        }
    }
    return best;
}

INLINE void eliminate_pivoting(const struct system *system, const struct panel *panel, size_t first,
                               const size_t columns)
{
    struct strip whole = {panel->first, panel->end};

    for (size_t k = 0; k < columns; k++) {
        const double *pivot = system_row(system, first + k) + first;
        size_t row = largest(system, first + k, first + k);
        double inverse;

        panel->exchange[first + k - panel->first] = row;
        exchange_rows(system, first + k, row, whole);
        inverse = 1 / pivot[k];
        for (size_t i = first + k + 1; i < system->n; i++)
            eliminate(system_row(system, i) + first, pivot, inverse, k, columns);
    }
}

static void factor_base(const struct system *system, const struct panel *panel, size_t first,
                        size_t columns)
{
    if (panel->exchange && columns == BASE)
        eliminate_pivoting(system, panel, first, BASE);
    else if (panel->exchange)
        eliminate_pivoting(system, panel, first, columns);
    else if (columns == BASE)
        eliminate_columns(system, first, BASE);
    else
        eliminate_columns(system, first, columns);
}

/* Some of the panel's columns: the left half, what it does to the right half, the right half. */
static void factor_columns(const struct system *system, const struct panel *panel, size_t first,
                           size_t end, double *scratch)
{
    size_t half = ((end - first) / 2 + BASE - 1) / BASE * BASE;
    struct panel left = {first, first + half, panel->packed, NULL};

    if (end - first <= BASE) {
        factor_base(system, panel, first, end - first);
        return;
    }
    factor_columns(system, panel, first, first + half, scratch);
    pack(system, &left);
    for (size_t j = left.end; j < end; j += BLOCKS_STRIP)
        apply(system, &left, (struct strip){j, least(j + BLOCKS_STRIP, end)}, scratch);
    factor_columns(system, panel, first + half, end, scratch);
}

static void factor(const struct system *system, const struct panel *panel, double *scratch)
{
    factor_columns(system, panel, panel->first, panel->end, scratch);
    pack(system, panel);
}

const struct blocks_kernel KERNEL = {.factor = factor, .apply = apply};
