/* SPDX-License-Identifier: BSL-1.0 */
/* See picture.h. */
#include "picture.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include <png.h>

/* From cold to hot; colours between two of them are mixed. */
static const unsigned char colours[][3] = {
    {0, 0, 4}, {66, 10, 104}, {147, 38, 103}, {221, 81, 58}, {252, 165, 10}, {252, 255, 164},
};

#define LAST (sizeof(colours) / sizeof(colours[0]) - 1)

static void paint(unsigned char pixel[3], double part)
{
    double place = fmin(fmax(part, 0), 1) * (double)LAST;
    size_t from = place < (double)LAST ? (size_t)place : LAST - 1;
    double more = place - (double)from;

    for (int c = 0; c < 3; c++)
        pixel[c] = (unsigned char)((1 - more) * colours[from][c] + more * colours[from + 1][c]);
}

static double hottest(const struct body *body, const double *plane)
{
    double most = 0;

    for (size_t y = 0; y < body->nodes[Y]; y++)
        for (size_t x = 0; x < body->nodes[X]; x++)
            most = fmax(most, plane[body_at(body, x, y, 0)]);
    return most > 0 ? most : 1;
}

int picture_write(const struct body *body, size_t steps, FILE *to)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)body->nodes[X],
                       .height = (png_uint_32)body->nodes[Y],
                       .format = PNG_FORMAT_RGB};
    const double *plane = body_after(body, steps) + body_at(body, 0, 0, body->nodes[Z] / 2);
    unsigned char *pixels = malloc(3 * body->nodes[X] * body->nodes[Y]);
    double most = hottest(body, plane);
    int error = 0;

    if (!pixels)
        return -ENOMEM;
    for (size_t y = 0; y < body->nodes[Y]; y++)
        for (size_t x = 0; x < body->nodes[X]; x++)
            paint(pixels + 3 * (y * body->nodes[X] + x), plane[body_at(body, x, y, 0)] / most);
    errno = 0;
    if (!png_image_write_to_stdio(&image, to, 0, pixels, 0, NULL))
        error = errno ? -errno : -EIO;
    free(pixels);
    return error;
}
