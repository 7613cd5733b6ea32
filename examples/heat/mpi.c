/* SPDX-License-Identifier: BSL-1.0 */
/* Runs heat-mpi, which stands beside this program, under mpiexec. */
#define _GNU_SOURCE
#include "variants.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The last line; those before it are moments, if they were asked for. */
static bool read_results(FILE *out, struct setting *setting)
{
    unsigned moment;

    while (fscanf(out, " moment %u", &moment) == 1 && moment < MOMENTS)
        setting_at(setting, (enum moment)moment);
    return fscanf(out, "%lf %lf %zu", &setting->ms, &setting->error, &setting->bytes) == 3;
}

int spread_mpi(struct body *body, struct setting *setting)
{
    char self[PATH_MAX], command[2 * PATH_MAX];
    size_t planes = body->nodes[Z];
    size_t ranks = setting->processors < planes ? setting->processors : planes;
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    bool got;
    FILE *out;

    if (length < 0)
        return -errno;
    self[length] = '\0';
    snprintf(command, sizeof(command), "exec %s -n %zu '%s/heat-mpi' %zux%zux%zu %zu%s",
             HEAT_MPIEXEC, ranks, dirname(self), body->nodes[X], body->nodes[Y], planes,
             setting->steps, setting->at ? " moments" : "");
    out = popen(command, "r");
    if (!out)
        return -errno;
    got = read_results(out, setting);
    return pclose(out) != 0 || !got ? -ECHILD : 0;
}
