/* SPDX-License-Identifier: BSL-1.0 */
/* See energy.h. */
#define _GNU_SOURCE
#include "energy.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MOST 1024 /* sensors of each kind */
#define NAME_BYTES 64
#define EACH_MICRO 1e-6
#define EACH_MILLI 1e-3

/* One file with a number in it. */
struct meter {
    char *path;
    uint64_t last;  /* counters: at the last reading */
    uint64_t range; /* counters: where they begin again; 0: never */
    double joules;  /* counters: since energy_open */
};

struct meters {
    struct meter *meter;
    unsigned count;
};

struct energy {
    struct meters counters;
    struct meters sensors;
};

/* Which files of a hwmon driver are meant: those whose label begins so, or that have none. */
static const struct driver {
    const char *name, *label;
} energy_drivers[] = {{"amd_energy", "Esocket"}},
  warm_drivers[] = {
      {"coretemp", "Core"}, {"k10temp", "Tctl"}, {"zenpower", "Tdie"}, {"cpu_thermal", ""}};

static int read_number(const char *path, uint64_t *out)
{
    FILE *file = fopen(path, "r");
    int error;

    if (file == NULL)
        return -errno;
    error = fscanf(file, "%" SCNu64, out) == 1 ? 0 : -EIO;
    fclose(file);
    return error;
}

/* The file's first word; empty without such a file. */
static void read_word(const char *path, char word[static NAME_BYTES])
{
    FILE *file = fopen(path, "r");

    word[0] = '\0';
    if (file == NULL)
        return;
    if (fscanf(file, "%63s", word) != 1)
        word[0] = '\0';
    fclose(file);
}

/* In place of what the path has from its last `from` on: other text. Whether it fitted. */
static bool sister(char out[static PATH_MAX], const char *path, char from, const char *text)
{
    int length = (int)(strrchr(path, from) - path);

    return snprintf(out, PATH_MAX, "%.*s%s", length, path, text) < PATH_MAX;
}

/* A file that cannot be read is left out. */
static void add_meter(struct meters *meters, const char *path, uint64_t range)
{
    struct meter meter = {.range = range};

    if (meters->count == FILES_MOST || read_number(path, &meter.last) != 0)
        return;
    meter.path = strdup(path);
    if (meter.path != NULL)
        meters->meter[meters->count++] = meter;
}

static void find(const char *sysfs, const char *pattern, struct energy *energy,
                 void (*found)(struct energy *energy, const char *path))
{
    char whole[PATH_MAX];
    glob_t matches;

    if (snprintf(whole, sizeof whole, "%s/class/%s", sysfs, pattern) >= (int)sizeof whole ||
        glob(whole, 0, NULL, &matches) != 0)
        return;
    for (size_t i = 0; i < matches.gl_pathc; i++)
        found(energy, matches.gl_pathv[i]);
    globfree(&matches);
}

/* A zone of RAPL: packages only, which contain the others but for the board's. */
static void found_rapl(struct energy *energy, const char *path)
{
    char other[PATH_MAX], name[NAME_BYTES];
    uint64_t range = 0;

    if (!sister(other, path, '/', "/name"))
        return;
    read_word(other, name);
    if (strncmp(name, "package", strlen("package")) != 0)
        return;
    if (sister(other, path, '/', "/max_energy_range_uj") && read_number(other, &range) == 0)
        add_meter(&energy->counters, path, range);
}

static bool is_meant(const char *path, const struct driver *drivers, size_t count)
{
    char other[PATH_MAX], name[NAME_BYTES], label[NAME_BYTES];

    if (!sister(other, path, '/', "/name"))
        return false;
    read_word(other, name);
    if (!sister(other, path, '_', "_label"))
        return false;
    read_word(other, label);
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, drivers[i].name) == 0)
            return strncmp(label, drivers[i].label, strlen(drivers[i].label)) == 0;
    return false;
}

static void found_energy(struct energy *energy, const char *path)
{
    if (is_meant(path, energy_drivers, sizeof energy_drivers / sizeof energy_drivers[0]))
        add_meter(&energy->counters, path, 0);
}

static void found_sensor(struct energy *energy, const char *path)
{
    if (is_meant(path, warm_drivers, sizeof warm_drivers / sizeof warm_drivers[0]))
        add_meter(&energy->sensors, path, 0);
}

struct energy *energy_open(const char *sysfs)
{
    struct energy *energy = calloc(1, sizeof *energy);

    if (energy == NULL)
        return NULL;
    energy->counters.meter = calloc(FILES_MOST, sizeof(struct meter));
    energy->sensors.meter = calloc(FILES_MOST, sizeof(struct meter));
    if (energy->counters.meter == NULL || energy->sensors.meter == NULL) {
        energy_close(energy);
        return NULL;
    }
    find(sysfs, "powercap/intel-rapl:*/energy_uj", energy, found_rapl);
    if (energy->counters.count == 0)
        find(sysfs, "hwmon/hwmon*/energy*_input", energy, found_energy);
    find(sysfs, "hwmon/hwmon*/temp*_input", energy, found_sensor);
    return energy;
}

static void free_meters(struct meters *meters)
{
    for (unsigned i = 0; i < meters->count; i++)
        free(meters->meter[i].path);
    free(meters->meter);
}

void energy_close(struct energy *energy)
{
    free_meters(&energy->counters);
    free_meters(&energy->sensors);
    free(energy);
}

bool energy_has_joules(const struct energy *energy)
{
    return energy->counters.count > 0;
}

bool energy_has_celsius(const struct energy *energy)
{
    return energy->sensors.count > 0;
}

/* A counter that is behind its last value has run around once. */
static int read_counter(struct meter *meter)
{
    uint64_t now;
    int error = read_number(meter->path, &now);

    if (error != 0)
        return error;
    meter->joules +=
        (double)(now - meter->last + (now < meter->last ? meter->range : 0)) * EACH_MICRO;
    meter->last = now;
    return 0;
}

int energy_read(struct energy *energy, struct energy_reading *out)
{
    struct energy_reading reading = {0};
    int error = 0;

    for (unsigned i = 0; i < energy->counters.count && error == 0; i++) {
        error = read_counter(&energy->counters.meter[i]);
        reading.joules += energy->counters.meter[i].joules;
    }
    for (unsigned i = 0; i < energy->sensors.count && error == 0; i++) {
        uint64_t milli = 0;

        error = read_number(energy->sensors.meter[i].path, &milli);
        reading.celsius += (double)milli * EACH_MILLI / energy->sensors.count;
    }
    if (error == 0)
        *out = reading;
    return error;
}
