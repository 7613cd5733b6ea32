/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Heat that spreads through a body, whose steps are divided between processors and a device that is
 * driven by OpenCL (divided.h): one worker for each processor and one for the device, of one dispatcher.
 *
 *     heat-device [--nodes SIZE] [--steps N] [--device KIND] [--only NAME[,NAME ...]]
 *                 [--processors P] [--rounds R] [--always] [--fail-after N]
 *
 * A SIZE is one number, or three: 100 or 200x100x50. The ways take turns, round by round; times are
 * medians, and have what is brought to the device and back. Where there is no device, or it fails, the
 * processors do its part, and a line says so. Exit status: 0; 1 if a result was wrong or something could
 * not be had; 2 for a bad argument.
 */
#include "../program.h"
#include "arguments.h"
#include "divided.h"
#include "opencl.h"

#include <stdint.h>

#include <umbra/cpu.h>

const char program_name[] = "heat-device";

#define STEPS_MOST 100000000
#define PROCESSORS_MOST 1024
#define ROUNDS_MOST 10000
#define CALLS_MOST 1000000000
#define ERROR_MOST 1e-12

enum { PROCESSORS, DEVICE, BOTH, WAYS };

static struct variant {
    struct way way;
    double *ms; /* a step, in each round */
    double share, error;
} variants[WAYS] = {
    {.way.name = "processors", .way.about = "as if there were no device"},
    {.way.name = "device", .way.about = "the device alone"},
    {.way.name = "both", .way.about = "each takes what it can"},
};

static size_t nodes[3] = {128, 128, 128}, steps = 100, processors, rounds = 3, calls = SIZE_MAX;
static bool always;
static enum device_kind kind = DEVICE_ANY;
static struct device *device;

/* ---- arguments ---- */

static bool read_kind(const char *text, void *to)
{
    static const char *const kinds[] = {
        [DEVICE_ANY] = "auto", [DEVICE_GPU] = "gpu", [DEVICE_CPU] = "cpu", [DEVICE_NONE] = "none"};

    for (int k = DEVICE_ANY; k <= DEVICE_NONE; k++)
        if (strcmp(text, kinds[k]) == 0) {
            *(enum device_kind *)to = (enum device_kind)k;
            return true;
        }
    return false;
}

static void read_options(int argc, char **argv)
{
    static const struct ways ways = {variants, WAYS, sizeof(variants[0]), .column = 12};
    const struct option_row rows[] = {
        {"--nodes", "SIZE", "of the body, 128 (so many in each direction) by default, or 90x60x30",
         .by = {read_size, nodes}, .wrong = "--nodes: " SIZE_WRONG},
        {"--steps", "N", "of time, 100 by default", .number = {&steps, 1, STEPS_MOST}},
        {"--device", "KIND",
         "auto (by default): a GPU before an accelerator before a CPU; or gpu, cpu\n"
         "or none",
         .by = {read_kind, &kind}, .wrong = "--device: not auto, gpu, cpu or none"},
        {"--processors", "P", "to use; all by default",
         .number = {&processors, 1, PROCESSORS_MOST}},
        {"--rounds", "R", "3 by default", .number = {&rounds, 1, ROUNDS_MOST}},
        {"--always", NULL, "both: divided even where that takes longer, to try it",
         .flag = &always},
        {"--fail-after", "N", "the device fails after so many calls of OpenCL, to try what follows",
         .number = {&calls, 0, CALLS_MOST}},
        {"--only", "NAMES", .ways = &ways},
        {.name = NULL},
    };
    const struct options_table table = {
        .usage = "usage: heat-device [--nodes SIZE] [--steps N] [--device KIND]\n"
                 "                   [--only NAME[,NAME ...]] [--processors P] [--rounds R]\n"
                 "                   [--always] [--fail-after N]\n",
        .column = 18,
        .rows = rows,
    };

    options_read(&table, argc, argv);
}

/* ---- measuring: functions give an exit status, and what failed has been said ---- */

static void open_device(const struct body *body)
{
    char why[128];

    if (kind == DEVICE_NONE)
        return;
    device = device_open(kind, body, calls, why);
    if (device)
        printf("device: %s\n", device_name(device));
    else
        printf("no device (%s): the processors do its part\n", why);
}

/* What came between. */
static void tell(const char *name, const struct divided *divided)
{
    if (divided->failed_at != SIZE_MAX)
        printf("%s: the device failed in step %zu (%s): the processors go on from step %zu\n", name,
               divided->failed_at, device_failed(device), divided->again_from);
    if (divided->alone_from != SIZE_MAX)
        printf("%s: the device is faster alone, and goes on so from step %zu\n", name,
               divided->alone_from);
    if (divided->left_at != SIZE_MAX)
        printf("%s: the device was left in step %zu, since steps are no shorter with it\n", name,
               divided->left_at);
}

static int run(struct variant *variant, struct body *body, size_t round)
{
    bool works = device && !*device_failed(device);
    struct divided divided = {.body = body,
                              .steps = steps,
                              .processors = processors,
                              .device = works && variant != &variants[PROCESSORS] ? device : NULL,
                              .alone = variant == &variants[DEVICE],
                              .always = always};
    uint64_t begin;
    int error;

    body_heat(body);
    begin = umbra_now_ns();
    error = divided_run(&divided);
    if (error) {
        fprintf(stderr, "heat-device: %s: %s\n", variant->way.name, error_text(error));
        return 1;
    }
    variant->ms[round] = (double)(umbra_now_ns() - begin) / 1e6 / (double)steps;
    variant->share = divided.share;
    variant->error = body_error(body, steps);
    tell(variant->way.name, &divided);
    if (variant->error < ERROR_MOST)
        return 0;
    fprintf(stderr, "heat-device: %s: the result is wrong: off by %g\n", variant->way.name,
            variant->error);
    return 1;
}

static void report(void)
{
    printf("%zu x %zu x %zu nodes, %zu steps, %zu processors, %zu rounds\n", nodes[0], nodes[1],
           nodes[2], steps, processors, rounds);
    printf("%-12s %14s %12s %10s\n", "", "a step, ms", "the device's", "error");
    for (int v = 0; v < WAYS; v++)
        if (!variants[v].way.hidden)
            printf("%-12s %14.4f %11.1f%% %10.1e\n", variants[v].way.name,
                   median(variants[v].ms, rounds), 100 * variants[v].share, variants[v].error);
}

static int measure(struct body *body)
{
    double *ms = calloc(WAYS * rounds, sizeof(*ms));
    int status = ms ? 0 : 1;

    if (!ms)
        fprintf(stderr, "heat-device: not enough memory for %zu rounds\n", rounds);
    for (size_t v = 0; v < WAYS && ms; v++)
        variants[v].ms = ms + v * rounds;
    for (size_t round = 0; round < rounds && status == 0; round++)
        for (size_t v = 0; v < WAYS && status == 0; v++)
            if (!variants[v].way.hidden)
                status = run(&variants[v], body, round);
    if (status == 0)
        report();
    free(ms);
    return status;
}

int main(int argc, char **argv)
{
    struct body body;
    int status;

    read_options(argc, argv);
    if (processors == 0)
        processors = processors_here();
    if (body_create(&body, nodes) != 0) {
        fprintf(stderr, "heat-device: not enough memory for %zu x %zu x %zu nodes\n", nodes[0],
                nodes[1], nodes[2]);
        return 1;
    }
    open_device(&body);
    status = measure(&body);
    device_close(device);
    body_destroy(&body);
    return printed(status);
}
