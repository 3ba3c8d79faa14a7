/* SPDX-License-Identifier: MIT */
/*
 * Memory that the ranks had before: every kind, at every offset, seen by every
 * rank; what cannot be shared is refused by name or mirrored.
 */
#include "attach_memory.h"

#include <mpi.h>
#include <string.h>
#include <sys/resource.h>

static unsigned flags_for(t_kind kind)
{
    return kind == T_KIND_SMALL ? EXPOSE : t_mine_direct(kind) ? 0 : STAGE;
}

static void one_kind(wharf_node *node, t_kind kind, size_t offset, size_t bytes)
{
    t_memory m = t_memory_new(node, kind, offset, bytes, 777);
    wharf_buffer *buffer;

    t_mine_fill(node, &m, 5);
    buffer = t_mine_attached(node, m.pointer, m.bytes, flags_for(kind));
    for (int r = 0; r < t_ranks; r++) {
        size_t size;

        t_mine_segment(buffer, r, &size);
        t_mine_check_info(buffer, r, kind, size);
    }
    t_mine_use(node, buffer, &m, 5);
    t_detach(buffer);
    t_mine_check(node, &m, 7);
    t_memory_free(node, &m);
}

/* Kinds x offsets; sizes differ by rank. */
static void matrix(void)
{
    static const size_t offsets[] = {0, 256, 4099, (3u << 20) + 13};
    wharf_node *node = t_open();

    for (int k = 0; k < T_KINDS; k++) {
        wharf_stats before = t_stats();

        if (!t_kind_possible(node, (t_kind)k))
            continue;
        for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
            size_t bytes = 3000 + (size_t)t_me * 1001;

            if (k == T_KIND_SMALL && i == 3)
                continue;
            if (k == T_KIND_PIECES && i == 2)
                bytes += 9u << 20; /* over several pieces */
            one_kind(node, (t_kind)k, offsets[i], bytes);
        }
        t_live_check(&before);
    }
    t_close(node);
    t_live_check(NULL);
}

/* A different kind on each rank, and no memory on some. */
static void kinds_mixed(void)
{
    wharf_node *node = t_open();

    for (int turn = 0; turn < T_KINDS; turn++) {
        t_kind kind = (t_kind)((turn + t_me * 5) % T_KINDS);
        size_t bytes = (turn + t_me) % 4 == 3 ? 0 : 5000 + (size_t)t_me * 7;
        wharf_buffer *buffer;
        t_memory m;

        if (!t_kind_possible(node, kind))
            kind = T_KIND_HOST;
        m = t_memory_new(node, kind, 512, bytes, 0);
        t_mine_fill(node, &m, 9);
        buffer = t_mine_attached(node, bytes ? m.pointer : NULL, bytes,
                                 STAGE | EXPOSE);
        t_mine_check_info(buffer, t_me, kind, bytes);
        t_mine_use(node, buffer, &m, 9);
        t_detach(buffer);
        t_memory_free(node, &m);
    }
    t_close(node);
    t_live_check(NULL);
}

static void all_empty(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = t_mine_attached(node, NULL, 0, 0);
    void *base = &base;
    size_t size = 1;

    for (int r = 0; r < t_ranks; r++) {
        T_EQ_PTR(NULL, t_mine_segment(buffer, r, &size));
        T_EQ_INT(0, size);
    }
    T_OK(wharf_buffer_base(buffer, &base, &size));
    T_EQ_PTR(NULL, base);
    T_OK(wharf_buffer_sync_to(buffer, 0, 0, NULL));
    t_detach(buffer);
    t_close(node);
    t_live_check(NULL);
}

/* One allocation in two parts and as a whole; let go in both orders. */
static void parts(void)
{
    wharf_node *node = t_open();

    for (int turn = 0; turn < 4; turn++) {
        t_kind kind = turn < 2                 ? t_mine_usual()
                      : t_mode_get() == T_HOST ? T_KIND_SHARED
                      : turn == 2              ? T_KIND_POOL
                                               : T_KIND_PIECES;
        t_memory m = t_memory_new(node, kind, 64, 3 << 20, 64);
        size_t half = m.bytes / 2;
        wharf_buffer *whole, *low, *high;
        size_t size;

        t_mine_fill(node, &m, 20);
        low = t_mine_attached(node, m.pointer, half, STAGE);
        whole = t_mine_attached(node, m.pointer, m.bytes, STAGE);
        high = t_mine_attached(node, m.pointer + half, half, STAGE);
        for (int r = 0; r < t_ranks; r++) {
            char *at = t_mine_segment(low, r, &size);

            T_EQ_INT(half, size);
            T_EQ_INT(-1, t_dev_check_pattern(t_place(node, low, r), at, half,
                                             t_mine_seed(20, r)));
        }
        t_barrier();
        t_detach(turn % 2 ? low : whole);
        if (turn % 2)
            t_mine_use(node, whole, &m, 20);
        for (int r = 0; r < t_ranks; r++)
            t_mine_segment(high, r, &size);
        t_detach(turn % 2 ? whole : low);
        t_detach(high);
        t_memory_free(node, &m);
    }
    t_close(node);
    t_live_check(NULL);
}

/* Freed and allocated again, mostly at the same address: new bytes. */
static void reallocated(void)
{
    wharf_node *node = t_open();
    long rounds = t_argument("rounds", t_mode_get() == T_HOST ? 50 : 60);
    t_holdings before = t_holdings_get();
    const void *last = NULL;
    long same = 0;

    for (long i = 0; i < rounds; i++) {
        t_kind kind = t_mode_get() == T_HOST ? T_KIND_HOST
                      : i % 3 == 0           ? T_KIND_SMALL
                      : i % 3 == 1           ? T_KIND_PLAIN
                                             : T_KIND_POOL;
        size_t bytes = kind == T_KIND_SMALL ? 5000 : 70000;
        t_memory m = t_memory_new(node, kind, 0, bytes, 0);
        wharf_buffer *buffer;
        int peer = (t_me + 1) % t_ranks;
        char *at;

        same += m.pointer == last;
        last = m.pointer;
        t_mine_fill(node, &m, (uint64_t)i);
        buffer = t_mine_attached(node, m.pointer, m.bytes, STAGE | EXPOSE);
        at = t_mine_segment(buffer, peer, NULL);
        T_EQ_INT(-1, t_dev_check_pattern(t_place(node, buffer, peer), at, bytes,
                                         t_mine_seed((uint64_t)i, peer)));
        t_detach(buffer);
        t_memory_free(node, &m);
    }
    T_EQ_INT(before.descriptors, t_holdings_get().descriptors);
    t_close(node);
    t_live_check(NULL);
    (void)same;
}

/* The same address while the first buffer is still attached: the program freed
 * too early, and yet nobody mixes the two up. */
static void kept_apart(void)
{
    wharf_node *node = t_open();
    t_memory first = t_memory_new(node, T_KIND_SMALL, 0, 4096, 0);
    t_memory second = t_memory_new(node, T_KIND_SMALL, 0, 4096, 0);
    wharf_buffer *one, *two;

    t_mine_fill(node, &first, 30);
    t_mine_fill(node, &second, 31);
    one = t_mine_attached(node, first.pointer, 4096, EXPOSE);
    two = t_mine_attached(node, second.pointer, 4096, EXPOSE);
    t_mine_check_all(node, one, 30, "first of a block");
    t_mine_check_all(node, two, 31, "second of a block");
    t_barrier();
    t_detach(one);
    t_mine_check_all(node, two, 31, "second of a block, alone");
    t_detach(two);
    one = t_mine_attached(node, first.pointer, 4096, EXPOSE);
    t_mine_check_all(node, one, 30, "first of a block, again");
    t_detach(one);
    t_memory_free(node, &second);
    t_memory_free(node, &first);
    t_close(node);
    t_live_check(NULL);
}

static void neighbours(void)
{
    wharf_node *node = t_open();
    t_memory m = t_memory_new(node, T_KIND_SMALL, 0, 4096, 0);
    wharf_buffer *buffer = NULL;

    t_mine_fill(node, &m, 40);
    T_FAILS(MPI_COMM_WORLD, WHARF_EUNSUPPORTED, 0, "2 MiB block",
            t_mine_attach(node, m.pointer, 4096, 0, &buffer));
    T_CHECK(buffer == NULL);
    buffer = t_mine_attached(node, m.pointer, 4096, EXPOSE);
    T_CONTAINS("neighbours", t_info(buffer, 0).reason);
    T_EQ_INT(0, t_info(buffer, 0).mirrored);
    t_detach(buffer);
    buffer = t_mine_attached(node, m.pointer, 4096, STAGE);
    T_EQ_INT(1, t_info(buffer, 0).mirrored);
    t_mine_use(node, buffer, &m, 40);
    t_detach(buffer);
    t_memory_free(node, &m);
    t_close(node);
    t_live_check(NULL);
}

/* The rule behind it: from 2 MiB on nothing small lies in an allocation's
 * blocks, not even behind its end. */
static void blocks_of_their_own(void)
{
    wharf_node *node = t_open();
    t_memory big = t_memory_new(node, T_KIND_PLAIN, 0, (3u << 20) + 1, 0);
    uintptr_t from = (uintptr_t)big.base & ~(uintptr_t)0x1fffff;
    uintptr_t to = from + (4u << 20);
    t_memory small[64];

    T_EQ_INT(0, (uintptr_t)big.base % (2u << 20));
    for (int i = 0; i < 64; i++) {
        uintptr_t at;

        small[i] = t_memory_new(node, T_KIND_SMALL, 0, 1000u << (i % 8), 0);
        at = (uintptr_t)small[i].base;
        if (at >= from && at < to)
            T_FAIL("an allocation of %zu bytes lies behind one of 3 MiB + 1, "
                   "in its last block",
                   small[i].bytes);
    }
    for (int i = 0; i < 64; i++)
        t_memory_free(node, &small[i]);
    t_memory_free(node, &big);
    t_close(node);
}

/* Wharf's own copies know what the memory is: from a neighbour's into the
 * second half of the caller's own, by every kind. */
static void copied(void)
{
    wharf_node *node = t_open();
    int right = (t_me + 1) % t_ranks;
    size_t half = 30000;

    for (int k = 0; k < T_KINDS; k++) {
        t_memory m;
        wharf_buffer *buffer;

        if (!t_kind_possible(node, (t_kind)k) || k == T_KIND_OTHER_DEVICE)
            continue;
        m = t_memory_new(node, (t_kind)k, 0, 2 * half, 0);
        t_mine_fill(node, &m, 33);
        buffer = t_mine_attached(node, m.pointer, m.bytes, STAGE | EXPOSE);
        T_OK(wharf_get(buffer, right, 0, m.pointer + half, half, NULL));
        t_stream_sync(node, NULL);
        T_EQ_INT(-1, t_dev_check_pattern(t_memory_place(node, &m), m.pointer,
                                         half, t_mine_seed(33, t_me)));
        T_EQ_INT(-1,
                 t_dev_check_pattern(t_memory_place(node, &m), m.pointer + half,
                                     half, t_mine_seed(33, right)));
        t_barrier();
        T_OK(wharf_put(buffer, right, 100, m.pointer + half, half - 100, NULL));
        t_stream_sync(node, NULL);
        t_barrier();
        T_OK(wharf_buffer_sync_from(buffer, 100, half - 100, NULL));
        t_stream_sync(node, NULL);
        if (t_dev_check_pattern(t_memory_place(node, &m), m.pointer + 100,
                                half - 100, t_mine_seed(33, t_me)) >= 0)
            T_FAIL("%s: not what was put", t_kind_name(m.kind));
        t_detach(buffer);
        t_memory_free(node, &m);
    }
    t_close(node);
    t_live_check(NULL);
}

/* More pieces than one message carries: looked at around every edge. */
static void pieces_shared(void)
{
    wharf_node *node = t_open();
    int pieces = (int)t_argument("pieces", 12);
    size_t unit = 0, bytes;
    wharf_buffer *buffer;
    t_memory m;

    t_memory_pieces(pieces);
    m = t_memory_new(node, T_KIND_PIECES, 0, 1, 0);
    unit = m.whole;
    t_memory_free(node, &m);
    bytes = (size_t)pieces * unit * 3 / 2 - 1000;
    m = t_memory_new(node, T_KIND_PIECES, 500, bytes - 500, 0);
    T_CHECK(m.pieces >= pieces - 1);
    for (size_t at = unit; at + 600 < bytes; at += unit)
        t_dev_fill_pattern(node, m.base + at - 600, 1200,
                           t_mine_seed(at, t_me));
    buffer = t_mine_attached(node, m.pointer, m.bytes, 0);
    for (int r = 0; r < t_ranks; r++) {
        char *base = t_mine_segment(buffer, r, NULL) - 500;

        T_EQ_INT(m.pieces, t_info(buffer, r).chunks);
        T_EQ_INT(2 * unit, t_info(buffer, r).chunk_bytes);
        for (size_t at = unit; at + 600 < bytes; at += unit)
            T_EQ_INT(-1, t_dev_check_pattern(node, base + at - 600, 1200,
                                             t_mine_seed(at, r)));
    }
    t_barrier();
    t_detach(buffer);
    t_memory_free(node, &m);
    t_memory_pieces(8);
    t_close(node);
    t_live_check(NULL);
}

/* Then with room for fewer descriptors than one message could carry. A real
 * driver holds too many of its own. */
static void many_pieces(void)
{
    struct rlimit before, few;

    pieces_shared();
    if (t_mode_get() == T_GPU)
        return;
    T_EQ_INT(0, getrlimit(RLIMIT_NOFILE, &before));
    few = before;
    few.rlim_cur = 64;
    T_EQ_INT(0, setrlimit(RLIMIT_NOFILE, &few));
    pieces_shared();
    T_EQ_INT(0, setrlimit(RLIMIT_NOFILE, &before));
}

/* Other ranks read the mirror on a stream, behind an event. */
static void mirror_in_order(void)
{
    wharf_node *node = t_open();
    t_kind kind = t_mode_get() == T_HOST ? T_KIND_HOST : T_KIND_MANAGED;
    t_memory m = t_memory_new(node, kind, 0, 100000, 0);
    wharf_stream stream = t_stream_create(node);
    wharf_buffer *buffer;
    wharf_event *event;

    t_mine_fill(node, &m, 60);
    buffer = t_mine_attached(node, m.pointer, m.bytes, STAGE);
    for (int turn = 0; turn < 20; turn++) {
        int writer = turn % t_ranks;
        uint64_t number = (uint64_t)(turn / t_ranks) + 1;

        T_OK(wharf_buffer_event(buffer, writer, &event));
        if (t_me == writer) {
            t_stream_fill(node, stream, m.pointer, (unsigned char)turn,
                          m.bytes);
            T_OK(wharf_buffer_sync_to(buffer, 1000, 5000, stream));
            T_OK(wharf_event_record(event, stream, NULL));
        } else {
            char *at = t_mine_segment(buffer, writer, NULL);

            T_OK(wharf_event_synchronize(event, number, 0));
            T_EQ_INT(-1, t_dev_check_value(NULL, at + 1000, 5000,
                                           (unsigned char)turn));
            /* Not asked for, not copied. */
            if (turn < t_ranks)
                T_EQ_INT(t_pattern_byte(t_mine_seed(60, writer), 999),
                         (unsigned char)at[999]);
        }
        t_barrier();
    }
    t_detach(buffer);
    t_stream_destroy(node, stream);
    t_memory_free(node, &m);
    t_close(node);
    t_live_check(NULL);
}

static void read_only(void)
{
    wharf_node *node = t_open();
    wharf_buffer *buffer = NULL;

    for (int k = 0; k < T_KINDS; k++) {
        bool pieces = k == T_KIND_PIECES;
        t_memory m;

        if (!t_kind_possible(node, (t_kind)k) || k == T_KIND_OTHER_DEVICE)
            continue;
        m = t_memory_new(node, (t_kind)k, 0, 3 << 20, 0);
        t_mine_fill(node, &m, 70);
        if (!pieces)
            T_FAILS(MPI_COMM_WORLD, WHARF_EUNSUPPORTED, 0,
                    t_mine_direct((t_kind)k) ? "READ_ONLY" : NULL,
                    t_mine_attach(node, m.pointer, m.bytes,
                                  EXPOSE | WHARF_BUFFER_READ_ONLY, &buffer));
        buffer = t_mine_attached(node, m.pointer, m.bytes,
                                 (pieces ? 0 : STAGE) | EXPOSE |
                                     WHARF_BUFFER_READ_ONLY);
        t_mine_check_all(node, buffer, 70, "read-only");
        for (int r = 0; r < t_ranks; r++) {
            wharf_buffer_info info = t_info(buffer, r);

            T_EQ_INT(r != t_me, info.write_protected);
            T_EQ_INT(!pieces, info.mirrored);
        }
        t_barrier();
        t_detach(buffer);
        t_memory_free(node, &m);
    }
    t_close(node);
    t_live_check(NULL);
}

/* The right neighbour's handle. */
static t_handle exchange_handles(const t_memory *m)
{
    t_handle mine = t_memory_handle(m);
    t_handle theirs;

    MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, (t_me + t_ranks - 1) % t_ranks,
                 0, &theirs, sizeof theirs, MPI_BYTE, (t_me + 1) % t_ranks, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return theirs;
}

/* The program has opened the same memory for itself, before or after. */
static void opened_beside(void)
{
    wharf_node *node = t_open();
    t_memory m = t_memory_new(node, T_KIND_PLAIN, 0, 3 << 20, 0);
    t_handle theirs = exchange_handles(&m);
    int right = (t_me + 1) % t_ranks;
    wharf_buffer *buffer;
    void *opened;

    t_mine_fill(node, &m, 80);
    t_barrier();
    opened = t_handle_open(theirs); /* before; closed while attached */
    buffer = t_mine_attached(node, m.pointer, m.bytes, 0);
    t_handle_close(opened);
    t_mine_check_all(node, buffer, 80, "closed beside");
    opened = t_handle_open(theirs); /* after; outlives the buffer */
    T_EQ_INT(
        -1, t_dev_check_pattern(node, opened, m.bytes, t_mine_seed(80, right)));
    t_barrier();
    t_detach(buffer);
    T_EQ_INT(
        -1, t_dev_check_pattern(node, opened, m.bytes, t_mine_seed(80, right)));
    t_handle_close(opened);
    t_barrier();
    t_memory_free(node, &m);
    t_close(node);
    t_live_check(NULL);
}

/* Pointers into attached memory are pointers like others to MPI. Into device
 * memory only if MPI knows what that is. */
static void through_mpi(void)
{
    wharf_node *node = t_open();
    t_memory m = t_memory_new(node, T_KIND_HOST, 0, 200000, 0);
    int right = (t_me + 1) % t_ranks, left = (t_me + t_ranks - 1) % t_ranks;
    unsigned char *copy = malloc(m.bytes);
    wharf_buffer *buffer;

    T_CHECK(copy != NULL);
    t_mine_fill(node, &m, 90);
    buffer = t_mine_attached(node, m.pointer, m.bytes, STAGE);
    /* The right neighbour's memory, seen from here, to the left one. */
    MPI_Sendrecv(t_mine_segment(buffer, right, NULL), (int)m.bytes, MPI_BYTE,
                 left, 1, copy, (int)m.bytes, MPI_BYTE, right, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    T_EQ_INT(-1, t_dev_check_pattern(NULL, copy, m.bytes,
                                     t_mine_seed(90, (right + 1) % t_ranks)));
    t_barrier();
    /* And one received into it. */
    memset(copy, t_me, m.bytes);
    MPI_Sendrecv(copy, (int)m.bytes, MPI_BYTE, right, 2, m.pointer,
                 (int)m.bytes, MPI_BYTE, left, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    T_OK(wharf_buffer_sync_to(buffer, 0, 0, NULL));
    t_barrier();
    T_EQ_INT(-1, t_dev_check_value(NULL, t_mine_segment(buffer, right, NULL),
                                   m.bytes, (unsigned char)t_me));
    t_barrier();
    t_detach(buffer);
    free(copy);
    t_memory_free(node, &m);
    t_close(node);
}

/* A whole buffer's base exists where one rank alone has memory. */
static void base_of_one(void)
{
    wharf_node *node = t_open();
    t_memory m = t_memory_new(node, t_mine_usual(), 0, 3 << 20, 0);
    void *const *table;
    wharf_buffer *buffer;
    void *base = NULL;
    size_t size = 0;

    buffer = t_mine_attached(node, m.pointer, t_me == 0 ? m.bytes : 0, STAGE);
    T_OK(wharf_buffer_base(buffer, &base, &size));
    T_EQ_PTR(t_mine_segment(buffer, 0, NULL), base);
    T_EQ_INT(m.bytes, size);
    T_OK(wharf_buffer_pointer_table(buffer, &table));
    t_detach(buffer);
    buffer = t_mine_attached(node, m.pointer, m.bytes, STAGE);
    if (t_ranks > 1)
        T_REFUSES(WHARF_EUNSUPPORTED, "a place of its own",
                  wharf_buffer_base(buffer, &base, &size));
    t_detach(buffer);
    t_memory_free(node, &m);
    t_close(node);
    t_live_check(NULL);
}

/* The node is closed over its buffers. A second node keeps the GPU's context,
 * and with it the program's memory. */
static void closed_with(void)
{
    wharf_node *node = t_open(), *other = t_open();
    t_memory m = t_memory_new(node, t_mine_usual(), 0, 3 << 20, 0);
    t_memory host = t_memory_new(node, T_KIND_HOST, 0, 5000, 0);

    t_mine_fill(node, &m, 95);
    t_mine_attached(node, m.pointer, m.bytes, STAGE);
    t_mine_attached(node, host.pointer, host.bytes, STAGE);
    t_close(node);
    t_mine_check(other, &m, 95);
    t_memory_free(other, &m);
    t_memory_free(other, &host);
    t_close(other);
    t_live_check(NULL);
}

static const t_case cases[] = {
    {"matrix", matrix, T_ANY},
    {"kinds_mixed", kinds_mixed, T_ANY},
    {"all_empty", all_empty, T_ANY},
    {"parts", parts, T_ANY},
    {"reallocated", reallocated, T_ANY},
    {"kept_apart", kept_apart, T_CUDA},
    {"neighbours", neighbours, T_CUDA},
    {"blocks_of_their_own", blocks_of_their_own, T_CUDA},
    {"copied", copied, T_ANY},
    {"many_pieces", many_pieces, T_CUDA},
    {"mirror_in_order", mirror_in_order, T_ANY},
    {"read_only", read_only, T_ANY},
    {"opened_beside", opened_beside, T_CUDA},
    {"through_mpi", through_mpi, T_ANY},
    {"base_of_one", base_of_one, T_ANY},
    {"closed_with", closed_with, T_ANY},
    {NULL, NULL, 0},
};

int main(int argc, char **argv)
{
    return t_main(argc, argv, MPI_THREAD_SERIALIZED, cases);
}
