/* SPDX-License-Identifier: MIT */
/*
 * Attach and detach over and over: nothing that the process holds grows, and
 * no rank ever sees what an earlier buffer at the same address held.
 *
 * Arguments: cycles=N (default 1000, the long run of the GPU machine 10000).
 */
#include "t_group.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

/* Pages resident that belong to nobody else: heap growth shows here. */
static long resident_kib(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;

    T_CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "RssAnon: %ld", &kib) == 1)
            break;
    }
    fclose(file);
    return kib;
}

static wharf_node *open_pool(wharf_switch pool)
{
    wharf_node_options options = WHARF_NODE_OPTIONS_INIT;
    wharf_node *node = NULL;

    options.pool = pool;
    T_OK(wharf_node_open(MPI_COMM_WORLD, &options, &node));
    return node;
}

/* One attach and detach with every rank's first and last byte checked. */
static void cycle(wharf_node *node, size_t size, long round, unsigned flags)
{
    wharf_buffer *buffer = t_attach(node, size, flags);
    unsigned char byte = (unsigned char)(round * 7 + t_me + 1);
    const wharf_node *place = t_place(node, buffer, t_me);
    int next = (t_me + 1) % t_ranks;
    unsigned char got = 0;
    void *mine = t_segment(buffer, t_me, NULL);
    size_t other;
    void *there = t_segment(buffer, next, &other);

    t_dev_write(place, mine, &byte, 1);
    t_dev_write(place, (char *)mine + size - 1, &byte, 1);
    t_barrier();
    byte = (unsigned char)(round * 7 + next + 1);
    t_dev_read(t_place(node, buffer, next), &got, there, 1);
    T_EQ_INT(byte, got);
    t_dev_read(t_place(node, buffer, next), &got, (char *)there + other - 1, 1);
    T_EQ_INT(byte, got);
    t_detach(buffer);
}

static void flat(wharf_switch pool)
{
    long cycles = t_argument("cycles", 1000);
    long warm = cycles / 10 + 8;
    wharf_node *node = open_pool(pool);
    t_holdings before = {0, 0};
    size_t device_free = 0;
    wharf_stats held;
    long resident = 0;

    memset(&held, 0, sizeof held);
    for (long i = 0; i < cycles + warm; i++) {
        if (i == warm) {
            t_barrier();
            held = t_stats();
            before = t_holdings_get();
            device_free = t_device_free_bytes(node);
            resident = resident_kib();
            t_barrier();
        }
        cycle(node, 4096 + (size_t)(i % 3) * 300000, i, 0);
    }
    t_barrier();
    t_live_check(&held);
    T_EQ_INT(before.descriptors, t_holdings_get().descriptors);
    T_EQ_INT(before.mappings, t_holdings_get().mappings);
    /* Free device memory is everybody's: only this job's ranks and, on a real
     * machine, whoever else runs there. */
    if (t_mode_get() == T_FAKE)
        T_EQ_INT(device_free, t_device_free_bytes(node));
    else if (t_mode_get() == T_GPU)
        T_CHECK(t_device_free_bytes(node) + (64u << 20) >= device_free);
    /* The MPI library's own caches may still grow a little. */
    T_CHECK(resident_kib() <= resident + 2048 + cycles / 100);
    t_close(node);
    t_live_check(NULL);
}

static void flat_without_pool(void)
{
    flat(WHARF_SWITCH_OFF);
}

static void flat_with_pool(void)
{
    flat(WHARF_SWITCH_ON);
}

/* Buffers that grow at each resize, the way simulations do it. */
static void growing(void)
{
    wharf_node *node = open_pool(WHARF_SWITCH_ON);
    wharf_buffer *buffer = NULL;
    wharf_stats before;

    T_OK(wharf_pool_trim(node));
    before = t_stats();
    for (long i = 0; i < 60; i++) {
        wharf_buffer *larger =
            t_attach(node, 1000 + (size_t)i * i * 997 + (size_t)t_me, 0);

        t_share(node, larger, (uint64_t)i);
        if (buffer != NULL) {
            for (int rank = 0; rank < t_ranks; rank++)
                t_check_segment(node, buffer, rank, (uint64_t)i - 1);
            t_barrier();
            t_detach(buffer);
        }
        buffer = larger;
    }
    t_detach(buffer);
    T_OK(wharf_pool_trim(node));
    t_live_check(&before);
    t_close(node);
    t_live_check(NULL);
}

/* Memory freed and allocated again, most likely at the same address: peers
 * see the new bytes. The fast owner attaches as soon as it may. */
static void same_address_new_bytes(void)
{
    wharf_node *node = open_pool(WHARF_SWITCH_OFF);
    size_t granularity = 0;

    T_OK(wharf_buffer_granularity(node, WHARF_SPACE_DEVICE, &granularity));
    for (long i = 0; i < 40; i++) {
        size_t size = granularity * (size_t)(1 + i % 3);
        wharf_buffer *buffer =
            t_attach(node, t_me == i % t_ranks ? size : 512, 0);

        t_share(node, buffer, 500 + (uint64_t)i);
        t_detach(buffer);
    }
    t_close(node);
    t_live_check(NULL);
}

/* Late importers, fast owner: one rank reads long after the others went into
 * detach; its bytes must stay until it comes. */
static void late_reader(void)
{
    wharf_node *node = open_pool(WHARF_SWITCH_OFF);

    for (int late = 0; late < t_ranks; late++) {
        wharf_buffer *buffer = t_attach(node, 200003, 0);

        t_fill_mine(node, buffer, 700 + (uint64_t)late);
        t_barrier();
        if (t_me == late) {
            for (int i = 0; i < 5; i++)
                for (int rank = 0; rank < t_ranks; rank++)
                    t_check_segment(node, buffer, rank, 700 + (uint64_t)late);
        }
        t_detach(buffer);
    }
    t_close(node);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"flat_without_pool", flat_without_pool, T_ANY},
    {"flat_with_pool", flat_with_pool, T_ANY},
    {"growing", growing, T_ANY},
    {"same_address_new_bytes", same_address_new_bytes, T_ANY},
    {"late_reader", late_reader, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
