/* SPDX-License-Identifier: BSL-1.0 */
/* Files of graphs, as examples/bfs reads them. The first character is the format: 0, 1 or 2. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <errno.h>

#include "../../examples/bfs/edges.h"
#include "../../examples/bfs/placed.h"
#include "../../examples/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lines_fault fault;
    struct edges edges;
    int error;

    if (size == 0)
        return 0;
    error =
        edges_read(&edges, (enum graph_format)(data[0] % 3), fuzz_file(data + 1, size - 1), &fault);
    HOLDS(error == 0 || error == -EINVAL || error == -ENOMEM);
    HOLDS(error != -EINVAL || (fault.text[0] && memchr(fault.text, 0, sizeof(fault.text))));
    for (size_t i = 0; i < edges.count && error == 0; i++)
        HOLDS(edges.edge[i].end[0] < edges.vertices && edges.edge[i].end[1] < edges.vertices);
    HOLDS(edges.count <= edges.room);
    placed_free(edges.edge);
    return 0;
}
