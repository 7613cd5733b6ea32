/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What OMP_DISPLAY_ENV and omp_display_env() show: the settings, as libgomp shows its own, with
 * [host] before each, as OpenMP 5.2 has it. Values are those that count here.
 */
#include <stdio.h>

#include "api.h"
#include "library.h"

static void line(const char *name, const char *value)
{
    fprintf(stderr, "  [host] %s = '%s'\n", name, value);
}

static void line_number(const char *name, uint64_t value)
{
    fprintf(stderr, "  [host] %s = '%llu'\n", name, (unsigned long long)value);
}

static void line_bool(const char *name, bool value)
{
    line(name, value ? "TRUE" : "FALSE");
}

/* Appends to a list in a text of some room. */
static void append(char *text, size_t room, size_t *at, const char *format, const char *value)
{
    if (*at < room)
        *at += (size_t)snprintf(text + *at, room - *at, format, *at > 0 ? "," : "", value);
}

static void threads(const struct um_omp_settings *set)
{
    char text[UM_OMP_LIST * 12], number[12];
    size_t at = 0;

    snprintf(text, sizeof(text), "%d", set->icv.threads);
    for (unsigned i = 0; i < set->thread_levels; i++) {
        snprintf(number, sizeof(number), "%d", set->threads[i]);
        append(text, sizeof(text), &at, "%s%s", number);
    }
    line("OMP_NUM_THREADS", text);
}

/* Dynamic ones are nonmonotonic, static ones monotonic, unless it is said. */
static void schedule(const struct um_omp_icv *icv)
{
    static const char *const kinds[] = {"", "STATIC", "DYNAMIC", "GUIDED", "AUTO"};
    unsigned kind = icv->schedule & ~UM_OMP_MONOTONIC;
    bool monotonic = icv->schedule & UM_OMP_MONOTONIC, fixed = kind == UM_OMP_STATIC;
    const char *modifier = monotonic ? "MONOTONIC:" : "NONMONOTONIC:";
    char chunk[16] = "";

    if (icv->chunk > (fixed ? 0 : 1))
        snprintf(chunk, sizeof(chunk), ",%d", icv->chunk);
    fprintf(stderr, "  [host] OMP_SCHEDULE = '%s%s%s'\n", monotonic != fixed ? modifier : "",
            kinds[kind], chunk);
}

static void places(const struct um_omp_settings *set)
{
    static const char *const words[] = {"FALSE", "TRUE", "MASTER", "CLOSE", "SPREAD"};
    char bind[UM_OMP_LIST * 8] = "FALSE", list[UM_OMP_PLACES * 8] = "", number[12];
    size_t at = 0;

    for (unsigned i = 0; i < set->bind_levels; i++)
        append(bind, sizeof(bind), &at, "%s%s", words[set->bind[i]]);
    line("OMP_PROC_BIND", bind);
    at = 0;
    for (unsigned i = 0; i < set->places; i++) {
        snprintf(number, sizeof(number), "%d", set->place[i]);
        append(list, sizeof(list), &at, "%s{%s}", number);
    }
    line("OMP_PLACES", list);
}

static void verbosely(const struct um_omp_settings *set)
{
    line_number("GOMP_STACKSIZE", set->stack_bytes);
    line("UMBRA_WAIT", set->umbra_wait ? set->umbra_wait : "");
}

void omp_display_env(int verbose)
{
    const struct um_omp_settings *set = &um_omp_settings;
    const struct um_omp_icv *icv = &set->icv;

    um_omp_settings_read();
    flockfile(stderr);
    fprintf(stderr, "\nOPENMP DISPLAY ENVIRONMENT BEGIN\n  _OPENMP = '201511'\n");
    line_bool("OMP_DYNAMIC", icv->dynamic);
    line_bool("OMP_NESTED", icv->levels > 1);
    threads(set);
    schedule(icv);
    places(set);
    line_number("OMP_STACKSIZE", set->stack_bytes);
    line("OMP_WAIT_POLICY", set->wait == UMBRA_WAIT_SPIN ? "ACTIVE" : "PASSIVE");
    line_number("OMP_THREAD_LIMIT",
                icv->limit == UM_OMP_NO_LIMIT ? UINT32_MAX : (uint64_t)icv->limit);
    line_number("OMP_MAX_ACTIVE_LEVELS", icv->levels);
    line_number("OMP_NUM_TEAMS", (uint64_t)set->teams);
    line_number("OMP_TEAMS_THREAD_LIMIT", (uint64_t)set->teams_limit);
    line_bool("OMP_CANCELLATION", omp_get_cancellation());
    line_number("OMP_DEFAULT_DEVICE", (uint64_t)icv->device);
    line_number("OMP_MAX_TASK_PRIORITY", (uint64_t)set->priority);
    line_bool("OMP_DISPLAY_AFFINITY", set->display_affinity);
    line("OMP_AFFINITY_FORMAT", set->format);
    line("OMP_ALLOCATOR", "omp_default_mem_alloc");
    line("OMP_TARGET_OFFLOAD", "DISABLED");
    if (verbose)
        verbosely(set);
    fprintf(stderr, "OPENMP DISPLAY ENVIRONMENT END\n");
    funlockfile(stderr);
}
