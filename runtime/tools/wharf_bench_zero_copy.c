/* SPDX-License-Identifier: MIT */
/*
 * wharf-bench zero-copy: host memory that a GPU's kernels read and write in
 * place, beside the copy engines between the same memory and the device.
 *
 *   attach           a host-space buffer, of `bytes` on rank 0
 *   first-touch      the floor of that: fresh memory, written a byte a page
 *   detach
 *   copy-to-device   copy engine; kernel-read: the same by a kernel
 *   copy-to-host     copy engine; kernel-write: the same by a kernel
 *   kernel-both      a kernel that reads host memory and writes host memory
 *
 * Rank 0 copies; the others take part in the attaches. Which way a put or get
 * goes is a setting of a node, so there are two more nodes, one of each kind.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "wharf_bench.h"
#include "wharf_bench_data.h"

/* Bytes that are moved between two looks at the clock, so that the launches
 * and the wait at the end are small beside them. */
#define MOVED (UINT64_C(512) << 20)
#define REPEATS_MOST 64

enum zero_op {
    ATTACH,
    TOUCH,
    DETACH,
    COPY_IN,
    KERNEL_IN,
    COPY_OUT,
    KERNEL_OUT,
    KERNEL_BOTH,
    OPS
};

static const char *const op_names[OPS] = {
    "attach",      "first-touch",  "detach",       "copy-to-device",
    "kernel-read", "copy-to-host", "kernel-write", "kernel-both"};

/* The memory of one size. Segments of rank 0 alone. */
struct zero_memory {
    wharf_buffer *source;    /* host space, on the bench's node */
    wharf_buffer *result;    /* host space, on the node of kernels */
    wharf_buffer *by_engine; /* device space, on the node of engines */
    wharf_buffer *by_kernel; /* device space, on the node of kernels */
    uint64_t *source_at;     /* their first bytes */
    uint64_t *result_at;
};

struct zero_bench {
    const struct bench *bench;
    wharf_node *engines, *kernels;
    struct bench_row *rows; /* OPS * sizes, by operation */
    uint64_t serial;
    wharf_buffer_info memory; /* how the last host buffer is shared */
};

static struct bench_row *row_of(const struct zero_bench *b, int op, int size)
{
    return &b->rows[op * b->bench->options.size_count + size];
}

/* Everybody goes on, or nobody. */
static wharf_status agreed(wharf_status mine)
{
    int bad = mine != WHARF_OK, any = 0;

    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return mine == WHARF_OK && any ? WHARF_EPEER : mine;
}

/* ---- Memory ------------------------------------------------------------ */

static wharf_status attach_one(const struct zero_bench *b, wharf_node *node,
                               wharf_space space, uint64_t bytes,
                               wharf_buffer **buffer)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;

    options.space = space;
    options.name = "wharf-bench";
    return wharf_buffer_attach(node, b->bench->rank == 0 ? (size_t)bytes : 0,
                               &options, buffer);
}

static wharf_status detach_one(wharf_buffer **buffer)
{
    return *buffer == NULL ? WHARF_OK : wharf_buffer_detach(buffer);
}

static wharf_status memory_close(struct zero_memory *m)
{
    wharf_buffer **all[] = {&m->by_kernel, &m->by_engine, &m->result,
                            &m->source};
    wharf_status first = WHARF_OK;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        wharf_status status = detach_one(all[i]);

        first = first == WHARF_OK ? status : first;
    }
    return first;
}

static wharf_status memory_open(const struct zero_bench *b, uint64_t bytes,
                                struct zero_memory *m)
{
    void *source = NULL, *result = NULL;
    wharf_status status =
        attach_one(b, b->bench->node, WHARF_SPACE_HOST, bytes, &m->source);

    if (status == WHARF_OK)
        status = attach_one(b, b->kernels, WHARF_SPACE_HOST, bytes, &m->result);
    if (status == WHARF_OK)
        status =
            attach_one(b, b->engines, WHARF_SPACE_DEVICE, bytes, &m->by_engine);
    if (status == WHARF_OK)
        status =
            attach_one(b, b->kernels, WHARF_SPACE_DEVICE, bytes, &m->by_kernel);
    if (status == WHARF_OK)
        status = wharf_buffer_segment(m->source, 0, &source, NULL);
    if (status == WHARF_OK)
        status = wharf_buffer_segment(m->result, 0, &result, NULL);
    m->source_at = source;
    m->result_at = result;
    return status;
}

/* ---- Attach ------------------------------------------------------------ */

/* What any way of sharing fresh memory must pay: the kernel's zeroed pages. */
static double first_touch(uint64_t bytes)
{
    double start = MPI_Wtime();
    volatile char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return 0;
    for (uint64_t at = 0; at < bytes; at += 4096)
        memory[at] = 1;
    start = MPI_Wtime() - start;
    munmap((void *)memory, bytes);
    return start * 1e6;
}

static wharf_status attach_round(struct zero_bench *b, uint64_t bytes,
                                 double *time)
{
    wharf_buffer *buffer = NULL;
    double start;
    wharf_status status;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    status = attach_one(b, b->bench->node, WHARF_SPACE_HOST, bytes, &buffer);
    time[ATTACH] = bench_slowest((MPI_Wtime() - start) * 1e6);
    if (status != WHARF_OK)
        return status;
    b->memory.struct_size = sizeof b->memory;
    wharf_ignore(wharf_buffer_info_get(buffer, 0, &b->memory));
    start = MPI_Wtime();
    status = wharf_buffer_detach(&buffer);
    if (status == WHARF_OK)
        status = wharf_pool_trim(b->bench->node);
    time[DETACH] = bench_slowest((MPI_Wtime() - start) * 1e6);
    time[TOUCH] = b->bench->rank == 0 ? first_touch(bytes) : 0;
    return status;
}

/* ---- Copies ------------------------------------------------------------ */

/* What one operation copies. */
struct zero_copy {
    wharf_copy_call call;
    wharf_copy_way way; /* by which it must go to be what it is called */
    wharf_buffer *buffer;
    uint64_t *other;
};

static struct zero_copy copy_of(const struct zero_memory *m, int op)
{
    const struct zero_copy copies[OPS] = {
        [COPY_IN] = {WHARF_COPY_PUT, WHARF_COPY_ENGINE, m->by_engine,
                     m->source_at},
        [KERNEL_IN] = {WHARF_COPY_PUT, WHARF_COPY_KERNEL, m->by_kernel,
                       m->source_at},
        [COPY_OUT] = {WHARF_COPY_GET, WHARF_COPY_ENGINE, m->by_engine,
                      m->result_at},
        [KERNEL_OUT] = {WHARF_COPY_GET, WHARF_COPY_KERNEL, m->by_kernel,
                        m->result_at},
        [KERNEL_BOTH] = {WHARF_COPY_PUT, WHARF_COPY_KERNEL, m->result,
                         m->source_at}};

    return copies[op];
}

static wharf_status enqueue(const struct zero_memory *m, int op, size_t bytes)
{
    struct zero_copy copy = copy_of(m, op);

    if (copy.call == WHARF_COPY_PUT)
        return wharf_put(copy.buffer, 0, 0, copy.other, bytes, NULL);
    return wharf_get(copy.buffer, 0, 0, copy.other, bytes, NULL);
}

/* An operation that would go another way than its name says gets no figure. */
static wharf_status check_ways(struct zero_bench *b, int size,
                               const struct zero_memory *m)
{
    wharf_status status = WHARF_OK;

    for (int op = COPY_IN; op < OPS && status == WHARF_OK; op++) {
        struct zero_copy copy = copy_of(m, op);
        struct bench_row *row = row_of(b, op, size);
        wharf_box box = WHARF_BOX_INIT;
        wharf_copy_way way;
        char reason[96];

        box.width = (size_t)row->bytes;
        status = wharf_copy_way_find(copy.buffer, copy.call, 0, 0, copy.other,
                                     &box, &way, reason);
        if (status == WHARF_OK && way != copy.way)
            snprintf(row->failure, sizeof row->failure, "goes by %s: %s",
                     wharf_copy_way_name(way), reason);
    }
    return status;
}

/* Rank 0: all work of the default stream is complete. */
static wharf_status finish(const struct zero_memory *m)
{
    wharf_event *event = NULL;
    wharf_status status = wharf_buffer_event(m->source, 0, &event);

    return status == WHARF_OK ? bench_finish(event) : status;
}

/* Mean time of one of several in a row, in us. */
static wharf_status timed(const struct zero_memory *m, int op, size_t bytes,
                          double *time)
{
    int repeats = bytes >= MOVED                 ? 1
                  : MOVED / bytes > REPEATS_MOST ? REPEATS_MOST
                                                 : (int)(MOVED / bytes);
    wharf_status status = finish(m);
    double start = MPI_Wtime();

    for (int i = 0; i < repeats && status == WHARF_OK; i++)
        status = enqueue(m, op, bytes);
    if (status == WHARF_OK)
        status = finish(m);
    *time = (MPI_Wtime() - start) * 1e6 / repeats;
    return status;
}

/* There and back by both ways, looked at by the CPU; then from host memory to
 * host memory. */
static wharf_status check_data(struct zero_bench *b, int size,
                               struct zero_memory *m)
{
    static const int path[3][3] = {{COPY_IN, COPY_OUT, COPY_OUT},
                                   {KERNEL_IN, KERNEL_OUT, KERNEL_OUT},
                                   {KERNEL_BOTH, -1, KERNEL_BOTH}};
    uint64_t bytes = b->bench->options.sizes[size];
    wharf_status status = WHARF_OK;

    for (int i = 0; i < 3 && status == WHARF_OK; i++) {
        uint64_t serial = ++b->serial;

        bench_words_fill(m->source_at, bytes, serial, 0);
        status = enqueue(m, path[i][0], (size_t)bytes);
        if (status == WHARF_OK && path[i][1] >= 0)
            status = enqueue(m, path[i][1], (size_t)bytes);
        if (status == WHARF_OK)
            status = finish(m);
        if (b->bench->options.spoil)
            m->result_at[0] ^= 1;
        if (status == WHARF_OK)
            row_of(b, path[i][2], size)->bad +=
                bench_words_wrong(m->result_at, bytes, serial, 0);
    }
    return status;
}

/* Rank 0, in the order of the operations: each kernel beside its engine. */
static wharf_status copy_rounds(struct zero_bench *b, int size,
                                struct zero_memory *m)
{
    const struct bench_options *o = &b->bench->options;
    wharf_status status = check_ways(b, size, m);

    if (status == WHARF_OK)
        status = check_data(b, size, m);
    for (int round = -o->warmup; round < o->rounds; round++)
        for (int op = COPY_IN; op < OPS && status == WHARF_OK; op++) {
            struct bench_row *row = row_of(b, op, size);
            double time = 0;

            status = timed(m, op, (size_t)o->sizes[size], &time);
            if (round >= 0 && status == WHARF_OK)
                row->samples[row->rounds++] = time;
        }
    return status;
}

/* ---- One size ---------------------------------------------------------- */

static bool has_gpu(const struct bench *bench)
{
    return wharf_node_backend(bench->node) == WHARF_BACKEND_CUDA;
}

static wharf_status copies(struct zero_bench *b, int size)
{
    uint64_t bytes = b->bench->options.sizes[size];
    struct zero_memory m = {0};
    wharf_status status, closed;

    for (int op = COPY_IN; op < OPS && !has_gpu(b->bench); op++)
        snprintf(row_of(b, op, size)->failure,
                 sizeof row_of(b, op, size)->failure,
                 "host backend: there is no GPU to read host memory");
    if (!has_gpu(b->bench))
        return WHARF_OK;
    status = memory_open(b, bytes, &m);
    if (status == WHARF_OK && b->bench->rank == 0)
        status = copy_rounds(b, size, &m);
    status = agreed(status);
    closed = memory_close(&m);
    return status == WHARF_OK ? closed : status;
}

/* A size that does not fit is left out; anything else ends the run. */
static bool left_out(struct zero_bench *b, int size, wharf_status status)
{
    for (int op = 0; op < OPS; op++) {
        if (!bench_too_large(status, row_of(b, op, size)->failure))
            return false;
        row_of(b, op, size)->rounds = 0;
    }
    return true;
}

static wharf_status one_size(struct zero_bench *b, int size)
{
    const struct bench_options *o = &b->bench->options;
    wharf_status status = WHARF_OK;

    bench_progress(b->bench, "size", size + 1, o->size_count);
    for (int round = -1; round < o->rounds && status == WHARF_OK; round++) {
        double time[OPS] = {0};

        status = attach_round(b, o->sizes[size], time);
        for (int op = ATTACH; op <= DETACH && round >= 0 && status == WHARF_OK;
             op++) {
            struct bench_row *row = row_of(b, op, size);

            row->samples[row->rounds++] = time[op];
        }
    }
    if (status == WHARF_OK)
        status = copies(b, size);
    bench_progress(b->bench, "", 0, 0);
    return status != WHARF_OK && left_out(b, size, status) ? WHARF_OK : status;
}

/* ---- All --------------------------------------------------------------- */

static wharf_status run(struct zero_bench *b)
{
    const struct bench_options *o = &b->bench->options;
    wharf_status status = bench_open_way("engine", &b->engines),
                 closed = WHARF_OK;

    if (status == WHARF_OK)
        status = bench_open_way("kernel", &b->kernels);
    for (int size = 0; size < o->size_count && status == WHARF_OK; size++)
        status = one_size(b, size);
    if (status != WHARF_OK)
        tool_report_once("wharf-bench", b->bench->rank);
    if (b->kernels != NULL)
        closed = wharf_node_close(&b->kernels);
    if (b->engines != NULL && closed == WHARF_OK)
        closed = wharf_node_close(&b->engines);
    return status == WHARF_OK ? closed : status;
}

int bench_zero_copy(struct bench *bench)
{
    const struct bench_options *o = &bench->options;
    int count = OPS * o->size_count;
    struct zero_bench b = {.bench = bench};
    bool good = false;

    b.rows = bench_rows_new(count, o->rounds);
    for (int i = 0; i < count; i++) {
        b.rows[i].op = op_names[i / o->size_count];
        b.rows[i].bytes = o->sizes[i % o->size_count];
        b.rows[i].moves = i / o->size_count >= COPY_IN;
    }
    bench->checked = "every byte that came back, by the CPU";
    if (run(&b) == WHARF_OK) {
        for (int i = 0; i < count; i++)
            bench_row_finish(&b.rows[i]);
        snprintf(bench->remark, sizeof bench->remark,
                 "host memory: %.24s%s%.100s",
                 wharf_handle_kind_name(b.memory.handle),
                 b.memory.reason[0] == '\0' ? "" : ", ", b.memory.reason);
        good = bench_report(bench, "zero-copy", b.rows, count);
    }
    bench_rows_free(b.rows);
    return good ? 0 : 1;
}
