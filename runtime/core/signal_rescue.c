/* SPDX-License-Identifier: MIT */
/*
 * Waiting for this rank's own work when signals that it waits for may never
 * come: a peer that is dead or silent must not make destroy and close hang.
 * While the caller waits for its GPU, a watcher looks for deaths and at the
 * deadline; then it writes what the streams wait for. What they do after that
 * works on stale data, but the node is of no use any more.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/trace.h"
#include "core/barrier.h"
#include "core/core.h"
#include "core/exchange.h"
#include "core/notify.h"
#include "core/ring.h"
#include "core/signal.h"

/* More signals than any number of queued waits, and not negative. */
#define PLENTY UINT32_C(0x40000000)

/* How often the watcher looks, and how often it sets marks anew, which each
 * wait clears. */
#define LOOK_MS 50
#define MARK_MS 1

typedef struct watcher {
    wharf_node *node;
    wi_deadline deadline;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool over;
} watcher;

static void put(const wharf_node *node, void *word, uint32_t value)
{
    wharf_ignore(
        node->device->ops->write(node->device, word, &value, sizeof value));
}

static void notify_let_go(const wharf_notify *notify)
{
    const wharf_node *node = notify->node;
    if (node->rank != notify->waiter)
        return;
    for (int r = 0; r < node->size; r++)
        if (r != notify->waiter)
            put(node, wi_pad_word(node, &notify->run, r),
                notify->way[r].counts ? PLENTY : notify->epoch[r]);
}

static void steps_let_go(const wharf_node *node, const wi_barrier_steps *steps,
                         uint32_t epoch)
{
    for (int i = 0; i < steps->count; i++)
        switch (steps->step[i].kind) {
        case WI_SYNC_TAKE:
            put(node, steps->step[i].address, PLENTY);
            break;
        case WI_SYNC_WAIT:
            put(node, steps->step[i].address, epoch);
            break;
        case WI_SYNC_EXPECT:
            put(node, steps->step[i].address, 1);
            break;
        }
}

static void let_go(wharf_node *node)
{
    for (const wharf_notify *n = node->notifies; n; n = n->next)
        notify_let_go(n);
    for (const wharf_barrier *b = node->barriers; b; b = b->next)
        if (b->me >= 0) {
            steps_let_go(node, &b->plain, b->epoch);
            steps_let_go(node, &b->marks, 0);
        }
    for (const wharf_exchange *x = node->exchanges; x; x = x->next)
        wi_exchange_let_go(x);
    wi_event_word_let_go(node);
    wi_ring_let_go(node);
}

/* Sleeps under the lock; true once the caller's work is complete. */
static bool sleep_over(watcher *w, int ms)
{
    if (!w->over)
        wi_cond_wait(&w->wake, &w->lock, wi_deadline_in_ms(ms));
    return w->over;
}

static void *watch(void *argument)
{
    watcher *w = argument;
    wharf_status alive = WHARF_OK;
    wi_trace_thread("wharf peers");
    wi_call_begin("watching for dead ranks", w->node->rank);
    pthread_mutex_lock(&w->lock);
    while (!sleep_over(w, LOOK_MS) && alive == WHARF_OK &&
           !wi_deadline_passed(w->deadline))
        alive = wi_comm_check_alive(w->node->comm, -1);
    if (!w->over) {
        if (alive != WHARF_OK)
            wi_log(WI_LOG_WARN,
                   "rank %d is dead: streams that wait for its signals go on "
                   "without them",
                   wi_error_record()->rank);
        else
            wi_log(WI_LOG_WARN, "streams that waited for other ranks' signals "
                                "past the deadline go on without them");
    }
    while (!w->over) {
        let_go(w->node);
        sleep_over(w, MARK_MS);
    }
    pthread_mutex_unlock(&w->lock);
    wharf_ignore(wi_call_end(WHARF_OK));
    return NULL;
}

static bool watcher_start(watcher *w, wharf_node *node, pthread_t *thread)
{
    *w = (watcher){.node = node, .deadline = wi_node_deadline(node)};
    pthread_mutex_init(&w->lock, NULL);
    wi_cond_init(&w->wake);
    if (wi_thread_start(thread, watch, w,
                        "a thread that watches for dead ranks") == WHARF_OK)
        return true;
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    return false;
}

static void watcher_stop(watcher *w, pthread_t thread)
{
    pthread_mutex_lock(&w->lock);
    w->over = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(thread, NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
}

wharf_status wi_signal_quiesce(wharf_node *node)
{
    wi_device *device = node->device;
    watcher w;
    pthread_t thread;
    bool signals = node->notifies || node->barriers || node->rings ||
                   node->exchanges ||
                   __atomic_load_n(&node->event_waits, __ATOMIC_RELAXED);
    /* Without a thread the call may have to wait for a dead rank. */
    if (node->backend == WHARF_BACKEND_HOST || !signals ||
        !watcher_start(&w, node, &thread))
        return device->ops->quiesce(device);
    wharf_status st = device->ops->quiesce(device);
    watcher_stop(&w, thread);
    return st;
}
