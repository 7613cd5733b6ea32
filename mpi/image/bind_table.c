/* SPDX-License-Identifier: BSL-1.0 */
/* The table of child-only bindings. */
#define _GNU_SOURCE
#include <unistd.h>

#include "bind.h"

struct binding {
    const char *name;
    void (*fn)(void);
};

#define AS(name, function)                                                                         \
    {                                                                                              \
        name, (void (*)(void))(function)                                                           \
    }

static const struct binding bindings[] = {
    AS("__libc_start_main", um_bind_libc_start_main),
    AS("exit", um_bind_exit),
    AS("_exit", um_bind__exit),
    AS("_Exit", um_bind__exit),
    AS("quick_exit", um_bind_quick_exit),
    AS("abort", um_bind_abort),
    AS("__cxa_atexit", um_bind_cxa_atexit),
    AS("__cxa_at_quick_exit", um_bind_cxa_at_quick_exit),
    AS("__cxa_thread_atexit", um_bind_cxa_thread_atexit),
    AS("__cxa_thread_atexit_impl", um_bind_cxa_thread_atexit),
    AS("on_exit", um_bind_on_exit),
    AS("__cxa_finalize", um_bind_cxa_finalize),
    AS("__register_atfork", um_bind_register_atfork),
    AS("raise", um_bind_raise),
    AS("gsignal", um_bind_raise),
    AS("sigaction", um_bind_sigaction),
    AS("sigaltstack", um_bind_sigaltstack),
    AS("sigprocmask", um_bind_sigprocmask),
    AS("pthread_sigmask", um_bind_pthread_sigmask),
    AS("signal", um_bind_signal),
    AS("__sysv_signal", um_bind_signal),
    AS("bsd_signal", um_bind_signal),
    AS("ssignal", um_bind_signal),

    AS("__assert_fail", um_bind_assert_fail),
    AS("__assert_perror_fail", um_bind_assert_perror_fail),
    AS("__stack_chk_fail", um_bind_stack_chk_fail),
    AS("__chk_fail", um_bind_chk_fail),
    AS("warn", um_bind_warn),
    AS("warnx", um_bind_warnx),
    AS("vwarn", um_bind_vwarn),
    AS("vwarnx", um_bind_vwarnx),
    AS("err", um_bind_err),
    AS("errx", um_bind_errx),
    AS("verr", um_bind_verr),
    AS("verrx", um_bind_verrx),
    AS("error", um_bind_error),
    AS("error_at_line", um_bind_error_at_line),

    AS("getopt", um_bind_getopt),
    AS("__posix_getopt", um_bind_getopt),
    AS("getopt_long", um_bind_getopt_long),
    AS("getopt_long_only", um_bind_getopt_long_only),

    AS("getenv", um_bind_getenv),
    AS("secure_getenv", um_bind_getenv),
    AS("__secure_getenv", um_bind_getenv),
    AS("setenv", um_bind_setenv),
    AS("unsetenv", um_bind_unsetenv),
    AS("putenv", um_bind_putenv),
    AS("clearenv", um_bind_clearenv),

    AS("rand", um_bind_rand),
    AS("srand", um_bind_srand),
    AS("random", um_bind_random),
    AS("srandom", um_bind_srand),
    AS("initstate", um_bind_initstate),
    AS("setstate", um_bind_setstate),
    AS("seed48", um_bind_seed48),
    AS("lcong48", um_bind_lcong48),
    AS("drand48", um_bind_drand48),
    AS("lrand48", um_bind_lrand48),
    AS("mrand48", um_bind_mrand48),
    AS("srand48", um_bind_srand48),
    AS("strtok", um_bind_strtok),
    AS("fclose", um_bind_fclose),
    AS("_IO_fclose", um_bind_fclose),
    AS("fcloseall", um_bind_fcloseall),
    AS("setvbuf", um_bind_setvbuf),
    AS("setbuffer", um_bind_setbuffer),
    AS("setbuf", um_bind_setbuf),
    AS("freopen", um_bind_freopen),
    AS("freopen64", um_bind_freopen),
    AS("close", um_bind_close),
    AS("vfork", fork), /* a shared stack cannot be left twice */
    AS("__vfork", fork),
    AS("daemon", um_bind_daemon),
    AS("execve", um_bind_execve),
    AS("fexecve", um_bind_fexecve),
    AS("execv", um_bind_execv),
    AS("execvp", um_bind_execvp),
    AS("execvpe", um_bind_execvpe),
    AS("execl", um_bind_execl),
    AS("execlp", um_bind_execlp),
    AS("execle", um_bind_execle),

    AS("sched_yield", um_bind_sched_yield),
    AS("pthread_yield", um_bind_sched_yield),
    AS("thrd_yield", um_bind_thrd_yield),
    AS("sleep", um_bind_sleep),
    AS("usleep", um_bind_usleep),
    AS("nanosleep", um_bind_nanosleep),
    AS("thrd_sleep", um_bind_nanosleep),
    AS("clock_nanosleep", um_bind_clock_nanosleep),
    AS("pthread_create", um_bind_pthread_create),
    AS("pthread_exit", um_bind_pthread_exit),
    AS("pthread_join", um_bind_pthread_join),
    AS("pthread_key_create", um_bind_pthread_key_create),
    AS("__pthread_key_create", um_bind_pthread_key_create),
    AS("pthread_key_delete", um_bind_pthread_key_delete),
    AS("tss_create", um_bind_tss_create),
    AS("tss_delete", um_bind_tss_delete),
    AS("thrd_create", um_bind_thrd_create),

    AS("__tls_get_addr", um_bind_tls_get_addr),
    AS("dlopen", um_bind_dlopen),
    AS("dl_iterate_phdr", um_bind_dl_iterate_phdr),
    AS("_ZSt13set_terminatePFvvE", um_bind_set_terminate),
    AS("_ZNSt8ios_base15sync_with_stdioEb", um_bind_sync_with_stdio),
    AS("_ZNSt6thread4joinEv", um_bind_std_join),
    AS("_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE",
       um_bind_std_thread),
};

void *um_binding(const char *name)
{
    for (size_t i = 0; i < sizeof(bindings) / sizeof(bindings[0]); i++)
        if (strcmp(bindings[i].name, name) == 0)
            return (void *)(uintptr_t)bindings[i].fn;
    return NULL;
}

void um_bindings_free(struct umbra_child *child)
{
    struct um_ending **lists[] = {&child->thread_endings, &child->endings, &child->quick_endings};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        while (*lists[i]) {
            struct um_ending *ending = *lists[i];

            *lists[i] = ending->next;
            free(ending);
        }
    um_keys_free(child);
    um_environment_free(child);
    free(child->random);
    free(child->getopt);
}
