/* SPDX-License-Identifier: MIT */
/*
 * Handles that a caller cannot confuse: each names a slot and a generation, so
 * that one used after its object is gone is recognised, and none is a valid
 * address.
 */
#include <stdlib.h>

#include "fake.h"

typedef struct fc_slot {
    void *object;
    uint32_t generation;
    uint32_t next_free; /* index + 1 */
    uint8_t kind;
    bool with_context; /* the object went down with its context */
} fc_slot;

static fc_slot *slots;
static uint32_t slot_count, slot_room;
/* First in, first out: a slot keeps its memory of the dead as long as it can.
 */
static uint32_t free_head, free_tail;

/* A primary context was made anew: the driver follows handles of the earlier
 * one into freed memory. */
static bool made_again;

static const char *const kind_names[] = {
    "?",          "context",    "stream",   "event",  "memory handle",
    "module",     "library",    "function", "kernel", "graph",
    "graph node", "graph exec", "pool"};

static uint64_t handle_make(fc_kind kind, uint32_t index)
{
    return (uint64_t)(kind + 0x10) << 56 |
           (uint64_t)slots[index].generation << 24 | index;
}

uint64_t fc_handle_new(fc_kind kind, void *object)
{
    uint32_t i;

    /* Keep some free slots as tombstones before reusing the oldest. */
    if (free_head && slot_count >= 4096) {
        i = free_head - 1;
        free_head = slots[i].next_free;
        if (!free_head)
            free_tail = 0;
    } else {
        if (slot_count == slot_room) {
            slot_room = slot_room ? slot_room * 2 : 256;
            slots = realloc(slots, slot_room * sizeof *slots);
            if (!slots)
                abort();
        }
        i = slot_count++;
        slots[i] = (fc_slot){.generation = 0};
    }
    slots[i].object = object;
    slots[i].generation++;
    slots[i].kind = (uint8_t)kind;
    slots[i].with_context = false;
    return handle_make(kind, i);
}

static fc_slot *slot_of(fc_kind kind, uint64_t handle)
{
    uint32_t i = handle & 0xffffff;

    if (handle >> 56 != (uint64_t)kind + 0x10 || i >= slot_count)
        return NULL;
    return &slots[i];
}

void *fc_handle_peek(fc_kind kind, uint64_t handle)
{
    fc_slot *s = slot_of(kind, handle);

    if (!s || !s->object || s->generation != (uint32_t)(handle >> 24))
        return NULL;
    return s->object;
}

CUresult fc_handle_get(fc_kind kind, uint64_t handle, const char *call,
                       void **object)
{
    fc_slot *s = slot_of(kind, handle);

    *object = fc_handle_peek(kind, handle);
    if (*object)
        return CUDA_SUCCESS;
    if (!handle)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s && s->generation == (uint32_t)(handle >> 24) && s->with_context &&
        !made_again)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    fc_violate("%s: %s a %s (0x%llx)", call,
               s ? "use of a destroyed handle of" : "not a handle of",
               kind_names[kind], (unsigned long long)handle);
    return CUDA_ERROR_INVALID_HANDLE;
}

void fc_handle_hold(uint64_t handle)
{
    uint32_t i = handle & 0xffffff;

    slots[i].object = NULL;
    slots[i].with_context = true;
    made_again = false;
}

uint64_t fc_handle_again(uint64_t handle, void *object)
{
    slots[handle & 0xffffff].object = object;
    made_again = true;
    return handle;
}

void fc_handle_free(uint64_t handle, bool with_context)
{
    uint32_t i = handle & 0xffffff;

    slots[i].object = NULL;
    slots[i].with_context = with_context;
    slots[i].next_free = 0;
    if (free_tail)
        slots[free_tail - 1].next_free = i + 1;
    else
        free_head = i + 1;
    free_tail = i + 1;
}

void fc_handle_each(fc_kind kind, void (*visit)(void *object, void *user),
                    void *user)
{
    for (uint32_t i = 0; i < slot_count; i++)
        if (slots[i].object && slots[i].kind == kind)
            visit(slots[i].object, user);
}
