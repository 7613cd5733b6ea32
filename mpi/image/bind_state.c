/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the C library keeps for a process, and each child has to itself: random numbers, the place
 * of strtok(). And what a child must not do to the process: close its standard streams, replace its
 * program.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "bind.h"

/* ---- random numbers ---- */

struct um_random {
    struct random_data data;
    struct drand48_data data48;
    char state[128]; /* as much as random() has of its own, so the numbers are the same */
};

static struct um_random *random_of_child(void)
{
    struct umbra_child *child = um_child_self();

    if (!child->random) {
        child->random = calloc(1, sizeof(*child->random));
        if (!child->random)
            um_bind_abort(); /* these functions cannot fail */
        initstate_r(1, child->random->state, sizeof(child->random->state), &child->random->data);
    }
    return child->random;
}

int um_bind_rand(void)
{
    int32_t number;

    random_r(&random_of_child()->data, &number);
    return number;
}

long um_bind_random(void)
{
    return um_bind_rand();
}

void um_bind_srand(unsigned seed)
{
    srandom_r(seed, &random_of_child()->data);
}

static char *random_state(const struct umbra_child *child)
{
    return (char *)(child->random->data.state - 1); /* as the C library gives it */
}

char *um_bind_initstate(unsigned seed, char *state, size_t bytes)
{
    struct random_data *data = &random_of_child()->data;
    char *before = random_state(um_child_self());

    return initstate_r(seed, state, bytes, data) == 0 ? before : NULL;
}

char *um_bind_setstate(char *state)
{
    struct random_data *data = &random_of_child()->data;
    char *before = random_state(um_child_self());

    return setstate_r(state, data) == 0 ? before : NULL;
}

double um_bind_drand48(void)
{
    double number;

    drand48_r(&random_of_child()->data48, &number);
    return number;
}

long um_bind_lrand48(void)
{
    long number;

    lrand48_r(&random_of_child()->data48, &number);
    return number;
}

long um_bind_mrand48(void)
{
    long number;

    mrand48_r(&random_of_child()->data48, &number);
    return number;
}

void um_bind_srand48(long seed)
{
    srand48_r(seed, &random_of_child()->data48);
}

unsigned short *um_bind_seed48(unsigned short seed[3])
{
    struct um_random *random = random_of_child();

    seed48_r(seed, &random->data48);
    return random->data48.__old_x;
}

void um_bind_lcong48(unsigned short parameters[7])
{
    lcong48_r(parameters, &random_of_child()->data48);
}

/* ---- words ---- */

char *um_bind_strtok(char *text, const char *ends)
{
    return strtok_r(text, ends, &um_child_self()->strtok);
}

/* ---- standard streams ---- */

static bool is_standard(const FILE *file)
{
    return file == stdin || file == stdout || file == stderr;
}

int um_bind_fclose(FILE *file)
{
    return is_standard(file) ? fflush(file) : fclose(file);
}

int um_bind_fcloseall(void)
{
    return fflush(NULL);
}

/* The streams outlive the child, and so must their buffers. */
int um_bind_setvbuf(FILE *file, char *buffer, int mode, size_t bytes)
{
    (void)buffer;
    return setvbuf(file, NULL, mode, bytes);
}

void um_bind_setbuffer(FILE *file, char *buffer, size_t bytes)
{
    setvbuf(file, NULL, buffer ? _IOFBF : _IONBF, bytes);
}

void um_bind_setbuf(FILE *file, char *buffer)
{
    um_bind_setbuffer(file, buffer, BUFSIZ);
}

/* The C++ library's would destroy the buffers that all children's streams use. */
bool um_bind_sync_with_stdio(bool sync)
{
    (void)sync;
    return true;
}

FILE *um_bind_freopen(const char *path, const char *mode, FILE *file)
{
    if (!is_standard(file) || um_forked())
        return freopen(path, mode, file);
    errno = ENOTSUP;
    return NULL;
}

int um_bind_close(int fd)
{
    return fd >= STDIN_FILENO && fd <= STDERR_FILENO && !um_forked() ? 0 : close(fd);
}

/* ---- exec: only in a process that the child has forked ---- */

static bool exec_refused(void)
{
    if (um_forked())
        return false;
    errno = ENOTSUP;
    return true;
}

int um_bind_execve(const char *path, char *const *argv, char *const *envp)
{
    return exec_refused() ? -1 : execve(path, argv, envp);
}

int um_bind_fexecve(int fd, char *const *argv, char *const *envp)
{
    return exec_refused() ? -1 : fexecve(fd, argv, envp);
}

int um_bind_execv(const char *path, char *const *argv)
{
    return um_bind_execve(path, argv, *um_environ(um_child_self()));
}

int um_bind_execvpe(const char *file, char *const *argv, char *const *envp)
{
    return exec_refused() ? -1 : execvpe(file, argv, envp);
}

int um_bind_execvp(const char *file, char *const *argv)
{
    return um_bind_execvpe(file, argv, *um_environ(um_child_self()));
}

/* The C library's would end this process. */
int um_bind_daemon(int nochdir, int noclose)
{
    if (um_forked())
        return daemon(nochdir, noclose);
    errno = ENOTSUP;
    return -1;
}

#define ARGUMENTS_MOST 1024

/* Puts the arguments of one of the three into an array. False: too many. */
static bool arguments_take(const char *argv[ARGUMENTS_MOST], const char *arg, va_list *args)
{
    size_t count = 0;

    for (argv[0] = arg; argv[count]; argv[count] = va_arg(*args, const char *))
        if (++count == ARGUMENTS_MOST) {
            errno = E2BIG;
            return false;
        }
    return true;
}

int um_bind_execl(const char *path, const char *arg, ...)
{
    const char *argv[ARGUMENTS_MOST];
    va_list args;
    bool taken;

    va_start(args, arg);
    taken = arguments_take(argv, arg, &args);
    va_end(args);
    return taken ? um_bind_execv(path, (char *const *)argv) : -1;
}

int um_bind_execlp(const char *file, const char *arg, ...)
{
    const char *argv[ARGUMENTS_MOST];
    va_list args;
    bool taken;

    va_start(args, arg);
    taken = arguments_take(argv, arg, &args);
    va_end(args);
    return taken ? um_bind_execvp(file, (char *const *)argv) : -1;
}

int um_bind_execle(const char *path, const char *arg, ...)
{
    const char *argv[ARGUMENTS_MOST];
    char *const *envp = NULL;
    va_list args;
    bool taken;

    va_start(args, arg);
    taken = arguments_take(argv, arg, &args);
    if (taken)
        envp = va_arg(args, char *const *);
    va_end(args);
    return taken ? um_bind_execve(path, (char *const *)argv, envp) : -1;
}
