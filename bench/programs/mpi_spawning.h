/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How a benchmark starts an MPI program whose main spawns others: by the mpiexec of an MPICH that can
 * spawn (tools/setup installs one), with Umbra's library or without.
 */
#ifndef UMBRA_BENCH_MPI_SPAWNING_H
#define UMBRA_BENCH_MPI_SPAWNING_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MPI_SPAWNING_WORDS 16

/* What is not there, or NULL. */
static inline const char *mpi_spawning_missing(bool library)
{
    if (access(MPI_SPAWNING_MPICH "/lib/libmpich.so.12", R_OK) != 0)
        return "no MPI that can spawn: tools/setup run installs one";
    if (library && access(MPI_SPAWNING_LIBRARY, R_OK) != 0)
        return "libumbra_mpi.so is not built";
    return NULL;
}

/* Becomes mpiexec, which starts one process of the program: its words, until NULL. Returns if that
 * failed. Nothing that is typed is for the program. The library is preloaded before others. */
static inline void mpi_spawning_exec(char *const *words, bool library)
{
    char *line[MPI_SPAWNING_WORDS + 4] = {(char *)MPI_SPAWNING_MPICH "/bin/mpiexec", (char *)"-n",
                                          (char *)"1"};
    const char *others = getenv("LD_PRELOAD");
    int null = open("/dev/null", O_RDWR), at = 3;
    char preload[4096];

    for (; *words && at < MPI_SPAWNING_WORDS + 3; words++)
        line[at++] = *words;
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    setenv("LD_LIBRARY_PATH", MPI_SPAWNING_MPICH "/lib:" MPI_SPAWNING_MPICH "/lib/mpich", 1);
    if (library) {
        snprintf(preload, sizeof preload, "%s:%s", MPI_SPAWNING_LIBRARY, others ? others : "");
        setenv("LD_PRELOAD", preload, 1);
    }
    execv(line[0], line);
}

#endif
