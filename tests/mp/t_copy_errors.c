/* SPDX-License-Identifier: MIT */
/* Copies that must be refused, each by its own sentence, with nothing done. */
#include "t_graph.h"
#include "t_group.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 4096 };

static wharf_node *node;
static wharf_buffer *buffer, *own;
static char *mine; /* own segment of `own` */

static void begin(void)
{
    node = t_open();
    buffer = t_attach(node, t_me == 1 ? BYTES / 2 : BYTES, 0);
    own = t_attach(node, 4 * BYTES, 0);
    mine = t_segment(own, t_me, NULL);
    t_dev_fill(node, t_segment(buffer, t_me, NULL), 9, 2048);
    t_barrier();
}

static void end(void)
{
    t_barrier();
    T_EQ_INT(-1,
             t_dev_check_value(node, t_segment(buffer, t_me, NULL), 2048, 9));
    t_detach(own);
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* ---- Arguments --------------------------------------------------------- */

static void ranks_and_ranges(void)
{
    begin();
    T_REFUSES(WHARF_EARG, "rank is -1",
              wharf_put(buffer, -1, 0, mine, 4, NULL));
    T_REFUSES(WHARF_EARG, "rank is",
              wharf_get(buffer, t_ranks, 0, mine, 4, NULL));
    T_REFUSES(WHARF_EARG, "segment of rank 0",
              wharf_put(buffer, 0, 1, mine, BYTES, NULL));
    T_REFUSES(WHARF_EARG, "segment of rank 1",
              wharf_put(buffer, 1, 0, mine, BYTES / 2 + 1, NULL));
    T_REFUSES(WHARF_EARG, "segment of rank 1",
              wharf_get(buffer, 1, BYTES / 2, mine, 1, NULL));
    T_REFUSES(WHARF_EARG, "segment of rank 0",
              wharf_get(buffer, 0, SIZE_MAX, mine, 2, NULL));
    T_REFUSES(WHARF_EARG, "segment of rank 0",
              wharf_put(buffer, 0, 16, mine, SIZE_MAX / 4, NULL));
    T_REFUSES(WHARF_EARG, "2^62",
              wharf_put(buffer, 0, 0, mine, SIZE_MAX, NULL));
    T_REFUSES(WHARF_EARG, "segment of rank 0",
              wharf_put(buffer, 0, BYTES + 1, mine, 0, NULL));
    T_OK(wharf_put(buffer, 0, BYTES, mine, 0, NULL));
    T_OK(wharf_get(buffer, 0, 0, NULL, 0, NULL));
    end();
}

static void pointers(void)
{
    char *there;

    begin();
    there = t_segment(buffer, 0, NULL);
    T_REFUSES(WHARF_EARG, "from is NULL",
              wharf_put(buffer, 0, 0, NULL, 1, NULL));
    T_REFUSES(WHARF_EARG, "to is NULL", wharf_get(buffer, 0, 0, NULL, 1, NULL));
    T_REFUSES(WHARF_EARG, "address space",
              wharf_get(buffer, 0, 0, (void *)(UINTPTR_MAX - 10), 12, NULL));
    T_REFUSES(WHARF_EARG, "overlap", wharf_put(buffer, 0, 0, there, 100, NULL));
    T_REFUSES(WHARF_EARG, "overlap", wharf_put(buffer, 0, 64, there, 65, NULL));
    T_REFUSES(WHARF_EARG, "overlap",
              wharf_get(buffer, 0, 0, there + 127, 128, NULL));
    end();
}

/* Takes a box apart: what is wrong shows in the sentence. */
static void boxes(void)
{
    wharf_box narrow = {16, 4, 1, 15, 0, 0, 0};
    wharf_box flat = {16, 4, 3, 16, 63, 16, 64};
    wharf_box endless = {1, SIZE_MAX / 2, 1, 4, 0, 4, 0};
    wharf_box planes = {1, SIZE_MAX / 2, 3, 4, 0, 4, 0};
    wharf_box beyond = {16, 257, 1, 16, 0, 16, 0};
    wharf_box columns = {4, 64, 1, 32, 0, 32, 0};
    wharf_box mixed = {4, 64, 1, 32, 0, 16, 0};
    char *there;

    begin();
    there = t_segment(buffer, 0, NULL);
    T_REFUSES(WHARF_EARG, "box is NULL",
              wharf_put_box(buffer, 0, 0, mine, NULL, NULL));
    T_REFUSES(WHARF_EARG, "box.from_pitch is 15",
              wharf_put_box(buffer, 0, 0, mine, &narrow, NULL));
    T_REFUSES(WHARF_EARG, "box.from_plane is 63",
              wharf_get_box(buffer, 0, 0, mine, &flat, NULL));
    T_REFUSES(WHARF_EARG, "2^62",
              wharf_get_box(buffer, 0, 0, mine, &endless, NULL));
    T_REFUSES(WHARF_EARG, "2^62 bytes",
              wharf_get_box(buffer, 0, 0, mine, &planes, NULL));
    T_REFUSES(WHARF_EARG, "segment of rank 0",
              wharf_put_box(buffer, 0, 0, mine, &beyond, NULL));
    T_REFUSES(WHARF_EARG, "overlap",
              wharf_put_box(buffer, 0, 2, there, &columns, NULL));
    T_REFUSES(WHARF_EARG, "overlap",
              wharf_put_box(buffer, 0, 34, there, &columns, NULL));
    T_REFUSES(WHARF_EARG, "overlap",
              wharf_put_box(buffer, 0, 8, there, &mixed, NULL));
    end();
}

static void dead_and_foreign(void)
{
    wharf_buffer *gone;
    wharf_stream foreign;

    begin();
    gone = own;
    T_REFUSES(WHARF_EARG, "buffer is NULL",
              wharf_put(NULL, 0, 0, mine, 4, NULL));
    foreign = t_foreign_stream_create(node);
    if (foreign) {
        T_REFUSES(WHARF_EARG, "stream",
                  wharf_put(buffer, 0, 0, mine, 4, foreign));
        T_REFUSES(WHARF_EARG, "stream",
                  wharf_get(buffer, 0, 0, mine, 4, foreign));
        t_foreign_stream_destroy(node, foreign);
    }
    if (t_mode_get() == T_HOST)
        T_REFUSES(WHARF_EARG, "stream",
                  wharf_put(buffer, 0, 0, mine, 4, (wharf_stream)&foreign));
    t_barrier();
    t_detach(own);
    T_REFUSES(WHARF_ESTATE, "buffer", wharf_put(gone, 0, 0, mine, 4, NULL));
    own = t_attach(node, BYTES, 0);
    mine = t_segment(own, t_me, NULL);
    end();
}

static void read_only(void)
{
    wharf_buffer *shared;
    wharf_box box = WHARF_BOX_INIT;
    wharf_copy_way way;
    int other = (t_me + 1) % t_ranks;

    begin();
    box.width = 100;
    shared = t_attach(node, BYTES, WHARF_BUFFER_READ_ONLY);
    T_OK(wharf_put(shared, t_me, 0, mine, 100, NULL));
    T_OK(wharf_get(shared, other, 0, mine, 100, NULL));
    T_REFUSES(WHARF_EARG, "WHARF_BUFFER_READ_ONLY",
              wharf_put(shared, other, 0, mine, 100, NULL));
    T_REFUSES(WHARF_EARG, "WHARF_BUFFER_READ_ONLY",
              wharf_copy_way_find(shared, WHARF_COPY_PUT, other, 0, mine, &box,
                                  &way, NULL));
    T_OK(wharf_copy_way_find(shared, WHARF_COPY_GET, other, 0, mine, &box, &way,
                             NULL));
    if (t_info(shared, other).write_protected)
        T_REFUSES(WHARF_EARG, "only be read",
                  wharf_get(shared, t_me, 0, t_segment(shared, other, NULL),
                            100, NULL));
    /* Of another buffer: the driver knows, the CPU would fault. */
    if (t_info(shared, other).write_protected && t_mode_get() != T_HOST)
        T_REFUSES(
            WHARF_EARG, "only be read",
            wharf_get(own, t_me, 0, t_segment(shared, other, NULL), 100, NULL));
    t_stream_sync(node, NULL);
    t_barrier();
    t_detach(shared);
    end();
}

/* ---- With a notify ----------------------------------------------------- */

static void notifies(void)
{
    wharf_notify *notify, *gone, *strange;
    wharf_node *second;

    begin();
    T_OK(wharf_notify_create(node, 0, NULL, &notify));
    second = t_open();
    T_OK(wharf_notify_create(second, 0, NULL, &strange));
    if (t_me == 0) {
        T_REFUSES(WHARF_ESTATE, "waiter",
                  wharf_put_notify(buffer, 0, 0, mine, 4, notify, NULL));
    } else {
        T_REFUSES(WHARF_EARG, "different nodes",
                  wharf_put_notify(buffer, 0, 0, mine, 4, strange, NULL));
        T_REFUSES(WHARF_EARG, "segment of rank 0",
                  wharf_put_notify(buffer, 0, 1, mine, BYTES, notify, NULL));
        T_REFUSES(WHARF_EARG, "notify is NULL",
                  wharf_put_notify(buffer, 0, 0, mine, 4, NULL, NULL));
    }
    /* Nobody has recorded. */
    if (t_me == 0)
        T_REFUSES(WHARF_ETIMEDOUT, "no record",
                  wharf_notify_wait_host(notify, 1, 60));
    T_OK(wharf_notify_destroy(&strange));
    t_close(second);
    gone = notify;
    T_OK(wharf_notify_destroy(&notify));
    T_REFUSES(WHARF_ESTATE, "notify",
              wharf_put_notify(buffer, 0, 0, mine, 4, gone, NULL));
    end();
}

/* ---- Queries ----------------------------------------------------------- */

static void queries(void)
{
    wharf_box box = WHARF_BOX_INIT;
    wharf_copy_way way = (wharf_copy_way)99;
    size_t most = 99;
    char reason[96];

    begin();
    box.width = 64;
    T_REFUSES(WHARF_EARG, "call is 7",
              wharf_copy_way_find(buffer, (wharf_copy_call)7, 0, 0, mine, &box,
                                  &way, NULL));
    T_REFUSES(WHARF_EARG, "way is NULL",
              wharf_copy_way_find(buffer, WHARF_COPY_PUT, 0, 0, mine, &box,
                                  NULL, NULL));
    T_REFUSES(WHARF_EARG, "rank is",
              wharf_copy_way_find(buffer, WHARF_COPY_PUT, -3, 0, mine, &box,
                                  &way, reason));
    T_REFUSES(WHARF_EARG, "between is",
              wharf_copy_kernel_most(node, (wharf_copy_between)3, 0, &most));
    T_REFUSES(WHARF_EARG, "notify is 2",
              wharf_copy_kernel_most(node, WHARF_COPY_ONE_GPU, 2, &most));
    T_REFUSES(WHARF_EARG, "bytes is NULL",
              wharf_copy_kernel_most(node, WHARF_COPY_ONE_GPU, 0, NULL));
    T_EQ_INT(99, way);
    T_EQ_INT(99, most);
    T_EQ_STR("engine", wharf_copy_way_name(WHARF_COPY_ENGINE));
    T_EQ_STR("kernel", wharf_copy_way_name(WHARF_COPY_KERNEL));
    T_EQ_STR("host", wharf_copy_way_name(WHARF_COPY_HOST));
    T_EQ_STR("nothing", wharf_copy_way_name(WHARF_COPY_NOTHING));
    T_EQ_STR("unknown", wharf_copy_way_name((wharf_copy_way)4));
    end();
}

static const t_case cases[] = {
    {"ranks_and_ranges", ranks_and_ranges, T_ANY},
    {"pointers", pointers, T_ANY},
    {"boxes", boxes, T_ANY},
    {"dead_and_foreign", dead_and_foreign, T_ANY},
    {"read_only", read_only, T_ANY},
    {"notifies", notifies, T_ANY},
    {"queries", queries, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_FUNNELED, cases);
}
