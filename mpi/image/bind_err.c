/* SPDX-License-Identifier: BSL-1.0 */
/* Messages that name the program, most of which end it: as glibc writes them, with the child's name. */
#define _GNU_SOURCE
#include "bind.h"

/* The program may have set it. */
static const char *long_name(void)
{
    struct umbra_child *child = um_child_self();
    const char *name = child->argc > 0 ? child->argv[0] : child->image->path;

    return *(const char **)um_variable(child, UM_NAME, &name);
}

static const char *short_name(void)
{
    struct umbra_child *child = um_child_self();
    const char *path = child->argc > 0 ? child->argv[0] : child->image->path;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    return *(const char **)um_variable(child, UM_SHORT_NAME, &name);
}

static _Noreturn void fail(void)
{
    fflush(stderr);
    um_bind_abort();
}

void um_bind_assert_fail(const char *what, const char *file, unsigned line, const char *function)
{
    fprintf(stderr, "%s: %s:%u: %s%sAssertion `%s' failed.\n", short_name(), file, line,
            function ? function : "", function ? ": " : "", what);
    fail();
}

void um_bind_assert_perror_fail(int number, const char *file, unsigned line, const char *function)
{
    fprintf(stderr, "%s: %s:%u: %s%sUnexpected error: %s.\n", short_name(), file, line,
            function ? function : "", function ? ": " : "", strerror(number));
    fail();
}

void um_bind_stack_chk_fail(void)
{
    fputs("*** stack smashing detected ***: terminated\n", stderr);
    fail();
}

void um_bind_chk_fail(void)
{
    fputs("*** buffer overflow detected ***: terminated\n", stderr);
    fail();
}

/* ---- <err.h> ---- */

static void say(int number, const char *format, va_list args)
{
    fflush(stdout);
    fprintf(stderr, "%s: ", short_name());
    if (format)
        vfprintf(stderr, format, args);
    if (number >= 0)
        fprintf(stderr, "%s%s", format ? ": " : "", strerror(number));
    putc('\n', stderr);
}

void um_bind_vwarn(const char *format, va_list args)
{
    int number = errno;

    say(number, format, args);
    errno = number;
}

void um_bind_vwarnx(const char *format, va_list args)
{
    say(-1, format, args);
}

void um_bind_verr(int code, const char *format, va_list args)
{
    say(errno, format, args);
    um_bind_exit(code);
}

void um_bind_verrx(int code, const char *format, va_list args)
{
    say(-1, format, args);
    um_bind_exit(code);
}

void um_bind_warn(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    um_bind_vwarn(format, args);
    va_end(args);
}

void um_bind_warnx(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    um_bind_vwarnx(format, args);
    va_end(args);
}

void um_bind_err(int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    um_bind_verr(code, format, args);
}

void um_bind_errx(int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    um_bind_verrx(code, format, args);
}

/* ---- <error.h> ---- */

static void say_error(int code, int number, const char *format, va_list args)
{
    vfprintf(stderr, format, args);
    if (number != 0)
        fprintf(stderr, ": %s", strerror(number));
    putc('\n', stderr);
    fflush(stderr);
    if (code != 0)
        um_bind_exit(code);
}

void um_bind_error(int code, int number, const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "%s: ", long_name());
    va_start(args, format);
    say_error(code, number, format, args);
    va_end(args);
}

void um_bind_error_at_line(int code, int number, const char *file, unsigned line,
                           const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "%s:", long_name());
    if (file)
        fprintf(stderr, "%s:%u:", file, line);
    putc(' ', stderr);
    va_start(args, format);
    say_error(code, number, format, args);
    va_end(args);
}
