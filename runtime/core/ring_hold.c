/* SPDX-License-Identifier: MIT */
/*
 * Where a ring's calls hold the calling thread: for what the other side's host
 * has not done yet, for this rank's own GPU when its host is too far ahead, and
 * for the GPUs' words when the CPU itself produces or consumes. Each wait has
 * the ring's deadline and says at its end who is behind.
 */
#include <string.h>

#include "base/error.h"
#include "base/futex.h"
#include "core/ring.h"

/* A producer that waits for consumers looks this often for dead ones. */
#define LOOK_MS 100

/* Between looks at a word that only a GPU changes. A look at device memory
 * costs some 10 us. */
static const wi_pauses between_looks = {
    .yields = 32, .first_ns = 2000, .most_ns = 500000};

wi_deadline wi_ring_deadline(const wharf_ring *ring)
{
    return ring->timeout_ms ? wi_deadline_in_ms(ring->timeout_ms)
                            : wi_node_deadline(ring->node);
}

void wi_ring_ring(uint32_t *word)
{
    __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
    wi_futex_wake(word);
}

wharf_status wi_ring_signal(wharf_ring *ring, wharf_stream stream,
                            const wi_sync_step *steps, int count)
{
    wi_device *device = ring->node->device;
    const void *word = wi_ring_filled(ring, ring->node->rank);
    uint64_t read;
    if (stream != WHARF_RING_CPU)
        return device->ops->sync(device, stream, ring->how, steps, count, 0,
                                 NULL);
    wharf_status status =
        device->ops->sync(device, device->ops->own_stream(device), ring->how,
                          steps, count, 0, NULL);
    /* Reading goes by the same stream, and is waited for. */
    return status == WHARF_OK ? device->ops->read_words(device, &word, 1, &read)
                              : status;
}

int wi_ring_taker(const wharf_ring *ring, uint64_t index)
{
    uint64_t claim =
        __atomic_load_n(&wi_ring_note_of(ring, index)->claim, __ATOMIC_ACQUIRE);
    return claim >> 16 == index + 1 ? (int)(claim & 0xffff) : -1;
}

/* ---- Who is behind
 * ---------------------------------------------------------------- */

/* What each rank's `released` must have come to. */
typedef struct demand {
    bool asked[WHARF_MAX_RANKS]; /* false: nothing is asked of it */
    uint32_t value[WHARF_MAX_RANKS];
} demand;

/* Of slots that were shared out, those that their takers may still hold. */
static void ask_takers(const wharf_ring *ring, uint64_t slots, demand *d)
{
    uint64_t all = (uint64_t)ring->slots;
    uint64_t first = ring->counted > all ? ring->counted - all : 0;
    for (uint64_t i = first; i < slots && i < ring->counted; i++) {
        int taker = wi_ring_taker(ring, i);
        if (taker < 0 || wi_ring_part_of(ring, taker) == WI_RING_DEAD)
            continue;
        d->asked[taker] = true;
        d->value[taker] = ring->due[i % all];
    }
}

static void ask(const wharf_ring *ring, uint64_t slots, demand *d)
{
    memset(d->asked, 0, sizeof d->asked);
    if (ring->mode == WHARF_RING_SHARED) {
        ask_takers(ring, slots, d);
        return;
    }
    for (int r = 0; r < ring->node->size; r++) {
        uint64_t owed = wi_ring_owed(ring, r, 0, slots);
        d->value[r] = ring->first + (uint32_t)owed;
        d->asked[r] = owed > 0;
    }
}

/* The words of `released` as they are now, of all that are asked. */
static wharf_status read_released(const wharf_ring *ring, const demand *d,
                                  uint32_t *words)
{
    const wharf_node *node = ring->node;
    const void *from[WHARF_MAX_RANKS];
    uint64_t read[WHARF_MAX_RANKS];
    int rank[WHARF_MAX_RANKS], count = 0;
    for (int r = 0; r < node->size; r++) {
        words[r] = ring->first;
        if (!d->asked[r])
            continue;
        if (wi_ring_on_host(ring)) {
            words[r] =
                __atomic_load_n(wi_ring_released(ring, r), __ATOMIC_ACQUIRE);
            continue;
        }
        from[count] = wi_ring_released(ring, r);
        rank[count++] = r;
    }
    if (count == 0)
        return WHARF_OK;
    wharf_status status =
        node->device->ops->read_words(node->device, from, count, read);
    for (int i = 0; i < count && status == WHARF_OK; i++)
        words[rank[i]] = (uint32_t)read[i];
    return status;
}

/* The rank that is farthest behind, -1: none is. */
static wharf_status find_behind(const wharf_ring *ring, uint64_t slots,
                                int *who, uint32_t *by)
{
    uint32_t words[WHARF_MAX_RANKS];
    demand d;
    ask(ring, slots, &d);
    wharf_status status = read_released(ring, &d, words);
    *who = -1;
    *by = 0;
    for (int r = 0; r < ring->node->size && status == WHARF_OK; r++) {
        if (!d.asked[r])
            continue;
        if ((int32_t)(d.value[r] - words[r]) > (int32_t)*by) {
            *by = d.value[r] - words[r];
            *who = r;
        }
    }
    return status;
}

static wharf_status fail_behind(const wharf_ring *ring, uint64_t slots)
{
    int who;
    uint32_t by;
    wharf_status status = find_behind(ring, slots, &who, &by);
    if (status != WHARF_OK)
        return status;
    uint64_t owed = who < 0 ? 0 : wi_ring_owed(ring, who, 0, slots);
    uint64_t done = owed > by ? owed - by : 0;
    /* What was produced before it joined is not the rank's to release. */
    if (who >= 0 && done < ring->control->member[who].from)
        done = ring->control->member[who].from;
    if (who < 0)
        wi_fail(WHARF_ETIMEDOUT, "look for what holds up this rank's streams",
                "the work of rank %d for slot %llu did not end in time",
                ring->node->rank,
                (unsigned long long)__atomic_load_n(&ring->ended,
                                                    __ATOMIC_RELAXED));
    else if (ring->mode == WHARF_RING_ALL)
        wi_fail(WHARF_ETIMEDOUT,
                "let the rank consume or leave, or raise the ring's timeout_ms",
                "rank %d did not release slot %llu in time; it is %llu slots "
                "behind",
                who, (unsigned long long)done,
                (unsigned long long)(owed > done ? owed - done : 0));
    else
        wi_fail(WHARF_ETIMEDOUT,
                "let the rank end what it began, or raise the ring's "
                "timeout_ms",
                "rank %d did not release the last %u slots that it took, up to "
                "slot %llu, in time",
                who, by, (unsigned long long)(slots - 1));
    return wi_error_about(ring->node->rank);
}

/* ---- Waiting for consumers
 * ------------------------------------------------------- */

typedef struct seek {
    wharf_ring *ring;
    uint64_t slots;
    int who;
} seek;

static bool none_behind(void *argument)
{
    seek *s = argument;
    uint32_t by;
    return find_behind(s->ring, s->slots, &s->who, &by) == WHARF_OK &&
           s->who < 0;
}

static bool is_taken(void *argument)
{
    seek *s = argument;
    s->who = wi_ring_taker(s->ring, s->slots - 1);
    return s->who >= 0;
}

/* Holds on the consumers' answers; nobody in particular is waited for, and a
 * dead consumer is no failure. */
static wharf_status hold_on_answers(wharf_ring *ring, bool (*done)(void *),
                                    seek *s, wi_deadline deadline)
{
    const wharf_node *node = ring->node;
    wharf_error kept = *wi_error_record();
    for (;;) {
        wi_deadline look = wi_deadline_in_ms(LOOK_MS);
        wharf_status status =
            wi_comm_wait(node->comm, node->rank, &ring->control->answer, done,
                         s, look < deadline ? look : deadline);
        *wi_error_record() = kept;
        if (status != WHARF_ETIMEDOUT)
            return status;
        if (wi_ring_on_host(ring))
            wi_ring_look(ring);
        if (wi_deadline_run_out(deadline))
            return done(s) ? WHARF_OK : WHARF_ETIMEDOUT;
    }
}

/* The words are in GPU memory: nobody wakes us. */
static wharf_status poll_released(wharf_ring *ring, uint64_t slots,
                                  wi_deadline deadline)
{
    wi_pauses pauses = between_looks;
    for (;;) {
        int who;
        uint32_t by;
        bool late = wi_deadline_run_out(deadline);
        wharf_status status = find_behind(ring, slots, &who, &by);
        if (status != WHARF_OK || who < 0)
            return status;
        if (late)
            return WHARF_ETIMEDOUT;
        wi_pauses_take(&pauses);
    }
}

wharf_status wi_ring_hold_released(wharf_ring *ring, uint64_t slots,
                                   wi_deadline deadline)
{
    seek s = {.ring = ring, .slots = slots};
    wharf_status status = wi_ring_on_host(ring)
                              ? hold_on_answers(ring, none_behind, &s, deadline)
                              : poll_released(ring, slots, deadline);
    return status == WHARF_ETIMEDOUT ? fail_behind(ring, slots) : status;
}

wharf_status wi_ring_hold_taken(wharf_ring *ring, uint64_t slots,
                                wi_deadline deadline)
{
    while (ring->counted < slots) {
        seek s = {.ring = ring, .slots = ring->counted + 1};
        wharf_status status = hold_on_answers(ring, is_taken, &s, deadline);
        if (status == WHARF_ETIMEDOUT) {
            wi_fail(WHARF_ETIMEDOUT,
                    "let a rank consume, or raise the ring's timeout_ms",
                    "no consumer took slot %llu in time",
                    (unsigned long long)ring->counted);
            status = wi_error_about(ring->node->rank);
        }
        if (status != WHARF_OK)
            return status;
        ring->due[ring->counted % (uint64_t)ring->slots] =
            __atomic_add_fetch(&ring->count[s.who], 1, __ATOMIC_RELAXED);
        ring->counted++;
    }
    return WHARF_OK;
}

/* ---- Waiting for GPUs
 * ------------------------------------------------------------ */

static bool too_far_ahead(const wharf_ring *ring)
{
    uint32_t through = __atomic_load_n(&ring->report[0], __ATOMIC_ACQUIRE);
    return (uint32_t)ring->ended - through >= (uint32_t)ring->ahead;
}

wharf_status wi_ring_hold_ahead(wharf_ring *ring, wi_deadline deadline)
{
    wi_pauses pauses = between_looks;
    if (wi_ring_on_host(ring))
        return WHARF_OK;
    while (too_far_ahead(ring)) {
        if (wi_deadline_run_out(deadline)) {
            if (ring->node->rank == ring->producer)
                return fail_behind(ring, ring->counted > ring->ended
                                             ? ring->counted
                                             : ring->ended);
            wi_fail(WHARF_ETIMEDOUT,
                    "look for what holds up this rank's or the producer's "
                    "streams",
                    "the work of rank %d for its last %llu slots did not end "
                    "in time",
                    ring->node->rank, (unsigned long long)ring->ahead);
            return wi_error_about(ring->node->rank);
        }
        wharf_status status =
            ring->node->device->ops->health(ring->node->device);
        if (status != WHARF_OK)
            return status;
        wi_pauses_take(&pauses);
    }
    return WHARF_OK;
}

wharf_status wi_ring_hold_filled(wharf_ring *ring, uint64_t index,
                                 wi_deadline deadline)
{
    wi_device *device = ring->node->device;
    const void *word = wi_ring_filled(ring, ring->node->rank);
    wi_pauses pauses = between_looks;
    for (;;) {
        uint64_t read;
        bool late = wi_deadline_run_out(deadline);
        wharf_status status = wi_ring_check_producer(ring);
        if (status == WHARF_OK)
            status = device->ops->read_words(device, &word, 1, &read);
        if (status != WHARF_OK)
            return status;
        if ((int32_t)((uint32_t)read - (ring->first + (uint32_t)index + 1)) >=
            0)
            return WHARF_OK;
        if (late) {
            wi_fail(WHARF_ETIMEDOUT,
                    "look for what holds up the producer's stream, or raise "
                    "the ring's timeout_ms",
                    "the stream of rank %d did not fill slot %llu in time",
                    ring->producer, (unsigned long long)index);
            return wi_error_about(ring->node->rank);
        }
        wi_pauses_take(&pauses);
    }
}
