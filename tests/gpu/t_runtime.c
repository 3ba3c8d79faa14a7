/* SPDX-License-Identifier: MIT */
/*
 * Wharf beside the CUDA runtime in one process: the runtime's last error, its
 * current device and its reset. The runtime is loaded as a program's own would
 * be, so that the test needs no toolkit to build.
 *
 * argv[1] names one case: some leave the process without a usable GPU.
 */
#include "t_group.h"

#include <dlfcn.h>
#include <mpi.h>
#include <string.h>

static struct {
    int (*get_last_error)(void);
    int (*peek_at_last_error)(void);
    int (*set_device)(int);
    int (*get_device)(int *);
    int (*get_device_count)(int *);
    int (*device_reset)(void);
    int (*memcpy_any)(void *, const void *, size_t, int);
    int (*malloc_device)(void **, size_t);
    int (*free_device)(void *);
} rt;

static void find(void *library, const char *name, void *slot)
{
    void *symbol = dlsym(library, name);

    T_CHECK(symbol != NULL);
    memcpy(slot, &symbol, sizeof symbol);
}

static void runtime_load(void)
{
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12",
                                        "libcudart.so"};
    void *library = NULL;

    for (size_t i = 0; i < 3 && library == NULL; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        T_SKIP("no CUDA runtime library here");
    find(library, "cudaGetLastError", &rt.get_last_error);
    find(library, "cudaPeekAtLastError", &rt.peek_at_last_error);
    find(library, "cudaSetDevice", &rt.set_device);
    find(library, "cudaGetDevice", &rt.get_device);
    find(library, "cudaGetDeviceCount", &rt.get_device_count);
    find(library, "cudaDeviceReset", &rt.device_reset);
    find(library, "cudaMemcpy", &rt.memcpy_any);
    find(library, "cudaMalloc", &rt.malloc_device);
    find(library, "cudaFree", &rt.free_device);
}

/* Memory of the runtime's own as a buffer; what cannot be shared is asked for
 * its kind, which many questions to the driver refuse. */
static void use_own_memory(wharf_node *node)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    size_t bytes = (size_t)4 << 20;
    wharf_buffer *buffer = NULL;
    static char host[5000];
    void *own = NULL;
    void *mine = NULL;

    T_EQ_INT(0, rt.malloc_device(&own, bytes));
    t_dev_fill_pattern(node, own, bytes, (uint64_t)t_me);
    T_OK(wharf_buffer_attach_memory(node, own, bytes, NULL, &buffer));
    for (int rank = 0; rank < t_ranks; rank++) {
        T_OK(wharf_buffer_segment(buffer, rank, &mine, NULL));
        T_EQ_INT(-1, t_dev_check_pattern(node, mine, bytes, (uint64_t)rank));
    }
    t_detach(buffer);
    T_EQ_INT(0, rt.free_device(own));
    T_STATUS(WHARF_EUNSUPPORTED, wharf_buffer_attach_memory(
                                     node, host, sizeof host, NULL, &buffer));
    options.flags = WHARF_BUFFER_STAGE_ALLOWED;
    T_OK(
        wharf_buffer_attach_memory(node, host, sizeof host, &options, &buffer));
    t_detach(buffer);
}

/* Most of what Wharf does with a driver. */
static void use_all(wharf_node *node)
{
    static const unsigned flags[] = {
        0, WHARF_BUFFER_ZERO, WHARF_BUFFER_CONTIGUOUS, WHARF_BUFFER_READ_ONLY};
    wharf_event *event = NULL;

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        wharf_buffer *buffer = t_attach(node, 200000 + (size_t)t_me, flags[i]);

        t_share(node, buffer, i);
        t_detach(buffer);
    }
    T_OK(wharf_event_create(node, 0, &event));
    if (t_me == 0)
        T_OK(wharf_event_record(event, NULL, NULL));
    T_OK(wharf_event_wait(event, 1, NULL));
    T_OK(wharf_event_synchronize(event, 1, 0));
    T_OK(wharf_event_destroy(&event));
    use_own_memory(node);
    T_OK(wharf_pool_trim(node));
}

static void last_error_clean(void)
{
    wharf_node *node = t_open();

    T_EQ_INT(0, rt.get_last_error());
    use_all(node);
    T_EQ_INT(0, rt.get_last_error());
    t_close(node);
    T_EQ_INT(0, rt.get_last_error());
}

/* An error that was there before is the program's: still there, and no failure
 * of Wharf's. */
static void last_error_kept(void)
{
    wharf_node *node;
    int before;

    T_CHECK(rt.set_device(9999) != 0);
    before = rt.peek_at_last_error();
    T_CHECK(before != 0);
    node = t_open();
    use_all(node);
    t_close(node);
    T_EQ_INT(before, rt.get_last_error());
    T_EQ_INT(0, rt.get_last_error());
}

/* Memory of the runtime's own and segments of other ranks in one copy. */
static void copies(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 100000, 0);
    unsigned char back[100];
    void *own = NULL;
    int next = (t_me + 1) % t_ranks;

    T_EQ_INT(0, rt.malloc_device(&own, 100000));
    t_fill_mine(node, buffer, 5);
    t_barrier();
    /* 4: cudaMemcpyDefault. */
    T_EQ_INT(0, rt.memcpy_any(own, t_segment(buffer, next, NULL), 100000, 4));
    T_EQ_INT(0, rt.memcpy_any(back, own, sizeof back, 4));
    t_barrier();
    T_EQ_INT(0, rt.memcpy_any(t_segment(buffer, t_me, NULL), own, 100000, 4));
    t_barrier();
    /* Every segment now holds what its right neighbour's held. */
    T_EQ_INT(0, rt.memcpy_any(own, t_segment(buffer, t_me, NULL), 100000, 4));
    {
        unsigned char again[100];

        T_EQ_INT(0, rt.memcpy_any(again, own, sizeof again, 4));
        T_EQ_MEM(back, again, sizeof back);
    }
    T_EQ_INT(0, rt.free_device(own));
    t_detach(buffer);
    t_close(node);
}

/* The program switches devices between the calls, and finds its choice. */
static void device_switched(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = NULL;
    int count = 0;

    T_EQ_INT(0, rt.get_device_count(&count));
    for (int device = 0; device < count; device++) {
        int now = -1;

        T_EQ_INT(0, rt.set_device(device));
        T_OK(wharf_buffer_attach(node, 70000, NULL, &buffer));
        T_EQ_INT(0, rt.get_device(&now));
        T_EQ_INT(device, now);
        T_OK(wharf_buffer_detach(&buffer));
        T_EQ_INT(0, rt.get_device(&now));
        T_EQ_INT(device, now);
    }
    t_close(node);
    T_EQ_INT(0, rt.get_last_error());
}

/* The program resets the device under a buffer: whatever the calls answer, all
 * ranks hear the same and nobody crashes or hangs. */
static void reset(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_attach(node, 100000, 0);
    wharf_status status;

    t_share(node, buffer, 6);
    T_EQ_INT(0, rt.device_reset());
    status = wharf_buffer_detach(&buffer);
    T_SAME(status);
    T_CHECK(buffer == NULL);
    status = wharf_node_close(&node);
    T_SAME(status);
    T_CHECK(node == NULL);
    T_EQ_INT(0, t_stats().live_buffers);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"last_error_clean", last_error_clean},
        {"last_error_kept", last_error_kept},
        {"copies", copies},
        {"device_switched", device_switched},
        {"reset", reset},
    };

    t_mode_check();
    T_EQ_INT(T_GPU, t_mode_get());
    runtime_load();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &t_me);
    MPI_Comm_size(MPI_COMM_WORLD, &t_ranks);
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            MPI_Finalize();
            return 0;
        }
    }
    T_FAIL("no such case: %s", argc > 1 ? argv[1] : "(none)");
}
