/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The environment's variables, read once. A value that is none is told in a line, and the default
 * counts, as in libgomp. Words may be in capitals; blanks around values are allowed.
 *
 * Places. A place is a processor here: of OMP_PLACES=cores the first one of each core, of a place
 * that is a set the first of the set. What a list of places means is kept as a list of processors,
 * in which regions put their members in turn; close, spread and master are all that.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <umbra/base/environment.h>
#include <umbra/os/run_once.h>

#include "api.h"
#include "library.h"

#define STACK_LEAST 16384

struct um_omp_settings um_omp_settings;

static char **texts;   /* the environment's, if the library's constructor came first */
static cpu_set_t cpus; /* that the process might use when it began */
static int displays;   /* OMP_DISPLAY_ENV; 2: verbose */

/* ---- pieces of a value ---- */

static const char *skip(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

/* Reads a word where *text begins. False: there is another. */
static bool word_read(const char **text, const char *word)
{
    size_t length = strlen(word);
    const char *at = skip(*text);

    if (strncasecmp(at, word, length) != 0 || isalnum((unsigned char)at[length]) ||
        at[length] == '_')
        return false;
    *text = skip(at + length);
    return true;
}

static bool number_read(const char **text, uint64_t most, uint64_t *value)
{
    const char *at = skip(*text);

    if (!um_number_read(&at, most, value))
        return false;
    *text = skip(at);
    return true;
}

/* A value that is a number from least to INT32_MAX. */
static bool int_read(const char *text, uint64_t least, int *value)
{
    uint64_t number;

    if (!number_read(&text, INT32_MAX, &number) || *text || number < least)
        return false;
    *value = (int)number;
    return true;
}

static bool bool_read(const char *text, bool *value)
{
    bool is = word_read(&text, "true");

    if (!is && !word_read(&text, "false"))
        return false;
    if (!*text)
        *value = is;
    return !*text;
}

/* ---- variables ---- */

static bool read_threads(const char *text)
{
    struct um_omp_settings *set = &um_omp_settings;
    int threads[UM_OMP_LIST];
    unsigned count = 0;
    uint64_t number;

    do {
        if (!number_read(&text, INT32_MAX, &number) || number == 0)
            return false;
        if (count < UM_OMP_LIST)
            threads[count++] = (int)number;
    } while (*text++ == ',');
    if (text[-1])
        return false;
    memcpy(set->threads, threads, sizeof(threads));
    set->thread_levels = count;
    set->icv.threads = threads[0];
    set->icv.levels = count > 1 ? UM_OMP_LEVELS : set->icv.levels;
    return true;
}

static bool read_limit(const char *text)
{
    return int_read(text, 1, &um_omp_settings.icv.limit);
}

static bool read_dynamic(const char *text)
{
    return bool_read(text, &um_omp_settings.icv.dynamic);
}

static bool read_nested(const char *text)
{
    bool nested;

    if (!bool_read(text, &nested))
        return false;
    um_omp_settings.icv.levels = nested ? UM_OMP_LEVELS : 1;
    return true;
}

static bool read_levels(const char *text)
{
    int levels;

    if (!int_read(text, 0, &levels))
        return false;
    um_omp_settings.icv.levels = (uint8_t)(levels < UM_OMP_LEVELS ? levels : UM_OMP_LEVELS);
    return true;
}

static bool read_schedule(const char *text)
{
    static const char *const kinds[] = {"static", "dynamic", "guided", "auto"};
    struct um_omp_icv *icv = &um_omp_settings.icv;
    bool other = word_read(&text, "nonmonotonic"),
         monotonic = !other && word_read(&text, "monotonic");
    uint64_t chunk = 0;
    unsigned kind = 0;

    if ((other || monotonic) && *text++ != ':')
        return false;
    while (kind < 4 && !word_read(&text, kinds[kind]))
        kind++;
    if (kind == 4 || (*text == ',' && (text++, !number_read(&text, INT32_MAX, &chunk))) || *text)
        return false;
    icv->schedule = kind + 1;
    icv->chunk = chunk > 0 || icv->schedule == UM_OMP_STATIC ? (int)chunk : 1;
    if (monotonic || (!other && icv->schedule == UM_OMP_STATIC))
        icv->schedule |= UM_OMP_MONOTONIC;
    return true;
}

static bool read_stack(const char *text)
{
    static const char units[] = "bkmg";
    uint64_t bytes;
    unsigned shift = 10;
    const char *unit;

    if (!number_read(&text, UINT64_MAX >> 30, &bytes))
        return false;
    if (*text) {
        unit = strchr(units, tolower((unsigned char)*text));
        if (!unit || *skip(text + 1))
            return false;
        shift = 10 * (unsigned)(unit - units);
    }
    if (bytes << shift < STACK_LEAST)
        return false;
    um_omp_settings.stack_bytes = bytes << shift;
    return true;
}

static bool read_wait(const char *text)
{
    bool active = word_read(&text, "active");

    if ((!active && !word_read(&text, "passive")) || *text)
        return false;
    um_omp_settings.wait = active ? UMBRA_WAIT_SPIN : UMBRA_WAIT_PARK;
    return true;
}

static bool read_bind(const char *text)
{
    static const char *const words[] = {"false", "true", "master", "close", "spread", "primary"};
    struct um_omp_settings *set = &um_omp_settings;
    int bind[UM_OMP_LIST];
    unsigned count = 0;

    do {
        int word = 0;

        while (word < 6 && !word_read(&text, words[word]))
            word++;
        if (word == 6)
            return false;
        if (count < UM_OMP_LIST)
            bind[count++] = word == 5 ? 2 : word;
    } while (*text++ == ',');
    if (text[-1])
        return false;
    memcpy(set->bind, bind, sizeof(bind));
    set->bind_levels = count;
    set->icv.levels = count > 1 ? UM_OMP_LEVELS : set->icv.levels;
    return true;
}

static bool read_teams(const char *text)
{
    return int_read(text, 1, &um_omp_settings.teams);
}

static bool read_teams_limit(const char *text)
{
    return int_read(text, 1, &um_omp_settings.teams_limit);
}

static bool read_priority(const char *text)
{
    return int_read(text, 0, &um_omp_settings.priority);
}

static bool read_device(const char *text)
{
    return int_read(text, 0, &um_omp_settings.icv.device);
}

static bool read_cancel(const char *text)
{
    return bool_read(text, &um_omp_settings.cancel);
}

static bool read_allocator(const char *text)
{
    static const char *const kinds[] = {"default", "large_cap", "const", "high_bw",
                                        "low_lat", "cgroup",    "pteam", "thread"};

    for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        char word[32];

        snprintf(word, sizeof(word), "omp_%s_mem_alloc", kinds[i]);
        if (word_read(&text, word)) {
            if (!*text)
                um_omp_settings.icv.allocator = i + 1;
            return !*text;
        }
    }
    return false;
}

static bool read_format(const char *text)
{
    um_omp_settings.format = text;
    return true;
}

static bool read_display_affinity(const char *text)
{
    return bool_read(text, &um_omp_settings.display_affinity);
}

static bool read_display(const char *text)
{
    bool verbose = word_read(&text, "verbose"), is = verbose;

    if ((!verbose && !bool_read(text, &is)) || (verbose && *text))
        return false;
    displays = verbose ? 2 : is;
    return true;
}

/* ---- places ---- */

static bool place_add(uint64_t cpu)
{
    struct um_omp_settings *set = &um_omp_settings;

    if (set->places == UM_OMP_PLACES)
        return false;
    set->place[set->places++] = (int)cpu;
    return true;
}

/* Reads {a, b ...} or {a:n:s}: only a counts, as the place's first processor. */
static bool set_read(const char **text, uint64_t *cpu)
{
    const char *at = skip(*text), *end;

    if (*at != '{')
        return false;
    at++;
    if (!number_read(&at, UM_OMP_PLACES, cpu))
        return false;
    end = at + strspn(at, "0123456789,: \t");
    if (*end != '}')
        return false;
    *text = skip(end + 1);
    return true;
}

/* Reads a list of places, some of them {..}:n:s, n places s apart. */
static bool places_read(const char *text)
{
    uint64_t cpu, count, stride;

    do {
        count = stride = 1;
        if (!set_read(&text, &cpu))
            return false;
        if (*text == ':' && (text++, !number_read(&text, UM_OMP_PLACES, &count)))
            return false;
        if (*text == ':' && (text++, !number_read(&text, UM_OMP_PLACES, &stride)))
            return false;
        for (uint64_t i = 0; i < count; i++)
            if (!place_add(cpu + i * stride))
                return false;
    } while (*text++ == ',');
    return !text[-1];
}

/* The processors that the process may use, at most so many. */
static void places_all(uint64_t most)
{
    for (int cpu = 0; cpu < CPU_SETSIZE && um_omp_settings.places < most; cpu++)
        if (CPU_ISSET(cpu, &cpus) && !place_add((uint64_t)cpu))
            return;
}

static bool read_places(const char *text)
{
    struct um_omp_settings *set = &um_omp_settings;
    bool threads = word_read(&text, "threads");
    uint64_t most = UM_OMP_PLACES;
    size_t at = 0;

    if (threads || word_read(&text, "cores") || word_read(&text, "sockets")) {
        if (*text == '(' && (text++, !number_read(&text, UM_OMP_PLACES, &most) || *text++ != ')'))
            return false;
        set->siblings = threads;
        if (!*skip(text))
            places_all(most);
        return !*skip(text);
    }
    if (!places_read(text)) {
        set->places = 0;
        return false;
    }
    for (unsigned i = 0; i < set->places && at + 8 < sizeof(set->cpus); i++)
        at += (size_t)snprintf(set->cpus + at, sizeof(set->cpus) - at, "%s%d", at > 0 ? "," : "",
                               set->place[i]);
    return true;
}

/* ---- all ---- */

/* The later one of a kind counts. */
static const struct {
    const char *name;
    bool (*read)(const char *text);
} variables[] = {
    {"OMP_NUM_THREADS", read_threads},
    {"OMP_THREAD_LIMIT", read_limit},
    {"OMP_DYNAMIC", read_dynamic},
    {"OMP_SCHEDULE", read_schedule},
    {"GOMP_STACKSIZE", read_stack},
    {"OMP_STACKSIZE", read_stack},
    {"OMP_WAIT_POLICY", read_wait},
    {"OMP_PROC_BIND", read_bind},
    {"OMP_PLACES", read_places},
    {"OMP_NUM_TEAMS", read_teams},
    {"OMP_TEAMS_THREAD_LIMIT", read_teams_limit},
    {"OMP_MAX_TASK_PRIORITY", read_priority},
    {"OMP_DEFAULT_DEVICE", read_device},
    {"OMP_CANCELLATION", read_cancel},
    {"OMP_ALLOCATOR", read_allocator},
    {"OMP_AFFINITY_FORMAT", read_format},
    {"OMP_NESTED", read_nested},
    {"OMP_MAX_ACTIVE_LEVELS", read_levels},
    {"OMP_DISPLAY_AFFINITY", read_display_affinity},
    {"OMP_DISPLAY_ENV", read_display},
};

/* As getenv(). */
static const char *text_of(const char *name)
{
    size_t length = strlen(name);

    for (char **at = texts ? texts : environ; at && *at; at++)
        if (strncmp(*at, name, length) == 0 && (*at)[length] == '=')
            return *at + length + 1;
    return NULL;
}

static void variables_read(void)
{
    struct um_omp_settings *set = &um_omp_settings;

    set->processors = 1;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
        set->processors = CPU_COUNT(&cpus);
    set->icv = (struct um_omp_icv){.threads = set->processors,
                                   .limit = UM_OMP_NO_LIMIT,
                                   .chunk = 1,
                                   .schedule = UM_OMP_DYNAMIC,
                                   .levels = 1,
                                   .allocator = 1};
    read_format("level %L thread %i affinity %A");
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
        const char *text = text_of(variables[i].name);

        if (text && !variables[i].read(text))
            fprintf(stderr, "umbra_omp: %s=%.100s: no value of it; the default counts\n",
                    variables[i].name, text);
    }
    set->umbra_wait = text_of("UMBRA_WAIT");
    if (set->places > 0 && set->bind_levels == 0) { /* places without a binding mean true */
        set->bind_levels = 1;
        set->bind[0] = 1;
    }
    if (set->bind_levels > 0 && set->bind[0] && set->places == 0)
        places_all(UM_OMP_PLACES);
}

void um_omp_unbind(void)
{
    if (um_omp_settings.bind_levels > 0 && um_omp_settings.bind[0] && CPU_COUNT(&cpus) > 0)
        sched_setaffinity(0, sizeof(cpus), &cpus);
}

void um_omp_settings_read(void)
{
    static struct um_run_once once;

    um_once_in_process(&once, variables_read);
}

/* The library is initialized first (meson.build), before libgomp, which binds the thread, and
 * before the C library, which so has no `environ` yet. In a process that has it from a library of
 * its own constructors that use OpenMP may come first. */
__attribute__((__constructor__)) static void load(int argc, char **argv, char **variables)
{
    (void)argc;
    (void)argv;
    texts = environ ? environ : variables;
    um_cycles_begin();
    um_omp_settings_read();
    if (displays)
        omp_display_env(displays > 1);
}
