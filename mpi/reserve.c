/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A reserve of mappings and of address space. Where a child cannot be started for want of either,
 * those that run have taken the last; but a process that is spawned instead needs some, too: for
 * the thread that spawns it, and for MPI's own memory. So the library has some from the first spawn
 * on, and gives them up at the first child for which there is no room. Until it has them again no
 * child is started: a child would take what was given up.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "library.h"

#define UM_RESERVE_PAGES 512 /* a mapping each, since neighbours are protected differently */
#define UM_RESERVE_BYTES ((size_t)64 << 20) /* of address space, with the pages */

static pthread_mutex_t reserve_lock = PTHREAD_MUTEX_INITIALIZER;
static char *reserve;     /* NULL: none yet, or given up */
static unsigned spawning; /* spawns of processes that are under way */

static void reserve_make(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *made =
        mmap(NULL, UM_RESERVE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int error = 0;

    if (made == MAP_FAILED)
        return;
    for (size_t i = 0; i < UM_RESERVE_PAGES && error == 0; i += 2)
        error = mprotect(made + i * page, page, PROT_READ);
    if (error == 0)
        reserve = made;
    else
        munmap(made, UM_RESERVE_BYTES);
}

bool um_reserve_has(void)
{
    bool has;

    pthread_mutex_lock(&reserve_lock);
    if (!reserve && spawning == 0)
        reserve_make();
    has = reserve != NULL;
    pthread_mutex_unlock(&reserve_lock);
    return has;
}

void um_reserve_give_up(void)
{
    pthread_mutex_lock(&reserve_lock);
    if (reserve)
        munmap(reserve, UM_RESERVE_BYTES);
    reserve = NULL;
    pthread_mutex_unlock(&reserve_lock);
}

void um_reserve_spawning(int more)
{
    pthread_mutex_lock(&reserve_lock);
    spawning += (unsigned)more;
    pthread_mutex_unlock(&reserve_lock);
}
