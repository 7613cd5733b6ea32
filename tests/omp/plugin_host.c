/* SPDX-License-Identifier: BSL-1.0 */
/* Knows no OpenMP; opens a plugin that has regions, and closes it, while the threads of its regions
 * are there. plugin_host.c PLUGIN */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static int (*plugin_sum)(int members);

static void *in_thread(void *arg)
{
    return (void *)(long)plugin_sum((int)(long)arg);
}

static long sum_in_thread(int members)
{
    pthread_t thread;
    void *result = NULL;

    if (pthread_create(&thread, NULL, in_thread, (void *)(long)members) == 0)
        pthread_join(thread, &result);
    return (long)result;
}

int main(int argc, char **argv)
{
    /* libgomp stays: where the plugin's end unloads it, its threads may still execute it */
    dlopen("libgomp.so.1", RTLD_NOW | RTLD_NODELETE);
    for (int round = 0; round < 3; round++) {
        void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

        if (!plugin) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        *(void **)&plugin_sum = dlsym(plugin, "plugin_sum");
        printf("in a thread %ld", sum_in_thread(3));
        printf(", in the first one %d", plugin_sum(2));
        printf(", in a thread %ld\n", sum_in_thread(2));
        dlclose(plugin);
    }
    return 0;
}
