/* SPDX-License-Identifier: MIT */
/*
 * Stream capture: instead of running, operations become nodes of a graph. A
 * stream that waits for an event recorded in a capture joins it.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static fc_capture *captures;
static uint64_t capture_ids;

static fc_capture *capture_find(uint64_t id)
{
    for (fc_capture *c = captures; c; c = c->next)
        if (c->id == id)
            return c;
    return NULL;
}

static void deps_set(fc_node ***deps, int *count, fc_node *const *from, int n)
{
    fc_node **fresh = fc_zalloc((size_t)n * sizeof *fresh);

    for (int i = 0; i < n; i++)
        fresh[i] = from[i];
    free(*deps);
    *deps = fresh;
    *count = n;
}

CUresult fc_capture_add(fc_stream *s, fc_op *op)
{
    if (s->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    fc_node *node = fc_graph_add(s->capture->graph, op, s->capture_deps,
                                 s->capture_dep_count);
    deps_set(&s->capture_deps, &s->capture_dep_count, &node, 1);
    return CUDA_SUCCESS;
}

CUresult fc_capture_record(fc_stream *s, fc_event *e)
{
    if (s->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (e->ipc) { /* needs the external flag */
        s->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    e->capture = s->capture;
    e->capture_id = s->capture->id;
    deps_set(&e->capture_deps, &e->capture_dep_count, s->capture_deps,
             s->capture_dep_count);
    return CUDA_SUCCESS;
}

CUresult fc_capture_join(fc_stream *s, fc_event *e)
{
    fc_capture *c = e->capture ? capture_find(e->capture_id) : NULL;

    if (s->capture && s->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!e->capture) {
        s->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (!c)
        return CUDA_ERROR_CAPTURED_EVENT; /* that capture is over */
    if (s->capture && s->capture != c) {
        s->capture->invalid = c->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!s->capture) {
        if (s->legacy)
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        s->capture = c;
        c->streams++;
        deps_set(&s->capture_deps, &s->capture_dep_count, e->capture_deps,
                 e->capture_dep_count);
        return CUDA_SUCCESS;
    }
    int n = s->capture_dep_count + e->capture_dep_count;
    fc_node **both = fc_zalloc((size_t)n * sizeof *both);
    int used = s->capture_dep_count;
    for (int i = 0; i < used; i++)
        both[i] = s->capture_deps[i];
    for (int i = 0; i < e->capture_dep_count; i++) {
        bool there = false;

        for (int k = 0; k < used; k++)
            there |= both[k] == e->capture_deps[i];
        if (!there)
            both[used++] = e->capture_deps[i];
    }
    deps_set(&s->capture_deps, &s->capture_dep_count, both, used);
    free(both);
    return CUDA_SUCCESS;
}

CUresult fc_capture_guard(const char *call)
{
    CUstreamCaptureMode mine = *fc_thread_mode();
    bool hit = false;

    (void)call;
    if (mine == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    for (fc_capture *c = captures; c; c = c->next) {
        bool own = pthread_equal(c->thread, pthread_self());

        if ((own && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED) ||
            (mine == CU_STREAM_CAPTURE_MODE_GLOBAL &&
             c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL)) {
            c->invalid = true;
            hit = true;
        }
    }
    return hit ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

void fc_capture_break(fc_stream *s)
{
    if (s->capture)
        s->capture->invalid = true;
}

static void leave(void *object, void *user)
{
    fc_stream *s = object;

    if (s->capture != user)
        return;
    s->capture = NULL;
    free(s->capture_deps);
    s->capture_deps = NULL;
    s->capture_dep_count = 0;
}

/* Everybody leaves; the graph is the caller's now. */
static fc_graph *capture_end(fc_capture *c)
{
    fc_graph *g = c->graph;

    leave(c->origin, c);
    fc_handle_each(FC_K_STREAM, leave, c);
    for (fc_capture **at = &captures; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    free(c);
    return g;
}

/* A stream goes away in the middle of it. */
void fc_capture_drop(fc_stream *s)
{
    fc_capture *c = s->capture;

    c->invalid = true;
    if (c->origin != s) {
        leave(s, c);
        return;
    }
    bool own = c->own_graph;
    fc_graph *g = capture_end(c);
    if (own)
        fc_graph_free(g);
}

static void mark_reached(fc_node *node)
{
    if (node->mark)
        return;
    node->mark = true;
    for (int i = 0; i < node->dep_count; i++)
        mark_reached(node->deps[i]);
}

typedef struct join_check {
    const fc_capture *capture;
    bool unjoined;
} join_check;

static void check_joined(void *object, void *user)
{
    const fc_stream *s = object;
    join_check *j = user;

    if (s->capture != j->capture || s == j->capture->origin)
        return;
    for (int i = 0; i < s->capture_dep_count; i++)
        if (!s->capture_deps[i]->mark)
            j->unjoined = true;
}

/* ---- Entry points ------------------------------------------------------- */

static CUresult begin_capture(const char *call, CUstream stream, fc_graph *into,
                              CUstreamCaptureMode mode)
{
    fc_stream *s;
    CUresult r = fc_stream_find(call, stream, &s);

    if (r != CUDA_SUCCESS)
        return r;
    if (s->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    fc_capture *c = fc_zalloc(sizeof *c);
    c->id = ++capture_ids;
    c->mode = mode;
    c->thread = pthread_self();
    c->origin = s;
    c->graph = into ? into : fc_graph_new();
    c->own_graph = !into;
    c->streams = 1;
    c->next = captures;
    captures = c;
    s->capture = c;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    CUresult r = fc_begin(__func__, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    return fc_end(begin_capture(__func__, stream, NULL, mode));
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                     const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *edges, size_t count,
                                     CUstreamCaptureMode mode)
{
    void *g;
    CUresult r = fc_begin(__func__, 0, NULL);

    (void)dependencies;
    (void)edges;
    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_GRAPH, (uintptr_t)graph, __func__, &g);
    if (r == CUDA_SUCCESS && count)
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS)
        r = begin_capture(__func__, stream, g, mode);
    return fc_end(r);
}

static CUresult end_locked(fc_stream *s, CUgraph *graph)
{
    fc_capture *c = s->capture;
    join_check j = {c, false};

    *graph = NULL;
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (c->origin != s) {
        c->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(c->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    for (int i = 0; i < c->graph->count; i++)
        c->graph->nodes[i]->mark = false;
    for (int i = 0; i < s->capture_dep_count; i++)
        mark_reached(s->capture_deps[i]);
    fc_handle_each(FC_K_STREAM, check_joined, &j);
    bool invalid = c->invalid, own = c->own_graph;
    fc_graph *g = capture_end(c);
    if (!invalid && !j.unjoined) {
        *graph = (CUgraph)(uintptr_t)g->handle;
        return CUDA_SUCCESS;
    }
    if (own)
        fc_graph_free(g);
    return invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                   : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    fc_stream *s;
    CUresult r = fc_begin(__func__, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_stream_find(__func__, stream, &s);
    if (r == CUDA_SUCCESS)
        r = end_locked(s, graph);
    return fc_end(r);
}

static CUstreamCaptureStatus status_of(const fc_stream *s)
{
    if (!s->capture)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                               : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static bool blocks_legacy(const fc_stream *s)
{
    for (fc_capture *c = captures; c; c = c->next)
        if (s->legacy && c->origin->ctx == s->ctx &&
            !(c->origin->flags & CU_STREAM_NON_BLOCKING))
            return true;
    return false;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    fc_stream *s;
    CUresult r = fc_begin(__func__, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_stream_find(__func__, stream, &s);
    if (r == CUDA_SUCCESS && blocks_legacy(s))
        r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (r == CUDA_SUCCESS)
        *status = status_of(s);
    return fc_end(r);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status,
                                cuuint64_t *id, CUgraph *graph,
                                const CUgraphNode **dependencies,
                                const CUgraphEdgeData **edges, size_t *count)
{
    static __thread CUgraphNode list[64];
    fc_stream *s;
    CUresult r = fc_begin(__func__, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_stream_find(__func__, stream, &s);
    if (r == CUDA_SUCCESS && blocks_legacy(s))
        r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    *status = status_of(s);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return fc_end(r);
    if (id)
        *id = s->capture->id;
    if (graph)
        *graph = (CUgraph)(uintptr_t)s->capture->graph->handle;
    int n = s->capture_dep_count < 64 ? s->capture_dep_count : 64;
    for (int i = 0; i < n; i++)
        list[i] = (CUgraphNode)(uintptr_t)s->capture_deps[i]->handle;
    if (dependencies)
        *dependencies = list;
    if (edges)
        *edges = NULL;
    if (count)
        *count = (size_t)n;
    return fc_end(r);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode *mine = fc_thread_mode();

    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = *mine;
    *mine = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
