/* SPDX-License-Identifier: MIT */
/*
 * Capturing a stream into a graph and replaying it, for tests, without the CUDA
 * toolkit: plain driver entry points found at run time, as in t_device.h. Every
 * call checks itself. Not for the host backend, which has no streams.
 */
#ifndef T_GRAPH_H
#define T_GRAPH_H

#include <wharf/wharf.h>

typedef struct t_graph t_graph;

/* The stream, which is not the default one, is captured from here on. */
void t_graph_begin(wharf_stream stream);
/* Ends the capture: what was issued meanwhile, ready to be launched. */
t_graph *t_graph_end(wharf_stream stream);
void t_graph_launch(t_graph *graph, wharf_stream stream);
void t_graph_destroy(t_graph *graph);

#endif
