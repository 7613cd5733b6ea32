/* SPDX-License-Identifier: BSL-1.0 */
/* Variables of the environment. The first character is which; the rest is the value. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <umbra.h>
#include <umbra/io.h>

#define MOST 4294967295u

static int number_read(void)
{
    uint64_t value = MOST + UINT64_C(2);
    int error = um_environment_number("UMBRA_WATCHDOG", 3, MOST, MOST + UINT64_C(1), &value);

    HOLDS(error == 0 ? value >= 3 && value <= MOST + UINT64_C(1) : value == MOST + UINT64_C(2));
    return error;
}

static int limits_read(void)
{
    uint64_t value;

    return um_environment_number("UMBRA_TASK_LIVE", 0, UINT64_MAX, 0, &value);
}

static int policy_read(void)
{
    struct umbra_wait_policy policy;

    return umbra_wait_policy_init(&policy, NULL);
}

static int io_read(void)
{
    int way = um_io_forced();

    return way < 0 ? way : 0;
}

static const struct {
    const char *name;
    int (*read)(void);
} variables[] = {
    {"UMBRA_WATCHDOG", number_read}, {"UMBRA_TASK_LIVE", limits_read},
    {"UMBRA_WAIT", policy_read},     {"UMBRA_GUARD", um_guard_check},
    {"UMBRA_IO", io_read},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t which = size > 0 ? data[0] % (sizeof(variables) / sizeof(variables[0])) : 0;
    char *value = size > 0 ? fuzz_text(data + 1, size - 1) : fuzz_text(data, size);
    int error;

    setenv(variables[which].name, value, 1);
    error = variables[which].read();
    HOLDS(error == 0 || error == -EINVAL || error == -EOPNOTSUPP);
    unsetenv(variables[which].name);
    free(value);
    return 0;
}
