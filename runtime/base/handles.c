/* SPDX-License-Identifier: MIT */
/*
 * The live handles: a hash set with open addressing, under one mutex.
 *
 * The table is freed when the last handle goes, so that a program which has
 * closed everything holds nothing.
 *
 * A forked child inherits the table and perhaps a locked mutex. Neither MPI
 * nor CUDA works there, so it is turned away before it touches either.
 */
#include "base/handles.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

typedef struct slot {
    const void *object; /* NULL: free */
    wi_handle_type type;
} slot;

static struct {
    pthread_mutex_t lock;
    slot *slots;     /* capacity of them, or NULL */
    size_t capacity; /* a power of two, at least twice count */
    size_t count;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Process that made the first handle, 0: none yet. Atomic, because it is read
 * before the lock is taken. */
static pid_t table_maker;

#define FIRST_CAPACITY 64

static size_t slot_home(const void *object, size_t capacity)
{
    uint64_t key = (uint64_t)(uintptr_t)object;

    /* Fibonacci hashing: heap addresses differ in few, middle bits. */
    return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) &
           (capacity - 1);
}

/* The object's slot, or the free one where it would go. There always is a free
 * one, because the table is at most half full. */
static slot *slot_find(slot *slots, size_t capacity, const void *object)
{
    size_t at = slot_home(object, capacity);

    while (slots[at].object && slots[at].object != object)
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static wharf_status table_grow(void)
{
    size_t capacity = table.capacity ? 2 * table.capacity : FIRST_CAPACITY;
    slot *slots = wi_calloc(capacity, sizeof *slots);

    if (!slots)
        return WHARF_ENOMEM;
    for (size_t i = 0; i < table.capacity; i++)
        if (table.slots[i].object)
            *slot_find(slots, capacity, table.slots[i].object) = table.slots[i];
    wi_free(table.slots);
    table.slots = slots;
    table.capacity = capacity;
    return WHARF_OK;
}

/* Closes the gap that a removed slot leaves: a search stops at a free slot, so
 * every slot behind that was pushed past the gap moves into it. */
static void gap_close(size_t gap)
{
    size_t mask = table.capacity - 1;

    for (size_t at = (gap + 1) & mask; table.slots[at].object;
         at = (at + 1) & mask) {
        size_t home = slot_home(table.slots[at].object, table.capacity);

        if (((at - home) & mask) < ((at - gap) & mask))
            continue;
        table.slots[gap] = table.slots[at];
        table.slots[at].object = NULL;
        gap = at;
    }
}

/* Every call asks whether it is in a forked child, and getpid is a system call,
 * a third of what a small put costs: so forks are watched. */
static bool forks_watched;
static int forked; /* atomic; 1 in a child of the maker */

static void forked_child(void)
{
    __atomic_store_n(&forked, 1, __ATOMIC_RELAXED);
}

static void forks_watch(void)
{
    forks_watched = pthread_atfork(NULL, NULL, forked_child) == 0;
}

/* 0: this process, or no handle was ever made. Else the maker. */
static pid_t other_maker(void)
{
    pid_t maker = __atomic_load_n(&table_maker, __ATOMIC_ACQUIRE);

    if (maker == 0)
        return 0;
    if (forks_watched)
        return __atomic_load_n(&forked, __ATOMIC_RELAXED) ? maker : 0;
    return maker == getpid() ? 0 : maker;
}

static wharf_status fork_refuse(const char *what, pid_t maker)
{
    return wi_fail(WHARF_ESTATE,
                   "use Wharf in the process that opened the node, or in a "
                   "child started by exec",
                   "%s is used in a forked child of process %d", what,
                   (int)maker);
}

wharf_status wi_handle_add(const void *object, wi_handle_type type)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    wharf_status status = WHARF_OK;
    pid_t nobody = 0;

    pthread_once(&once, forks_watch);
    __atomic_compare_exchange_n(&table_maker, &nobody, getpid(), 0,
                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (other_maker())
        return fork_refuse("a new object", other_maker());

    pthread_mutex_lock(&table.lock);
    if (2 * (table.count + 1) > table.capacity)
        status = table_grow();
    if (status == WHARF_OK) {
        slot *at = slot_find(table.slots, table.capacity, object);

        table.count += at->object == NULL;
        at->object = object;
        at->type = type;
    }
    pthread_mutex_unlock(&table.lock);
    return status;
}

void wi_handle_remove(const void *object)
{
    slot *at;

    if (!object || other_maker())
        return;
    pthread_mutex_lock(&table.lock);
    if (table.count > 0) {
        at = slot_find(table.slots, table.capacity, object);
        if (at->object) {
            at->object = NULL;
            gap_close((size_t)(at - table.slots));
            table.count--;
        }
        if (table.count == 0) {
            wi_free(table.slots);
            table.slots = NULL;
            table.capacity = 0;
        }
    }
    pthread_mutex_unlock(&table.lock);
}

#undef wi_handle_check
wharf_status wi_handle_check(const void *object, wi_handle_type type,
                             const char *what)
{
    int live = 0;

    if (!object)
        return wi_fail(WHARF_EARG, "pass what the call that made it returned",
                       "the %s is NULL", what);
    if (other_maker())
        return fork_refuse(what, other_maker());

    pthread_mutex_lock(&table.lock);
    if (table.count > 0) {
        const slot *at = slot_find(table.slots, table.capacity, object);

        live = at->object == object && at->type == type;
    }
    pthread_mutex_unlock(&table.lock);
    if (live)
        return WHARF_OK;
    return wi_fail(WHARF_ESTATE,
                   "do not use a handle after the call that gave it back",
                   "%p is no live %s", object, what);
}
