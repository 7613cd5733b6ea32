/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Child-only bindings: what a child gets under names of the C and C++ libraries. Private.
 * um_bind_NAME stands for NAME. Only a child's code calls it.
 */
#ifndef UMBRA_MPI_BIND_H
#define UMBRA_MPI_BIND_H

#include <link.h>
#include <sched.h>
#include <signal.h>
#include <threads.h>
#include <time.h>

#include "loader.h"

struct option;

/* True in a process that the child has forked: it has no cores, and one thread. */
UM_HIDE bool um_forked(void);

/* True for the signals that end a child (crash.c). */
UM_HIDE bool um_crash_signal(int number);

/* unwind.c, crash.c */
UM_HIDE int um_bind_dl_iterate_phdr(int (*fn)(struct dl_phdr_info *, size_t, void *), void *arg);
UM_HIDE void *um_bind_dlopen(const char *file, int flags);
UM_HIDE void (*um_bind_set_terminate(void (*fn)(void)))(void);

/* room.c */
UM_HIDE void *um_bind_tls_get_addr(uint64_t *index);

/* bind_start.c: begin and end */
UM_HIDE _Noreturn int um_bind_libc_start_main(int (*main)(int, char **, char **), int argc,
                                              char **argv, void (*init)(int, char **, char **),
                                              void (*fini)(void), void (*rtld_fini)(void),
                                              void *stack_end);
UM_HIDE _Noreturn void um_bind_exit(int code);
UM_HIDE _Noreturn void um_bind__exit(int code);
UM_HIDE _Noreturn void um_bind_quick_exit(int code);
UM_HIDE _Noreturn void um_bind_abort(void);
UM_HIDE int um_bind_cxa_atexit(void (*fn)(void *), void *arg, void *object);
UM_HIDE int um_bind_cxa_at_quick_exit(void (*fn)(void *), void *object);
UM_HIDE int um_bind_cxa_thread_atexit(void (*fn)(void *), void *arg, void *object);
UM_HIDE int um_bind_on_exit(void (*fn)(int, void *), void *arg);
UM_HIDE void um_bind_cxa_finalize(void *object);
UM_HIDE int um_bind_register_atfork(void (*prepare)(void), void (*parent)(void),
                                    void (*child)(void), void *object);
UM_HIDE int um_bind_raise(int number);
UM_HIDE int um_bind_sigaction(int number, const struct sigaction *set, struct sigaction *before);
UM_HIDE int um_bind_sigaltstack(const stack_t *set, stack_t *before);
UM_HIDE int um_bind_pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
UM_HIDE int um_bind_sigprocmask(int how, const sigset_t *set, sigset_t *before);
UM_HIDE void um_signals_forget(struct umbra_child *child);
UM_HIDE void (*um_bind_signal(int number, void (*fn)(int)))(int);

/* bind_err.c: messages that end a child, or name it */
UM_HIDE _Noreturn void um_bind_assert_fail(const char *what, const char *file, unsigned line,
                                           const char *function);
UM_HIDE _Noreturn void um_bind_assert_perror_fail(int number, const char *file, unsigned line,
                                                  const char *function);
UM_HIDE _Noreturn void um_bind_stack_chk_fail(void);
UM_HIDE _Noreturn void um_bind_chk_fail(void);
UM_HIDE void um_bind_warn(const char *format, ...);
UM_HIDE void um_bind_warnx(const char *format, ...);
UM_HIDE void um_bind_vwarn(const char *format, va_list args);
UM_HIDE void um_bind_vwarnx(const char *format, va_list args);
UM_HIDE _Noreturn void um_bind_err(int code, const char *format, ...);
UM_HIDE _Noreturn void um_bind_errx(int code, const char *format, ...);
UM_HIDE _Noreturn void um_bind_verr(int code, const char *format, va_list args);
UM_HIDE _Noreturn void um_bind_verrx(int code, const char *format, va_list args);
UM_HIDE void um_bind_error(int code, int number, const char *format, ...);
UM_HIDE void um_bind_error_at_line(int code, int number, const char *file, unsigned line,
                                   const char *format, ...);

/* bind_getopt.c */
UM_HIDE int um_bind_getopt(int argc, char *const *argv, const char *letters);
UM_HIDE int um_bind_getopt_long(int argc, char *const *argv, const char *letters,
                                const struct option *longs, int *index);
UM_HIDE int um_bind_getopt_long_only(int argc, char *const *argv, const char *letters,
                                     const struct option *longs, int *index);

/* bind_env.c */
UM_HIDE char *um_bind_getenv(const char *name);
UM_HIDE int um_bind_setenv(const char *name, const char *value, int over);
UM_HIDE int um_bind_unsetenv(const char *name);
UM_HIDE int um_bind_putenv(char *text);
UM_HIDE int um_bind_clearenv(void);
UM_HIDE char ***um_environ(struct umbra_child *child);
UM_HIDE void um_environment_free(struct umbra_child *child);

/* bind_state.c: numbers and words that libraries keep between calls */
UM_HIDE int um_bind_rand(void);
UM_HIDE long um_bind_random(void);
UM_HIDE void um_bind_srand(unsigned seed);
UM_HIDE char *um_bind_initstate(unsigned seed, char *state, size_t bytes);
UM_HIDE char *um_bind_setstate(char *state);
UM_HIDE unsigned short *um_bind_seed48(unsigned short seed[3]);
UM_HIDE void um_bind_lcong48(unsigned short parameters[7]);
UM_HIDE double um_bind_drand48(void);
UM_HIDE long um_bind_lrand48(void);
UM_HIDE long um_bind_mrand48(void);
UM_HIDE void um_bind_srand48(long seed);
UM_HIDE char *um_bind_strtok(char *text, const char *ends);
UM_HIDE int um_bind_fclose(FILE *file);
UM_HIDE int um_bind_fcloseall(void);
UM_HIDE int um_bind_setvbuf(FILE *file, char *buffer, int mode, size_t bytes);
UM_HIDE void um_bind_setbuffer(FILE *file, char *buffer, size_t bytes);
UM_HIDE void um_bind_setbuf(FILE *file, char *buffer);
UM_HIDE bool um_bind_sync_with_stdio(bool sync);
UM_HIDE FILE *um_bind_freopen(const char *path, const char *mode, FILE *file);
UM_HIDE int um_bind_close(int fd);
UM_HIDE int um_bind_execve(const char *path, char *const *argv, char *const *envp);
UM_HIDE int um_bind_fexecve(int fd, char *const *argv, char *const *envp);
UM_HIDE int um_bind_daemon(int nochdir, int noclose);
UM_HIDE int um_bind_execv(const char *path, char *const *argv);
UM_HIDE int um_bind_execvp(const char *file, char *const *argv);
UM_HIDE int um_bind_execvpe(const char *file, char *const *argv, char *const *envp);
UM_HIDE int um_bind_execl(const char *path, const char *arg, ...);
UM_HIDE int um_bind_execlp(const char *file, const char *arg, ...);
UM_HIDE int um_bind_execle(const char *path, const char *arg, ...);

/* bind_key.c: thread-specific data */
UM_HIDE int um_bind_pthread_key_create(unsigned *key, void (*destroy)(void *));
UM_HIDE int um_bind_pthread_key_delete(unsigned key);
UM_HIDE int um_bind_tss_create(unsigned *key, void (*destroy)(void *));
UM_HIDE void um_bind_tss_delete(unsigned key);
UM_HIDE void um_keys_run(struct umbra_child *child); /* when the calling thread ends */
UM_HIDE void um_keys_free(struct umbra_child *child);

/* bind_wait.c: what lets other fibers run, and threads */
UM_HIDE int um_bind_sched_yield(void);
UM_HIDE void um_bind_thrd_yield(void);
UM_HIDE unsigned um_bind_sleep(unsigned seconds);
UM_HIDE int um_bind_usleep(useconds_t us);
UM_HIDE int um_bind_nanosleep(const struct timespec *time, struct timespec *left);
UM_HIDE int um_bind_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                                    struct timespec *left);
UM_HIDE int um_bind_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                   void *(*fn)(void *), void *arg);
UM_HIDE int um_bind_pthread_join(pthread_t thread, void **result);
UM_HIDE void um_bind_std_thread(pthread_t *thread, void **state, void (*unused)(void));
UM_HIDE void um_bind_std_join(pthread_t *thread);
UM_HIDE _Noreturn void um_bind_pthread_exit(void *result);
UM_HIDE int um_bind_thrd_create(thrd_t *thread, thrd_start_t fn, void *arg);

#endif
