/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The energy the processors have used and how warm they are, where the kernel tells: energy by RAPL
 * (class/powercap) or by the hwmon driver amd_energy, temperatures by the hwmon drivers of
 * processors. Virtual machines have neither as a rule, and RAPL is often for root only.
 */
#ifndef UMBRA_BENCH_ENERGY_H
#define UMBRA_BENCH_ENERGY_H

#include <stdbool.h>

struct energy;

struct energy_reading {
    double joules;  /* all processor packages, since energy_open; 0 without such a meter */
    double celsius; /* mean over all sensors; 0 without any */
};

/* sysfs: "/sys", or another folder with the same files. NULL: no memory. */
struct energy *energy_open(const char *sysfs);
void energy_close(struct energy *energy);

/* What there is. */
bool energy_has_joules(const struct energy *energy);
bool energy_has_celsius(const struct energy *energy);

/*
 * Reads all meters. To be called at least once in the time in which a RAPL counter runs around,
 * which is a minute under full load. Returns 0, or a negative errno when a file has gone.
 */
int energy_read(struct energy *energy, struct energy_reading *out);

#endif
