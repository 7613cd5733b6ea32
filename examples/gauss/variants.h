/* SPDX-License-Identifier: BSL-1.0 */
/* The ways to eliminate, on the same rows and with the same arithmetic (rows.h). */
#ifndef GAUSS_VARIANTS_H
#define GAUSS_VARIANTS_H

#include "system.h"

#include <stdbool.h>

struct umbra_runtime;
struct umbra_team;

/* What mu1k and mu2k have here beside their paper; each can be left out, to see what it brings. */
enum mu_addition {
    MU_HELP = 1,  /* mu1k: a core that would wait applies pivots to groups of others */
    MU_RUNS = 2,  /* consecutive rows on a core, in every second round in the other direction */
    MU_TURNS = 4, /* mu2k: rows, and fibers, come back and forth */
    MU_FETCH = 8, /* mu2k: the next fiber's lines are fetched ahead */
};

struct setting {
    size_t processors;             /* to use */
    size_t sides;                  /* threads or fibers */
    size_t group_rows;             /* consecutive rows that go to one of them together */
    size_t block;                  /* columns of a panel (blocks.h); 0: the default */
    struct umbra_runtime *runtime; /* with so many cores, or NULL: fibers make one each time */
    struct umbra_team *team;       /* with so many members, or NULL: likewise */
    unsigned without;              /* additions, of enum mu_addition */
    bool pivoting; /* partial: the largest of what is left of a column becomes its pivot */
};

/*
 * Takes a system to an upper triangle, its multipliers below. 0 or a negative errno. A zero that
 * remains on the diagonal gives what rows_singular() finds.
 */
typedef int eliminate_fn(const struct system *system, const struct setting *setting);

eliminate_fn eliminate_serial; /* one row after the other, one pivot at a time */
eliminate_fn eliminate_openmp; /* the same; each pivot's rows are shared out, with a barrier */
eliminate_fn eliminate_team;   /* the same, by a team */

/*
 * These settle in advance who makes which row a pivot, and so cannot choose pivots.
 *
 * mu1: an event for each pivot. Who has finished a row signals it; who needs a pivot waits for it,
 * and applies as many as are there. mu2: nobody begins with a pivot before all are through with the
 * one before. (Karasik and Prihozhy 2020, after Howe and Bratcher 1998.)
 */
eliminate_fn eliminate_mu1; /* threads, and the operating system's events */
eliminate_fn eliminate_mu2;
eliminate_fn eliminate_mu1k; /* fibers: transfer on a core, events between cores */
eliminate_fn eliminate_mu2k;
eliminate_fn eliminate_mu1k_pure; /* as their paper has them */
eliminate_fn eliminate_mu2k_pure;

/* By blocks of columns, with products of matrices (blocks.h): how one would do it in practice. */
eliminate_fn eliminate_openmp_blocked; /* a barrier a panel */
eliminate_fn eliminate_blocked;        /* fibers, without barriers */

/* Goes on to the answer, which takes the right-hand side's place. -EDOM: singular. */
eliminate_fn eliminate_dgesv;

#endif
