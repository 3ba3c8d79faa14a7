/* SPDX-License-Identifier: MIT */
/*
 * Offers of buffers over a socket, from inside: a right one makes a guest's
 * node that reads and writes the same memory; anything else is refused without
 * a crash, a hang or a leak. Argument rounds=N: spoilt offers.
 */
#include "t_group.h"

#include <errno.h>
#include <mpi.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sys.h"
#include "core/visit_wire.h"

static wharf_node *node;
static wharf_buffer *buffers[3];

static void attach_all(void)
{
    wharf_buffer_options options = WHARF_BUFFER_OPTIONS_INIT;

    node = t_open();
    options.space = WHARF_SPACE_HOST;
    options.flags = WHARF_BUFFER_READ_ONLY;
    options.name = "host";
    buffers[0] = t_attach(node, 100000 + 4096 * (size_t)t_me, 0);
    T_OK(wharf_buffer_attach(node, 9000, &options, &buffers[1]));
    buffers[2] = t_attach(node, t_me == 0 ? 0 : 777, 0);
    for (int i = 0; i < 3; i++)
        t_fill_mine(node, buffers[i], 60 + (uint64_t)i);
    t_barrier();
}

static void detach_all(void)
{
    t_barrier();
    for (int i = 0; i < 3; i++)
        t_detach(buffers[i]);
    t_close(node);
}

static void pair(int fds[2])
{
    T_OK(wi_sys_socketpair(SOCK_SEQPACKET, fds));
}

static void pair_close(int fds[2])
{
    wi_sys_close(&fds[0]);
    wi_sys_close(&fds[1]);
}

static wharf_status begin(const wi_bundle *bundle, const wi_visit_wish *wish,
                          wharf_node **guest)
{
    int fds[2];
    wharf_status status;

    pair(fds);
    T_OK(wi_bundle_send(bundle, fds[0], wi_deadline_in_ms(5000)));
    status = wi_visit_begin(fds[1], wish, wi_deadline_in_ms(5000), guest);
    pair_close(fds);
    return status;
}

/* What wi_offer_send sends of all three buffers. */
static wi_bundle parcel_of_all(void)
{
    wi_bundle bundle = {0};
    wi_offer *offer = NULL;
    int fds[2];

    pair(fds);
    T_OK(wi_offer_make(node, 3, buffers, false, &offer));
    T_OK(wi_offer_send(offer, fds[0], wi_deadline_in_ms(5000)));
    T_EQ_INT(0, fds[1] < 0);
    T_OK(wi_bundle_receive(&bundle, fds[1], wi_deadline_in_ms(5000)));
    T_EQ_INT(wi_offer_descriptors(offer), bundle.count);
    wi_offer_free(offer);
    pair_close(fds);
    return bundle;
}

static void right(void)
{
    attach_all();
    wi_bundle bundle = parcel_of_all();
    wi_visit_wish wish = {.keep_current = true};
    wharf_node *guest = NULL;
    int some = 0;

    T_OK(begin(&bundle, &wish, &guest));
    T_EQ_INT(3, wi_visit_buffers(guest));
    T_CHECK(wi_visit_buffer(guest, 3) == NULL);
    T_CHECK(wi_visit_buffer(node, 0) == NULL && wi_node_is_guest(guest));
    /* What kernels copy at the lender they copy here. */
    for (int way = 0; way < 6; way++) {
        wharf_copy_between between = (wharf_copy_between)(way % 3);
        size_t there = 0, here = 0;

        T_OK(wharf_copy_kernel_most(node, between, way / 3, &there));
        T_OK(wharf_copy_kernel_most(guest, between, way / 3, &here));
        T_CHECK(there == here);
        some |= here > 0;
    }
    /* Not where ranks share a GPU by time slices. */
    MPI_Allreduce(MPI_IN_PLACE, &some, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    T_EQ_INT(t_mode_get() != T_HOST, some);
    for (int i = 0; i < 3; i++)
        for (int rank = 0; rank < t_ranks; rank++)
            t_check_segment(guest, wi_visit_buffer(guest, i), rank,
                            60 + (uint64_t)i);
    t_barrier();
    for (int i = 0; i < 3; i++)
        t_fill_mine(guest, wi_visit_buffer(guest, i), 70 + (uint64_t)i);
    t_barrier();
    for (int i = 0; i < 3; i++)
        for (int rank = 0; rank < t_ranks; rank++)
            t_check_segment(node, buffers[i], rank, 70 + (uint64_t)i);
    wi_visit_end(&guest);
    T_CHECK(guest == NULL);
    wi_bundle_clear(&bundle);
    detach_all();
}

static void wishes(void)
{
    attach_all();
    wi_bundle bundle = parcel_of_all();
    wi_visit_wish wish = {.keep_current = true, .read_only = true};
    int next = (t_me + 1) % t_ranks;
    wharf_node *guest = NULL;

    T_OK(begin(&bundle, &wish, &guest));
    for (int rank = 0; rank < t_ranks; rank++)
        T_EQ_INT(1, t_info(wi_visit_buffer(guest, 1), rank).write_protected);
    T_OK(wharf_node_close(&guest));
    wish = (wi_visit_wish){.keep_current = true, .other_rank = true};
    wish.rank = next;
    T_OK(begin(&bundle, &wish, &guest));
    T_EQ_INT(next, wharf_node_rank(guest));
    T_EQ_INT(0, t_info(wi_visit_buffer(guest, 1), next).write_protected);
    T_OK(wharf_node_close(&guest));
    wish.rank = t_ranks;
    T_STATUS(WHARF_EARG, begin(&bundle, &wish, &guest));
    T_CHECK(guest == NULL);
    wi_bundle_clear(&bundle);
    detach_all();
}

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* One word, or half of one, becomes something that a count or an offset should
 * not be. */
static void spoil(wi_bundle *bundle, uint64_t *state)
{
    static const uint64_t odd[] = {0,
                                   1,
                                   UINT64_MAX,
                                   INT32_MAX,
                                   (uint64_t)1 << 31,
                                   UINT32_MAX,
                                   INT64_MAX,
                                   (uint64_t)1 << 63,
                                   4096,
                                   513,
                                   (uint64_t)1 << 46};
    size_t at = random_next(state) % (bundle->length / 4) * 4;
    uint64_t value = odd[random_next(state) % (sizeof odd / sizeof *odd)];
    size_t bytes = random_next(state) % 2 && at + 8 <= bundle->length ? 8 : 4;
    uint64_t was = 0;

    memcpy(&was, bundle->bytes + at, bytes);
    switch (random_next(state) % 4) {
    case 0:
        value = was + 1;
        break;
    case 1:
        value = was - 1;
        break;
    case 2:
        value = was ^ (UINT64_C(1) << random_next(state) % (8 * bytes));
        break;
    default:
        break;
    }
    memcpy(bundle->bytes + at, &value, bytes);
}

/* A guest that did come to be must be usable, and go. */
static void try_spoilt(const wi_bundle *good, uint64_t *state)
{
    wi_bundle bad = {.length = good->length, .count = good->count};
    wi_visit_wish wish = {.keep_current = true};
    wharf_node *guest = NULL;
    wharf_error error;

    bad.bytes = malloc(good->length);
    T_CHECK(bad.bytes != NULL);
    memcpy(bad.bytes, good->bytes, good->length);
    bad.fds = good->fds;
    for (uint64_t n = random_next(state) % 3; n < 3; n++)
        spoil(&bad, state);
    if (random_next(state) % 8 == 0)
        bad.length -= random_next(state) % (bad.length / 8 - 40) * 8;
    if (random_next(state) % 8 == 0)
        bad.count = (int)(random_next(state) % (uint64_t)(good->count + 1));
    wharf_status status = begin(&bad, &wish, &guest);

    if (status == WHARF_OK) {
        wi_visit_end(&guest);
    } else {
        T_CHECK(guest == NULL);
        wharf_last_error(&error);
        T_EQ_INT(status, error.status);
        T_CHECK(error.cause[0] != '\0');
    }
    free(bad.bytes);
}

static void spoilt(void)
{
    attach_all();
    wi_bundle good = parcel_of_all();
    uint64_t state = 88172645463325252 + (uint64_t)t_me;
    wharf_stats before = t_stats();
    t_holdings held = t_holdings_get();

    for (long i = 0; i < t_argument("rounds", 400); i++)
        try_spoilt(&good, &state);
    t_live_check(&before);
    T_EQ_INT(held.descriptors, t_holdings_get().descriptors);
    for (int i = 0; i < 3; i++)
        for (int rank = 0; rank < t_ranks; rank++)
            t_check_segment(node, buffers[i], rank, 60 + (uint64_t)i);
    wi_bundle_clear(&good);
    detach_all();
}

/* Messages that are no pieces of an offer. */
static void refuse(const void *bytes, size_t size, int times, bool close_it,
                   wharf_status expected)
{
    wharf_node *guest = NULL;
    int fds[2];

    pair(fds);
    for (int i = 0; i < times; i++)
        T_CHECK(send(fds[0], bytes, size, 0) == (ssize_t)size);
    if (close_it)
        wi_sys_close(&fds[0]);
    T_STATUS(expected,
             wi_visit_begin(fds[1], NULL, wi_deadline_in_ms(30), &guest));
    T_CHECK(guest == NULL);
    pair_close(fds);
}

static void no_offer(void)
{
    struct {
        uint32_t magic, fds;
        uint64_t total, at;
        uint32_t bytes, total_fds;
        char rest[1024];
    } piece = {WI_VISIT_MAGIC, 0, 4096, 0, 0, 0, {0}};
    size_t head = offsetof(__typeof__(piece), rest);

    node = t_open();
    refuse("x", 1, 0, false, WHARF_ETIMEDOUT);
    refuse("x", 1, 0, true, WHARF_EPEER);
    refuse("x", 1, 1, false, WHARF_EPROTOCOL);
    refuse(&piece, head, 4, false, WHARF_EPROTOCOL);
    piece.bytes = 1024;
    refuse(&piece, head + 1024, 1, false, WHARF_ETIMEDOUT);
    refuse(&piece, head + 1024, 1, true, WHARF_EPEER);
    refuse(&piece, head + 1024, 2, false, WHARF_EPROTOCOL); /* same place */
    refuse(&piece, head + 1000, 1, false, WHARF_EPROTOCOL);
    piece.fds = 3;
    refuse(&piece, head + 1024, 1, false, WHARF_EPROTOCOL);
    piece.fds = 0;
    piece.total_fds = 1 << 30;
    refuse(&piece, head + 1024, 1, false, WHARF_EPROTOCOL);
    piece.total_fds = 0;
    piece.total = UINT64_C(1) << 60;
    refuse(&piece, head + 1024, 1, false, WHARF_EPROTOCOL);
    piece.total = 1024;
    refuse(&piece, head + 1024, 1, false, WHARF_EPROTOCOL);
    t_close(node);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"right", right, T_ANY},
        {"wishes", wishes, T_ANY},
        {"no_offer", no_offer, T_ANY},
        {"spoilt", spoilt, T_ANY},
        {NULL, NULL, 0},
    };

    setenv("WHARF_LOG", "none", 1);
    return t_main(argc, argv, MPI_THREAD_SINGLE, cases);
}
