/* SPDX-License-Identifier: MIT */
/*
 * The producer's side of a ring. It alone decides who consumes: a rank that
 * asked to join is admitted by the next begin, with the slot begun there as its
 * first, so that for every slot it is known who has to release it.
 */
#include "base/error.h"
#include "base/thread.h"
#include "core/ring.h"

/* Words that were not used for so many slots are set anew before they could be
 * taken for ones ahead. */
#define STALE (UINT64_C(1) << 30)

static uint64_t load(const uint64_t *value)
{
    return __atomic_load_n(value, __ATOMIC_SEQ_CST);
}

/* ---- Checks
 * ---------------------------------------------------------------------- */

static wharf_status check_producer(const wharf_ring *ring)
{
    if (ring->node->rank == ring->producer)
        return WHARF_OK;
    return wi_fail(WHARF_ESTATE, "produce on the producer, consume elsewhere",
                   "rank %d produces for the ring, not rank %d", ring->producer,
                   ring->node->rank);
}

static wharf_status check_shut(const wharf_ring *ring)
{
    if (!ring->open)
        return WHARF_OK;
    return wi_fail(WHARF_ESTATE, "end it first (wharf_ring_produce_end)",
                   "slot %llu was begun and not ended",
                   (unsigned long long)ring->next);
}

wharf_status wi_ring_check_stream(const wharf_ring *ring, wharf_stream stream)
{
    wi_device *device = ring->node->device;
    bool capturing = false;
    if (stream == WHARF_RING_CPU)
        return WHARF_OK;
    wharf_status status = device->ops->check_stream(device, stream);
    if (status == WHARF_OK)
        status = device->ops->capturing(device, stream, &capturing);
    if (status != WHARF_OK || !capturing)
        return status;
    return wi_fail(WHARF_EUNSUPPORTED,
                   "use a ring outside of graphs, notifies inside",
                   "the stream is being captured, and every slot of a ring has "
                   "a number of its own");
}

/* ---- Begin
 * ----------------------------------------------------------------------- */

static wharf_status refresh(wharf_ring *ring, uint32_t *word, uint64_t slots)
{
    wi_device *device = ring->node->device;
    uint32_t value = ring->first + (uint32_t)slots;
    return device->ops->write(device, word, &value, sizeof value);
}

/* Rank r's first slot is the one that is begun. Not before the slots that it
 * left behind last time: its word says that they are released. */
static wharf_status admit(wharf_ring *ring, int r)
{
    wi_ring_member *member = &ring->control->member[r];
    uint64_t left = load(&member->left);
    uint32_t asked = WI_RING_ASKED;
    uint64_t from = ring->next > left ? ring->next : left;
    wharf_status status = WHARF_OK;
    if (!wi_ring_on_host(ring) && from - ring->sent[r] > STALE)
        status = refresh(ring, wi_ring_filled(ring, r), from);
    if (status == WHARF_OK && from - left > STALE) {
        if (wi_ring_on_host(ring))
            __atomic_store_n(&member->released, ring->first + (uint32_t)from,
                             __ATOMIC_RELEASE);
        else
            status = refresh(ring, wi_ring_released(ring, r), from);
    }
    if (status != WHARF_OK)
        return status;
    ring->sent[r] = from;
    __atomic_store_n(&member->from, from, __ATOMIC_RELAXED);
    __atomic_compare_exchange_n(&member->part, &asked, WI_RING_IN, false,
                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return WHARF_OK;
}

static wharf_status admit_all(wharf_ring *ring)
{
    bool any = false;
    for (int r = 0; r < ring->node->size; r++) {
        if (wi_ring_part_of(ring, r) != WI_RING_ASKED)
            continue;
        wharf_status status = admit(ring, r);
        if (status != WHARF_OK)
            return status;
        any = true;
    }
    if (any)
        wi_ring_ring(&ring->control->news);
    return WHARF_OK;
}

uint64_t wi_ring_owed(const wharf_ring *ring, int r, uint64_t known,
                      uint64_t slots)
{
    const wi_ring_member *member = &ring->control->member[r];
    uint32_t part = wi_ring_part_of(ring, r);
    uint64_t left = load(&member->left);
    if (part == WI_RING_DEAD || r == ring->producer)
        return 0;
    if ((part == WI_RING_IN || part == WI_RING_LEAVING) && member->from < slots)
        return slots;
    if (left <= known)
        return 0;
    return left < slots ? left : slots;
}

/*
 * Slots whose release is waited for at a time. A wait costs the GPU about a
 * microsecond a consumer, as much as all else that a slot needs; with many of
 * them it is made for half of the ring at once, which is filled while the
 * other half is read.
 */
static uint64_t at_a_time(const wharf_ring *ring)
{
    int consumers = 0;
    for (int r = 0; r < ring->node->size; r++)
        consumers += wi_ring_part_of(ring, r) == WI_RING_IN;
    return consumers > 2 && ring->slots >= 4 ? (uint64_t)ring->slots / 2 : 1;
}

static wharf_status wait_for_steps(const wharf_ring *ring, wharf_stream stream,
                                   int count)
{
    wi_device *device = ring->node->device;
    return count > 0 ? device->ops->sync(device, stream, ring->how, ring->steps,
                                         count, 0, NULL)
                     : WHARF_OK;
}

/* Makes the stream wait until the taker of the last of `slots` slots has
 * released it. */
static wharf_status wait_taken(wharf_ring *ring, wharf_stream stream,
                               uint64_t slots)
{
    int taker = wi_ring_taker(ring, slots - 1);
    ring->steps[0] = (wi_sync_step){
        .kind = WI_SYNC_WAIT,
        .value = ring->due[(slots - 1) % (uint64_t)ring->slots],
        .address = wi_ring_released(ring, taker),
    };
    return wait_for_steps(ring, stream, 1);
}

/* Makes the stream wait until at least the first `slots` slots are released, if
 * it has not been made to before. */
static wharf_status wait_released(wharf_ring *ring, wharf_stream stream,
                                  uint64_t slots)
{
    bool same = ring->waited_stream == stream &&
                ring->waited_thread == wi_thread_serial();
    uint64_t known = same ? ring->waited : slots - 1;
    int count = 0;
    if (slots <= known)
        return WHARF_OK;
    /* All of them were produced, for it is no more than the ring has. */
    slots += at_a_time(ring) - 1;
    for (int r = 0; r < ring->node->size; r++) {
        uint64_t upto = wi_ring_owed(ring, r, known, slots);
        if (upto > 0)
            ring->steps[count++] = (wi_sync_step){
                .kind = WI_SYNC_WAIT,
                .value = ring->first + (uint32_t)upto,
                .address = wi_ring_released(ring, r),
            };
    }
    wharf_status status = wait_for_steps(ring, stream, count);
    if (status != WHARF_OK)
        return status;
    ring->waited = slots;
    ring->waited_stream = stream;
    ring->waited_thread = wi_thread_serial();
    return WHARF_OK;
}

static wharf_status begin(wharf_ring *ring, wharf_stream stream)
{
    wi_deadline deadline = wi_ring_deadline(ring);
    bool on_cpu = wi_ring_on_host(ring) || stream == WHARF_RING_CPU;
    /* Slots that must be released before this one is written again. */
    uint64_t slots = ring->next + 1 > (uint64_t)ring->slots
                         ? ring->next + 1 - (uint64_t)ring->slots
                         : 0;
    wharf_status status = WHARF_OK;
    if (ring->mode == WHARF_RING_SHARED)
        status = wi_ring_hold_taken(ring, slots, deadline);
    if (status == WHARF_OK)
        status = wi_ring_hold_ahead(ring, deadline);
    if (status == WHARF_OK && on_cpu && slots > 0)
        status = wi_ring_hold_released(ring, slots, deadline);
    if (status != WHARF_OK)
        return status;
    /* Before anybody's part is looked at: see wharf_ring_leave. */
    __atomic_store_n(&ring->control->begun, ring->next + 1, __ATOMIC_SEQ_CST);
    if (ring->mode == WHARF_RING_ALL)
        status = admit_all(ring);
    if (status == WHARF_OK && !on_cpu && slots > 0)
        status = ring->mode == WHARF_RING_SHARED
                     ? wait_taken(ring, stream, slots)
                     : wait_released(ring, stream, slots);
    return status;
}

wharf_status wharf_ring_produce_begin(wharf_ring *ring, wharf_stream stream,
                                      void **pointer, uint64_t *index)
{
    wharf_status status = wi_ring_enter(__func__, ring);
    if (status == WHARF_OK)
        status = check_producer(ring);
    if (status == WHARF_OK && !pointer)
        status = wi_fail(WHARF_EARG, "pass the address of a variable",
                         "pointer is NULL");
    if (status == WHARF_OK)
        status = wi_ring_check_stream(ring, stream);
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&ring->turn);
    status = check_shut(ring);
    if (status == WHARF_OK && ring->control->closed)
        status = wi_fail(WHARF_ESTATE, "create another ring",
                         "the ring was closed after %llu slots",
                         (unsigned long long)ring->next);
    if (status == WHARF_OK)
        status = begin(ring, stream);
    if (status == WHARF_OK) {
        ring->open = true;
        *pointer = wi_ring_slot_at(ring, ring->next);
        if (index)
            *index = ring->next;
    }
    pthread_mutex_unlock(&ring->turn);
    return wi_call_end(status);
}

/* ---- End
 * ------------------------------------------------------------------------- */

/* Is rank r told that the open slot is filled? With SHARED every rank is, for
 * it may join, and take a slot that was filled before. */
static bool is_told(const wharf_ring *ring, int r)
{
    uint32_t part = wi_ring_part_of(ring, r);
    if (r == ring->producer || part == WI_RING_DEAD)
        return false;
    return ring->mode == WHARF_RING_SHARED ||
           ((part == WI_RING_IN || part == WI_RING_LEAVING) &&
            ring->control->member[r].from <= ring->next);
}

static wharf_status signal_filled(wharf_ring *ring, wharf_stream stream)
{
    int count = 0;
    for (int r = 0; r < ring->node->size; r++) {
        if (!is_told(ring, r))
            continue;
        ring->sent[r] = ring->next + 1;
        ring->steps[count++] = (wi_sync_step){
            .kind = WI_SYNC_WRITE,
            .value = ring->first + (uint32_t)ring->next + 1,
            .address = wi_ring_filled(ring, r),
        };
    }
    if ((ring->ended + 1) % ring->told == 0)
        ring->steps[count++] = (wi_sync_step){
            .kind = WI_SYNC_WRITE,
            .value = (uint32_t)ring->ended + 1,
            .address = ring->report,
        };
    return count > 0 ? wi_ring_signal(ring, stream, ring->steps, count)
                     : WHARF_OK;
}

static wharf_status end(wharf_ring *ring, size_t bytes, wharf_stream stream)
{
    wi_ring_note_of(ring, ring->next)->bytes = bytes;
    wharf_status status = wi_ring_race_fill(ring, stream, bytes);
    if (status == WHARF_OK && !wi_ring_on_host(ring))
        status = signal_filled(ring, stream);
    if (status != WHARF_OK)
        return status;
    ring->open = false;
    ring->next++;
    __atomic_store_n(&ring->ended, ring->ended + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->control->issued, ring->next, __ATOMIC_SEQ_CST);
    wi_ring_ring(&ring->control->news);
    return WHARF_OK;
}

wharf_status wharf_ring_produce_end(wharf_ring *ring, size_t bytes,
                                    wharf_stream stream)
{
    wharf_status status = wi_ring_enter(__func__, ring);
    if (status == WHARF_OK)
        status = check_producer(ring);
    if (status == WHARF_OK && bytes > ring->slot_bytes)
        status = wi_fail(WHARF_EARG, "create the ring with larger slots",
                         "%zu bytes are said to be in a slot of %zu", bytes,
                         ring->slot_bytes);
    if (status == WHARF_OK)
        status = wi_ring_check_stream(ring, stream);
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&ring->turn);
    if (!ring->open)
        status =
            wi_fail(WHARF_ESTATE, "begin one first (wharf_ring_produce_begin)",
                    "no slot is begun");
    if (status == WHARF_OK)
        status = end(ring, bytes, stream);
    pthread_mutex_unlock(&ring->turn);
    return wi_call_end(status);
}

/* ---- Close and drain
 * -------------------------------------------------------------- */

wharf_status wharf_ring_close(wharf_ring *ring)
{
    wharf_status status = wi_ring_enter(__func__, ring);
    if (status == WHARF_OK)
        status = check_producer(ring);
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&ring->turn);
    status = check_shut(ring);
    if (status == WHARF_OK) {
        __atomic_store_n(&ring->control->closed, 1, __ATOMIC_SEQ_CST);
        wi_ring_ring(&ring->control->news);
    }
    pthread_mutex_unlock(&ring->turn);
    return wi_call_end(status);
}

wharf_status wharf_ring_drain(wharf_ring *ring, int timeout_ms)
{
    wharf_status status = wi_ring_enter(__func__, ring);
    if (status == WHARF_OK)
        status = check_producer(ring);
    if (status == WHARF_OK && timeout_ms < 0)
        status = wi_fail(WHARF_EARG, "pass milliseconds, or 0",
                         "timeout_ms is %d", timeout_ms);
    if (status != WHARF_OK)
        return wi_call_end(status);
    wi_deadline deadline =
        timeout_ms ? wi_deadline_in_ms(timeout_ms) : wi_ring_deadline(ring);
    pthread_mutex_lock(&ring->turn);
    status = check_shut(ring);
    if (status == WHARF_OK && ring->mode == WHARF_RING_SHARED)
        status = wi_ring_hold_taken(ring, ring->next, deadline);
    if (status == WHARF_OK && ring->next > 0)
        status = wi_ring_hold_released(ring, ring->next, deadline);
    pthread_mutex_unlock(&ring->turn);
    return wi_call_end(status);
}
