/* SPDX-License-Identifier: BSL-1.0 */
/* umbra_last_error_text: which processor, variable, limit or argument a call failed by. */
#define _GNU_SOURCE
#include "fibers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Words that the text of the last error must have, in this order, separated by '|'. */
static void check_text(int error, int expected, const char *words)
{
    char each[200], *rest = NULL;
    const char *text = umbra_last_error_text();
    const char *at = text;

    cr_assert_eq(error, expected, "%d, \"%s\"", error, text);
    cr_assert_null(strchr(text, '\n'));
    snprintf(each, sizeof(each), "%s", words);
    for (char *word = strtok_r(each, "|", &rest); word; word = strtok_r(NULL, "|", &rest)) {
        at = strstr(at, word);
        cr_assert_not_null(at, "no '%s' in \"%s\"", word, text);
        at += strlen(word);
    }
}

static struct umbra_topology *described(const char *synthetic)
{
    struct umbra_topology_options options = {.synthetic = synthetic};
    struct umbra_topology *topology = NULL;

    cr_assert_eq(umbra_topology_create(&options, &topology), 0);
    return topology;
}

static int create(struct umbra_options options)
{
    struct umbra_runtime *runtime;
    int error = umbra_runtime_create(&options, &runtime);

    if (error == 0)
        umbra_runtime_destroy(runtime);
    return error;
}

Test(why, is_empty_before_the_first_error_and_after_a_success)
{
    struct umbra_topology *topology;

    cr_assert_str_eq(umbra_last_error_text(), "");
    cr_assert_eq(create((struct umbra_options){.stack_bytes = 1}), -EINVAL);
    cr_assert_str_neq(umbra_last_error_text(), "");
    cr_assert_eq(umbra_topology_create(NULL, &topology), 0);
    cr_assert_str_eq(umbra_last_error_text(), "");
    umbra_topology_destroy(topology);
}

Test(why, names_the_option_of_a_runtime_and_its_limit)
{
    struct umbra_topology *two = described("core:2 pu:1");
    char least[60];

    snprintf(least, sizeof(least), "stack_bytes = 1|the least is %zu", um_stack_least_bytes());
    check_text(create((struct umbra_options){.stack_bytes = 1}), -EINVAL, least);
    check_text(create((struct umbra_options){.topology = two, .cores = 3}), -ENOSPC,
               "cores = 3|this process may use 2");
    check_text(
        create((struct umbra_options){.topology = two, .cores = 9999, .oversubscribe = true}),
        -ENOSPC, "cores = 9999|the most is 1024");
    check_text(create((struct umbra_options){
                   .topology = two, .cores = 2, .placement = UMBRA_PLACE_ONE_PER_NODE}),
               -ENOSPC, "2 cores|policy 3|1 place");
    check_text(
        create((struct umbra_options){.topology = two, .placement = (enum umbra_placement)9}),
        -EINVAL, "placement = 9");
    check_text(create((struct umbra_options){.topology = two, .cores = 1, .cpus = "0,1"}), -EINVAL,
               "cores = 1|cpus = \"0,1\"|2");
    check_text(create((struct umbra_options){.topology = two, .dump_signal = 1000}), -EINVAL,
               "dump_signal = 1000");
    umbra_topology_destroy(two);
}

Test(why, names_the_processor_of_a_list)
{
    struct umbra_topology *two = described("core:2 pu:1");
    int cpus[2];

    check_text(create((struct umbra_options){.topology = two, .cpus = "0-9"}), -ENODEV,
               "cpus = \"0-9\"|processor 2 may not be used by this process");
    check_text(um_topology_place_list(two, "0,1,0", cpus, 2), -EINVAL,
               "\"0,1,0\"|processor 0 is named twice");
    check_text(um_topology_place_list(two, "0-", cpus, 2), -EINVAL, "\"0-\"|not a list");
    check_text(um_topology_place_list(two, "0-1", cpus, 1), -ENOSPC, "2 processors|room for 1");
    check_text(umbra_topology_bind(two, 7, NULL), -ENODEV, "processor 7 may not be used");
    cr_assert_eq(um_topology_place_list(two, "0-1", cpus, 2), 2);
    cr_assert_str_eq(umbra_last_error_text(), "");
    umbra_topology_destroy(two);
}

Test(why, names_the_description_that_cannot_be_read)
{
    struct umbra_topology_options nonsense = {.synthetic = "nonsense:2"};
    struct umbra_topology_options missing = {.xml = "/nowhere/machine.xml"};
    struct umbra_topology_options both = {.synthetic = "core:2 pu:1", .xml = "machine.xml"};
    struct umbra_topology *topology;

    check_text(umbra_topology_create(&nonsense, &topology), -EINVAL, "synthetic = \"nonsense:2\"");
    check_text(umbra_topology_create(&missing, &topology), -ENOENT,
               "xml = \"/nowhere/machine.xml\": No such file");
    check_text(umbra_topology_create(&both, &topology), -EINVAL, "both|synthetic|xml");
}

Test(why, names_the_way_to_wait_and_those_that_there_are)
{
    struct umbra_wait_options options = {.backend = "hlt"};
    struct umbra_wait_policy policy;

    unsetenv("UMBRA_WAIT");
    check_text(umbra_wait_policy_init(&policy, &options), -EINVAL,
               "wait.backend = hlt: unknown; there are auto, pause|mwait|power-wait");
    check_text(create((struct umbra_options){.wait = options}), -EINVAL, "wait.backend = hlt");
    options = (struct umbra_wait_options){.mode = (enum umbra_wait_mode)9};
    check_text(umbra_wait_policy_init(&policy, &options), -EINVAL, "wait.mode = 9");
    setenv("UMBRA_WAIT", "foo", 1);
    check_text(umbra_wait_policy_init(&policy, NULL), -EINVAL,
               "UMBRA_WAIT=foo: unknown; there are");
#ifdef __x86_64__
    setenv("UMBRA_WAIT", "power-wait", 1);
    check_text(umbra_wait_policy_init(&policy, NULL), -EOPNOTSUPP,
               "UMBRA_WAIT=power-wait: cannot execute here");
#endif
}

Test(why, names_the_kind_of_guard_and_those_that_there_are)
{
    struct umbra_runtime *runtime;

    setenv("UMBRA_GUARD", "nonsense", 1);
    check_text(create((struct umbra_options){.cores = 1}), -EINVAL,
               "UMBRA_GUARD=nonsense: unknown; there are advice, protection, none");
    setenv("UMBRA_GUARD", "", 1);
    cr_assert_eq(umbra_runtime_create(NULL, &runtime), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

/* ---- the environment ---- */

#define WORDS 16

static const char *const bad_number[] = {"ten", "-1", "+1",   " 1",  "1 ",
                                         "\t1", "1,", "0x10", "1e3", "100000000000000000000000"};

static const struct {
    const char *variable;
    const char *before; /* a number, to make a value of the variable; NULL: the variable has none */
    const char *bad[WORDS];
} wrong_variable[] = {
    {"UMBRA_WATCHDOG", "", {"4294967296"}},
    {"UMBRA_STATS", "", {"2"}},
    {"UMBRA_TOP", "", {"2"}},
    {"UMBRA_TRACE_RECORDS", "", {"15", "67108865"}},
    {"UMBRA_TASK_LIVE", "", {"18446744073709551616", "live=1"}},
    {"UMBRA_TASK_DEPTH", "", {"18446744073709551616", "1,2"}},
    {"UMBRA_CORES", "", {"0", "1025", "2,3"}},
    {"UMBRA_WAIT",
     NULL,
     {",", ",pause", "pause,", " pause", "pause ", "PAUSE", "gap", "gap=", "=none",
      "pause,gap=none,", "gap=none,gap=none", "pause,join=none,join=pause", "pause;gap=none"}},
    {"UMBRA_GUARD", NULL, {"None", " none", "none ", "none,", ",", "none,advice", "0"}},
};

static void check_wrong(const char *variable, const char *before, const char *value)
{
    char text[64];
    int error;

    snprintf(text, sizeof(text), "%s%s", before, value);
    setenv(variable, text, 1);
    error = create((struct umbra_options){.cores = 1});
    unsetenv(variable);
    cr_expect_eq(error, -EINVAL, "%s=%s: %d", variable, text, error);
    cr_expect(strstr(umbra_last_error_text(), variable), "%s=%s: '%s'", variable, text,
              umbra_last_error_text());
}

Test(why, names_each_variable_of_the_environment_that_is_wrong)
{
    unsetenv("UMBRA_WAIT");
    for (size_t i = 0; i < sizeof(wrong_variable) / sizeof(wrong_variable[0]); i++) {
        const char *variable = wrong_variable[i].variable;
        const char *before = wrong_variable[i].before;

        for (size_t k = 0; before && k < sizeof(bad_number) / sizeof(bad_number[0]); k++)
            check_wrong(variable, before, bad_number[k]);
        for (size_t k = 0; k < WORDS && wrong_variable[i].bad[k]; k++)
            check_wrong(variable, "", wrong_variable[i].bad[k]);
    }
    cr_expect_eq(create((struct umbra_options){.cores = 1}), 0, "without them all is well");
}

Test(why, names_the_processor_that_a_shadow_cannot_have)
{
    struct umbra_topology *topology = described("core:2 pu:2");
    struct umbra_topology *lonely = described("core:1 pu:1");
    struct umbra_shadow_options at = {.topology = topology, .place_owner = true, .owner_cpu = 2};
    struct umbra_shadow first, second;

    cr_assert_eq(shadow_create(&first, &at), 0);
    cr_assert_str_eq(umbra_last_error_text(), "");
    check_text(shadow_create(&second, &at), -ENOSPC, "no sibling of processor 2 is left");
    at.owner_cpu = 0;
    check_text(shadow_create(&second, &at), -EBUSY, "owner_cpu = 0|owns a shadow");
    at = (struct umbra_shadow_options){.topology = topology, .place_owner = true, .owner_cpu = 99};
    check_text(shadow_create(&second, &at), -ENODEV, "owner_cpu = 99|may not be used");
    at.owner_cpu = at.shadow_cpu = 2;
    at.place_shadow = true;
    check_text(shadow_create(&second, &at), -EINVAL, "shadow_cpu = 2|the owner's own");
    at.shadow_cpu = 17;
    check_text(shadow_create(&second, &at), -ENODEV, "shadow_cpu = 17|may not be used");
    at.shadow_cpu = 3;
    check_text(shadow_create(&second, &at), -EBUSY, "shadow_cpu = 3|holds a shadow");
    shadow_destroy(&first);
    at = (struct umbra_shadow_options){.topology = lonely};
    check_text(shadow_create(&second, &at), -ENODEV, "second hardware thread|processor 0 only");
    umbra_topology_destroy(topology);
    umbra_topology_destroy(lonely);
}

Test(why, tells_of_a_core_what_its_own_thread_found)
{
    struct umbra_topology *lonely = described("core:1 pu:1");

    check_text(create((struct umbra_options){.topology = lonely, .shadows = true}), -ENODEV,
               "core 0: |second hardware thread");
    umbra_topology_destroy(lonely);
}

static void *start_another(void *arg)
{
    (void)arg;
    return umbra_run(NULL, start_another, NULL) == -EPERM &&
                   strstr(umbra_last_error_text(), "a fiber cannot")
               ? arg
               : NULL;
}

static void *wait_for_ever(void *arg)
{
    struct umbra_event never = UMBRA_EVENT_INIT;

    umbra_event_wait(&never, UMBRA_NEVER);
    return arg;
}

static void *run_within(void *arg)
{
    struct umbra_fiber fiber;
    void *result = NULL;

    umbra_spawn(start_another, arg, &fiber);
    umbra_join(fiber, UMBRA_NEVER, &result);
    *(bool *)arg = result == arg;
    return NULL;
}

Test(why, is_there_for_whatever_ends_a_run)
{
    bool told = false;

    cr_assert_eq(run_cores(1, run_within, &told), 0);
    cr_assert(told);
    check_text(run_cores(1, wait_for_ever, NULL), -EDEADLK, "deadlock");
}

/* ---- calls that return one errno for several reasons ---- */

static void *nothing(void *arg)
{
    return arg;
}

static void no_task(void *arg)
{
    (void)arg;
}

static int no_value(struct umbra_worker *worker, struct umbra_value value, void *arg)
{
    (void)worker, (void)value, (void)arg;
    return 0;
}

static int spawn(struct umbra_runtime *runtime, struct umbra_spawn_options options)
{
    return umbra_spawn_with(runtime, &options, nothing, NULL, NULL);
}

Test(why, tells_apart_what_is_wrong_with_a_spawn)
{
    struct umbra_runtime *runtime;
    struct umbra_task task;

    cr_assert_eq(umbra_runtime_create(&(struct umbra_options){.cores = 1}, &runtime), 0);
    check_text(spawn(NULL, (struct umbra_spawn_options){.core = 0}), -EPERM, "no fiber");
    check_text(umbra_spawn_with(runtime, NULL, NULL, NULL, NULL), -EINVAL, "no function");
    check_text(spawn(runtime, (struct umbra_spawn_options){.stack_bytes = 1}), -EINVAL,
               "stack_bytes = 1|the least");
    check_text(spawn(runtime, (struct umbra_spawn_options){.where = UMBRA_ON_CORE, .core = 9}),
               -EINVAL, "no such core");
    check_text(umbra_task_start(NULL, &task, no_task, NULL), -EPERM, "no fiber");
    cr_assert_eq(umbra_runtime_wait(runtime), 0);
    cr_assert_eq(umbra_runtime_destroy(runtime), 0);
}

static int choose(struct umbra_branch branch)
{
    return umbra_choose(&branch, 1, 0, NULL, NULL);
}

Test(why, tells_apart_what_is_wrong_with_a_branch)
{
    struct umbra_port port = UMBRA_PORT_INIT_BOUNDED(2);
    struct umbra_branch plain = {UMBRA_RECEIVE(&port)};
    struct umbra_arbiter_options never = {.handlers =
                                              &(struct umbra_spawn_options){.stopped = true}};
    struct umbra_arbiter arbiter;

    check_text(umbra_choose(NULL, 0, 0, NULL, NULL), -EINVAL, "no branch");
    check_text(choose((struct umbra_branch){.items = 1}), -EINVAL, "no source");
    check_text(choose((struct umbra_branch){UMBRA_ITEMS(3, UMBRA_FROM(&port))}), -EINVAL, "fit");
    check_text(choose((struct umbra_branch){UMBRA_JOIN(UMBRA_FROM(&port), UMBRA_FROM(&port))}),
               -EINVAL, "a port twice");
    check_text(umbra_arbiter_start(&arbiter, &plain, 1, &never), -EINVAL, "handlers.stopped");
}

static void *make_wrongly(void *runtime)
{
    struct umbra_dispatch *dispatch;
    struct umbra_port port = UMBRA_PORT_INIT;
    struct umbra_branch plain = {UMBRA_RECEIVE(&port)};
    struct umbra_arbiter arbiter;

    check_text(
        umbra_dispatch_create(
            NULL, &(struct umbra_dispatch_options){.fn = no_value, .workers = 1025}, &dispatch),
        -EINVAL, "workers = 1025|the most is 1024");
    check_text(umbra_dispatch_create(NULL, &(struct umbra_dispatch_options){.fn = NULL}, &dispatch),
               -EINVAL, "no function");
    check_text(umbra_arbiter_start(&arbiter, &plain, 1, NULL), -EINVAL, "branch 0 has no handler");
    check_text(umbra_runtime_wait(umbra_runtime_self()), -EPERM, "a fiber|wait");
    check_text(umbra_runtime_destroy(umbra_runtime_self()), -EPERM, "a fiber|destroy");
    return runtime;
}

Test(why, tells_apart_what_cannot_be_made)
{
    struct umbra_reduction large = {.bytes = UMBRA_REDUCTION_BYTES + 1};
    struct umbra_channel channel;
    struct umbra_memory memory;
    char value[UMBRA_REDUCTION_BYTES];

    cr_assert_eq(run_cores(1, make_wrongly, NULL), 0);
    check_text(umbra_channel_init(&channel, 0, 4, UMBRA_CHANNEL_MANY), -EINVAL, "capacity = 0");
    check_text(umbra_channel_init(&channel, 4, SIZE_MAX / 4, UMBRA_CHANNEL_MANY), -EINVAL,
               "capacity = 4|no such size");
    check_text(umbra_memory_create(NULL, 0, &memory), -EINVAL, "bytes = 0");
    check_text(umbra_event_wait_any(NULL, 0, 0, NULL), -EINVAL, "count = 0|1000");
    check_text(umbra_parallel_reduce(0, 1, 0, &large, NULL, value), -EINVAL, "bytes = 257|256");
}

static void *fail_elsewhere(void *arg)
{
    int error = create((struct umbra_options){.stack_bytes = 1});

    return error == -EINVAL && strstr(umbra_last_error_text(), "stack_bytes") ? arg : NULL;
}

Test(why, is_each_threads_own)
{
    pthread_t thread;
    void *result = NULL;

    cr_assert_eq(pthread_create(&thread, NULL, fail_elsewhere, &result), 0);
    pthread_join(thread, &result);
    cr_assert(result == &result);
    cr_assert_str_eq(umbra_last_error_text(), "");
}

Test(why, is_cut_off_where_an_option_is_very_long)
{
    struct umbra_topology_options options;
    struct umbra_topology *topology;
    char name[2000];

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    options = (struct umbra_topology_options){.synthetic = name};
    check_text(umbra_topology_create(&options, &topology), -EINVAL, "synthetic = \"xxx");
    setenv("UMBRA_WAIT", name, 1);
    check_text(create((struct umbra_options){.cores = 1}), -EINVAL, "UMBRA_WAIT=xxx|power-wait");
}
