/* SPDX-License-Identifier: MIT */
/*
 * Events: a ring of interprocess CUDA events, and the number of records issued
 * in the control block. A wait first holds on the number, so that it can never
 * meet an event that was not recorded (which CUDA lets pass), then hands the
 * rest to the driver.
 */
#include <string.h>

#include "base/error.h"
#include "base/futex.h"
#include "base/handles.h"
#include "base/mem.h"
#include "base/stat.h"
#include "base/thread.h"
#include "core/core.h"
#include "core/signal.h"

static wi_event_slot *slot_of(const wharf_event *event)
{
    wi_event_slot *slots = wi_comm_shared(event->node->comm);
    return &slots[event->slot];
}

static uint64_t issued(const wharf_event *event)
{
    return __atomic_load_n(&slot_of(event)->issued, __ATOMIC_ACQUIRE) -
           event->base;
}

/* ---- Slots and life ------------------------------------------------------ */

wharf_status wi_event_slots_take(wharf_node *node, int count, int *first)
{
    int run = 0;
    for (int s = node->slots_from; s < WHARF_MAX_EVENTS; s++) {
        run = node->slot_used[s] ? 0 : run + 1;
        if (run < count)
            continue;
        *first = s - count + 1;
        memset(node->slot_used + *first, 1, (size_t)count);
        wi_node_toggle(node, 0, (uint32_t)*first, (uint32_t)count);
        if (*first == node->slots_from)
            node->slots_from = s + 1;
        return WHARF_OK;
    }
    return wi_fail(WHARF_ELIMIT, "destroy events or detach buffers",
                   "no %d of the node's %d events are free (a buffer takes "
                   "one a rank)",
                   count, WHARF_MAX_EVENTS);
}

void wi_event_slots_give(wharf_node *node, int first, int count)
{
    memset(node->slot_used + first, 0, (size_t)count);
    wi_node_toggle(node, 0, (uint32_t)first, (uint32_t)count);
    if (first < node->slots_from)
        node->slots_from = first;
}

void wi_event_init(wharf_event *event, wharf_node *node, int owner, int slot)
{
    event->node = node;
    event->owner = owner;
    event->slot = slot;
    pthread_mutex_init(&event->lock, NULL);
    wi_event_word_init(event);
    wi_stat_add(WI_STAT_live_events, 1);
}

/*
 * Numbers start at 1 again for the next user. The base is read here, where no
 * rank can record any more, and not when the event wakes up: then its owner
 * may be ahead of this rank and have recorded already.
 */
void wi_event_deactivate(wharf_event *event)
{
    event->base = __atomic_load_n(&slot_of(event)->issued, __ATOMIC_ACQUIRE);
    event->complete = 0;
    event->active = false;
}

static void close_ring(wharf_event *event, bool safe)
{
    const wi_device_ops *ops = event->node->device->ops;
    for (int k = 0; k < WI_EVENT_RING; k++) {
        if (event->device_event[k] && safe)
            ops->event_destroy(event->device_event[k]);
        else if (event->device_event[k]) {
            ops->keep(event->node->device);
            ops->event_abandon(event->device_event[k]);
        }
        event->device_event[k] = NULL;
    }
}

void wi_event_close_import(wharf_event *event)
{
    if (event->owner != event->node->rank)
        close_ring(event, true);
}

void wi_event_fini(wharf_event *event, bool safe)
{
    /* An exported event must not go while another process has it open. */
    close_ring(event, safe);
    /* The next user of the slot starts at zero; nobody looks before the
     * collective call that gives it away, which its last owner enters after
     * this. */
    if (event->owner == event->node->rank) {
        wi_event_slot *slot = slot_of(event);
        wi_event_slot next = {
            .word_gpu = slot->word_gpu,
            .word_total = slot->word_total,
        };
        wi_event_word_fini(event, &next, slot->issued);
        *slot = next;
    }
    pthread_mutex_destroy(&event->lock);
    wi_stat_add(WI_STAT_live_events, -1);
}

/* ---- Collective calls ---------------------------------------------------- */

/* Alike on all ranks. What the pool keeps has slots too. */
static wharf_status slot_take(wharf_node *node, int *slot, wi_deadline deadline)
{
    wharf_status status = wi_event_slots_take(node, 1, slot);
    if (status == WHARF_ELIMIT && node->pool) {
        status = wi_pool_empty(node, deadline);
        if (status != WHARF_OK)
            return status;
        status = wi_event_slots_take(node, 1, slot);
    }
    return wi_decided_alike(status);
}

static wharf_status create_locked(wharf_node *node, int owner,
                                  wharf_event **out)
{
    wi_deadline deadline = wi_node_deadline(node);
    wharf_event *event = NULL;
    wi_meeting mine = {.call = WI_CALL_EVENT_CREATE, .count = owner};
    if (!out)
        mine.status = wi_fail(WHARF_EARG, "pass the address of a variable",
                              "event is NULL");
    else
        mine.status = wi_node_check_rank(node, "owner", owner);
    if (mine.status == WHARF_OK && !WI_NEW(event))
        mine.status = WHARF_ENOMEM;
    if (mine.status == WHARF_OK)
        mine.status = wi_handle_add(event, WI_HANDLE_EVENT);

    wi_meeting all[WHARF_MAX_RANKS];
    int slot;
    wharf_status status = wi_node_meet(node, &mine, all, deadline);
    if (status == WHARF_OK)
        status = slot_take(node, &slot, deadline);
    if (status != WHARF_OK) {
        if (event)
            wi_handle_remove(event);
        wi_free(event);
        return status;
    }
    wi_event_init(event, node, owner, slot);
    event->active = true;
    event->serial = ++node->serial;
    event->next = node->events;
    node->events = event;
    *out = event;
    return WHARF_OK;
}

wharf_status wharf_event_create(wharf_node *node, int owner,
                                wharf_event **event)
{
    wharf_status status = wi_node_enter(__func__, node);
    if (status != WHARF_OK)
        return status;
    return wi_node_leave(node, create_locked(node, owner, event));
}

void wi_event_discard(wharf_event *event, bool safe)
{
    wharf_node *node = event->node;
    for (wharf_event **at = &node->events; *at; at = &(*at)->next)
        if (*at == event) {
            *at = event->next;
            break;
        }
    wi_event_fini(event, safe);
    wi_event_slots_give(node, event->slot, 1);
    wi_handle_remove(event);
    wi_free(event);
}

/*
 * Streams that still record or wait come first. The driver lays a new event
 * where the exported one was, and the slot's next user writes the same word
 * from a stream of its own: such a wait would pass too early, or never. Where
 * nothing was issued no stream of this rank can wait.
 */
static wharf_status destroy_locked(wharf_event **out)
{
    wharf_event *event = *out;
    wharf_node *node = event->node;
    wi_deadline deadline = wi_node_deadline(node);
    wi_meeting mine = {
        .call = WI_CALL_EVENT_DESTROY,
        .serial = event->serial,
        .status = (int32_t)(issued(event) ? wi_signal_quiesce(node) : WHARF_OK),
    };
    wi_meeting all[WHARF_MAX_RANKS];
    wharf_status status = wi_node_meet(node, &mine, all, deadline);
    if (status == WHARF_EMISMATCH)
        return status;
    wharf_error cause = *wi_error_record();
    wi_event_close_import(event);
    wharf_status closed = wi_node_let_go(node, deadline);
    wi_event_discard(event, wi_all_came(closed));
    *out = NULL;
    if (status == WHARF_OK)
        return closed;
    *wi_error_record() = cause;
    return status;
}

/* Begins a call on an event. */
static wharf_status enter(const char *call, const wharf_event *event)
{
    wi_call_begin(call, -1);
    wharf_status status = wi_handle_check(event, WI_HANDLE_EVENT, "event");
    if (status != WHARF_OK)
        return status;
    if (!event->active)
        return wi_fail(WHARF_ESTATE, "use it only while its buffer is attached",
                       "the event's buffer was detached");
    wi_call_set_rank(event->node->rank);
    return WHARF_OK;
}

wharf_status wharf_event_destroy(wharf_event **event)
{
    wharf_status status = enter(__func__, event ? *event : NULL);
    if (status == WHARF_OK && (*event)->serial == 0)
        status = wi_fail(WHARF_ESTATE, "detach the buffer instead",
                         "the event belongs to a buffer");
    if (status == WHARF_OK) {
        wharf_node *node = (*event)->node;
        pthread_mutex_lock(&node->collective);
        status = destroy_locked(event);
        pthread_mutex_unlock(&node->collective);
    } else if (event) {
        *event = NULL;
    }
    return wi_call_end(status);
}

/* ---- Record -------------------------------------------------------------- */

/* Under the event's lock. */
static wharf_status own_ring_event(wharf_event *event, int k, wi_event **out)
{
    wi_device *device = event->node->device;
    wi_event_slot *slot = slot_of(event);
    if (!event->device_event[k]) {
        wi_event *made;
        wharf_status status = device->ops->event_create(device, &made);
        if (status != WHARF_OK)
            return status;
        status = device->ops->event_export(made, slot->handle[k]);
        if (status != WHARF_OK) {
            device->ops->event_destroy(made);
            return status;
        }
        event->device_event[k] = made;
        __atomic_fetch_or(&slot->made, 1u << k, __ATOMIC_RELEASE);
    }
    *out = event->device_event[k];
    return WHARF_OK;
}

/* Records complete in the order of their numbers, on several streams too: a
 * wait may be for a later record than the one that it names. One handle stands
 * for a stream of each thread (cudaStreamPerThread). */
static wharf_status follow_last(wharf_event *event, wharf_stream stream,
                                uint64_t last)
{
    wi_event *ring = event->device_event[last % WI_EVENT_RING];
    bool same = stream == event->last_stream &&
                event->last_thread == wi_thread_serial();
    if (last == 0 || same)
        return WHARF_OK;
    if (event->word)
        return wi_event_word_wait(event, stream, last);
    return ring ? event->node->device->ops->event_wait(ring, stream) : WHARF_OK;
}

static wharf_status record_enqueue(wharf_event *event, wharf_stream stream,
                                   uint64_t next)
{
    wi_device *device = event->node->device;
    bool by_event = !event->word || !event->word_only;
    wi_event *ring = NULL;
    wharf_status status = WHARF_OK;
    if (by_event)
        status = own_ring_event(event, (int)(next % WI_EVENT_RING), &ring);
    if (status == WHARF_OK)
        status = follow_last(event, stream, next - 1);
    if (status == WHARF_OK && by_event)
        status = device->ops->event_record(ring, stream);
    if (status == WHARF_OK && event->word)
        status = wi_event_word_write(event, stream, next);
    return status;
}

static wharf_status record_locked(wharf_event *event, wharf_stream stream,
                                  uint64_t *number)
{
    wi_event_slot *slot = slot_of(event);
    uint64_t next = __atomic_load_n(&slot->issued, __ATOMIC_RELAXED) + 1;
    wharf_status status = record_enqueue(event, stream, next);
    if (status != WHARF_OK)
        return status;
    event->last_stream = stream;
    event->last_thread = wi_thread_serial();
    /* Release: who sees the number sees the handle, and on the host backend
     * all that was written before. */
    __atomic_store_n(&slot->issued, next, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->word, (uint32_t)next, __ATOMIC_RELEASE);
    wi_futex_wake(&slot->word);
    if (number)
        *number = next - event->base;
    return WHARF_OK;
}

/* A graph would record the same number at every launch, and before the first
 * one a wait for it would pass. */
static wharf_status check_not_captured(const wharf_node *node,
                                       wharf_stream stream)
{
    bool capturing = false;
    wharf_status status =
        node->device->ops->capturing(node->device, stream, &capturing);
    if (status == WHARF_OK && capturing)
        status = wi_fail(WHARF_EUNSUPPORTED,
                         "record a notify in the graph (wharf_notify_record)",
                         "the stream is being captured, and a record's number "
                         "stands for one launch");
    return status;
}

wharf_status wharf_event_record(wharf_event *event, wharf_stream stream,
                                uint64_t *number)
{
    wharf_status status = enter(__func__, event);
    if (status != WHARF_OK)
        return wi_call_end(status);
    wharf_node *node = event->node;
    if (event->owner != node->rank)
        status = wi_fail(WHARF_ESTATE, "record on the owner, wait elsewhere",
                         "the event is recorded by rank %d, not by rank %d",
                         event->owner, node->rank);
    if (status == WHARF_OK)
        status = node->device->ops->check_stream(node->device, stream);
    if (status == WHARF_OK)
        status = check_not_captured(node, stream);
    if (status != WHARF_OK)
        return wi_call_end(status);
    pthread_mutex_lock(&event->lock);
    status = record_locked(event, stream, number);
    pthread_mutex_unlock(&event->lock);
    return wi_call_end(status);
}

/* ---- Wait ---------------------------------------------------------------- */

typedef struct pending {
    const wharf_event *event;
    uint64_t number;
} pending;

static bool is_issued(void *argument)
{
    const pending *p = argument;
    return issued(p->event) >= p->number;
}

static wharf_status check_number(const wharf_event *event, uint64_t number)
{
    if (number <= UINT64_MAX - event->base)
        return WHARF_OK;
    return wi_fail(WHARF_EARG, "pass a number that a record returned",
                   "record %llu cannot exist", (unsigned long long)number);
}

/* Which record a wait is for: LATEST is the newest, and at least the first. */
static uint64_t resolve(const wharf_event *event, uint64_t number)
{
    if (number != WHARF_LATEST)
        return number;
    uint64_t newest = issued(event);
    return newest ? newest : 1;
}

static wharf_status hold_until_issued(wharf_event *event, uint64_t number,
                                      wi_deadline deadline)
{
    pending p = {event, number};
    if (is_issued(&p))
        return WHARF_OK;
    wharf_status status =
        wi_comm_wait(event->node->comm, event->owner, &slot_of(event)->word,
                     is_issued, &p, deadline);
    if (status == WHARF_ETIMEDOUT) {
        wi_fail(WHARF_ETIMEDOUT,
                "let the owner record, or raise WHARF_TIMEOUT_MS",
                "rank %d issued %llu records, record %llu did not come",
                event->owner, (unsigned long long)issued(event),
                (unsigned long long)number);
        return wi_error_about(event->node->rank);
    }
    return status;
}

/* The driver event that stands for an issued record, or for the newest when
 * the ring has moved on. Imports it at first use. */
static wharf_status ring_event(wharf_event *event, uint64_t number,
                               wi_event **out)
{
    wi_device *device = event->node->device;
    wi_event_slot *slot = slot_of(event);
    uint64_t newest = issued(event);
    uint64_t stands = newest - number < WI_EVENT_RING ? number : newest;
    int k = (int)((stands + event->base) % WI_EVENT_RING);
    wharf_status status = WHARF_OK;
    pthread_mutex_lock(&event->lock);
    if (!event->device_event[k])
        status = device->ops->event_open(device, slot->handle[k],
                                         &event->device_event[k]);
    *out = event->device_event[k];
    pthread_mutex_unlock(&event->lock);
    if (status == WHARF_OK)
        return WHARF_OK;
    /* The driver says no more than that the handle of a dead rank is bad. */
    wharf_error cause = *wi_error_record();
    wharf_status alive = wi_comm_check_alive(event->node->comm, event->owner);
    if (alive != WHARF_OK)
        return alive;
    *wi_error_record() = cause;
    return status;
}

wharf_status wharf_event_wait(wharf_event *event, uint64_t number,
                              wharf_stream stream)
{
    wharf_status status = enter(__func__, event);
    if (status == WHARF_OK)
        status = check_number(event, number);
    if (status != WHARF_OK)
        return wi_call_end(status);
    wharf_node *node = event->node;
    wi_event *ring;
    number = resolve(event, number);
    status = node->device->ops->check_stream(node->device, stream);
    if (status == WHARF_OK)
        status = hold_until_issued(event, number, wi_node_deadline(node));
    if (status == WHARF_OK && event->word) {
        status = wi_event_word_wait(event, stream, number + event->base);
        return wi_call_end(status);
    }
    if (status == WHARF_OK)
        status = ring_event(event, number, &ring);
    if (status == WHARF_OK)
        status = node->device->ops->event_wait(ring, stream);
    return wi_call_end(status);
}

/* ---- Query and synchronize ----------------------------------------------- */

/* What was once seen complete stays so, also when the ring has moved on. */
static void note_complete(wharf_event *event, uint64_t number)
{
    uint64_t seen = __atomic_load_n(&event->complete, __ATOMIC_RELAXED);
    while (seen < number &&
           !__atomic_compare_exchange_n(&event->complete, &seen, number, true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

static wharf_status query_number(wharf_event *event, uint64_t number)
{
    wi_event *ring;
    if (__atomic_load_n(&event->complete, __ATOMIC_ACQUIRE) >= number)
        return WHARF_OK;
    if (issued(event) < number)
        return WHARF_ENOTREADY;
    wharf_status status;
    if (event->word) {
        status = wi_event_word_query(event, number + event->base);
    } else {
        status = ring_event(event, number, &ring);
        if (status == WHARF_OK)
            status = event->node->device->ops->event_query(ring);
    }
    if (status == WHARF_OK)
        note_complete(event, number);
    return status;
}

/* Of a record that was not complete a moment ago: will it ever be? Asked after
 * the owner's death once more, for what it did before that counts. */
static wharf_status query_owner(wharf_event *event, uint64_t number)
{
    const wharf_node *node = event->node;
    if (event->owner == node->rank)
        return WHARF_ENOTREADY;
    wharf_status alive = wi_comm_check_alive(node->comm, event->owner);
    if (alive == WHARF_OK)
        return WHARF_ENOTREADY;
    wharf_error cause = *wi_error_record();
    wharf_status status = query_number(event, number);
    if (status != WHARF_ENOTREADY)
        return status;
    *wi_error_record() = cause;
    return alive;
}

wharf_status wharf_event_query(wharf_event *event, uint64_t number)
{
    wharf_status status = enter(__func__, event);
    if (status == WHARF_OK)
        status = check_number(event, number);
    if (status != WHARF_OK)
        return wi_call_end(status);
    number = resolve(event, number);
    status = query_number(event, number);
    if (status == WHARF_ENOTREADY)
        status = query_owner(event, number);
    return wi_call_end(status);
}

/* The driver has no wait with a deadline. */
static wharf_status poll_complete(wharf_event *event, uint64_t number,
                                  wi_deadline deadline)
{
    wi_pauses pauses = {.yields = 1, .first_ns = 2000, .most_ns = WI_NS_PER_MS};
    for (;;) {
        wharf_status status = query_number(event, number);
        if (status != WHARF_ENOTREADY)
            return status;
        if (wi_deadline_run_out(deadline))
            return wi_fail(WHARF_ETIMEDOUT,
                           "let the owner's work end, or give more time",
                           "record %llu of rank %d was issued and is not "
                           "complete",
                           (unsigned long long)number, event->owner);
        if (wi_pauses_long(&pauses)) {
            status = query_owner(event, number);
            if (status != WHARF_ENOTREADY)
                return status;
        }
        wi_pauses_take(&pauses);
    }
}

wharf_status wharf_event_synchronize(wharf_event *event, uint64_t number,
                                     int timeout_ms)
{
    wharf_status status = enter(__func__, event);
    if (status == WHARF_OK)
        status = check_number(event, number);
    if (status == WHARF_OK && timeout_ms < 0)
        status = wi_fail(WHARF_EARG, "pass milliseconds, or 0 for the node's",
                         "timeout_ms is %d", timeout_ms);
    if (status != WHARF_OK)
        return wi_call_end(status);
    wi_deadline deadline = timeout_ms ? wi_deadline_in_ms(timeout_ms)
                                      : wi_node_deadline(event->node);
    number = resolve(event, number);
    status = hold_until_issued(event, number, deadline);
    if (status == WHARF_OK)
        status = poll_complete(event, number, deadline);
    return wi_call_end(status);
}
