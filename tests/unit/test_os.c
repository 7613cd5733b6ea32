/* SPDX-License-Identifier: BSL-1.0 */
/*
 * umbra/os/os.h: what the calls return that the system refuses. None of them changes errno, which is
 * the program's.
 */
#define _GNU_SOURCE
#define UMBRA_IMPLEMENTATION
#include <umbra/os/os.h>

#include <runner.h>

#include <errno.h>

#ifndef UMBRA_POSIX_ONLY

static int binds(void)
{
    return um_os_bind_cpu(UM_LINUX_MASK_WORDS * UM_LINUX_MASK_BITS - 1);
}

static int binds_none(void)
{
    return um_os_bind_cpu(-1);
}

static int finds_no_cpu(void)
{
    return um_os_nth_cpu(UM_LINUX_MASK_WORDS * UM_LINUX_MASK_BITS);
}

static int advises(void)
{
    return um_os_advise_huge((void *)1, 1);
}

static int guards_by_advice(void)
{
    return um_os_guard((void *)1, 1, UM_GUARD_ADVICE);
}

static int guards_by_protection(void)
{
    return um_os_guard((void *)1, 1, UM_GUARD_PROTECTION);
}

static int maps_nothing(void)
{
    return !um_os_map(0) && !um_os_map_data(0) ? -ENOMEM : 0;
}

static int waits_for_nothing(void)
{
    static um_atomic_u32 word = 0;

    return um_os_futex_wait(&word, 0, 1);
}

static int writes(void)
{
    return um_os_write(-1, "x", 1);
}

static int creates(void)
{
    return um_os_create("/", false);
}

static int extends(void)
{
    void *memory;

    return um_os_extend(-1, 0, um_os_page_bytes(), &memory);
}

static int links(void)
{
    return um_os_link_to(0, "/");
}

static int acts(void)
{
    struct um_os_action before;

    return um_os_action(0, NULL, &before);
}

static int returns_nothing(void)
{
    um_os_unmap((void *)1, 1);
    um_os_drop((void *)1, 1);
    um_os_empty(-1, 0, 1);
    um_os_unlink("/");
    um_os_close(-1);
    um_os_leave_for(-1);
    um_os_resident((void *)1);
    um_os_faults((void *)1);
    return 0;
}

static const struct os_error {
    const char *name;
    int (*call)(void);
    int wanted;
} os_errors[] = {
    {"um_os_bind_cpu", binds, -EINVAL},
    {"um_os_bind_cpu, no number", binds_none, -ENODEV},
    {"um_os_nth_cpu", finds_no_cpu, -ENODEV},
    {"um_os_advise_huge", advises, -EINVAL},
    {"um_os_guard, advice", guards_by_advice, -EINVAL},
    {"um_os_guard, protection", guards_by_protection, -EINVAL},
    {"um_os_map, um_os_map_data", maps_nothing, -ENOMEM},
    {"um_os_futex_wait", waits_for_nothing, -ETIMEDOUT},
    {"um_os_write", writes, -EBADF},
    {"um_os_create", creates, -EISDIR},
    {"um_os_extend", extends, -EBADF},
    {"um_os_link_to", links, -EEXIST},
    {"um_os_action", acts, -EINVAL},
    {"without a result", returns_nothing, 0},
};

Test(os, errors_of_the_system_are_returned_and_errno_stays)
{
    for (size_t i = 0; i < sizeof(os_errors) / sizeof(*os_errors); i++)
        for (int before = 0; before <= EDOM; before += EDOM) {
            int result;

            errno = before;
            result = os_errors[i].call();
            cr_expect_eq(errno, before, "%s: errno is %d", os_errors[i].name, errno);
            cr_expect_eq(result, os_errors[i].wanted, "%s: %d", os_errors[i].name, result);
        }
}

#else

Test(os, errors_of_the_system_are_returned_and_errno_stays)
{
    cr_skip_test("the POSIX form asks for little that can be refused");
}

#endif
