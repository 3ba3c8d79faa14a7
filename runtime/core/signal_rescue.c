/* SPDX-License-Identifier: MIT */
/*
 * Waiting for this rank's own work when signals that it waits for may never
 * come: a peer that is dead or silent must not make destroy and close hang.
 * While the caller waits for its GPU, a watcher looks for deaths and at the
 * deadline; then it writes what the streams wait for. What they do after that
 * works on stale data, but the node is of no use any more.
 *
 * The watcher's thread is started with the node: when it is needed it may be
 * too late to get one.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
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

struct wi_rescue {
    wharf_node *node;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool waiting;         /* the caller waits for its GPU */
    uint64_t wait_number; /* of that wait, so that the next one is another */
    wi_deadline deadline; /* of that wait */
    bool ended;
};

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

/* Under the lock: has the caller's wait of that number ended? */
static bool is_over(const wi_rescue *rescue, uint64_t number)
{
    return !rescue->waiting || rescue->wait_number != number;
}

static bool sleep_over(wi_rescue *rescue, uint64_t number, int ms)
{
    if (!is_over(rescue, number))
        wi_cond_wait(&rescue->changed, &rescue->lock, wi_deadline_in_ms(ms));
    return is_over(rescue, number);
}

/* Under the lock, during one wait of the caller's. */
static void watch_wait(wi_rescue *rescue)
{
    uint64_t number = rescue->wait_number;
    wharf_status alive = WHARF_OK;
    while (!sleep_over(rescue, number, LOOK_MS) && alive == WHARF_OK &&
           !wi_deadline_run_out(rescue->deadline))
        alive = wi_comm_check_alive(rescue->node->comm, -1);
    if (is_over(rescue, number))
        return;
    if (alive != WHARF_OK)
        wi_log(WI_LOG_WARN,
               "rank %d is dead: streams that wait for its signals go on "
               "without them",
               wi_error_record()->rank);
    else
        wi_log(WI_LOG_WARN, "streams that waited for other ranks' signals "
                            "past the deadline go on without them");
    do
        let_go(rescue->node);
    while (!sleep_over(rescue, number, MARK_MS));
}

static void *watch(void *argument)
{
    wi_rescue *rescue = argument;
    wi_trace_thread("wharf peers");
    wi_call_begin("watching for dead ranks", rescue->node->rank);
    pthread_mutex_lock(&rescue->lock);
    while (!rescue->ended)
        if (rescue->waiting)
            watch_wait(rescue);
        else
            wi_cond_wait(&rescue->changed, &rescue->lock, WI_NEVER);
    pthread_mutex_unlock(&rescue->lock);
    wharf_ignore(wi_call_end(WHARF_OK));
    return NULL;
}

static void rescue_free(wi_rescue *rescue)
{
    pthread_cond_destroy(&rescue->changed);
    pthread_mutex_destroy(&rescue->lock);
    wi_free(rescue);
}

wharf_status wi_rescue_start(wharf_node *node)
{
    wi_rescue *rescue;
    if (!WI_NEW(rescue))
        return WHARF_ENOMEM;
    rescue->node = node;
    pthread_mutex_init(&rescue->lock, NULL);
    wi_cond_init(&rescue->changed);
    wharf_status status = wi_thread_start(
        &rescue->thread, watch, rescue, "a thread that watches for dead ranks");
    if (status == WHARF_OK)
        node->rescue = rescue;
    else
        rescue_free(rescue);
    return status;
}

/* Under the lock from here to the end. */
static void tell(wi_rescue *rescue)
{
    pthread_cond_signal(&rescue->changed);
    pthread_mutex_unlock(&rescue->lock);
}

void wi_rescue_stop(wharf_node *node)
{
    wi_rescue *rescue = node->rescue;
    if (!rescue)
        return;
    pthread_mutex_lock(&rescue->lock);
    rescue->ended = true;
    tell(rescue);
    pthread_join(rescue->thread, NULL);
    rescue_free(rescue);
    node->rescue = NULL;
}

wharf_status wi_signal_quiesce(wharf_node *node)
{
    wi_device *device = node->device;
    wi_rescue *rescue = node->rescue;
    bool signals = node->notifies || node->barriers || node->rings ||
                   node->exchanges ||
                   __atomic_load_n(&node->event_waits, __ATOMIC_RELAXED);
    if (!rescue || !signals)
        return device->ops->quiesce(device);
    pthread_mutex_lock(&rescue->lock);
    rescue->deadline = wi_node_deadline(node);
    rescue->wait_number++;
    rescue->waiting = true;
    tell(rescue);
    wharf_status status = device->ops->quiesce(device);
    pthread_mutex_lock(&rescue->lock);
    rescue->waiting = false;
    tell(rescue);
    return status;
}
