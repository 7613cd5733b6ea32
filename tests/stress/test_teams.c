/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Teams of random sizes that wait in random ways, and runs of random lengths, with and without
 * barriers, with pauses in which members fall asleep. The seed is printed; give it back in UMBRA_SEED.
 * UMBRA_STRESS_MS sets the length of each test (default 1000). A lost wake-up shows as a test that
 * does not end.
 */
#define _GNU_SOURCE
#include "random_run.h"

#include <runner.h>

#include <umbra/team.h>

#define MOST 12 /* members */
#define RUNS 200

struct scene {
    struct umbra_team *team;
    uint64_t random;   /* of this run; the same for all parts */
    unsigned barriers; /* in each part */
    uint64_t runs[MOST];
    uint64_t come[MOST]; /* barriers; plain: ordered by them */
    uint64_t wrong[MOST];
};

static void dawdle(uint64_t random)
{
    uint64_t end = umbra_now_ns() + (random & 0xfff) * (random >> 16 & 7);

    while (umbra_now_ns() < end)
        let_others_execute();
}

static void part(unsigned member, unsigned members, void *arg)
{
    struct scene *scene = arg;
    uint64_t random = scene->random + member * 0x9e3779b97f4a7c15u;

    random = random ? random : 1;
    scene->runs[member]++;
    if ((random_next(&random) & 3) == 0)
        dawdle(random);
    for (unsigned i = 0; i < scene->barriers; i++) {
        uint64_t at = ++scene->come[member];

        umbra_team_barrier(scene->team, member);
        for (unsigned other = 0; other < members; other++)
            scene->wrong[member] += scene->come[other] != at;
        umbra_team_barrier(scene->team, member);
    }
}

static void live(struct scene *scene, unsigned members, uint64_t *random)
{
    uint64_t runs = random_next(random) % RUNS, come = 0;

    for (uint64_t run = 1; run <= runs; run++) {
        scene->random = random_next(random);
        scene->barriers = (*random >> 8 & 3) == 0 ? *random >> 12 & 3 : 0;
        come += scene->barriers;
        cr_assert_eq(umbra_team_run(scene->team, 0, part, scene), 0);
        for (unsigned i = 0; i < members; i++) {
            cr_assert_eq(scene->runs[i], run);
            cr_assert_eq(scene->come[i], come);
            cr_assert_eq(scene->wrong[i], 0);
        }
        if ((*random >> 20 & 15) == 0)
            dawdle(*random >> 24);
    }
}

static void run(unsigned most)
{
    uint64_t random = seed_of_run(), end = end_of_run_ns();

    while (umbra_now_ns() < end) {
        unsigned members = 1 + (unsigned)(random_next(&random) % most);
        struct scene scene = {0};
        struct umbra_team_options options = {.members = members};

        options.wait.mode = random >> 20 & 1 ? UMBRA_WAIT_TWO_PHASE : UMBRA_WAIT_PARK;
        options.wait.block_cycles = random >> 21 & 1 ? 3000 : 0;
        cr_assert_eq(umbra_team_create(&options, &scene.team), 0);
        live(&scene, members, &random);
        cr_assert_eq(umbra_team_destroy(scene.team), 0);
    }
}

Test(teams, of_two)
{
    run(2);
}

Test(teams, of_more_members_than_there_are_processors)
{
    run(MOST);
}
