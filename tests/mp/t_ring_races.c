/* SPDX-License-Identifier: MIT */
/* WHARF_CHECK_RACES: planted races are found, with slot and ranks; clean rings
 * are left in peace. */
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 5003 };

static wharf_node *node;
static wharf_stream stream;
static wharf_ring *ring;
static wharf_space space;

static void ring_open(wharf_space where)
{
    wharf_ring_options options = WHARF_RING_OPTIONS_INIT;
    wharf_ring_info info = WHARF_RING_INFO_INIT;

    node = t_open();
    stream = t_stream_create(node);
    options.slots = 2;
    options.slot_bytes = BYTES;
    options.space = where;
    T_OK(wharf_ring_create(node, &options, &ring));
    T_OK(wharf_ring_info_get(ring, &info));
    space = info.space;
}

static void ring_close(void)
{
    t_stream_sync(node, stream);
    T_OK(wharf_ring_check(ring));
    t_barrier();
    T_OK(wharf_ring_destroy(&ring));
    t_stream_destroy(node, stream);
    t_close(node);
    t_live_check(NULL);
}

static const wharf_node *place(void)
{
    return space == WHARF_SPACE_HOST ? NULL : node;
}

/* One slot of which the last byte, or the first, is what somebody spoils. */
static void *produce(unsigned char value)
{
    void *slot;

    T_OK(wharf_ring_produce_begin(ring, stream, &slot, NULL));
    t_stream_fill(node, stream, slot, value, BYTES);
    T_OK(wharf_ring_produce_end(ring, BYTES, stream));
    t_stream_sync(node, stream);
    return slot;
}

static void spoil(void *slot, size_t offset)
{
    unsigned char byte = 0xee;

    t_dev_write(place(), (char *)slot + offset, &byte, 1);
}

static void begin(uint64_t expected)
{
    const void *slot;
    wharf_ring_slot what;

    T_OK(wharf_ring_consume_begin(ring, stream, &slot, &what));
    T_EQ_INT((long long)expected, (long long)what.index);
    t_stream_sync(node, stream);
}

static void end(void)
{
    T_OK(wharf_ring_consume_end(ring, stream));
    t_stream_sync(node, stream);
}

/* The producer goes on writing after it has ended the slot: found by whoever
 * begins to read it then. */
static void written_after_end(wharf_space where)
{
    ring_open(where);
    if (t_me == 0) {
        void *slot = produce(1);

        spoil(slot, BYTES - 1);
    }
    t_barrier();
    if (t_me != 0) {
        begin(0);
        T_REFUSES(WHARF_EDATA, "slot 0 was still written",
                  wharf_ring_check(ring));
        T_OK(wharf_ring_check(ring));
        end();
        /* Still not what was handed over. */
        T_REFUSES(WHARF_EDATA, "slot 0 was written while",
                  wharf_ring_check(ring));
    }
    ring_close();
}

/* The second slot changes while consumers hold it. */
static void written_while_held(wharf_space where)
{
    char name[64];
    void *slot = NULL;

    ring_open(where);
    if (t_me == 0) {
        produce(1);
        slot = produce(2);
    } else {
        begin(0);
        end();
        begin(1);
        T_OK(wharf_ring_check(ring));
    }
    t_barrier();
    if (t_me == 0)
        spoil(slot, 0);
    t_barrier();
    if (t_me != 0) {
        end();
        snprintf(name, sizeof name, "slot 1 was written while rank %d held",
                 t_me);
        T_REFUSES(WHARF_EDATA, name, wharf_ring_check(ring));
        T_OK(wharf_ring_check(ring));
    }
    ring_close();
}

static void found(void)
{
    for (int where = 0; where < 2; where++) {
        written_after_end((wharf_space)where);
        written_while_held((wharf_space)where);
    }
}

/* Only what was said to be in a slot counts, and nothing may be. */
static void left_in_peace(void)
{
    static const size_t sizes[] = {0, 1, 7, 8, 9, 1024, BYTES};

    ring_open(WHARF_SPACE_DEVICE);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (t_me == 0) {
            void *slot;

            T_OK(wharf_ring_produce_begin(ring, stream, &slot, NULL));
            t_stream_fill(node, stream, slot, (unsigned char)i, BYTES);
            T_OK(wharf_ring_produce_end(ring, sizes[i], stream));
            t_stream_sync(node, stream);
            if (sizes[i] < BYTES)
                spoil(slot, sizes[i]);
        }
        t_barrier();
        if (t_me != 0) {
            begin(i);
            end();
            T_OK(wharf_ring_check(ring));
        }
    }
    ring_close();
}

static const t_case cases[] = {
    {"found", found, T_ANY},
    {"left_in_peace", left_in_peace, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    setenv("WHARF_CHECK_RACES", "1", 1);
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
