/* SPDX-License-Identifier: MIT */
/*
 * Graphs. An executable graph runs its nodes one after the other, in an order
 * that its edges allow; branches do not run side by side.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

fc_graph *fc_graph_new(void)
{
    fc_graph *g = fc_zalloc(sizeof *g);

    g->handle = fc_handle_new(FC_K_GRAPH, g);
    fc_live(FC_L_GRAPH, 1);
    return g;
}

fc_node *fc_graph_add(fc_graph *g, fc_op *op, fc_node *const *deps, int count)
{
    fc_node *node = fc_zalloc(sizeof *node);

    node->op = op;
    node->deps = fc_zalloc((size_t)count * sizeof *node->deps);
    if (count)
        memcpy(node->deps, deps, (size_t)count * sizeof *node->deps);
    node->dep_count = count;
    node->handle = fc_handle_new(FC_K_NODE, node);
    g->nodes = realloc(g->nodes, (size_t)(g->count + 1) * sizeof *g->nodes);
    if (!g->nodes)
        abort();
    g->nodes[g->count++] = node;
    return node;
}

void fc_graph_free(fc_graph *g)
{
    for (int i = 0; i < g->count; i++) {
        fc_op_unref(g->nodes[i]->op);
        fc_handle_free(g->nodes[i]->handle, false);
        free(g->nodes[i]->deps);
        free(g->nodes[i]);
    }
    fc_handle_free(g->handle, false);
    fc_live(FC_L_GRAPH, -1);
    free(g->nodes);
    free(g);
}

void fc_exec_unref(fc_exec *x)
{
    if (--x->refs)
        return;
    for (int i = 0; i < x->count; i++)
        fc_op_unref(x->ops[i]);
    fc_stream_unref(x->last.stream);
    free(x->ops);
    free(x);
}

static bool ready(const fc_node *node)
{
    for (int i = 0; i < node->dep_count; i++)
        if (!node->deps[i]->mark)
            return false;
    return true;
}

static CUresult exec_order(const fc_graph *g, fc_exec *x)
{
    for (int i = 0; i < g->count; i++)
        g->nodes[i]->mark = false;
    while (x->count < g->count) {
        int before = x->count;

        for (int i = 0; i < g->count; i++) {
            fc_node *node = g->nodes[i];

            if (node->mark || !ready(node))
                continue;
            node->mark = true;
            node->op->refs++;
            x->ops[x->count++] = node->op;
        }
        if (x->count == before)
            return CUDA_ERROR_INVALID_VALUE; /* a cycle */
    }
    return CUDA_SUCCESS;
}

/* ---- Entry points ------------------------------------------------------- */

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    CUresult r = fc_begin(__func__, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    if (!graph || flags)
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    *graph = (CUgraph)(uintptr_t)fc_graph_new()->handle;
    return fc_end(r);
}

static CUresult begin(const char *call, CUgraph graph, fc_graph **g)
{
    void *found;
    CUresult r = fc_begin(call, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_GRAPH, (uintptr_t)graph, call, &found);
    *g = found;
    return r == CUDA_SUCCESS ? r : fc_end(r);
}

CUresult cuGraphDestroy(CUgraph graph)
{
    fc_graph *g;
    CUresult r = begin(__func__, graph, &g);

    if (r != CUDA_SUCCESS)
        return r;
    fc_graph_free(g);
    return fc_end(r);
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    fc_graph *g;
    CUresult r = begin(__func__, graph, &g);

    if (r != CUDA_SUCCESS)
        return r;
    if (nodes)
        for (size_t i = 0; i < *count; i++)
            nodes[i] = i < (size_t)g->count
                           ? (CUgraphNode)(uintptr_t)g->nodes[i]->handle
                           : NULL;
    *count = nodes && *count < (size_t)g->count ? *count : (size_t)g->count;
    return fc_end(r);
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    static const CUgraphNodeType types[] = {
        [FC_OP_EMPTY] = CU_GRAPH_NODE_TYPE_EMPTY,
        [FC_OP_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
        [FC_OP_SET] = CU_GRAPH_NODE_TYPE_MEMSET,
        [FC_OP_MEMOPS] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        [FC_OP_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        [FC_OP_WAIT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        [FC_OP_HOST] = CU_GRAPH_NODE_TYPE_HOST,
        [FC_OP_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
        [FC_OP_GRAPH] = CU_GRAPH_NODE_TYPE_GRAPH,
        [FC_OP_FREE] = CU_GRAPH_NODE_TYPE_MEM_FREE,
    };
    void *found;
    CUresult r = fc_begin(__func__, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_NODE, (uintptr_t)node, __func__, &found);
    if (r == CUDA_SUCCESS)
        *type = types[((fc_node *)found)->op->kind];
    return fc_end(r);
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph,
                            unsigned long long flags)
{
    fc_graph *g;
    CUresult r = begin(__func__, graph, &g);

    (void)flags;
    if (r != CUDA_SUCCESS)
        return r;
    fc_exec *x = fc_zalloc(sizeof *x);
    x->refs = 1;
    x->ops = fc_zalloc((size_t)g->count * sizeof *x->ops);
    r = exec_order(g, x);
    if (r != CUDA_SUCCESS) {
        fc_exec_unref(x);
        return fc_end(r);
    }
    x->handle = fc_handle_new(FC_K_EXEC, x);
    fc_live(FC_L_EXEC, 1);
    *exec = (CUgraphExec)(uintptr_t)x->handle;
    return fc_end(r);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = cuGraphInstantiate(exec, graph, params->flags);
    params->result_out = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                                           : CUDA_GRAPH_INSTANTIATE_ERROR;
    return r;
}

static CUresult exec_begin(const char *call, CUgraphExec exec, fc_exec **x)
{
    void *found;
    CUresult r = fc_begin(call, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_EXEC, (uintptr_t)exec, call, &found);
    *x = found;
    return r == CUDA_SUCCESS ? r : fc_end(r);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    fc_exec *x;
    CUresult r = exec_begin(__func__, exec, &x);

    if (r != CUDA_SUCCESS)
        return r;
    fc_handle_free(x->handle, false);
    fc_live(FC_L_EXEC, -1);
    fc_exec_unref(x);
    return fc_end(r);
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    fc_exec *x;
    fc_stream *s;
    CUresult r = exec_begin(__func__, exec, &x);

    if (r != CUDA_SUCCESS)
        return r;
    return fc_end(fc_stream_find(__func__, stream, &s));
}

static CUresult launch_locked(const char *call, fc_exec *x, CUstream stream)
{
    fc_stream *s;
    CUresult r = fc_stream_find(call, stream, &s);

    if (r != CUDA_SUCCESS)
        return r;
    fc_op *op = fc_op_new(FC_OP_GRAPH, s->ctx->phys);
    op->u.exec = x;
    x->refs++;
    if (s->capture)
        return fc_submit(s, op);
    if (x->last.stream && x->last.stream->done < x->last.ticket) {
        op->deps = fc_zalloc(sizeof *op->deps);
        op->deps[op->dep_count++] = x->last;
        x->last.stream->refs++;
    }
    r = fc_submit(s, op);
    if (r != CUDA_SUCCESS)
        return r;
    s->refs++;
    fc_stream_unref(x->last.stream);
    x->last = (fc_point){s, s->submitted};
    return r;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    fc_exec *x;
    CUresult r = exec_begin(__func__, exec, &x);

    if (r != CUDA_SUCCESS)
        return r;
    return fc_end(launch_locked(__func__, x, stream));
}
