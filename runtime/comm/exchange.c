/* SPDX-License-Identifier: MIT */
/*
 * Parcels with descriptors from some ranks to all others, through rank 0.
 *
 * Rank 0 keeps a short ring of parcels under way: its own and those that it
 * reads. A parcel leaves the ring when every rank was sent it; only then rank 0
 * takes it itself, so that its own slow work does not hold the others up.
 *
 * Whatever fails for one parcel, the parcel still goes its way, marked broken
 * and without descriptors, so that nobody waits for it in vain; the rank where
 * it failed has a failing status, and the agreement that follows tells all.
 *
 * An exchange that was given up leaves messages in the sockets. Each carries
 * the exchange's serial number; older ones are thrown away.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/sys.h"
#include "base/trace.h"
#include "comm/private.h"

#define LIMIT_REMEDY "raise the limit of open files of this process (ulimit -n)"

typedef struct exchange {
    wi_comm *comm;
    wi_channel *c;
    int count;
    const int *senders;
    const wi_parcel *mine;
    wi_parcel_taker take;
    void *argument;
    wi_deadline deadline;
    wharf_status status; /* first failure of this rank */
    wharf_error record;  /* its record */
    int own_next;        /* first parcel of this rank's not yet sent */
    int missing;         /* parcels of other ranks still to come */
    uint64_t head, tail; /* rank 0: the ring holds parcels head .. tail-1 */
    int held;            /* rank 0: descriptors in the ring */
    bool crowded;        /* too many descriptors are under way: wait a little */
    wi_patience patience;
} exchange;

static void exchange_fail(exchange *x, wharf_status status)
{
    if (x->status != WHARF_OK)
        return;
    x->status = status;
    x->record = *wi_error_record();
}

/* Position of the next parcel of `sender` at or after `from`. */
static int parcel_next(const exchange *x, int sender, int from)
{
    while (from < x->count && x->senders[from] != sender)
        from++;
    return from;
}

static void parcel_came(exchange *x, const wi_message *message)
{
    x->c->got[message->sender]++;
    x->c->next[message->sender] = message->index + 1;
    x->missing--;
}

static void relay_drop(wi_relay *entry)
{
    if (!entry->own)
        for (int i = 0; i < entry->message.count; i++)
            wi_sys_close(&entry->fds[i]);
    entry->message.count = 0;
}

/* Hands a parcel of another rank to the caller. */
static void relay_take(exchange *x, wi_relay *entry)
{
    wi_parcel parcel = {.count = entry->message.count};

    if (entry->message.broken) {
        relay_drop(entry);
        return;
    }
    memcpy(parcel.bytes, entry->message.bytes, sizeof parcel.bytes);
    memcpy(parcel.fds, entry->fds, (size_t)parcel.count * sizeof(int));
    x->take(x->argument, entry->message.index, &parcel);
}

static void relay_own(exchange *x, wi_relay *entry, int index)
{
    const wi_parcel *parcel = &x->mine[index];

    assert(parcel->count >= 0 && parcel->count <= WI_PARCEL_FDS);
    entry->own = true;
    entry->message = (wi_message){.serial = x->c->serial,
                                  .index = index,
                                  .sender = x->comm->rank,
                                  .count = parcel->count};
    memcpy(entry->message.bytes, parcel->bytes, sizeof parcel->bytes);
    memcpy(entry->fds, parcel->fds, (size_t)parcel->count * sizeof(int));
}

static void relay_broken(exchange *x, wi_relay *entry, int index)
{
    entry->own = false;
    entry->message = (wi_message){.serial = x->c->serial,
                                  .index = index,
                                  .sender = x->senders[index],
                                  .broken = 1};
}

/* Sends; a failure that is not the peer's end makes this copy broken. Returns
 * WHARF_OK, WHARF_ENOTREADY, or WHARF_EPEER: the connection is gone. */
static wharf_status message_send(exchange *x, int socket, wi_relay *entry)
{
    wi_message broken;
    wharf_status status = wi_channel_send(
        socket, &entry->message, sizeof entry->message, entry->fds,
        entry->message.broken ? 0 : entry->message.count);

    if (status == WHARF_OK || status == WHARF_ENOTREADY)
        return status;
    if (wi_sys_peer_gone())
        return WHARF_EPEER;
    if (wi_sys_crowded()) {
        x->crowded = true;
        return WHARF_ENOTREADY;
    }
    exchange_fail(x, status);
    broken = entry->message;
    broken.broken = 1;
    broken.count = 0;
    status = wi_channel_send(socket, &broken, sizeof broken, NULL, 0);
    return status == WHARF_OK || status == WHARF_ENOTREADY ? status
                                                           : WHARF_EPEER;
}

/* The message is the one that its sender has to send next. */
static bool message_due(const exchange *x, const wi_message *message,
                        size_t bytes, int from)
{
    int sender = message->sender;

    return bytes == sizeof *message && message->serial == x->c->serial &&
           (from < 0 || sender == from) && sender >= 0 &&
           sender < x->comm->size && sender != x->comm->rank &&
           x->c->got[sender] < x->c->due[sender] &&
           message->index == parcel_next(x, sender, x->c->next[sender]);
}

/* Reads the next message of this exchange that is due: `from` that rank, or
 * from anybody if -1. WHARF_OK, WHARF_ENOTREADY, or WHARF_EPEER: the connection
 * is gone. */
static wharf_status message_receive(exchange *x, int socket, int from,
                                    wi_relay *entry)
{
    for (;;) {
        size_t bytes = 0;
        int count = 0;
        wharf_status status =
            wi_channel_receive(socket, &entry->message, sizeof entry->message,
                               &bytes, entry->fds, &count);

        if (status == WHARF_ENOTREADY)
            return status;
        if (status != WHARF_OK && !wi_sys_peer_gone()) {
            /* The message is still there. */
            exchange_fail(x, status);
            return WHARF_ENOTREADY;
        }
        if (status != WHARF_OK || bytes == 0)
            return WHARF_EPEER;
        entry->own = false;
        if (bytes != sizeof entry->message)
            entry->message = (wi_message){.sender = -1};
        if (count < 0) {
            exchange_fail(x, wi_fail_os(EMFILE, LIMIT_REMEDY,
                                        "no room for %d descriptors of rank %d "
                                        "(limit: ulimit -n)",
                                        entry->message.count,
                                        entry->message.sender));
            entry->message.broken = 1;
            count = 0;
        }
        entry->message.count = count;
        if (message_due(x, &entry->message, bytes, from))
            return WHARF_OK;
        relay_drop(entry);
    }
}

/* ---- the other ranks ---- */

static wharf_status other_gone(exchange *x)
{
    if (wi_alive_left(x->comm, 0))
        return wi_alive_fail_left(x->comm, 0);
    return wi_alive_fail_dead(x->comm, 0);
}

/* Sends what can be sent, takes what has come. WHARF_ENOTREADY: there is more
 * to do. */
static wharf_status other_step(exchange *x)
{
    int socket = x->c->sockets[0];

    x->crowded = false;
    while (x->own_next < x->count) {
        wharf_status status;

        relay_own(x, x->c->inbox, x->own_next);
        status = message_send(x, socket, x->c->inbox);
        if (status == WHARF_EPEER)
            return other_gone(x);
        if (status != WHARF_OK)
            break;
        x->own_next = parcel_next(x, x->comm->rank, x->own_next + 1);
    }
    while (x->missing > 0) {
        wharf_status status = message_receive(x, socket, -1, x->c->inbox);

        if (status == WHARF_EPEER)
            return other_gone(x);
        if (status != WHARF_OK)
            break;
        parcel_came(x, &x->c->inbox->message);
        relay_take(x, x->c->inbox);
    }
    return x->missing == 0 && x->own_next == x->count ? WHARF_OK
                                                      : WHARF_ENOTREADY;
}

static int other_polls(exchange *x)
{
    struct pollfd *poll = x->c->polls;

    poll->fd = x->c->sockets[0];
    poll->events = (short)(x->missing > 0 ? POLLIN : 0);
    if (x->own_next < x->count && !x->crowded)
        poll->events |= POLLOUT;
    return 1;
}

/* ---- rank 0 ---- */

static wi_relay *ring_at(const exchange *x, uint64_t position)
{
    return &x->c->relay[position % WI_RELAY];
}

static bool ring_has_room(const exchange *x)
{
    return x->tail - x->head < WI_RELAY && x->held < WI_RELAY_FDS;
}

static void ring_push(exchange *x)
{
    wi_relay *entry = ring_at(x, x->tail);

    if (!entry->own)
        x->held += entry->message.count;
    x->tail++;
}

/* A rank went away with parcels due or to be sent: the others get broken ones
 * in place of what it did not send. */
static void hub_lost(exchange *x, int rank)
{
    if (wi_alive_left(x->comm, rank))
        exchange_fail(x, wi_alive_fail_left(x->comm, rank));
    else
        exchange_fail(x, wi_alive_fail_dead(x->comm, rank));
    wi_sys_close(&x->c->sockets[rank]);
}

/* Reads from one rank while there is room. */
static bool hub_read(exchange *x, int rank)
{
    wi_channel *c = x->c;
    bool moved = false;

    while (c->got[rank] < c->due[rank] && ring_has_room(x)) {
        wi_relay *entry = ring_at(x, x->tail);
        wharf_status status = WHARF_EPEER;

        if (c->sockets[rank] >= 0) {
            status = message_receive(x, c->sockets[rank], rank, entry);
            if (status == WHARF_EPEER)
                hub_lost(x, rank);
        }
        if (status == WHARF_ENOTREADY)
            break;
        if (status == WHARF_EPEER)
            relay_broken(x, entry, parcel_next(x, rank, c->next[rank]));
        ring_push(x);
        parcel_came(x, &entry->message);
        moved = true;
    }
    return moved;
}

/* Sends one rank what it has not yet got. */
static bool hub_write(exchange *x, int rank)
{
    wi_channel *c = x->c;
    bool moved = false;

    for (; c->sent[rank] < x->tail; c->sent[rank]++) {
        wi_relay *entry = ring_at(x, c->sent[rank]);

        if (c->sockets[rank] >= 0 && entry->message.sender != rank) {
            wharf_status status = message_send(x, c->sockets[rank], entry);

            if (status == WHARF_ENOTREADY)
                break;
            if (status == WHARF_EPEER)
                hub_lost(x, rank);
        }
        moved = true;
    }
    return moved;
}

/* Takes what every rank was sent. */
static bool hub_retire(exchange *x)
{
    uint64_t done = x->tail;
    bool moved = false;

    for (int r = 1; r < x->comm->size; r++)
        if (x->c->sent[r] < done)
            done = x->c->sent[r];
    while (x->head < done) {
        wi_relay *entry = ring_at(x, x->head);

        if (!entry->own) {
            x->held -= entry->message.count;
            relay_take(x, entry);
        }
        x->head++;
        moved = true;
    }
    return moved;
}

static wharf_status hub_step(exchange *x)
{
    bool moved;

    x->crowded = false;
    do {
        moved = false;
        while (x->own_next < x->count && ring_has_room(x)) {
            relay_own(x, ring_at(x, x->tail), x->own_next);
            ring_push(x);
            x->own_next = parcel_next(x, 0, x->own_next + 1);
            moved = true;
        }
        for (int r = 1; r < x->comm->size; r++)
            moved |= hub_read(x, r);
        for (int r = 1; r < x->comm->size; r++)
            moved |= hub_write(x, r);
        moved |= hub_retire(x);
    } while (moved);
    return x->missing == 0 && x->own_next == x->count && x->head == x->tail
               ? WHARF_OK
               : WHARF_ENOTREADY;
}

static int hub_polls(exchange *x)
{
    int count = 0;

    for (int r = 1; r < x->comm->size; r++) {
        short events = 0;

        if (x->c->got[r] < x->c->due[r] && ring_has_room(x))
            events |= POLLIN;
        if (x->c->sent[r] < x->tail && !x->crowded)
            events |= POLLOUT;
        if (events && x->c->sockets[r] >= 0)
            x->c->polls[count++] =
                (struct pollfd){.fd = x->c->sockets[r], .events = events};
    }
    return count;
}

/* ---- both ---- */

/* The lowest rank that is waited for. */
static wharf_status exchange_overdue(exchange *x)
{
    const wi_comm *comm = x->comm;
    int first = -1, more = -1;

    for (int r = 0; r < comm->size; r++) {
        bool lags = x->c->got[r] < x->c->due[r] && r != comm->rank;

        if (comm->rank == 0 && r > 0 && x->c->sent[r] < x->tail)
            lags = true;
        if (!lags)
            continue;
        if (first < 0)
            first = r;
        more++;
    }
    return wi_alive_fail_late(comm, first < 0 ? 0 : first, more < 0 ? 0 : more);
}

/* A rank that died without our holding a socket to it. */
static wharf_status exchange_watch(exchange *x)
{
    for (int r = 0; r < x->comm->size; r++)
        if (x->c->got[r] < x->c->due[r] &&
            wi_patience_covers(&x->patience, x->comm, r) &&
            wi_alive_dead(x->comm, r))
            return wi_alive_fail_dead(x->comm, r);
    return WHARF_OK;
}

/* Between two steps. Others may have given up the agreement that follows this
 * exchange: then nothing more will come. */
static wharf_status exchange_rest(exchange *x)
{
    int most_ms, count;
    wharf_status status;

    if (wi_patience_spins(&x->patience))
        return WHARF_OK;
    status = wi_round_peek(x->comm);
    if (status == WHARF_OK && wi_patience_watch(&x->patience, x->comm))
        status = exchange_watch(x);
    if (status == WHARF_OK && wi_deadline_run_out(x->deadline))
        status = exchange_overdue(x);
    if (status != WHARF_OK)
        return status;
    count = x->comm->rank == 0 ? hub_polls(x) : other_polls(x);
    most_ms = wi_patience_sleep_ms(&x->patience, x->comm);
    if (x->crowded)
        most_ms = 1;
    poll(x->c->polls, (nfds_t)count, wi_deadline_poll_ms(x->deadline, most_ms));
    return WHARF_OK;
}

static void exchange_run(exchange *x)
{
    wharf_status status;

    for (;;) {
        status = x->comm->rank == 0 ? hub_step(x) : other_step(x);
        if (status != WHARF_ENOTREADY)
            break;
        status = exchange_rest(x);
        if (status != WHARF_OK)
            break;
    }
    if (status != WHARF_OK)
        exchange_fail(x, status);
    /* Given up: what is under way is nobody's any more. */
    for (; x->head < x->tail; x->head++)
        relay_drop(ring_at(x, x->head));
}

wharf_status wi_comm_exchange(wi_comm *comm, int count, const int *senders,
                              const wi_parcel *mine, wi_parcel_taker take,
                              void *argument, wi_deadline deadline)
{
    WI_TRACE_SCOPE("pass handles");
    wi_channel *c = &comm->channel;
    wharf_error before = *wi_error_record();
    exchange x = {.comm = comm,
                  .c = c,
                  .count = count,
                  .senders = senders,
                  .mine = mine,
                  .take = take,
                  .argument = argument,
                  .deadline = deadline};

    c->serial++;
    if (comm->broken)
        return wi_round_peek(comm);
    if (comm->size == 1)
        return WHARF_OK;
    for (int r = 0; r < comm->size; r++) {
        c->got[r] = c->due[r] = c->next[r] = 0;
        c->sent[r] = 0;
    }
    for (int i = 0; i < count; i++) {
        assert(senders[i] >= 0 && senders[i] < comm->size);
        if (senders[i] != comm->rank) {
            c->due[senders[i]]++;
            x.missing++;
        }
    }
    if (comm->rank != 0 && c->sockets[0] < 0)
        return other_gone(&x);
    x.own_next = parcel_next(&x, comm->rank, 0);
    wi_patience_begin(&x.patience, comm, true);
    exchange_run(&x);
    /* Failures that were overcome leave no record. */
    *wi_error_record() = x.status == WHARF_OK ? before : x.record;
    return x.status;
}
