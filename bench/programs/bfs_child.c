/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Beamer's hybrid with OpenMP, for the kernel bfs: in the graph as it is, in ordinary memory, and in the
 * graph in the order of degrees, on huge pages. A process of its own, compiled with
 * examples/bfs/openmp.c.
 */
#define _GNU_SOURCE
#include "bfs_case.h"
#include "child_channel.h"

#include <huge_pages.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

static struct bfs_case bfs;
static uint8_t *level;
static struct csr plain;
static struct ordered ordered;
static struct search search[2];
static search_fn *const search_fns[] = {openmp_search, openmp_ordered_search};
static uint64_t batches[2]; /* the first one is a trial of the process */
static uint32_t *parent[2];

static void batch(struct child_channel *channel)
{
    uint64_t which = channel->problem, ns, all = 0, right = 0;
    uint64_t before = batches[which]++;
    unsigned root = bfs_root_of(&bfs, before > 0 ? before - 1 : 0);

    for (uint64_t i = 0; i < channel->iterations; i++) {
        if (search_fns[which](&search[which], bfs.root[root], parent[which], &ns) != 0)
            break;
        all += ns;
        right += bfs_is_right(&bfs, level, root, parent[which]);
    }
    channel->own_ns = all > 0 ? all : 1;
    channel->verified = right;
    channel->elsewhere = 0;
}

/* A copy of an array of the file, in memory of this kind; or NULL. */
static void *copy(const char *file, uint64_t at, uint64_t bytes, void *(*alloc)(size_t bytes))
{
    void *memory = alloc(bytes);

    return memory != NULL ? memcpy(memory, file + at, bytes) : NULL;
}

static bool copy_graphs(const char *file)
{
    uint64_t n = bfs.vertices, own = bfs.ordered_vertices;

    plain.vertices = n;
    plain.row = copy(file, bfs.row, (n + 1) * sizeof(*plain.row), malloc);
    plain.to = copy(file, bfs.to, bfs.neighbours * sizeof(*plain.to), malloc);
    ordered.names = n;
    ordered.several = bfs.several;
    ordered.csr.vertices = own;
    ordered.csr.row = copy(file, bfs.ordered_row, (own + 1) * sizeof(*plain.row), huge_pages_alloc);
    ordered.csr.to =
        copy(file, bfs.ordered_to, bfs.neighbours * sizeof(*plain.to), huge_pages_alloc);
    ordered.place = copy(file, bfs.place, n * sizeof(*ordered.place), huge_pages_alloc);
    ordered.name = copy(file, bfs.name, (own + 1) * sizeof(*ordered.name), huge_pages_alloc);
    level = copy(file, bfs.level, bfs.roots * n, malloc);
    parent[BFS_PLAIN] = malloc(n * sizeof(uint32_t));
    parent[BFS_ORDERED] = huge_pages_alloc(n * sizeof(uint32_t));
    return plain.row && plain.to && ordered.csr.row && ordered.csr.to && ordered.place &&
           ordered.name && level && parent[BFS_PLAIN] && parent[BFS_ORDERED];
}

static bool read_case(int fd)
{
    char *file;
    bool done;

    if (pread(fd, &bfs, sizeof(bfs), 0) != sizeof(bfs))
        return false;
    file = mmap(NULL, bfs.bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED)
        return false;
    done = copy_graphs(file);
    munmap(file, bfs.bytes);
    close(fd);
    return done;
}

int main(int argc, char **argv)
{
    struct child_channel *channel = argc > 2 ? child_channel_map(atoi(argv[1])) : NULL;

    if (channel == NULL || !read_case(atoi(argv[2])))
        return 2;
    search[BFS_PLAIN] = (struct search){.csr = &plain, .threads = channel->n_cpus};
    search[BFS_ORDERED] = (struct search){.ordered = &ordered, .threads = channel->n_cpus};
    if (openmp_create(&search[BFS_PLAIN]) != 0 || openmp_ordered_create(&search[BFS_ORDERED]) != 0)
        return 2;
    child_channel_serve(channel, batch);
}
