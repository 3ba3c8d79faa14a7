/* SPDX-License-Identifier: MIT */
/*
 * Streams: order, memory operations, the default stream, host functions,
 * copies in two dimensions, capture and graphs, kernels by name.
 */
#include "t_fake.h"

static CUdeviceptr words_new(int count)
{
    CUdeviceptr p;

    OK(d.cuMemAlloc(&p, (size_t)count * 4));
    OK(d.cuMemsetD32Async(p, 0, (size_t)count, NULL));
    OK(d.cuCtxSynchronize());
    return p;
}

static unsigned word(CUdeviceptr p)
{
    unsigned w;
    CUstream s;

    OK(d.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(d.cuMemcpyDtoHAsync(&w, p, 4, s));
    OK(d.cuStreamDestroy(s));
    return w;
}

static void test_memops(void)
{
    CUdeviceptr p = words_new(4);
    CUstream a, b;
    CUstreamBatchMemOpParams ops[2];

    OK(d.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(d.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    for (unsigned round = 1; round <= 200; round++) { /* ping and pong */
        OK(d.cuStreamWaitValue32(a, p, round, CU_STREAM_WAIT_VALUE_GEQ));
        OK(d.cuStreamWriteValue32(a, p + 4, round, 0));
        memset(ops, 0, sizeof ops);
        ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        ops[0].writeValue.address = p;
        ops[0].writeValue.value = round;
        ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
        ops[1].waitValue.address = p + 4;
        ops[1].waitValue.value = round;
        ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
        OK(d.cuStreamBatchMemOp(b, 2, ops, 0));
    }
    OK(d.cuStreamSynchronize(a));
    OK(d.cuStreamSynchronize(b));
    EQ(200, word(p + 4));
    /* Cyclic comparison near the wrap. */
    OK(d.cuStreamWriteValue32(a, p, 3, 0));
    OK(d.cuStreamWaitValue32(a, p, 0xfffffff0u, CU_STREAM_WAIT_VALUE_GEQ));
    OK(d.cuStreamSynchronize(a));
    EQ(CUDA_ERROR_INVALID_VALUE, d.cuStreamWriteValue32(a, p + 1, 1, 0));
    OK(d.cuStreamDestroy(a));
    OK(d.cuStreamDestroy(b));
    OK(d.cuMemFree(p));
}

static void test_default_stream(void)
{
    CUdeviceptr p = words_new(2);
    CUstream blocking, gate;

    OK(d.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(d.cuStreamCreate(&gate, CU_STREAM_NON_BLOCKING));
    OK(d.cuStreamWaitValue32(blocking, p, 1, 0));
    OK(d.cuMemsetD32Async(p + 4, 5, 1, NULL)); /* behind `blocking` */
    EQ(CUDA_ERROR_NOT_READY, d.cuStreamQuery(NULL));
    EQ(0, word(p + 4));
    OK(d.cuStreamWriteValue32(gate, p, 1, 0));
    OK(d.cuStreamSynchronize(NULL));
    EQ(5, word(p + 4));
    OK(d.cuStreamDestroy(blocking));
    OK(d.cuStreamDestroy(gate));
    OK(d.cuMemFree(p));
}

static void CUDA_CB note(void *user)
{
    int *count = user;

    ++*count;
}

static void test_host_function(void)
{
    int count = 0;
    CUstream s;

    OK(d.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 10; i++)
        OK(d.cuLaunchHostFunc(s, note, &count));
    OK(d.cuStreamSynchronize(s));
    EQ(10, count);
    OK(d.cuStreamDestroy(s));
}

static void test_two_dimensions(void)
{
    unsigned char from[8][16], to[8][32];
    CUdeviceptr p = words_new(8 * 8);
    CUDA_MEMCPY2D c;

    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 16; x++)
            from[y][x] = (unsigned char)(y * 16 + x);
    memset(to, 0xee, sizeof to);
    memset(&c, 0, sizeof c);
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = from;
    c.srcPitch = 16;
    c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.dstDevice = p;
    c.dstPitch = 32;
    c.WidthInBytes = 16;
    c.Height = 8;
    OK(d.cuMemcpy2DAsync(&c, NULL));
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = p;
    c.srcPitch = 32;
    c.srcXInBytes = 4;
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = to;
    c.WidthInBytes = 8;
    OK(d.cuMemcpy2DAsync(&c, NULL));
    for (int y = 0; y < 8; y++) {
        EQ(from[y][4], to[y][0]);
        EQ(from[y][11], to[y][7]);
        EQ(0xee, to[y][8]);
    }
    OK(d.cuMemFree(p));
}

static void test_capture(void)
{
    CUdeviceptr p = words_new(4), q;
    CUstream s, side;
    CUevent fork_event, join_event;
    CUgraph graph;
    CUgraphExec exec;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    size_t nodes = 0;

    OK(d.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(d.cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    OK(d.cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    OK(d.cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
    OK(d.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(d.cuMemsetD32Async(p, 7, 1, s));
    OK(d.cuEventRecord(fork_event, s));
    OK(d.cuStreamWaitEvent(side, fork_event, 0));
    OK(d.cuMemcpyDtoDAsync(p + 4, p, 4, side));
    OK(d.cuEventRecord(join_event, side));
    EQ(CUDA_ERROR_CAPTURED_EVENT, d.cuEventQuery(join_event));
    OK(d.cuStreamWaitEvent(s, join_event, 0));
    OK(d.cuStreamWriteValue32(s, p + 8, 1, 0));
    OK(d.cuThreadExchangeStreamCaptureMode(&mode)); /* relaxed: allowed */
    OK(d.cuMemAlloc(&q, 4));
    OK(d.cuMemFree(q));
    OK(d.cuThreadExchangeStreamCaptureMode(&mode));
    OK(d.cuStreamEndCapture(s, &graph));
    OK(d.cuGraphGetNodes(graph, NULL, &nodes));
    EQ(3, nodes);
    OK(d.cuGraphInstantiate(&exec, graph, 0));
    OK(d.cuGraphDestroy(graph));
    EQ(0, word(p + 4)); /* nothing ran so far */
    for (int i = 0; i < 50; i++)
        OK(d.cuGraphLaunch(exec, i % 2 ? s : side));
    OK(d.cuStreamSynchronize(s));
    OK(d.cuStreamSynchronize(side));
    EQ(7, word(p + 4));
    EQ(1, word(p + 8));
    OK(d.cuGraphExecDestroy(exec));
    OK(d.cuEventDestroy(fork_event));
    OK(d.cuEventDestroy(join_event));
    OK(d.cuStreamDestroy(s));
    OK(d.cuStreamDestroy(side));
    OK(d.cuMemFree(p));
}

static void test_capture_errors(void)
{
    CUdeviceptr p = words_new(1), q;
    CUstream s, side;
    CUevent e, shared;
    CUgraph graph;
    CUstreamCaptureStatus status;

    OK(d.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(d.cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    OK(d.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(d.cuEventCreate(&shared,
                       CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    OK(d.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, d.cuMemAlloc(&q, 4));
    OK(d.cuStreamIsCapturing(s, &status));
    EQ(CU_STREAM_CAPTURE_STATUS_INVALIDATED, status);
    EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, d.cuStreamEndCapture(s, &graph));
    OK(d.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(d.cuEventRecord(e, s));
    OK(d.cuStreamWaitEvent(side, e, 0));
    OK(d.cuMemsetD32Async(p, 1, 1, side));
    EQ(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, d.cuStreamEndCapture(s, &graph));
    OK(d.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, d.cuEventRecord(shared, s));
    EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, d.cuStreamEndCapture(s, &graph));
    OK(d.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(d.cuEventRecordWithFlags(shared, s, CU_EVENT_RECORD_EXTERNAL));
    OK(d.cuStreamWaitEvent(s, shared, CU_EVENT_WAIT_EXTERNAL));
    OK(d.cuStreamEndCapture(s, &graph));
    CUgraphExec exec;
    OK(d.cuGraphInstantiate(&exec, graph, 0));
    OK(d.cuGraphLaunch(exec, s));
    OK(d.cuEventSynchronize(shared));
    OK(d.cuStreamSynchronize(s));
    OK(d.cuGraphExecDestroy(exec));
    OK(d.cuGraphDestroy(graph));
    OK(d.cuEventDestroy(e));
    OK(d.cuEventDestroy(shared));
    OK(d.cuStreamDestroy(s));
    OK(d.cuStreamDestroy(side));
    OK(d.cuMemFree(p));
}

static void add_all(const fake_cuda_launch *l)
{
    uint64_t p;
    uint32_t n, value, old;

    memcpy(&p, l->params[0], 8);
    memcpy(&n, l->params[1], 4);
    memcpy(&value, l->params[2], 4);
    for (uint32_t i = 0; i < n * l->grid[0]; i++)
        if (!fakeCudaAdd32(l, p + i / l->grid[0] * 4, value, &old))
            return;
}

/* The kernel reaches the library's helpers through the table. */
static __typeof__(fakeCudaAdd32) *add32;

int fakeCudaAdd32(const fake_cuda_launch *launch, uint64_t to, uint32_t value,
                  uint32_t *before)
{
    return add32(launch, to, value, before);
}

static void test_kernel(void)
{
    static const uint16_t sizes[] = {8, 4, 4};
    CUdeviceptr p = words_new(100);
    CUmodule m;
    CUfunction f, none;
    unsigned n = 100, value = 3;
    void *params[] = {&p, &n, &value};

    *(void **)&add32 =
        dlsym(dlopen(getenv("WHARF_CUDA_DRIVER"), RTLD_NOW), "fakeCudaAdd32");
    CHECK(add32);
    d.fakeCudaRegisterKernel("t_add", add_all, sizes, 3);
    OK(d.cuModuleLoadData(&m, "any image"));
    EQ(CUDA_ERROR_NOT_FOUND, d.cuModuleGetFunction(&none, m, "t_other"));
    OK(d.cuModuleGetFunction(&f, m, "t_add"));
    OK(d.cuLaunchKernel(f, 2, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    value = 1; /* parameters were copied */
    EQ(CUDA_ERROR_INVALID_VALUE,
       d.cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL));
    OK(d.cuStreamSynchronize(NULL));
    EQ(6, word(p + 99 * 4));
    OK(d.cuModuleUnload(m));
    OK(d.cuMemFree(p));
}

static void one_process(int unused)
{
    (void)unused;
    t_start(0);
    test_memops();
    test_default_stream();
    test_host_function();
    test_two_dimensions();
    test_capture();
    test_capture_errors();
    test_kernel();
    EQ(1, d.fakeCudaLive(NULL));
    t_stop(0);
}

/* Streams of two processes hand a word back and forth through memory of one.
 */
#define ROUNDS 300

static void far_left(int fd)
{
    CUdeviceptr p;
    CUipcMemHandle h;
    CUstream s;

    t_start(0);
    p = words_new(64 * 1024);
    OK(d.cuIpcGetMemHandle(&h, p));
    t_send(fd, &h, sizeof h);
    OK(d.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 1; i <= ROUNDS; i++) {
        OK(d.cuStreamWriteValue32(s, p, i, 0));
        OK(d.cuStreamWaitValue32(s, p + 4, i, CU_STREAM_WAIT_VALUE_GEQ));
    }
    OK(d.cuStreamSynchronize(s));
    t_meet(fd);
    OK(d.cuStreamDestroy(s));
    OK(d.cuMemFree(p));
    t_stop(0);
}

static void far_right(int fd)
{
    CUdeviceptr p;
    CUipcMemHandle h;
    CUstream s;

    t_start(1);
    t_receive(fd, &h, sizeof h);
    OK(d.cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(d.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 1; i <= ROUNDS; i++) {
        OK(d.cuStreamWaitValue32(s, p, i, CU_STREAM_WAIT_VALUE_GEQ));
        OK(d.cuStreamWriteValue32(s, p + 4, i, 0));
    }
    OK(d.cuStreamSynchronize(s));
    OK(d.cuStreamDestroy(s));
    OK(d.cuIpcCloseMemHandle(p));
    t_meet(fd);
    t_stop(1);
}

int main(void)
{
    t_load();
    EQ(0, t_child(one_process, -1));
    t_two(far_left, far_right);
    return 0;
}
