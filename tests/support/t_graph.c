/* SPDX-License-Identifier: MIT */
/* Graphs for tests: see t_graph.h. */
#include "t_graph.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void die(const char *what, const char *why)
{
    fprintf(stderr, "t_graph: %s: %s\n", what, why);
    abort();
}

static void must(int result, const char *call)
{
    char text[32];

    if (result == 0)
        return;
    snprintf(text, sizeof text, "CUresult %d", result);
    die(call, text);
}

static void find(void *library, const char *name, void *slot)
{
    void *symbol = dlsym(library, name);

    if (symbol == NULL)
        die(name, "not in the driver library");
    memcpy(slot, &symbol, sizeof symbol);
}

static void load(void)
{
    const char *path = getenv("WHARF_CUDA_DRIVER");
    void *library;

    if (path == NULL || path[0] == '\0')
        path = "libcuda.so.1";
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        die(path, dlerror());
    find(library, "cuStreamBeginCapture_v2", &cu.begin);
    find(library, "cuStreamEndCapture", &cu.end);
    find(library, "cuGraphInstantiateWithFlags", &cu.instantiate);
    find(library, "cuGraphLaunch", &cu.launch);
    find(library, "cuGraphExecDestroy", &cu.exec_destroy);
    find(library, "cuGraphDestroy", &cu.destroy);
}

void t_graph_begin(wharf_stream stream)
{
    pthread_once(&loaded, load);
    /* 0: CU_STREAM_CAPTURE_MODE_GLOBAL, the strictest. */
    must(cu.begin(stream, 0), "cuStreamBeginCapture");
}

t_graph *t_graph_end(wharf_stream stream)
{
    t_graph *graph = calloc(1, sizeof *graph);

    if (graph == NULL)
        die("t_graph_end", "out of memory");
    must(cu.end(stream, &graph->graph), "cuStreamEndCapture");
    must(cu.instantiate(&graph->exec, graph->graph, 0),
         "cuGraphInstantiateWithFlags");
    return graph;
}

void t_graph_launch(t_graph *graph, wharf_stream stream)
{
    must(cu.launch(graph->exec, stream), "cuGraphLaunch");
}

void t_graph_destroy(t_graph *graph)
{
    must(cu.exec_destroy(graph->exec), "cuGraphExecDestroy");
    must(cu.destroy(graph->graph), "cuGraphDestroy");
    free(graph);
}
