/* SPDX-License-Identifier: MIT */
/*
 * Streams: queues of operations, each with a thread that starts with the first
 * of them. The legacy default stream and the blocking streams of a context
 * order one another by points (stream, ticket) that an operation waits for.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

/* ---- Operations --------------------------------------------------------- */

fc_op *fc_op_new(fc_op_kind kind, int phys)
{
    fc_op *op = fc_zalloc(sizeof *op);

    op->kind = kind;
    op->phys = phys;
    op->refs = 1;
    return op;
}

static void op_drop_deps(fc_op *op)
{
    for (int i = 0; i < op->dep_count; i++)
        fc_stream_unref(op->deps[i].stream);
    free(op->deps);
    op->deps = NULL;
    op->dep_count = 0;
}

void fc_op_unref(fc_op *op)
{
    if (!op || --op->refs)
        return;
    op_drop_deps(op);
    switch (op->kind) {
    case FC_OP_COPY:
        free(op->u.copy.staged);
        break;
    case FC_OP_MEMOPS:
        free(op->u.memops.list);
        break;
    case FC_OP_RECORD:
    case FC_OP_WAIT:
        fc_event_unref(op->u.event.event);
        break;
    case FC_OP_KERNEL:
        free(op->u.kernel.params);
        free(op->u.kernel.values);
        break;
    case FC_OP_GRAPH:
        fc_exec_unref(op->u.exec);
        break;
    default:
        break;
    }
    free(op);
}

static void op_depend(fc_op *op, fc_stream *s)
{
    if (!fc_stream_busy(s))
        return;
    op->deps =
        realloc(op->deps, (size_t)(op->dep_count + 1) * sizeof *op->deps);
    if (!op->deps)
        abort();
    s->refs++;
    op->deps[op->dep_count++] = (fc_point){s, s->submitted};
}

static void run_host(const fc_op *op)
{
    if (op->u.host.fn)
        op->u.host.fn(op->u.host.user);
    else
        op->u.host.callback(op->u.host.stream, CUDA_SUCCESS, op->u.host.user);
}

static void run_record(const fc_op *op)
{
    fc_event *e = op->u.event.event;
    uint64_t seq = op->u.event.seq;

    if (!seq) /* in a graph: issued now */
        seq = __atomic_add_fetch(&e->state->issued, 1, __ATOMIC_SEQ_CST);
    fc_event_complete(e, seq);
}

static void run_wait(fc_ctx *ctx, const fc_op *op)
{
    fc_event *e = op->u.event.event;
    uint64_t seq = op->u.event.seq;

    if (!seq) {
        seq = __atomic_load_n(&e->state->issued, __ATOMIC_SEQ_CST);
        if (!seq)
            fc_violate("a graph waits for an event that was never recorded");
    }
    fc_event_wait(ctx, e, seq);
}

void fc_op_run(fc_ctx *ctx, fc_op *op)
{
    switch (op->kind) {
    case FC_OP_EMPTY:
        break;
    case FC_OP_COPY:
        fc_copy_run(op->phys, &op->u.copy);
        break;
    case FC_OP_SET:
        fc_set_run(op);
        break;
    case FC_OP_MEMOPS:
        fc_memops_run(ctx, op);
        break;
    case FC_OP_RECORD:
        run_record(op);
        break;
    case FC_OP_WAIT:
        run_wait(ctx, op);
        break;
    case FC_OP_HOST:
        run_host(op);
        break;
    case FC_OP_KERNEL:
        fc_kernel_run(ctx, op);
        break;
    case FC_OP_GRAPH:
        for (int i = 0; i < op->u.exec->count; i++)
            fc_op_run(ctx, op->u.exec->ops[i]);
        break;
    case FC_OP_FREE:
        fc_pool_free_now(op->u.va);
        break;
    }
}

/* ---- The thread --------------------------------------------------------- */

static void wait_deps(fc_stream *s, const fc_op *op)
{
    for (int i = 0; i < op->dep_count; i++) {
        fc_stream *d = op->deps[i].stream;

        while (d->done < op->deps[i].ticket && !s->ctx->dying)
            pthread_cond_wait(&d->changed, &fc.lock);
    }
}

static void *stream_main(void *arg)
{
    fc_stream *s = arg;

    pthread_mutex_lock(&fc.lock);
    for (;;) {
        while (!s->head && !s->closing)
            pthread_cond_wait(&s->changed, &fc.lock);
        fc_op *op = s->head;
        if (!op)
            break;
        s->head = op->next;
        if (!s->head)
            s->tail = NULL;
        wait_deps(s, op);
        bool dead = s->ctx->dying;
        pthread_mutex_unlock(&fc.lock);
        if (!dead)
            fc_op_run(s->ctx, op);
        pthread_mutex_lock(&fc.lock);
        s->done = op->ticket;
        fc_op_unref(op);
        pthread_cond_broadcast(&s->changed);
    }
    s->running = false;
    fc_stream_unref(s);
    pthread_mutex_unlock(&fc.lock);
    return NULL;
}

static CUresult stream_start(fc_stream *s)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t every, old;

    if (s->running)
        return CUDA_SUCCESS;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 1u << 20);
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &old);
    s->running = true;
    s->refs++;
    int e = pthread_create(&thread, &attr, stream_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (!e)
        return CUDA_SUCCESS;
    s->running = false;
    s->refs--;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- Streams ------------------------------------------------------------ */

fc_stream *fc_stream_new(fc_ctx *ctx, unsigned flags, int priority)
{
    static uint64_t ids;
    fc_stream *s = fc_zalloc(sizeof *s);

    s->ctx = ctx;
    s->refs = 1;
    s->flags = flags;
    s->priority = priority;
    s->id = ++ids;
    pthread_cond_init(&s->changed, NULL);
    return s;
}

void fc_stream_unref(fc_stream *s)
{
    if (!s || --s->refs)
        return;
    pthread_cond_destroy(&s->changed);
    free(s->capture_deps);
    free(s);
}

bool fc_stream_busy(const fc_stream *s)
{
    return s->done < s->submitted;
}

/* No more work comes; what is queued still runs. Drops the caller's reference.
 */
void fc_stream_close(fc_stream *s)
{
    if (s->capture)
        fc_capture_drop(s);
    s->closing = true;
    pthread_cond_broadcast(&s->changed);
    fc_stream_unref(s);
}

static void order_after_others(fc_stream *s, fc_op *op)
{
    fc_ctx *ctx = s->ctx;

    if (!s->legacy) {
        if (!(s->flags & CU_STREAM_NON_BLOCKING))
            op_depend(op, ctx->legacy);
        return;
    }
    for (fc_stream *o = ctx->per_thread; o; o = o->next)
        op_depend(op, o);
    for (fc_stream *o = ctx->streams; o; o = o->next)
        if (!(o->flags & CU_STREAM_NON_BLOCKING))
            op_depend(op, o);
}

static bool captures_block_legacy(const fc_stream *s)
{
    if (!s->legacy)
        return false;
    for (fc_stream *o = s->ctx->streams; o; o = o->next)
        if (o->capture && !(o->flags & CU_STREAM_NON_BLOCKING))
            return true;
    return false;
}

CUresult fc_submit(fc_stream *s, fc_op *op)
{
    CUresult r;

    if (s->capture) {
        r = fc_capture_add(s, op);
        if (r != CUDA_SUCCESS)
            fc_op_unref(op);
        return r;
    }
    if (captures_block_legacy(s)) {
        for (fc_stream *o = s->ctx->streams; o; o = o->next)
            fc_capture_break(o);
        fc_op_unref(op);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    r = stream_start(s);
    if (r != CUDA_SUCCESS) {
        fc_op_unref(op);
        return r;
    }
    order_after_others(s, op);
    op->ticket = ++s->submitted;
    if (s->tail)
        s->tail->next = op;
    else
        s->head = op;
    s->tail = op;
    pthread_cond_broadcast(&s->changed);
    return CUDA_SUCCESS;
}

CUresult fc_stream_drain(fc_stream *s)
{
    uint64_t ticket = s->submitted;

    s->refs++;
    while (s->done < ticket && !s->ctx->dying)
        pthread_cond_wait(&s->changed, &fc.lock);
    bool dead = s->ctx->dying;
    fc_stream_unref(s);
    if (fc.ruined)
        return fc.ruined;
    return dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

static fc_stream *first_busy(fc_ctx *ctx)
{
    if (fc_stream_busy(ctx->legacy))
        return ctx->legacy;
    for (fc_stream *s = ctx->per_thread; s; s = s->next)
        if (fc_stream_busy(s))
            return s;
    for (fc_stream *s = ctx->streams; s; s = s->next)
        if (fc_stream_busy(s))
            return s;
    return NULL;
}

CUresult fc_ctx_drain(fc_ctx *ctx)
{
    CUresult r = fc.ruined;

    while (r == CUDA_SUCCESS && !ctx->dying) {
        fc_stream *s = first_busy(ctx);

        if (!s)
            break;
        r = fc_stream_drain(s);
    }
    return r;
}

/* Under fc.lock. No pthread_t, which later threads have again. */
static fc_stream *per_thread(fc_ctx *ctx)
{
    static uint64_t last;
    static __thread uint64_t user;
    fc_stream *s = ctx->per_thread;

    if (user == 0)
        user = ++last;
    while (s && s->user != user)
        s = s->next;
    if (s)
        return s;
    s = fc_stream_new(ctx, CU_STREAM_DEFAULT, 0);
    s->user = user;
    s->next = ctx->per_thread;
    ctx->per_thread = s;
    return s;
}

CUresult fc_stream_find(const char *call, CUstream handle, fc_stream **stream)
{
    fc_ctx *ctx = fc_ctx_current();
    void *found;

    if ((uintptr_t)handle > 2) {
        CUresult r =
            fc_handle_get(FC_K_STREAM, (uintptr_t)handle, call, &found);

        *stream = found;
        return r;
    }
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    *stream = handle == CU_STREAM_PER_THREAD ? per_thread(ctx) : ctx->legacy;
    return CUDA_SUCCESS;
}

CUresult fc_stream_mine(const char *call, CUstream handle, fc_ctx *ctx,
                        fc_stream **stream)
{
    CUresult r = fc_stream_find(call, handle, stream);

    if (r == CUDA_SUCCESS && (*stream)->ctx != ctx) {
        fc_violate("%s: the stream belongs to another context than the "
                   "current one",
                   call);
        r = CUDA_ERROR_INVALID_HANDLE;
    }
    return r;
}
