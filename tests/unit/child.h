/* SPDX-License-Identifier: BSL-1.0 */
/* What the tests share that read what the library prints, in a child process. */
#ifndef UMBRA_TESTS_CHILD_H
#define UMBRA_TESTS_CHILD_H

#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <runner.h>

/* What a child said on standard error, and how it ended. */
struct child {
    char said[16384];
    int status;
};

static inline struct child in_child(int (*fn)(void))
{
    struct child child = {.said = ""};
    size_t used = 0;
    ssize_t more;
    int ends[2];
    pid_t pid;

    cr_assert_eq(pipe(ends), 0);
    pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        _exit(fn());
    }
    close(ends[1]);
    while ((more = read(ends[0], child.said + used, sizeof(child.said) - 1 - used)) > 0)
        used += (size_t)more;
    close(ends[0]);
    cr_assert_eq(waitpid(pid, &child.status, 0), pid);
    return child;
}

static inline bool says(const struct child *child, const char *what)
{
    if (strstr(child->said, what))
        return true;
    fprintf(stderr, "no '%s' in:\n%s", what, child->said);
    return false;
}

#endif
