/* SPDX-License-Identifier: MIT */
/*
 * What goes down with a context. Each object that its caller had not given
 * back is remembered for the leak report; using it later is answered like the
 * driver does and is no violation.
 */
#include <stdlib.h>

#include "fake.h"

static void orphan(fc_live_kind kind, long n)
{
    fc.orphans[kind] += n;
}

static void event_goes(void *object, void *user)
{
    fc_event *e = object;
    const fc_ctx *ctx = user;

    if (e->ctx != ctx->handle)
        return;
    orphan(e->imported ? FC_L_IPC_EVENT : FC_L_EVENT, 1);
    fc_event_destroy(e, true);
}

static void module_goes(void *object, void *user)
{
    const fc_ctx *ctx = user;

    if (!fc_module_of(object, ctx->handle))
        return;
    orphan(FC_L_MODULE, 1);
    fc_module_drop(object, true);
}

static void streams_go(fc_ctx *ctx)
{
    fc_stream *next;

    for (fc_stream *s = ctx->streams; s; s = next) {
        next = s->next;
        orphan(FC_L_STREAM, 1);
        fc_live(FC_L_STREAM, -1);
        fc_handle_free(s->handle, true);
        fc_stream_close(s);
    }
    ctx->streams = NULL;
    fc_stream_close(ctx->legacy);
    for (fc_stream *s = ctx->per_thread; s; s = next) {
        next = s->next;
        fc_stream_close(s);
    }
    ctx->per_thread = NULL;
}

static long allocations_in(const fc_region *r)
{
    long n = 0;

    if (!r->units)
        return 1;
    for (unsigned i = 0; i < FC_BLOCK / FC_UNIT; i++)
        n += r->units[i] && r->units[i] != UINT32_MAX;
    return n;
}

static void regions_go(fc_ctx *ctx)
{
    for (size_t i = 0; i < fc_region_count();) {
        fc_region *r = fc_region_nth(i);
        fc_live_kind kind;
        long n;

        if (r->ctx != ctx->handle || r->kind == FC_R_IPC) {
            i++;
            continue;
        }
        kind = r->kind == FC_R_HOST  ? FC_L_HOST_ALLOCATION
               : r->kind == FC_R_REG ? FC_L_HOST_REGISTRATION
                                     : FC_L_ALLOCATION;
        n = allocations_in(r);
        orphan(kind, n);
        fc_live(kind, (int)-n);
        fc_region_drop(r);
    }
}

void fc_ctx_destroy_objects(fc_ctx *ctx)
{
    /* Work that is still queued is dropped, not waited for. */
    __atomic_store_n(&ctx->dying, true, __ATOMIC_SEQ_CST);
    streams_go(ctx);
    fc_handle_each(FC_K_EVENT, event_goes, ctx);
    fc_handle_each(FC_K_MODULE, module_goes, ctx);
    orphan(FC_L_IPC_MEMORY, fc_ipc_close_context(ctx->handle));
    regions_go(ctx);
}
