/* SPDX-License-Identifier: BSL-1.0 */
/* The OpenMP side of start, compiled once by gcc (libgomp) and once by clang (libomp). */
#define _GNU_SOURCE
#include "start_child.h"

#include <omp.h>

static unsigned region(const struct child_channel *channel)
{
    unsigned ran = 0;

#pragma omp parallel reduction(+ : ran)
    ran++;
    return omp_pause_resource_all(omp_pause_hard) == 0 && ran == channel->n_cpus;
}

int main(int argc, char **argv)
{
    return start_child(argc, argv, region);
}
