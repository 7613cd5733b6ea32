/* SPDX-License-Identifier: BSL-1.0 */
/* bench/parts/energy.h, on a folder that looks like /sys. */
#define _GNU_SOURCE
#include <runner.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <energy.h>

/* A new folder, removed by remove_folder. */
struct folder {
    char path[64];
};

static void make_folder(struct folder *folder)
{
    snprintf(folder->path, sizeof folder->path, "/tmp/test_energy_XXXXXX");
    cr_assert_not_null(mkdtemp(folder->path));
}

static void remove_folder(const struct folder *folder)
{
    char command[128];

    snprintf(command, sizeof command, "rm -r '%s'", folder->path);
    cr_assert_eq(system(command), 0);
}

/* Writes folder/class/path, and makes the folders on the way. */
static void put(const struct folder *folder, const char *path, const char *text)
{
    char whole[PATH_MAX];
    FILE *file;

    snprintf(whole, sizeof whole, "%s/class/%s", folder->path, path);
    for (char *slash = whole + strlen(folder->path); (slash = strchr(slash + 1, '/')) != NULL;) {
        *slash = '\0';
        cr_assert(mkdir(whole, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    file = fopen(whole, "w");
    cr_assert_not_null(file);
    fprintf(file, "%s\n", text);
    fclose(file);
}

static void put_zone(const struct folder *folder, const char *zone, const char *name,
                     const char *micro_joules)
{
    char path[128];

    snprintf(path, sizeof path, "powercap/%s/name", zone);
    put(folder, path, name);
    snprintf(path, sizeof path, "powercap/%s/max_energy_range_uj", zone);
    put(folder, path, "10000000");
    snprintf(path, sizeof path, "powercap/%s/energy_uj", zone);
    put(folder, path, micro_joules);
}

static struct energy_reading read_all(struct energy *energy)
{
    struct energy_reading reading;

    cr_assert_eq(energy_read(energy, &reading), 0);
    return reading;
}

static bool about(double value, double expected)
{
    return value > expected - 1e-6 && value < expected + 1e-6;
}

Test(energy, machine_that_tells_nothing)
{
    struct folder folder;
    struct energy *energy;

    make_folder(&folder);
    energy = energy_open(folder.path);
    cr_assert_not(energy_has_joules(energy));
    cr_assert_not(energy_has_celsius(energy));
    cr_assert(about(read_all(energy).joules, 0));
    energy_close(energy);
    remove_folder(&folder);
}

Test(energy, rapl_sums_packages_and_nothing_that_they_contain)
{
    struct folder folder;
    struct energy *energy;

    make_folder(&folder);
    put_zone(&folder, "intel-rapl:0", "package-0", "1000000");
    put_zone(&folder, "intel-rapl:0:0", "core", "500000");
    put_zone(&folder, "intel-rapl:1", "package-1", "2000000");
    put_zone(&folder, "intel-rapl:2", "psys", "3000000");
    put_zone(&folder, "intel-rapl-mmio:0", "package-0", "1000000");
    energy = energy_open(folder.path);
    cr_assert(energy_has_joules(energy));
    cr_assert_not(energy_has_celsius(energy));
    cr_assert(about(read_all(energy).joules, 0), "counted from the start");
    put_zone(&folder, "intel-rapl:0", "package-0", "1500000");
    put_zone(&folder, "intel-rapl:0:0", "core", "900000");
    put_zone(&folder, "intel-rapl:1", "package-1", "2250000");
    put_zone(&folder, "intel-rapl:2", "psys", "9000000");
    put_zone(&folder, "intel-rapl-mmio:0", "package-0", "1500000");
    cr_assert(about(read_all(energy).joules, 0.75));
    energy_close(energy);
    remove_folder(&folder);
}

Test(energy, counter_that_runs_around_goes_on)
{
    struct folder folder;
    struct energy *energy;

    make_folder(&folder);
    put_zone(&folder, "intel-rapl:0", "package-0", "9000000");
    energy = energy_open(folder.path);
    put_zone(&folder, "intel-rapl:0", "package-0", "500000");
    cr_assert(about(read_all(energy).joules, 1.5));
    put_zone(&folder, "intel-rapl:0", "package-0", "700000");
    cr_assert(about(read_all(energy).joules, 1.7));
    energy_close(energy);
    remove_folder(&folder);
}

Test(energy, meter_that_cannot_be_read_is_none)
{
    struct folder folder;
    struct energy *energy;

    make_folder(&folder);
    put_zone(&folder, "intel-rapl:0", "package-0", "");
    energy = energy_open(folder.path);
    cr_assert_not(energy_has_joules(energy));
    energy_close(energy);
    remove_folder(&folder);
}

Test(energy, hwmon_has_sockets_and_the_mean_of_the_cores)
{
    struct folder folder;
    struct energy *energy;

    make_folder(&folder);
    put(&folder, "hwmon/hwmon0/name", "amd_energy");
    put(&folder, "hwmon/hwmon0/energy1_label", "Ecore000");
    put(&folder, "hwmon/hwmon0/energy1_input", "7");
    put(&folder, "hwmon/hwmon0/energy2_label", "Esocket0");
    put(&folder, "hwmon/hwmon0/energy2_input", "1000000");
    put(&folder, "hwmon/hwmon1/name", "coretemp");
    put(&folder, "hwmon/hwmon1/temp1_label", "Package id 0");
    put(&folder, "hwmon/hwmon1/temp1_input", "90000");
    put(&folder, "hwmon/hwmon1/temp2_label", "Core 0");
    put(&folder, "hwmon/hwmon1/temp2_input", "50000");
    put(&folder, "hwmon/hwmon1/temp3_label", "Core 1");
    put(&folder, "hwmon/hwmon1/temp3_input", "60500");
    put(&folder, "hwmon/hwmon2/name", "nvme");
    put(&folder, "hwmon/hwmon2/temp1_input", "35000");
    energy = energy_open(folder.path);
    cr_assert(energy_has_joules(energy));
    cr_assert(energy_has_celsius(energy));
    put(&folder, "hwmon/hwmon0/energy1_input", "999");
    put(&folder, "hwmon/hwmon0/energy2_input", "3500000");
    cr_assert(about(read_all(energy).joules, 2.5));
    cr_assert(about(read_all(energy).celsius, 55.25));
    energy_close(energy);
    remove_folder(&folder);
}

Test(energy, sensor_without_a_label)
{
    struct folder folder;
    struct energy *energy;

    make_folder(&folder);
    put(&folder, "hwmon/hwmon0/name", "cpu_thermal");
    put(&folder, "hwmon/hwmon0/temp1_input", "48300");
    energy = energy_open(folder.path);
    cr_assert(about(read_all(energy).celsius, 48.3));
    energy_close(energy);
    remove_folder(&folder);
}

Test(energy, meter_that_goes_away_is_an_error_and_changes_nothing)
{
    struct energy_reading reading = {.joules = 42};
    struct folder folder;
    struct energy *energy;

    make_folder(&folder);
    put_zone(&folder, "intel-rapl:0", "package-0", "1");
    energy = energy_open(folder.path);
    remove_folder(&folder);
    cr_assert_eq(energy_read(energy, &reading), -ENOENT);
    cr_assert(about(reading.joules, 42));
    energy_close(energy);
}
