/* SPDX-License-Identifier: MIT */
/*
 * Messages on the descriptor channel: one rank of three exchanges parcels with
 * peers that say anything, send descriptors along, and hang up.
 *
 * The first byte chooses the rank under test: 0, or a guest. Then come records
 * of 8 bytes: peer and number of descriptors, how to spoil the message's size,
 * and small numbers for its fields; 0 everywhere is the next good message.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sys.h"
#include "comm/private.h"
#include "fuzz.h"

#define RANKS 3
#define PARCELS 6
#define RECORD 8

static const int senders[PARCELS] = {0, 1, 2, 2, 1, 0};

typedef struct taken {
    int rank;
    bool seen[PARCELS];
} taken;

/* As wi_parcel_taker says: any index once, never one's own, open descriptors
 * that are now ours. */
static void take(void *argument, int index, const wi_parcel *parcel)
{
    taken *t = argument;

    FUZZ_CHECK(index >= 0 && index < PARCELS);
    FUZZ_CHECK(!t->seen[index] && senders[index] != t->rank);
    t->seen[index] = true;
    FUZZ_CHECK(parcel->count >= 0 && parcel->count <= WI_PARCEL_FDS);
    for (int i = 0; i < parcel->count; i++) {
        int fd = parcel->fds[i];

        FUZZ_CHECK(fcntl(fd, F_GETFD) >= 0);
        wi_sys_close(&fd);
    }
}

/* The parcel that a peer would send next, by how many it has sent. */
static int index_due(int sender, int sent)
{
    for (int i = 0; i < PARCELS; i++)
        if (senders[i] == sender && sent-- == 0)
            return i;
    return PARCELS;
}

/* A small number that now and then is a huge one. */
static int32_t stretched(uint8_t byte)
{
    int8_t value = (int8_t)byte;

    if (value == INT8_MIN)
        return INT32_MIN;
    if (value == INT8_MAX)
        return INT32_MAX;
    return value;
}

static void say(int socket, int sender, const uint8_t *record, int *sent)
{
    wi_message message = {
        .serial = 1 + (uint64_t)stretched(record[2]),
        .sender = (int32_t)((uint32_t)sender + (uint32_t)stretched(record[4])),
        .count = stretched(record[5]),
        .broken = record[6]};
    size_t bytes = sizeof message;
    int fds[WI_PARCEL_FDS];
    int count = record[0] >> 2;

    message.index = (int32_t)((uint32_t)index_due(sender, (*sent)++) +
                              (uint32_t)stretched(record[3]));
    memset(message.bytes, record[7], sizeof message.bytes);
    if (record[1])
        bytes = record[1] < 128 ? record[1] : bytes - (record[1] - 128u);
    for (int i = 0; i < count; i++)
        fds[i] = STDERR_FILENO;
    /* Full sockets lose the rest: whoever reads must get on without. */
    wharf_ignore(wi_channel_send(socket, &message, bytes, fds, count));
}

static void comm_make(wi_comm *comm, int rank, int peer[RANKS])
{
    wi_comm shape = {.size = RANKS};
    int control = -1;

    *comm = (wi_comm){.rank = rank, .size = RANKS, .lock_fd = -1};
    comm->identities = calloc(RANKS, sizeof *comm->identities);
    FUZZ_CHECK(comm->identities != NULL);
    FUZZ_CHECK(!wi_channel_new(comm));
    FUZZ_CHECK(!wi_control_layout(RANKS, 64, &shape.control_bytes,
                                  &shape.shared_offset));
    comm->control_bytes = shape.control_bytes;
    FUZZ_CHECK(!wi_control_create(&shape, &control));
    FUZZ_CHECK(!wi_control_join(comm, control));
    wi_sys_close(&control);
    for (int r = 0; r < RANKS; r++) {
        int ends[2];

        peer[r] = -1;
        if (r == rank || (rank > 0 && r > 0))
            continue;
        FUZZ_CHECK(
            !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends));
        wi_sys_adopt(ends[0]);
        comm->channel.sockets[r] = ends[0];
        peer[r] = ends[1];
    }
}

static void comm_end(wi_comm *comm)
{
    wi_control_leave(comm);
    wi_channel_free(comm);
    free(comm->identities);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    taken t = {.rank = size && data[0] & 1 ? 1 : 0};
    static wi_parcel mine[PARCELS];
    int peer[RANKS], sent[RANKS] = {0};
    bool broken = false;
    wharf_status status;
    wi_comm comm;

    wi_log_set_level(WI_LOG_NONE);
    comm_make(&comm, t.rank, peer);
    for (size_t at = 1; at + RECORD <= size && at < 40 * RECORD; at += RECORD) {
        int sender = t.rank == 0 ? 1 + (data[at] & 1) : data[at] & 2;

        broken = broken || data[at + 6];
        say(peer[t.rank == 0 ? sender : 0], sender, data + at, &sent[sender]);
    }
    for (int r = 0; r < RANKS; r++) {
        if (peer[r] < 0)
            continue;
        /* The end comes after what was said; what it is sent it may read. */
        shutdown(peer[r], SHUT_WR);
    }
    status = wi_comm_exchange(&comm, PARCELS, senders, mine, take, &t,
                              wi_deadline_in_ms(0));
    fuzz_answer(status, FUZZ_BIT(WHARF_EPEER) | FUZZ_BIT(WHARF_ETIMEDOUT) |
                            FUZZ_BIT(WHARF_EOS));
    for (int r = 0; r < RANKS; r++)
        if (peer[r] >= 0)
            close(peer[r]);
    /* A parcel that its sender could not make is not taken, as agreed. */
    for (int i = 0; i < PARCELS && status == WHARF_OK; i++)
        FUZZ_CHECK(t.seen[i] || senders[i] == t.rank || broken);
    comm_end(&comm);
    fuzz_nothing_left();
    return 0;
}
