/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Runs each scenario without faults, to see which calls it makes, and then once for each fault:
 * each call of each site, up to MOST of them, fails once, and fails with all later calls of its
 * name. The first of a site fails with each of its errors, the others with the first.
 *
 *   faults [SCENARIO...]
 *
 * Each run is a child process. Prints lines for tests/faults/report.py:
 *   start ADDRESS                                  of the program in memory
 *   clean SCENARIO OUTCOME VALUE                   without faults: unreached, or skipped
 *   site SCENARIO CALL ADDRESS COUNT               in the run without faults
 *   fault SCENARIO CALL ADDRESS N ERROR once|on OUTCOME VALUE
 * OUTCOME: absorbed, error, wrong, leak, crash, hang, unreached.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UMBRA_IMPLEMENTATION
#include <umbra.h>
#include <umbra/io.h>

#include "faults.h"

#define MOST 5           /* calls of a site that fail in turns */
#define MOST_SCENARIOS 3 /* in which they do: all begin and end a runtime */
#define CLEAN 3          /* runs without faults */
#define SECONDS 10       /* that a run may take */
#define FAULTS 8192
#define SCENARIOS 64
#define MOST_JOBS 4

struct umbra_topology *topology;

struct planned {
    const struct scenario *scenario;
    struct fault fault;
};

static struct planned planned[FAULTS];
static unsigned planned_count;
static int left[SCENARIOS][RESOURCES]; /* what runs without faults leave at most */

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

/* The process keeps the memory of waits, and of threads that have waited: as much as it needed at
 * once, so that differs. But no wait may be in use any more. */
static void count_kept(void)
{
    int idle = 0;

    for (uint64_t link = um_claimed_idle; link; idle++)
        link = ((const struct um_wait *)(uintptr_t)link)->claimed.node.link;
    run->balance[BLOCK] -= idle;
    for (const struct um_sleeper *it = um_sleepers.idle; it; it = it->next)
        run->balance[BLOCK]--;
    run->balance[BLOCK] -= um_sleeper_self != NULL;
}

static void set_variables(const struct scenario *scenario)
{
    for (int i = 0; i < 2; i++)
        if (scenario->variable[i][0])
            setenv(scenario->variable[i][0], scenario->variable[i][1], 1);
}

/* What a thread has that the library must leave as it was. */
struct thread_state {
    sigset_t blocked;
    cpu_set_t processors;
};

static struct thread_state thread_state(void)
{
    struct thread_state state;

    memset(&state, 0, sizeof(state));
    pthread_sigmask(SIG_SETMASK, NULL, &state.blocked);
    sched_getaffinity(0, sizeof(state.processors), &state.processors);
    return state;
}

static void use(const struct scenario *scenario)
{
    int before = count_descriptors();
    struct thread_state state = thread_state(), state_then;

    set_variables(scenario);
    if (scenario->own_topology) {
        umbra_topology_destroy(topology);
        topology = NULL;
    }
    run->process = getpid();
    /* as where no constructor ran: else pthread_atfork() would never fail */
    um_atomic_store(&um_forks.once.state, UM_RUN_NEVER, relaxed); /* the only thread */
    run->armed = true; /* also while the program ends: what it keeps is given back then */
    run->result = scenario->use();
    run->descriptors = count_descriptors() - before;
    state_then = thread_state();
    run->balance[CHANGED] += memcmp(&state, &state_then, sizeof(state)) != 0;
    count_kept();
    exit(0);
}

/* Waits for the child. False: it has not ended in time, and was killed. */
static bool ends(pid_t child, int *status)
{
    const struct timespec limit = {.tv_sec = SECONDS};
    sigset_t ended;
    bool in_time = true;

    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    while (waitpid(child, status, WNOHANG) == 0)
        if (sigtimedwait(&ended, NULL, &limit) < 0 && errno == EAGAIN) {
            kill(child, SIGKILL);
            waitpid(child, status, 0);
            in_time = false;
            break;
        }
    return in_time;
}

/* True if the fault may be that of the call that puts the thread's state back: it lasts, or is one
 * of the call that sets the mask. */
static bool may_change(void)
{
    return run->fault.on ||
           strcmp(calls[run->fault.key >> SITE_CALL].name, "syscall:rt_sigprocmask") == 0;
}

/* The first resource of which the run has left more than runs without faults do, or -1. */
static int leaks(const struct scenario *scenario)
{
    for (int i = 0; i < RESOURCES; i++)
        if (run->balance[i] > left[scenario - scenarios][i] && !(i == CHANGED && may_change()))
            return i;
    if (run->descriptors > 0)
        return RESOURCES;
    return -1;
}

/* Runs the scenario in a child. Returns what became of it. */
static const char *outcome(const struct scenario *scenario, struct fault fault, int *value)
{
    int status = 0;
    pid_t child;

    memset(run, 0, sizeof(*run));
    run->fault = fault;
    fflush(stdout); /* else the child would print it, too */
    child = fork();
    if (child == 0)
        use(scenario);
    *value = 0;
    if (!ends(child, &status))
        return "hang";
    *value = status;
    if (status != 0)
        return "crash";
    *value = run->result;
    if (run->result > 0)
        return "wrong";
    *value = leaks(scenario);
    if (*value >= 0)
        return "leak";
    *value = run->result;
    return run->result < 0 ? "error" : run->failed > 0 ? "absorbed" : "unreached";
}

static unsigned long address_of(uintptr_t key)
{
    return key & ~(UINTPTR_MAX << SITE_CALL);
}

static void plan(const struct scenario *scenario, const struct fault *fault)
{
    if (planned_count == FAULTS)
        abort();
    planned[planned_count++] = (struct planned){scenario, *fault};
}

/* True if the site's calls have failed in enough scenarios. */
static bool is_known(uintptr_t key)
{
    static struct {
        uintptr_t key;
        unsigned scenarios;
    } known[SITES];
    int i = 0;

    while (known[i].key && known[i].key != key)
        i++;
    known[i].key = key;
    return known[i].scenarios++ >= MOST_SCENARIOS;
}

/* Each of the calls that the site has made, in turns. */
static void plan_site(const struct scenario *scenario, uintptr_t key, unsigned count)
{
    const int *error = calls[key >> SITE_CALL].error;

    printf("site %s %s %lx %u\n", scenario->name, calls[key >> SITE_CALL].name, address_of(key),
           count);
    if (is_known(key))
        return;
    for (unsigned nth = 1; nth <= count && nth <= MOST; nth++)
        for (int i = 0; i < ERRORS && error[i] && (nth == 1 || i == 0); i++)
            for (int on = 0; on < 2; on++)
                plan(scenario, &(struct fault){key, nth, error[i], on});
}

/* Adds the sites of this run to those of earlier ones. */
static void merge_sites(struct site *seen)
{
    for (int i = 0; i < SITES; i++) {
        int k = 0;

        while (seen[k].key && seen[k].key != run->site[i].key)
            k++;
        seen[k].key = run->site[i].key;
        if (seen[k].count < run->site[i].count)
            seen[k].count = run->site[i].count;
    }
}

static void merge_left(int *most, bool first)
{
    for (int i = 0; i < RESOURCES; i++)
        if (first || most[i] < run->balance[i])
            most[i] = run->balance[i];
}

/* True if the machine has no such rings, or no processor for a shadow. */
static bool lacks(int error)
{
    return error == -ENOSYS || error == -ENOSPC || error == -ENODEV;
}

/* Runs it without faults, a few times: not each makes all calls. Returns false if that fails. */
static bool plan_scenario(const struct scenario *scenario)
{
    static struct site seen[SITES];
    const char *became = "";
    int value = 0;

    memset(seen, 0, sizeof(seen));
    for (int i = 0; i < RESOURCES; i++)
        left[scenario - scenarios][i] = INT_MAX;
    for (int i = 0; i < CLEAN; i++) {
        became = outcome(scenario, (struct fault){0}, &value);
        if (strcmp(became, "unreached") != 0)
            break;
        merge_sites(seen);
        merge_left(left[scenario - scenarios], i == 0);
    }
    if (strcmp(became, "error") == 0 && lacks(value))
        became = "skipped";
    printf("clean %s %s %d\n", scenario->name, became, value);
    for (int i = 0; i < SITES; i++)
        if (seen[i].key)
            plan_site(scenario, seen[i].key, seen[i].count);
    return strcmp(became, "unreached") == 0 || strcmp(became, "skipped") == 0;
}

static struct run *new_run(void)
{
    return mmap(NULL, sizeof(struct run), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                0);
}

/* Runs what is planned, as long as there is something left. */
static void work(atomic_uint *next)
{
    unsigned i;

    run = new_run();
    while ((i = atomic_fetch_add(next, 1)) < planned_count) {
        const struct planned *it = &planned[i];
        int value;
        const char *became = outcome(it->scenario, it->fault, &value);

        printf("fault %s %s %lx %u %d %s %s %d\n", it->scenario->name,
               calls[it->fault.key >> SITE_CALL].name, address_of(it->fault.key), it->fault.nth,
               it->fault.error, it->fault.on ? "on" : "once", became, value);
        fflush(stdout);
    }
}

static void run_planned(long jobs)
{
    atomic_uint *next = (atomic_uint *)new_run();

    fflush(stdout);
    for (long i = 0; i < jobs; i++)
        if (fork() == 0) {
            work(next);
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
}

static bool wanted(const struct scenario *scenario, char *const *names)
{
    for (char *const *name = names; *name; name++)
        if (strcmp(*name, scenario->name) == 0)
            return true;
    return !*names;
}

int main(int argc, char **argv)
{
    extern const char __executable_start;
    long jobs = sysconf(_SC_NPROCESSORS_ONLN);
    bool good = true;
    sigset_t ended;

    (void)argc;
    sigemptyset(&ended); /* for ends() */
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, NULL);
    if (umbra_topology_create(NULL, &topology) != 0)
        return 1;
    run = new_run();
    printf("start %lx\n", (unsigned long)&__executable_start);
    for (unsigned i = 0; i < scenario_count; i++)
        if (wanted(&scenarios[i], argv + 1))
            good = plan_scenario(&scenarios[i]) && good;
    run_planned(jobs < MOST_JOBS ? jobs : MOST_JOBS);
    umbra_topology_destroy(topology);
    return good ? 0 : 1;
}
