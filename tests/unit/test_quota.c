/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How many threads there are by default where control groups limit the processor time: what is read
 * of the groups' files, in a folder that stands for the root, and in a group of this machine where
 * that may be made; then what runtimes and teams make of it.
 */
#define _GNU_SOURCE
static char root[64]; /* "": the machine's own */
#define UM_QUOTA_ROOT root
#define UMBRA_IMPLEMENTATION
#include <umbra/core.h>
#include <umbra/team.h>

#include <runner.h>

#include "described.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- files ---- */

#define FILES 4
#define PATH 2048

struct group_file {
    const char *path; /* below /sys/fs/cgroup */
    const char *text; /* NULL: it cannot be read */
};

static const struct row {
    const char *what;
    const char *groups; /* /proc/self/cgroup; NULL: there is none */
    struct group_file file[FILES];
    unsigned quota;
} rows[] = {
    {"half a processor", "0::/a\n", {{"a/cpu.max", "50000 100000\n"}}, 1},
    {"one and a half", "0::/a\n", {{"a/cpu.max", "150000 100000\n"}}, 2},
    {"two", "0::/a\n", {{"a/cpu.max", "200000 100000\n"}}, 2},
    {"a little more", "0::/a\n", {{"a/cpu.max", "200001 100000\n"}}, 3},
    {"another period", "0::/a\n", {{"a/cpu.max", "25000 10000\n"}}, 3},
    {"no limit", "0::/a\n", {{"a/cpu.max", "max 100000\n"}}, 0},
    {"a limit above",
     "0::/a/b/c\n",
     {{"a/b/c/cpu.max", "max 100000\n"}, {"a/cpu.max", "150000 100000\n"}},
     2},
    {"a lower limit above",
     "0::/a/b\n",
     {{"a/b/cpu.max", "400000 100000\n"}, {"a/cpu.max", "150000 100000\n"}},
     2},
    {"a higher limit above",
     "0::/a/b\n",
     {{"a/b/cpu.max", "50000 100000\n"}, {"a/cpu.max", "400000 100000\n"}},
     1},
    {"a group without the controller", "0::/a/b\n", {{"a/cpu.max", "150000 100000\n"}}, 2},
    {"groups beside and below",
     "0::/a\n",
     {{"a/cpu.max", "300000 100000\n"}, {"b/cpu.max", "1 100"}, {"a/b/cpu.max", "1 100"}},
     3},
    {"a namespace", "0::/\n", {{"cpu.max", "150000 100000\n"}}, 2},
    {"the host's path", "0::/docker/1f\n", {{"cpu.max", "150000 100000\n"}}, 2},
    {"outside of the namespace", "0::/../b\n", {{"cpu.max", "150000 100000\n"}}, 2},
    {"nothing mounted", "0::/a\n", {{NULL, NULL}}, 0},
    {"no groups", NULL, {{"cpu.max", "50000 100000\n"}}, 0},
    {"an empty list", "", {{"cpu.max", "50000 100000\n"}}, 0},
    {"no list", "0:\nnothing\n", {{"cpu.max", "50000 100000\n"}}, 0},
    {"unreadable", "0::/a\n", {{"a/cpu.max", NULL}}, 0},
    {"unreadable below", "0::/a\n", {{"a/cpu.max", NULL}, {"cpu.max", "150000 100000\n"}}, 2},
    {"empty", "0::/a\n", {{"a/cpu.max", ""}}, 0},
    {"a word", "0::/a\n", {{"a/cpu.max", "many 100000\n"}}, 0},
    {"no period", "0::/a\n", {{"a/cpu.max", "50000\n"}}, 0},
    {"nothing in a period", "0::/a\n", {{"a/cpu.max", "0 100000\n"}}, 0},
    {"a period of nothing", "0::/a\n", {{"a/cpu.max", "50000 0\n"}}, 0},
    {"less than nothing", "0::/a\n", {{"a/cpu.max", "-1 100000\n"}}, 0},
    {"too much", "0::/a\n", {{"a/cpu.max", "18446744073709551615 1\n"}}, 0},
    {"version 1",
     "9:name=systemd:/a\n3:cpuset:/x\n2:cpu,cpuacct:/a\n",
     {{"cpu/a/cpu.cfs_quota_us", "150000\n"}, {"cpu/a/cpu.cfs_period_us", "100000\n"}},
     2},
    {"version 1, half",
     "2:cpuacct,cpu:/a\n",
     {{"cpu/a/cpu.cfs_quota_us", "50000\n"}, {"cpu/a/cpu.cfs_period_us", "100000\n"}},
     1},
    {"version 1, no limit",
     "2:cpu:/a\n",
     {{"cpu/a/cpu.cfs_quota_us", "-1\n"}, {"cpu/a/cpu.cfs_period_us", "100000\n"}},
     0},
    {"version 1, a limit above",
     "2:cpu:/a/b\n",
     {{"cpu/a/b/cpu.cfs_quota_us", "-1\n"},
      {"cpu/a/b/cpu.cfs_period_us", "100000\n"},
      {"cpu/a/cpu.cfs_quota_us", "250000\n"},
      {"cpu/a/cpu.cfs_period_us", "100000\n"}},
     3},
    {"version 1, no period", "2:cpu:/a\n", {{"cpu/a/cpu.cfs_quota_us", "50000\n"}}, 0},
    {"version 1, other controllers",
     "3:cpuset:/a\n2:cpuacct:/a\n1:xcpu,cpux:/a\n",
     {{"cpu/a/cpu.cfs_quota_us", "50000\n"}, {"cpu/a/cpu.cfs_period_us", "100000\n"}},
     0},
    {"both versions",
     "2:cpu:/a\n0::/b\n",
     {{"cpu/a/cpu.cfs_quota_us", "250000\n"},
      {"cpu/a/cpu.cfs_period_us", "100000\n"},
      {"b/cpu.max", "max 100000\n"}},
     3},
};

static void look_for_quotas(void)
{
#ifdef UMBRA_POSIX_ONLY
    cr_skip_test("os/posix.h knows no quotas");
#endif
}

/* Makes the folders of a path. */
static void make_folders(const char *path)
{
    char folder[PATH];

    for (const char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        snprintf(folder, sizeof(folder), "%.*s", (int)(at - path), path);
        mkdir(folder, 0700);
    }
}

static void make_file(const char *in, const char *name, const char *text)
{
    char path[PATH];
    FILE *file;

    snprintf(path, sizeof(path), "%s%s%s", root, in, name);
    make_folders(path);
    if (text == NULL) {
        cr_assert_eq(mkdir(path, 0700), 0); /* root may read every file, but no folder */
        return;
    }
    file = fopen(path, "w");
    cr_assert_not_null(file, "%s", path);
    fputs(text, file);
    fclose(file);
}

static int removes(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)kind, (void)where;
    return remove(path);
}

static unsigned quota_of(const struct row *row)
{
    unsigned quota;

    strcpy(root, "/tmp/umbra-quota-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
    if (row->groups != NULL)
        make_file("/proc/self/", "cgroup", row->groups);
    for (unsigned i = 0; i < FILES && row->file[i].path != NULL; i++)
        make_file("/sys/fs/cgroup/", row->file[i].path, row->file[i].text);
    errno = 0;
    quota = um_os_quota();
    cr_expect_eq(errno, 0);
    nftw(root, removes, 8, FTW_DEPTH | FTW_PHYS);
    root[0] = '\0';
    return quota;
}

Test(quota, table_of_files)
{
    look_for_quotas();
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(quota_of(&rows[i]), rows[i].quota, "%s", rows[i].what);
}

Test(quota, a_path_that_is_too_long_limits_nothing)
{
    static char groups[1200];

    for (size_t length = 900; length < sizeof(groups); length++) {
        memset(groups, 'a', length);
        memcpy(groups, "0::/", 4);
        cr_expect_eq(quota_of(&(struct row){.groups = groups}), 0, "%zu", length);
    }
}

/* ---- a group of this machine ---- */

static bool tell(const char *group, const char *file, const char *text)
{
    char path[PATH];
    bool told;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", group, file);
    fd = open(path, O_WRONLY);
    told = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return told;
}

/* Enters the group, with half a processor. False: it may not. */
static bool enters(const char *group, bool unified)
{
    char self[20];

    snprintf(self, sizeof(self), "%d", (int)getpid());
    return (unified ? tell(group, "cpu.max", "50000 100000")
                    : tell(group, "cpu.cfs_quota_us", "50000")) &&
           tell(group, "cgroup.procs", self);
}

static bool is_in_group(const char *mount, bool unified)
{
    char group[PATH];
    int status = -1;
    pid_t child;

    snprintf(group, sizeof(group), "%s/umbra-quota-%d", mount, (int)getpid());
    if (mkdir(group, 0700) != 0)
        return false;
    child = fork();
    if (child == 0)
        _exit(!enters(group, unified) ? 77 : um_os_quota() != 1);
    waitpid(child, &status, 0);
    rmdir(group);
    cr_expect(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77), "%d",
              status);
    return status == 0;
}

Test(quota, a_group_of_this_machine_with_half_a_processor_allows_one)
{
    look_for_quotas();
    if (!is_in_group("/sys/fs/cgroup", true) && !is_in_group("/sys/fs/cgroup/cpu", false))
        cr_skip_test("this process may make no group with a quota");
}

/* ---- runtimes and teams ---- */

static struct umbra_topology *limited(const char *synthetic, unsigned quota)
{
    struct umbra_topology *topology = described(synthetic);

    topology->info.quota = quota;
    return topology;
}

/* How many cores a runtime with these options has, or its error. */
static int cores_of(struct umbra_options options)
{
    struct umbra_runtime *runtime;
    int error = umbra_runtime_create(&options, &runtime);
    int cores = error == 0 ? (int)umbra_runtime_cores(runtime) : error;

    if (error == 0)
        umbra_runtime_destroy(runtime);
    return cores;
}

static int members_of(struct umbra_team_options options)
{
    struct umbra_team *team;
    int error = umbra_team_create(&options, &team);
    int members = error == 0 ? (int)team->members : error;

    if (error == 0)
        umbra_team_destroy(team);
    return members;
}

Test(quota, a_runtime_has_no_more_cores_than_the_least_of_places_and_quota)
{
    struct umbra_topology *t = limited("numa:2 core:4 pu:2", 3);

    cr_expect_eq(cores_of((struct umbra_options){.topology = t}), 3);
    cr_expect_eq(cores_of((struct umbra_options){.topology = t, .hardware_threads = true}), 3);
    cr_expect_eq(
        cores_of((struct umbra_options){.topology = t, .placement = UMBRA_PLACE_ONE_PER_NODE}), 2);
    t->info.quota = 100;
    cr_expect_eq(cores_of((struct umbra_options){.topology = t}), 8);
    t->info.quota = 0;
    cr_expect_eq(cores_of((struct umbra_options){.topology = t}), 8);
    cr_expect_eq(
        cores_of((struct umbra_options){.topology = t, .placement = UMBRA_PLACE_ONE_PER_NODE}), 2);
    umbra_topology_destroy(t);
}

Test(quota, shadows_have_half_of_the_quota)
{
    struct umbra_topology *t = limited("core:4 pu:2", 4);

    cr_expect_eq(cores_of((struct umbra_options){.topology = t, .shadows = true}), 2);
    t->info.quota = 1;
    cr_expect_eq(cores_of((struct umbra_options){.topology = t, .shadows = true}), 1);
    umbra_topology_destroy(t);
}

Test(quota, options_of_a_runtime_say_otherwise)
{
    struct umbra_topology *t = limited("core:8 pu:1", 2);

    cr_expect_eq(cores_of((struct umbra_options){.topology = t, .cores = 5}), 5);
    cr_expect_eq(cores_of((struct umbra_options){.topology = t, .cpus = "0-3"}), 4);
    umbra_topology_destroy(t);
}

Test(quota, a_team_has_no_more_members_than_the_least_of_places_and_quota)
{
    struct umbra_topology *t = limited("core:8 pu:2", 3);

    cr_expect_eq(members_of((struct umbra_team_options){.topology = t}), 3);
    cr_expect_eq(members_of((struct umbra_team_options){.topology = t, .siblings = true}), 3);
    cr_expect_eq(members_of((struct umbra_team_options){.topology = t, .members = 5}), 5);
    cr_expect_eq(members_of((struct umbra_team_options){.topology = t, .cpus = "0-3"}), 4);
    t->info.quota = 0;
    cr_expect_eq(members_of((struct umbra_team_options){.topology = t}), 8);
    umbra_topology_destroy(t);
}

Test(quota, umbra_cores_says_otherwise)
{
    struct umbra_topology *t = limited("core:4 pu:2", 2);

    setenv("UMBRA_CORES", "3", 1);
    cr_expect_eq(cores_of((struct umbra_options){.topology = t}), 3);
    cr_expect_eq(cores_of((struct umbra_options){.topology = t, .cores = 4}), 4);
    cr_expect_eq(cores_of((struct umbra_options){.topology = t, .cpus = "0-3"}), 4);
    cr_expect_eq(members_of((struct umbra_team_options){.topology = t}), 3);
    cr_expect_eq(members_of((struct umbra_team_options){.topology = t, .members = 4}), 4);
    setenv("UMBRA_CORES", "", 1);
    cr_expect_eq(cores_of((struct umbra_options){.topology = t}), 2);
    umbra_topology_destroy(t);
}

Test(quota, umbra_cores_beyond_the_places_is_refused_by_name_or_shares_them)
{
    struct umbra_topology *t = limited("core:4 pu:2", 2);

    setenv("UMBRA_CORES", "30", 1);
    cr_expect_eq(cores_of((struct umbra_options){.topology = t}), -ENOSPC);
    cr_expect_str_eq(umbra_last_error_text(), "UMBRA_CORES=30, but this process may use 4");
    cr_expect_eq(cores_of((struct umbra_options){.topology = t, .oversubscribe = true}), 30);
    cr_expect_eq(members_of((struct umbra_team_options){.topology = t}), 30);
    setenv("UMBRA_CORES", "1024", 1);
    cr_expect_eq(members_of((struct umbra_team_options){.topology = t}), 1024);
    umbra_topology_destroy(t);
}

Test(quota, this_machine_has_the_quota_that_was_read)
{
    struct umbra_topology *t = NULL;
    unsigned cores;

    look_for_quotas();
    cr_assert_eq(umbra_topology_create(NULL, &t), 0);
    cr_expect_eq(umbra_topology_info(t)->quota, um_os_quota());
    cores = umbra_topology_info(t)->cores;
    umbra_topology_destroy(t);
    strcpy(root, "/tmp/umbra-quota-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
    make_file("/proc/self/", "cgroup", "0::/\n");
    make_file("/sys/fs/cgroup/", "cpu.max", "10000 100000\n");
    cr_assert_eq(umbra_topology_create(NULL, &t), 0);
    nftw(root, removes, 8, FTW_DEPTH | FTW_PHYS);
    cr_expect_eq(umbra_topology_info(t)->quota, 1);
    cr_expect_eq(cores_of((struct umbra_options){.topology = t}), 1);
    cr_expect_eq(umbra_topology_info(t)->cores, cores);
    umbra_topology_destroy(t);
}
