/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What a child costs: measure PROGRAM [CHILDREN [LIVE [ARGUMENT...]]]. Starts PROGRAM, with the
 * arguments, as so many children (13,313, as the paper's sort), one after the other, seven times; and
 * then as so many that are all started before the first begins (10,000). Prints one line of JSON:
 * times in microseconds, private memory and page tables in KiB. Status 1: a child failed; 2: mistaken
 * arguments.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <image.h>

#define ROUNDS 7

static const char *program;
static struct umbra_child_options with; /* the arguments; none: the path alone */
static long children = 13313, live = 10000;
static double round_us[ROUNDS];
static double live_us, live_kib;

static long memory_kib(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[200];
    long kib = 0;

    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "RssAnon:", 8) == 0 || strncmp(line, "VmPTE:", 6) == 0)
            kib += atol(strchr(line, ':') + 1);
    if (file)
        fclose(file);
    return kib;
}

static void check(int error)
{
    if (error == 0)
        return;
    fprintf(stderr, "measure: %s: %s\n", program, umbra_last_error_text());
    exit(1);
}

/* Starts a child, waits for it, and gives its exit status. */
static int run_child(struct umbra_image *image)
{
    struct umbra_child *child;
    int status;

    check(umbra_child_start(NULL, image, &with, &child));
    check(umbra_child_wait(child, &status));
    return status;
}

static void in_turn(struct umbra_image *image, double *us)
{
    uint64_t start = umbra_now_ns();

    for (long i = 0; i < children; i++)
        run_child(image);
    *us = (double)(umbra_now_ns() - start) / 1e3 / (double)children;
}

static void at_once(struct umbra_image *image)
{
    struct umbra_child **child = calloc((size_t)live, sizeof(struct umbra_child *));
    long before = memory_kib();
    uint64_t start = umbra_now_ns();

    for (long i = 0; child && i < live; i++)
        check(umbra_child_start(NULL, image, &with, &child[i]));
    for (long i = 0; child && i < live; i++)
        check(umbra_child_wait(child[i], NULL));
    live_us = (double)(umbra_now_ns() - start) / 1e3 / (double)live;
    live_kib = (double)(memory_kib() - before) / (double)live;
    free(child);
}

static void *measure(void *arg)
{
    struct umbra_image *image;

    check(umbra_image_open(program, &image));
    for (int i = 0; i < ROUNDS; i++)
        in_turn(image, &round_us[i]);
    at_once(image);
    umbra_image_close(image);
    return arg;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    struct umbra_options options = {.cores = 1};

    if (argc > 2)
        children = atol(argv[2]);
    if (argc > 3)
        live = atol(argv[3]);
    if (argc < 2 || children < 1 || live < 1) {
        fprintf(stderr, "usage: measure PROGRAM [CHILDREN [LIVE [ARGUMENT...]]]\n");
        return 2;
    }
    program = argv[1];
    if (argc > 4) {
        argv[3] = argv[1]; /* the child's name, before its arguments */
        with.argv = &argv[3];
    }
    if (umbra_run(&options, measure, NULL) != 0) {
        fprintf(stderr, "measure: %s\n", umbra_last_error_text());
        return 1;
    }
    qsort(round_us, ROUNDS, sizeof(round_us[0]), by_size);
    printf("{\"bench\":\"image\",\"children\":%ld,\"child_us\":%.3f,\"child_us_least\":%.3f,"
           "\"child_us_most\":%.3f,\"live\":%ld,\"live_us\":%.3f,\"live_kib\":%.1f}\n",
           children, round_us[ROUNDS / 2], round_us[0], round_us[ROUNDS - 1], live, live_us,
           live_kib);
    return 0;
}
