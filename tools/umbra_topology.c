/* SPDX-License-Identifier: BSL-1.0 */
/*
 * umbra-topology: what Umbra sees of the machine. Cores, siblings, shadows, caches and nodes of a
 * machine or of a description of one; then the wait back ends of the processor it runs on, which
 * one was chosen, and why each other was not.
 */
#define _GNU_SOURCE
#include <umbra/core.h>
#include <umbra/shadow.h>
#include <umbra/topology.h>
#include <umbra/wait.h>

#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE 2

struct arguments {
    struct umbra_topology_options source;
    bool json;
};

static const char help[] =
    "Usage: umbra-topology [--synthetic DESCRIPTION | --xml FILE] [--json]\n"
    "\n"
    "Prints the cores, hardware threads, caches and NUMA nodes that this process may\n"
    "use, how many shadows each core can have, where there are big and little cores\n"
    "which is which, and which wait instructions the processor has, which one Umbra\n"
    "chose, and why not the others. Also how many cores a runtime has by default,\n"
    "and the CPU quota of the container, which limits them.\n"
    "\n"
    "  -s, --synthetic DESCRIPTION  a machine that hwloc makes up, such as\n"
    "                               \"pack:2 numa:1 l3:1 core:2 pu:2\"\n"
    "  -x, --xml FILE               a machine that hwloc (lstopo) has exported\n"
    "  -j, --json                   one JSON object instead of tables\n"
    "  -h, --help                   this text\n"
    "\n"
    "The wait instructions are always those of the processor it runs on.\n";

/* ---- tables ---- */

/* A size as people write it: in the largest binary unit that leaves at least three digits, or no
 * fraction. "-" when it is not known. */
static const char *size_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;

    if (bytes == 0)
        return "-";
    while (unit < 4 && (bytes % 1024 == 0 || bytes >= 100 * 1024)) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 32, "%" PRIu64 " %s", bytes, units[unit]);
    return text;
}

/* A cache's number and size, or "-" when there is none. */
static const char *cache_text(int index, uint64_t bytes, char text[48])
{
    char size[32];

    snprintf(text, 48, "#%d %s", index, size_text(bytes, size));
    return index >= 0 ? text : "-";
}

static void print_summary(const struct umbra_topology *t, unsigned cores)
{
    unsigned quota = umbra_topology_info(t)->quota;

    printf("Machine: %s\n", umbra_topology_info(t)->binds
                                ? "this one, as far as this process may use it"
                                : "a description; nothing is bound on it");
    printf("  cores %u, hardware threads %u, L3 caches %u, NUMA nodes %u\n",
           umbra_topology_info(t)->cores, umbra_topology_info(t)->cpus, umbra_topology_info(t)->l3s,
           umbra_topology_info(t)->nodes);
    if (quota != 0)
        printf("  CPU quota: the time of %u processor%s\n", quota, quota == 1 ? "" : "s");
    printf("  cores of a runtime by default: %u\n", cores);
}

/* The first hardware thread from `i` on that belongs to another core. */
static unsigned next_core(const struct umbra_topology *t, unsigned i)
{
    unsigned core = umbra_topology_info(t)->cpu[i].core;

    while (i < umbra_topology_info(t)->cpus && umbra_topology_info(t)->cpu[i].core == core)
        i++;
    return i;
}

/* True if some cores are faster than others. */
static bool kinds_differ(const struct umbra_topology *t)
{
    unsigned last = umbra_topology_info(t)->cpus - 1;

    return umbra_topology_info(t)->cpu[0].kind != umbra_topology_info(t)->cpu[last].kind;
}

static void print_cores(const struct umbra_topology *t)
{
    bool kinds = kinds_differ(t);

    printf("\n  core  %sshadows  %-8s  %-12s  %-12s  node  hardware threads (siblings)\n",
           kinds ? "kind  " : "", "L1", "L2", "L3");
    for (unsigned i = 0; i < umbra_topology_info(t)->cpus; i = next_core(t, i)) {
        const struct umbra_topology_cpu *cpu = &umbra_topology_info(t)->cpu[i];
        char l1[32], l2[48], l3[48];

        printf("  %4u", cpu->core);
        if (kinds)
            printf("  %4d", cpu->kind);
        printf("  %7u  %-8s  %-12s  %-12s  %4d ", next_core(t, i) - i - 1,
               size_text(cpu->l1_bytes, l1), cache_text(cpu->l2, cpu->l2_bytes, l2),
               cache_text(cpu->l3, cpu->l3_bytes, l3), cpu->node);
        for (unsigned j = i; j < next_core(t, i); j++)
            printf(" %d", umbra_topology_info(t)->cpu[j].cpu);
        printf("\n");
    }
    if (kinds)
        printf("  Kind 0 is the fastest. Placement begins with it.\n");
}

/* Whether no hardware thread before the i-th belongs to its node. */
static bool first_of_node(const struct umbra_topology *t, unsigned i)
{
    for (unsigned j = 0; j < i; j++)
        if (umbra_topology_info(t)->cpu[j].node == umbra_topology_info(t)->cpu[i].node)
            return false;
    return umbra_topology_info(t)->cpu[i].node >= 0;
}

static void print_nodes(const struct umbra_topology *t)
{
    printf("\n  node  memory\n");
    for (unsigned i = 0; i < umbra_topology_info(t)->cpus; i++) {
        int node = umbra_topology_info(t)->cpu[i].node;
        char size[32];

        if (first_of_node(t, i))
            printf("  %4d  %s\n", node, size_text(umbra_topology_info(t)->cpu[i].node_bytes, size));
    }
}

/* Where a shadow goes when its core has no second hardware thread. */
static void print_nearest(const struct umbra_topology *t)
{
    int owner = umbra_topology_info(t)->cpu[0].cpu;
    int nearest = umbra_topology_nearest(t, owner, NULL, 0);

    if (nearest < 0)
        printf("\n  No second hardware thread: a shadow would share hardware thread %d.\n", owner);
    else
        printf("\n  Nearest to hardware thread %d: %d, which shares its %s.\n", owner, nearest,
               umbra_topology_shared_name(
                   (enum umbra_shared)umbra_topology_shared(t, owner, nearest)));
}

/* A measured length in cycles, or "-" for none. */
static const char *cycles_text(uint64_t cycles, char text[32])
{
    snprintf(text, 32, "%" PRIu64, cycles);
    return cycles != 0 ? text : "-";
}

static void print_backends(const struct um_wait_report *report, const char *forced)
{
    const char *chosen = report->backend[report->chosen].name;

    if (forced != NULL)
        printf("\nWaiting: %s, forced by UMBRA_WAIT (measurement chose %s)\n", forced, chosen);
    else
        printf("\nWaiting: %s, chosen by measurement\n", chosen);
    printf("  time stamp %.3f GHz; expired: cycles of a wait that is over before it starts; idle: "
           "of an 8 us wait\n\n",
           (double)um_ns_to_cycles(1000000000) / 1e9);
    printf("  %-10s  %-9s  %-8s  %8s  %8s  why\n", "back end", "announced", "executes", "expired",
           "idle");
    for (unsigned i = 0; i < UMBRA_BACKEND_COUNT; i++) {
        const struct umbra_backend_report *b = &report->backend[i];
        char expired[32], idle[32];

        printf("%c %-10s  %-9s  %-8s  %8s  %8s  %s%s\n", i == (unsigned)report->chosen ? '*' : ' ',
               b->name, b->announced ? "yes" : "no", b->executes ? "yes" : "no",
               cycles_text(b->expired_cycles, expired), cycles_text(b->idle_cycles, idle),
               b->reason, i == (unsigned)report->chosen ? " (chosen)" : "");
    }
}

/* Starts what measures the gaps between polls: a shadow, and a runtime on all cores. */
static void measure_gaps(void)
{
    struct umbra_shadow shadow;
    struct umbra_runtime *runtime;

    if (shadow_create(&shadow, NULL) == 0)
        shadow_destroy(&shadow);
    if (umbra_runtime_create(NULL, &runtime) == 0)
        umbra_runtime_destroy(runtime);
}

/* What is told of a place, between two processors of a kind. */
typedef void tell_fn(enum umbra_poll_pair pair, uint32_t place, const struct um_pair *known,
                     void *arg);

/* Calls fn for each place that was measured. Returns how many there are. */
static unsigned each_gap(tell_fn *fn, void *arg)
{
    unsigned count = 0;

    for (unsigned pair = 0; pair < UMBRA_PAIRS; pair++)
        for (uint32_t place = 0; place < UMBRA_POLL_PLACES; place++)
            if (um_pair_known((enum umbra_poll_pair)pair, place)) {
                fn((enum umbra_poll_pair)pair, place, &um_machine.pair[pair][place], arg);
                count++;
            }
    return count;
}

/* Median of a hand-over there and back with a gap. */
static double gap_ns(const struct um_pair *known, uint32_t gap)
{
    return (double)known->figures.of[gap] / 16 * 1e9 / (double)um_ns_to_cycles(1000000000);
}

static void print_gap(enum umbra_poll_pair pair, uint32_t place, const struct um_pair *known,
                      void *unused)
{
    (void)unused;
    printf("  %-5s  %-6s  %-12s  %-6s ", um_pair_name(pair), um_place_name(place),
           um_gap_name(known->gap), um_gap_name(UMBRA_GAP_USUAL));
    for (uint32_t gap = 0; gap < UM_GAPS; gap++)
        if (um_gap_name(gap) != NULL)
            printf(" %s %.0f", um_gap_name(gap), gap_ns(known, gap));
    printf("\n");
}

static void print_gaps(void)
{
    printf("\nGaps between two polls, by what the two processors share\n\n");
    printf("  %-5s  %-6s  %-12s  %-6s  %s\n", "share", "place", "chosen", "usual",
           "measured: ns there and back");
    if (each_gap(print_gap, NULL) == 0)
        printf("  none: no two cores, a machine that is too busy, or UMBRA_WAIT forces them\n");
}

static void print_tables(const struct umbra_topology *t, unsigned cores, const char *forced)
{
    print_summary(t, cores);
    print_cores(t);
    print_nodes(t);
    print_nearest(t);
    print_backends(um_wait_report(), forced);
    if (umbra_topology_info(t)->binds)
        print_gaps();
}

/* ---- JSON ---- */

/* A new reference to a number, null when it is negative, that is, not known. */
static json_t *json_known(int number)
{
    return number >= 0 ? json_integer(number) : json_null();
}

static json_t *json_siblings(const struct umbra_topology *t, unsigned core)
{
    json_t *cpus = json_array();

    for (unsigned i = 0; i < umbra_topology_info(t)->cpus; i++)
        if (umbra_topology_info(t)->cpu[i].core == core)
            json_array_append_new(cpus, json_integer(umbra_topology_info(t)->cpu[i].cpu));
    return cpus;
}

static json_t *json_cores(const struct umbra_topology *t)
{
    json_t *cores = json_array();

    for (unsigned i = 0; i < umbra_topology_info(t)->cpus; i = next_core(t, i)) {
        const struct umbra_topology_cpu *cpu = &umbra_topology_info(t)->cpu[i];
        json_t *core = json_object();

        json_object_set_new(core, "core", json_integer(cpu->core));
        json_object_set_new(core, "cpus", json_siblings(t, cpu->core));
        json_object_set_new(core, "shadows", json_integer(next_core(t, i) - i - 1));
        if (kinds_differ(t))
            json_object_set_new(core, "kind", json_integer(cpu->kind));
        json_object_set_new(core, "l2", json_known(cpu->l2));
        json_object_set_new(core, "l3", json_known(cpu->l3));
        json_object_set_new(core, "node", json_known(cpu->node));
        json_object_set_new(core, "l1_bytes", json_integer((json_int_t)cpu->l1_bytes));
        json_object_set_new(core, "l2_bytes", json_integer((json_int_t)cpu->l2_bytes));
        json_object_set_new(core, "l3_bytes", json_integer((json_int_t)cpu->l3_bytes));
        json_array_append_new(cores, core);
    }
    return cores;
}

static json_t *json_nodes(const struct umbra_topology *t)
{
    json_t *nodes = json_array();

    for (unsigned i = 0; i < umbra_topology_info(t)->cpus; i++) {
        int index = umbra_topology_info(t)->cpu[i].node;
        json_t *node;

        if (!first_of_node(t, i))
            continue;
        node = json_object();
        json_object_set_new(node, "node", json_integer(index));
        json_object_set_new(node, "bytes",
                            json_integer((json_int_t)umbra_topology_info(t)->cpu[i].node_bytes));
        json_array_append_new(nodes, node);
    }
    return nodes;
}

static json_t *json_wait(const struct um_wait_report *report, const char *forced)
{
    json_t *wait = json_object();
    json_t *backends = json_array();

    json_object_set_new(wait, "chosen", json_string(report->backend[report->chosen].name));
    json_object_set_new(wait, "forced", forced != NULL ? json_string(forced) : json_null());
    json_object_set_new(wait, "cycles_hz", json_integer((json_int_t)um_ns_to_cycles(1000000000)));
    for (unsigned i = 0; i < UMBRA_BACKEND_COUNT; i++) {
        const struct umbra_backend_report *b = &report->backend[i];
        json_t *backend = json_object();

        json_object_set_new(backend, "name", json_string(b->name));
        json_object_set_new(backend, "chosen", json_boolean(i == (unsigned)report->chosen));
        json_object_set_new(backend, "usable", json_boolean(b->verdict == UMBRA_BACKEND_USABLE));
        json_object_set_new(backend, "compiled", json_boolean(b->compiled));
        json_object_set_new(backend, "announced", json_boolean(b->announced));
        json_object_set_new(backend, "executes", json_boolean(b->executes));
        json_object_set_new(backend, "expired_cycles", json_integer((json_int_t)b->expired_cycles));
        json_object_set_new(backend, "idle_cycles", json_integer((json_int_t)b->idle_cycles));
        json_object_set_new(backend, "reason", json_string(b->reason));
        json_array_append_new(backends, backend);
    }
    json_object_set_new(wait, "backends", backends);
    return wait;
}

static void json_gap(enum umbra_poll_pair pair, uint32_t place, const struct um_pair *known,
                     void *gaps)
{
    json_t *entry = json_object();
    json_t *ns = json_object();

    json_object_set_new(entry, "pair", json_string(um_pair_name(pair)));
    json_object_set_new(entry, "place", json_string(um_place_name(place)));
    json_object_set_new(entry, "gap", json_string(um_gap_name(known->gap)));
    json_object_set_new(entry, "usual", json_string(um_gap_name(UMBRA_GAP_USUAL)));
    for (uint32_t gap = 0; gap < UM_GAPS; gap++)
        if (um_gap_name(gap) != NULL)
            json_object_set_new(ns, um_gap_name(gap), json_real(gap_ns(known, gap)));
    json_object_set_new(entry, "ns", ns);
    json_array_append_new(gaps, entry);
}

/* Returns whether it was written; out of memory shows as an object that cannot be. */
static bool print_json(const struct umbra_topology *t, unsigned cores, const char *forced)
{
    json_t *root = json_object();
    json_t *gaps = json_array();
    bool written;

    json_object_set_new(root, "described", json_boolean(!umbra_topology_info(t)->binds));
    json_object_set_new(root, "cores", json_cores(t));
    json_object_set_new(root, "nodes", json_nodes(t));
    json_object_set_new(root, "l3s", json_integer(umbra_topology_info(t)->l3s));
    json_object_set_new(root, "quota", json_integer(umbra_topology_info(t)->quota));
    json_object_set_new(root, "default_cores", json_integer(cores));
    json_object_set_new(root, "wait", json_wait(um_wait_report(), forced));
    if (umbra_topology_info(t)->binds)
        each_gap(json_gap, gaps);
    json_object_set_new(root, "gaps", gaps);
    written = json_object_size(root) == 8 && json_dumpf(root, stdout, JSON_COMPACT) == 0;
    json_decref(root);
    printf("\n");
    return written;
}

/* ---- command line ---- */

/* Reads the arguments; leaves the program when they ask for help or make no sense. */
static struct arguments read_arguments(int argc, char **argv)
{
    static const struct option options[] = {{"synthetic", required_argument, NULL, 's'},
                                            {"xml", required_argument, NULL, 'x'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct arguments arguments = {{NULL, NULL}, false};
    int option;

    while ((option = getopt_long(argc, argv, "s:x:jh", options, NULL)) != -1) {
        if (option == 's')
            arguments.source.synthetic = optarg;
        else if (option == 'x')
            arguments.source.xml = optarg;
        else if (option == 'j')
            arguments.json = true;
        else if (option == 'h')
            exit(fputs(help, stdout) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
        else
            exit(EXIT_USAGE); /* getopt_long has named it */
    }
    if (optind < argc) {
        fprintf(stderr, "umbra-topology: unexpected argument '%s'\n", argv[optind]);
        exit(EXIT_USAGE);
    }
    if (arguments.source.synthetic != NULL && arguments.source.xml != NULL) {
        fprintf(stderr, "umbra-topology: --synthetic '%s' and --xml '%s' exclude each other\n",
                arguments.source.synthetic, arguments.source.xml);
        exit(EXIT_USAGE);
    }
    return arguments;
}

/* Says why there is no topology; returns the exit status. */
static int refuse(const struct umbra_topology_options *source, int error)
{
    if (source->synthetic != NULL)
        fprintf(stderr, "umbra-topology: cannot make the machine '%s': %s\n", source->synthetic,
                strerror(-error));
    else if (source->xml != NULL)
        fprintf(stderr, "umbra-topology: cannot read the machine in '%s': %s\n", source->xml,
                strerror(-error));
    else
        fprintf(stderr, "umbra-topology: cannot read this machine: %s\n", umbra_last_error_text());
    return source->synthetic != NULL || source->xml != NULL ? EXIT_USAGE : EXIT_FAILURE;
}

/* What UMBRA_WAIT forces, NULL: nothing. Leaves the program when it names what there is not. */
static const char *forced_backend(void)
{
    /* Any block_cycles will do; without one it would be measured. */
    struct umbra_wait_options options = {.block_cycles = 1};
    const char *forced = getenv("UMBRA_WAIT");
    struct umbra_wait_policy policy;
    int error = umbra_wait_policy_init(&policy, &options);

    if (error == 0)
        return forced != NULL && *forced != '\0' && strcmp(forced, "auto") != 0 ? forced : NULL;
    fprintf(stderr, "umbra-topology: %s\n", umbra_last_error_text());
    exit(EXIT_USAGE);
}

/* How many cores a runtime has by default. Leaves the program where UMBRA_CORES is no number. */
static unsigned default_cores(const struct umbra_topology *t)
{
    unsigned cores;

    if (um_topology_usual(t, umbra_topology_info(t)->cores, UM_CORES_MOST, &cores) != 0) {
        fprintf(stderr, "umbra-topology: %s\n", umbra_last_error_text());
        exit(EXIT_USAGE);
    }
    return cores;
}

int main(int argc, char **argv)
{
    struct arguments arguments = read_arguments(argc, argv);
    const char *forced = forced_backend();
    struct umbra_topology *topology;
    bool written = true;
    unsigned cores;
    int error = umbra_topology_create(&arguments.source, &topology);

    if (error != 0)
        return refuse(&arguments.source, error);
    cores = default_cores(topology);
    if (umbra_topology_info(topology)->binds)
        measure_gaps();
    if (arguments.json)
        written = print_json(topology, cores, forced);
    else
        print_tables(topology, cores, forced);
    umbra_topology_destroy(topology);
    if (fflush(stdout) != 0 || ferror(stdout) || !written) {
        fprintf(stderr, "umbra-topology: cannot write the output\n");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
