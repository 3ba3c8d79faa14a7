/* SPDX-License-Identifier: MIT */
/*
 * Events between ranks that share a GPU. There the driver's interprocess event
 * costs 140 us a hand-over (H200, driver 580): the waiting context comes at its
 * next time slice. A stream memory operation on a word in memory of that GPU
 * costs 6. So the owner writes each record's number to a word as well, or, if
 * all ranks use that GPU, to the word alone; ranks there wait for the word,
 * others for the driver's event.
 *
 * A slot has one word on every GPU, in the keeper's memory. Its values go on
 * from one user of the slot to the next and are never set back, so a stream
 * that a silent rank left waiting is let go by later records, and a word seen
 * too early is never taken for the record of a new user.
 */
#include "base/error.h"
#include "base/log.h"
#include "core/core.h"
#include "core/signal.h"

/* Values are compared around the wrap: a word may be behind by less than this.
 */
#define MOST_BEHIND (UINT64_C(1) << 31)

static bool by_memory_operations(const wharf_node *node, int from, int to)
{
    wi_signal_way way;
    wi_signal_way_find(node, from, to, &way);
    return way.mechanism == WHARF_MECHANISM_MEM_OPS ||
           way.mechanism == WHARF_MECHANISM_HYBRID;
}

/* The values of a slot whose word lies on another GPU than its last user's go
 * on from a word that may be far behind. Such a slot is done with words, after
 * some hours of records back to back. */
static bool slot_fits(const wi_event_slot *slot, int gpu)
{
    return slot->word_gpu == 0 || slot->word_gpu == gpu + 1 ||
           slot->word_total < MOST_BEHIND;
}

/* The word of a slot on the caller's GPU. */
static uint32_t *word_of(const wharf_node *node, int slot)
{
    int gpu = node->gpu_of_rank[node->rank];
    char *words = wi_mapping_segment(node->keeper, node->gpu[gpu].owner);
    return (uint32_t *)(void *)(words + (size_t)slot * WI_EVENT_WORD_STRIDE);
}

void wi_event_word_init(wharf_event *event)
{
    const wharf_node *node = event->node;
    const wi_event_slot *slots = wi_comm_shared(node->comm);
    const wi_event_slot *slot = &slots[event->slot];
    event->word = NULL;
    event->word_first = wi_signal_first_epoch + (uint32_t)slot->word_total;
    event->word_only = true;
    if (node->backend != WHARF_BACKEND_CUDA || !node->keeper)
        return;
    int gpu = node->gpu_of_rank[event->owner];
    int guest = -1;
    for (int r = 0; r < node->size; r++)
        if (node->gpu_of_rank[r] != gpu)
            event->word_only = false;
        else if (r != event->owner)
            guest = r;
    if (guest < 0 || node->gpu_of_rank[node->rank] != gpu ||
        !by_memory_operations(node, event->owner, guest) ||
        !slot_fits(slot, gpu))
        return;
    event->word = word_of(node, event->slot);
}

void wi_event_word_fini(const wharf_event *event, wi_event_slot *slot,
                        uint64_t issued)
{
    if (!event->word || issued == 0)
        return;
    slot->word_gpu = event->node->gpu_of_rank[event->owner] + 1;
    slot->word_total += issued;
}

static uint32_t value_of(const wharf_event *event, uint64_t record)
{
    return event->word_first + (uint32_t)record;
}

static wharf_status enqueue(const wharf_event *event, wharf_stream stream,
                            wi_sync_kind kind, uint64_t record)
{
    wi_device *device = event->node->device;
    wi_sync_step step = {
        .kind = kind,
        .value = value_of(event, record),
        .address = event->word,
    };
    return device->ops->sync(device, stream, WI_SYNC_MEM_OPS, &step, 1, 0,
                             NULL);
}

wharf_status wi_event_word_write(wharf_event *event, wharf_stream stream,
                                 uint64_t record)
{
    return enqueue(event, stream, WI_SYNC_WRITE, record);
}

/* For the rescue, also after the event is gone: its streams may still wait. By
 * threads that may be several. */
static void note_waited(const wharf_event *event, uint32_t value)
{
    uint64_t *waited = &event->node->event_waited[event->slot];
    uint64_t next = UINT64_C(1) << 32 | value;
    uint64_t seen = __atomic_load_n(waited, __ATOMIC_RELAXED);
    while ((seen == 0 || (int32_t)(value - (uint32_t)seen) > 0) &&
           !__atomic_compare_exchange_n(waited, &seen, next, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    __atomic_store_n(&event->node->event_waits, true, __ATOMIC_RELAXED);
}

wharf_status wi_event_word_wait(wharf_event *event, wharf_stream stream,
                                uint64_t record)
{
    note_waited(event, value_of(event, record));
    return enqueue(event, stream, WI_SYNC_WAIT, record);
}

wharf_status wi_event_word_query(wharf_event *event, uint64_t record)
{
    wi_device *device = event->node->device;
    const void *word = event->word;
    uint64_t read;
    wharf_status status = device->ops->read_words(device, &word, 1, &read);
    if (status != WHARF_OK)
        return status;
    int32_t past = (int32_t)((uint32_t)read - value_of(event, record));
    return past >= 0 ? WHARF_OK : WHARF_ENOTREADY;
}

void wi_event_word_let_go(wharf_node *node)
{
    wi_device *device = node->device;
    if (!__atomic_load_n(&node->event_waits, __ATOMIC_RELAXED))
        return;
    for (int s = 0; s < WHARF_MAX_EVENTS; s++) {
        uint64_t seen =
            __atomic_load_n(&node->event_waited[s], __ATOMIC_RELAXED);
        uint32_t waited = (uint32_t)seen;
        if (seen)
            wharf_ignore(device->ops->write(device, word_of(node, s), &waited,
                                            sizeof waited));
    }
}
