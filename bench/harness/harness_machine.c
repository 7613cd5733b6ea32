/* SPDX-License-Identifier: BSL-1.0 */
/* The machine line of the harness. See harness.h. */
#define _GNU_SOURCE
#include "harness_private.h"

#include <inttypes.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <umbra/wait.h>

#include "commit.h" /* BENCH_COMMIT, written by the build */

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* The first "model name" of /proc/cpuinfo, else the architecture's name. */
static json_t *processor_name(const struct utsname *names)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    json_t *found = NULL;

    while (file != NULL && found == NULL && fgets(line, sizeof line, file) != NULL) {
        char *value = strchr(line, ':');

        if (value == NULL || strncmp(line, "model name", 10) != 0)
            continue;
        value += strspn(value, ": \t");
        found = json_stringn(value, strcspn(value, "\n"));
    }
    if (file != NULL)
        fclose(file);
    return found != NULL ? found : json_string(names->machine);
}

/* Sum over all processors, since the first line of /proc/stat counts from start-up. */
uint64_t bench_stolen_ms(void)
{
    FILE *file = fopen("/proc/stat", "r");
    uint64_t ticks = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "cpu %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &ticks) != 1)
        ticks = 0;
    fclose(file);
    return ticks * 1000u / (uint64_t)sysconf(_SC_CLK_TCK);
}

static json_t *used_cpus(const struct bench *bench)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < bench->n_cpus; i++) {
        const struct umbra_topology_info *all = umbra_topology_info(bench->topology);
        unsigned core = umbra_topology_cpu_of(bench->topology, bench->cpus[i])->core;
        json_t *others = json_array();

        for (unsigned c = 0; c < all->cpus; c++)
            if (all->cpu[c].core == core && all->cpu[c].cpu != bench->cpus[i])
                json_array_append_new(others, json_integer(all->cpu[c].cpu));
        json_array_append_new(list, json_pack("{s:i, s:i, s:o}", "cpu", bench->cpus[i], "core",
                                              (int)core, "siblings", others));
    }
    return list;
}

/* What the first two processors used have in common. */
static const char *shared_name(const struct bench *bench)
{
    int other = bench->cpus[bench->n_cpus < 2 ? 0 : 1];

    return umbra_topology_shared_name(
        (enum umbra_shared)umbra_topology_shared(bench->topology, bench->cpus[0], other));
}

/* The gaps between polls that shadows and runtimes of this run have measured. */
static json_t *measured_gaps(void)
{
    json_t *list = json_array();

    for (unsigned pair = 0; pair < UMBRA_PAIRS; pair++)
        for (uint32_t place = 0; place < UMBRA_POLL_PLACES; place++)
            if (um_pair_known((enum umbra_poll_pair)pair, place))
                json_array_append_new(list,
                                      json_pack("{s:s, s:s, s:s}", "pair",
                                                um_pair_name((enum umbra_poll_pair)pair), "place",
                                                um_place_name(place), "gap",
                                                um_gap_name(um_machine.pair[pair][place].gap)));
    return list;
}

json_t *bench_machine(const struct bench *bench)
{
    struct utsname names;
    char kernel[sizeof names.sysname + sizeof names.release + sizeof names.machine];

    uname(&names);
    snprintf(kernel, sizeof kernel, "%s %s %s", names.sysname, names.release, names.machine);
    return json_pack(
        "{s:s, s:o, s:o, s:s, s:s, s:s, s:s, s:I, s:s, s:o, s:s, s:b, s:i, s:I, s:I, s:i}", "bench",
        "machine", "processor", processor_name(&names), "cpus", used_cpus(bench), "shared",
        shared_name(bench), "kernel", kernel, "compiler", COMPILER, "flags", BENCH_FLAGS,
        "cycles_hz", (json_int_t)um_ns_to_cycles(1000000000), "wait_backend", bench->backend,
        "gaps", measured_gaps(), "commit", BENCH_COMMIT, "quick", (int)bench->options.quick,
        "seconds", (int)bench->options.seconds, "run_ms", (json_int_t)(bench->run_ns / 1000000u),
        "stolen_ms", (json_int_t)bench->stolen_ms, "quota",
        (int)umbra_topology_info(bench->topology)->quota);
}
