/* SPDX-License-Identifier: MIT */
/*
 * WHARF_CHECK_RACES=1: is a slot at every consumer's begin and end what it was
 * at the producer's end? The producer's end takes a sum of it, on its stream;
 * consumers compare, on theirs. A slot that changed was written by somebody
 * who did not hold it, or was handed over by an end that was not ordered behind
 * the work that fills it. Calls out of turn are refused in any case.
 *
 * A finding comes from the GPU as one word: the slot's number with its top bit
 * set, and at the bottom whether it was found at a begin or at an end. The
 * newest one counts.
 */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "core/ring.h"
#include "device/sum.h"

#define FOUND UINT32_C(0x80000000)
#define INDEX_MASK UINT32_C(0x3fffffff)

static wharf_stream stream_of(const wharf_ring *ring, wharf_stream stream)
{
    wi_device *device = ring->node->device;
    return stream == WHARF_RING_CPU ? device->ops->own_stream(device) : stream;
}

static uint64_t *sum_of(const wharf_ring *ring)
{
    return &ring->sum[ring->next % (uint64_t)ring->slots];
}

wharf_status wi_ring_race_fill(wharf_ring *ring, wharf_stream stream,
                               size_t bytes)
{
    wi_device *device = ring->node->device;
    if (!ring->sum)
        return WHARF_OK;
    return device->ops->sums->store(device, stream_of(ring, stream),
                                    wi_ring_slot_at(ring, ring->next), bytes,
                                    sum_of(ring));
}

wharf_status wi_ring_race_look(wharf_ring *ring, wharf_stream stream, bool end)
{
    wi_device *device = ring->node->device;
    if (!ring->sum)
        return WHARF_OK;
    uint32_t found =
        FOUND | ((uint32_t)ring->next & INDEX_MASK) << 1 | (uint32_t)end;
    wharf_status status = device->ops->sums->compare(
        device, stream_of(ring, stream), wi_ring_slot_at(ring, ring->next),
        wi_ring_note_of(ring, ring->next)->bytes, sum_of(ring),
        &ring->report[1], found);
    wi_ring_race_collect(ring);
    return status;
}

/* The whole number of a slot of which the lower bits were reported. */
static uint64_t index_of(const wharf_ring *ring, uint32_t found)
{
    uint32_t low = found >> 1 & INDEX_MASK;
    uint32_t back = ((uint32_t)ring->next - low) & INDEX_MASK;
    return ring->next - back;
}

static void describe(const wharf_ring *ring, uint32_t found)
{
    unsigned long long index = index_of(ring, found);
    int me = ring->node->rank;
    if (found & 1)
        wi_fail(WHARF_EDATA,
                "write to a slot between produce_begin and produce_end only",
                "slot %llu was written while rank %d held it; rank %d produces",
                index, me, ring->producer);
    else
        wi_fail(WHARF_EDATA,
                "end a slot on the stream that fills it, or one ordered behind "
                "it",
                "slot %llu was still written when rank %d began to read it: "
                "rank %d had ended it before",
                index, me, ring->producer);
    wi_error_record()->rank = me;
}

void wi_ring_race_collect(wharf_ring *ring)
{
    if (!ring->sum)
        return;
    uint32_t found = __atomic_exchange_n(&ring->report[1], 0, __ATOMIC_ACQUIRE);
    if (!found)
        return;
    wharf_error kept = *wi_error_record();
    describe(ring, found);
    wi_log(WI_LOG_WARN, "ring %llu: %s", (unsigned long long)ring->serial,
           wi_error_record()->cause);
    pthread_mutex_lock(&ring->watch);
    if (!ring->raced) {
        ring->raced = true;
        ring->race = *wi_error_record();
    }
    pthread_mutex_unlock(&ring->watch);
    *wi_error_record() = kept;
}

/* The first race since this was last asked. */
static wharf_status tell_race(wharf_ring *ring)
{
    wharf_status status = WHARF_OK;
    pthread_mutex_lock(&ring->watch);
    if (ring->raced) {
        wi_fail(WHARF_EDATA, NULL, "%s", "");
        wharf_error fresh = *wi_error_record();
        *wi_error_record() = ring->race;
        memcpy(wi_error_record()->call, fresh.call, sizeof fresh.call);
        status = WHARF_EDATA;
    }
    ring->raced = false;
    pthread_mutex_unlock(&ring->watch);
    return status;
}

wharf_status wharf_ring_check(wharf_ring *ring)
{
    wharf_status status = wi_ring_enter(__func__, ring);
    if (status != WHARF_OK)
        return wi_call_end(status);
    wi_ring_race_collect(ring);
    status = tell_race(ring);
    wi_ring_ask_producer(ring);
    if (status == WHARF_OK)
        status = wi_ring_check_producer(ring);
    return wi_call_end(status);
}
