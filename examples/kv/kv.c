/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A store that answers short and long requests: 99 of 100 read a record, one reads a hundred. A core
 * that answers a long one keeps the short ones waiting, but for safe points (umbra_poll), where the
 * fiber yields when others have waited for a share. The program prints how long the answers took, from
 * the arrival of the request, with and without safe points, beside a loop on epoll and threads:
 *
 *     kv [--only WAY,...] [--load PERCENT,...] [--cores N] [--requests N] [--share NS] ...
 *
 * A load of 100 % would keep all cores busy with nothing but the requests. They arrive at times that do
 * not depend on the answers (load.h), in the same process and on the same cores, so that what is seen
 * is the scheduling and not a network. --cpus LIST names the processors that are used.
 * Exit status: 0; 1 something failed, or an answer was wrong; 2 bad argument.
 */
#define _GNU_SOURCE
#include "load.h"
#include "server.h"
#include "store.h"

#include <sched.h>

#include "../options.h"
#include "../program.h"

const char program_name[] = "kv";

#define WARM_UP 20 /* the first of so many parts of the requests is not counted */

struct kv_way {
    struct way way;
    int (*serve)(const struct server *server);
};

static struct kv_way kv_ways[] = {
    {{.name = "fibers", .about = "fibers with safe points"}, serve_fibers},
    {{.name = "held", .about = "fibers without safe points"}, serve_held},
    {{.name = "epoll", .about = "a loop for each core"}, serve_epoll},
    {{.name = "threads", .about = "threads, as the system schedules them"}, serve_threads},
};
static const struct ways ways = {kv_ways, sizeof(kv_ways) / sizeof(kv_ways[0]), sizeof(kv_ways[0]),
                                 10};

static struct numbers loads = {{10, 30, 50, 70}, 4};
static size_t cores, requests = 100000, share_ns = 5000, get_ns = 1000, seed = 1;

void no_point(void)
{
}

void bind_to(int cpu)
{
    cpu_set_t only;

    CPU_ZERO(&only);
    CPU_SET((unsigned)cpu, &only);
    sched_setaffinity(0, sizeof(only), &only);
}

/* ---- what is printed ---- */

/* What the answers of one kind took. */
struct took {
    double *us;
    size_t count;
};

static double quantile(const struct took *took, double part)
{
    return took->count == 0 ? 0 : took->us[(size_t)(part * (double)took->count)];
}

/* True if all answers were right. Adds what they took. */
static bool collect(const struct load *load, struct took took[2])
{
    bool right = true;

    for (size_t i = 0; i < load->count; i++) {
        const struct request *request = &load->request[i];
        struct took *kind = &took[request->scan];

        right = right && !request->wrong;
        if (i >= load->count / WARM_UP)
            kind->us[kind->count++] = (double)request->took_ns / 1000;
    }
    return right;
}

/* Prints a line. True if all answers were right. */
static bool say(const struct kv_way *way, size_t percent, const struct server *server)
{
    size_t all = requests * server->cores;
    struct took took[2] = {{calloc(all, sizeof(double)), 0}, {calloc(all, sizeof(double)), 0}};
    bool right = took[0].us && took[1].us;

    for (unsigned i = 0; i < server->cores && right; i++)
        right = collect(&server->load[i], took);
    for (int kind = 0; kind < 2 && right; kind++)
        qsort(took[kind].us, took[kind].count, sizeof(double), compare);
    if (right)
        printf("%-8s %5zu %10.1f %10.1f %10.1f %12.1f %10.1f\n", way->way.name, percent,
               quantile(&took[0], 0.5), quantile(&took[0], 0.99), quantile(&took[0], 0.999),
               quantile(&took[1], 0.5), quantile(&took[1], 0.99));
    else
        fprintf(stderr, "%s: %s: %s\n", program_name, way->way.name,
                took[0].us && took[1].us ? "a wrong answer" : strerror(ENOMEM));
    free(took[0].us);
    free(took[1].us);
    return right;
}

/* ---- runs ---- */

static bool run(const struct kv_way *way, size_t percent, const struct server *server)
{
    double mean_ns =
        store_get_ns() * (100 + LOAD_LONG_PERCENT * (STORE_SCAN - 1)) / (double)percent;
    unsigned made = 0;
    int error = 0;
    bool good;

    while (made < server->cores && error == 0) {
        error = load_make(&server->load[made], requests, mean_ns, seed * 1000 + made);
        made += error == 0;
    }
    if (error == 0)
        error = way->serve(server);
    good = error == 0 && say(way, percent, server);
    if (error != 0)
        fprintf(stderr, "%s: %s: %s\n", program_name, way->way.name, error_text(error));
    while (made > 0)
        load_free(&server->load[--made]);
    return good;
}

static bool run_all(const struct server *server)
{
    printf("%u cores; a short request takes %.0f ns, a long one %d times that; in us:\n",
           server->cores, store_get_ns(), STORE_SCAN);
    printf("%-8s %5s %10s %10s %10s %12s %10s\n", "way", "load", "short p50", "p99", "p99.9",
           "long p50", "p99");
    for (size_t i = 0; i < loads.count; i++)
        for (size_t w = 0; w < ways.count; w++)
            if (!kv_ways[w].way.hidden && !run(&kv_ways[w], loads.number[i], server))
                return false;
    return true;
}

/* The processors of the cores: the first of those that the process may use. */
static void find_processors(int *cpu)
{
    struct umbra_topology *topology;

    if (umbra_topology_create(NULL, &topology) != 0)
        return; /* then the runtime says why */
    for (size_t i = 0; i < cores; i++)
        cpu[i] = umbra_topology_info(topology)->cpu[i].cpu;
    umbra_topology_destroy(topology);
}

int main(int argc, char **argv)
{
    size_t processors = processors_here();
    const struct option_row rows[] = {
        {"--only", "WAYS", "these, separated by commas:", .ways = &ways},
        {"--load", "LIST", "percent of what the cores can do at most",
         .number = {loads.number, 1, 200}, .count = &loads.count},
        {"--cores", "N", "how many", .number = {&cores, 1, processors}},
        {"--requests", "N", "for each core and run", .number = {&requests, 100, 100000000}},
        {"--share", "NS", "after which a safe point yields", .number = {&share_ns, 1, 1000000000}},
        {"--get", "NS", "that a short request takes", .number = {&get_ns, 10, 20000}},
        {"--seed", "N", "of the times of arrival", .number = {&seed, 0, 1000000000}},
        {0}};
    const struct options_table table = {
        .usage = "usage: kv [OPTION...]\n", .column = 20, .rows = rows};
    struct server server;
    int *cpu;
    bool good;

    cores = processors;
    options_read(&table, argc, argv);
    cpu = calloc(cores, sizeof(*cpu));
    server = (struct server){.cores = (unsigned)cores,
                             .cpu = cpu,
                             .share_ns = share_ns,
                             .load = calloc(cores, sizeof(*server.load))};
    if (!cpu || !server.load || store_open(get_ns) != 0) {
        fprintf(stderr, "%s: %s\n", program_name, strerror(ENOMEM));
        return 1;
    }
    find_processors(cpu);
    good = run_all(&server);
    store_close();
    free(server.load);
    free(cpu);
    return printed(good ? 0 : 1);
}
