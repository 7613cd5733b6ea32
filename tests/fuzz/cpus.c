/* SPDX-License-Identifier: BSL-1.0 */
/* Lists of processors ("0,2-5,8-14:2"), for a machine with gaps in their numbers. The first
 * character is how many places there are. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <umbra.h>

#define CPUS 24

static void named_check(const struct um_cpu_table *table, const int *named, int count)
{
    for (int i = 0; i < count; i++) {
        HOLDS(um_cpu_table_get(table, named[i]));
        for (int k = 0; k < i; k++)
            HOLDS(named[i] != named[k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct umbra_topology_cpu cpu[CPUS];
    struct um_cpu_table table = {.cpus = CPUS, .cpu = cpu};
    unsigned most = size > 0 ? data[0] % (CPUS + 2) : 0;
    int named[CPUS + 1], count;
    char *list = size > 0 ? fuzz_text(data + 1, size - 1) : fuzz_text(data, size);

    for (unsigned i = 0; i < CPUS; i++)
        cpu[i].cpu = (int)(i < CPUS / 2 ? i : i + 7);
    count = um_cpu_table_place_list(&table, list, named, most);
    HOLDS(count > 0 || count == -EINVAL || count == -ENODEV || count == -ENOSPC);
    HOLDS(count < 0 || (unsigned)count <= most);
    named_check(&table, named, count);
    free(list);
    return 0;
}
