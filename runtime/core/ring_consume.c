/* SPDX-License-Identifier: MIT */
/*
 * The consumers' side of a ring. A begin first holds until the producer's host
 * has issued a slot, as the wait for an event does: so the end of the ring is
 * known in time, and no stream waits for what will not come.
 */
#include "base/error.h"
#include "core/ring.h"

static uint64_t load(const uint64_t *value)
{
    return __atomic_load_n(value, __ATOMIC_SEQ_CST);
}

static wi_ring_member *own_member(const wharf_ring *ring)
{
    return &ring->control->member[ring->node->rank];
}

static bool part_change(const wharf_ring *ring, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(&own_member(ring)->part, &from, to,
                                       false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* ---- Checks
 * ---------------------------------------------------------------------- */

static wharf_status check_not_producer(const wharf_ring *ring)
{
    if (ring->node->rank != ring->producer)
        return WHARF_OK;
    return wi_fail(WHARF_ESTATE, "consume on other ranks",
                   "rank %d is the ring's producer", ring->producer);
}

static wharf_status check_consumer(const wharf_ring *ring)
{
    uint32_t part = wi_ring_part_of(ring, ring->node->rank);
    wharf_status status = check_not_producer(ring);
    if (status != WHARF_OK || part == WI_RING_IN || part == WI_RING_ASKED)
        return status;
    return wi_fail(WHARF_ESTATE, "join first (wharf_ring_join)",
                   "rank %d is no consumer of the ring", ring->node->rank);
}

static wharf_status check_shut(const wharf_ring *ring)
{
    if (!ring->open)
        return WHARF_OK;
    return wi_fail(WHARF_ESTATE, "end it first (wharf_ring_consume_end)",
                   "slot %llu was begun and not ended",
                   (unsigned long long)ring->next);
}

/* ---- Which slot
 * -------------------------------------------------------------------- */

typedef struct seek {
    wharf_ring *ring;
    bool found;
} seek;

/* ALL: is this rank's next slot there? */
static bool find_next(wharf_ring *ring, uint64_t issued)
{
    if (!ring->admitted &&
        wi_ring_part_of(ring, ring->node->rank) == WI_RING_IN) {
        ring->next = __atomic_load_n(&own_member(ring)->from, __ATOMIC_RELAXED);
        ring->admitted = true;
    }
    return ring->admitted && ring->next < issued;
}

/*
 * SHARED: takes the first slot that nobody has. One compare-and-swap says that
 * it is taken and by whom, so a rank that dies here leaves no slot without an
 * owner. Slots are taken in order, since nobody passes over a free one.
 */
static bool take_next(wharf_ring *ring, uint64_t issued)
{
    uint64_t *hint = &ring->control->taken;
    if (ring->held)
        return true;
    for (uint64_t i = load(hint); i < issued;) {
        uint64_t *claim = &wi_ring_note_of(ring, i)->claim;
        uint64_t seen = load(claim);
        uint64_t mine = (i + 1) << 16 | (uint64_t)ring->node->rank;
        if (seen >> 16 > i) {
            i++;
            continue;
        }
        if (!__atomic_compare_exchange_n(claim, &seen, mine, false,
                                         __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            continue;
        uint64_t last = load(hint);
        while (last < i + 1 &&
               !__atomic_compare_exchange_n(hint, &last, i + 1, true,
                                            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            ;
        ring->next = i;
        ring->held = true;
        wi_ring_ring(&ring->control->answer);
        return true;
    }
    return false;
}

/* True when there is a slot, or when there will be none. May be asked again
 * after it has said so. */
static bool is_decided(void *argument)
{
    seek *s = argument;
    wharf_ring *ring = s->ring;
    /* In this order: what was issued before the close is seen with it. */
    bool closed = __atomic_load_n(&ring->control->closed, __ATOMIC_SEQ_CST);
    uint64_t issued = load(&ring->control->issued);
    if (!s->found)
        s->found = ring->mode == WHARF_RING_ALL ? find_next(ring, issued)
                                                : take_next(ring, issued);
    return s->found || closed;
}

static wharf_status fail_late(const wharf_ring *ring)
{
    wi_fail(WHARF_ETIMEDOUT,
            "let the producer go on or close the ring, or raise its "
            "timeout_ms",
            "rank %d, the producer, gave rank %d no slot in time; it has ended "
            "%llu",
            ring->producer, ring->node->rank,
            (unsigned long long)load(&ring->control->issued));
    return wi_error_about(ring->node->rank);
}

/* WHARF_ECLOSED when there will be none. */
static wharf_status hold_slot(wharf_ring *ring, wi_deadline deadline)
{
    seek s = {.ring = ring};
    wharf_status status =
        wi_comm_wait(ring->node->comm, ring->producer, &ring->control->news,
                     is_decided, &s, deadline);
    if (status == WHARF_ETIMEDOUT)
        return fail_late(ring);
    if (status != WHARF_OK)
        return status;
    return s.found ? WHARF_OK : WHARF_ECLOSED;
}

/* ---- Begin and end
 * ----------------------------------------------------------------- */

static wharf_status wait_filled(wharf_ring *ring, wharf_stream stream)
{
    wi_device *device = ring->node->device;
    wi_sync_step step = {
        .kind = WI_SYNC_WAIT,
        .value = ring->first + (uint32_t)ring->next + 1,
        .address = wi_ring_filled(ring, ring->node->rank),
    };
    return device->ops->sync(device, stream, ring->how, &step, 1, 0, NULL);
}

static wharf_status begin(wharf_ring *ring, wharf_stream stream)
{
    wi_deadline deadline = wi_ring_deadline(ring);
    wharf_status status = wi_ring_check_producer(ring);
    if (status == WHARF_OK)
        status = wi_ring_hold_ahead(ring, deadline);
    if (status == WHARF_OK)
        status = hold_slot(ring, deadline);
    if (status == WHARF_OK && !wi_ring_on_host(ring))
        status = stream == WHARF_RING_CPU
                     ? wi_ring_hold_filled(ring, ring->next, deadline)
                     : wait_filled(ring, stream);
    if (status == WHARF_OK)
        status = wi_ring_race_look(ring, stream, false);
    return status;
}

wharf_status wharf_ring_consume_begin(wharf_ring *ring, wharf_stream stream,
                                      const void **pointer,
                                      wharf_ring_slot *slot)
{
    wharf_status status = wi_ring_enter(__func__, ring);
    if (status == WHARF_OK && !pointer)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "pointer is NULL");
    if (status == WHARF_OK)
        status = wi_ring_check_stream(ring, stream);
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&ring->turn);
    status = check_consumer(ring);
    if (status == WHARF_OK)
        status = check_shut(ring);
    if (status == WHARF_OK)
        status = begin(ring, stream);
    if (status == WHARF_OK) {
        ring->open = true;
        *pointer = wi_ring_slot_at(ring, ring->next);
        if (slot)
            *slot = (wharf_ring_slot){
                .index = ring->next,
                .bytes = wi_ring_note_of(ring, ring->next)->bytes,
            };
    }
    pthread_mutex_unlock(&ring->turn);
    return wi_call_end(status);
}

/* Says that what came before `value` is released. */
static wharf_status signal_released(wharf_ring *ring, wharf_stream stream,
                                    uint32_t value, bool counts)
{
    wi_sync_step steps[2];
    int count = 0;
    if (wi_ring_on_host(ring)) {
        __atomic_store_n(&own_member(ring)->released, value, __ATOMIC_SEQ_CST);
        wi_ring_ring(&ring->control->answer);
        return WHARF_OK;
    }
    steps[count++] = (wi_sync_step){
        .kind = WI_SYNC_WRITE,
        .value = value,
        .address = wi_ring_released(ring, ring->node->rank),
    };
    if (counts && (ring->ended + 1) % ring->told == 0)
        steps[count++] = (wi_sync_step){
            .kind = WI_SYNC_WRITE,
            .value = (uint32_t)ring->ended + 1,
            .address = ring->report,
        };
    return wi_ring_signal(ring, stream, steps, count);
}

static wharf_status end(wharf_ring *ring, wharf_stream stream)
{
    uint64_t released =
        ring->mode == WHARF_RING_ALL ? ring->next + 1 : ring->ended + 1;
    wharf_status status = wi_ring_race_look(ring, stream, true);
    if (status == WHARF_OK)
        status = signal_released(ring, stream, ring->first + (uint32_t)released,
                                 true);
    if (status != WHARF_OK)
        return status;
    __atomic_store_n(&ring->ended, ring->ended + 1, __ATOMIC_RELAXED);
    ring->open = false;
    ring->held = false;
    if (ring->mode == WHARF_RING_ALL)
        ring->next++;
    return wi_ring_check_producer(ring);
}

wharf_status wharf_ring_consume_end(wharf_ring *ring, wharf_stream stream)
{
    wharf_status status = wi_ring_enter(__func__, ring);
    if (status == WHARF_OK)
        status = wi_ring_check_stream(ring, stream);
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&ring->turn);
    status = check_consumer(ring);
    if (status == WHARF_OK && !ring->open)
        status =
            wi_fail(WHARF_ESTATE, "begin one first (wharf_ring_consume_begin)",
                    "no slot is begun");
    if (status == WHARF_OK)
        status = end(ring, stream);
    pthread_mutex_unlock(&ring->turn);
    return wi_call_end(status);
}

/* ---- Join and leave
 * ---------------------------------------------------------------- */

wharf_status wharf_ring_join(wharf_ring *ring)
{
    wharf_status status = wi_ring_enter(__func__, ring);
    if (status == WHARF_OK)
        status = check_not_producer(ring);
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&ring->turn);
    bool all = ring->mode == WHARF_RING_ALL;
    if (ring->owes)
        status =
            wi_fail(WHARF_ESTATE, "leave again (wharf_ring_leave)",
                    "rank %d left, and could not say so", ring->node->rank);
    if (status != WHARF_OK) {
        pthread_mutex_unlock(&ring->turn);
        return wi_call_end(status);
    }
    if (all && wi_ring_part_of(ring, ring->node->rank) == WI_RING_OUT)
        ring->admitted = false;
    if (!part_change(ring, WI_RING_OUT, all ? WI_RING_ASKED : WI_RING_IN))
        status = wi_fail(WHARF_ESTATE, "leave first (wharf_ring_leave)",
                         "rank %d consumes already", ring->node->rank);
    else
        wi_ring_ring(&ring->control->answer);
    pthread_mutex_unlock(&ring->turn);
    return wi_call_end(status);
}

static wharf_status say_left(wharf_ring *ring, wharf_stream stream)
{
    uint64_t left = load(&own_member(ring)->left);
    wharf_status status =
        signal_released(ring, stream, ring->first + (uint32_t)left, false);
    ring->owes = status != WHARF_OK;
    return status;
}

/*
 * ALL. The producer must wait for what this rank's stream still reads, and not
 * for what it never will. So its word is raised, on the stream, to the number
 * of slots begun: no begin that saw this rank as a consumer asks for more. For
 * that the number is read after the part has changed, as the producer looks at
 * parts after it has raised the number; `left` says up to where the word is
 * still to be waited for.
 */
static wharf_status leave_all(wharf_ring *ring, wharf_stream stream)
{
    wi_ring_member *me = own_member(ring);
    if (ring->owes)
        return say_left(ring, stream);
    if (part_change(ring, WI_RING_ASKED, WI_RING_OUT))
        return WHARF_OK;
    if (!part_change(ring, WI_RING_IN, WI_RING_LEAVING))
        return WHARF_OK; /* counted as dead */
    uint64_t begun = load(&ring->control->begun);
    __atomic_store_n(&me->left, begun, __ATOMIC_SEQ_CST);
    part_change(ring, WI_RING_LEAVING, WI_RING_OUT);
    begun = load(&ring->control->begun);
    __atomic_store_n(&me->left, begun, __ATOMIC_SEQ_CST);
    ring->admitted = false;
    return say_left(ring, stream);
}

/* SHARED: all that this rank took it has ended, but for one whose begin
 * failed. */
static wharf_status leave_shared(wharf_ring *ring, wharf_stream stream)
{
    if (ring->held) {
        wharf_status status = end(ring, stream);
        if (ring->held)
            return status;
    }
    part_change(ring, WI_RING_IN, WI_RING_OUT);
    return WHARF_OK;
}

wharf_status wharf_ring_leave(wharf_ring *ring, wharf_stream stream)
{
    wharf_status status = wi_ring_enter(__func__, ring);
    if (status == WHARF_OK)
        status = wi_ring_check_stream(ring, stream);
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&ring->turn);
    status = ring->owes ? WHARF_OK : check_consumer(ring);
    if (status == WHARF_OK)
        status = check_shut(ring);
    if (status == WHARF_OK)
        status = ring->mode == WHARF_RING_ALL ? leave_all(ring, stream)
                                              : leave_shared(ring, stream);
    if (status == WHARF_OK)
        wi_ring_ring(&ring->control->answer);
    pthread_mutex_unlock(&ring->turn);
    return wi_call_end(status);
}
