/* SPDX-License-Identifier: MIT */
/*
 * Stream memory operations. A wait sleeps on the doorbell of the allocation,
 * which everybody who writes to it rings; host memory has none and is looked
 * at from time to time.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake.h"
#include "futex.h"

void fc_bell_wait(fc_phys *mem, uint32_t seen, int round)
{
    uint64_t pause = round < 8 ? 20000u : round < 64 ? 200000u : 1000000u;

    if (round < 0) { /* the other end: wake */
        futex_wake(&mem->header->doorbell);
        return;
    }
    if (!mem || mem->phys < 0) {
        uint32_t never = 0;

        if (round < 2)
            sched_yield();
        else
            futex_wait(&never, 0, pause);
        return;
    }
    __atomic_add_fetch(&mem->header->waiters, 1, __ATOMIC_SEQ_CST);
    futex_wait(&mem->header->doorbell, seen, 20000000);
    __atomic_sub_fetch(&mem->header->waiters, 1, __ATOMIC_SEQ_CST);
}

static bool passes(uint64_t word, uint64_t value, unsigned how, bool wide)
{
    switch (how & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return wide ? (int64_t)(word - value) >= 0
                    : (int32_t)((uint32_t)word - (uint32_t)value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return wide ? word == value : (uint32_t)word == (uint32_t)value;
    case CU_STREAM_WAIT_VALUE_AND:
        return wide ? (word & value) != 0
                    : ((uint32_t)word & (uint32_t)value) != 0;
    default:
        return wide ? ~(word | value) != 0
                    : ~((uint32_t)word | (uint32_t)value) != 0;
    }
}

static uint64_t load(const fc_pin *pin, bool wide)
{
    if (pin->lost)
        return 0;
    if (wide)
        return __atomic_load_n((uint64_t *)(void *)pin->at, __ATOMIC_ACQUIRE);
    return __atomic_load_n((uint32_t *)(void *)pin->at, __ATOMIC_ACQUIRE);
}

static bool run_wait(fc_ctx *ctx, int phys,
                     const struct CUstreamMemOpWaitValueParams_st *p, bool wide)
{
    fc_pin pin;

    if (!fc_pin_get(&pin, phys, p->address, wide ? 8 : 4, false, FC_MEMOP))
        return false;
    for (int round = 0;; round++) {
        uint32_t seen = pin.mem ? __atomic_load_n(&pin.mem->header->doorbell,
                                                  __ATOMIC_SEQ_CST)
                                : 0;

        if (passes(load(&pin, wide), wide ? p->value64 : p->value, p->flags,
                   wide) ||
            __atomic_load_n(&ctx->dying, __ATOMIC_SEQ_CST))
            break;
        fc_bell_wait(pin.mem, seen, round);
    }
    fc_pin_put(&pin, false);
    return true;
}

static bool
run_write(int phys, const struct CUstreamMemOpWriteValueParams_st *p, bool wide)
{
    fc_pin pin;

    if (!fc_pin_get(&pin, phys, p->address, wide ? 8 : 4, true, FC_MEMOP))
        return false;
    if (pin.lost)
        ;
    else if (wide)
        __atomic_store_n((uint64_t *)(void *)pin.at, p->value64,
                         __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)(void *)pin.at, p->value,
                         __ATOMIC_RELEASE);
    fc_pin_put(&pin, true);
    return true;
}

void fc_memops_run(fc_ctx *ctx, const fc_op *op)
{
    static uint32_t barrier;
    bool fine = true;

    for (unsigned i = 0; i < op->u.memops.count && fine; i++) {
        const CUstreamBatchMemOpParams *p = &op->u.memops.list[i];

        switch (p->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            fine = run_wait(ctx, op->phys, &p->waitValue,
                            p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            fine = run_write(op->phys, &p->writeValue,
                             p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64);
            break;
        default:
            /* A full fence, in words that the thread sanitizer knows. */
            __atomic_fetch_add(&barrier, 1, __ATOMIC_SEQ_CST);
            break;
        }
    }
}

/* ---- Entry points ------------------------------------------------------- */

static CUresult address_check(const char *call, uint64_t at, unsigned bytes)
{
    if (at % bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fc_va_is_device(at) && !fc_region_at(at))
        return CUDA_ERROR_INVALID_VALUE; /* not registered */
    return fc_va_check(call, at, bytes) ? CUDA_SUCCESS
                                        : CUDA_ERROR_INVALID_VALUE;
}

static CUresult param_check(const char *call, const CUstreamBatchMemOpParams *p)
{
    unsigned flags = p->waitValue.flags;

    switch (p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        if (flags & ~(3u | (unsigned)CU_STREAM_WAIT_VALUE_FLUSH))
            return CUDA_ERROR_INVALID_VALUE;
        return address_check(
            call, p->waitValue.address,
            p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ? 8 : 4);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        if (flags & ~1u)
            return CUDA_ERROR_INVALID_VALUE;
        return address_check(
            call, p->writeValue.address,
            p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? 8 : 4);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult fc_memops_op(const char *call, fc_ctx *ctx,
                      const CUstreamBatchMemOpParams *list, unsigned count,
                      fc_op **made)
{
    if (fc.config.caps & FC_CAP_NO_MEMOPS)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!list || !count || count > 256)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        CUresult r = param_check(call, &list[i]);

        if (r != CUDA_SUCCESS)
            return r;
    }
    fc_op *op = fc_op_new(FC_OP_MEMOPS, ctx->phys);
    op->u.memops.count = count;
    op->u.memops.list = fc_zalloc(count * sizeof *list);
    memcpy(op->u.memops.list, list, count * sizeof *list);
    *made = op;
    return CUDA_SUCCESS;
}

static CUresult batch(const char *call, CUstream stream, unsigned count,
                      const CUstreamBatchMemOpParams *list)
{
    fc_ctx *ctx;
    fc_stream *s;
    fc_op *op;
    CUresult r = fc_begin(call, FC_CTX, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    r = fc_stream_mine(call, stream, ctx, &s);
    if (r == CUDA_SUCCESS)
        r = fc_memops_op(call, ctx, list, count, &op);
    if (r == CUDA_SUCCESS)
        r = fc_submit(s, op);
    return fc_end(r);
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
                            CUstreamBatchMemOpParams *list, unsigned int flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE
                 : batch(__func__, stream, count, list);
}

static CUresult one(const char *call, CUstream stream, uint64_t at,
                    uint64_t value, unsigned flags, CUstreamBatchMemOpType what)
{
    CUstreamBatchMemOpParams p;

    memset(&p, 0, sizeof p);
    p.waitValue.operation = what; /* writeValue has the same shape */
    p.waitValue.address = at;
    p.waitValue.value64 = value;
    p.waitValue.flags = flags;
    return batch(call, stream, 1, &p);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr at, cuuint32_t value,
                              unsigned int flags)
{
    return one(__func__, stream, at, value, flags,
               CU_STREAM_MEM_OP_WRITE_VALUE_32);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr at, cuuint64_t value,
                              unsigned int flags)
{
    return one(__func__, stream, at, value, flags,
               CU_STREAM_MEM_OP_WRITE_VALUE_64);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr at, cuuint32_t value,
                             unsigned int flags)
{
    return one(__func__, stream, at, value, flags,
               CU_STREAM_MEM_OP_WAIT_VALUE_32);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr at, cuuint64_t value,
                             unsigned int flags)
{
    return one(__func__, stream, at, value, flags,
               CU_STREAM_MEM_OP_WAIT_VALUE_64);
}
