/* SPDX-License-Identifier: MIT */
/*
 * Events, in one process and between two.
 */
#include "t_fake.h"

#define SHARED (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)

static CUdeviceptr flag_new(void)
{
    CUdeviceptr p;

    OK(d.cuMemAlloc(&p, 4));
    OK(d.cuMemcpyHtoD(p, &(int){0}, 4));
    return p;
}

static void local(int unused)
{
    CUstream a, b;
    CUevent e, t0, t1;
    CUdeviceptr flag;
    float ms;

    (void)unused;
    t_start(0);
    flag = flag_new();
    OK(d.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(d.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(d.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(d.cuEventQuery(e)); /* never recorded: done */
    BAD(CUDA_SUCCESS, "never recorded", d.cuStreamWaitEvent(b, e, 0));
    OK(d.cuStreamWaitValue32(a, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(d.cuEventRecord(e, a));
    OK(d.cuStreamWaitEvent(b, e, 0));
    EQ(CUDA_ERROR_NOT_READY, d.cuEventQuery(e));
    EQ(CUDA_ERROR_NOT_READY, d.cuStreamQuery(b));
    OK(d.cuStreamWriteValue32(NULL, flag, 1, 0));
    OK(d.cuStreamSynchronize(b));
    OK(d.cuEventQuery(e));
    OK(d.cuEventCreate(&t0, 0));
    OK(d.cuEventCreate(&t1, 0));
    EQ(CUDA_ERROR_INVALID_HANDLE, d.cuEventElapsedTime(&ms, t0, t1));
    OK(d.cuEventRecord(t0, a));
    OK(d.cuEventRecord(t1, a));
    OK(d.cuEventSynchronize(t1));
    OK(d.cuEventElapsedTime(&ms, t0, t1));
    CHECK(ms >= 0);
    EQ(CUDA_ERROR_INVALID_VALUE,
       d.cuEventCreate(&e + 0, CU_EVENT_INTERPROCESS));
    OK(d.cuEventDestroy(t0));
    OK(d.cuEventDestroy(t1));
    OK(d.cuEventDestroy(e));
    BAD(CUDA_ERROR_INVALID_HANDLE, "destroyed", d.cuEventRecord(e, a));
    OK(d.cuStreamDestroy(a));
    OK(d.cuStreamDestroy(b));
    OK(d.cuMemFree(flag));
    t_stop(0);
}

static void recorder(int fd)
{
    CUipcEventHandle h;
    CUevent e, mine, short_lived;
    CUstream s;
    CUdeviceptr flag;

    t_start(0);
    flag = flag_new();
    OK(d.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(d.cuEventCreate(&e, SHARED));
    OK(d.cuEventCreate(&short_lived, SHARED));
    OK(d.cuIpcGetEventHandle(&h, e));
    t_send(fd, &h, sizeof h);
    BAD(CUDA_ERROR_INVALID_CONTEXT, "in the exporting process",
        d.cuIpcOpenEventHandle(&mine, h));
    OK(d.cuIpcGetEventHandle(&h, short_lived));
    OK(d.cuEventDestroy(short_lived));
    t_send(fd, &h, sizeof h);
    t_meet(fd); /* the other waited too early */
    OK(d.cuStreamWaitValue32(s, flag, 1, 0));
    OK(d.cuEventRecord(e, s));
    t_meet(fd); /* recorded, not reached */
    t_meet(fd); /* the other has seen that */
    OK(d.cuStreamWriteValue32(NULL, flag, 1, 0));
    t_meet(fd); /* the other has closed */
    OK(d.cuStreamSynchronize(s));
    OK(d.cuEventDestroy(e));
    OK(d.cuStreamDestroy(s));
    OK(d.cuMemFree(flag));
    t_stop(0);
}

static void waiter(int fd)
{
    CUipcEventHandle h, gone;
    CUevent e, none;
    CUstream s;

    t_start(1);
    t_receive(fd, &h, sizeof h);
    t_receive(fd, &gone, sizeof gone);
    OK(d.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(d.cuIpcOpenEventHandle(&e, h));
    BAD(CUDA_ERROR_INVALID_VALUE, "destroyed",
        d.cuIpcOpenEventHandle(&none, gone));
    BAD(CUDA_SUCCESS, "never recorded", d.cuStreamWaitEvent(s, e, 0));
    t_meet(fd);
    t_meet(fd);
    OK(d.cuStreamWaitEvent(s, e, 0));
    EQ(CUDA_ERROR_NOT_READY, d.cuEventQuery(e));
    EQ(CUDA_ERROR_NOT_READY, d.cuStreamQuery(s));
    t_meet(fd);
    OK(d.cuStreamSynchronize(s));
    OK(d.cuEventQuery(e));
    EQ(1, d.fakeCudaLive("ipc_events"));
    OK(d.cuEventDestroy(e));
    t_meet(fd);
    OK(d.cuStreamDestroy(s));
    t_stop(1);
}

/* The recorder destroys while the other has it open. */
static void hasty(int fd)
{
    CUipcEventHandle h;
    CUevent e;

    t_start(0);
    OK(d.cuEventCreate(&e, SHARED));
    OK(d.cuIpcGetEventHandle(&h, e));
    t_send(fd, &h, sizeof h);
    t_meet(fd);
    BAD(CUDA_SUCCESS, "still has the event", d.cuEventDestroy(e));
    t_meet(fd);
    t_stop(0);
}

static void holder(int fd)
{
    CUipcEventHandle h;
    CUevent e;

    t_start(0);
    t_receive(fd, &h, sizeof h);
    OK(d.cuIpcOpenEventHandle(&e, h));
    t_meet(fd);
    t_meet(fd);
    OK(d.cuEventQuery(e));
    OK(d.cuEventDestroy(e));
    t_stop(0);
}

int main(void)
{
    t_load();
    EQ(0, t_child(local, -1));
    t_two(recorder, waiter);
    t_two(hasty, holder);
    return 0;
}
