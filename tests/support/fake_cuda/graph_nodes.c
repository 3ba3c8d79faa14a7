/* SPDX-License-Identifier: MIT */
/*
 * Entry points: graphs built node by node.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

/* Finds the graph and the nodes to depend on; the lock is held on success.
 * *deps is from malloc. */
static CUresult add_begin(const char *call, CUgraph graph,
                          const CUgraphNode *from, size_t count, fc_graph **g,
                          fc_node ***deps)
{
    void *found;
    CUresult r = fc_begin(call, 0, NULL);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_GRAPH, (uintptr_t)graph, call, &found);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    *g = found;
    *deps = fc_zalloc(count * sizeof **deps);
    for (size_t i = 0; i < count; i++) {
        r = fc_handle_get(FC_K_NODE, (uintptr_t)from[i], call, &found);
        if (r != CUDA_SUCCESS) {
            free(*deps);
            return fc_end(r);
        }
        (*deps)[i] = found;
    }
    return r;
}

static CUresult add_end(CUgraphNode *node, fc_graph *g, fc_op *op,
                        fc_node **deps, size_t count)
{
    fc_node *made = fc_graph_add(g, op, deps, (int)count);

    free(deps);
    *node = (CUgraphNode)(uintptr_t)made->handle;
    return fc_end(CUDA_SUCCESS);
}

static CUresult add_failed(CUresult r, fc_node **deps)
{
    free(deps);
    return fc_end(r);
}

static CUresult ctx_of(const char *call, CUcontext handle, fc_ctx **ctx)
{
    void *found = fc_ctx_current();

    if (handle) {
        CUresult r = fc_handle_get(FC_K_CTX, (uintptr_t)handle, call, &found);

        if (r != CUDA_SUCCESS)
            return r;
    }
    *ctx = found;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph,
                             const CUgraphNode *from, size_t count)
{
    fc_graph *g;
    fc_node **deps;
    CUresult r = add_begin(__func__, graph, from, count, &g, &deps);

    if (r != CUDA_SUCCESS)
        return r;
    return add_end(node, g, fc_op_new(FC_OP_EMPTY, 0), deps, count);
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph,
                              const CUgraphNode *from, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS *p)
{
    fc_graph *g;
    fc_node **deps;
    fc_ctx *ctx;
    fc_op *op;
    CUlaunchConfig c;
    CUresult r = add_begin(__func__, graph, from, count, &g, &deps);

    if (r != CUDA_SUCCESS)
        return r;
    r = ctx_of(__func__, p->ctx, &ctx);
    if (r != CUDA_SUCCESS)
        return add_failed(r, deps);
    memset(&c, 0, sizeof c);
    c.gridDimX = p->gridDimX;
    c.gridDimY = p->gridDimY;
    c.gridDimZ = p->gridDimZ;
    c.blockDimX = p->blockDimX;
    c.blockDimY = p->blockDimY;
    c.blockDimZ = p->blockDimZ;
    c.sharedMemBytes = p->sharedMemBytes;
    uint64_t f = p->func ? (uintptr_t)p->func : (uintptr_t)p->kern;
    const fc_kernel *k = fc_function_kernel(f, __func__, &r);
    if (r == CUDA_SUCCESS)
        r = fc_kernel_op(&c, k, ctx->phys, p->kernelParams, p->extra, &op);
    if (r != CUDA_SUCCESS)
        return add_failed(r, deps);
    return add_end(node, g, op, deps, count);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph,
                              const CUgraphNode *from, size_t count,
                              const CUDA_MEMCPY3D *p, CUcontext handle)
{
    fc_graph *g;
    fc_node **deps;
    fc_ctx *ctx;
    CUresult r = add_begin(__func__, graph, from, count, &g, &deps);

    if (r != CUDA_SUCCESS)
        return r;
    r = ctx_of(__func__, handle, &ctx);
    if (r != CUDA_SUCCESS)
        return add_failed(r, deps);
    fc_op *op = fc_op_new(FC_OP_COPY, ctx->phys);
    r = fc_copy_from_3d(p, &op->u.copy);
    if (r != CUDA_SUCCESS) {
        fc_op_unref(op);
        return add_failed(r, deps);
    }
    return add_end(node, g, op, deps, count);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph,
                              const CUgraphNode *from, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS *p,
                              CUcontext handle)
{
    fc_graph *g;
    fc_node **deps;
    fc_ctx *ctx;
    CUresult r = add_begin(__func__, graph, from, count, &g, &deps);

    if (r != CUDA_SUCCESS)
        return r;
    r = ctx_of(__func__, handle, &ctx);
    if (r != CUDA_SUCCESS)
        return add_failed(r, deps);
    fc_op *op = fc_op_new(FC_OP_SET, ctx->phys);
    op->u.set.dst = p->dst;
    op->u.set.pitch = p->pitch;
    op->u.set.width = p->width;
    op->u.set.height = p->height;
    op->u.set.value = p->value;
    op->u.set.element = p->elementSize;
    return add_end(node, g, op, deps, count);
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph,
                            const CUgraphNode *from, size_t count,
                            const CUDA_HOST_NODE_PARAMS *p)
{
    fc_graph *g;
    fc_node **deps;
    CUresult r = add_begin(__func__, graph, from, count, &g, &deps);

    if (r != CUDA_SUCCESS)
        return r;
    fc_op *op = fc_op_new(FC_OP_HOST, 0);
    op->u.host.fn = p->fn;
    op->u.host.user = p->userData;
    return add_end(node, g, op, deps, count);
}

static CUresult add_event(const char *call, fc_op_kind kind, CUgraphNode *node,
                          CUgraph graph, const CUgraphNode *from, size_t count,
                          CUevent event)
{
    fc_graph *g;
    fc_node **deps;
    void *found;
    CUresult r = add_begin(call, graph, from, count, &g, &deps);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_EVENT, (uintptr_t)event, call, &found);
    if (r != CUDA_SUCCESS)
        return add_failed(r, deps);
    fc_event *e = found;
    fc_op *op = fc_op_new(kind, e->phys);
    e->refs++;
    op->u.event.event = e;
    return add_end(node, g, op, deps, count);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph,
                                   const CUgraphNode *from, size_t count,
                                   CUevent event)
{
    return add_event(__func__, FC_OP_RECORD, node, graph, from, count, event);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph,
                                 const CUgraphNode *from, size_t count,
                                 CUevent event)
{
    return add_event(__func__, FC_OP_WAIT, node, graph, from, count, event);
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *node, CUgraph graph,
                                  const CUgraphNode *from, size_t count,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    fc_graph *g;
    fc_node **deps;
    fc_ctx *ctx;
    fc_op *op;
    CUresult r = add_begin(__func__, graph, from, count, &g, &deps);

    if (r != CUDA_SUCCESS)
        return r;
    r = ctx_of(__func__, p->ctx, &ctx);
    if (r == CUDA_SUCCESS)
        r = fc_memops_op(__func__, ctx, p->paramArray, p->count, &op);
    if (r != CUDA_SUCCESS)
        return add_failed(r, deps);
    return add_end(node, g, op, deps, count);
}
