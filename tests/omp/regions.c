/* SPDX-License-Identifier: BSL-1.0 */
/* Regions: what their members see, and what stays theirs. The same output under each library. */
#include <omp.h>
#include <stdio.h>

#ifdef __clang__ /* on the host */
enum { target_is_a_call = 1 };
#else
enum { target_is_a_call = 0 };
#endif
#define PRAGMA(text) _Pragma(#text)
#ifdef __clang__ /* 14 has no scope: a loop of an iteration a member */
#define SCOPE(clauses)                                                                             \
    PRAGMA(omp for schedule(static, 1) clauses)                                                    \
    for (int once = 0; once < omp_get_num_threads(); once++)
#else
#define SCOPE(clauses) PRAGMA(omp scope clauses)
#endif

static int own = -1;
#pragma omp threadprivate(own)

static void sizes(void)
{
    for (int n = 1; n <= 5; n++) {
        int members = 0, sum = 0;

#pragma omp parallel num_threads(n) reduction(+ : sum)
        {
            sum += omp_get_thread_num();
#pragma omp single
            members = omp_get_num_threads();
        }
        printf("%d members, numbers %d\n", members, sum);
    }
#pragma omp parallel if (0)
    printf("if(0): %d of %d, level %d, active %d\n", omp_get_thread_num(), omp_get_num_threads(),
           omp_get_level(), omp_get_active_level());
}

/* A variable of each thread is there in the next region of as many threads. */
static void threadprivate(void)
{
    int wrong = 0;

    omp_set_dynamic(0);
#pragma omp parallel num_threads(4)
    own = 100 + omp_get_thread_num();
    for (int i = 0; i < 1000; i++) {
#pragma omp parallel num_threads(4) reduction(+ : wrong)
        wrong += own != 100 + omp_get_thread_num();
    }
    own = 7;
#pragma omp parallel num_threads(4) copyin(own) reduction(+ : wrong)
    wrong += own != 7;
    printf("threadprivate: %d wrong\n", wrong);
}

static void barriers(void)
{
    int at[4] = {0}, wrong = 0;

#pragma omp parallel num_threads(4) reduction(+ : wrong)
    for (int i = 1; i <= 2000; i++) {
        at[omp_get_thread_num()] = i;
#pragma omp barrier
        for (int j = 0; j < 4; j++)
            wrong += at[j] != i;
#pragma omp barrier
    }
    printf("barriers: %d wrong\n", wrong);
}

static void singles(void)
{
    int count = 0, masters = 0, wrong = 0;

#pragma omp parallel num_threads(3) reduction(+ : wrong)
    for (int i = 0; i < 500; i++) {
        int copy = -1;

#pragma omp single
#pragma omp atomic
        count++;
#pragma omp single copyprivate(copy)
        copy = i;
        wrong += copy != i;
#pragma omp single nowait
#pragma omp atomic
        count++;
#pragma omp masked
        masters++;
    }
#pragma omp parallel num_threads(3)
    for (int i = 0; i < 100; i++) {
        SCOPE(reduction(+ : masters))
        masters += 2;
    }
    printf("single %d, masked %d, %d wrong\n", count, masters, wrong);
}

static void nested(void)
{
    int sum = 0;

    omp_set_max_active_levels(3);
#pragma omp parallel num_threads(2) reduction(+ : sum)
    {
        int outer = omp_get_thread_num();

        for (int i = 0; i < 50; i++) {
#pragma omp parallel num_threads(2) reduction(+ : sum)
            {
                sum += omp_get_level() * 1000 + omp_get_ancestor_thread_num(1) * 10 +
                       omp_get_thread_num() + omp_get_team_size(1) + omp_get_team_size(2);
                sum += omp_get_ancestor_thread_num(1) == outer;
            }
        }
#pragma omp parallel num_threads(2) reduction(+ : sum)
#pragma omp parallel num_threads(2) reduction(+ : sum)
#pragma omp parallel num_threads(2) reduction(+ : sum)
        sum += omp_get_level() * 100 + omp_get_active_level();
    }
    omp_set_max_active_levels(1);
#pragma omp parallel num_threads(2) reduction(+ : sum)
#pragma omp parallel num_threads(2) reduction(+ : sum)
    sum += omp_get_num_threads();
    printf("nested: %d\n", sum);
}

/* A task's own variables, which its region's members inherit. */
static void variables(void)
{
    int seen[2][3];

    omp_set_num_threads(3);
    omp_set_schedule(omp_sched_guided, 7);
#pragma omp parallel num_threads(2)
    {
        omp_sched_t kind;
        int *mine = seen[omp_get_thread_num()];

        omp_get_schedule(&kind, &mine[2]);
        mine[0] = omp_get_max_threads();
        mine[1] = (int)kind;
        omp_set_num_threads(50 + omp_get_thread_num());
    }
    for (int i = 0; i < 2; i++)
        printf("member %d: threads %d, schedule %d, %d\n", i, seen[i][0], seen[i][1], seen[i][2]);
    printf("after: %d\n", omp_get_max_threads());
}

static void on_host(void)
{
    int sum = 0, first = 5;

#pragma omp teams num_teams(3) reduction(+ : sum)
    sum += omp_get_num_teams() * 10 + omp_get_team_num();
    printf("teams: %d\n", sum);
    sum = 0;
#pragma omp target teams distribute parallel for firstprivate(first) reduction(+ : sum)
    for (int i = 0; i < 100; i++)
        sum += i + first;
    printf("target: %d\n", sum);
#pragma omp parallel num_threads(2)
#pragma omp single
#pragma omp target map(tofrom : sum)
    sum = omp_get_level() + omp_is_initial_device() - target_is_a_call;
    printf("target in a region: %d\n", sum);
}

int main(void)
{
    sizes();
    threadprivate();
    barriers();
    singles();
    nested();
    variables();
    on_host();
    return 0;
}
