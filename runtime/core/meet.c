/* SPDX-License-Identifier: MIT */
/*
 * How every collective call starts: the ranks show each other what they were
 * asked for. Whoever objects does so here, still takes part, and everybody
 * leaves with the same status.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "core/core.h"

static const char *call_name(uint32_t call)
{
    switch (call) {
    case WI_CALL_ATTACH:
        return "wharf_buffer_attach";
    case WI_CALL_ATTACH_MEMORY:
        return "wharf_buffer_attach_memory";
    case WI_CALL_DETACH:
        return "wharf_buffer_detach";
    case WI_CALL_EVENT_CREATE:
        return "wharf_event_create";
    case WI_CALL_EVENT_DESTROY:
        return "wharf_event_destroy";
    case WI_CALL_POOL_TRIM:
        return "wharf_pool_trim";
    case WI_CALL_CLOSE:
        return "wharf_node_close";
    case WI_CALL_NOTIFY_CREATE:
        return "wharf_notify_create";
    case WI_CALL_NOTIFY_DESTROY:
        return "wharf_notify_destroy";
    case WI_CALL_BARRIER_CREATE:
        return "wharf_barrier_create";
    case WI_CALL_BARRIER_DESTROY:
        return "wharf_barrier_destroy";
    case WI_CALL_EXCHANGE_CREATE:
        return "wharf_exchange_create";
    case WI_CALL_EXCHANGE_DESTROY:
        return "wharf_exchange_destroy";
    case WI_CALL_RING_CREATE:
        return "wharf_ring_create";
    case WI_CALL_RING_DESTROY:
        return "wharf_ring_destroy";
    }
    return "an unknown call";
}

/* A mismatch is the deviating rank's failure, and its record the same on every
 * rank, whichever call that rank is in. */
static wharf_status blame(int rank, const wi_meeting *meeting)
{
    wharf_error *record = wi_error_record();
    record->rank = rank;
    snprintf(record->call, sizeof record->call, "%s", call_name(meeting->call));
    return record->status;
}

static const char *const same_value = "pass the same value on every rank of "
                                      "the node";

static wharf_status mismatch(int rank, const wi_meeting *meeting,
                             const char *what, unsigned long long has,
                             unsigned long long first)
{
    wi_fail(WHARF_EMISMATCH, same_value,
            "rank %d passed %s %llu, rank 0 passed %llu", rank, what, has,
            first);
    return blame(rank, meeting);
}

static const char *count_name(uint32_t call)
{
    return call == WI_CALL_EVENT_CREATE    ? "owner"
           : call == WI_CALL_NOTIFY_CREATE ? "waiter"
           : call == WI_CALL_RING_CREATE   ? "producer"
                                           : "count";
}

/* What space and flags are in the call. */
static bool is_signal(uint32_t call)
{
    return call == WI_CALL_NOTIFY_CREATE || call == WI_CALL_BARRIER_CREATE;
}

/* Of a ring they are a digest of all its other options. */
static const char *flags_name(uint32_t call)
{
    return is_signal(call)               ? "capturable"
           : call == WI_CALL_RING_CREATE ? "other ring options, their digest"
                                         : "flags";
}

/* Which call and which object. Comes before anything that a rank objects to:
 * an objection is an answer only to ranks that are in the same call. */
static wharf_status compare_call(int rank, const wi_meeting *m,
                                 const wi_meeting *first)
{
    if (m->call != first->call) {
        wi_fail(WHARF_EMISMATCH,
                "make collective calls in the same order on every rank",
                "rank %d called %s, rank 0 called %s", rank, call_name(m->call),
                call_name(first->call));
        return blame(rank, m);
    }
    if (m->serial != first->serial)
        return mismatch(rank, m, "object number", m->serial, first->serial);
    return WHARF_OK;
}

static wharf_status compare_one(int rank, const wi_meeting *m,
                                const wi_meeting *first)
{
    wharf_status status = compare_call(rank, m, first);
    if (status != WHARF_OK)
        return status;
    if (m->count != first->count)
        return mismatch(rank, m, count_name(m->call),
                        (unsigned long long)m->count,
                        (unsigned long long)first->count);
    if (m->space != first->space)
        return mismatch(rank, m, is_signal(m->call) ? "mechanism" : "space",
                        m->space, first->space);
    if (m->flags != first->flags)
        return mismatch(rank, m, flags_name(m->call), m->flags, first->flags);
    if (strncmp(m->name, first->name, sizeof m->name) != 0) {
        wi_fail(WHARF_EMISMATCH, same_value,
                "rank %d passed name \"%.31s\", rank 0 passed \"%.31s\"", rank,
                m->name, first->name);
        return blame(rank, m);
    }
    return WHARF_OK;
}

static wharf_status compare_all(const wi_meeting *all, int size)
{
    wharf_status status = WHARF_OK;
    for (int r = 1; r < size && status == WHARF_OK; r++)
        status = compare_one(r, &all[r], &all[0]);
    return status;
}

/* A close takes what there is. */
static wharf_status compare_states(const wi_meeting *all, int size)
{
    for (int r = 1; r < size; r++)
        if (all[r].state != all[0].state) {
            wi_fail(WHARF_EMISMATCH,
                    "close the node on every rank and open it anew",
                    "a call that was given up was missed by rank %d or by rank "
                    "0: their buffers, events or signals are no longer the "
                    "same",
                    r);
            return blame(r, &all[r]);
        }
    return WHARF_OK;
}

static wharf_status compare_calls(const wi_meeting *all, int size)
{
    wharf_status status = WHARF_OK;
    for (int r = 1; r < size && status == WHARF_OK; r++)
        status = compare_call(r, &all[r], &all[0]);
    return status;
}

#undef wi_decided_alike
wharf_status wi_decided_alike(wharf_status status)
{
    if (status != WHARF_OK)
        wi_error_record()->rank = 0;
    return status;
}

bool wi_all_came(wharf_status status)
{
    return status != WHARF_ETIMEDOUT && status != WHARF_EMISMATCH &&
           wharf_status_scope(status) != WHARF_SCOPE_NODE;
}

void wi_node_toggle(wharf_node *node, uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t z = wi_mix(((uint64_t)a << 40) + ((uint64_t)b << 20) + c);
    node->state ^= (uint32_t)(z >> 32);
}

wharf_status wi_node_let_go(wharf_node *node, wi_deadline deadline)
{
    if (node->apart)
        return WHARF_ETIMEDOUT;
    return wi_comm_agree(node->comm, WHARF_OK, deadline);
}

static wharf_status meet(wharf_node *node, const wi_meeting *mine,
                         wi_meeting *all, wi_deadline deadline)
{
    wi_meeting shown = *mine;
    shown.state = node->state;
    wharf_status status =
        wi_comm_allgather(node->comm, &shown, sizeof shown, all, deadline);
    if (status == WHARF_OK)
        status = compare_calls(all, node->size);
    if (status != WHARF_OK)
        return status;
    status = compare_states(all, node->size);
    if (status != WHARF_OK && mine->call != WI_CALL_CLOSE)
        return status;
    node->apart = status != WHARF_OK;
    for (int r = 0; r < node->size; r++)
        if (all[r].status != WHARF_OK)
            return wi_comm_agree(node->comm, (wharf_status)mine->status,
                                 deadline);
    return compare_all(all, node->size);
}

#undef wi_node_meet
wharf_status wi_node_meet(wharf_node *node, const wi_meeting *mine,
                          wi_meeting *all, wi_deadline deadline)
{
    node->apart = false;
    wharf_status status = meet(node, mine, all, deadline);
    if (status == WHARF_ETIMEDOUT)
        node->apart = true;
    return status;
}
