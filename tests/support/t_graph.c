/* SPDX-License-Identifier: MIT */
/* Graphs for tests: see t_graph.h. */
#include "t_graph.h"

#include <pthread.h>
#include <stdlib.h>

#include "t_driver.h"
#include "t_test.h"

struct t_graph {
    void *graph;
    void *exec;
};

/* The entry points used, with the types of cuda.h spelled plainly. */
static struct {
    int (*begin)(void *, int);
    int (*end)(void *, void **);
    int (*instantiate)(void **, void *, unsigned long long);
    int (*launch)(void *, void *);
    int (*exec_destroy)(void *);
    int (*destroy)(void *);
} cu;

static pthread_once_t loaded = PTHREAD_ONCE_INIT;

static void load(void)
{
    t_driver_find("cuStreamBeginCapture_v2", &cu.begin);
    t_driver_find("cuStreamEndCapture", &cu.end);
    t_driver_find("cuGraphInstantiateWithFlags", &cu.instantiate);
    t_driver_find("cuGraphLaunch", &cu.launch);
    t_driver_find("cuGraphExecDestroy", &cu.exec_destroy);
    t_driver_find("cuGraphDestroy", &cu.destroy);
}

void t_graph_begin(wharf_stream stream)
{
    pthread_once(&loaded, load);
    /* 0: CU_STREAM_CAPTURE_MODE_GLOBAL, the strictest. */
    t_driver_must(cu.begin(stream, 0), "cuStreamBeginCapture");
}

t_graph *t_graph_end(wharf_stream stream)
{
    t_graph *graph = calloc(1, sizeof *graph);

    if (graph == NULL)
        T_FAIL("no memory for a graph");
    t_driver_must(cu.end(stream, &graph->graph), "cuStreamEndCapture");
    t_driver_must(cu.instantiate(&graph->exec, graph->graph, 0),
                  "cuGraphInstantiateWithFlags");
    return graph;
}

void t_graph_launch(t_graph *graph, wharf_stream stream)
{
    t_driver_must(cu.launch(graph->exec, stream), "cuGraphLaunch");
}

void t_graph_destroy(t_graph *graph)
{
    t_driver_must(cu.exec_destroy(graph->exec), "cuGraphExecDestroy");
    t_driver_must(cu.destroy(graph->graph), "cuGraphDestroy");
    free(graph);
}
