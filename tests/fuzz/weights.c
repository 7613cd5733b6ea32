/* SPDX-License-Identifier: BSL-1.0 */
/* Files of graphs with weights, as examples/apsp reads them. The first character is the format: 0 or
 * 1. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <errno.h>
#include <math.h>

#include "../../examples/apsp/graph.h"
#include "../../examples/lines.h"

#define LARGE 100000 /* vertices that are named but cost graph_longest() time */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lines_fault fault;
    struct graph graph;
    const char *path;
    int error;

    if (size == 0)
        return 0;
    path = fuzz_file(data + 1, size - 1);
    error = data[0] & 1 ? graph_read_edges(&graph, path, &fault)
                        : graph_read_dimacs(&graph, path, &fault);
    HOLDS(error == 0 || error == -EINVAL || error == -ENOMEM);
    HOLDS(error != -EINVAL || (fault.text[0] && memchr(fault.text, 0, sizeof(fault.text))));
    for (size_t i = 0; i < graph.edges && error == 0; i++) {
        HOLDS(graph.edge[i].from < graph.n && graph.edge[i].to < graph.n);
        HOLDS(isfinite(graph.edge[i].weight));
        HOLDS(!graph.whole || graph.edge[i].weight == nearbyint(graph.edge[i].weight));
    }
    if (error == 0 && graph.n < LARGE)
        HOLDS(graph_longest(&graph) >= 0 && graph_has_negative(&graph) <= (graph.edges > 0));
    graph_destroy(&graph);
    return 0;
}
