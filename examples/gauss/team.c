/* SPDX-License-Identifier: BSL-1.0 */
/* The same rows for each thread at each pivot as in openmp.c, by a team and its barriers. */
#include "rows.h"
#include "variants.h"

#include <errno.h>
#include <stdlib.h>

#include <umbra/team.h>

#define LINE 128

/* The largest element of the next column in a member's rows. */
struct offer {
    _Alignas(LINE) struct pivot best;
};

struct job {
    const struct system *system;
    struct umbra_team *team;
    struct offer *offer; /* of each member, or NULL: no pivots are chosen */
    struct pivot pivot;  /* of the column that is next; member 0 writes between barriers */
};

/* The rows below k are divided as evenly as they can be; this is where the part of a member begins. */
static size_t first_row(size_t n, size_t k, size_t member, size_t members)
{
    return k + 1 + (n - k - 1) * member / members;
}

/* Exchanges rows for pivot k, when all have made their offers. */
static void choose(struct job *job, size_t k, unsigned members)
{
    for (unsigned m = 0; m < members && k > 0; m++)
        pivot_offer(&job->pivot, &job->offer[m].best);
    rows_exchange(job->system, k, job->pivot.row);
    job->pivot = pivot_none(k + 1);
}

static void part(unsigned member, unsigned members, void *arg)
{
    struct job *job = arg;
    size_t n = job->system->n;

    for (size_t k = 0; k < n; k++) {
        struct pivot best = pivot_none(k + 1);

        if (job->offer) {
            if (member == 0)
                choose(job, k, members);
            umbra_team_barrier(job->team, member);
        }
        for (size_t row = first_row(n, k, member, members);
             row < first_row(n, k, member + 1, members); row++) {
            rows_apply(job->system, row, row + 1, k, k + 1);
            if (job->offer)
                pivot_offer_row(&best, job->system, row, k + 1);
        }
        if (job->offer)
            job->offer[member].best = best;
        umbra_team_barrier(job->team, member);
    }
}

int eliminate_team(const struct system *system, const struct setting *setting)
{
    struct umbra_team_options options = {.members = (unsigned)setting->processors};
    struct job job = {.system = system, .team = setting->team};
    int error = job.team ? 0 : umbra_team_create(&options, &job.team);

    if (error)
        return error;
    if (setting->pivoting) {
        job.offer = aligned_alloc(LINE, setting->processors * sizeof(*job.offer));
        job.pivot = rows_first_pivot(system);
    }
    error = setting->pivoting && !job.offer ? -ENOMEM : umbra_team_run(job.team, 0, part, &job);
    free(job.offer);
    if (!setting->team)
        umbra_team_destroy(job.team);
    return error;
}
