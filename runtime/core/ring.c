/* SPDX-License-Identifier: MIT */
/*
 * Rings: how they come and go. The slots lie in an internal mapping, so every
 * rank reaches them as it reaches a buffer; what the hosts must know of one
 * another is in the control block, what the GPUs wait for in pads.
 */
#include "wharf/ring.h"

#include <string.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stat.h"
#include "base/versioned.h"
#include "core/ring.h"
#include "device/sum.h"

/* ---- Objects
 * -------------------------------------------------------------------- */

static void ring_delete(wharf_ring *ring)
{
    if (!ring)
        return;
    wi_handle_remove(ring);
    pthread_mutex_destroy(&ring->turn);
    pthread_mutex_destroy(&ring->watch);
    wi_free(ring->run);
    wi_free(ring->steps);
    wi_free(ring->count);
    wi_free(ring->due);
    wi_free(ring->sent);
    wi_free(ring->dead_ns);
    wi_free(ring);
}

static uint64_t ahead_of(const wharf_node *node,
                         const wharf_ring_options *options)
{
    if (options->ahead)
        return (uint64_t)options->ahead;
    return options->mode == WHARF_RING_SHARED && node->rank != options->producer
               ? WI_RING_AHEAD_SHARED
               : WI_RING_AHEAD_ALL;
}

static wharf_status
ring_new(wharf_node *node, const wharf_ring_options *options, wharf_ring **out)
{
    wharf_ring *ring;
    if (!WI_NEW(ring))
        return WHARF_ENOMEM;
    size_t ranks = (size_t)node->size;
    pthread_mutex_init(&ring->turn, NULL);
    pthread_mutex_init(&ring->watch, NULL);
    ring->node = node;
    ring->place = -1;
    ring->slots = options->slots;
    ring->producer = options->producer;
    ring->mode = options->mode;
    ring->slot_bytes = options->slot_bytes;
    ring->stride = (options->slot_bytes + WI_SEGMENT_ALIGN - 1) /
                   WI_SEGMENT_ALIGN * WI_SEGMENT_ALIGN;
    ring->timeout_ms = options->timeout_ms;
    ring->first = wi_signal_first_epoch;
    ring->ahead = ahead_of(node, options);
    ring->told = ring->ahead >= UINT64_C(2) * WI_RING_TOLD ? WI_RING_TOLD : 1;
    ring->run = wi_calloc(ranks, sizeof *ring->run);
    ring->steps = wi_calloc(ranks + 1, sizeof *ring->steps);
    ring->count = wi_calloc(ranks, sizeof *ring->count);
    ring->due = wi_calloc((size_t)options->slots, sizeof *ring->due);
    ring->sent = wi_calloc(ranks, sizeof *ring->sent);
    ring->dead_ns = wi_calloc(ranks, sizeof *ring->dead_ns);
    wharf_status status = WHARF_ENOMEM;
    if (ring->run && ring->steps && ring->count && ring->due && ring->sent &&
        ring->dead_ns)
        status = wi_handle_add(ring, WI_HANDLE_RING);
    if (status != WHARF_OK) {
        ring_delete(ring);
        return status;
    }
    for (int r = 0; r < node->size; r++) {
        ring->run[r].page = -1;
        ring->count[r] = ring->first;
    }
    *out = ring;
    return WHARF_OK;
}

/* ---- Checks of the options
 * -------------------------------------------------------- */

static wharf_status check_numbers(const wharf_node *node,
                                  const wharf_ring_options *o)
{
    const struct {
        const char *name;
        long long value, least, most;
    } fields[] = {
        {"slots", o->slots, 1, WHARF_MAX_RING_SLOTS},
        {"producer", o->producer, 0, node->size - 1},
        {"mode", (long long)o->mode, 0, WHARF_RING_SHARED},
        {"space", (long long)o->space, 0, WHARF_SPACE_HOST},
        {"consumer_count", o->consumer_count, WHARF_RING_NOBODY,
         node->size - 1},
        {"timeout_ms", o->timeout_ms, 0, 86400000},
        {"mechanism", (long long)o->mechanism, 0, WHARF_MECHANISM_MEM_OPS},
        {"ahead", o->ahead, 0, WI_RING_AHEAD},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < fields[i].least ||
            fields[i].value > fields[i].most)
            return wi_fail(WHARF_EARG, "see wharf_ring_options",
                           "options.%s is %lld, not in %lld to %lld",
                           fields[i].name, fields[i].value, fields[i].least,
                           fields[i].most);
    if (o->slot_bytes == 0)
        return wi_fail(WHARF_EARG, "set it to the size of a slot in bytes",
                       "options.slot_bytes is 0");
    if (o->slot_bytes > WI_LAYOUT_MOST / (uint64_t)o->slots)
        return wi_fail(WHARF_EARG, "use fewer or smaller slots",
                       "%d slots of %zu bytes are more than can be addressed",
                       o->slots, o->slot_bytes);
    return WHARF_OK;
}

static wharf_status check_consumers(const wharf_node *node,
                                    const wharf_ring_options *o)
{
    if (!o->consumers != (o->consumer_count <= 0))
        return wi_fail(WHARF_EARG,
                       "pass consumer_count ranks, or NULL with 0 or "
                       "WHARF_RING_NOBODY",
                       "options.consumer_count is %d and options.consumers is "
                       "%sNULL",
                       o->consumer_count, o->consumers ? "not " : "");
    for (int i = 0; i < o->consumer_count; i++) {
        int r = o->consumers[i];
        if (r < 0 || r >= node->size || r == o->producer)
            return wi_fail(WHARF_EARG, "pass ranks other than the producer",
                           "consumer %d is rank %d; the node has ranks 0 to "
                           "%d, and rank %d produces",
                           i, r, node->size - 1, o->producer);
        for (int j = 0; j < i; j++)
            if (o->consumers[j] == r)
                return wi_fail(WHARF_EARG, "pass each rank once",
                               "rank %d is consumer %d and %d", r, j, i);
    }
    return WHARF_OK;
}

static wharf_status check_create(const wharf_node *node,
                                 const wharf_ring_options *options,
                                 wharf_ring *const *out,
                                 wharf_ring_options *known)
{
    *known = (wharf_ring_options)WHARF_RING_OPTIONS_INIT;
    if (!options)
        return wi_fail(WHARF_EARG, "pass slots and slot_bytes",
                       "options is NULL");
    if (!out)
        return wi_fail(WHARF_EARG, "pass the address of a variable",
                       "ring is NULL");
    wharf_status status =
        wi_versioned_read(known, sizeof *known, options, "options");
    if (status == WHARF_OK && node->size < 2)
        status =
            wi_fail(WHARF_EARG, "start the program with more ranks",
                    "a ring needs a producer and a consumer, and the node has "
                    "one rank");
    if (status == WHARF_OK)
        status = check_numbers(node, known);
    return status == WHARF_OK ? check_consumers(node, known) : status;
}

/* What must be the same everywhere and has no field of its own in a meeting. */
static uint32_t digest(const wharf_ring_options *o)
{
    const uint64_t fields[] = {
        (uint64_t)o->slots,          o->slot_bytes,          (uint64_t)o->mode,
        (uint64_t)o->timeout_ms,     (uint64_t)o->mechanism, (uint64_t)o->ahead,
        (uint64_t)o->consumer_count,
    };
    uint64_t sum = wi_hash(WI_HASH_START, fields, sizeof fields);
    if (o->consumer_count > 0)
        sum = wi_hash(sum, o->consumers,
                      (size_t)o->consumer_count * sizeof *o->consumers);
    return (uint32_t)(sum ^ sum >> 32);
}

/* ---- Making one
 * --------------------------------------------------------------------- */

/* The one of the control block's places that is free on every rank. */
static wharf_status take_place(wharf_ring *ring)
{
    wharf_node *node = ring->node;
    for (int p = 0; p < WHARF_MAX_RINGS; p++)
        if (!(node->ring_places >> p & 1)) {
            node->ring_places |= UINT64_C(1) << p;
            wi_node_toggle(node, UINT32_C(0x72696e67), (uint32_t)p, 0);
            ring->place = p;
            return WHARF_OK;
        }
    return wi_fail(WHARF_ELIMIT, "destroy rings",
                   "the node has %d rings already", WHARF_MAX_RINGS);
}

static void give_place(wharf_ring *ring)
{
    if (ring->place < 0)
        return;
    ring->node->ring_places &= ~(UINT64_C(1) << ring->place);
    wi_node_toggle(ring->node, UINT32_C(0x72696e67), (uint32_t)ring->place, 0);
    ring->place = -1;
}

/* The producer, before any other rank may look. */
static void control_fill(wharf_ring *ring, const wharf_ring_options *o)
{
    wi_ring_control *control = ring->control;
    memset(control, 0, sizeof *control);
    for (int r = 0; r < ring->node->size; r++) {
        control->member[r].released = ring->first;
        if (r != ring->producer && !o->consumers && o->consumer_count == 0)
            control->member[r].part = WI_RING_IN;
    }
    for (int i = 0; i < o->consumer_count; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): checked */
        control->member[o->consumers[i]].part = WI_RING_IN;
}

static wharf_status map_slots(wharf_ring *ring, wharf_space space, bool races,
                              wi_deadline deadline)
{
    wharf_node *node = ring->node;
    size_t slots = (size_t)ring->slots;
    uint64_t *sizes = wi_calloc((size_t)node->size, sizeof *sizes);
    wharf_status status =
        wi_comm_agree(node->comm, sizes ? WHARF_OK : WHARF_ENOMEM, deadline);
    if (status != WHARF_OK) {
        wi_free(sizes);
        return status;
    }
    sizes[ring->producer] =
        slots * ring->stride + (races ? slots * sizeof(uint64_t) : 0);
    wi_attach attach = {
        .flags = WI_MAPPING_NO_EVENTS, .space = space, .sizes = sizes};
    status = wi_mapping_make(node, 1, &attach, &ring->memory, deadline);
    wi_free(sizes);
    if (status != WHARF_OK)
        return status;
    ring->base = wi_mapping_segment(ring->memory, ring->producer);
    if (races)
        ring->sum = (uint64_t *)(void *)(ring->base + slots * ring->stride);
    return WHARF_OK;
}

uint32_t *wi_ring_filled(const wharf_ring *ring, int rank)
{
    return wi_pad_word(ring->node, &ring->run[rank], 0);
}

uint32_t *wi_ring_released(const wharf_ring *ring, int rank)
{
    if (wi_ring_on_host(ring))
        return &ring->control->member[rank].released;
    return wi_pad_word(ring->node, &ring->run[ring->producer], rank);
}

/*
 * How the calling rank's streams signal and wait. Words hold numbers, so each
 * rank may choose by itself: what counts is who shares its GPU, since a kernel
 * that waits there holds up whoever it waits for, at whatever distance.
 */
static wharf_status choose_how(wharf_ring *ring, wharf_mechanism wanted)
{
    wharf_node *node = ring->node;
    wi_signal_way chosen = {.mechanism = WHARF_MECHANISM_AUTO};
    int other = ring->producer;
    if (wanted == WHARF_MECHANISM_HYBRID) /* of the environment */
        wanted = WHARF_MECHANISM_MEM_OPS;
    for (int r = 0; r < node->size; r++) {
        wi_signal_facts facts;
        wi_signal_way way;
        wi_signal_facts_find(node, r, node->rank, &facts);
        bool matters = r == ring->producer || node->rank == ring->producer ||
                       facts.same_gpu || facts.host;
        if (r == node->rank || !matters)
            continue;
        wharf_status status = wi_signal_choose(&facts, wanted, false, &way);
        if (status != WHARF_OK)
            return status;
        if (chosen.mechanism != WHARF_MECHANISM_AUTO && !way.slow &&
            (chosen.slow || way.mechanism == chosen.mechanism ||
             way.mechanism == WHARF_MECHANISM_KERNEL))
            continue;
        chosen = way;
        other = r;
    }
    wi_signal_tell_slow(node, other, node->rank, &chosen);
    ring->mechanism = chosen.mechanism;
    memcpy(ring->reason, chosen.reason, sizeof ring->reason);
    ring->how = wi_signal_how(chosen.mechanism);
    return WHARF_OK;
}

/* This rank's part: words, and what its streams need before one can be
 * waiting. */
static wharf_status prepare(wharf_ring *ring, wharf_mechanism wanted)
{
    wharf_node *node = ring->node;
    wi_device *device = node->device;
    wharf_status status = choose_how(ring, wanted);
    if (status == WHARF_OK)
        status = device->ops->report_alloc(device, 2, &ring->report);
    if (status == WHARF_OK && ring->sum)
        status = device->ops->sums->prepare(device);
    if (status != WHARF_OK || wi_ring_on_host(ring))
        return status;
    ring->report[0] = 0;
    status = device->ops->sync_prepare(device, ring->how);
    if (status == WHARF_OK)
        status = wi_pad_set(node, &ring->run[node->rank], ring->first);
    return status == WHARF_OK ? wi_ring_watch_add(ring) : status;
}

static wharf_status take_words(wharf_ring *ring, wi_deadline deadline)
{
    wharf_node *node = ring->node;
    if (wi_ring_on_host(ring))
        return WHARF_OK;
    for (int r = 0; r < node->size; r++)
        ring->run[r] = (wi_pad_run){
            .rank = r,
            .page = -1,
            .count = r == ring->producer ? node->size : 1,
        };
    return wi_pad_take(node, node->size, ring->run, deadline);
}

static void drop(wharf_ring *ring)
{
    wharf_node *node = ring->node;
    wi_ring_watch_remove(ring);
    if (ring->report)
        node->device->ops->report_free(node->device, ring->report);
    ring->report = NULL;
    wi_pad_give(node, node->size, ring->run);
    give_place(ring);
}

/* Collective. Returns the agreement's status and keeps the record. */
static void unmap_slots(wharf_ring *ring, wi_deadline deadline)
{
    wharf_error cause = *wi_error_record();
    if (ring->memory)
        wharf_ignore(wi_mapping_free(ring->node, 1, &ring->memory, deadline));
    *wi_error_record() = cause;
}

static wharf_status build(wharf_ring *ring, const wharf_ring_options *o,
                          wi_deadline deadline)
{
    wharf_node *node = ring->node;
    wharf_status status = wi_decided_alike(take_place(ring));
    if (status != WHARF_OK)
        return status;
    ring->control = wi_ring_controls(node) + ring->place;
    if (node->rank == ring->producer)
        control_fill(ring, o);
    status = take_words(ring, deadline);
    if (status == WHARF_OK)
        status =
            map_slots(ring, o->space, node->settings.check_races, deadline);
    wharf_mechanism wanted =
        o->mechanism ? o->mechanism : (wharf_mechanism)node->settings.mechanism;
    if (status == WHARF_OK)
        status = wi_comm_agree(node->comm, prepare(ring, wanted), deadline);
    if (status == WHARF_OK)
        return WHARF_OK;
    drop(ring);
    unmap_slots(ring, deadline);
    wi_pad_trim(node, deadline);
    return status;
}

static wharf_status create_locked(wharf_node *node,
                                  const wharf_ring_options *options,
                                  wharf_ring **out)
{
    wi_deadline deadline = wi_node_deadline(node);
    wharf_ring_options known;
    wharf_ring *ring = NULL;
    wi_meeting mine = {.call = WI_CALL_RING_CREATE};
    mine.status = check_create(node, options, out, &known);
    if (mine.status == WHARF_OK) {
        mine.count = known.producer;
        mine.space = (uint32_t)known.space;
        mine.flags = digest(&known);
        mine.status = ring_new(node, &known, &ring);
    }
    wi_meeting all[WHARF_MAX_RANKS];
    wharf_status status = wi_node_meet(node, &mine, all, deadline);
    if (status == WHARF_OK)
        status = build(ring, &known, deadline);
    if (status != WHARF_OK) {
        ring_delete(ring);
        return status;
    }
    ring->serial = ++node->serial;
    ring->next_ring = node->rings;
    node->rings = ring;
    wi_stat_add(WI_STAT_live_rings, 1);
    *out = ring;
    return WHARF_OK;
}

wharf_status wharf_ring_create(wharf_node *node,
                               const wharf_ring_options *options,
                               wharf_ring **ring)
{
    wharf_status status = wi_node_enter(__func__, node);
    if (status != WHARF_OK)
        return status;
    return wi_node_leave(node, create_locked(node, options, ring));
}

/* ---- End
 * ------------------------------------------------------------------------ */

/* Collective, after a meeting. */
static void discard(wharf_ring *ring, wi_deadline deadline)
{
    wharf_node *node = ring->node;
    for (wharf_ring **at = &node->rings; *at; at = &(*at)->next_ring)
        if (*at == ring) {
            *at = ring->next_ring;
            break;
        }
    wi_ring_race_collect(ring);
    drop(ring);
    unmap_slots(ring, deadline);
    ring_delete(ring);
    wi_stat_add(WI_STAT_live_rings, -1);
}

void wi_ring_close_all(wharf_node *node, wi_deadline deadline)
{
    while (node->rings) {
        wi_log(WI_LOG_WARN,
               "ring %llu was still there when its node was closed",
               (unsigned long long)node->rings->serial);
        discard(node->rings, deadline);
    }
}

static wharf_status destroy_locked(wharf_ring **out)
{
    wharf_ring *ring = *out;
    wharf_node *node = ring->node;
    wi_deadline deadline = wi_node_deadline(node);
    wi_meeting mine = {
        .call = WI_CALL_RING_DESTROY,
        .serial = ring->serial,
        .status = wi_signal_quiesce(node),
    };
    wi_meeting all[WHARF_MAX_RANKS];
    wharf_status status = wi_node_meet(node, &mine, all, deadline);
    if (status == WHARF_EMISMATCH)
        return status;
    discard(ring, deadline);
    *out = NULL;
    return status;
}

wharf_status wi_ring_enter(const char *call, const wharf_ring *ring)
{
    wi_call_begin(call, -1);
    wharf_status status = wi_handle_check(ring, WI_HANDLE_RING, "ring");
    if (status == WHARF_OK)
        wi_call_set_rank(ring->node->rank);
    return status;
}

wharf_status wharf_ring_destroy(wharf_ring **ring)
{
    wharf_status status = wi_ring_enter(__func__, ring ? *ring : NULL);
    if (status == WHARF_OK) {
        wharf_node *node = (*ring)->node;
        pthread_mutex_lock(&node->collective);
        status = destroy_locked(ring);
        pthread_mutex_unlock(&node->collective);
    } else if (ring) {
        *ring = NULL;
    }
    return wi_call_end(status);
}

/* ---- Queries
 * --------------------------------------------------------------------- */

static wharf_path path_of(const wharf_ring *ring)
{
    const wharf_node *node = ring->node;
    wharf_link link = {.struct_size = sizeof link};
    if (ring->memory->way->ops->space == WHARF_SPACE_HOST)
        return WHARF_PATH_HOST;
    if (wharf_node_link(node, node->rank, ring->producer, &link) != WHARF_OK)
        return WHARF_PATH_HOST;
    return link.path;
}

wharf_status wharf_ring_info_get(const wharf_ring *ring, wharf_ring_info *info)
{
    wharf_status status = wi_ring_enter(__func__, ring);
    if (status != WHARF_OK)
        return wi_call_end(status);
    const wi_ring_control *control = ring->control;
    uint32_t part = wi_ring_part_of(ring, ring->node->rank);
    wharf_ring_info now = {
        .struct_size = sizeof now,
        .slots = ring->slots,
        .slot_bytes = ring->slot_bytes,
        .slot_stride = ring->stride,
        .producer = ring->producer,
        .mode = ring->mode,
        .space = ring->memory->way->ops->space,
        .handle = ring->memory->way->ops->kind,
        .path = path_of(ring),
        .mechanism = ring->mechanism,
        .consuming = part == WI_RING_IN || part == WI_RING_ASKED,
        .issued = __atomic_load_n(&control->issued, __ATOMIC_ACQUIRE),
        .closed = (int)__atomic_load_n(&control->closed, __ATOMIC_ACQUIRE),
        .mine = __atomic_load_n(&ring->ended, __ATOMIC_RELAXED),
    };
    for (int r = 0; r < ring->node->size; r++)
        now.consumers += wi_ring_part_of(ring, r) == WI_RING_IN;
    memcpy(now.reason, ring->reason, sizeof now.reason);
    return wi_call_end(wi_versioned_write(info, &now, sizeof now, "info"));
}
