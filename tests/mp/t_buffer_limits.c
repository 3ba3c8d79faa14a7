/* SPDX-License-Identifier: MIT */
/* Running out: of device memory, of host memory, of descriptors, of what is
 * stated. All ranks learn it alike and the next attach works. */
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* More than the GPU has, or more than the machine has memory for. */
static void beyond_device_memory(void)
{
    wharf_node *node = t_open();
    wharf_device device = WHARF_DEVICE_INIT;
    wharf_buffer *buffer = NULL;
    wharf_stats before = t_stats();
    size_t size;

    T_OK(wharf_node_device(node, 0, &device));
    T_CHECK(device.memory_bytes > 0);
    size = device.memory_bytes + ((size_t)1 << 30);
    T_FAILS(MPI_COMM_WORLD, WHARF_EDEVMEM, -1, NULL,
            wharf_buffer_attach(node, t_me == 0 ? size : 64, NULL, &buffer));
    T_CHECK(buffer == NULL);
    t_live_check(&before);
    buffer = t_attach(node, 100000, 0);
    t_share(node, buffer, 1);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* Many attaches that fit alone, until one does not; then all are given back
 * and it works again. */
static void fill_device_memory(void)
{
    enum { MOST = 64 };
    wharf_node *node = t_open();
    wharf_device device = WHARF_DEVICE_INIT;
    wharf_buffer *buffers[MOST] = {NULL};
    wharf_status status = WHARF_OK;
    size_t each;
    int count = 0;

    T_OK(wharf_node_device(node, t_me, &device));
    each = (device.memory_bytes / MOST * 2) & ~(size_t)4095;
    while (count < MOST) {
        status = wharf_buffer_attach(node, each, NULL, &buffers[count]);
        if (status != WHARF_OK)
            break;
        count++;
    }
    T_CHECK(count < MOST);
    T_FAILS(MPI_COMM_WORLD, WHARF_EDEVMEM, -1, NULL, status);
    T_CHECK(buffers[count] == NULL);
    T_SAME(count);
    while (count > 0)
        t_detach(buffers[--count]);
    buffers[0] = t_attach(node, each, 0);
    t_detach(buffers[0]);
    t_close(node);
    t_live_check(NULL);
}

/* A size that fits the address space and no machine. */
static void beyond_host_memory(void)
{
    wharf_node *node = t_open();
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;
    wharf_buffer *buffer = NULL;
    wharf_stats before = t_stats();
    size_t size = (size_t)40 << 40;

    options.space = WHARF_SPACE_HOST;
    T_FAILS(
        MPI_COMM_WORLD, WHARF_ENOMEM, -1, NULL,
        wharf_buffer_attach(node, t_me == 0 ? size : 64, &options, &buffer));
    T_CHECK(buffer == NULL);
    t_live_check(&before);
    T_OK(wharf_buffer_attach(node, 1000, &options, &buffer));
    t_share(node, buffer, 2);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

static rlim_t limit_descriptors(rlim_t most)
{
    struct rlimit limit;
    rlim_t before;

    T_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    before = limit.rlim_cur;
    limit.rlim_cur = most;
    T_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    return before;
}

/* All that are left are in use, as after a leak. A limit below what is open
 * would do more: no poll works under it, neither MPI's nor the driver's. */
typedef struct hoard {
    int fd[256];
    int count;
    rlim_t before;
} hoard;

static void hoard_take(hoard *h)
{
    int fd;

    h->before = limit_descriptors(256);
    h->count = 0;
    while (h->count < 256 && (fd = dup(STDERR_FILENO)) >= 0)
        h->fd[h->count++] = fd;
}

static void hoard_give(hoard *h)
{
    while (h->count > 0)
        close(h->fd[--h->count]);
    limit_descriptors(h->before);
}

/* With room for 64 descriptors buffers of many pieces work: none is kept. A
 * real driver holds many of its own. */
static void few_descriptors(void)
{
    wharf_node *node = t_open();
    rlim_t most = 64, before;
    t_holdings holdings = t_holdings_get();

    if (t_mode_get() == T_GPU)
        most = (rlim_t)holdings.descriptors + 24;
    T_CHECK((rlim_t)holdings.descriptors < most - 4);
    before = limit_descriptors(most);
    for (int i = 0; i < 4; i++) {
        wharf_buffer *buffers[3];

        for (int k = 0; k < 3; k++)
            buffers[k] = t_attach(node, (size_t)(k + 1) << 21, 0);
        for (int k = 0; k < 3; k++)
            t_share(node, buffers[k], (uint64_t)(10 * i + k));
        for (int k = 0; k < 3; k++)
            t_detach(buffers[k]);
    }
    limit_descriptors(before);
    t_close(node);
    t_live_check(NULL);
}

/* So few from the start that pieces as small as asked for would need more. */
static void few_descriptors_ever(void)
{
    rlim_t before = limit_descriptors(64);
    wharf_node *node;
    wharf_buffer *buffer;

    T_EQ_INT(0, setenv("WHARF_CHUNK_BYTES", "2m", 1));
    node = t_open();
    buffer = t_attach(node, (size_t)32 << 20, 0);
    T_EQ_INT(8, t_info(buffer, 0).chunks);
    t_share(node, buffer, 5);
    t_detach(buffer);
    t_close(node);
    unsetenv("WHARF_CHUNK_BYTES");
    limit_descriptors(before);
    t_live_check(NULL);
}

/* A rank that cannot even read who it is does not get a node of its own. */
static void no_descriptor_at_open(void)
{
    wharf_node *node = NULL;
    bool odd = t_me == t_ranks - 1;
    hoard all;
    wharf_status status;

    if (odd)
        hoard_take(&all);
    status = wharf_node_open(MPI_COMM_WORLD, NULL, &node);
    if (odd)
        hoard_give(&all);
    T_FAILS(MPI_COMM_WORLD, WHARF_EOS, t_ranks - 1, "boot id", status);
    T_CHECK(node == NULL);
    node = t_open();
    T_EQ_INT(t_ranks, wharf_node_size(node));
    t_close(node);
    t_live_check(NULL);
}

/* With room for none on one rank all ranks fail alike, and recover. */
static void no_descriptor(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = NULL;
    wharf_stats stats = t_stats();
    bool odd = t_me == t_ranks - 1;
    hoard all;
    wharf_status status;

    if (odd)
        hoard_take(&all);
    status = wharf_buffer_attach(node, 1 << 21, NULL, &buffer);
    if (odd)
        hoard_give(&all);
    /* Whoever meets the limit first says it: Wharf, or the driver. */
    T_FAILS(MPI_COMM_WORLD,
            t_mode_get() != T_HOST && status == WHARF_EDRIVER ? status
                                                              : WHARF_EOS,
            t_ranks - 1, NULL, status);
    T_CHECK(buffer == NULL);
    t_live_check(&stats);
    buffer = t_attach(node, 1 << 21, 0);
    t_share(node, buffer, 3);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* The stated number of buffers is reached exactly, then refused. Empty ones,
 * so that only the number counts. */
static void most_buffers(void)
{
    wharf_node *node = t_open();
    wharf_buffer **buffers = calloc(WHARF_MAX_BUFFERS + 1, sizeof *buffers);
    long most = WHARF_MAX_BUFFERS;
    long events = WHARF_MAX_EVENTS / t_ranks;
    wharf_status status = WHARF_OK;
    long count = 0;

    T_CHECK(buffers != NULL);
    if (events < most)
        most = events;
    while (status == WHARF_OK && count <= most) {
        status = wharf_buffer_attach(node, 0, NULL, &buffers[count]);
        if (status == WHARF_OK)
            count++;
    }
    T_EQ_INT(most, count);
    T_FAILS(MPI_COMM_WORLD, WHARF_ELIMIT, -1, NULL, status);
    T_CHECK(buffers[count] == NULL);
    t_detach(buffers[--count]);
    buffers[count++] = t_attach(node, 0, 0);
    free(buffers);
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"beyond_device_memory", beyond_device_memory, T_CUDA},
    {"fill_device_memory", fill_device_memory, T_FAKE},
    {"beyond_host_memory", beyond_host_memory, T_ANY},
    {"few_descriptors", few_descriptors, T_ANY},
    {"few_descriptors_ever", few_descriptors_ever, T_FAKE},
    {"no_descriptor_at_open", no_descriptor_at_open, T_ANY},
    {"no_descriptor", no_descriptor, T_ANY},
    {"most_buffers", most_buffers, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
