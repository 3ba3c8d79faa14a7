/* SPDX-License-Identifier: MIT */
/*
 * How every collective call starts: the ranks show each other what they were
 * asked for. Whoever objects does so here, still takes part, and everybody
 * leaves with the same status.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/core.h"

static const char *call_name(uint32_t call)
{
    switch (call) {
    case WI_CALL_ATTACH:
        return "wharf_buffer_attach";
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
                                           : "count";
}

/* What space and flags are in the call. */
static bool is_signal(uint32_t call)
{
    return call == WI_CALL_NOTIFY_CREATE || call == WI_CALL_BARRIER_CREATE;
}

static wharf_status compare_one(int rank, const wi_meeting *m,
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
    if (m->count != first->count)
        return mismatch(rank, m, count_name(m->call),
                        (unsigned long long)m->count,
                        (unsigned long long)first->count);
    if (m->space != first->space)
        return mismatch(rank, m, is_signal(m->call) ? "mechanism" : "space",
                        m->space, first->space);
    if (m->flags != first->flags)
        return mismatch(rank, m, is_signal(m->call) ? "capturable" : "flags",
                        m->flags, first->flags);
    if (strncmp(m->name, first->name, sizeof m->name) != 0) {
        wi_fail(WHARF_EMISMATCH, same_value,
                "rank %d passed name \"%.31s\", rank 0 passed \"%.31s\"", rank,
                m->name, first->name);
        return blame(rank, m);
    }
    return WHARF_OK;
}

wharf_status wi_meeting_compare(const wi_meeting *all, int size)
{
    wharf_status st = WHARF_OK;
    for (int r = 1; r < size && st == WHARF_OK; r++)
        st = compare_one(r, &all[r], &all[0]);
    return st;
}

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

wharf_status wi_node_meet(wharf_node *node, const wi_meeting *mine,
                          wi_meeting *all, wi_deadline deadline)
{
    wharf_status st =
        wi_comm_allgather(node->comm, mine, sizeof *mine, all, deadline);
    if (st != WHARF_OK)
        return st;
    for (int r = 0; r < node->size; r++)
        if (all[r].status != WHARF_OK)
            return wi_comm_agree(node->comm, (wharf_status)mine->status,
                                 deadline);
    return wi_meeting_compare(all, node->size);
}
