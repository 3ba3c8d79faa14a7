/* SPDX-License-Identifier: MIT */
/*
 * Events. A record gets a number when it is asked for; a wait takes the number
 * of the latest record at the time of the call and holds its stream until that
 * record was reached. Nothing recorded yet: the wait passes at once, as with
 * the real driver, and the caller is told off.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "futex.h"

bool fc_event_done(const fc_event_state *state, uint64_t seq)
{
    return !seq || __atomic_load_n(&state->seq[seq % FC_EVENT_RING],
                                   __ATOMIC_SEQ_CST) >= seq;
}

void fc_event_complete(fc_event *e, uint64_t seq)
{
    fc_event_state *state = e->state;
    uint64_t *at = &state->seq[seq % FC_EVENT_RING];
    uint64_t before = __atomic_load_n(at, __ATOMIC_SEQ_CST);

    __atomic_store_n(&state->ns[seq % FC_EVENT_RING], fc_now_ns(),
                     __ATOMIC_SEQ_CST);
    while (before < seq &&
           !__atomic_compare_exchange_n(at, &before, seq, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
    __atomic_add_fetch(&state->bell, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&state->waiters, __ATOMIC_SEQ_CST))
        futex_wake(&state->bell);
}

/* Without fc.lock. Gives up when the context goes down or the process that
 * issued the record is dead. */
void fc_event_wait(fc_ctx *ctx, fc_event *e, uint64_t seq)
{
    fc_event_state *state = e->state;

    for (;;) {
        uint32_t seen = __atomic_load_n(&state->bell, __ATOMIC_SEQ_CST);

        if (fc_event_done(state, seq) ||
            __atomic_load_n(&ctx->dying, __ATOMIC_SEQ_CST))
            return;
        __atomic_add_fetch(&state->waiters, 1, __ATOMIC_SEQ_CST);
        futex_wait(&state->bell, seen, 50000000);
        __atomic_sub_fetch(&state->waiters, 1, __ATOMIC_SEQ_CST);
        if (e->imported && !fc_event_done(state, seq) &&
            !fc_ipc_event_peer_alive(e->ipc))
            return;
    }
}

fc_event *fc_event_new(fc_ctx *ctx, unsigned flags)
{
    fc_event *e = fc_zalloc(sizeof *e);

    e->ctx = ctx->handle;
    e->phys = ctx->phys;
    e->flags = flags;
    e->refs = 1;
    return e;
}

void fc_event_unref(fc_event *e)
{
    if (!e || --e->refs)
        return;
    if (e->ipc)
        fc_ipc_event_free(e->ipc);
    else
        free(e->state);
    free(e->capture_deps);
    free(e);
}

void fc_event_destroy(fc_event *e, bool with_context)
{
    fc_handle_free(e->handle, with_context);
    fc_live(e->imported ? FC_L_IPC_EVENT : FC_L_EVENT, -1);
    if (e->ipc)
        fc_ipc_event_destroy(e->ipc, e->imported);
    fc_event_unref(e);
}

/* ---- Entry points ------------------------------------------------------- */

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |
                           CU_EVENT_INTERPROCESS;
    fc_ctx *ctx;
    CUresult r = fc_begin(__func__, FC_CTX, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!event || flags & ~known ||
        (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
        return fc_end(CUDA_ERROR_INVALID_VALUE);
    if (flags & CU_EVENT_INTERPROCESS && fc.config.caps & FC_CAP_NO_IPC_EVENT)
        return fc_end(CUDA_ERROR_NOT_SUPPORTED);
    fc_event *e = fc_event_new(ctx, flags);
    if (flags & CU_EVENT_INTERPROCESS)
        r = fc_ipc_event_create(&e->ipc, &e->state);
    else
        e->state = fc_zalloc(sizeof *e->state);
    if (r != CUDA_SUCCESS) {
        fc_event_unref(e);
        return fc_end(r);
    }
    e->handle = fc_handle_new(FC_K_EVENT, e);
    fc_live(FC_L_EVENT, 1);
    *event = (CUevent)(uintptr_t)e->handle;
    return fc_end(r);
}

static CUresult begin(const char *call, CUevent handle, fc_event **e)
{
    CUresult r = fc_begin(call, 0, NULL);
    void *found;

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_EVENT, (uintptr_t)handle, call, &found);
    *e = found;
    return r == CUDA_SUCCESS ? r : fc_end(r);
}

CUresult cuEventDestroy(CUevent handle)
{
    fc_event *e;
    CUresult r = begin(__func__, handle, &e);

    if (r != CUDA_SUCCESS)
        return r;
    fc_event_destroy(e, false);
    return fc_end(r);
}

static CUresult record_locked(const char *call, fc_event *e, CUstream stream,
                              unsigned flags)
{
    fc_stream *s;
    CUresult r = fc_stream_find(call, stream, &s);

    if (r != CUDA_SUCCESS)
        return r;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (e->phys != s->ctx->phys || (!e->imported && e->ctx != s->ctx->handle)) {
        fc_violate("%s: the event and the stream belong to different contexts",
                   call);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    bool external = flags & CU_EVENT_RECORD_EXTERNAL;
    if (s->capture && !external)
        return fc_capture_record(s, e);
    if (!s->capture && external)
        return CUDA_ERROR_ILLEGAL_STATE;
    fc_op *op = fc_op_new(FC_OP_RECORD, s->ctx->phys);
    e->refs++;
    op->u.event.event = e;
    bool captured = s->capture != NULL;
    if (!captured)
        op->u.event.seq =
            __atomic_add_fetch(&e->state->issued, 1, __ATOMIC_SEQ_CST);
    e->capture = NULL;
    return fc_submit(s, op);
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream,
                                unsigned int flags)
{
    fc_event *e;
    CUresult r = begin(__func__, handle, &e);

    if (r != CUDA_SUCCESS)
        return r;
    return fc_end(record_locked(__func__, e, stream, flags));
}

CUresult cuEventRecord(CUevent handle, CUstream stream)
{
    fc_event *e;
    CUresult r = begin(__func__, handle, &e);

    if (r != CUDA_SUCCESS)
        return r;
    return fc_end(record_locked(__func__, e, stream, 0));
}

static CUresult wait_locked(const char *call, fc_event *e, CUstream stream,
                            unsigned flags)
{
    fc_stream *s;
    CUresult r = fc_stream_find(call, stream, &s);
    bool external = flags & CU_EVENT_WAIT_EXTERNAL;

    if (r != CUDA_SUCCESS)
        return r;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!external && (s->capture || e->capture))
        return fc_capture_join(s, e);
    if (external && !s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    uint64_t seq = __atomic_load_n(&e->state->issued, __ATOMIC_SEQ_CST);
    if (!s->capture) {
        if (!seq)
            fc_violate("%s: the event was never recorded", call);
        if (fc_event_done(e->state, seq))
            return CUDA_SUCCESS;
    }
    fc_op *op = fc_op_new(FC_OP_WAIT, s->ctx->phys);
    e->refs++;
    op->u.event.event = e;
    op->u.event.seq = s->capture ? 0 : seq;
    return fc_submit(s, op);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent handle, unsigned int flags)
{
    fc_event *e;
    CUresult r = begin(__func__, handle, &e);

    if (r != CUDA_SUCCESS)
        return r;
    return fc_end(wait_locked(__func__, e, stream, flags));
}

CUresult cuEventQuery(CUevent handle)
{
    fc_event *e;
    CUresult r = begin(__func__, handle, &e);

    if (r != CUDA_SUCCESS)
        return r;
    if (e->capture)
        return fc_end(CUDA_ERROR_CAPTURED_EVENT);
    uint64_t seq = __atomic_load_n(&e->state->issued, __ATOMIC_SEQ_CST);
    return fc_end(fc_event_done(e->state, seq) ? CUDA_SUCCESS
                                               : CUDA_ERROR_NOT_READY);
}

CUresult cuEventSynchronize(CUevent handle)
{
    fc_event *e;
    CUresult r = begin(__func__, handle, &e);

    if (r != CUDA_SUCCESS)
        return r;
    if (e->capture)
        return fc_end(CUDA_ERROR_CAPTURED_EVENT);
    fc_ctx *ctx = fc_handle_peek(FC_K_CTX, e->ctx);
    uint64_t seq = __atomic_load_n(&e->state->issued, __ATOMIC_SEQ_CST);
    if (!ctx)
        return fc_end(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    e->refs++;
    pthread_mutex_unlock(&fc.lock);
    fc_event_wait(ctx, e, seq);
    pthread_mutex_lock(&fc.lock);
    fc_event_unref(e);
    return fc_end(fc.ruined);
}

/* When the latest record was reached: 0 never asked for, 1 not yet. */
static int reached(const fc_event *e, uint64_t *ns)
{
    uint64_t seq = __atomic_load_n(&e->state->issued, __ATOMIC_SEQ_CST);

    if (!seq)
        return 0;
    if (!fc_event_done(e->state, seq))
        return 1;
    *ns = __atomic_load_n(&e->state->ns[seq % FC_EVENT_RING], __ATOMIC_SEQ_CST);
    return 2;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    fc_event *a;
    void *found;
    uint64_t from = 0, to = 0;
    CUresult r = begin(__func__, start, &a);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_handle_get(FC_K_EVENT, (uintptr_t)end, __func__, &found);
    if (r != CUDA_SUCCESS)
        return fc_end(r);
    fc_event *b = found;
    if ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING)
        return fc_end(CUDA_ERROR_INVALID_HANDLE);
    int first = reached(a, &from), second = reached(b, &to);
    if (!first || !second)
        return fc_end(CUDA_ERROR_INVALID_HANDLE);
    if (first == 1 || second == 1)
        return fc_end(CUDA_ERROR_NOT_READY);
    *ms = (float)((double)((int64_t)(to - from)) / 1e6);
    return fc_end(CUDA_SUCCESS);
}

#undef cuEventElapsedTime
__attribute__((visibility("default"))) CUresult
cuEventElapsedTime(float *ms, CUevent start, CUevent end);
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(ms, start, end);
}
